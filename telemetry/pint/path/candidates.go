package path

import (
	"math"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

type candidateSolver struct {
	s      *encode.Static
	lanes  encode.Scratch
	values []uint64
	eqs    []equation
	left   [][]uint64 // by hop; nil: all values
	known  encode.HopSet
	path   []uint64
	joint  jointFilter

	room     [pint.MaxHops][]uint64 // of left, by hop, from attempt to attempt
	narrowed [pint.MaxHops]int32    // by hop: when it was
	now      int32                  // counts narrowings

	resume        resume
	spare         int
	contradictory bool
}

// NewCandidates makes a solver for values of the given set. It decodes by
// elimination: each hop keeps the values that all its digests allow. A digest
// of one unknown writer filters that hop; one of several filters each of them
// by what the others can contribute together. It reads every ValueCode.
func NewCandidates(s *encode.Static, values []uint64) Solver {
	return &candidateSolver{s: s, values: values}
}

// PathBits implements Solver.
func (d *candidateSolver) PathBits(hops int) float64 {
	return math.Log2(float64(len(d.values))) * float64(hops)
}

// Resumes implements Solver.
func (d *candidateSolver) Resumes() bool { return true }

// Solve implements Solver.
func (d *candidateSolver) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	from := d.resume.from(obs, hops)
	if from == 0 {
		d.left, d.path, d.known = resize(d.left, hops), resize(d.path, hops), encode.HopSet{}
		d.eqs, d.spare, d.contradictory = d.eqs[:0], 0, false
		d.now, d.narrowed = 0, [pint.MaxHops]int32{}
	}
	var ok bool
	if d.eqs, ok = equations(d.s, &d.lanes, d.eqs, obs[from:], hops); !ok {
		d.contradictory = true
	}
	d.resume.took(obs, hops)
	for progress := true; progress && !d.contradictory; {
		progress = false
		for i := range d.eqs {
			if e := &d.eqs[i]; !e.used && d.apply(e) {
				progress = true
			}
		}
		d.eqs = slices.DeleteFunc(d.eqs, func(e equation) bool { return e.used })
		for i := 0; i < len(d.eqs) && !progress && d.s.Bits <= jointBits; i++ {
			if e := &d.eqs[i]; d.fresh(e) {
				if progress = d.applyJoint(e); !progress {
					e.tried = d.now + 1
				}
			}
		}
	}
	d.collect(hops, sol)
}

// fresh reports whether a hop of the digest was narrowed since it was tried.
func (d *candidateSolver) fresh(e *equation) bool {
	for hop := range e.writers.All {
		if d.narrowed[hop-1] >= e.tried {
			return true
		}
	}
	return false
}

// apply uses the digest up if at most one writer is unknown, and reports
// whether it narrowed that hop.
func (d *candidateSolver) apply(e *equation) bool {
	open := e.writers.Without(&d.known)
	n := open.Len()
	if n > 1 {
		return false
	}
	e.used = true
	residual := d.residual(e)
	if n == 0 {
		d.contradictory = d.contradictory || residual != 0
		d.spare += d.s.Bits
		return false
	}
	hop := open.Last()
	return d.filter(hop, e, residual, nil)
}

// residual is the digest without the known writers.
func (d *candidateSolver) residual(e *equation) uint64 {
	known := e.writers.And(&d.known)
	return e.digest ^ d.s.Combine(&d.lanes, e.id, e.instance, &known, d.path)
}

// filter keeps the hop's values that give the residual, alone or together with one of the others' sums, and reports
// whether fewer are left.
func (d *candidateSolver) filter(hop int, e *equation, residual uint64, others *sums) bool {
	from, into := d.candidates(hop)
	before := len(from)
	for len(from) > 0 {
		n := min(len(from), laneCount)
		for i, c := range d.s.Contributions(&d.lanes, e.id, e.instance, hop, from[:n]) {
			if others == nil && c == residual || others != nil && others.has(residual^c) {
				into = append(into, from[i])
			}
		}
		from = from[n:]
	}
	return d.keep(hop, before, into)
}

// candidates returns the hop's values, and room for those that shall be left; it
// may be the same memory.
func (d *candidateSolver) candidates(hop int) (from, into []uint64) {
	if from = d.left[hop-1]; from == nil {
		return d.values, d.room[hop-1][:0]
	}
	return from, from[:0]
}

// keep notes the values left, of those before, and reports whether they are fewer.
func (d *candidateSolver) keep(hop, before int, into []uint64) bool {
	if d.left[hop-1] == nil || len(into) < before {
		d.now++
		d.narrowed[hop-1] = d.now
	}
	d.left[hop-1] = into
	if cap(into) > cap(d.room[hop-1]) {
		d.room[hop-1] = into
	}
	switch len(into) {
	case 0:
		d.contradictory = true
	case 1:
		d.known.Add(hop)
		d.path[hop-1] = into[0]
	}
	return len(into) < before
}

func (d *candidateSolver) collect(hops int, sol *Solution) {
	copy(sol.Path, d.path)
	sol.Spare, sol.Contradiction = d.spare, d.contradictory
	sol.Unique = d.known.Len() == hops && !sol.Contradiction
	missing := 0.0
	for i, l := range d.left {
		if sol.Left[i] = len(l); l == nil {
			missing += math.Log2(float64(len(d.values)))
		} else if len(l) > 0 {
			missing += math.Log2(float64(len(l)))
		}
	}
	sol.Missing = int(missing)
}

// jointBits bounds the digests that are filtered jointly: the sets of possible
// sums have 2^bits members.
const jointBits = 8

// sums is a set of digests of up to jointBits bits.
type sums [1 << jointBits / 64]uint64

func (s *sums) has(x uint64) bool { return s[x>>6&3]>>(x&63)&1 != 0 }
func (s *sums) add(x uint64)      { s[x>>6&3] |= 1 << (x & 63) }

func (s *sums) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// jointFilter holds, for the unknown writers of a digest, what each can
// contribute, and what those before and behind it can together.
type jointFilter struct {
	hops                 []int
	own, before, further []sums
}

// applyJoint filters all unknown writers of a digest by each other.
func (d *candidateSolver) applyJoint(e *equation) bool {
	open := e.writers.Without(&d.known)
	j := &d.joint
	j.hops = j.hops[:0]
	for hop := range open.All {
		if d.left[hop-1] == nil {
			// A hop without a digest of its own contributes anything.
			if len(d.values) > 1<<d.s.Bits {
				return false
			}
		}
		j.hops = append(j.hops, hop)
	}
	if n := len(j.hops); n < 2 || n > 8 || !d.prepareJoint(e) {
		return false
	}
	residual, progress := d.residual(e), false
	for i, hop := range j.hops {
		others := sumset(&j.before[i], &j.further[i], d.s.Bits)
		if others.len() == 1<<d.s.Bits {
			continue
		}
		if d.filter(hop, e, residual, &others) {
			progress = true
		}
		if d.contradictory {
			return true
		}
	}
	return progress
}

// prepareJoint fills the filter, and reports whether it can narrow anything.
func (d *candidateSolver) prepareJoint(e *equation) bool {
	j, n := &d.joint, len(d.joint.hops)
	j.own, j.before, j.further = resize(j.own, n), resize(j.before, n), resize(j.further, n)
	for i, hop := range j.hops {
		from := d.left[hop-1]
		if from == nil {
			from = d.values
		}
		for len(from) > 0 {
			n := min(len(from), laneCount)
			for _, c := range d.s.Contributions(&d.lanes, e.id, e.instance, hop, from[:n]) {
				j.own[i].add(c)
			}
			from = from[n:]
		}
	}
	j.before[0].add(0)
	j.further[n-1].add(0)
	for i := 1; i < n; i++ {
		j.before[i] = sumset(&j.before[i-1], &j.own[i-1], d.s.Bits)
		j.further[n-1-i] = sumset(&j.further[n-i], &j.own[n-i], d.s.Bits)
	}
	full := 1 << d.s.Bits
	return j.before[n-1].len() < full || j.further[0].len() < full
}

// sumset is the set of x xor y, which are numbers of so many bits.
func sumset(a, b *sums, width int) sums {
	m, n := a.len(), b.len()
	if m > n {
		a, b, m, n = b, a, n, m
	}
	if all := 1 << width; m > 0 && m+n > all {
		return allSums(all) // for any z, the z xor x and the y cannot all be different
	}
	var out sums
	for lows := a[0] | a[1] | a[2] | a[3]; lows != 0; lows &= lows - 1 {
		low := bits.TrailingZeros64(lows)
		moved := b.permute(low)
		for w := range a {
			if a[w]>>low&1 != 0 {
				for i := range out {
					out[i^w] |= moved[i]
				}
			}
		}
	}
	return out
}

// allSums is the set of the numbers below n.
func allSums(n int) (s sums) {
	for i := range s {
		s[i] = lowBits(min(max(n-64*i, 0), 64))
	}
	return s
}

// permute moves bit i of each word to bit i^by, by < 64.
func (s *sums) permute(by int) sums {
	p := *s
	for i, m := range [...]uint64{0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f, 0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff} {
		if by>>i&1 != 0 {
			for w, x := range p {
				p[w] = x&m<<(1<<i) | x>>(1<<i)&m
			}
		}
	}
	return p
}
