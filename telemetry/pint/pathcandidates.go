package pint

import (
	"math"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Candidates decodes digests when the set of possible values is known, by
// elimination: each hop keeps the values that all its digests allow. A digest
// of one unknown writer filters that hop; one of several filters each of them
// by what the others can contribute together. It reads every ValueCode.
type Candidates struct {
	s      *Static
	lanes  lanes
	values []uint64
	eqs    []equation
	left   [][]uint64 // by hop; nil: all values
	known  HopSet
	path   []uint64
	joint  jointFilter

	room        [MaxHops][]uint64 // of left, by hop, from attempt to attempt
	ids, hashes [BlockSize]uint64

	resume        resume
	spare         int
	contradictory bool
}

// NewCandidates makes a decoder for values of the given set.
func NewCandidates(s *Static, values []uint64) *Candidates {
	return &Candidates{s: s, values: values}
}

// Solve implements Solver.
func (d *Candidates) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	from := d.resume.from(obs, hops)
	if from == 0 {
		d.left, d.path, d.known = resize(d.left, hops), resize(d.path, hops), HopSet{}
		d.eqs, d.spare, d.contradictory = d.eqs[:0], 0, false
	}
	var ok bool
	if d.eqs, ok = d.s.equations(&d.lanes, d.eqs, obs[from:], hops); !ok {
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
		for i := 0; i < len(d.eqs) && !progress && d.s.bits <= jointBits; i++ {
			progress = d.applyJoint(&d.eqs[i])
		}
	}
	d.collect(hops, sol)
}

// apply uses the digest up if at most one writer is unknown, and reports
// whether it narrowed that hop.
func (d *Candidates) apply(e *equation) bool {
	open := e.writers.without(&d.known)
	n := open.Len()
	if n > 1 {
		return false
	}
	e.used = true
	residual := d.residual(e)
	if n == 0 {
		d.contradictory = d.contradictory || residual != 0
		d.spare += d.s.bits
		return false
	}
	hop := open.last()
	if d.s.values == Hashed {
		return d.filterHashed(hop, e, residual)
	}
	return d.filter(hop, func(v uint64) bool { return d.s.contribution(e.id, e.instance, hop, v) == residual })
}

// residual is the digest without the known writers.
func (d *Candidates) residual(e *equation) uint64 {
	known := e.writers.and(&d.known)
	return e.digest ^ d.s.combine(&d.lanes, e.id, e.instance, &known, d.path)
}

// filter keeps the hop's values for which keep holds, and reports whether
// fewer are left.
func (d *Candidates) filter(hop int, keep func(uint64) bool) bool {
	from, into := d.candidates(hop)
	for _, v := range from {
		if keep(v & d.s.valueMask) {
			into = append(into, v)
		}
	}
	return d.keep(hop, len(from), into)
}

// filterHashed is filter by a digest of one unknown writer whose values are
// hashed: side by side, since mostly there are many.
func (d *Candidates) filterHashed(hop int, e *equation, residual uint64) bool {
	from, into := d.candidates(hop)
	before, seed, mask := len(from), d.s.seeds[e.instance].value, d.s.mask
	for i := range d.ids {
		d.ids[i] = e.id
	}
	for len(from) > 0 {
		n := min(len(from), len(d.ids))
		hash.Uint64x2s(d.hashes[:n], seed, from[:n], d.ids[:n])
		for i, h := range d.hashes[:n] {
			if h&mask == residual {
				into = append(into, from[i])
			}
		}
		from = from[n:]
	}
	return d.keep(hop, before, into)
}

// candidates returns the hop's values, and room for those that shall be left; it
// may be the same memory.
func (d *Candidates) candidates(hop int) (from, into []uint64) {
	if from = d.left[hop-1]; from == nil {
		return d.values, d.room[hop-1][:0]
	}
	return from, from[:0]
}

// keep notes the values left, of those before, and reports whether they are fewer.
func (d *Candidates) keep(hop, before int, into []uint64) bool {
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

func (d *Candidates) collect(hops int, sol *Solution) {
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
func (d *Candidates) applyJoint(e *equation) bool {
	open := e.writers.without(&d.known)
	j := &d.joint
	j.hops = j.hops[:0]
	for hop := range open.all {
		if d.left[hop-1] == nil {
			// A hop without a digest of its own contributes anything.
			if len(d.values) > 1<<d.s.bits {
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
		others := sumset(&j.before[i], &j.further[i])
		if others.len() == 1<<d.s.bits {
			continue
		}
		if d.filter(hop, func(v uint64) bool { return others.has(residual ^ d.s.contribution(e.id, e.instance, hop, v)) }) {
			progress = true
		}
		if d.contradictory {
			return true
		}
	}
	return progress
}

// prepareJoint fills the filter, and reports whether it can narrow anything.
func (d *Candidates) prepareJoint(e *equation) bool {
	j, n := &d.joint, len(d.joint.hops)
	j.own, j.before, j.further = resize(j.own, n), resize(j.before, n), resize(j.further, n)
	for i, hop := range j.hops {
		from := d.left[hop-1]
		if from == nil {
			from = d.values
		}
		for _, v := range from {
			j.own[i].add(d.s.contribution(e.id, e.instance, hop, v&d.s.valueMask))
		}
	}
	j.before[0].add(0)
	j.further[n-1].add(0)
	for i := 1; i < n; i++ {
		j.before[i] = sumset(&j.before[i-1], &j.own[i-1])
		j.further[n-1-i] = sumset(&j.further[n-i], &j.own[n-i])
	}
	full := 1 << d.s.bits
	return j.before[n-1].len() < full || j.further[0].len() < full
}

// sumset is the set of x xor y.
func sumset(a, b *sums) sums {
	if a.len() > b.len() {
		a, b = b, a
	}
	var out sums
	for w, x := range a {
		for ; x != 0; x &= x - 1 {
			low := bits.TrailingZeros64(x)
			for i := range out {
				out[i^w] |= xorPermute(b[i], low)
			}
		}
	}
	return out
}

// xorPermute moves bit i of x to bit i^by, by < 64.
func xorPermute(x uint64, by int) uint64 {
	for i, m := range [...]uint64{0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f, 0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff} {
		if by>>i&1 != 0 {
			x = x&m<<(1<<i) | x>>(1<<i)&m
		}
	}
	return x
}
