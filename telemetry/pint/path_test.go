package pint

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// observe makes n digests of a path.
func observe(s *Static, r *rand.Rand, path []uint64, n int) []Observation {
	var obs []Observation
	for range n {
		id := r.Uint64()
		obs = append(obs, Observation{id, s.Digest(id, path)})
	}
	return obs
}

// consistent lists, by trying all, the paths that explain the digests. step
// says which values may follow a path.
func consistent(s *Static, obs []Observation, hops int, step func(path []uint64) []uint64) [][]uint64 {
	var found [][]uint64
	var extend func(path []uint64)
	extend = func(path []uint64) {
		if len(path) < hops {
			for _, v := range step(path) {
				extend(append(path, v))
			}
			return
		}
		for _, o := range obs {
			if s.Digest(o.ID, path) != o.Digest {
				return
			}
		}
		found = append(found, slices.Clone(path))
	}
	extend(nil)
	return found
}

func upTo(n int) []uint64 {
	var v []uint64
	for i := range n {
		v = append(v, uint64(i))
	}
	return v
}

// TestSolversAgainstSearch compares every solver with a search over all paths
// of a small world: what a solver calls unique must be the only path and the
// true one; a solver that is exact must see it as soon as it is.
func TestSolversAgainstSearch(t *testing.T) {
	const valueBits = 3
	all := upTo(1 << valueBits)
	anyStep := func([]uint64) []uint64 { return all }
	for _, c := range []struct {
		name   string
		config StaticConfig
		make   func(*Static) Solver
		exact  bool
	}{
		{"peel whole", StaticConfig{Bits: 3, ValueBits: 3, Layers: Hybrid(4)}, func(s *Static) Solver { return NewPeeling(s) }, false},
		{"peel fragments", StaticConfig{Bits: 2, ValueBits: 3, Layers: Hybrid(4), Values: Fragmented}, func(s *Static) Solver { return NewPeeling(s) }, false},
		{"eliminate whole", StaticConfig{Bits: 3, ValueBits: 3, Layers: Dense(Whole)}, func(s *Static) Solver { return NewElimination(s) }, true},
		{"eliminate fragments", StaticConfig{Bits: 1, Instances: 2, ValueBits: 3, Layers: XOR(0.4), Values: Fragmented}, func(s *Static) Solver { return NewElimination(s) }, true},
		{"eliminate linear", StaticConfig{Bits: 2, Instances: 2, ValueBits: 3, Layers: Dense(Linear), Values: Linear}, func(s *Static) Solver { return NewElimination(s) }, true},
		{"eliminate linear layers", StaticConfig{Bits: 2, ValueBits: 3, Layers: Hybrid(4), Values: Linear, Vector: true}, func(s *Static) Solver { return NewElimination(s) }, true},
		{"candidates hashed", StaticConfig{Bits: 2, Instances: 2, Layers: Hybrid(4), Values: Hashed}, func(s *Static) Solver { return NewCandidates(s, all) }, false},
		{"candidates linear", StaticConfig{Bits: 1, ValueBits: 3, Layers: Hybrid(4), Values: Linear}, func(s *Static) Solver { return NewCandidates(s, all) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			unique, early := 0, 0
			for run := range 300 {
				c.config.Seed = uint64(run)
				s := mustStatic(t, c.config)
				path := make([]uint64, 1+r.IntN(4))
				for i := range path {
					path[i] = all[r.IntN(len(all))]
				}
				obs := observe(s, r, path, r.IntN(24))
				var sol Solution
				c.make(s).Solve(obs, len(path), &sol)
				truth := consistent(s, obs, len(path), anyStep)
				if sol.Contradiction {
					t.Fatalf("digests of path %v are called contradictory", path)
				}
				if sol.Unique && (len(truth) != 1 || !slices.Equal(sol.Path, path)) {
					t.Fatalf("path %v is called %v, unique, of %d", path, sol.Path, len(truth))
				}
				if c.exact && !sol.Unique && len(truth) == 1 {
					t.Fatalf("path %v is the only one, and not seen as such (missing %d)", path, sol.Missing)
				}
				if sol.Unique {
					unique++
				} else if len(truth) > 1 {
					early++
				}
				for i, left := range sol.Left {
					if left == 1 && sol.Path[i] != path[i] {
						t.Fatalf("hop %d of %v is called %d", i+1, path, sol.Path[i])
					}
				}
			}
			if unique < 30 || early < 30 {
				t.Errorf("%d unique and %d open cases of 300 test little", unique, early)
			}
		})
	}
}

// ringWithChords is a small topology with many short cycles.
func ringWithChords(t testing.TB, n int, r *rand.Rand) *Topology {
	var links [][2]uint64
	for i := range n {
		links = append(links, [2]uint64{uint64(i), uint64((i + 1) % n)}, [2]uint64{uint64(r.IntN(n)), uint64(r.IntN(n))})
	}
	top, err := NewTopology(upTo(n), links)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// neighbours lists what may follow a path without a loop.
func neighbours(top *Topology, path []uint64) []uint64 {
	if len(path) == 0 {
		return top.Values()
	}
	var next []uint64
	a, b := top.out(int32(path[len(path)-1]))
	for l := a; l < b; l++ {
		if v := top.values[top.to[l]]; !slices.Contains(path, v) {
			next = append(next, v)
		}
	}
	return next
}

// randomPath walks without a loop.
func randomPath(top *Topology, hops int, r *rand.Rand) []uint64 {
	for {
		var path []uint64
		for len(path) < hops {
			next := neighbours(top, path)
			if len(next) == 0 {
				break
			}
			path = append(path, next[r.IntN(len(next))])
		}
		if len(path) == hops {
			return path
		}
	}
}

// TestWalksAgainstSearch does the same with a topology. Walks is exact but for
// its waiting for as many digest bits as there are bits of walks.
func TestWalksAgainstSearch(t *testing.T) {
	for name, c := range map[string]StaticConfig{
		"linear": {Bits: 4, Instances: 2, ValueBits: 4, Layers: Interleaved(0.6, 1), Values: Linear, Vector: true},
		"hashed": {Bits: 4, Layers: Hybrid(5), Values: Hashed},
		"bit":    {Bits: 1, Layers: Interleaved(0.7, 1), Values: Hashed},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			unique, open := 0, 0
			for run := range 400 {
				c.Seed = uint64(run)
				s := mustStatic(t, c)
				top := ringWithChords(t, 14, r)
				path := randomPath(top, 1+r.IntN(6), r)
				obs := observe(s, r, path, r.IntN(24))
				var sol Solution
				NewWalks(s, top).Solve(obs, len(path), &sol)
				truth := consistent(s, obs, len(path), func(p []uint64) []uint64 { return neighbours(top, p) })
				if sol.Contradiction {
					t.Fatalf("digests of path %v are called contradictory", path)
				}
				if sol.Unique && (len(truth) != 1 || !slices.Equal(sol.Path, path)) {
					t.Fatalf("path %v is called %v, unique, of %d", path, sol.Path, len(truth))
				}
				if !sol.Unique && len(truth) == 1 && sol.Missing == 0 {
					t.Fatalf("path %v is the only one, and not seen as such", path)
				}
				if sol.Unique {
					unique++
				} else {
					open++
				}
				for i, left := range sol.Left {
					if left == 1 && sol.Path[i] != path[i] {
						t.Fatalf("hop %d of %v is called %d", i+1, path, sol.Path[i])
					}
				}
			}
			if unique < 30 || open < 30 {
				t.Errorf("%d unique and %d open cases of 400 test little", unique, open)
			}
		})
	}
}

// TestSolversSeeContradictions: digests of two paths, many of them, are no
// path's.
func TestSolversSeeContradictions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	top := ringWithChords(t, 16, r)
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		c.ValueBits = max(min(c.ValueBits, 16), 4)
		s := mustStatic(t, c)
		a, b := randomPath(top, 6, r), randomPath(top, 6, r)
		for slices.Equal(a, b) {
			b = randomPath(top, 6, r)
		}
		obs := append(observe(s, r, a, 300), observe(s, r, b, 300)...)
		solvers := []Solver{NewWalks(s, top)}
		if !s.layers[0].always {
			solvers = append(solvers, NewCandidates(s, top.Values())) // which needs a digest of one hop to begin
		}
		if s.values != Hashed {
			solvers = append(solvers, NewElimination(s))
		}
		if s.values == Whole || s.values == Fragmented {
			solvers = append(solvers, NewPeeling(s))
		}
		for _, solver := range solvers {
			var sol Solution
			if solver.Solve(obs, 6, &sol); !sol.Contradiction || sol.Unique {
				t.Errorf("%s, %T: the digests of two paths are called %+v", name, solver, sol)
			}
		}
	}
}

func TestSumset(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		var a, b, want sums
		var xs, ys []uint64
		for range r.IntN(200) {
			x, y := uint64(r.IntN(256)), uint64(r.IntN(256))
			a.add(x)
			b.add(y)
			xs, ys = append(xs, x), append(ys, y)
		}
		for _, x := range xs {
			for _, y := range ys {
				want.add(x ^ y)
			}
		}
		if got := sumset(&a, &b, 8); got != want {
			t.Fatalf("sums of %v and %v are %v", xs, ys, got)
		}
	}
}

func TestTopologyFaults(t *testing.T) {
	if _, err := NewTopology([]uint64{1, 2, 1}, nil); err == nil {
		t.Error("a value twice is taken")
	}
	if _, err := NewTopology([]uint64{1, 2}, [][2]uint64{{1, 3}}); err == nil {
		t.Error("a link to nowhere is taken")
	}
	top, err := NewTopology([]uint64{1, 2, 5}, [][2]uint64{{1, 2}, {2, 1}, {5, 5}, {5, 1}})
	if err != nil || top.Links() != 2 {
		t.Fatalf("parallel links and loops: %v, %v", top, err)
	}
	for l := range top.to {
		b := top.back[l]
		if top.from[b] != top.to[l] || top.to[b] != top.from[l] {
			t.Errorf("link %d and its reverse %d do not match", l, b)
		}
	}
}
