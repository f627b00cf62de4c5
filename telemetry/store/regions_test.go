package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// flowOf is one of the flows of partition 5.
func flowOf(n int) pint.FlowKey {
	k := pint.FlowKey{Version: 4, Proto: 17}
	for {
		if k.Partition(record.Partitions) == 5 {
			if n--; n < 0 {
				return k
			}
		}
		k.SrcPort++
	}
}

// sinkBatch is a record of digests that a switch took off one flow's packets, as it travels.
func sinkBatch(t *testing.T, sw uint32, sequence uint64, flow int) []byte {
	t.Helper()
	b := &pint.DigestBatch{Boot: 3, Sequence: sequence, Sent: sequence, Plan: 1, Records: []pint.Record{{Flow: flowOf(flow), ID: sequence, TimeNs: sequence << 20, Plan: 1, Hops: 1}}}
	h := record.Header{Kind: record.PINT, Switch: sw, Name: fmt.Sprint("s", sw), Instance: 5, Plan: 1, Start: int64(sequence) << 20, Span: 1 << 20}
	return envelope(t, h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
}

// gathered is what a region sends, through the wire's form of Rest.
func gathered(t *testing.T, region string, s *Store, w Window, needed *Needed) Gathered {
	t.Helper()
	g := Gathered{Region: region}
	var records bytes.Buffer
	text, err := json.Marshal(s.Rest(w))
	if err := errors.Join(err, s.Write(&records, needed), json.Unmarshal(text, &g.Rest), g.Rest.Validate()); err != nil {
		t.Fatal(err)
	}
	g.Records = records.Bytes()
	return g
}

// TestRegions: of what is needed of two regions a view says what a view of all records says: when records are, which switches there are, what is missing, although the
// digests are those of one flow.
func TestRegions(t *testing.T) {
	one, regions := newLive(t, LiveConfig{Bytes: 1 << 24}), [2]*Live{newLive(t, LiveConfig{Bytes: 1 << 24}), newLive(t, LiveConfig{Bytes: 1 << 24})}
	to := func(region int, b []byte) {
		one.AddBytes(b)
		regions[region].AddBytes(b)
	}
	for i := range uint64(40) {
		if i != 11 && i != 12 {
			to(0, sinkBatch(t, 7, i, int(i%8)))
		}
		if i != 30 {
			to(1, sinkBatch(t, 8, i, int(i%5)))
		}
		to(int(i%2), sampleRecord(t, uint32(20+i%2), int64(i+5)<<20, 3, i == 9))
	}
	flow := flowOf(3)
	w := Window{From: 10 << 20, To: 35 << 20}
	for _, needed := range []*Needed{
		{Kinds: []record.Kind{record.PINT, record.Oblivious}, Window: w, Digests: w},
		{Kinds: []record.Kind{record.PINT}, Window: w, Digests: w, Has: func(k *pint.FlowKey) bool { return *k == flow }, Only: true},
	} {
		all := []Gathered{gathered(t, "a", regions[0].View(Window{}), w, needed), gathered(t, "b", regions[1].View(Window{}), w, needed)}
		got, err := Regions(all, 1<<24, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		want := one.View(Window{})
		if got.All() != want.All() || got.Of(OfDigests) != want.Of(OfDigests) || got.Of(OfSamples) != want.Of(OfSamples) || got.LastBefore(1<<24, 1<<50) != want.LastBefore(1<<24, 1<<50) {
			t.Errorf("records of %v, and of one %v", got.All(), want.All())
		}
		if d := cmp.Diff(want.Switches(), got.Switches()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want.Missing(OfDigests, w), got.Missing(OfDigests, w)); d != "" || len(got.Missing(OfDigests, w)) != 2 {
			t.Errorf("digests: %s", d)
		}
		if d := cmp.Diff(want.Missing(OfSamples, w), got.Missing(OfSamples, w)); d != "" && !needed.Only {
			t.Errorf("samples: %s", d)
		}
		n := 0
		for i := range got.Batches {
			n += got.Batches[i].Len()
		}
		if of := map[bool]int{false: 23 + 24, true: 2 + 5}[needed.Only]; n != of {
			t.Errorf("%d digests, want %d: %+v", n, of, needed)
		}
	}
}

// TestRegionsOfSets: a region is a view with another collector's partitions; one that it lacks is left out of all.
func TestRegionsOfSets(t *testing.T) {
	far, own, other := newLive(t, LiveConfig{Bytes: 1 << 24}), newLive(t, LiveConfig{Bytes: 1 << 24}), newLive(t, LiveConfig{Bytes: 1 << 24})
	for i := range uint64(6) {
		far.AddBytes(sinkBatch(t, 7, i, 1))
		own.AddBytes(sampleRecord(t, 8, int64(i)<<20, 3, false))
		other.AddBytes(sinkBatch(t, 9, i, 1))
	}
	w := Window{From: 0, To: 10 << 20}
	needed := &Needed{Kinds: []record.Kind{record.PINT, record.Oblivious}, Window: w, Digests: w}
	part := Elsewhere{Part: *far.View(Window{}).Part(5, w, true)}
	page, _, _ := far.View(Window{}).AppendPart(nil, PartQuery{Partition: 5, Window: w, Most: 1 << 20})
	if _, err := part.Add(page); err != nil {
		t.Fatal(err)
	}
	b := gathered(t, "b", other.View(Window{}), w, needed)
	for name, x := range map[string]Elsewhere{"had": part, "lacked": {Part: Part{Partition: 5}, Unreached: "nobody has it"}} {
		got, err := Regions([]Gathered{gathered(t, "a", own.View(Window{}).With([]Elsewhere{x}), w, needed), b}, 1<<24, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		batches, want := len(got.Batches), 12
		var missing []Missing
		if name == "lacked" {
			want, missing = 0, []Missing{{Of: OfDigests, Instance: 5, Unreached: "region a: nobody has it"}}
		}
		if d := cmp.Diff(missing, got.Missing(OfDigests, w)); batches != want || len(got.Samples) != 6 || d != "" || !slices.Equal(got.Unreached(), missing) {
			t.Errorf("%s: %d batches, %d samples, %s", name, batches, len(got.Samples), d)
		}
	}
}

// TestRegionsLeftOut: a region whose records are cut off, of a time to come, unknown, or of a switch of another region is left out whole, with the reason;
// records that had to make room in a region are named with it; and memory is bounded.
func TestRegionsLeftOut(t *testing.T) {
	a, b, full := newLive(t, LiveConfig{Bytes: 1 << 24}), newLive(t, LiveConfig{Bytes: 1 << 24}), newLive(t, LiveConfig{Bytes: MinBytes})
	for i := range uint64(4) {
		a.AddBytes(sampleRecord(t, 7, int64(i)<<30, 3, false))
		b.AddBytes(sampleRecord(t, 8, int64(i)<<30, 3, false))
	}
	for i := range 2000 {
		full.AddBytes(sampleRecord(t, 9, int64(i)<<30, 3, false))
	}
	w := Window{From: 0, To: 1 << 50}
	needed := &Needed{Kinds: []record.Kind{record.Oblivious}, Window: w}
	first := gathered(t, "a", a.View(Window{}), w, needed)
	good := gathered(t, "b", b.View(Window{}), w, needed)
	for name, c := range map[string]struct {
		change func(*Gathered)
		want   string
	}{
		"cut":  {func(g *Gathered) { g.Records = g.Records[:len(g.Records)-1] }, "cannot be read"},
		"text": {func(g *Gathered) { g.Records = append(slices.Clone(g.Records), "hello"...) }, "cannot be read"},
		"body": {func(g *Gathered) {
			g.Records = envelope(t, record.Header{Kind: record.Oblivious, Switch: 8, Span: 1}, func(b []byte) ([]byte, error) { return b, nil })
		}, "unreadable"},
		"kind": {func(g *Gathered) {
			g.Records = envelope(t, record.Header{Kind: 99, Switch: 8, Span: 1}, func(b []byte) ([]byte, error) { return b, nil })
		}, "unknown"},
		"to come": {func(g *Gathered) { g.Records = append(slices.Clone(g.Records), sampleRecord(t, 8, 1<<50, 3, false)...) }, "a time to come"},
		"end":     {func(g *Gathered) { g.Rest.Spans = rows[RestSpan]{{OfSamples, Window{}, Window{1, 1 << 60}}} }, "a time to come"},
		"overflow": {func(g *Gathered) {
			g.Records = envelope(t, record.Header{Kind: record.Oblivious, Switch: 8, Start: math.MaxInt64, Span: math.MaxInt64}, func(b []byte) ([]byte, error) { return b, nil })
		}, "a time to come"},
		"switch":    {func(g *Gathered) { g.Records = append(slices.Clone(g.Records), sampleRecord(t, 7, 9<<30, 3, false)...) }, "a switch of number 7, as region a has"},
		"in a list": {func(g *Gathered) { g.Rest.Switches = append(slices.Clone(g.Rest.Switches), PartSink{Switch: 7}) }, "a switch of number 7, as region a has"},
	} {
		all := []Gathered{first, good}
		c.change(&all[1])
		got, err := Regions(all, 1<<24, 1<<45)
		if err != nil {
			t.Fatal(err)
		}
		if missing := got.RegionsUnreached(); len(missing) != 1 || missing[0].Region != "b" || !strings.Contains(missing[0].Unreached, c.want) || len(got.Samples) != 4 || len(got.Switches()) != 1 {
			t.Errorf("%s: %d samples of %v, %+v", name, len(got.Samples), got.Switches(), missing)
		}
	}
	view := full.View(Window{})
	of := gathered(t, "full", view, w, needed)
	got, err := Regions([]Gathered{first, good, of}, 1<<24, 1<<45)
	if err != nil {
		t.Fatal(err)
	}
	missing := got.Missing(OfSamples, w)
	if m := missing[len(missing)-1]; m.Evicted == 0 || m.Evicted != view.Missing(OfSamples, w)[0].Evicted || m.Region != "full" {
		t.Errorf("%+v", missing)
	}
	if _, err := Regions([]Gathered{first, good, of}, MinBytes, 1<<45); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
}

// TestRestHostile: what no view says is refused, and texts are made printable.
func TestRestHostile(t *testing.T) {
	far := Window{From: math.MinInt64, To: math.MaxInt64}
	for name, r := range map[string]Rest{
		"spans": {Spans: rows[RestSpan]{{OfSamples, far, Window{}}}}, "of": {Spans: rows[RestSpan]{{"x", Window{}, Window{}}}},
		"name": {Switches: rows[PartSink]{{Name: "a\nb"}}}, "last": {Switches: rows[PartSink]{{Last: far}}}, "ahead": {Ahead: math.MaxInt64},
		"gap": {Gaps: rows[RestGap]{{PartGap{Window: far}, 1}}}, "partition": {Gaps: rows[RestGap]{{PartGap{}, record.Partitions}}},
		"many gaps": {Gaps: make(rows[RestGap], maxPartRows+1)}, "many switches": {Switches: make(rows[PartSink], maxPartSinks+1)},
		"lacks": {Lacks: rows[Missing]{{Of: OfRegion}}}, "lacked partition": {Lacks: rows[Missing]{{Of: OfDigests, Instance: record.Partitions, Unreached: "x"}}},
		"unreached samples": {Lacks: rows[Missing]{{Of: OfSamples, Unreached: "x"}}}, "long": {Lacks: rows[Missing]{{Of: OfDigests, Unreached: strings.Repeat("x", maxRestReason+1)}}},
		"late": {Late: rows[Missing]{{Of: OfDigests}}},
	} {
		if r.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	r := Rest{Lacks: rows[Missing]{{Of: OfSamples, Switch: "\x1b[31m", Evicted: math.MaxUint64, Absent: -1, Packets: 5, Region: "x"}}}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Missing{Of: OfSamples, Switch: "\uFFFD[31m", Evicted: maxGone}, r.Lacks[0]); d != "" {
		t.Error(d)
	}
	for _, text := range []string{`{"lacks":[` + strings.Repeat("{},", maxRestRows) + `{}]}`, `{"gaps":7}`, `{"gaps":[7]}`, `{"switches":{}}`} {
		if err := json.Unmarshal([]byte(text), new(Rest)); err == nil {
			t.Errorf("%.40s is taken", text)
		}
	}
}

// TestMissingDigestsOfAPartition: an answer about one flow names what may be of its partition: regions that could not be asked and records that
// made room, and not what other partitions lack.
func TestMissingDigestsOfAPartition(t *testing.T) {
	w := Window{0, 100}
	skewed := func(partition uint16) left {
		return left{OfDigests, &Origin{Switch: 1, Instance: partition, Window: w}, leftSkewed, 3}
	}
	s := &Store{
		names: map[uint32]string{1: "s1"}, left: []left{skewed(0), skewed(5)}, own: map[uint32]ownEvictions{1: {evicted: []eviction{{Window: w, of: map[string]uint64{OfDigests: 2}}}}},
		regions:   []Missing{{Of: OfRegion, Region: "north", Unreached: "silent"}},
		unreached: []Missing{{Of: OfDigests, Instance: 4, Unreached: "away"}, {Of: OfDigests, Instance: 5, Unreached: "away"}},
	}
	want := []Missing{
		{Switch: "s1", Of: OfDigests, Evicted: 2},
		{Switch: "s1", Of: OfDigests, Instance: 5, Skewed: 3},
		{Of: OfDigests, Instance: 5, Unreached: "away"},
		{Of: OfRegion, Region: "north", Unreached: "silent"},
	}
	if got := s.MissingDigests(5, w); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
