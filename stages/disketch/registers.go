package disketch

import (
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/record"
)

// What follows is for a module without workers: its fragments are counted in the registers of a P4
// target, and who reads these gives what they counted to Emit. The schedules, the target that is found
// and the records are the same as those of workers that see the same packets.

// Shortest keeps subepochs at 2^bits ns and longer, but for halves of the epoch: a target has to
// be read once in each. To be called before Begin.
func (m *Module) Shortest(bits uint8) error {
	for _, f := range m.fragments {
		c := f.plan.Config()
		c.MaxLog = uint8(max(min(int(c.Epochs)-int(bits), int(c.MaxLog)), 1))
		c.Slices = 0
		plan, err := disketch.NewFragment(c)
		if err != nil {
			return err
		}
		f.plan = plan
	}
	return nil
}

// Fragments is how many fragments there are.
func (m *Module) Fragments() int { return len(m.fragments) }

// Fragment is the configuration of a fragment.
func (m *Module) Fragment(number int) disketch.Config { return m.fragments[number].plan.Config() }

// Begin plans an epoch of a fragment, by the records of epochs before it that were emitted. Beginning
// it again gives the same schedule.
func (m *Module) Begin(fragment int, number uint64) disketch.Schedule {
	s, _ := m.fragments[fragment].begin(number)
	return s
}

// Slice is the span of the clock of a subepoch.
func (m *Module) Slice(s disketch.Schedule, subepoch uint64) epoch.Slice {
	shift := uint8(m.config.epochs()) - s.Log
	return epoch.Slice{Start: int64((s.Epoch<<s.Log + subepoch) << shift), Shift: shift}
}

// Emit makes the record of what a fragment counted in a subepoch of an epoch that was begun.
// Where the cells are not what was counted it returns why, and the record says that all was missed.
func (m *Module) Emit(fragment int, s disketch.Schedule, subepoch uint64, n *disketch.Counts, missed uint64, partial bool, emit record.Emit) error {
	f := m.fragments[fragment]
	if f.loaded == nil {
		f.loaded = f.counter()
	}
	err := f.loaded.Load(s, subepoch, n)
	if err != nil {
		missed, partial = missed+n.Seen, true
	}
	f.emit(&epoch.Merged[disketch.Counter]{Slice: m.Slice(s, subepoch), Missed: missed, Partial: partial, Cells: f.loaded}, emit)
	return err
}
