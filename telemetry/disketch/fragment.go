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
	// per subepoch. 0: found from the traffic, by SetTarget; n stays 1 until then.
	Target float64
	// SingleHop counts flows that pass no other switch in two subepochs.
	SingleHop bool
	// MaxLog bounds n = 2^x; 0 means MaxLog.
	MaxLog uint8
	// Candidates is for how many flows a row (of UnivMon each level) has room to
	// remember their keys; 0: none. Records name the flows.
	Candidates int
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var faults []error
	if _, ok := kindNames[c.Kind]; !ok {
		faults = append(faults, fmt.Errorf("%v is unknown: choose countsketch, countmin or univmon", c.Kind))
	}
	if c.Unit > Bytes {
		faults = append(faults, fmt.Errorf("unit %d: choose packets or bytes", c.Unit))
	}
	if c.Levels < 0 || c.Levels > univmon.MaxLevels {
		faults = append(faults, fmt.Errorf("%d levels: choose 1 to %d", c.Levels, univmon.MaxLevels))
	}
	if least := sketch.CellBytes * c.levels(); c.Memory < least || c.Memory/sketch.CellBytes > sketch.MaxWidth {
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
	// The last epochs by their parity: their n, the errors of their subepochs so
	// far, and how many subepochs these are.
	epochs [2]epochState
}

type epochState struct {
	epoch uint64
	known bool
	log   uint8
	sum   float64
	count uint64
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
	return &Fragment{config: c, target: c.Target}, nil
}

// Config returns the configuration, with the defaults filled in.
func (f *Fragment) Config() Config { return f.config }

// Target is the error aimed at; 0: none is known yet.
func (f *Fragment) Target() float64 { return f.target }

// SetTarget changes the target, from the next epoch on. What is not above 0 is
// ignored.
func (f *Fragment) SetTarget(rho float64) {
	if rho > 0 {
		f.target = rho
	}
}

// Begin plans an epoch, by the latest earlier one whose records were all
// observed. Beginning an epoch again gives the same schedule.
func (f *Fragment) Begin(epoch uint64) Schedule {
	e := &f.epochs[epoch&1]
	if !e.known || e.epoch != epoch {
		*e = epochState{epoch: epoch, known: true, log: f.next(epoch)}
	}
	return f.Schedule(epoch, e.log)
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

// Observe takes the error of a finished subepoch (Equation 4). Epochs that
// began two or more ago are over and change nothing, nor do partial records.
func (f *Fragment) Observe(r *Record) {
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
