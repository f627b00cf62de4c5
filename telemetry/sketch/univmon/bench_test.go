package univmon

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/topk"
)

// traffic returns n flow hashes of 200,000 flows with sizes by Zipf, in random
// order.
func traffic(n int) (h []uint64, v []int64) {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, 199_999)
	for range n {
		h = append(h, hash.Uint64(1, z.Uint64()))
		v = append(v, 1)
	}
	return h, v
}

// naive is UnivMon as its paper has it: a Count Sketch of some rows for each
// level, and a flow updates those of all levels up to its own.
type naive struct {
	levels [][][]int64
}

func newNaive(levels, depth, width int) *naive {
	n := &naive{}
	for range levels {
		var rows [][]int64
		for range depth {
			rows = append(rows, make([]int64, width))
		}
		n.levels = append(n.levels, rows)
	}
	return n
}

func (n *naive) add(h uint64, v int64) {
	last := min(bits.TrailingZeros64(hash.Uint64(99, h)), len(n.levels)-1)
	for l, rows := range n.levels[:last+1] {
		for i, row := range rows {
			seed := uint64(l*len(rows)+i) * 2
			c := hash.Uint64(seed, h) % uint64(len(row))
			if hash.Uint64(seed+1, h)&1 == 0 {
				row[c] += v
			} else {
				row[c] -= v
			}
		}
	}
}

// BenchmarkFragment states ns per packet for 128 KiB of cells, 16 levels and
// 200,000 flows.
func BenchmarkFragment(b *testing.B) {
	const batch = 64
	h, v := traffic(1 << 20)
	run := func(name string, f func(h []uint64, v []int64)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + batch) & (len(h) - 1) {
				f(h[i:i+batch], v[i:i+batch])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
	f, _ := NewFragmentBytes(Levels, 128<<10, 1, 2)
	run("Add", func(h []uint64, v []int64) {
		for i, x := range h {
			f.Add(x, v[i])
		}
	})
	run("AddBatch", f.AddBatch)
	c, _ := NewCandidates[topk.Key](Levels, 256, 3)
	key := new(topk.Key)
	run("AddLevel+Offer", func(h []uint64, v []int64) {
		for i, x := range h {
			l := f.Level(x)
			f.addLevel(l, x, v[i])
			c.Offer(l, x, key, v[i])
		}
	})
	nested := newNaive(Levels, 1, 128<<10/Levels/8)
	run("nested1", func(h []uint64, v []int64) {
		for i, x := range h {
			nested.add(x, v[i])
		}
	})
	naive5 := newNaive(Levels, 5, 128<<10/Levels/5/8)
	run("nested5", func(h []uint64, v []int64) {
		for i, x := range h {
			naive5.add(x, v[i])
		}
	})
}
