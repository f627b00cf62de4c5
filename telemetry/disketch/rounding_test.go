package disketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// TestSpan: whatever the rounding and the dither, a cell is within the limits of its code, limits are about a step apart, the value of a code has no bias, and
// small cells of a least step of 1 are whole.
func TestSpan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 'r'))
	for _, at := range append([]Rounding{{8, 0, 0}, {maxRatio, 0, 0}, {maxRatio, maxLeast, 0}, {512, 16, 0}}, roundings...) {
		s := newScale(at, r.Uint64())
		for _, v := range []int32{0, 1, -1, 2, 7, -100, 1000, 12_345, -1_000_000, math.MaxInt32, math.MinInt32, math.MaxInt32 - 1} {
			const draws = 4000
			sum, squares := 0.0, 0.0
			step := s.ratio * math.Hypot(float64(v), s.c)
			for range draws {
				d := r.Float64() - 0.5
				code := s.code(v, d)
				value, low, high := s.span(code, d)
				if float64(v) < low || float64(v) > high || value < low || value > high || code > s.most || code < -s.most {
					t.Fatalf("%v: %d has the code %d: %g, from %g to %g", at, v, code, value, low, high)
				}
				if high-low > step*math.Exp(s.ratio)+1 {
					t.Fatalf("%v: %d is from %g to %g, a step of %g", at, v, low, high, step)
				}
				sum += value - float64(v)
				squares += (value - float64(v)) * (value - float64(v))
			}
			// Six standard deviations; near a step of 1, where a code may stand for one whole number or two, up to a tenth of a packet.
			if off := math.Abs(sum / draws); off > 6*math.Sqrt(squares)/draws+0.002*step+0.1 {
				t.Errorf("%v: %d is off by %g on average, a step of %g", at, v, sum/draws, step)
			}
			if at.Least == 0 && at.Ratio <= 16*coarseRatio && math.Abs(float64(v)) <= 1 && squares > 0.3*draws {
				t.Errorf("%v: %d is not whole: %g", at, v, squares/draws)
			}
		}
	}
}

// TestEachSize: sizes of a span have all its numbers, each once; what is beyond whole floats ends, too.
func TestEachSize(t *testing.T) {
	for low := -70.0; low <= 70; low++ {
		for high := low; high <= 70; high++ {
			var got, want [33]float64
			eachSize(low, high, func(size int, numbers float64) { got[size] += numbers })
			for v := int(low); v <= int(high); v++ {
				want[bits.Len(uint(max(v, -v)))]++
			}
			if got != want {
				t.Fatalf("from %g to %g: %v, not %v", low, high, got, want)
			}
		}
	}
	for _, v := range []float64{1 << 53, 1e19, 1e300} {
		sum := 0.0
		eachSize(-v, v, func(_ int, numbers float64) { sum += numbers })
		if sum < 2*v || sum > 2.1*v {
			t.Errorf("%g numbers up to %g", sum, v)
		}
		if p := poissonBetween(v, v, 5); p != 0 {
			t.Errorf("a chance of %g of %g", p, v)
		}
	}
}

// roundedRecord is one of a kind, and its flows.
func roundedRecord(t testing.TB, kind Kind, seed uint64) (*Record, map[uint64]float64) {
	t.Helper()
	f, err := NewFragment(Config{ID: ID{Switch: 3, Sketch: 1}, Kind: kind, Memory: 16 << 10, Levels: 4, Epochs: 27, Seed: seed, Candidates: 8})
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	c.Begin(f.Schedule(9, 0), 0)
	r := rand.New(rand.NewPCG(seed, 'r'))
	truth := map[uint64]float64{}
	for range 3000 {
		flow := r.Uint64()
		n := int64(min(math.Pow(r.Float64(), -1.1), 1e5))
		c.Add(flow, n, false)
		truth[flow] += float64(n)
	}
	x := c.Record().Clone()
	x.Packets, x.Seen = x.Value, x.Value
	return x, truth
}

// TestRoundedRecord: a record of rounded cells is smaller the coarser they are, about as large as foretold, says the same decoded for queries as for the
// switch, has the same bytes when it is encoded again, its cells are within their limits, and its error and noise are those of whole cells. A whole one is as it was.
func TestRoundedRecord(t *testing.T) {
	for _, kind := range []Kind{CountSketch, CountMin, UnivMon} {
		x, _ := roundedRecord(t, kind, 5)
		whole, err := x.AppendBinary(nil)
		if err != nil || whole[0] != recordVersion {
			t.Fatalf("%v: %v, version %d", kind, err, whole[0])
		}
		exact, err := Decode(whole, hash.XX)
		if err != nil {
			t.Fatal(err)
		}
		last := len(whole)
		wholes := 0
		for i := range roundings {
			at := x.rounding(i)
			x.Rounding = at
			b, err := x.AppendBinary(nil)
			if err != nil || b[0] != recordVersionRounded {
				t.Fatalf("%v: %v, version %d", kind, err, b[0])
			}
			if len(b) > last+100 {
				t.Errorf("%v, %v: %d bytes, with the finer one %d", kind, at, len(b), last)
			}
			last = len(b)
			if size := x.Size(at); size < len(b)*9/10-200 || size > len(b)*11/10+200 {
				t.Errorf("%v, %v: %d bytes, %d foretold", kind, at, len(b), size)
			}
			d, err := Decode(bytes.Clone(b), hash.XX)
			if err != nil {
				t.Fatalf("%v, %v: %v", kind, at, err)
			}
			var u Record
			if err := u.UnmarshalBinary(b); err != nil {
				t.Fatalf("%v, %v: %v", kind, at, err)
			}
			if d.Error() != exact.Error() || u.Error() != exact.Error() {
				t.Errorf("%v, %v: an error of %g and %g, not %g", kind, at, d.Error(), u.Error(), exact.Error())
			}
			again, err := u.AppendBinary(nil)
			if err != nil || !bytes.Equal(again, b) {
				t.Errorf("%v, %v: encoded again it differs: %v", kind, at, err)
			}
			_, step := x.Steps()
			for level := range x.rows.levels() {
				cells, others := d.Cells(level), u.Cells(level)
				for column, v := range x.Cells(level) {
					value, low, high := d.rows.packed.rounded(level, column)
					if float64(v) < low || float64(v) > high || math.Abs(float64(cells[column])-value) > 0.5 || others[column] != cells[column] {
						t.Fatalf("%v, %v: a cell of %d is %g, from %g to %g", kind, at, v, value, low, high)
					}
					if amount := math.Abs(float64(v)); at.Whole > 0 && amount >= math.Exp2(float64(at.Whole))+2*step && low != high {
						t.Fatalf("%v, %v: a cell of %d is from %g to %g", kind, at, v, low, high)
					} else if low == high && amount > 10 {
						wholes++
					}
					if v == 0 && at.Least == 0 && high-low > 2 {
						t.Fatalf("%v, %v: an empty cell may have %g to %g", kind, at, low, high)
					}
				}
				if d.levels[level] != exact.levels[level] {
					t.Errorf("%v, %v, level %d: an error and a noise of %v, not %v", kind, at, level, d.levels[level], exact.levels[level])
				}
			}
		}
		if wholes < 100 {
			t.Errorf("%v: %d cells were whole", kind, wholes)
		}
		x.Rounding = Rounding{}
		if b, err := x.AppendBinary(nil); err != nil || !bytes.Equal(b, whole) {
			t.Errorf("%v: a whole record changed: %v", kind, err)
		}
	}
}

// TestRound: the finest rounding that fits is chosen, none where all fits, and the coarsest where none does; kinds that are no sums stay whole.
func TestRound(t *testing.T) {
	x, _ := roundedRecord(t, CountSketch, 6)
	whole := x.Size(Rounding{})
	if x.Round(float64(whole)); x.Rounding != (Rounding{}) {
		t.Errorf("%v with room for all", x.Rounding)
	}
	if x.Round(1); x.Rounding != roundings[len(roundings)-1] {
		t.Errorf("%v with room for nothing", x.Rounding)
	}
	for i := range roundings[1:] {
		if x.Round(float64(x.Size(x.rounding(i + 1)))); x.Size(x.Rounding) > x.Size(x.rounding(i+1)) {
			t.Errorf("%v with room for %v", x.Rounding, roundings[i+1])
		}
	}
	tower, _ := roundedRecord(t, Tower, 6)
	tower.Round(1)
	b, err := tower.AppendBinary(nil)
	if err != nil || b[0] != recordVersion {
		t.Errorf("%v, a record of tower of version %d", err, b[0])
	}
}

// TestHostileRounding: what no switch makes is refused.
func TestHostileRounding(t *testing.T) {
	x, _ := roundedRecord(t, CountMin, 7)
	x.Rounding = Rounding{128, 0, 8}
	b, err := x.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	tower, _ := roundedRecord(t, Tower, 7)
	other, err := tower.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	// cells changes what is behind the seed of the rows: the moment, how many sizes there are, these, and the codes.
	cells := func(change func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte {
			at := uvarints(b, fixedBytes+roundedBytes, 7)
			keys, rest, err := packing.Cut(b[at:])
			if err != nil {
				t.Fatal(err)
			}
			body, offsets, err := packing.Cut(rest)
			if err != nil {
				t.Fatal(err)
			}
			d := sketch.NewReader(body, sketch.KindCountMinRow)
			d.Uint64()
			d.Uvarint()
			d.Uvarint()
			head := len(body) - len(d.Rest())
			body = append(bytes.Clone(body[:head]), change(bytes.Clone(body[head:]))...)
			return append(packing.AppendCells(packing.Append(bytes.Clone(b[:at]), keys), body), offsets...)
		}
	}
	if same := cells(func(b []byte) []byte { return b })(b); !bytes.Equal(same, b) {
		t.Fatal("the test does not find the cells")
	}
	for name, change := range map[string]func(b []byte) []byte{
		"another sum":      cells(func(b []byte) []byte { b[3]++; return b }),
		"a smaller sum":    cells(func(b []byte) []byte { binary.LittleEndian.PutUint64(b, math.Float64bits(1)); return b }),
		"no number":        cells(func(b []byte) []byte { copy(b, bytes.Repeat([]byte{0xff}, 8)); return b }),
		"too many sizes":   cells(func(b []byte) []byte { b[8] = 34; return b }),
		"no sizes":         cells(func(b []byte) []byte { b[8] = 0; return b }),
		"one cell more":    cells(func(b []byte) []byte { b[len(b)-1] = 0; return append(b, 0) }),
		"one cell less":    cells(func(b []byte) []byte { return b[:len(b)-2] }),
		"a negative cell":  cells(func(b []byte) []byte { b[len(b)-1] = 1; return b }),
		"a cell too large": cells(func(b []byte) []byte { return binary.AppendVarint(b[:len(b)-1], 1<<20) }),
		"no ratio":         func(b []byte) []byte { b[fixedBytes], b[fixedBytes+1] = 0, 0; return b },
		"a huge least":     func(b []byte) []byte { b[fixedBytes+2] = maxLeast + 1; return b },
		"a coarser scale":  func(b []byte) []byte { b[fixedBytes+1] = 4; return b },
		"a huge ratio":     func(b []byte) []byte { b[fixedBytes+1] = 255; return b },
		"all are whole":    func(b []byte) []byte { b[fixedBytes+3] = 1; return b },
		"none is whole":    func(b []byte) []byte { b[fixedBytes+3] = 0; return b },
		"a huge whole":     func(b []byte) []byte { b[fixedBytes+3] = maxWhole + 1; return b },
		"one offset more":  func(b []byte) []byte { return append(b, 0) },
		"a later offset":   func(b []byte) []byte { b[len(b)-1] = 0xff; return b },
		"cut short":        func(b []byte) []byte { return b[:len(b)-1] },
		"of tower": func([]byte) []byte {
			return append(append(append([]byte{recordVersionRounded}, other[1:fixedBytes]...), 128, 0, 0, 0), other[fixedBytes:]...)
		},
		"an unknown kind":  func(b []byte) []byte { b[1] = 77; return b },
		"a later version":  func(b []byte) []byte { b[0] = recordVersionRounded + 1; return b },
		"without a scale":  func(b []byte) []byte { b[0] = recordVersion; return b },
		"only its version": func(b []byte) []byte { return b[:1] },
	} {
		changed := change(bytes.Clone(b))
		if _, err := Decode(bytes.Clone(changed), hash.XX); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if err := new(Record).UnmarshalBinary(changed); !errors.Is(err, ErrFormat) {
			t.Errorf("%s, by UnmarshalBinary: %v", name, err)
		}
	}
}

// FuzzRounded: whatever bytes say that they are a record of rounded cells, both decoders agree on them, and queries of what they make end.
func FuzzRounded(f *testing.F) {
	for _, kind := range []Kind{CountSketch, CountMin, UnivMon} {
		x, _ := roundedRecord(f, kind, 8)
		for _, at := range []Rounding{{1, 0, 0}, {1, 8, 6}, {128, 4, 0}, {maxRatio, maxLeast, 20}} {
			x.Rounding = at
			b, err := x.AppendBinary(nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 {
			b[0] = recordVersionRounded
		}
		x, err := Decode(bytes.Clone(b), hash.XX)
		var u Record
		if err2 := u.UnmarshalBinary(b); (err == nil) != (err2 == nil) {
			t.Fatalf("%v, and by UnmarshalBinary %v", err, err2)
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		var records Records
		if err := records.AddPrepared(x); err != nil {
			return // partial
		}
		q := Query{From: x.Epoch, To: x.Epoch + 1}
		for flow := range uint64(8) {
			a := records.Frequency(q, flow<<29, PathFunc(func(uint64) []uint64 { return []uint64{x.Fragment.Switch} }))
			if !(a.Low <= a.Value && a.Value <= a.High) || a.Low < 0 || a.Rounded < 0 {
				t.Fatalf("%+v", a)
			}
		}
	})
}

// roundedBy is a record as a collector has it, of rounded cells.
func roundedBy(t *testing.T, x *Record, at Rounding) *Record {
	t.Helper()
	x.Rounding = at
	b, err := x.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(b, x.Hash)
	if err != nil {
		t.Fatal(err)
	}
	return d.Record
}
