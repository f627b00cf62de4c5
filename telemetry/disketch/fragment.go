package disketch

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// ID names a fragment in the network.
type ID struct {
	Switch uint64
	// Sketch is the number of the sketch that the fragment is a row of. Switches
	// may hold rows of several, of other keys or kinds.
	Sketch uint16
}

func (id ID) String() string { return fmt.Sprintf("sketch %d of switch %d", id.Sketch, id.Switch) }

// Unit is what cells count.
type Unit uint8

const (
	Packets Unit = iota
	Bytes
)

// Config describes a fragment. Sketch, Kind, Levels, Epochs, Seed and Hash are the
// same in all fragments of a sketch; Memory is the switch's own.
type Config struct {
	ID   ID
	Kind Kind
	Unit Unit
	// Memory for the cells, in bytes, of one copy. All of it is used.
	Memory int
	// Levels of UnivMon; 0 means 16.
	Levels int
	Epochs Epochs
	// Seed of the network.
	Seed uint64
	// Hash is the family by which flows get subepochs, levels and cells.
	Hash hash.Family
	// Target is the error rho that all fragments aim at, in the unit of the cells
	// per subepoch, by Equation 6. 0: n is what Aim says, 1 before; some epochs
	// then have n = 1 and are counted in slices (see Plan), to choose it from.
	Target float64
	// SingleHop counts flows that pass no other switch in two subepochs.
	SingleHop bool
	// MaxLog bounds n = 2^x; 0 means MaxLog.
	MaxLog uint8
	// Slices is the logarithm of how many slices some epochs are counted in where there is no target, at most
	// SliceLog; 0: n stays 1 without a target and an assignment.
	Slices uint8
	// Candidates is for how many flows a row (of UnivMon each level) has room to
	// remember their keys; 0: none. Records name the flows.
	Candidates int
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var faults []error
	least := sketch.CellBytes
	if c.Kind.known() {
		least = kinds[c.Kind].least * c.levels()
	} else {
		faults = append(faults, fmt.Errorf("%v is unknown: choose among %s", c.Kind, KindNames()))
	}
	if c.Target > 0 && c.Kind.known() && !c.Kind.Flows() {
		faults = append(faults, fmt.Errorf("target error %g: epochs of kind %v are not divided: choose 0", c.Target, c.Kind))
	}
	if c.Unit > Bytes {
		faults = append(faults, fmt.Errorf("unit %d: choose packets or bytes", c.Unit))
	}
	if c.Levels < 0 || c.Levels > univmon.MaxLevels {
		faults = append(faults, fmt.Errorf("%d levels: choose 1 to %d", c.Levels, univmon.MaxLevels))
	}
	if c.Memory < least || c.Memory/sketch.CellBytes > sketch.MaxWidth {
		faults = append(faults, fmt.Errorf("memory of %d bytes: choose %d to %d", c.Memory, least, sketch.CellBytes*sketch.MaxWidth))
	}
	if err := c.Epochs.Validate(); err != nil {
		faults = append(faults, err)
	}
	if !(c.Target >= 0) || c.Target > 1e12 {
		faults = append(faults, fmt.Errorf("target error %g: choose 0 (found from the traffic) or more", c.Target))
	}
	if err := c.Hash.Check(); err != nil {
		faults = append(faults, err)
	}
	if c.MaxLog > MaxLog {
		faults = append(faults, fmt.Errorf("n up to 2^%d: choose at most 2^%d", c.MaxLog, MaxLog))
	}
	if c.Slices > SliceLog {
		faults = append(faults, fmt.Errorf("2^%d slices: choose at most 2^%d", c.Slices, SliceLog))
	}
	if c.Candidates < 0 || c.Candidates > maxCandidates/max(c.levels(), 1) {
		faults = append(faults, fmt.Errorf("%d candidates for each of %d rows: choose 0 (none) to %d", c.Candidates, c.levels(), maxCandidates/max(c.levels(), 1)))
	}
	return errors.Join(faults...)
}

// LevelSeed is the seed of UnivMon's levels, the same in all fragments and epochs.
func (c *Config) LevelSeed() uint64 { return hash.Uint64x2(c.Seed, uint64(c.ID.Sketch), 'l') }

// levels is how many rows there are.
func (c *Config) levels() int {
	switch {
	case c.Kind != UnivMon:
		return 1
	case c.Levels == 0:
		return univmon.Levels
	}
	return c.Levels
}

// step is Equation 6: the n of the next epoch, as its logarithm, from the mean
// error of an epoch with n = 2^log. It is bounded by most.
func step(log uint8, rho, target float64, most uint8) uint8 {
	switch {
	case !(target > 0):
		return log
	case rho > 2*target && log < most:
		return log + 1
	case rho < target/2 && log > 0:
		return log - 1
	}
	return log
}

// Fragment decides how many subepochs the epochs of a switch's fragment have.
// What it counts is in Counters. It is not safe for concurrent use.
//
// An epoch's error is known when its last subepoch is over and its copies are
// merged. A simulation has that before the next epoch begins; a switch has not, and
// there each epoch follows the one before the last.
type Fragment struct {
	config Config
	target float64
	// Without a target: the n to approach, as its logarithm, that of the last epoch that was
	// not looked at in slices, and what a collector assigned.
	goal, log uint8
	slices    uint8  // as Config.Slices, less after each Late
	first     uint64 // epoch that was planned first
	planned   bool
	assigned  Assignment
	load      load
	// The last epochs by their parity: their n, the errors of their subepochs so
	// far, and how many subepochs these are.
	epochs [2]epochState
}

// load is how much a fragment sees, beside what it saw when it was looked at.
type load struct {
	epoch, packets uint64 // of the latest epoch, so far
	looked         uint64 // packets of the epoch that was last looked at
	grown          bool   // an epoch since then had more than twice as many
}

// observe takes what a finished subepoch, or an epoch that was looked at, saw.
func (l *load) observe(r *Record) {
	if r.Epoch < l.epoch {
		return
	}
	if r.Epoch > l.epoch {
		l.epoch, l.packets = r.Epoch, 0
	}
	l.packets += r.Seen
	if r.Squares != nil {
		l.looked, l.grown = r.Seen, false
	} else if l.packets > 2*l.looked {
		l.grown = true
	}
}

type epochState struct {
	epoch uint64
	known bool
	log   uint8
	// slices is the logarithm of the slices to count in; 0: the subepochs themselves.
	slices uint8
	sum    float64
	count  uint64
}

// mean is Equation 5, over the subepochs that were observed.
func (e *epochState) mean() float64 { return e.sum / float64(e.count) }

// complete says that all subepochs were observed.
func (e *epochState) complete() bool { return e.known && e.count == 1<<e.log }

// NewFragment returns a fragment whose first epoch has n = 1.
func NewFragment(c Config) (*Fragment, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%v: %w", c.ID, err)
	}
	if c.MaxLog == 0 {
		c.MaxLog = MaxLog
	}
	if !c.Kind.Flows() {
		c.SingleHop = false
	}
	f := &Fragment{config: c, target: c.Target, slices: min(c.Slices, c.MaxLog, SliceLog)}
	if !kinds[c.Kind].linear {
		f.slices = 0 // Its cells are no sums of those of slices.
	}
	return f, nil
}

// Config returns the configuration, with the defaults filled in.
func (f *Fragment) Config() Config { return f.config }

// Target is the error aimed at; 0: none is known yet.
func (f *Fragment) Target() float64 { return f.target }

// SetTarget changes the target, from the next epoch on; 0: n is what Aim says.
// What is below 0 is ignored, and what comes to a kind of which epochs are not divided.
func (f *Fragment) SetTarget(rho float64) {
	if rho >= 0 && f.config.Kind.Flows() {
		f.target = rho
	}
}

// Aim sets the n to approach where there is no target, as its logarithm: each epoch
// has at most twice or half the subepochs of the one before, or one where traffic has grown since the look (Observe).
func (f *Fragment) Aim(log uint8) { f.goal = min(log, f.config.MaxLog) }

// Assignment is what a collector chose for a fragment, for the epochs From <= E < Until.
type Assignment struct {
	Log         uint8
	From, Until uint64
}

// Assign sets what a collector chose. It has precedence over Aim, and not over a target
// of the configuration; behind its last epoch the fragment goes on by itself.
func (f *Fragment) Assign(a Assignment) {
	a.Log = min(a.Log, f.config.MaxLog)
	if !f.config.Kind.Flows() {
		a.Log = 0
	}
	f.assigned = a
}

// Assigned is the assignment that is in force in an epoch; false: none is.
func (f *Fragment) Assigned(epoch uint64) (Assignment, bool) {
	a := f.assigned
	return a, f.target == 0 && epoch >= a.From && epoch < a.Until
}

// Late says that slices came faster than they could be collected: from the next epoch on there are half as many, and where
// none are left n is 1 without a target and an assignment.
func (f *Fragment) Late() {
	if f.slices > 0 {
		f.slices--
	}
}

// lookEvery is how many epochs there are between two that are looked at in slices.
const lookEvery = 16

// looked says whether an epoch is counted in slices: some early ones, and each whose number is
// a multiple of lookEvery, so that all switches of a network look at the same ones.
func (f *Fragment) looked(epoch uint64) bool {
	if f.target > 0 || f.slices == 0 {
		return false
	}
	switch epoch - f.first {
	case 0, 1, 4:
		return true
	}
	return epoch%lookEvery == 0
}

// Begin plans an epoch, by the latest earlier one whose records were all
// observed. Beginning an epoch again gives the same schedule.
func (f *Fragment) Begin(epoch uint64) Schedule {
	e := &f.epochs[epoch&1]
	if !e.known || e.epoch != epoch {
		*e = f.plan(epoch)
	}
	return f.Schedule(epoch, e.log)
}

// plan decides about an epoch.
func (f *Fragment) plan(epoch uint64) epochState {
	e := epochState{epoch: epoch, known: true}
	if !f.planned {
		f.planned, f.first = true, epoch
	}
	if f.looked(epoch) {
		e.slices = f.slices
		return e
	}
	e.log = f.next(epoch)
	f.log = e.log
	return e
}

// Slices is how many slices an epoch that was begun is counted in, as the logarithm; 0: in its subepochs.
func (f *Fragment) Slices(epoch uint64) uint8 {
	if e := &f.epochs[epoch&1]; e.known && e.epoch == epoch {
		return e.slices
	}
	return 0
}

// Schedule is that of an epoch with n = 2^log, whatever is planned.
func (f *Fragment) Schedule(epoch uint64, log uint8) Schedule {
	return Schedule{
		Epoch: epoch, Log: log, SingleHop: f.config.SingleHop, Hash: f.config.Hash,
		Seed: hash.Uint64x4(f.config.Seed, f.config.ID.Switch, uint64(f.config.ID.Sketch), epoch, 's'),
	}
}

// next is the logarithm of n for an epoch about to begin.
func (f *Fragment) next(epoch uint64) uint8 {
	if f.target == 0 {
		if a, ok := f.Assigned(epoch); ok {
			return a.Log
		}
		if f.load.grown || f.slices == 0 {
			return 0 // No look is of this traffic.
		}
		return min(max(f.goal, max(f.log, 1)-1), f.log+1)
	}
	var last, latest *epochState // the latest complete epoch, the latest of all
	for i := range f.epochs {
		e := &f.epochs[i]
		if !e.known || e.epoch >= epoch {
			continue
		}
		if latest == nil || e.epoch > latest.epoch {
			latest = e
		}
		if e.complete() && (last == nil || e.epoch > last.epoch) {
			last = e
		}
	}
	switch {
	case last != nil:
		return step(last.log, last.mean(), f.target, f.config.MaxLog)
	case latest != nil:
		return latest.log
	}
	return 0
}

// Observe takes the error of a finished subepoch (Equation 4), and how much it saw: with more than twice the packets
// of the last epoch that was looked at, n is 1 until the next one, unless there is a target or an assignment. Epochs that
// began two or more ago are over and change nothing, nor do partial records.
func (f *Fragment) Observe(r *Record) {
	f.load.observe(r)
	e := &f.epochs[r.Epoch&1]
	if !r.Partial && e.known && e.epoch == r.Epoch && e.log == r.Log && e.count < 1<<e.log {
		e.sum += r.Error()
		e.count++
	}
}

// Error is the mean estimated error (Equation 5) of an epoch, as far as its
// subepochs were observed; false: none was.
func (f *Fragment) Error(epoch uint64) (float64, bool) {
	e := &f.epochs[epoch&1]
	if !e.known || e.epoch != epoch || e.count == 0 {
		return 0, false
	}
	return e.mean(), true
}
