package path

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// codings are the encodings that the tests of the package go through.
var codings = map[string]encode.StaticConfig{
	"baseline":    {Bits: 32, ValueBits: 32, Layers: encode.Baseline(), Seed: 1},
	"xor":         {Bits: 32, ValueBits: 32, Layers: encode.XOR(0.04), Seed: 2},
	"hybrid":      {Bits: 32, ValueBits: 32, Layers: encode.Hybrid(25), Seed: 3},
	"multilayer":  {Bits: 32, ValueBits: 32, Layers: encode.MultiLayer(25), Seed: 4},
	"revised":     {Bits: 32, ValueBits: 32, Layers: encode.MultiLayerRevised(25), Seed: 5, Vector: true},
	"network":     {Bits: 32, ValueBits: 32, Layers: encode.Dense(pint.Whole), Seed: 6},
	"fragments":   {Bits: 3, ValueBits: 8, Layers: encode.Hybrid(5), Values: pint.Fragmented, Seed: 7},
	"hashed2x8":   {Bits: 8, Instances: 2, Layers: encode.Hybrid(10), Values: pint.Hashed, Seed: 8},
	"hashed1":     {Bits: 1, Layers: encode.Hybrid(5), Values: pint.Hashed, Seed: 9, Vector: true},
	"linear2x8":   {Bits: 8, Instances: 2, ValueBits: 10, Layers: encode.Dense(pint.Linear), Values: pint.Linear, Seed: 10},
	"linear7x4":   {Bits: 4, Instances: 7, ValueBits: 20, Layers: encode.Dense(pint.Linear), Values: pint.Linear, Seed: 11},
	"linear1":     {Bits: 1, ValueBits: 10, Layers: encode.Dense(pint.Linear), Values: pint.Linear, Seed: 12},
	"linearlinks": {Bits: 8, Instances: 2, ValueBits: 10, Layers: encode.Interleaved(0.6, 1), Values: pint.Linear, Seed: 13, Vector: true},
}

// init adds each encoding in crc.
func init() {
	for name, c := range maps.Clone(codings) {
		c.Hash = hash.CRC
		codings[name+" crc"] = c
	}
}

func mustStatic(t testing.TB, c encode.StaticConfig) *encode.Static {
	t.Helper()
	s, err := encode.NewStatic(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// observe makes n digests of a path.
func observe(s *encode.Static, r *rand.Rand, path []uint64, n int) []Observation {
	var obs []Observation
	for range n {
		id := r.Uint64()
		obs = append(obs, Observation{id, s.Digest(new(encode.Scratch), id, path)})
	}
	return obs
}

// consistent lists, by trying all, the paths that explain the digests. step
// says which values may follow a path.
func consistent(s *encode.Static, obs []Observation, hops int, step func(path []uint64) []uint64) [][]uint64 {
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
			if s.Digest(new(encode.Scratch), o.ID, path) != o.Digest {
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
	runs := 300
	if testing.Short() {
		runs = 100
	}
	for _, c := range []struct {
		name   string
		config encode.StaticConfig
		make   func(*encode.Static) Solver
		exact  bool
	}{
		{"peel whole", encode.StaticConfig{Bits: 3, ValueBits: 3, Layers: encode.Hybrid(4)}, func(s *encode.Static) Solver { return NewPeeling(s) }, false},
		{"peel fragments", encode.StaticConfig{Bits: 2, ValueBits: 3, Layers: encode.Hybrid(4), Values: pint.Fragmented}, func(s *encode.Static) Solver { return NewPeeling(s) }, false},
		{"eliminate whole", encode.StaticConfig{Bits: 3, ValueBits: 3, Layers: encode.Dense(pint.Whole)}, func(s *encode.Static) Solver { return NewElimination(s) }, true},
		{"eliminate fragments", encode.StaticConfig{Bits: 1, Instances: 2, ValueBits: 3, Layers: encode.XOR(0.4), Values: pint.Fragmented}, func(s *encode.Static) Solver { return NewElimination(s) }, true},
		{"eliminate linear", encode.StaticConfig{Bits: 2, Instances: 2, ValueBits: 3, Layers: encode.Dense(pint.Linear), Values: pint.Linear}, func(s *encode.Static) Solver { return NewElimination(s) }, true},
		{"eliminate linear layers", encode.StaticConfig{Bits: 2, ValueBits: 3, Layers: encode.Hybrid(4), Values: pint.Linear, Vector: true}, func(s *encode.Static) Solver { return NewElimination(s) }, true},
		{"candidates hashed", encode.StaticConfig{Bits: 2, Instances: 2, Layers: encode.Hybrid(4), Values: pint.Hashed}, func(s *encode.Static) Solver { return NewCandidates(s, all) }, false},
		{"candidates linear", encode.StaticConfig{Bits: 1, ValueBits: 3, Layers: encode.Hybrid(4), Values: pint.Linear}, func(s *encode.Static) Solver { return NewCandidates(s, all) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			unique, early := 0, 0
			for run := range runs {
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
			if unique < runs/10 || early < runs/10 {
				t.Errorf("%d unique and %d open cases of %d test little", unique, early, runs)
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

// TestWalksAgainstSearch does the same with a topology. walkSolver is exact but for
// its waiting for as many digest bits as there are bits of walks.
func TestWalksAgainstSearch(t *testing.T) {
	for name, c := range map[string]encode.StaticConfig{
		"linear": {Bits: 4, Instances: 2, ValueBits: 4, Layers: encode.Interleaved(0.6, 1), Values: pint.Linear, Vector: true},
		"hashed": {Bits: 4, Layers: encode.Hybrid(5), Values: pint.Hashed},
		"bit":    {Bits: 1, Layers: encode.Interleaved(0.7, 1), Values: pint.Hashed},
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
		if s.Layers[0].P != 1 {
			solvers = append(solvers, NewCandidates(s, top.Values())) // which needs a digest of one hop to begin
		}
		if s.Values != pint.Hashed {
			solvers = append(solvers, NewElimination(s))
		}
		if s.Values == pint.Whole || s.Values == pint.Fragmented {
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
	if err != nil || len(top.to)/2 != 2 {
		t.Fatalf("parallel links and loops: %v, %v", top, err)
	}
	for l := range top.to {
		b := top.back[l]
		if top.from[b] != top.to[l] || top.to[b] != top.from[l] {
			t.Errorf("link %d and its reverse %d do not match", l, b)
		}
	}
}
