package export

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

func TestByteRate(t *testing.T) {
	for text, want := range map[string]ByteRate{"1MB/s": 1e6, "250kB/s": 250e3, "40000B/s": 40_000, "1.5MB/s": 1_500_000, "2GB/s": 2e9, "none": 0} {
		var r ByteRate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s is %d: %v", text, r, err)
		}
		again, err := r.MarshalText()
		var same ByteRate
		if err != nil || same.UnmarshalText(again) != nil || same != want {
			t.Errorf("%s is written as %s", text, again)
		}
	}
	for _, text := range []string{"", "1", "1MB", "-1MB/s", "NaNB/s", "1e30GB/s", "fast"} {
		if err := new(ByteRate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for a rate", text)
		}
	}
}

// TestDivide: no division of the same bytes has a smaller sum of errors, and none gets what it has no use for.
func TestDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 25))
	cost := func(shares []float64, demands []Demand) (sum float64) {
		for i, d := range demands {
			sum += math.Sqrt(d.Useful / shares[i])
		}
		return sum
	}
	for round := range 500 {
		demands, useful := make([]Demand, 2+r.IntN(4)), 0.0
		for i := range demands {
			u := math.Exp(r.Float64() * 12)
			demands[i] = Demand{u * (1 + float64(r.IntN(3))), u}
			useful += u
		}
		bytes := useful * (0.05 + 0.9*r.Float64())
		shares, sum := Divide(bytes, demands), 0.0
		for i, s := range shares {
			if sum += s; !(s > 0) || s > demands[i].Useful*(1+1e-9) {
				t.Fatalf("round %d: %v of %v", round, shares, demands)
			}
		}
		if math.Abs(sum-bytes) > 1e-6*bytes {
			t.Fatalf("round %d: %v are divided of %v", round, sum, bytes)
		}
		best := cost(shares, demands)
		for range 20 {
			i, j := r.IntN(len(shares)), r.IntN(len(shares))
			moved := min(shares[i], demands[j].Useful-shares[j]) * r.Float64() * 0.9
			if i == j || moved <= 0 {
				continue
			}
			other := slices.Clone(shares)
			other[i], other[j] = other[i]-moved, other[j]+moved
			if cost(other, demands) < best*(1-1e-9) {
				t.Fatalf("round %d: %v is better than %v of %v", round, other, shares, demands)
			}
		}
	}
	if s := Divide(100, []Demand{{50, 50}, {50, 10}}); !math.IsInf(s[0], 1) || !math.IsInf(s[1], 1) {
		t.Errorf("enough for all is divided as %v", s)
	}
	if s := Divide(80, []Demand{{50, 50}, {50, 10}}); s[0] != 50 || s[1] != 30 {
		t.Errorf("what is left is divided as %v", s)
	}
}

// shaped emits a record of its demand each second, cut to its share.
type shaped struct {
	all, share float64
	overruns   bool // emits all the same
	second     int64
}

func (s *shaped) Demand() (all, useful float64) { return s.all, s.all }
func (s *shaped) Shape(bytesPerSecond float64)  { s.share = bytesPerSecond }
func (s *shaped) Collect(now int64, _ bool, emit record.Emit) {
	if second := now / 1e9; second > s.second {
		s.second = second
		n := int(min(s.all, s.share))
		if s.overruns {
			n = int(s.all)
		}
		emit(&record.Header{Kind: record.LDS, Start: now}, func(dst []byte) ([]byte, error) { return append(dst, make([]byte, n)...), nil })
	}
}

type sum struct{ bytes, records int }

func (s *sum) Write(_ *record.Header, encoded []byte) error {
	s.bytes += len(encoded)
	s.records++
	return nil
}

// TestBudget: what is sent stays within the budget, whatever sources do; what does not fit is counted; a change takes effect within seconds.
func TestBudget(t *testing.T) {
	for name, overruns := range map[string]bool{"shaped": false, "overruns": true} {
		t.Run(name, func(t *testing.T) {
			sink := &sum{}
			a, b := &shaped{all: 3e6, overruns: overruns}, &shaped{all: 200_000}
			e := New(1, "s1", hash.XX, []Source{a, b}, sink, nil)
			e.SetBudget(1e6)
			now, at := int64(1e12), 0
			run := func(seconds int) (bytes int) {
				at = sink.bytes
				for range seconds * 10 {
					now += 1e8
					e.Poll(now)
				}
				return sink.bytes - at
			}
			run(20)
			if n := run(50); n > 54*1e6 || n < 50*700_000 {
				t.Errorf("%d bytes in 50 s of a budget of 1 MB/s", n)
			}
			c := e.Counters(record.LDS)
			if dropped := c.OverBudget > 0; dropped != overruns || c.OverBudget != e.OverBudget(record.LDS).Records {
				t.Errorf("%d records are dropped", c.OverBudget)
			}
			if c.Records != uint64(sink.records) || c.Records+c.OverBudget != 2*71 {
				t.Errorf("%d written and %d dropped of %d records", c.Records, c.OverBudget, 2*71)
			}
			a.all, a.overruns = 500_000, false
			run(3)
			if n := run(20); n < 20*690_000 {
				t.Errorf("%d bytes in 20 s, where all fits", n)
			}
			e.SetBudget(0)
			a.all = 5e6
			run(2)
			if n := run(10); n < 50_000_000 {
				t.Errorf("%d bytes in 10 s without a bound", n)
			}
		})
	}
}
