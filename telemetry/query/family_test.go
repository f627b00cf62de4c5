package query

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestMixedSamples: samples of two families have nothing in common, and are not joined.
func TestMixedSamples(t *testing.T) {
	s := &store.Store{}
	for i, family := range []hash.Family{hash.XX, hash.CRC} {
		p, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Packets, Size: 10, Hash: family})
		if err != nil {
			t.Fatal(err)
		}
		h := record.Header{Kind: record.Oblivious, Switch: uint32(i), Start: 1 << epochBits, Span: 1 << epochBits, Hash: family}
		add(t, s, h, p.Sample().AppendBinary)
	}
	s.Sort()
	_, err := (&Engine{Store: s}).Volume(nil)
	if !errors.Is(err, oblivious.ErrUnlike) || !strings.Contains(err.Error(), "hashed by xxhash and by crc") || !strings.Contains(err.Error(), "same kind, unit, seed and hash") {
		t.Errorf("%v", err)
	}
}

// TestMixedPoints: points of two families are not subtracted, and the fault says why; each
// alone tells how much its flows sent.
func TestMixedPoints(t *testing.T) {
	s := &store.Store{}
	k := key(1)
	for i, family := range []hash.Family{hash.XX, hash.CRC} {
		p, err := lds.NewPoint(lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: 1 << epochBits, Hash: family})
		if err != nil {
			t.Fatal(err)
		}
		p.Begin(1)
		for id := range uint64(100) {
			p.Add(Hash(family, k, 0), id, 1<<epochBits, 60)
		}
		h := record.Header{Kind: record.LDS, Switch: uint32(i), Instance: uint16(1 - i), Start: 1 << epochBits, Span: 1 << epochBits, Hash: family}
		add(t, s, h, p.AppendBinary)
	}
	s.Sort()
	e := &Engine{Store: s}
	_, err := e.Between(Place{Switch: 0, Port: -1}, Place{Switch: 1, Port: -1}, &k)
	if err == nil || !strings.Contains(err.Error(), "Hash:xxhash") || !strings.Contains(err.Error(), "Hash:crc") {
		t.Errorf("%v", err)
	}
	for sw := range uint32(2) {
		h, err := e.HeavyHittersAt(At{Place{Switch: sw, Port: -1}, Either}, oblivious.Packets, 0.5, 0, []Key{k, key(2)})
		if err != nil || len(h.Flows) != 1 || h.Flows[0].Key != k || h.Flows[0].High != 100 {
			t.Errorf("switch %d: %+v, %v", sw, h, err)
		}
	}
}

// TestMixedFragments: a fragment of another family than the first one's of its sketch and
// epoch is a conflict, which is counted; a network that changed its family is asked
// about the time behind that.
func TestMixedFragments(t *testing.T) {
	s := &store.Store{}
	e := &Engine{Store: s, FlowSeed: 5, Paths: PathFunc(func(Key) []uint32 { return []uint32{1, 2} })}
	fragment := func(sw uint32, epoch uint64, family hash.Family) {
		f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.CountSketch, Memory: 4096, Epochs: epochBits, Hash: family})
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.NewCounter()
		if err != nil {
			t.Fatal(err)
		}
		c.Begin(f.Begin(epoch), 0)
		c.Add(e.FlowID(family, key(1)), 7, false)
		add(t, s, record.Header{Kind: record.DiSketch, Switch: sw, Start: int64(epoch) << epochBits, Span: 1 << epochBits, Hash: family}, c.Record().AppendBinary)
	}
	fragment(1, 1, hash.XX)
	fragment(2, 1, hash.CRC)
	if n := s.Counts(); n.Conflicts != 1 || n.Records != 1 {
		t.Fatalf("%+v", n)
	}
	fragment(2, 1, hash.XX)
	for sw := range uint32(2) {
		fragment(sw+1, 2, hash.CRC)
	}
	s.Sort()
	f, err := e.SketchFrequency(key(1))
	if err != nil || !f.Holds(7) || math.Abs(f.Value-7) > 0.01 || f.Records != 2 || f.Covered != 1 || len(f.Absent) != 0 {
		t.Errorf("%v, covered %g, absent %v: %v, %v", f.Bounded, f.Covered, f.Absent, f.Basis, err)
	}
	e.Window = store.Window{From: 1 << epochBits, To: 2 << epochBits}
	if f, err = e.SketchFrequency(key(1)); err != nil || !f.Holds(7) || math.Abs(f.Value-7) > 0.01 || f.Records != 2 || f.Covered != 1 || len(f.Absent) != 0 {
		t.Errorf("before: %v, covered %g, absent %v: %v, %v", f.Bounded, f.Covered, f.Absent, f.Basis, err)
	}
}

// TestDigestsOfFamilies: digests are read by the plan of their id and family: without plans,
// by the default one in any family; by a plan of another family not at all.
func TestDigestsOfFamilies(t *testing.T) {
	other := pintplan.Default()
	for family := hash.XX; family.Valid(); family++ {
		p := pintplan.Default()
		p.Hash, other.Hash = family, (family+1)%(hash.AES+1)
		n := newSinks(t, p)
		for i := range 3000 {
			n.send(key(i%4), int64(i)*1e5, route3(i%4)...)
		}
		n.flush(t, nil)
		for _, plans := range [][]*pintplan.Plan{nil, {p}, {other, p}} {
			e := &Engine{Store: n.store, Plans: plans}
			a := ask[*PathAnswer](t, e, &Question{Kind: KindPath, Flow: FormatKey(key(1))})
			if len(a.Flows) != 1 || !a.Flows[0].Certain || a.OtherPlans != 0 || !slices.EqualFunc(a.Flows[0].Hops, route3(1), func(h PathHop, sw uint32) bool { return h.Number == uint64(sw) }) {
				t.Errorf("%v, %d plans: %+v", family, len(plans), a)
			}
		}
		e := &Engine{Store: n.store, Plans: []*pintplan.Plan{other}}
		_, err := e.Ask(t.Context(), &Question{Kind: KindPath, Flow: FormatKey(key(1))})
		if !errors.Is(err, ErrUnknownFlow) || !strings.Contains(err.Error(), fmt.Sprintf("plans [%v]", planID{1, family})) {
			t.Errorf("%v digests, read by a plan of %v: %v", family, other.Hash, err)
		}
	}
}
