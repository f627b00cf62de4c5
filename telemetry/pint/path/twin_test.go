package path

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

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

// TestSolversAgainstSlow compares solutions, for all codings, of digests of one path and
// of mixtures.
func TestSolversAgainstSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	r := rand.New(rand.NewPCG(31, 6))
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		c.ValueBits = max(min(c.ValueBits, 16), 5)
		s := mustStatic(t, c)
		unique := 0
		for range 5 {
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
