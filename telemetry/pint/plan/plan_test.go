package plan

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/pinttest"
)

// threeQueries is the plan of section 6.4.
func threeQueries(t testing.TB) *Plan {
	return mustPlan(t, Config{ID: 7, Seed: 1, Bits: 16, Queries: pinttest.Three()})
}

// everyQuery has all aggregations.
func everyQuery(t testing.TB) *Plan {
	return mustPlan(t, Config{ID: 8, Seed: 2, Bits: 32, Queries: pinttest.Every()})
}

func mustPlan(t testing.TB, c Config) *Plan {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The plan that section 6.4 made by hand.
func TestEngineFindsThePapersPlan(t *testing.T) {
	p := threeQueries(t)
	want := []Set{
		{Queries: []string{"path", "latency"}, Below: 15 << 28},
		{Queries: []string{"path", "congestion"}, Below: 1 << 32},
	}
	if diff := cmp.Diff(want, p.Sets); diff != "" {
		t.Error(diff)
	}
}

func TestEngineInfeasible(t *testing.T) {
	for _, c := range []struct {
		needs       []int
		frequencies []float64
		budget      int
		scale       float64
		needed      int
	}{
		{[]int{8, 8, 8}, []float64{1, 1, 1}, 16, 2. / 3, 24},
		{[]int{8, 8}, []float64{1, 0.25}, 8, 0.8, 16},
		{[]int{12, 8, 4}, []float64{1, 1, 1}, 16, 0.5, 24},
		// Three of two thirds each: pairs of them serve 2 of 3 at a time.
		{[]int{8, 8, 8}, []float64{0.75, 0.75, 0.75}, 16, 8. / 9, 24},
		{[]int{16, 4}, []float64{1, 0.5}, 16, 2. / 3, 20},
	} {
		_, err := distribute(c.needs, c.frequencies, c.budget)
		var e *InfeasibleError
		if !errors.As(err, &e) {
			t.Errorf("%v in %d: %v", c.needs, c.budget, err)
			continue
		}
		if math.Abs(e.Scale-c.scale) > 1e-9 || e.Needed != c.needed {
			t.Errorf("%v in %d: scale %v and %d bits, want %v and %d", c.needs, c.budget, e.Scale, e.Needed, c.scale, c.needed)
		}
		for i := range c.frequencies {
			c.frequencies[i] *= e.Scale * (1 - 1e-12)
		}
		if _, err := distribute(c.needs, c.frequencies, c.budget); err != nil {
			t.Errorf("%v in %d, scaled: %v", c.needs, c.budget, err)
		}
	}
}

// Random queries: every frequency is met, no set exceeds the budget, few sets
// are in use; and where it is infeasible, a bound that holds for any
// distribution says so too, or the scaled queries fit exactly.
func TestEngineOnRandomQueries(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	infeasible := 0
	for range 300 {
		n := 1 + r.IntN(8)
		needs, frequencies := make([]int, n), make([]float64, n)
		budget := 8 + r.IntN(25)
		for i := range n {
			needs[i], frequencies[i] = 1+r.IntN(budget), r.Float64()
			if r.IntN(3) == 0 {
				frequencies[i] = []float64{1, 0.5, 0.25}[r.IntN(3)]
			}
		}
		shares, err := distribute(needs, frequencies, budget)
		var e *InfeasibleError
		if errors.As(err, &e) {
			infeasible++
			for i := range frequencies {
				frequencies[i] *= e.Scale
			}
			shares, err = distribute(needs, frequencies, budget)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, _ := distribute(needs, frequencies, budget)
		if !slices.Equal(shares, again) {
			t.Fatal("two runs differ")
		}
		checkShares(t, needs, frequencies, budget, shares, e != nil)
	}
	if infeasible < 30 || infeasible > 270 {
		t.Errorf("%d of 300 are infeasible: the test does not test both", infeasible)
	}
}

func checkShares(t *testing.T, needs []int, frequencies []float64, budget int, shares []share, full bool) {
	t.Helper()
	got := make([]float64, len(needs))
	total := 0.0
	for _, s := range shares {
		total += s.p
		sum := 0
		for i := range needs {
			if s.set>>i&1 != 0 {
				got[i] += s.p
				sum += needs[i]
			}
		}
		if sum > budget || s.p <= 0 {
			t.Fatalf("set %b has %d bits of %d, share %v", s.set, sum, budget, s.p)
		}
	}
	for i, f := range frequencies {
		if math.Abs(got[i]-f) > 1e-8 {
			t.Fatalf("query %d gets %v, want %v", i, got[i], f)
		}
	}
	if len(shares) > len(needs) {
		t.Fatalf("%d sets for %d queries", len(shares), len(needs))
	}
	if total > 1+1e-8 || full && total < 1-1e-8 {
		t.Fatalf("shares add up to %v (full: %v)", total, full)
	}
}

// A slow twin for small cases: without rounding, the least total for queries
// that exclude each other pairwise is the sum of their frequencies, and for
// such that all fit it is the largest.
func TestEngineExtremes(t *testing.T) {
	shares, err := distribute([]int{9, 10, 11}, []float64{0.25, 0.3, 0.45}, 16)
	if err != nil || len(shares) != 3 {
		t.Fatalf("%v, %v", shares, err)
	}
	for _, s := range shares {
		if bits.OnesCount(s.set) != 1 {
			t.Errorf("set %b", s.set)
		}
	}
	shares, err = distribute([]int{4, 4, 4}, []float64{0.25, 0.5, 0.125}, 16)
	total := 0.0
	for _, s := range shares {
		total += s.p
	}
	if err != nil || math.Abs(total-0.5) > 1e-9 {
		t.Errorf("%v, %v", shares, err)
	}
}

func TestPlanRoundTrip(t *testing.T) {
	for _, p := range []*Plan{threeQueries(t), everyQuery(t)} {
		file := filepath.Join(t.TempDir(), "plan.toml")
		if err := p.Save(file); err != nil {
			t.Fatal(err)
		}
		if err := p.Save(file); err != nil { // over the old one
			t.Fatal(err)
		}
		got, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Error(diff)
		}
		if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 1 {
			t.Errorf("%d files are left", len(entries))
		}
	}
}

func TestPlanFaultsAllAtOnce(t *testing.T) {
	const text = `
id = 3
seed = 5
bits = 70
carrier = "ipid"
hops = "shim"
edge_bits = 33
initial_ttl = 300
colour = "red"
[[query]]
name = "Path"
value = "hop_latency"
aggregation = "path"
bits = 8
frequency = 1.5
space_bytes = 4
[[query]]
name = "sum"
value = "hop_latency"
aggregation = "sum"
bits = 8
frequency = 0.5
flow = {key = "source", dst_prefix = 200}
numeric = {epsilon = 0.1, slow = 4}
[[set]]
queries = ["sum", "sum", "none"]
below = 0
`
	_, err := Read(strings.NewReader(text))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"colour: there is no such key", "hash is missing", "bits 70", "edge_bits 33: use 1 to 32", "edge_bits 33: carrier", "initial_ttl 300", `hops "shim": carrier "ipid" has no hop field`,
		`query "Path": name "Path"`, "frequency 1.5", "hop_latency differs between the packets", "[query.static]", "space_bytes: only",
		`key "source"`, "dst_prefix 200", "numeric.slow: only", "leave multiplicative, epsilon and delta out",
		"set 1: below 0", `query "sum" occurs twice`, `query "none" is not in the plan`, `query "sum": the sets give it 0`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no fault %q in:\n%v", want, err)
		}
	}
	for _, bad := range []string{"", "id = 1e9", "id = 70000", "[[query]]\nvalue = \"speed\"", "hash = \"md5\"", "seed = -1", strings.Repeat("#", maxPlanBytes+1)} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q was accepted", bad)
		}
	}
}

// TestEdgeBits: the file of a plan without an edge is what it was before there were edges, and so is its digest.
func TestEdgeBits(t *testing.T) {
	c := Config{ID: 5, Bits: 16, Queries: Default().Queries}
	without, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	c.EdgeBits = 9
	with, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var text, other bytes.Buffer
	if err := errors.Join(without.Write(&text), with.Write(&other)); err != nil || strings.Contains(text.String(), "edge") {
		t.Fatalf("%v\n%s", err, &text)
	}
	if back, err := Read(&other); err != nil || back.EdgeBits != 9 || back.Report().GrowthBy != without.Report().GrowthBy+2 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bits := range []struct{ digest, edge int }{{64, 1}, {57, 8}, {40, 25}, {16, -1}} {
		c.Bits, c.EdgeBits = bits.digest, bits.edge
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "edge_bits") {
			t.Errorf("%+v: %v", bits, err)
		}
	}
}

func TestPlanNeedsMoreBits(t *testing.T) {
	c := Config{Bits: 8, Queries: []pint.Query{
		{Name: "a", Value: pint.HopLatency, Aggregation: pint.Maximum, Bits: 8, Frequency: 1, Numeric: &pint.NumericQuery{Max: 100}},
		{Name: "b", Value: pint.HopLatency, Aggregation: pint.Minimum, Bits: 8, Frequency: 0.5, Numeric: &pint.NumericQuery{Max: 100}},
	}}
	_, err := New(c)
	if err == nil || !strings.Contains(err.Error(), "multiply all of them by at most 0.6667, or raise the budget to 16 bits") {
		t.Error(err)
	}
}

func TestFlowDefinitions(t *testing.T) {
	k := pint.FlowKey{Src: [16]byte{10, 1, 2, 3}, Dst: [16]byte{192, 168, 77, 9}, SrcPort: 5, DstPort: 6, Proto: 17, Version: 4}
	for _, c := range []struct {
		d    pint.FlowDefinition
		want pint.FlowKey
	}{
		{pint.FlowDefinition{}, k},
		{pint.FlowDefinition{Key: "5-tuple"}, k},
		{pint.FlowDefinition{Key: "src"}, pint.FlowKey{Src: k.Src, Version: 4}},
		{pint.FlowDefinition{Key: "dst", DstPrefix: 18}, pint.FlowKey{Dst: [16]byte{192, 168, 64}, Version: 4}},
		{pint.FlowDefinition{Key: "src-dst", SrcPrefix: 9}, pint.FlowKey{Src: [16]byte{10}, Dst: k.Dst, Version: 4}},
		{pint.FlowDefinition{SrcPrefix: 128, DstPrefix: 32}, k},
	} {
		if got := c.d.Of(k); got != c.want || c.d.Validate() != nil {
			t.Errorf("%+v: %+v, want %+v", c.d, got, c.want)
		}
	}
}

// TestPlanBounds: no plan makes a switch or a recorder search, allocate or count
// without end.
func TestPlanBounds(t *testing.T) {
	layers := make([]pint.Layer, 65)
	for i := range layers {
		layers[i] = pint.Layer{Share: 1 / float64(len(layers)), P: 0.5}
	}
	path := pint.Query{Name: "path", Aggregation: pint.Path, Bits: 8, Frequency: 1}
	many, negative := path, path
	many.Static = &pint.StaticQuery{Code: pint.Hashed, Layers: layers}
	negative.Static = &pint.StaticQuery{Code: pint.Hashed, Instances: -3, Layers: encode.Baseline()}
	endless := pint.Query{Name: "ids", Value: pint.SwitchID, Aggregation: pint.Frequent, Bits: 16, Frequency: 1, SpaceBytes: math.MaxInt64, Numeric: &pint.NumericQuery{}}
	for _, c := range []struct {
		q    pint.Query
		want string
	}{{many, "65 layers: use at most 64"}, {negative, "static.instances -3"}, {endless, "space_bytes 9223372036854775807: use at most"}} {
		if _, err := New(Config{ID: 1, Bits: 16, Queries: []pint.Query{c.q}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	endless.SpaceBytes = maxSpaceBytes
	if _, err := New(Config{ID: 1, Bits: 16, Queries: []pint.Query{endless}}); err != nil {
		t.Error(err)
	}
}

// TestChecksum: a checksum is on all packets of the paths that it tells apart, and has enough bits for that; one of other values does not matter.
func TestChecksum(t *testing.T) {
	path := Default().Queries[0]
	sum := pint.Query{Name: "sum", Aggregation: pint.Checksum, Bits: 8, Frequency: 1}
	half, ports, small, large := sum, sum, sum, sum
	half.Frequency, ports.Value, ports.Frequency, small.Bits, large.Bits = 0.5, pint.EgressPort, 0.5, 3, 33
	for _, c := range []struct {
		q    pint.Query
		want string
		of   int // the checksum of the path
	}{
		{sum, "", 1}, {ports, "", -1}, {half, `query "path" without "sum", which tells its paths apart: give both a frequency of 1`, 0},
		{small, "bits 3: a checksum of 4 to 32 bits", 0}, {large, "bits 33: a checksum of 4 to 32 bits", 0},
	} {
		p, err := New(Config{ID: 1, Bits: 60, Queries: []pint.Query{path, c.q}})
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want %q", err, c.want)
		case c.want == "" && (err != nil || p.Checksum(0) != c.of):
			t.Errorf("%v, the checksum of the path is %d, not %d", err, p.Checksum(0), c.of)
		}
	}
}

func FuzzReadPlan(f *testing.F) {
	for _, p := range []*Plan{threeQueries(f), everyQuery(f)} {
		var text bytes.Buffer
		if err := p.Write(&text); err != nil {
			f.Fatal(err)
		}
		f.Add(text.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatal(diff)
		}
		if _, err := p.Compile(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPlanDigest: a plan that was written and read again has its digest, and one that differs
// in any number has not.
func TestPlanDigest(t *testing.T) {
	digest := func(p *Plan) uint64 {
		t.Helper()
		d, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var text bytes.Buffer
	if err := Default().Write(&text); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	if digest(again) != digest(Default()) {
		t.Error("reading changes the digest")
	}
	for name, change := range map[string]func(p *Plan){
		"seed":  func(p *Plan) { p.Seed++ },
		"set":   func(p *Plan) { p.Sets[0].Below-- },
		"query": func(p *Plan) { p.Queries[1].Numeric.Max++ },
	} {
		p := Default()
		change(p)
		if d, err := p.Digest(); err == nil && d == digest(Default()) {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	bad := Default()
	bad.Bits = 0
	if _, err := bad.Digest(); err == nil {
		t.Error("a plan that is not valid has a digest")
	}
}
