package path

import (
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

type eliminationSolver struct {
	s       *encode.Static
	lanes   encode.Scratch
	eqs     []equation
	systems []linearSystem // by fragment
	keys    []uint64

	// What the systems hold.
	resume        resume
	hops          int
	spare         int
	contradictory bool
}

// NewElimination makes a solver that decodes by Gaussian elimination over GF(2), which finds the path
// as soon as the digests determine it, where peeling has to wait for digests
// with one unknown. It reads Whole, Fragmented and Linear values. With h hops
// and w-bit values in b-bit digests a flow costs about (h w)^3 / 128 word
// operations, once, and about a fourth of them for digests that come at once, as the
// first ones do (linearSystem.absorb): 0.2 ms for 59 hops of 10 bits. If a call's
// digests continue those of the call before, so does the elimination.
func NewElimination(s *encode.Static) Solver { return &eliminationSolver{s: s} }

// PathBits implements Solver.
func (d *eliminationSolver) PathBits(hops int) float64 { return float64(d.s.ValueBits * hops) }

// Resumes implements Solver.
func (d *eliminationSolver) Resumes() bool { return true }

// Solve implements Solver.
func (d *eliminationSolver) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	from := d.resume.from(obs, hops)
	if from == 0 {
		d.restart(hops)
	}
	d.take(obs[from:])
	d.resume.took(obs, hops)
	sol.Spare, sol.Contradiction = d.spare, d.contradictory
	for f := range d.systems {
		missing := d.systems[f].columns - d.systems[f].rank
		if d.s.Values != pint.Linear {
			missing *= d.s.Bits
		}
		sol.Missing += missing
	}
	if sol.Missing > 0 || sol.Contradiction {
		return
	}
	sol.Unique = true
	for i := range sol.Left {
		sol.Left[i] = 1
	}
	d.values(sol.Path)
}

// values writes the solution of systems of full rank into an empty path.
func (d *eliminationSolver) values(path []uint64) {
	if w := d.s.ValueBits; d.s.Values == pint.Linear {
		x := d.systems[0].solveBits()
		for i := range path {
			path[i] = field(x, i*w, w)
		}
		return
	}
	for f := range d.systems {
		for i, v := range d.systems[f].solve() {
			path[i] |= v << (f * d.s.Bits)
		}
	}
}

// restart empties the systems. The unknowns are the values, or fragments of
// them, of all hops; in the Linear case unknown i*w+t is bit t of hop i+1.
func (d *eliminationSolver) restart(hops int) {
	d.hops, d.spare, d.contradictory = hops, 0, false
	d.keys = resize(d.keys, hops)
	for len(d.systems) < d.s.Fragments {
		d.systems = append(d.systems, linearSystem{})
	}
	for f := range d.systems {
		if d.s.Values == pint.Linear {
			d.systems[f].reset(hops * d.s.ValueBits)
		} else {
			d.systems[f].reset(hops)
		}
	}
}

// take adds digests.
func (d *eliminationSolver) take(obs []Observation) {
	var ok bool
	if d.eqs, ok = equations(d.s, &d.lanes, d.eqs[:0], obs, d.hops); !ok {
		d.contradictory = true
		return
	}
	for i := range d.eqs {
		if e := &d.eqs[i]; d.s.Values == pint.Linear {
			d.takeBits(e)
		} else {
			system := &d.systems[d.s.Fragment(e.id, e.instance)]
			row := system.add()
			copy(row, e.writers[:system.words])
			row[system.words] = e.digest
		}
	}
	worth := d.s.Bits // of verification, of a row that is not needed
	if d.s.Values == pint.Linear {
		worth = 1
	}
	for f := range d.systems {
		dependent, consistent := d.systems[f].absorb()
		d.spare += dependent * worth
		d.contradictory = d.contradictory || !consistent
	}
}

// takeBits adds the rows of a linear digest: row r has bits r..r+w-1 of each
// writer's key at the writer's unknowns.
func (d *eliminationSolver) takeBits(e *equation) {
	system := &d.systems[0]
	d.hashKeys(e)
	for r := range d.s.Bits {
		row := system.add()
		pack(row, d.keys, r, d.s.ValueBits)
		row[system.words] = e.digest >> r & 1
	}
}

// hashKeys sets the writers' keys, and those of other hops to 0.
func (d *eliminationSolver) hashKeys(e *equation) {
	for at := 0; at < d.hops; at += laneCount {
		n := min(laneCount, d.hops-at)
		writers := e.writers[at/laneCount]
		for i, k := range d.s.Keys(&d.lanes, e.id, e.instance, at+1, n) {
			d.keys[at+i] = k & -(writers >> i & 1)
		}
	}
}

// pack lays bits from..from+width-1 of each key side by side.
func pack(row, keys []uint64, from, width int) {
	mask := lowBits(width)
	var word uint64
	at, out := 0, 0
	for _, k := range keys {
		f := k >> (from & 63) & mask
		word |= f << (at & 63)
		if at += width; at >= 64 {
			row[out] = word
			at, out = at-64, out+1
			word = f >> (width - at)
		}
	}
	if at > 0 {
		row[out] = word
	}
}

// field is what pack laid at a place.
func field(packed []uint64, at, width int) uint64 {
	v := packed[at/64] >> (at % 64)
	if at%64+width > 64 {
		v |= packed[at/64+1] << (64 - at%64)
	}
	return v & lowBits(width)
}
