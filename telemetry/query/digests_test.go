package query

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// sinks are the digests of a network, as they came, and the store that got them.
type sinks struct {
	plan    *pintplan.Plan
	encoder *encode.Encoder
	store   *store.Store
	all     []pint.Record // in the order of time
	loops   []pint.Record
	rng     *rand.Rand
	// Values that packets meet at a switch.
	latency, utilisation func(sw uint32, flow Key) uint64
	met                  map[uint32][]uint64 // latencies of packets that passed, by switch
}

func newSinks(t testing.TB, p *pintplan.Plan) *sinks {
	t.Helper()
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	n := &sinks{plan: p, encoder: e, store: &store.Store{}, rng: rand.New(rand.NewPCG(8, 8)), met: map[uint32][]uint64{}}
	n.latency = func(sw uint32, _ Key) uint64 { return uint64(sw)*1000 + n.rng.Uint64N(500) }
	n.utilisation = func(sw uint32, _ Key) uint64 { return pint.UtilisationOne / 10 }
	return n
}

// send passes a packet along switches.
func (n *sinks) send(flow Key, ns int64, path ...uint32) *pint.Record {
	o := pint.Record{Flow: pint.FlowKey(flow), ID: n.rng.Uint64(), TimeNs: uint64(ns), Plan: n.plan.ID, Hops: uint8(len(path))}
	for i, sw := range path {
		latency := n.latency(sw, flow)
		n.met[sw] = append(n.met[sw], latency)
		v := pint.Observed{pint.SwitchID: uint64(sw), pint.HopLatency: latency, pint.EgressUtilisation: n.utilisation(sw, flow), pint.IngressTime: uint64(ns)}
		o.Digest = n.encoder.Encode(o.ID, i+1, o.Digest, &v)
	}
	n.all = append(n.all, o)
	return &n.all[len(n.all)-1]
}

// flush writes records of slices of 2^28 ns into the store, as two sinks would; skip leaves
// some out.
func (n *sinks) flush(t testing.TB, skip func(slice int64, partition int) bool) {
	t.Helper()
	slices.SortStableFunc(n.all, func(a, b pint.Record) int { return cmp.Compare(a.TimeNs, b.TimeNs) })
	n.write(t, n.all, 21, false, skip)
	n.write(t, n.loops, 22, true, skip)
	n.store.Sort()
}

const sliceBits = 28

func (n *sinks) write(t testing.TB, all []pint.Record, sw uint32, loop bool, skip func(int64, int) bool) {
	t.Helper()
	type place struct {
		slice     int64
		partition int
	}
	by, sent, sequence := map[place][]pint.Record{}, map[int]uint64{}, map[int]uint64{}
	var order []place
	for _, o := range all {
		at := place{int64(o.TimeNs) >> sliceBits, o.Flow.Partition(record.Partitions)}
		if by[at] == nil {
			order = append(order, at)
		}
		by[at] = append(by[at], o)
	}
	for _, at := range order {
		b := &pint.DigestBatch{Boot: uint64(sw), Sequence: sequence[at.partition], Sent: sent[at.partition], Loop: loop, Plan: n.plan.ID, Records: by[at]}
		sequence[at.partition]++
		sent[at.partition] += uint64(len(by[at]))
		if skip != nil && skip(at.slice, at.partition) {
			continue
		}
		add(t, n.store, record.Header{
			Kind: record.PINT, Switch: sw, Instance: uint16(at.partition), Plan: n.plan.ID, Start: at.slice << sliceBits, Span: 1 << sliceBits, Hash: n.plan.Hash,
		}, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
	}
	if c := n.store.Counts(); c.Unreadable+c.Conflicts+c.Duplicates != 0 {
		t.Fatalf("records were refused: %+v", c)
	}
}

func (n *sinks) engine() *Engine { return &Engine{Store: n.store, Plans: []*pintplan.Plan{n.plan}} }

// ask puts a question that has an answer, which JSON can hold.
func ask[A any](t testing.TB, e *Engine, q *Question) A {
	t.Helper()
	a, err := e.Ask(context.Background(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return a.(A)
}

// recorder is fed all digests of a window: what answers are compared with.
func (n *sinks) recorder(t testing.TB, w store.Window) *sink.Recorder {
	t.Helper()
	exact := *n.plan
	exact.Queries = slices.Clone(n.plan.Queries)
	for i := range exact.Queries {
		exact.Queries[i].SpaceBytes = 0 // counts every code, as the answers do
	}
	r, err := sink.NewRecorder(&exact, sink.RecorderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n.all {
		if ns := int64(n.all[i].TimeNs); w == (store.Window{}) || ns >= w.From && ns < w.To {
			r.Record(&n.all[i])
		}
	}
	return r
}

// route is the way of a flow: by its number over spine 10, 11 or 12, between two leaves.
func route3(i int) []uint32 { return []uint32{1 + uint32(i)%4, 10 + uint32(i)%3, 5 + uint32(i)%4} }

// mixed is traffic of 60 flows over 4 s, of which one changes its path in between.
func mixed(t testing.TB) *sinks {
	t.Helper()
	n := newSinks(t, pintplan.Default())
	for i := range 30_000 {
		flow := int(60 * n.rng.Float64() * n.rng.Float64())
		ns := int64(i) * (4 << 30) / 30_000
		path := route3(flow)
		if flow == 1 && ns >= 2<<30 {
			path = []uint32{2, 12, 6}
		}
		n.send(key(flow), ns, path...)
	}
	n.flush(t, nil)
	return n
}

// Answers about a window are those of a Recorder that got all digests of it, and of no
// other time.
func TestPintTwin(t *testing.T) {
	n := mixed(t)
	for _, w := range []store.Window{{}, {From: 1, To: 4 << 30}, {From: 1<<30 + 12345, To: 2<<30 - 999}, {From: 5 << 28, To: 15<<28 + 7}} {
		r := n.recorder(t, w)
		e := n.engine()
		for flow := range 60 {
			q := Question{Kind: KindPath, Flow: FormatKey(key(flow)), Start: w.From, End: w.To}
			want, known := r.Path("path", pint.FlowKey(key(flow)))
			a, err := e.Ask(context.Background(), &q)
			if !known {
				if !errors.Is(err, ErrUnknownFlow) {
					t.Errorf("flow %d has no digest in %v: %v", flow, w, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got := a.(*PathAnswer).Flows[0]
			if got.Packets != want.Packets || got.Certain != want.Certain || got.Known != (want.Path != nil) || got.Doubt != 1-want.Confidence && got.Doubt > 1e-9 || got.Changes != want.Changes || got.Strays != want.Strays {
				t.Errorf("flow %d in %v: %+v, recorded %+v", flow, w, got, want)
			}
			for i, sw := range want.Path {
				if got.Hops[i].Number != sw || got.Hops[i].Hop != i+1 {
					t.Errorf("flow %d in %v: hop %d is %+v, recorded %d", flow, w, i+1, got.Hops[i], sw)
				}
			}
			if flow == 1 {
				continue // hops are of two switches
			}
			q.Kind, q.Quantiles = KindLatency, []float64{0, 0.1, 0.5, 0.99, 1}
			l := ask[*LatencyAnswer](t, e, &q)
			for _, h := range l.Hops {
				if n := r.Samples("latency", pint.FlowKey(key(flow)), h.Hop); n != h.Samples {
					t.Errorf("flow %d in %v, hop %d: %d samples, recorded %d", flow, w, h.Hop, h.Samples, n)
				}
				for _, x := range h.Quantiles {
					// Answers know by what codes were rounded, a recorder does not: they are up to a step apart.
					want, _ := r.Quantile("latency", pint.FlowKey(key(flow)), h.Hop, x.Rank)
					if math.Abs(math.Log(x.Value/want.Value)) > 2*math.Log1p(l.Epsilon) || x.Value < x.Low || x.Value > x.High {
						t.Errorf("flow %d in %v, hop %d: quantile %+v, recorded %+v", flow, w, h.Hop, x, want)
					}
				}
			}
			q.Kind, q.Quantiles = KindCongestion, []float64{0, 1}
			want2, known := r.Packets("congestion", pint.FlowKey(key(flow)))
			if c := ask[*CongestionAnswer](t, e, &q); c.Packets.Samples != want2.Packets ||
				known && (c.Packets.Quantiles[0].Value != want2.Min/pint.UtilisationOne || c.Packets.Quantiles[1].Value != want2.Max/pint.UtilisationOne) {
				t.Errorf("flow %d in %v: congestion %+v, recorded %+v", flow, w, c.Packets, want2)
			}
		}
	}
}

// A change of path is told with its time, and hops before and behind it are of their own
// switches.
func TestPathChanges(t *testing.T) {
	n := mixed(t)
	flow := FormatKey(key(1))
	p := ask[*PathAnswer](t, n.engine(), &Question{Kind: KindPath, Flow: flow})
	f := p.Flows[0]
	if f.Changes != 1 || len(f.Passages) != 2 || !f.Certain {
		t.Fatalf("%+v", f)
	}
	if got := f.Passages[0].Switches; !slices.Equal(got, []string{"2", "11", "6"}) {
		t.Errorf("first %v", got)
	}
	if got := f.Passages[1].Switches; !slices.Equal(got, []string{"2", "12", "6"}) {
		t.Errorf("then %v", got)
	}
	// The first digest of the new path is a stray one with probability 1-2^-8, so this fails by
	// luck once in 2^48 networks.
	first := int64(0)
	for i, seen := 0, 0; i < len(n.all) && seen < 6; i++ {
		if o := &n.all[i]; o.Flow == pint.FlowKey(key(1)) && o.TimeNs >= 2<<30 {
			first, seen = int64(o.TimeNs), seen+1
		}
	}
	if at := f.Passages[1].FromNs; at < 2<<30 || at > first || f.Passages[0].ToNs != at {
		t.Errorf("the change at %d is told to be at %d", int64(2<<30), at)
	}
	l := ask[*LatencyAnswer](t, n.engine(), &Question{Kind: KindLatency, Flow: flow, Hop: 2})
	if len(l.Hops) < 2 || l.Hops[0].Switch == l.Hops[1].Switch {
		t.Fatalf("hop 2 was of two switches: %+v", l.Hops)
	}
	for _, h := range l.Hops {
		truth := map[string]float64{"11": 11_250, "12": 12_250}[h.Switch]
		if m, _ := h.median(); h.Samples > 50 && !m.Holds(truth) {
			t.Errorf("hop 2 is %+v", h)
		}
	}
}

// Latencies of all flows are pooled by switch, and their bounds hold the quantiles of what
// packets met there.
func TestLatencyPooled(t *testing.T) {
	n := mixed(t)
	e := n.engine()
	e.Confidence = 1 - 1e-8 // of each of 11 switches
	a := ask[*LatencyAnswer](t, e, &Question{Kind: KindLatency, Quantiles: []float64{0.1, 0.5, 0.9}})
	if len(a.Hops) != 11 || a.Unit != "ns" || !(a.Epsilon > 0 && a.Epsilon < 0.06) {
		t.Fatalf("%d switches, %+v", len(a.Hops), a)
	}
	for _, h := range a.Hops {
		var sw uint32
		for id := range n.met {
			if n.store.Name(id) == h.Switch {
				sw = id
			}
		}
		truth := slices.Sorted(slices.Values(n.met[sw]))
		for _, x := range h.Quantiles {
			exact := float64(truth[int(x.Rank*float64(len(truth)-1))])
			if !x.Holds(exact) || x.Open || x.High > 1.6*exact || x.RankLow >= x.Rank || x.RankHigh <= x.Rank {
				t.Errorf("switch %s: %+v, truth %g", h.Switch, x, exact)
			}
		}
		if h.Hop != 0 || h.Flows == 0 {
			t.Errorf("%+v", h)
		}
	}
	if a.Used > a.Digests || a.FlowCount != 60 || a.Of != "all flows" || a.Records == 0 || a.Switches != 1 {
		t.Errorf("%+v", a.DigestBasis)
	}
	some := ask[*LatencyAnswer](t, e, &Question{Kind: KindLatency, Src: "10.0.0.0/30"})
	if some.FlowCount != 4 || some.Digests >= a.Digests || !strings.Contains(some.Of, "10.0.0.0/30") {
		t.Errorf("%+v", some.DigestBasis)
	}
}

// The most congested link is the first suspect, and its congestion within the bounds.
func TestCongestion(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	n.utilisation = func(sw uint32, _ Key) uint64 {
		if sw == 11 {
			return pint.UtilisationOne * 9 / 10
		}
		return pint.UtilisationOne / 5
	}
	for i := range 20_000 {
		n.send(key(i%24), int64(i)<<15, route3(i%24)...)
	}
	n.flush(t, nil)
	a := ask[*CongestionAnswer](t, n.engine(), &Question{Kind: KindCongestion, Limit: 8})
	if a.Unit != "share of the link" || a.Aggregation != "max" || len(a.Flows) != 8 || a.More != 16 {
		t.Fatalf("%+v", a)
	}
	for _, f := range a.Flows {
		if !f.Median.Holds(0.9) || f.Median.Open || f.Median.High > 1 {
			t.Errorf("%s: %+v", f.Flow, f.Median)
		}
	}
	for i, l := range a.Links {
		if l.Open || l.AtMost < 0.9 || !(l.From == n.store.Name(11) || l.To == n.store.Name(11)) {
			t.Errorf("suspect %d is %+v", i, l)
		}
	}
	// Two of three paths do not pass switch 11.
	if q := a.Packets.Quantiles[0]; q.Rank != 0.5 || !q.Holds(0.2) || a.Packets.Quantiles[1].Value < 0.8 {
		t.Errorf("of all packets: %+v", a.Packets)
	}
}

// TestPathOfSilentSwitches: switches that make no records are decoded where the engine has their names, and not
// without them, as values that are hashed are found among the known ones alone.
func TestPathOfSilentSwitches(t *testing.T) {
	p, err := pintplan.Load("../../p4/testdata/setups/plan-shim.toml")
	if err != nil {
		t.Fatal(err)
	}
	n := newSinks(t, p)
	for i := range 4000 {
		n.send(key(1), int64(i)<<20, 31, 32, 33)
	}
	n.flush(t, nil)
	e, q := n.engine(), &Question{Kind: KindPath, Flow: FormatKey(key(1))}
	if f := ask[*PathAnswer](t, e, q).Flows[0]; f.Known || f.Certain {
		t.Errorf("%+v, but no switch on the way is known", f)
	}
	e.Names = map[uint32]string{31: "a", 32: "b", 33: "c", 34: "d"}
	f := ask[*PathAnswer](t, e, q).Flows[0]
	if !f.Certain || !slices.Equal(f.Passages[0].Switches, []string{"a", "b", "c"}) {
		t.Errorf("%+v, want the path by a, b and c", f)
	}
}
