// Package path finds the paths that explain the digests of a flow (section 4.2): by peeling, by elimination over GF(2), by
// the candidates of each hop, or by walks over a topology.
package path

import (
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// Observation is what the sink keeps of a packet.
type Observation struct{ ID, Digest uint64 }

// Solution is what a solver makes of a flow's digests.
type Solution struct {
	// Path holds the values of the hops, hop 1 first, where Left is 1.
	Path []uint64
	// Left counts the candidates of each hop. 0: not narrowed down.
	Left []int
	// Unique: one path alone explains all digests.
	Unique bool
	// Contradiction: no path explains all digests, so they are not of one path.
	Contradiction bool
	// Spare counts the digest bits that the solution did not need and that it
	// explains. If the digests were not of one path they would do so with
	// probability 2^-Spare. Solvers that do not know leave it at 0.
	Spare int
	// Missing estimates, from below, how many more digest bits are needed.
	Missing int
}

func (o *Solution) reset(hops int) {
	*o = Solution{Path: resize(o.Path, hops), Left: resize(o.Left, hops)}
}

// resize returns a cleared slice of length n, reusing memory.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// Solver finds the paths that explain digests. A solver keeps scratch memory:
// it is for one goroutine at a time, and any number of flows.
type Solver interface {
	// Solve overwrites sol with what the digests of one flow, over a path of
	// the given number of hops (1..MaxHops), say.
	Solve(obs []Observation, hops int, sol *Solution)
	// PathBits is about how many digest bits name a path of the given number of hops: fewer do
	// not decode one. 0: there is no such path.
	PathBits(hops int) float64
	// Resumes reports whether Solve goes on from the call before where it gets the same digests and more, so that
	// a call per digest costs no more than one call at the end.
	Resumes() bool
}

// laneCount is how many contributions are computed at once.
const laneCount = 64

// lowBits is a mask of n ones, 0 <= n <= 64.
func lowBits(n int) uint64 { return 1<<n - 1 }

// equation is one instance of one packet: the contributions of the writers,
// xored, are the digest.
type equation struct {
	id       uint64
	digest   uint64
	writers  encode.HopSet
	instance int
	used     bool
	tried    int32 // by a solver that goes on: when it was last of no use
}

// resume says whether digests continue those of the call before, so that a
// solver can go on from there.
type resume struct {
	hops, taken int
	first, last Observation
}

// from returns how many of the digests are taken already: 0 for others than
// those of the call before.
func (r *resume) from(obs []Observation, hops int) int {
	if r.hops == hops && r.taken > 0 && r.taken <= len(obs) && obs[0] == r.first && obs[r.taken-1] == r.last {
		return r.taken
	}
	return 0
}

// took notes that all digests are taken.
func (r *resume) took(obs []Observation, hops int) {
	if r.hops, r.taken = hops, len(obs); len(obs) > 0 {
		r.first, r.last = obs[0], obs[len(obs)-1]
	}
}

// equations reads the digests, and appends them to buf. Digests without a writer say nothing, unless
// they are not 0: then no path explains them, and ok is false.
func equations(s *encode.Static, w *encode.Scratch, buf []equation, obs []Observation, hops int) (_ []equation, ok bool) {
	mask := lowBits(s.Bits)
	for _, o := range obs {
		for j := range s.Instances {
			digest := o.Digest >> (j * s.Bits) & mask
			set, _ := s.Writers(w, o.ID, j, hops)
			if set != (encode.HopSet{}) {
				buf = append(buf, equation{id: o.ID, digest: digest, writers: set, instance: j})
			} else if digest != 0 {
				return buf, false
			}
		}
	}
	return buf, true
}
