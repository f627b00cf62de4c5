package records

import (
	stage "github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

// side reads the measurement points on one side of the switch.
type side struct {
	*source
	module *stage.Module
	shape  lds.Config
	points []*lds.Point

	sum, count, digest, bytes, packets, outside array
	torn                                        [2]bool // by an interval's parity: packets were counted while the reading before was made

	bits   uint8
	byShim bool
	begun  int64 // when counting began
	ended  int64 // and ended; 0: it has not
	number int64 // the interval that is to be read next
	cells  []lds.Cell
}

// newSide begins in the interval of now. name is the stage's.
func newSide(s *source, name string, m *stage.Module, now int64) (*side, error) {
	number := func(register string, halves bool) array {
		return array{name: name + ".side." + register, bits: 64, halves: halves}
	}
	d := &side{
		source: s, module: m,
		sum: number("cell_sum", true), count: number("cell_count", false), digest: number("cell_digest", true), bytes: number("cell_bytes", false),
		packets: number("packets", false), outside: number("outside", false),
	}
	d.bits, d.byShim = m.IntervalBits()
	d.shape = m.NewPoint().Config()
	for range m.Ports() {
		d.points = append(d.points, m.NewPoint())
	}
	d.cells = make([]lds.Cell, d.shape.Rows*d.shape.Columns)
	if err := readAll(s.target, d.arrays()...); err != nil {
		return nil, err
	}
	d.enter(now)
	return d, nil
}

func (d *side) arrays() []*array {
	return []*array{&d.sum, &d.count, &d.digest, &d.bytes, &d.packets, &d.outside}
}

// enter begins in the midst of an interval: what the switch had counted at the last reading is not counted.
func (d *side) enter(now int64) {
	forget(d.arrays()...)
	d.begun, d.number = now, now>>d.bits
	if d.byShim && now < d.complete(d.number-1) {
		d.number-- // There may be packets of it that come late.
	}
}

// partial says that an interval began before counting did; of one that a shim gives, packets that came
// early in the interval before are missing too.
func (d *side) partial(number int64) bool {
	return number<<d.bits < d.begun || d.byShim && number<<d.bits == d.begun
}

// complete is when no packet of an interval can come any more: at its end or, where a shim gives the
// interval, in the middle of the next, before which its packets come late, and behind which those of the
// one after that come early.
func (d *side) complete(number int64) int64 {
	end := (number + 1) << d.bits
	if d.byShim {
		end += 1 << d.bits >> 1
	}
	return end
}

// reused is when the bank of an interval may be written again. By the shim it is when the next packets
// might come that are early by an eighth of an interval.
func (d *side) reused(number int64) int64 {
	end := (number + 2) << d.bits
	if d.byShim {
		end -= 1 << d.bits >> 3
	}
	return end
}

// collect emits the intervals that are over.
func (d *side) collect(now int64, last bool, emit record.Emit) error {
	for now >= d.complete(d.number)+d.settle {
		if err := readAll(d.target, d.arrays()...); err != nil {
			return err
		}
		if d.clock() >= d.reused(d.number) {
			d.lose(now, emit)
			return nil
		}
		d.emit(false, emit)
	}
	if !last {
		return nil
	}
	return d.finish(now, emit)
}

// finish emits what is there of intervals that are not over.
func (d *side) finish(now int64, emit record.Emit) error {
	d.ended = now
	if err := readAll(d.target, d.arrays()...); err != nil {
		return err
	}
	for d.number < now>>d.bits {
		d.emit(now < d.complete(d.number), emit)
	}
	d.emit(true, emit)
	if d.byShim {
		d.emit(true, emit) // packets that came early for the next one
	}
	return nil
}

// emit makes records of the interval's bank, and goes on to the next one. Of a bank whose reading before is torn, as
// its cells were read ahead of its sums, all is missed.
func (d *side) emit(partial bool, emit record.Emit) {
	number := d.number
	d.number++
	torn := d.torn[number&1]
	d.torn[number&1] = false
	for i, p := range d.points {
		d.load(i, p, number)
		counted, missed := p.Packets()+p.Outside(), uint64(0)
		if (number+1)<<d.bits <= d.begun || d.ended != 0 && number<<d.bits > d.ended {
			// Before counting began or behind its end: packets that came late or early.
			if counted == 0 {
				continue
			}
		}
		if torn {
			p.Begin(number)
			missed = counted
		}
		if partial || torn || d.partial(number) {
			p.Mark(lds.Partial)
		}
		d.module.Emit(i, p, missed, emit)
	}
}

// load makes a point of the registers of an interval's bank.
func (d *side) load(i int, p *lds.Point, number int64) {
	bank := i<<1 | int(number&1)
	for row := range d.shape.Rows {
		for column := range d.shape.Columns {
			at := (bank<<ldsRowBits|row)<<ldsColumnBits | column
			d.cells[row*d.shape.Columns+column] = lds.Cell{
				Sum: int64(d.sum.take(at)), Count: d.count.take(at), Digest: uint32(d.digest.take(at)), Bytes: d.bytes.take(at),
			}
		}
	}
	d.fail(p.Load(number, d.packets.take(bank), d.outside.take(bank), d.cells))
}

// lose gives up what was read too late, and begins anew. The records say how many packets that were. While that was
// read a bank was counted, and then maybe the other.
func (d *side) lose(now int64, emit record.Emit) {
	d.late.Add(1)
	d.torn = [2]bool{true, true}
	for i, p := range d.points {
		p.Begin(d.number)
		p.Mark(lds.Partial)
		missed := uint64(0)
		for bank := range 2 {
			missed += d.packets.take(i<<1|bank) + d.outside.take(i<<1|bank)
		}
		d.module.Emit(i, p, missed, emit)
	}
	d.enter(max(now, d.clock()))
}
