package query

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// newPointTraffic adds to the store three intervals of a point of switch 1, port 2, of each direction: a third
// as much leaves. It returns what arrived, by flow.
func newPointTraffic(t *testing.T, s *store.Store, config lds.Config) (packets, bytes map[Key]float64) {
	t.Helper()
	packets, bytes = map[Key]float64{}, map[Key]float64{}
	r := rand.New(rand.NewPCG(11, 12))
	for number := int64(1); number <= 3; number++ {
		in, err := lds.NewPoint(config)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := lds.NewPoint(config)
		in.Begin(number)
		out.Begin(number)
		for i := range 30_000 {
			k := key(int(math.Pow(testFlows, r.Float64())) - 1)
			length := 60 + r.Uint32N(1400)
			at := number * config.IntervalNs
			in.Add(Hash(hash.XX, k, 0), r.Uint64(), at, length)
			packets[k]++
			bytes[k] += float64(length)
			if i%3 == 0 {
				out.Add(Hash(hash.XX, k, 0), r.Uint64(), at, length)
			}
		}
		for instance, p := range map[uint16]*lds.Point{4: in, 5: out} {
			add(t, s, record.Header{Kind: record.LDS, Switch: 1, Instance: instance, Start: number * config.IntervalNs, Span: config.IntervalNs}, p.AppendBinary)
		}
	}
	s.Sort()
	return packets, bytes
}

// TestHeavyHittersOfCutPoints: where a budget cut a point's first row, the volume is an estimate with bounds that hold it, and nothing is guaranteed.
func TestHeavyHittersOfCutPoints(t *testing.T) {
	config := lds.Config{Rows: 4, Columns: 3000, Virtual: 1, IntervalNs: 1 << 30}
	p, err := lds.NewPoint(config)
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(1)
	r := rand.New(rand.NewPCG(11, 13))
	total := map[oblivious.Unit]float64{}
	for i := range 30_000 {
		length := 60 + r.Uint32N(1400)
		p.Add(Hash(hash.XX, key(i%testFlows), 0), r.Uint64(), config.IntervalNs, length)
		total[oblivious.Packets]++
		total[oblivious.Bytes] += float64(length)
	}
	for _, c := range []struct {
		cells int
		exact bool
	}{{4 * 3000, true}, {3000, true}, {2999, false}, {700, false}} {
		p.Keep(c.cells)
		s := &store.Store{}
		add(t, s, record.Header{Kind: record.LDS, Switch: 1, Instance: 4, Start: config.IntervalNs, Span: config.IntervalNs}, p.AppendBinary)
		s.Sort()
		e := &Engine{Store: s, Confidence: 0.999}
		at, err := e.ParseAt("b")
		if err != nil {
			t.Fatal(err)
		}
		for unit, truth := range total {
			h, err := e.HeavyHittersAt(at, unit, 0.5, 0.5, []Key{key(0)})
			if err != nil {
				t.Fatal(err)
			}
			exact := h.Volume == Bounded{truth, truth, truth}
			if v := h.Volume; v.Low > truth || v.High < truth || exact != c.exact || h.Guaranteed && !c.exact || v.Value < v.Low || v.Value > v.High {
				t.Errorf("%d cells: %+v, truth %g, guaranteed %v", c.cells, h.Volume, truth, h.Guaranteed)
			}
		}
	}
}

// TestHeavyHittersAt compares with the exact counts, and keeps what it promises.
func TestHeavyHittersAt(t *testing.T) {
	s := &store.Store{}
	packets, bytes := newPointTraffic(t, s, lds.Config{Rows: 4, Columns: 3000, Virtual: 2, IntervalNs: 1 << 30})
	var all []Key
	for k := range packets {
		all = append(all, k, k)
	}
	e := &Engine{Store: s, Confidence: 0.999}
	at, err := e.ParseAt("b")
	if err != nil {
		t.Fatal(err)
	}
	for unit, truth := range map[oblivious.Unit]map[Key]float64{oblivious.Packets: packets, oblivious.Bytes: bytes} {
		total := 0.0
		for _, n := range truth {
			total += n
		}
		const theta = 0.005
		h, err := e.HeavyHittersAt(at, unit, theta, 0, all)
		if err != nil {
			t.Fatal(err)
		}
		if h.At != "b:2 in" || h.Candidates != len(packets) || h.Records != 3 || h.Switches != 1 || h.Volume != (Bounded{total, total, total}) || h.LeastEpsilon == nil {
			t.Fatalf("%+v", h)
		}
		epsilon := *h.LeastEpsilon
		if epsilon <= 0 || epsilon > theta || h.Guaranteed {
			t.Fatalf("epsilon %g, guaranteed %v", epsilon, h.Guaranteed)
		}
		if h, err = e.HeavyHittersAt(at, unit, theta, epsilon, all); err != nil || !h.Guaranteed {
			t.Fatalf("%+v, %v", h, err)
		}
		reported, wrong := map[Key]bool{}, 0
		for i, f := range h.Flows {
			reported[f.Key] = true
			if f.High < truth[f.Key] || i > 0 && f.Value > h.Flows[i-1].Value || f.Trust == nil || *f.Trust < 0.5 || *f.Trust > 1 {
				t.Errorf("%s: %+v, truth %g", f.Flow, f, truth[f.Key])
			}
			if f.Low > truth[f.Key] || truth[f.Key] < (theta-epsilon)*total {
				wrong++ // each with a probability of 0.001
			}
		}
		if wrong > 1 {
			t.Errorf("%d of %d flows outside their bounds, or too small", wrong, len(h.Flows))
		}
		for k, n := range truth {
			if n >= theta*total && !reported[k] {
				t.Errorf("%s, of %.4f, is not there", FormatKey(k), n/total)
			}
		}
		if len(h.Flows) < 20 || h.Flows[0].Key != key(0) {
			t.Errorf("%d flows, the largest %+v", len(h.Flows), h.Flows[0])
		}
		if _, err := json.Marshal(h); err != nil {
			t.Error(err)
		}
	}

	if at, err = e.ParseAt("b:2 out"); err != nil {
		t.Fatal(err)
	}
	h, err := e.HeavyHittersAt(at, oblivious.Packets, 0.01, 0, all)
	if err != nil || h.At != "b:2 out" || h.Volume.Value != 30_000 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestHeavyHittersAtCandidates: the samples name them where nobody else does.
func TestHeavyHittersAtCandidates(t *testing.T) {
	n := newTraffic(t)
	e := n.engine()
	at := At{Place: Place{Switch: 1, Port: -1}}
	if _, err := e.HeavyHittersAt(at, oblivious.Packets, 0.01, 0, nil); !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "add lds_ingress") {
		t.Errorf("without points: %v", err)
	}
	packets, _ := newPointTraffic(t, n.store, lds.Config{Rows: 4, Columns: 3000, Virtual: 1, IntervalNs: 1 << 30})
	h, err := e.HeavyHittersAt(at, oblivious.Packets, 0.01, 0, nil)
	if err != nil || len(h.Flows) < 10 || h.Flows[0].Key != key(0) {
		t.Fatalf("%+v, %v", h, err)
	}
	for _, f := range h.Flows {
		if f.High < packets[f.Key] {
			t.Errorf("%s: %+v, truth %g", f.Flow, f, packets[f.Key])
		}
	}

	lone := &Engine{Store: &store.Store{}}
	newPointTraffic(t, lone.Store, lds.Config{Rows: 2, Columns: 300, Virtual: 1, Rates: []float64{0.5, 0.1}, IntervalNs: 1 << 30})
	if _, err := lone.HeavyHittersAt(at, oblivious.Packets, 0.01, 0, nil); !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "name candidates") {
		t.Errorf("without candidates: %v", err)
	}
	pair, _ := ParseKey("10.0.0.1 > 10.0.0.2")
	if _, err := lone.HeavyHittersAt(at, oblivious.Packets, 0.01, 0, []Key{pair}); err == nil || !strings.Contains(err.Error(), "5-tuple") {
		t.Errorf("pairs of addresses: %v", err)
	}
	h, err = lone.HeavyHittersAt(at, oblivious.Bytes, 0.01, 0, []Key{key(0)})
	if err != nil || len(h.Flows) != 1 || h.LeastEpsilon != nil || h.Guaranteed {
		t.Errorf("rows that sample: %+v, %v", h, err)
	}
}

func TestParseAt(t *testing.T) {
	s := &store.Store{}
	newPointTraffic(t, s, lds.Config{Rows: 1, Columns: 10, Virtual: 1, IntervalNs: 1 << 30})
	e := &Engine{Store: s}
	for text, want := range map[string]At{
		"b": {Place{Switch: 1, Port: -1}, Either}, "b:3": {Place{Switch: 1, Port: 3}, Either}, "1:0 in": {Place{Switch: 1, Port: 0}, In}, "b out": {Place{Switch: 1, Port: -1}, Out},
	} {
		if got, err := e.ParseAt(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "b:x", "b up", "b:1  sideways", "in"} {
		if got, err := e.ParseAt(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestReadFlows(t *testing.T) {
	flows, err := ReadFlows("# mine\n10.0.0.1:1 > 10.0.0.2:2 udp # one\n\n [fd00::1]:1 > [fd00::2]:2 tcp\r\n")
	if err != nil || len(flows) != 2 || flows[0].Proto != 17 || flows[1].Version != 6 {
		t.Errorf("%+v, %v", flows, err)
	}
	if _, err := ReadFlows("a\n10.0.0.1:1 > 10.0.0.2:2 udp\nb"); err == nil || !strings.Contains(err.Error(), "line 1:") || !strings.Contains(err.Error(), "line 3:") {
		t.Errorf("%v", err)
	}
	if _, err := ReadFlows("#\n"); err == nil {
		t.Error("no flow is no fault")
	}
}
