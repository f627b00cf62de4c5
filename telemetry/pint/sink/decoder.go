package sink

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/path"
)

// Event is what a digest meant for its flow.
type Event int

const (
	// Quiet: nothing to report.
	Quiet Event = iota
	// Decoded: the digests so far leave one path. It may be a mixture, if the
	// path changed meanwhile.
	Decoded
	// Certain: digests that the path did not need agree with it, enough of them
	// for the confidence asked for.
	Certain
	// Stray: a digest contradicts a path that was certain, and the path may
	// have changed.
	Stray
	// Changed: the path changed. Digests from the first stray one on count for
	// the new path.
	Changed
	// Restarted: the digests are not of one path that can be told, and the
	// older ones were dropped.
	Restarted
)

var events = []string{"quiet", "decoded", "certain", "stray", "changed", "restarted"}

func (e Event) String() string {
	if e < 0 || int(e) >= len(events) {
		return fmt.Sprintf("Event(%d)", int(e))
	}
	return events[e]
}

// DecoderConfig completes what the decoder needs beside the encoding.
type DecoderConfig struct {
	// Values are the values that hops can have; needed for Hashed values
	// without a Topology.
	Values []uint64
	// Topology makes the decoder prune hops by their neighbours; nil: unknown.
	Topology *path.Topology
	// Solver takes the place of the one that suits encoding and topology; nil: that one.
	Solver path.Solver
	// Confidence is how certain a path must be to be called so; 0 means
	// 1 - 1e-6.
	Confidence float64
	// MaxDigests bounds the digests kept for a flow whose path is not known (16
	// bytes each); beyond, the older half is dropped. 0 means 4096.
	MaxDigests int
}

// Decoder decodes the paths of any number of flows, digest by digest. It holds
// scratch memory, so it is for one goroutine at a time.
type Decoder struct {
	s      *encode.Static
	solver path.Solver
	sol    path.Solution
	doubt  float64 // 1 - confidence
	max    int
	tries  [pint.MaxHops + 1]int // firstTry, once known; 0 before
	dense  bool
	lanes  encode.Scratch
}

// NewDecoder chooses the solver.
func NewDecoder(s *encode.Static, c DecoderConfig) (*Decoder, error) {
	d := &Decoder{s: s, doubt: 1 - c.Confidence, max: c.MaxDigests}
	if c.Confidence == 0 {
		d.doubt = 1e-6
	}
	if !(d.doubt > 0 && d.doubt < 1) {
		return nil, fmt.Errorf("path decoder: confidence %v is not in (0, 1)", c.Confidence)
	}
	if d.max == 0 {
		d.max = 4096
	}
	d.dense = s.Dense() && c.Topology == nil // a mixture of walks may pass where a random path would not
	switch {
	case c.Solver != nil:
		d.solver = c.Solver
	case c.Topology != nil:
		d.solver = path.NewWalks(s, c.Topology)
	case s.Values != pint.Hashed:
		d.solver = path.NewElimination(s)
	case len(c.Values) > 0:
		d.solver = path.NewCandidates(s, c.Values)
	default:
		return nil, fmt.Errorf("path decoder: hashed values can be decoded only with the set of values, or a topology")
	}
	return d, nil
}

// Flow is the decoding state of one flow. The zero value is a flow without a
// digest. A flow of h hops takes about 150 + 17 h bytes once its path is
// certain, and 16 bytes per digest before, at most MaxDigests of them.
type Flow struct {
	// What a digest of a certain path needs comes first, and fits into a cache line.
	Packets uint64 // digests seen
	hops    int
	path    []uint64
	state   flowState

	obs   []path.Observation // since the start, or since the first stray digest
	next  int                // how many digests the next attempt waits for
	left  []int              // by the last attempt
	check []uint8            // by hop: digest bits that agreed with the path beyond need

	Changes uint64 // of the path, noticed
	Strays  uint64 // digests that contradicted a certain path
}

type flowState uint8

const (
	collecting flowState = iota
	decoded
	certain
	suspected // was certain; a stray digest took the certainty of its hops
)

// Known is the state of a flow whose path is certain, with at most that doubt; without a path, of a flow without a digest.
func Known(path []uint64, doubt float64) Flow {
	if len(path) == 0 {
		return Flow{}
	}
	f := Flow{hops: len(path), path: slices.Clone(path), state: certain, check: make([]uint8, len(path))}
	for i := range f.check {
		f.check[i] = uint8(min(math.Ceil(math.Log2(float64(len(path))/doubt)), 200))
	}
	return f
}

// Path is the flow's path, hop 1 first, or nil while it is not known. It is
// valid until the next digest.
func (f *Flow) Path() []uint64 {
	if f.state == collecting {
		return nil
	}
	return f.path
}

// Certain reports whether the path has the decoder's confidence.
func (f *Flow) Certain() bool { return f.state == certain }

// Hops is the length of the path, 0 before the first digest.
func (f *Flow) Hops() int { return f.hops }

// Kept is how many digests are kept to decode from, of packets with different ids; 0 once the path is certain.
func (f *Flow) Kept() int { return len(f.obs) }

// Left is how many candidates the hop has, by the last attempt to decode; 0:
// not narrowed down.
func (f *Flow) Left(hop int) int {
	switch {
	case hop < 1 || hop > f.hops:
		return 0
	case f.state != collecting:
		return 1
	case len(f.left) == f.hops:
		return f.left[hop-1]
	}
	return 0
}

// Doubt bounds the probability that the path is wrong. A digest that has a
// wrong hop's contribution in it agrees with probability 2^-bits; a path that is
// wrong somewhere must have passed all digests of that hop, so the bound is
// the sum over the hops of 2^-(bits that agreed).
func (f *Flow) Doubt() float64 {
	if f.state == collecting {
		return 1
	}
	sum := 0.0
	for _, c := range f.check {
		sum += math.Ldexp(1, -int(c))
	}
	return min(1, sum)
}

// Confidence is 1 - Doubt.
func (f *Flow) Confidence() float64 { return 1 - f.Doubt() }

// Add takes in the digest of a packet that passed the given number of hops.
// Packets that name no hops, or more than MaxHops, are ignored.
func (d *Decoder) Add(f *Flow, id, digest uint64, hops int) Event {
	if hops < 1 || hops > pint.MaxHops {
		return Quiet
	}
	f.Packets++
	if hops != f.hops {
		return d.resize(f, path.Observation{ID: id, Digest: digest}, hops)
	}
	switch f.state {
	case collecting:
		return d.collect(f, path.Observation{ID: id, Digest: digest})
	case certain:
		if d.s.Digest(&d.lanes, id, f.path) == digest {
			return Quiet
		}
		return d.suspect(f, path.Observation{ID: id, Digest: digest})
	}
	return d.verify(f, path.Observation{ID: id, Digest: digest})
}

// resize restarts a flow whose path has another length: that is a change.
func (d *Decoder) resize(f *Flow, o path.Observation, hops int) Event {
	event := Restarted
	if f.hops == 0 {
		event = Quiet
	} else if f.state == certain || f.state == suspected {
		event = Changed
		f.Changes++
	}
	f.hops, f.state, f.obs, f.left = hops, collecting, f.obs[:0], f.left[:0]
	f.next = d.firstTry(hops)
	if e := d.collect(f, o); event == Quiet {
		return e
	}
	return event
}

// firstTry is how many digests can determine a path at the earliest.
func (d *Decoder) firstTry(hops int) int {
	if d.tries[hops] == 0 {
		d.tries[hops] = max(1, int(math.Ceil(d.solver.PathBits(hops)/float64(d.s.DigestBits()))))
	}
	return d.tries[hops]
}

// collect keeps a digest, and tries to decode when there may be enough.
func (d *Decoder) collect(f *Flow, o path.Observation) Event {
	if f.seen(o.ID) {
		return Quiet
	}
	f.obs = append(f.obs, o)
	if len(f.obs) < f.next {
		return d.bound(f)
	}
	d.solver.Solve(f.obs, f.hops, &d.sol)
	f.left = append(f.left[:0], d.sol.Left...)
	switch {
	case d.sol.Contradiction:
		d.drop(f)
		return Restarted
	case !d.sol.Unique:
		// Attempts cost more than digests, so they thin out: each waits for a
		// 24th more digests, or for as many as the solver misses.
		n := len(f.obs)
		f.next = n + max(1, n/24, d.sol.Missing/d.s.DigestBits())
		return d.bound(f)
	}
	f.path = append(f.path[:0], d.sol.Path...)
	f.check = append(f.check[:0], make([]uint8, f.hops)...)
	if d.dense {
		for i := range f.check {
			f.check[i] = uint8(min(d.sol.Spare, 200))
		}
	}
	f.state = decoded
	if d.settle(f) == Certain {
		return Certain
	}
	return Decoded
}

// seen reports whether a digest of the packet is kept already: a retransmitted
// packet has the same digest, and would be taken for a confirmation.
func (f *Flow) seen(id uint64) bool {
	for i := range f.obs {
		if f.obs[i].ID == id {
			return true
		}
	}
	return false
}

// bound drops the older half of too many digests.
func (d *Decoder) bound(f *Flow) Event {
	if len(f.obs) < d.max {
		return Quiet
	}
	d.drop(f)
	return Restarted
}

// drop forgets the older half of the digests.
func (d *Decoder) drop(f *Flow) {
	f.obs = f.obs[:copy(f.obs, f.obs[(len(f.obs)+1)/2:])]
	f.next = max(d.firstTry(f.hops), len(f.obs)+1)
	f.state = collecting
}

// verify compares a digest with a path that is not certain.
func (d *Decoder) verify(f *Flow, o path.Observation) Event {
	if f.seen(o.ID) {
		return Quiet
	}
	f.obs = append(f.obs, o)
	if d.s.Digest(&d.lanes, o.ID, f.path) != o.Digest {
		if f.state == suspected {
			f.Changes++
			f.state = collecting
			f.left = f.left[:0]
			f.next = max(d.firstTry(f.hops), len(f.obs))
			return Changed
		}
		d.drop(f)
		return Restarted
	}
	for j := range d.s.Instances {
		w, _ := d.s.Writers(&d.lanes, o.ID, j, f.hops)
		for hop := range w.All {
			f.check[hop-1] = uint8(min(int(f.check[hop-1])+d.s.Bits, 200))
		}
	}
	if len(f.obs) >= d.max {
		f.obs = f.obs[:copy(f.obs, f.obs[len(f.obs)/2:])]
	}
	return d.settle(f)
}

// settle makes a path certain whose doubt is small enough.
func (d *Decoder) settle(f *Flow) Event {
	if f.Doubt() > d.doubt {
		return Quiet
	}
	f.state = certain
	f.obs = nil
	return Certain
}

// suspect takes the certainty of the hops whose contributions are in a stray
// digest. Either they earn it again, and the digest was a damaged one, or
// another stray digest comes, and the path has changed.
func (d *Decoder) suspect(f *Flow, o path.Observation) Event {
	f.Strays++
	f.obs = append(f.obs[:0], o)
	for j := range d.s.Instances {
		w, _ := d.s.Writers(&d.lanes, o.ID, j, f.hops)
		shift := j * d.s.Bits
		if d.s.Combine(&d.lanes, o.ID, j, &w, f.path) == o.Digest>>shift&(1<<d.s.Bits-1) {
			continue
		}
		for hop := range w.All {
			f.check[hop-1] = 0
		}
	}
	f.state = suspected
	return Stray
}
