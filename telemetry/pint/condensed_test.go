package pint

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// randomCondensed is what a sink may have condensed.
func randomCondensed(r *rand.Rand, flows int) *Condensed {
	c := &Condensed{Share: uint8(r.IntN(MaxShare + 1)), Query: uint8(r.IntN(3)), Unlocated: r.Uint64N(1000), Paths: [][]uint64{}, Flows: []CondensedFlow{}, Values: []CondensedValues{}}
	for range r.IntN(4) {
		path := make([]uint64, 1+r.IntN(6))
		for i := range path {
			path[i] = r.Uint64() >> r.IntN(64)
		}
		c.Paths = append(c.Paths, path)
	}
	seen := map[FlowKey]bool{}
	for range flows {
		k := randomFlow(r, 1+flows)
		if seen[k] {
			continue
		}
		seen[k] = true
		f := CondensedFlow{Flow: k, Packets: 1 + r.Uint64N(1<<20), Path: uint32(r.IntN(len(c.Paths) + 1)), Changes: uint32(r.IntN(3))}
		c.Flows = append(c.Flows, f)
		c.Packets += f.Packets
	}
	c.Packets += r.Uint64N(100)
	c.Sort()
	for i := range r.IntN(4) {
		v := CondensedValues{Query: uint8(i), Switch: r.Uint64() >> r.IntN(64), Counts: []CodeCount{}}
		for code := range 256 {
			if r.IntN(20) == 0 {
				v.Counts = append(v.Counts, CodeCount{uint8(code), 1 + r.Uint64N(1<<30)})
			}
		}
		c.Values = append(c.Values, v)
	}
	return c
}

// withFlowValues gives some of the flows values of their own.
func withFlowValues(r *rand.Rand, c *Condensed) *Condensed {
	c.Bounded, c.Step, c.Evicted, c.Least = true, uint8(r.IntN(MaxStep+1)), r.Uint64N(1000), r.Uint64N(1000)
	for i := range c.Flows {
		f := &c.Flows[i]
		if f.Path == 0 || f.Packets < 8 || r.IntN(2) == 0 {
			continue
		}
		for query := range 2 {
			left := f.Packets
			for hop := range c.PathOf(f) {
				if left < 2 || r.IntN(4) == 0 {
					continue
				}
				v := HopValues{Query: uint8(query), Hop: uint8(hop + 1)}
				for code := r.IntN(100); code < 256 && left > 1; code += 1 + r.IntN(9) {
					n := 1 + r.Uint64N(left/2)
					v.Counts = append(v.Counts, CodeCount{uint8(code), n})
					left -= n
				}
				f.Values = append(f.Values, v)
			}
		}
	}
	return c
}

func TestCondensedRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 2))
	for round := range 200 {
		b := randomBatch(r, r.IntN(50))
		b.Condensed = randomCondensed(r, r.IntN(1+round))
		b.Condensed.Read = uint8(round % (MaxRead + 1))
		if round%2 == 1 {
			withFlowValues(r, b.Condensed)
		}
		body := AppendDigests([]byte("before"), b)[len("before"):]
		d, err := CheckDigests(body)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(d.Condensed, b.Condensed) || d.Len() != len(b.Records) || d.Bytes() <= len(b.Condensed.Flows)*condensedFlowBytes {
			t.Fatalf("round %d: %+v came back as %+v", round, b.Condensed, d.Condensed)
		}
		for i := range b.Condensed.Flows {
			f := &b.Condensed.Flows[i]
			if got := d.Condensed.Find(&f.Flow); got == nil || !reflect.DeepEqual(got, f) || (f.Path != 0) != (d.Condensed.PathOf(got) != nil) {
				t.Fatalf("round %d: flow %+v is found as %+v", round, f, got)
			}
		}
		// For a question about some flows all that is of them stays.
		odd := func(k *FlowKey) bool { return k.SrcPort%2 == 1 }
		of, _ := d.AppendOf(nil, odd)
		part, err := CheckDigests(of)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Condensed.Flows {
			f := &b.Condensed.Flows[i]
			got := part.Condensed.Find(&f.Flow)
			if odd(&f.Flow) != (got != nil) || got != nil && (!reflect.DeepEqual(got.Values, f.Values) || !slices.Equal(part.Condensed.PathOf(got), b.Condensed.PathOf(f)) ||
				part.Condensed.Beyond(true) != b.Condensed.Beyond(true) || part.Condensed.Step != b.Condensed.Step) {
				t.Fatalf("round %d: of flow %+v there is %+v in a part", round, f, got)
			}
		}
		for range 20 {
			if _, err := CheckDigests(body[:r.IntN(len(body))]); !errors.Is(err, ErrDigests) {
				t.Fatalf("cut short: %v", err)
			}
		}
	}
}

// TestCondensedRefuses: what no sink can have condensed is refused.
func TestCondensedRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 3))
	good := func() *Condensed {
		for {
			c := withFlowValues(r, randomCondensed(r, 20))
			// The first flow has values at two hops, of two codes at least.
			if len(c.Flows) > 5 && len(c.Values) > 0 && len(c.Values[0].Counts) > 1 && len(c.Flows[0].ValuesOf(0)) > 1 && len(c.Flows[0].Values[0].Counts) > 1 {
				return c
			}
		}
	}
	for name, spoil := range map[string]func(c *Condensed){
		"share":           func(c *Condensed) { c.Share = MaxShare + 1 },
		"packets":         func(c *Condensed) { c.Packets = c.Listed() - 1 },
		"flow of none":    func(c *Condensed) { c.Flows[2].Packets = 0 },
		"order":           func(c *Condensed) { c.Flows[0], c.Flows[1] = c.Flows[1], c.Flows[0] },
		"flow twice":      func(c *Condensed) { c.Flows[1] = c.Flows[0] },
		"path":            func(c *Condensed) { c.Flows[0].Path = uint32(len(c.Paths) + 1) },
		"path of no hops": func(c *Condensed) { c.Paths[0] = nil },
		"codes":           func(c *Condensed) { n := c.Values[0].Counts; n[0], n[1] = n[1], n[0] },
		"no reading":      func(c *Condensed) { c.Values[0].Counts[0].Count = 0 },
		"flow's codes":    func(c *Condensed) { n := c.Flows[0].Values[0].Counts; n[0], n[1] = n[1], n[0] },
		"flow's values":   func(c *Condensed) { c.Flows[0].Values = []HopValues{} },
		"flow's readings": func(c *Condensed) { c.Flows[0].Values[1].Counts[0].Count = c.Flows[0].Packets },
		"flow's place":    func(c *Condensed) { c.Flows[0].Values[0].Counts = nil },
		"last values":     func(c *Condensed) { c.Flows[len(c.Flows)-1].Values = []HopValues{} },
		"step alone": func(c *Condensed) {
			for i := range c.Flows {
				c.Flows[i].Values = nil
			}
			c.Step = MaxStep + 1
		},
		"step":            func(c *Condensed) { c.Step = MaxStep + 1 },
		"no hop":          func(c *Condensed) { c.Flows[0].Values[0].Hop = 0 },
		"hop":             func(c *Condensed) { c.Flows[0].Values[1].Hop = uint8(len(c.PathOf(&c.Flows[0])) + 1) },
		"order of hops":   func(c *Condensed) { v := c.Flows[0].Values; v[0], v[1] = v[1], v[0] },
		"values, no path": func(c *Condensed) { c.Flows[0].Path = 0 },
	} {
		c := good()
		if _, err := parseCondensed(c.append(nil), c.version()); err != nil {
			t.Fatal(err)
		}
		spoil(c)
		if _, err := CheckDigests(AppendDigests(nil, &DigestBatch{Condensed: c})); !errors.Is(err, ErrDigests) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCondensedGolden: the format stays.
func TestCondensedGolden(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 4))
	b := randomBatch(r, 5)
	b.Condensed = randomCondensed(r, 10)
	golden(t, "digests-v2.bin", b)
	for values := false; !values; {
		b.Condensed = withFlowValues(r, randomCondensed(r, 10))
		values = slices.ContainsFunc(b.Condensed.Flows, func(f CondensedFlow) bool { return f.Values != nil })
	}
	golden(t, "digests-v3.bin", b)
}

func golden(t *testing.T, name string, b *DigestBatch) {
	t.Helper()
	body := AppendDigests(nil, b)
	file := filepath.Join("testdata", name)
	if *updateDigests {
		if err := os.WriteFile(file, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !slices.Equal(body, want) {
		t.Errorf("%d bytes differ from the %d of %s: %v", len(body), len(want), file, err)
	}
}

// TestSampled: about as many packets as the share says are sampled, and those of a larger share are among those of a smaller.
func TestSampled(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 5))
	count := [6]int{}
	for range 64_000 {
		id, before := r.Uint64(), true
		for share := range count {
			sampled := Sampled(id, uint8(share))
			if sampled && !before {
				t.Fatalf("packet %x is of 1 in 2^%d, and not of a smaller share", id, share)
			}
			if before = sampled; sampled {
				count[share]++
			}
		}
	}
	// A standard deviation of the last is 44: 6 of them fail by chance with 2e-9.
	if count[0] != 64_000 || count[5] < 2000-264 || count[5] > 2000+264 {
		t.Errorf("sampled are %v", count)
	}
}

func FuzzCondensed(f *testing.F) {
	r := rand.New(rand.NewPCG(25, 6))
	for range 5 {
		b := randomBatch(r, 5)
		b.Condensed = withFlowValues(r, randomCondensed(r, 10))
		f.Add(AppendDigests(nil, b))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b, same DigestBatch
		if err := DecodeDigests(body, &b); err != nil {
			if !errors.Is(err, ErrDigests) {
				t.Fatal(err)
			}
			return
		}
		if err := DecodeDigests(AppendDigests(nil, &b), &same); err != nil || !reflect.DeepEqual(b.Condensed, same.Condensed) {
			t.Fatalf("%+v is written as %+v: %v", b.Condensed, same.Condensed, err)
		}
	})
}
