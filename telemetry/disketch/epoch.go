package disketch

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Epochs divides time into epochs of 2^Epochs ns, which begin at its multiples:
// an epoch's number, and a subepoch's, are bits of a timestamp (Section 5,
// "time-inferred").
//
//	timestamp  |  epoch number  | x bits: subepoch | within the subepoch |
//	                            ^ bit Epochs
type Epochs uint8

// The shortest epoch is of 1 ms, the longest of 73 minutes.
const (
	MinEpochs Epochs = 20
	MaxEpochs Epochs = 42
	// MaxLog bounds the binary logarithm x of n: subepochs of 1 us and more.
	MaxLog = 10
)

// Validate says whether epochs have a length that a fragment can divide.
func (e Epochs) Validate() error {
	if e < MinEpochs || e > MaxEpochs {
		return fmt.Errorf("epochs of 2^%d ns: choose 2^%d (1 ms) to 2^%d (73 min)", e, MinEpochs, MaxEpochs)
	}
	return nil
}

// Nanoseconds is the length of an epoch.
func (e Epochs) Nanoseconds() uint64 { return 1 << e }

// Epoch is the number of the epoch of time t, in ns.
func (e Epochs) Epoch(t uint64) uint64 { return t >> e }

// Subepoch is the number of the subepoch of time t where an epoch has 2^log.
func (e Epochs) Subepoch(t uint64, log uint8) uint64 {
	return t >> (uint8(e) - log) & (1<<log - 1)
}

// Schedule says which flows a fragment counts in which subepochs of one epoch.
// It is a value; the collector makes the same one from a record.
type Schedule struct {
	Epoch uint64
	// Log is x of n = 2^x, at most MaxLog.
	Log uint8
	// Seed of the hash from flows to subepochs, and of the cells.
	Seed uint64
	// Hash is the family of both.
	Hash hash.Family
	// SingleHop says that flows which pass no other switch are counted in two
	// subepochs (Section 4.4).
	SingleHop bool
}

// N is the number of subepochs.
func (s Schedule) N() uint64 { return 1 << s.Log }

// Subepoch is s_E(q), the subepoch in which the flow is counted.
func (s Schedule) Subepoch(flow uint64) uint64 {
	return s.of(s.Hash.Uint64(s.Seed, flow))
}

// of is the subepoch of a flow with a hash.
func (s Schedule) of(h uint64) uint64 { return h & (s.N() - 1) }

// second is the other subepoch in which a single-hop flow is counted, half an
// epoch from its first: the same one if n = 1.
func (s Schedule) second(subepoch uint64) uint64 {
	return (subepoch + s.N()/2) & (s.N() - 1)
}

// Counts says whether the flow is counted in the subepoch. singleHop says that
// the flow passes no other switch.
func (s Schedule) Counts(flow, subepoch uint64, singleHop bool) bool {
	return s.counts(s.Subepoch(flow), subepoch, singleHop)
}

// counts is Counts of a flow whose first subepoch is known.
func (s Schedule) counts(first, subepoch uint64, singleHop bool) bool {
	return first == subepoch || singleHop && s.SingleHop && s.second(first) == subepoch
}

// cellSeed keeps the choice of the cell independent of that of the subepoch. Seeds are of
// the control plane: they are derived by xxhash whatever the family.
func (s Schedule) cellSeed() uint64 { return hash.Uint64(s.Seed, 'c') }
