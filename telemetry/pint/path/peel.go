package path

import (
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

type peelSolver struct {
	s     *encode.Static
	lanes encode.Scratch
	eqs   []equation
	known []encode.HopSet // by fragment
	part  []uint64        // by fragment and hop
}

// NewPeeling makes the paper's decoder for values that are written whole or in
// fragments: a digest with one unknown writer gives that writer's value, which
// is then removed from all other digests.
func NewPeeling(s *encode.Static) Solver { return &peelSolver{s: s} }

// PathBits implements Solver.
func (d *peelSolver) PathBits(hops int) float64 { return float64(d.s.ValueBits * hops) }

// Resumes implements Solver.
func (d *peelSolver) Resumes() bool { return false }

// Solve implements Solver.
func (d *peelSolver) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	var ok bool
	if d.eqs, ok = equations(d.s, &d.lanes, d.eqs[:0], obs, hops); !ok {
		sol.Contradiction = true
		return
	}
	d.known = resize(d.known, d.s.Fragments)
	d.part = resize(d.part, d.s.Fragments*hops)
	for progress := true; progress && !sol.Contradiction; {
		progress = false
		for i := range d.eqs {
			if e := &d.eqs[i]; !e.used && d.peel(e, hops, sol) {
				progress = true
			}
		}
	}
	d.collect(hops, sol)
}

// peel uses the digest up if at most one writer is unknown, and reports
// whether a value became known.
func (d *peelSolver) peel(e *equation, hops int, sol *Solution) bool {
	f := d.s.Fragment(e.id, e.instance)
	open := e.writers.Without(&d.known[f])
	n := open.Len()
	if n > 1 {
		return false
	}
	e.used = true
	residual := e.digest
	for hop := range e.writers.All {
		residual ^= d.part[f*hops+hop-1] // 0 while unknown
	}
	if n == 0 {
		sol.Contradiction = sol.Contradiction || residual != 0
		sol.Spare += d.s.Bits
		return false
	}
	hop := open.Last()
	d.known[f].Add(hop)
	d.part[f*hops+hop-1] = residual
	return true
}

// collect joins the fragments.
func (d *peelSolver) collect(hops int, sol *Solution) {
	done := encode.FirstHops(hops)
	for f := range d.known {
		done = done.And(&d.known[f])
		sol.Missing += (hops - d.known[f].Len()) * d.s.Bits
	}
	for hop := range done.All {
		sol.Left[hop-1] = 1
		for f := range d.known {
			sol.Path[hop-1] |= d.part[f*hops+hop-1] << (f * d.s.Bits)
		}
	}
	sol.Unique = done.Len() == hops && !sol.Contradiction
}
