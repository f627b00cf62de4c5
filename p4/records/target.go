package records

// Target is a switch that runs the program p4/v1model/weir.p4, as its control plane sees it. Names
// of registers are those of the program, without what precedes them.
type Target interface {
	// Registers reads all cells of a register.
	Registers(name string) ([]uint64, error)
	// WriteRegister writes a cell.
	WriteRegister(name string, index int, value uint64) error
}

// array is a register, or two that have the halves of its numbers, with what its cells were when they were
// last taken. Differences are modulo 2^bits.
type array struct {
	name   string
	bits   uint8
	halves bool
	before []uint64
	now    []uint64
}

// read reads all cells.
func (a *array) read(t Target) (err error) {
	if !a.halves {
		a.now, err = t.Registers(a.name)
		return err
	}
	high, err := t.Registers(a.name + "_high")
	if err != nil {
		return err
	}
	low, err := t.Registers(a.name + "_low")
	if err != nil {
		return err
	}
	if len(a.now) != len(low) {
		a.now = make([]uint64, len(low))
	}
	for i := range min(len(low), len(high)) {
		a.now[i] = high[i]<<32 | low[i]
	}
	return nil
}

// take is what came to a cell since it was last taken.
func (a *array) take(i int) uint64 {
	if i >= len(a.now) {
		return 0
	}
	if len(a.before) != len(a.now) {
		a.before = make([]uint64, len(a.now))
	}
	d := a.now[i] - a.before[i]
	a.before[i] = a.now[i]
	return d << (64 - a.bits) >> (64 - a.bits)
}

// readAll reads several arrays.
func readAll(t Target, arrays ...*array) error {
	for _, a := range arrays {
		if err := a.read(t); err != nil {
			return err
		}
	}
	return nil
}

// forget takes all that came up to the last reading: it is not counted.
func forget(arrays ...*array) {
	for _, a := range arrays {
		for i := range a.now {
			a.take(i)
		}
	}
}
