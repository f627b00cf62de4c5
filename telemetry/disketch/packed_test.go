package disketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// checkPacked compares a record whose cells stay in their binary form with one whose cells
// are numbers: both readers take the same bytes, and say the same.
func checkPacked(t *testing.T, form []byte) (taken bool) {
	t.Helper()
	taken = checkPackedOf(t, form, hash.XX)
	if checkPackedOf(t, form, hash.CRC) != taken {
		t.Fatal("the family decides what is taken")
	}
	return taken
}

func checkPackedOf(t *testing.T, form []byte, family hash.Family) (taken bool) {
	t.Helper()
	var slow Record
	slowErr := slow.UnmarshalBinary(form)
	x, err := Decode(form, family)
	if (err == nil) != (slowErr == nil) {
		t.Fatalf("packed: %v, as numbers: %v", err, slowErr)
	}
	if err != nil {
		if !errors.Is(err, ErrFormat) || err.Error() == "" {
			t.Fatalf("an error without ErrFormat: %v", err)
		}
		return false
	}
	slow.Use(family)
	want := slow.Prepare()
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	if !near(x.rho, want.rho) || !near(x.Error(), slow.Error()) || x.Shape() != slow.Shape() || x.Kind() != slow.Kind() || x.rows.saturated() != slow.rows.saturated() ||
		x.Schedule != slow.Schedule || x.Fragment != slow.Fragment || !slices.Equal(x.Candidates, slow.Candidates) {
		t.Fatalf("packed: %+v, as numbers: %+v", x, want)
	}
	if len(x.levels) != len(want.levels) || x.rows.width() != slow.rows.width() {
		t.Fatalf("%d levels of %d cells", len(x.levels), x.rows.width())
	}
	for i := range x.levels {
		if a, b := x.levels[i], want.levels[i]; !near(a.rho, b.rho) || a.noise != b.noise || !near(x.rows.error(i), slow.rows.error(i)) {
			t.Fatalf("level %d: %+v, as numbers %+v", i, a, b)
		}
		cells := slow.Cells(i)
		if !slices.Equal(x.Cells(i), cells) {
			t.Fatalf("cells of level %d differ", i)
		}
		for c, v := range cells {
			if x.rows.at(i, c) != float64(v) || slow.rows.at(i, c) != float64(v) {
				t.Fatalf("cell %d of level %d is %g, not %d", c, i, x.rows.at(i, c), v)
			}
		}
	}
	for _, flow := range flowsOf(50) {
		if x.Estimate(flow) != slow.Estimate(flow) || x.rows.level(flow) != slow.rows.level(flow) {
			t.Fatalf("flow %x: %g, as numbers %g", flow, x.Estimate(flow), slow.Estimate(flow))
		}
	}
	a, _ := x.AppendBinary(nil)
	b, _ := x.Clone().AppendBinary(nil)
	rows, _ := slow.rows.appendBinary(nil)
	shortest := x.rows.packed == nil || len(x.rows.packed.body) == len(rows) // a varint may be longer than it need be
	if c, _ := slow.AppendBinary(nil); shortest && (!slices.Equal(a, c) || !slices.Equal(b, c)) {
		t.Fatal("the binary forms differ")
	}
	return true
}

// bigRecord has cells of all sizes, and several blocks of them.
func bigRecord(kind Kind, r *rand.Rand) *Record {
	f, err := NewFragment(Config{ID: ID{1, 2}, Kind: kind, Memory: 2000 + r.IntN(6000), Levels: 1 + r.IntN(5), Epochs: 25, Seed: r.Uint64()})
	if err != nil {
		panic(err)
	}
	c, _ := f.NewCounter()
	c.Begin(f.Begin(7), 0)
	for range r.IntN(2000) {
		c.Add(r.Uint64(), int64(1)<<r.IntN(33), false)
	}
	return c.Record()
}

func TestPackedTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for round := range 300 {
		rec := someRecord(Kind(1+r.IntN(3)), r)
		if round%2 == 0 {
			rec = bigRecord(Kind(1+r.IntN(3)), r)
		}
		whole, _ := rec.AppendBinary(nil)
		form := oldForm(rec)
		if !checkPacked(t, whole) || !checkPacked(t, form) {
			t.Fatalf("%v was refused", rec.Kind())
		}
		b := slices.Clone(whole)
		b[r.IntN(len(b))] ^= byte(1) << r.IntN(8)
		checkPacked(t, b)
		for range 20 {
			b := slices.Clone(form)
			for range 1 + r.IntN(3) {
				b[r.IntN(len(b))] ^= byte(1) << r.IntN(8)
			}
			checkPacked(t, b)
			checkPacked(t, form[:r.IntN(len(form))])
		}
	}
}

// TestPackedLongVarints: a cell may be written in more bytes than it needs.
func TestPackedLongVarints(t *testing.T) {
	form := oldForm(someRecord(CountMin, rand.New(rand.NewPCG(1, 5))))
	last := len(form) - 1
	for form[last-1] >= 0x80 {
		last--
	}
	v := form[last:]
	long := append(slices.Clone(form[:last]), v[:len(v)-1]...)
	long = append(long, v[len(v)-1]|0x80, 0x80, 0)
	if !checkPacked(t, long) {
		t.Error("was refused")
	}
}

func TestPreparedBytes(t *testing.T) {
	if a, b := int(reflect.TypeFor[Candidate]().Size()), int(reflect.TypeFor[level]().Size()); a != candidateBytes || b != levelBytes {
		t.Errorf("a candidate has %d bytes, a level %d", a, b)
	}
	rest := int(reflect.TypeFor[Prepared]().Size() + reflect.TypeFor[Record]().Size() + reflect.TypeFor[packed]().Size())
	if rest > preparedBytes {
		t.Errorf("a prepared record has %d bytes beside its cells", rest)
	}
}

// TestPackedQueries: answers are the same from either.
func TestPackedQueries(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	for _, kind := range []Kind{CountSketch, CountMin, UnivMon} {
		var slow, fast Records
		for sw := range uint64(4) {
			f, err := NewFragment(Config{ID: ID{Switch: sw}, Kind: kind, Memory: 4096, Epochs: 25, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			c, _ := f.NewCounter()
			for e := range uint64(5) {
				c.Begin(f.Begin(e), 0)
				for range 3000 {
					c.Add(r.Uint64N(400), 1, false)
				}
				form, _ := c.Record().AppendBinary(nil)
				x, err := Decode(form, hash.XX)
				if err != nil {
					t.Fatal(err)
				}
				var rec Record
				if err := errors.Join(rec.UnmarshalBinary(form), fast.AddPrepared(x), slow.Add(&rec)); err != nil {
					t.Fatal(err)
				}
			}
		}
		path := PathFunc(func(flow uint64) []uint64 { return []uint64{flow % 2, 2 + flow%2} })
		q := Query{From: 0, To: 5}
		for flow := range uint64(400) {
			a, b := fast.Frequency(q, flow, path), slow.Frequency(q, flow, path)
			if !reflect.DeepEqual(a.Missing, b.Missing) || math.Abs(a.Value-b.Value) > 1e-6 || math.Abs(a.Low-b.Low) > 1e-6 || math.Abs(a.High-b.High) > 1e-6 {
				t.Fatalf("%v, flow %d: %+v, as numbers %+v", kind, flow, a, b)
			}
		}
		search := TargetSearch{Query: q, Epoch: 3, Paths: [][]uint64{{0, 2}, {1, 3}}, Trials: 200}
		a, err := fast.FindTarget(search)
		b, err2 := slow.FindTarget(search)
		if err != nil || err2 != nil || math.Abs(a-b) > 1e-6*b {
			t.Errorf("%v: target %g, as numbers %g, %v, %v", kind, a, b, err, err2)
		}
	}
}

// FuzzPacked: both readers take the same bytes, and say the same.
func FuzzPacked(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 9 {
		form, _ := someRecord(Kind(1+r.IntN(3)), r).AppendBinary(nil)
		f.Add(form)
	}
	f.Fuzz(func(t *testing.T, form []byte) { checkPacked(t, form) })
}

// BenchmarkDecode compares both readers, beside the time for a bare copy, and reads single
// cells of records that no cache has.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name  string
		most  uint64
		cells int
	}{{"128KB-of-memory", 50, 32 << 10}, {"128KB-encoded", 4000, 70 << 10}} {
		r := rand.New(rand.NewPCG(1, 2))
		f, err := NewFragment(Config{Kind: CountMin, Memory: 4 * c.cells, Epochs: 30})
		if err != nil {
			b.Fatal(err)
		}
		counter, _ := f.NewCounter()
		counter.Begin(f.Begin(1), 0)
		for range 2 * c.cells {
			counter.Add(r.Uint64(), r.Int64N(int64(c.most)), false)
		}
		form, _ := counter.Record().AppendBinary(nil)
		b.Run(c.name+"/copy", func(b *testing.B) {
			b.SetBytes(int64(len(form)))
			for b.Loop() {
				copied = slices.Clone(form)
			}
		})
		b.Run(c.name+"/numbers", func(b *testing.B) {
			b.SetBytes(int64(len(form)))
			for b.Loop() {
				var r Record
				if err := r.UnmarshalBinary(form); err != nil {
					b.Fatal(err)
				}
				r.Prepare()
			}
		})
		b.Run(c.name+"/packed", func(b *testing.B) {
			b.SetBytes(int64(len(form)))
			for b.Loop() {
				if _, err := Decode(form, hash.XX); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var copied []byte

// TestFrequencies: many flows at a time are answered as one by one, in their order.
func TestFrequencies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	var all Records
	for sw := range uint64(3) {
		f, err := NewFragment(Config{ID: ID{Switch: sw}, Kind: CountSketch, Memory: 400, Epochs: 25, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := f.NewCounter()
		for _, e := range []uint64{3, 4, 6, 200} {
			if sw == 1 && e == 4 {
				continue // is missing
			}
			c.Begin(f.Begin(e), 0)
			for range 500 {
				c.Add(r.Uint64N(9000), 1, false)
			}
			if err := all.Add(c.Record().Clone()); err != nil {
				t.Fatal(err)
			}
		}
	}
	flows := make([]uint64, 2*flowsTogether+100)
	for i := range flows {
		flows[i] = uint64(i)
	}
	path := PathFunc(func(flow uint64) []uint64 { return []uint64{0, 1, 2}[:flow%4] })
	q := Query{From: 2, To: 210}
	one, i := all.Asker(), 0
	all.Asker().frequencies(q, flows, path, func(flow uint64, got Answer) {
		if want := one.Frequency(q, flow, path); flow != flows[i] || !reflect.DeepEqual(got, want) {
			t.Fatalf("flow %d: %+v, alone %+v", flow, got, want)
		}
		i++
	})
	if i != len(flows) {
		t.Errorf("%d answers", i)
	}
}
