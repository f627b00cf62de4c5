package pint

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWritersAgainstSlow compares the writers that are found side by side with those
// that are found one by one.
func TestWritersAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		for _, c.Vector = range []bool{false, true} {
			s := mustStatic(t, c)
			var w lanes
			for range 2000 {
				id, j, hops := r.Uint64(), r.IntN(s.instances), 1+r.IntN(MaxHops)
				if r.IntN(2) == 0 {
					hops = 1 + r.IntN(12)
				}
				got, last := s.writers(&w, id, j, hops)
				want, wantLast := slowWriters(s, id, j, hops)
				if got != want || last != wantLast {
					t.Fatalf("%s, packet %x, %d hops: writers %v, want %v", name, id, hops, got, want)
				}
			}
		}
	}
}

// TestToeplitzSum compares with the product of each key.
func TestToeplitzSum(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 2))
	for range 2000 {
		width := 1 + r.IntN(57)
		keys, values := make([]uint64, r.IntN(laneCount+1)), make([]uint64, laneCount)
		for i := range values {
			values[i] = r.Uint64()
		}
		var want uint64
		for i := range keys {
			keys[i] = r.Uint64()
			want ^= toeplitz(keys[i], values[i]&lowBits(width))
		}
		if got := toeplitzSum(keys, values, lowBits(width)); got != want {
			t.Fatalf("%d keys, %d bits: %x, want %x", len(keys), width, got, want)
		}
	}
}

// TestAbsorb compares rows that are eliminated many at a time with those that are
// inserted one by one: the rank, what is left over, whether that agrees, and the solution.
func TestAbsorb(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 3))
	full, contradictions := 0, 0
	for range 300 {
		columns := 1 + r.IntN(300)
		var many, single linearSystem
		many.reset(columns)
		single.reset(columns)
		truth := make([]uint64, many.words)
		for i := range truth {
			truth[i] = r.Uint64()
		}
		dependents, consistent := 0, true
		wantDependents, wantConsistent := 0, true
		wrong := r.IntN(4) == 0
		for range 1 + r.IntN(4) {
			for range r.IntN(columns + 100) {
				row := many.add()
				for i := range many.words {
					if row[i] = r.Uint64(); r.IntN(3) == 0 {
						row[i] = 0 // thin rows have columns without a pivot
					}
				}
				if last := columns % 64; last != 0 {
					row[many.words-1] &= lowBits(last)
				}
				row[many.words] = parityOf(row[:many.words], truth)
				if wrong && r.IntN(50) == 0 {
					row[many.words] ^= 1
				}
				switch single.insert(slices.Clone(row)) {
				case dependent:
					wantDependents++
				case contradiction:
					wantConsistent = false
				}
			}
			n, ok := many.absorb()
			dependents, consistent = dependents+n, consistent && ok
			if many.rank != single.rank || consistent != wantConsistent || consistent && dependents != wantDependents {
				t.Fatalf("%d columns: rank %d, %d dependent, consistent %v, want %d, %d, %v",
					columns, many.rank, dependents, consistent, single.rank, wantDependents, wantConsistent)
			}
		}
		if !consistent {
			contradictions++
		}
		if consistent && many.rank == columns {
			full++
			x := slices.Clone(many.solveBits())
			for c, v := range single.solve() {
				if bit := x[c/64] >> (c % 64) & 1; bit != v || bit != truth[c/64]>>(c%64)&1 {
					t.Fatalf("%d columns: unknown %d is %d, want %d", columns, c, bit, v)
				}
			}
		}
	}
	if full < 30 || contradictions < 30 {
		t.Errorf("%d full systems and %d contradictions of 300 test little", full, contradictions)
	}
}

func parityOf(row, x []uint64) (sum uint64) {
	for i := range row {
		for b := row[i] & x[i]; b != 0; b &= b - 1 {
			sum ^= 1
		}
	}
	return sum
}

// twins are decoders with the slow solvers in place of theirs.
func twins(t testing.TB, top *Topology) map[string]*Decoder {
	slow := plans(t, top)
	for _, d := range slow {
		switch d.solver.(type) {
		case *Candidates:
			d.solver = newSlowCandidates(d.s, top.Values())
		case *Walks:
			d.solver = newSlowWalks(d.s, top)
		}
	}
	return slow
}

// TestDecoderAgainstSlow follows random flows, half of which change their path, with the
// decoders and their slow twins: events, candidates left, path and certainty are the
// same after every digest.
func TestDecoderAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 4))
	top := ringWithChords(t, 60, r)
	slow := twins(t, top)
	for name, d := range plans(t, top) {
		if _, same := slow[name].solver.(*Elimination); same {
			continue // TestAbsorb
		}
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(31, 5))
			decoded, restarted := 0, 0
			for range 150 {
				hops := 1 + r.IntN(14)
				path := randomPath(top, hops, r)
				change := r.IntN(16)
				var a, b Flow
				for i := range 60 {
					if i == change && r.IntN(2) == 0 {
						path = randomPath(top, hops, r)
					}
					id := r.Uint64()
					digest := d.s.Digest(id, path)
					e := d.Add(&a, id, digest, hops)
					if want := slow[name].Add(&b, id, digest, hops); e != want {
						t.Fatalf("digest %d of %v: %v, the slow decoder %v", i, path, e, want)
					}
					switch e {
					case Decoded, Certain:
						decoded++
					case Restarted:
						restarted++
					}
					if !slices.Equal(a.Path(), b.Path()) || !slices.Equal(a.left, b.left) || a.next != b.next || a.Doubt() != b.Doubt() {
						t.Fatalf("digest %d of %v:\n%+v, the slow decoder\n%+v", i, path, a, b)
					}
				}
			}
			if decoded < 30 || restarted < 5 {
				t.Errorf("%d paths and %d restarts test little", decoded, restarted)
			}
		})
	}
}

// TestSolversAgainstSlow compares solutions, for all codings, of digests of one path and
// of mixtures.
func TestSolversAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 6))
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		c.ValueBits = max(min(c.ValueBits, 16), 5)
		s := mustStatic(t, c)
		unique := 0
		for range 8 {
			top := ringWithChords(t, 30, r)
			hops := 1 + r.IntN(12)
			path, other := randomPath(top, hops, r), randomPath(top, hops, r)
			walks, candidates := NewWalks(s, top), NewCandidates(s, top.Values())
			slowWalks, slowCandidates := newSlowWalks(s, top), newSlowCandidates(s, top.Values())
			var obs []Observation
			for range 30 {
				if r.IntN(40) == 0 {
					path = other
				}
				obs = append(obs, observe(s, r, path, 1)...)
				for _, pair := range [][2]Solver{{walks, slowWalks}, {candidates, slowCandidates}} {
					var got, want Solution
					pair[0].Solve(obs, hops, &got)
					pair[1].Solve(obs, hops, &want)
					if got.Contradiction != want.Contradiction || !got.Contradiction &&
						(got.Unique != want.Unique || got.Missing != want.Missing || got.Spare != want.Spare || !slices.Equal(got.Left, want.Left)) {
						t.Fatalf("%s, %T, %d digests over %d hops:\n%+v, the slow one\n%+v", name, pair[0], len(obs), hops, got, want)
					}
					if got.Unique && !slices.Equal(got.Path, want.Path) {
						t.Fatalf("%s, %T: path %v, the slow one %v", name, pair[0], got.Path, want.Path)
					}
					if got.Unique {
						unique++
					}
				}
			}
		}
		if unique < 10 {
			t.Errorf("%s: %d unique solutions test little", name, unique)
		}
	}
}
