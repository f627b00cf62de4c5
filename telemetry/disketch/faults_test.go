package disketch

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func TestConfigFaults(t *testing.T) {
	c := Config{Kind: 9, Unit: 7, Memory: 3, Levels: 99, Epochs: 3, Target: math.NaN(), MaxLog: 99, Hash: 9}
	err := c.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 8 {
		t.Errorf("faults: %v", err)
	}
	if _, err := NewFragment(Config{Kind: UnivMon, Memory: 63, Epochs: 20}); err == nil {
		t.Error("a fragment without a cell per level")
	}
	// 2^62 candidates on 16 levels are none in 64 bits.
	for _, many := range []int{1 << 62, 1 << 60, maxCandidates/16 + 1, -1} {
		if err := (&Config{Kind: UnivMon, Memory: 1 << 10, Epochs: 20, Candidates: many}).Validate(); err == nil || !strings.Contains(err.Error(), "candidates") {
			t.Errorf("%d candidates: %v", many, err)
		}
	}
	for _, k := range []Kind{CountSketch, CountMin, UnivMon} {
		if p, err := ParseKind(k.String()); p != k || err != nil {
			t.Errorf("%v parses as %v, %v", k, p, err)
		}
	}
}

// TestUnlikeFragments: a switch whose configuration differs in what a sketch's
// fragments must share is refused, and named as missing, whatever it differs in.
func TestUnlikeFragments(t *testing.T) {
	flow := flowsOf(1)[0]
	path := PathFunc(func(uint64) []uint64 { return []uint64{1, 2} })
	good := Config{ID: ID{Switch: 1}, Kind: UnivMon, Memory: 1 << 10, Epochs: 20, Seed: 3}
	for name, change := range map[string]func(*Config){
		"kind":   func(c *Config) { c.Kind = CountMin },
		"unit":   func(c *Config) { c.Unit = Bytes },
		"epochs": func(c *Config) { c.Epochs = 21 },
		"levels": func(c *Config) { c.Levels = 8 },
		"seed":   func(c *Config) { c.Seed = 4 },
		"hash":   func(c *Config) { c.Hash = hash.CRC },
	} {
		var all Records
		add := func(c Config) error {
			f, err := NewFragment(c)
			if err != nil {
				t.Fatal(err)
			}
			counter, err := f.NewCounter()
			if err != nil {
				t.Fatal(err)
			}
			counter.Begin(f.Begin(5), 0)
			counter.Add(flow, 7, false)
			return all.Add(counter.Record())
		}
		if err := add(good); err != nil {
			t.Fatal(err)
		}
		other := good
		other.ID.Switch = 2
		change(&other)
		if err := add(other); !errors.Is(err, ErrConflict) {
			t.Errorf("another %s: %v", name, err)
		}
		a := all.Frequency(Query{From: 5, To: 6}, flow, path)
		if want := []Missing{{5, other.ID}}; a.Value != 7 || !slices.Equal(a.Missing, want) {
			t.Errorf("another %s: %+v", name, a)
		}
		// Another sketch, or another epoch, may differ.
		if other.ID.Sketch = 1; add(other) != nil {
			t.Errorf("another %s of another sketch is refused", name)
		}
	}
}

// TestLongGap: epochs far apart, as a clock leaves them that is set from 1970, do not
// keep a query.
func TestLongGap(t *testing.T) {
	flow := flowsOf(1)[0]
	const late = 1 << 60
	f, err := NewFragment(Config{ID: ID{Switch: 1}, Kind: UnivMon, Memory: 1 << 10, Epochs: 20})
	if err != nil {
		t.Fatal(err)
	}
	counter, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	var all Records
	for _, e := range []uint64{3, 5, late} {
		counter.Begin(f.Begin(e), 0)
		counter.Add(flow, 10, false)
		if err := all.Add(counter.Record().Clone()); err != nil {
			t.Fatal(err)
		}
	}
	path := PathFunc(func(uint64) []uint64 { return []uint64{1} })
	q := Query{To: late + 3}
	a := all.Frequency(q, flow, path)
	want := []Missing{{0, f.config.ID}, {1, f.config.ID}, {2, f.config.ID}, {4, f.config.ID}, {late + 1, f.config.ID}, {late + 2, f.config.ID}}
	if a.Value != 30 || !slices.Equal(a.Missing, want) || a.Covered > 1e-9 {
		t.Errorf("%+v", a)
	}
	if a = all.Frequency(Query{From: 6, To: ^uint64(0)}, flow, path); a.Value != 10 || a.Missing != nil {
		t.Errorf("gaps on both sides: %+v", a)
	}
	if s, err := all.Summarise(q, 10, []uint64{flow}, path); err != nil || s.Flows != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOtherFamily: an epoch's records of another hash family than the query's know the flow
// by another number, and are missing.
func TestOtherFamily(t *testing.T) {
	flow := flowsOf(1)[0]
	var all Records
	for epoch := range uint64(2) {
		f, err := NewFragment(Config{ID: ID{Switch: 1}, Kind: CountSketch, Memory: 1 << 10, Epochs: 20, Hash: hash.Family(epoch)})
		if err != nil {
			t.Fatal(err)
		}
		counter, err := f.NewCounter()
		if err != nil {
			t.Fatal(err)
		}
		counter.Begin(f.Begin(epoch), 0)
		counter.Add(flow, 10, false)
		if err := all.Add(counter.Record()); err != nil {
			t.Fatal(err)
		}
	}
	path := PathFunc(func(uint64) []uint64 { return []uint64{1} })
	for family := hash.XX; family <= hash.CRC; family++ {
		a := all.Frequency(Query{To: 2, Hash: family}, flow, path)
		want := []Missing{{1 - uint64(family), ID{Switch: 1}}}
		if a.Value != 10 || a.Covered != 0.5 || !slices.Equal(a.Missing, want) {
			t.Errorf("%v: %+v", family, a)
		}
		for epoch := range uint64(2) {
			_, err := all.FindTarget(TargetSearch{Query: Query{Hash: family}, Epoch: epoch, Paths: [][]uint64{{1}}, Trials: 1})
			if same := epoch == uint64(family); same != (err == nil) || !same && !errors.Is(err, ErrNoRecords) {
				t.Errorf("%v: a target for epoch %d: %v", family, epoch, err)
			}
		}
	}
}
