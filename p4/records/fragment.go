package records

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/p4/tables"
	stage "github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/record"
)

// fragment reads one fragment of a disaggregated sketch. The schedules of two epochs are in the
// switch: that of the present one and the next.
type fragment struct {
	*source
	module    *stage.Module
	number    int
	epochs    disketch.Epochs
	cellCount int // of all levels

	cells, packets, value, seen, missed array
	torn                                [2]bool // by bank: packets were counted while the reading before was made

	now, next schedule
	subepoch  uint64 // the one that is to be read next
	partial   bool   // it was not counted from its beginning on
}

// schedule is an epoch's plan: how flows are counted, the bank of subepoch 0, and whether the
// switch was told too late.
type schedule struct {
	disketch.Schedule
	flip uint64
	late bool
}

// newFragment begins in the epoch of now.
func newFragment(s *source, m *stage.Module, number int, now int64) (*fragment, error) {
	c := m.Fragment(number)
	name := func(register string) string { return fmt.Sprintf("disketch_egress.fragment_%d.%s", number, register) }
	f := &fragment{
		source: s, module: m, number: number, epochs: c.Epochs, cellCount: c.NumLevels() * c.Width(),
		cells:   array{name: name("cells"), bits: 32},
		packets: array{name: name("packets"), bits: 64}, value: array{name: name("value"), bits: 64},
		seen: array{name: name("seen"), bits: 64}, missed: array{name: name("missed"), bits: 64},
	}
	if err := readAll(s.target, f.arrays()...); err != nil {
		return nil, err
	}
	return f, f.enter(now)
}

func (f *fragment) arrays() []*array {
	return []*array{&f.cells, &f.packets, &f.value, &f.seen, &f.missed}
}

// enter begins in the midst of an epoch: what the switch had counted at the last reading is not counted.
func (f *fragment) enter(now int64) error {
	number := f.epochs.Epoch(uint64(now))
	f.now = schedule{Schedule: f.module.Begin(f.number, number), flip: number & 1}
	err := f.configure(f.now)
	forget(f.arrays()...)
	f.subepoch = f.epochs.Subepoch(uint64(now), f.now.Log)
	f.partial = now != f.module.Slice(f.now.Schedule, f.subepoch).Start
	return errors.Join(err, f.plan())
}

// plan begins the epoch behind the present one, and configures the switch.
func (f *fragment) plan() error {
	// The banks take turns also where an epoch has one subepoch.
	f.next = schedule{Schedule: f.module.Begin(f.number, f.now.Epoch+1), flip: f.now.flip ^ f.now.N()&1}
	err := f.configure(f.next)
	f.next.late = err != nil || f.clock() >= f.module.Slice(f.next.Schedule, 0).Start
	return err
}

func (f *fragment) configure(e schedule) error {
	return f.write(tables.ScheduleRegisters(f.number, e.Schedule, e.flip != 0))
}

// collect emits the subepochs that are over, and the last time all that was counted.
func (f *fragment) collect(now int64, last bool, emit record.Emit) error {
	for {
		slice := f.module.Slice(f.now.Schedule, f.subepoch)
		over, settled := now >= slice.End(), now >= slice.End()+f.settle
		if !settled && !last {
			return nil
		}
		if err := readAll(f.target, f.arrays()...); err != nil {
			return err
		}
		if f.clock() >= f.reused() {
			return f.lose(now, emit)
		}
		f.emit(!settled, emit)
		if !over {
			return nil
		}
		if err := f.advance(); err != nil {
			return err
		}
	}
}

// reused is when the bank of the subepoch has its next turn: behind the subepoch that follows.
func (f *fragment) reused() int64 {
	if f.subepoch+1 < f.now.N() {
		return f.module.Slice(f.now.Schedule, f.subepoch+1).End()
	}
	return f.module.Slice(f.next.Schedule, 0).End()
}

// advance goes on to the next subepoch.
func (f *fragment) advance() error {
	f.partial = false
	if f.subepoch++; f.subepoch < f.now.N() {
		return nil
	}
	f.now, f.subepoch = f.next, 0
	f.partial = f.now.late
	return f.plan()
}

// emit makes a record of the subepoch's bank. Of one whose reading before is torn, as its cells were read ahead
// of its sums, all is missed.
func (f *fragment) emit(partial bool, emit record.Emit) {
	bank := int(f.subepoch&1 ^ f.now.flip)
	n := disketch.Counts{
		Cells: make([]int32, f.cellCount), Packets: f.packets.take(bank), Value: f.value.take(bank), Seen: f.seen.take(bank),
	}
	for i := range n.Cells {
		n.Cells[i] = int32(f.cells.take(bank<<fragmentColumnBits | i))
	}
	missed := f.missed.take(0)
	if f.torn[bank] {
		missed += n.Seen
		n, partial = disketch.Counts{Cells: make([]int32, f.cellCount)}, true
		f.torn[bank] = false
	}
	f.fail(f.module.Emit(f.number, f.now.Schedule, f.subepoch, &n, missed, partial || f.partial, emit))
}

// lose gives up what was read too late, and begins anew. The record says how many packets that were. While that was
// read a bank was counted, and then maybe the other.
func (f *fragment) lose(now int64, emit record.Emit) error {
	missed := f.seen.take(0) + f.seen.take(1) + f.missed.take(0)
	f.late.Add(1)
	f.torn = [2]bool{true, true}
	n := disketch.Counts{Cells: make([]int32, f.cellCount)}
	f.fail(f.module.Emit(f.number, f.now.Schedule, f.subepoch, &n, missed, true, emit))
	return f.enter(max(now, f.clock()))
}
