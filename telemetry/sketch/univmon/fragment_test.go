package univmon

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// twin remembers all flows and computes cells when asked.
type twin struct {
	family          hash.Family
	levels, width   int
	levelSeed, seed uint64
	flows           map[uint64]int64
}

// level counts coins that fall on heads, up to the last level.
func (w *twin) level(h uint64) int {
	coins, l := w.family.Uint64(w.levelSeed, h), 0
	for l < w.levels-1 && coins%2 == 0 {
		coins /= 2
		l++
	}
	return l
}

func (w *twin) place(h uint64) (level int, column uint64, sign int64) {
	m := w.family.Uint64(w.seed, h)
	return w.level(h), hash.Reduce(m, uint64(w.width)), 1 - 2*int64(m%2)
}

func (w *twin) row(level int) []int32 {
	c := make([]int32, w.width)
	for h, v := range w.flows {
		if l, i, sign := w.place(h); l == level {
			c[i] += int32(sign * v)
		}
	}
	return c
}

func TestFragmentEqualsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 400 {
		w := twin{hash.Family(round % 3), 1 + r.IntN(8), 1 + r.IntN(40), r.Uint64(), r.Uint64(), map[uint64]int64{}}
		f, err := NewFragment(w.levels, w.width, w.levelSeed, w.seed)
		if err != nil {
			t.Fatal(err)
		}
		f.Use(w.family)
		for range r.IntN(60) {
			switch r.IntN(8) {
			case 0: // What other workers saw.
				o, _ := NewFragment(w.levels, w.width, w.levelSeed, w.seed)
				o.Use(w.family)
				h, v := []uint64{1, r.Uint64N(40), 3}, []int64{4, -5, 1500}
				o.AddBatch(h, v)
				for i := range h {
					w.flows[h[i]] += v[i]
				}
				if err := f.Merge(o); err != nil {
					t.Fatal(err)
				}
			case 1: // A copy that goes its own way.
				f.Clone().Add(1, 100)
			case 2: // Over the wire.
				b, _ := f.AppendBinary(nil)
				f = new(Fragment)
				if err := f.UnmarshalBinary(b); err != nil {
					t.Fatal(err)
				}
				f.Use(w.family)
			case 3:
				if r.IntN(10) == 0 {
					w.seed = r.Uint64()
					f.Reset(w.seed)
					clear(w.flows)
				}
			default:
				h, v := r.Uint64N(40), r.Int64N(3000)-1000
				f.Add(h, v)
				w.flows[h] += v
			}
		}
		w.compare(t, f)
	}
}

func (w *twin) compare(t *testing.T, f *Fragment) {
	t.Helper()
	if f.Levels() != w.levels || f.Width() != w.width || f.Bytes() != 4*w.levels*w.width {
		t.Fatalf("%d levels of %d cells", f.Levels(), f.Width())
	}
	total, f2 := int64(0), 0.0
	for l := range w.levels {
		want, squares := w.row(l), 0.0
		if !slices.Equal(f.Row(l), want) {
			t.Fatalf("level %d: cells %v, want %v", l, f.Row(l), want)
		}
		for _, c := range want {
			squares += float64(c) * float64(c)
		}
		f2 += squares
		if got := f.Error(l); math.Abs(got-math.Sqrt(squares/float64(w.width))) > 1e-9*got {
			t.Fatalf("level %d: error %v of squares %v", l, got, squares)
		}
	}
	for h, v := range w.flows {
		total += v
		l, i, sign := w.place(h)
		if f.Level(h) != l || LevelOf(w.family, w.levels, w.levelSeed, h) != l || w.family == hash.XX && Level(w.levels, w.levelSeed, h) != l {
			t.Fatalf("level of %d is %d, want %d", h, f.Level(h), l)
		}
		if got, want := f.Estimate(h), sign*int64(w.row(l)[i]); got != want {
			t.Fatalf("Estimate(%d) = %d, want %d", h, got, want)
		}
	}
	if f.Total() != total || f.SecondMoment() != f2 {
		t.Fatalf("total %d, F2 %v; want %d, %v", f.Total(), f.SecondMoment(), total, f2)
	}
}

func TestFragmentRefuses(t *testing.T) {
	for _, c := range []struct{ levels, width int }{{0, 1}, {MaxLevels + 1, 1}, {1, 0}, {16, sketch.MaxWidth/16 + 1}} {
		if _, err := NewFragment(c.levels, c.width, 1, 2); err == nil {
			t.Errorf("%d levels of %d cells were made", c.levels, c.width)
		}
	}
	for _, levels := range []int{-1, 0, 1000} {
		if _, err := NewFragmentBytes(levels, 1<<20, 1, 2); err == nil {
			t.Errorf("%d levels were made", levels)
		}
	}
	f, err := NewFragmentBytes(16, 128<<10, 1, 2)
	if err != nil || f.Width() != 2048 || f.Bytes() != 128<<10 {
		t.Fatalf("%v: %d cells in each row", err, f.Width())
	}
	shapes := [][4]uint64{{15, 2048, 1, 2}, {16, 2047, 1, 2}, {16, 2048, 2, 2}, {16, 2048, 1, 3}, {16, 2048, 1, 2}}
	for _, s := range shapes {
		o, _ := NewFragment(int(s[0]), int(s[1]), s[2], s[3])
		if s == shapes[len(shapes)-1] {
			o.Use(hash.CRC)
		}
		if err := f.Merge(o); !errors.Is(err, sketch.ErrShape) {
			t.Errorf("Merge of %v: %v", s, err)
		}
	}
}

func TestFragmentSaturates(t *testing.T) {
	f, _ := NewFragment(1, 1, 1, 2)
	f.Add(5, math.MaxInt32)
	f.AddBatch([]uint64{5}, []int64{1})
	if f.Saturated() != 1 || !f.IsSaturated(5) || f.Total() != math.MaxInt32+1 {
		t.Fatalf("%d saturated, total %d", f.Saturated(), f.Total())
	}
}

func TestAllocatesNothing(t *testing.T) {
	f, _ := NewFragment(16, 100, 1, 2)
	c, _ := NewCandidates[[40]byte](16, 64, 1)
	h, v, key := make([]uint64, 64), make([]int64, 64), new([40]byte)
	i := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		i++
		f.AddBatch(h, v)
		l := f.Level(i)
		f.addLevel(l, i, 1)
		f.Add(i, 1)
		c.Offer(l, i, key, 1)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestGolden pins the format: what is stored today is read tomorrow.
func TestGolden(t *testing.T) {
	r, _ := NewFragment(3, 1, 9, 0x0102030405060708)
	r.AddBatch([]uint64{1, 2, 3}, []int64{300, 1, 7})
	b, _ := r.AppendBinary(nil)
	if got, want := fmt.Sprintf("%x", b), "0105030900000000000000080706050403020134010000000000000300d8040d02"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzFragment(f *testing.F) {
	x, _ := NewFragment(3, 2, 1, 2)
	x.AddBatch([]uint64{1, 2, 3}, []int64{70000, 1, -5})
	b, _ := x.AppendBinary(nil)
	f.Add(b)
	f.Add(b[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Fragment
		if r.UnmarshalBinary(b) != nil {
			return
		}
		r.Add(1, 1)
		c, _ := r.AppendBinary(nil)
		if err := again.UnmarshalBinary(c); err != nil {
			t.Fatal(err)
		}
		for l := range r.Levels() {
			if !slices.Equal(r.Row(l), again.Row(l)) {
				t.Fatalf("level %d: %v became %v", l, r.Row(l), again.Row(l))
			}
		}
		if r.Total() != again.Total() || r.Seed() != again.Seed() || r.LevelSeed() != again.LevelSeed() {
			t.Fatal("totals or seeds differ")
		}
	})
}
