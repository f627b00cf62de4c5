package oblivious

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Kind is how packets get their ranks.
type Kind uint8

// The kinds of samples.
const (
	DUS  Kind = iota + 1 // distributed uniform sampling: packets or flows
	UWRA                 // unit weight reduction (Algorithm 1)
	NWPS                 // network-wide priority sampling (Algorithm 2)
)

var kindNames = [...]string{DUS: "dus", UWRA: "uwra", NWPS: "nwps"}

// String returns the kind as configurations name it.
func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ParseKind reads the name of a kind.
func ParseKind(name string) (Kind, error) {
	for k := DUS; k <= NWPS; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("no kind of sample %q: choose dus, uwra or nwps", name)
}

// Unit is what a sample counts, and what an estimate is of.
type Unit uint8

// The units.
const (
	Packets Unit = iota + 1
	Bytes
	// Flows counts each flow once: the sampler is given the flow's hash instead
	// of a packet id.
	Flows
	// Both is of samples by NWPS alone: a packet's weight is its bytes and bothBytes, so that estimates of packets and of bytes err nearly
	// as little as by a sample of each of as many entries.
	Both
)

var unitNames = [...]string{Packets: "packets", Bytes: "bytes", Flows: "flows", Both: "both"}

// bothBytes is what each packet counts beside its bytes in samples of Both. A weight that is the sum of two samples' is what multi-objective
// samples have (Cohen, Multi-Objective Weighted Sampling, 2015): were the mean packet as long as bothBytes, no entry would be less than half as likely as in either
// sample, so neither variance is more than twice that of its own sample, whatever the lengths. Where the mean is m bytes, the limits are 1 + m/bothBytes for packets
// and 1 + bothBytes/m for bytes.
const bothBytes = 768

// String returns the unit as configurations name it.
func (u Unit) String() string {
	if int(u) < len(unitNames) && u != 0 {
		return unitNames[u]
	}
	return fmt.Sprintf("unit %d", uint8(u))
}

// ParseUnit reads the name of a unit.
func ParseUnit(name string) (Unit, error) {
	for u := Packets; u <= Both; u++ {
		if u.String() == name {
			return u, nil
		}
	}
	return 0, fmt.Errorf("no unit %q: choose packets, bytes, both or flows", name)
}

// The bounds of Config.Size, and the default of Config.Gamma.
const (
	MinSize      = 2
	maxSize      = 1 << 24
	DefaultGamma = 0.25
)

// Config describes a sampler. Switches whose samples shall be merged have the
// same Kind, Unit, Seed and Hash.
type Config struct {
	Kind Kind
	Unit Unit
	// Size is chi, the entries of a sample: MinSize to maxSize.
	Size int
	// Gamma is the share of Size that a sampler has as room beyond it: the more,
	// the rarer its maintenance. 0 means DefaultGamma; at most 4.
	Gamma float64
	// Seed names the member of the hash family Hash that ranks are drawn from.
	Seed uint64
	Hash hash.Family
	// Heap keeps entries in a heap instead of q-max, for comparison; no Gamma then.
	Heap bool
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var errs []error
	if c.Kind < DUS || c.Kind > NWPS {
		errs = append(errs, fmt.Errorf("%v: choose dus, uwra or nwps", c.Kind))
	}
	if c.Unit < Packets || c.Unit > Both {
		errs = append(errs, fmt.Errorf("%v: choose packets, bytes, both or flows", c.Unit))
	}
	if c.Unit == Both && c.Kind != NWPS {
		errs = append(errs, fmt.Errorf("%v samples no packets by bytes and number: choose nwps for both", c.Kind))
	}
	if c.Kind == DUS && c.Unit == Bytes {
		errs = append(errs, errors.New("dus samples no bytes: choose uwra or nwps for them"))
	}
	if c.Size < MinSize || c.Size > maxSize {
		errs = append(errs, fmt.Errorf("size %d: choose %d to %d entries", c.Size, MinSize, maxSize))
	}
	if err := c.Hash.Check(); err != nil {
		errs = append(errs, err)
	}
	if !(c.Gamma >= 0 && c.Gamma <= 4) {
		errs = append(errs, fmt.Errorf("gamma %g: choose a share in (0, 4], or 0 for %g", c.Gamma, DefaultGamma))
	}
	return errors.Join(errs...)
}

// capacity is the number of entries that a sampler has room for.
func (c Config) capacity() int {
	gamma := c.Gamma
	if gamma == 0 {
		gamma = DefaultGamma
	}
	return c.Size + max(int(math.Ceil(gamma*float64(c.Size))), 1)
}

// Memory is how many bytes the tables of a sampler take: its entries with the room beyond Size, and the index of them, without the
// 4 KiB in which q-max counts values.
func (c Config) Memory() int {
	const value, id, rest, free, cell, heapItem = 8, 8, 48, 4, 4, 24
	n, slot := c.capacity(), value+id+rest+free
	if c.Heap {
		n, slot = c.Size, slot+heapItem
	}
	return n*slot + cell*indexCells(n)
}

// rankSeed keeps ranks independent of what else hashes packet ids under the
// same configured seed. It is derived by xxhash whatever the family.
func (c Config) rankSeed() uint64 { return hash.Bytes(c.Seed, []byte("oblivious")) }
