package query

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// withDigests adds the digests of the traffic's flows to its store.
func (n *traffic) withDigests(t testing.TB) *sinks {
	t.Helper()
	s := newSinks(t, pintplan.Default())
	s.store = n.store
	for i := range 24 * testFlows {
		k := key(i % testFlows)
		s.send(k, int64(i)*(3<<epochBits)/(24*testFlows), way(k)...)
	}
	s.flush(t, nil)
	return s
}

// Without any file of paths, the store's own digests choose the fragments: the answers are those
// with all paths known.
func TestDigestsChooseFragments(t *testing.T) {
	n := newTraffic(t)
	told := n.engine()
	blind := &Engine{Store: n.store, Confidence: told.Confidence, FlowSeed: told.FlowSeed}
	if _, err := blind.Ask(context.Background(), &Question{Kind: KindEntropy}); err == nil {
		t.Fatal("there is an entropy without paths")
	}
	n.withDigests(t)
	flows := 40
	if testing.Short() {
		flows = 5
	}
	for i := range flows {
		q := Question{Kind: KindFrequency, Flow: FormatKey(key(i))}
		want, got := ask[*Frequency](t, told, &q), ask[*Frequency](t, blind, &q)
		if got.Sketch == nil || want.Sketch == nil || got.Sketch.Bounded != want.Sketch.Bounded || !slices.Equal(got.Sketch.Path, want.Sketch.Path) {
			t.Errorf("flow %d: %+v by digests, %+v told; %v", i, got.Sketch, want.Sketch, got.Faults)
		}
	}
	for _, q := range []Question{{Kind: KindEntropy}, {Kind: KindHeavyHitters, By: BySketch, Theta: 0.01}, {Kind: KindTarget}} {
		want, got := ask[any](t, told, &q), ask[any](t, blind, &q)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: %+v by digests, %+v told", q.Kind, got, want)
		}
	}
	// In a window in which a flow sent no digest its path is that of other times.
	q := Question{Kind: KindFrequency, Flow: FormatKey(key(3)), Start: 1, End: 2}
	if f := ask[*Frequency](t, blind, &q); f.Sketch == nil {
		t.Errorf("in a window of 1 ns: %v", f.Faults)
	}
}

// Ask gives what the methods give.
func TestAskDispatches(t *testing.T) {
	n := newTraffic(t)
	e := n.engine()
	volume, _ := e.Volume(nil)
	cardinality, _ := e.Cardinality()
	entropy, _ := e.Entropy()
	heavy, _ := e.HeavyHitters(oblivious.Packets, 0.02, 0)
	for _, c := range []struct {
		q    Question
		want any
	}{
		{Question{Kind: KindVolume}, volume}, {Question{Kind: KindCardinality}, cardinality}, {Question{Kind: KindEntropy}, entropy},
		{Question{Kind: KindHeavyHitters, Theta: 0.02}, heavy},
	} {
		if got := ask[any](t, e, &c.q); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, the method has %+v", c.q.Kind, got, c.want)
		}
	}
	few := ask[*HeavyHitters](t, e, &Question{Kind: KindHeavyHitters, Theta: 0.001, Limit: 3, Src: "10.0.0.0/24"})
	if len(few.Flows) != 3 || few.More == 0 {
		t.Errorf("%d flows, %d more", len(few.Flows), few.More)
	}
	for _, f := range few.Flows {
		if f.Key.Src[2] != 0 {
			t.Errorf("%s was not asked about", f.Flow)
		}
	}
	if v := ask[*Volume](t, e, &Question{Kind: KindVolume, Last: 1 << epochBits}); v.Records != 3 || v.Packets.Value > 21_000 {
		t.Errorf("of the last epoch: %+v", v.Basis)
	}
	if v := ask[*Volume](t, e, &Question{Kind: KindVolume, Confidence: 0.5}); v.Confidence != 0.5 {
		t.Errorf("confidence %g was asked for", v.Confidence)
	}
}

// What is not known is an error of its own type, and no guess.
func TestUnknown(t *testing.T) {
	n := mixed(t)
	never := FormatKey(key(1000))
	for _, c := range []struct {
		name  string
		store *store.Store
		q     Question
		want  error
	}{
		{"path of a flow never seen", n.store, Question{Kind: KindPath, Flow: never}, ErrUnknownFlow},
		{"latency of a flow never seen", n.store, Question{Kind: KindLatency, Flow: never}, ErrUnknownFlow},
		{"congestion of a flow never seen", n.store, Question{Kind: KindCongestion, Flow: never}, ErrUnknownFlow},
		{"loops of a flow never seen", n.store, Question{Kind: KindLoops, Flow: never}, ErrUnknownFlow},
		{"latency of a prefix never seen", n.store, Question{Kind: KindLatency, Prefix: "192.168.0.0/16"}, ErrUnknownFlow},
		{"path in a window without records", n.store, Question{Kind: KindPath, Start: 100 << 30, End: 101 << 30}, ErrNoRecords},
		{"path in a window that ends before", n.store, Question{Kind: KindPath, End: -5}, ErrNoRecords},
		{"frequency without sketch or sample", n.store, Question{Kind: KindFrequency, Flow: never}, ErrNoRecords},
		{"series without records", n.store, Question{Kind: KindVolume, Step: time.Second}, ErrNoRecords},
	} {
		if a, err := (&Engine{Store: c.store}).Ask(context.Background(), &c.q); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
	for _, k := range Kinds() {
		q := Question{Kind: k}
		switch k {
		case KindFrequency:
			q.Flow = never
		case KindDelay, KindLoss:
			q.From, q.To = "1", "2"
		}
		a, err := (&Engine{Store: &store.Store{}}).Ask(context.Background(), &q)
		if k != KindNetwork && !errors.Is(err, ErrNoRecords) && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s of an empty store: %+v, %v", k, a, err)
		}
	}
	// Frequency of a flow never seen: the sample bounds it, the sketch says that it has no path.
	traffic := newTraffic(t)
	traffic.withDigests(t)
	f := ask[*Frequency](t, &Engine{Store: traffic.store, FlowSeed: 5}, &Question{Kind: KindFrequency, Flow: never})
	if f.Sample.Packets.Value != 0 || f.Sample.Packets.Low != 0 || f.Sketch != nil || len(f.Faults) != 1 {
		t.Errorf("%+v, %+v", f, f.Sample)
	}
}

// Digests that did not come, and plans that are not known, are told.
func TestPintMissing(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	for i := range 5000 {
		n.send(key(0), int64(i)<<19, 1, 2)
	}
	n.flush(t, func(slice int64, _ int) bool { return slice == 3 || slice == 4 })
	a := ask[*PathAnswer](t, n.engine(), &Question{Kind: KindPath, Flow: FormatKey(key(0))})
	if len(a.Missing) != 1 || a.Missing[0].Of != store.OfDigests || a.Missing[0].Lost != 2 || a.Missing[0].Packets != 1024 {
		t.Errorf("missing %+v", a.Missing)
	}
	if !a.Flows[0].Certain || a.Digests != 5000-1024 {
		t.Errorf("%+v", a)
	}
	other := pintplan.Default()
	other.ID = 9
	_, err := (&Engine{Store: n.store, Plans: []*pintplan.Plan{other}}).Ask(context.Background(), &Question{Kind: KindPath, Flow: FormatKey(key(0))})
	if !errors.Is(err, ErrUnknownFlow) {
		t.Errorf("digests of plan 1 asked with plan 9: %v", err)
	}
}

func TestLimits(t *testing.T) {
	n := mixed(t)
	for _, c := range []struct {
		name   string
		limits Limits
		q      Question
	}{
		{"candidates", Limits{Candidates: 10}, Question{Kind: KindPath}},
		{"records", Limits{Records: 100}, Question{Kind: KindLatency}},
		{"one flow", Limits{Records: 100}, Question{Kind: KindPath, Flow: FormatKey(key(0))}},
		{"bytes", Limits{Bytes: 1000}, Question{Kind: KindLatency}},
		{"points", Limits{}, Question{Kind: KindLatency, Step: 1000}},
	} {
		e := n.engine()
		e.Limits = c.limits
		if a, err := e.Ask(context.Background(), &c.q); !errors.Is(err, ErrTooCostly) || !strings.Contains(err.Error(), "shorter window") {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
	traffic := newTraffic(t)
	e := traffic.engine()
	e.Limits.Candidates = 20
	if _, err := e.Ask(context.Background(), &Question{Kind: KindEntropy}); !errors.Is(err, ErrTooCostly) {
		t.Errorf("entropy of more flows than allowed: %v", err)
	}
}

// givesUp is a context that ends after so many looks at it.
type givesUp struct {
	context.Context
	looks int
}

func (c *givesUp) Err() error {
	if c.looks--; c.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A question ends soon after its context does, wherever it is then.
func TestContext(t *testing.T) {
	n := newTraffic(t)
	n.withDigests(t)
	e := &Engine{Store: n.store, FlowSeed: 5}
	for _, q := range []Question{
		{Kind: KindPath}, {Kind: KindLatency}, {Kind: KindCongestion}, {Kind: KindLoops}, {Kind: KindEntropy}, {Kind: KindTarget},
		{Kind: KindHeavyHitters, By: BySketch, Theta: 0.01}, {Kind: KindVolume, Step: 1 << epochBits}, {Kind: KindVolume},
	} {
		for _, looks := range []int{0, 2, 3} {
			if looks > 0 && q.Kind == KindVolume && q.Step == 0 {
				continue // it has no loop
			}
			a, err := e.Ask(&givesUp{context.Background(), looks}, &q)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, given up at look %d: %v, %v", q.Kind, looks, a, err)
			}
		}
	}
}

// crowded has two switches with many ports that are measured for a long time.
func crowded(t *testing.T, ports uint16, intervals int64) *Engine {
	t.Helper()
	const interval = 1 << 30
	config := lds.Config{Rows: 1, Columns: 2, Virtual: 1, IntervalNs: interval}
	s := &store.Store{}
	for number := range intervals {
		for port := range ports {
			for sw := uint32(1); sw <= 2; sw++ {
				p, err := lds.NewPoint(config)
				if err != nil {
					t.Fatal(err)
				}
				p.Begin(number)
				p.Add(Hash(hash.XX, key(int(port)), 0), uint64(number), number*interval+int64(sw)*1000, 100)
				h := record.Header{Kind: record.LDS, Switch: sw, Instance: 2*port + uint16(sw&1), Start: number * interval, Span: interval}
				add(t, s, h, p.AppendBinary)
			}
		}
	}
	s.Sort()
	return &Engine{Store: s}
}

// TestDelayIsBounded: a question that names no ports compares few intervals of all pairs of ports, not each of each, and
// ends with its context wherever it is.
func TestDelayIsBounded(t *testing.T) {
	const ports, intervals = 8, 200
	e := crowded(t, ports, intervals)
	q := &Question{Kind: KindDelay, From: "1", To: "2"}
	whole := &givesUp{context.Background(), 1 << 30}
	a := ask[*Between](t, e, q)
	if _, err := e.Ask(whole, q); err != nil || !a.HasDelay || a.Intervals != intervals {
		t.Fatalf("%v, %+v", err, a)
	}
	looks := 1<<30 - whole.looks
	if most := ports*ports*(tried+2) + intervals + offsetIntervals + 100; looks > most {
		t.Errorf("%d looks at intervals, at most %d are needed: each of each pair is decoded", looks, most)
	}
	for _, kind := range []Kind{KindDelay, KindLoss} {
		for n := 0; n < looks-10; n += looks / 20 {
			q := &Question{Kind: kind, From: "1", To: "2"}
			if a, err := e.Ask(&givesUp{context.Background(), n}, q); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s, given up at look %d of %d: %v, %v", kind, n, looks, a, err)
			}
		}
	}
}

// TestTooSlow: a question that will not be answered by its deadline is refused before that.
func TestTooSlow(t *testing.T) {
	e := crowded(t, 1, 2000)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(time.Hour))
	defer cancel()
	own := e.of(ctx, &Question{Kind: KindDelay})
	if err := own.inTime(16*time.Minute, pacedAt, 2000); !errors.Is(err, ErrTooCostly) || !strings.Contains(err.Error(), "shorter window") {
		t.Errorf("a minute for each of 2000 intervals, in an hour: %v", err)
	}
	if err := own.inTime(16*time.Second, pacedAt, 2000); err != nil {
		t.Errorf("a second for each, in an hour: %v", err)
	}
}

func TestSeries(t *testing.T) {
	n := newTraffic(t)
	n.withDigests(t)
	e := &Engine{Store: n.store, FlowSeed: 5, Confidence: 1 - testDelta}
	s := ask[*Series](t, e, &Question{Kind: KindVolume, Step: 1 << epochBits})
	if len(s.Points) != 3 || s.StepNs != 1<<epochBits || s.Records != 9 || s.Of != KindVolume {
		t.Fatalf("%+v", s)
	}
	for _, p := range s.Points {
		if p.Values[0].Name != "packets" || !p.Values[0].Holds(20_000) || p.Length() != 1<<epochBits {
			t.Errorf("%+v", p)
		}
	}
	// A step that cuts epochs is rounded up, so that no record counts twice.
	s = ask[*Series](t, e, &Question{Kind: KindVolume, Step: 1<<epochBits + 5})
	sum := 0.0
	for _, p := range s.Points {
		sum += p.Values[0].Value
	}
	if len(s.Points) != 2 || s.StepNs != 2<<epochBits || math.Abs(sum-n.total) > 0.1*n.total {
		t.Errorf("%d points of %d ns with %g packets, truth %g", len(s.Points), s.StepNs, sum, n.total)
	}
	for _, q := range []Question{{Kind: KindEntropy}, {Kind: KindCardinality}, {Kind: KindFrequency, Flow: FormatKey(key(0))}, {Kind: KindLatency}, {Kind: KindCongestion}} {
		whole := ask[any](t, e, &q)
		q.Step = 1 << epochBits
		s := ask[*Series](t, e, &q)
		if len(s.Points) != 3 {
			t.Errorf("%s: %d points", q.Kind, len(s.Points))
		}
		for _, p := range s.Points {
			if p.Fault != "" || len(p.Values) == 0 || p.Values[0].Name != Numbers(whole)[0].Name {
				t.Errorf("%s: %+v", q.Kind, p)
			}
		}
	}
	// Of a time without a record, the point says why there is none.
	s = ask[*Series](t, e, &Question{Kind: KindVolume, End: 5 << epochBits, Step: 1 << epochBits})
	if len(s.Points) != 5 || s.Points[4].Fault == "" || len(s.Points[4].Values) != 0 {
		t.Errorf("%+v", s.Points)
	}
	if _, err := e.Series(context.Background(), &Question{Kind: KindVolume}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("a series without a step: %v", err)
	}
}

// Validate names each fault by its field, and Uses agrees with it.
func TestValidate(t *testing.T) {
	bad := Question{Kind: "frog"}
	if err := bad.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "heavy-hitters") {
		t.Errorf("%v", err)
	}
	all := Question{
		Kind: KindVolume, Flow: "x", Prefix: "y", Proto: "z", Port: "-1", Unit: "frogs", Theta: 2, Epsilon: -1, AtLeast: math.NaN(), By: "luck",
		Weight: 1 << 30, Hop: 256, Quantiles: []float64{2}, Limit: -1, Last: -1, Start: 2, End: 1, Confidence: 1, Step: -1, Flows: []string{"?"},
	}
	err := all.Validate()
	for _, field := range []string{
		"flow", "prefix", "proto", "port", "unit", "theta", "epsilon", "at_least", "by", "weight", "hop", "quantiles[0]", "limit", "last_ns", "end_ns", "confidence", "step_ns", "flows[0]",
	} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	// Every field of the JSON form belongs to some kind.
	fields := map[string]bool{}
	for _, k := range Kinds() {
		for _, f := range k.Uses() {
			fields[f] = true
		}
		if k.HasSeries() != slices.Contains(k.Uses(), "step_ns") {
			t.Errorf("%s: series %v, uses %v", k, k.HasSeries(), k.Uses())
		}
	}
	for f := range reflect.TypeFor[Question]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "kind" && !fields[name] {
			t.Errorf("field %s is of no kind", name)
		}
	}
	if len(kinds) != len(Kinds()) || Kind("frog").Uses() != nil {
		t.Error("Kinds does not list all kinds")
	}
	for _, c := range []struct {
		q    Question
		want string
	}{
		{Question{Kind: KindFrequency}, "flow: frequency needs it"},
		{Question{Kind: KindDelay, From: "1"}, "to: delay needs it"},
		{Question{Kind: KindVolume, Hop: 1}, "hop: not for volume"},
		{Question{Kind: KindPath, Flow: "10.0.0.1 > 10.0.0.2", Src: "10.0.0.1"}, "one flow needs no prefix"},
		{Question{Kind: KindPath, Step: 1}, "path has no series"},
		{Question{Kind: KindLatency, Hop: 1}, "name a flow"},
		{Question{Kind: KindHeavyHitters, At: "s1", By: BySample}, "by and at_least do not go with it"},
		{Question{Kind: KindHeavyHitters, Flows: []string{"10.0.0.1 > 10.0.0.2"}}, "name that with at"},
		{Question{Kind: KindVolume, Last: 1, Start: 1}, "does not go with start_ns"},
		{Question{Kind: KindVolume, Port: strings.Repeat("1", 1000)}, "at most 256"},
	} {
		if err := c.q.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.q, err, c.want)
		}
	}
}

// A question is the same after a trip as JSON.
func TestQuestionJSON(t *testing.T) {
	q := Question{
		Kind: KindLatency, Flow: "10.0.0.1:1 > 10.0.0.2:2 udp", Hop: 3, Quantiles: []float64{0.5}, Limit: 7, Start: 1 << 60, End: 1<<60 + 1, Confidence: 0.9, Step: time.Second,
	}
	b, err := json.Marshal(&q)
	if err != nil {
		t.Fatal(err)
	}
	var again Question
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(q, again) {
		t.Errorf("%s is read as %+v, %v", b, again, err)
	}
}

// FuzzAsk: whatever is asked, there is an answer that JSON can hold or an error, soon.
func FuzzAsk(f *testing.F) {
	n := newTraffic(f)
	n.withDigests(f)
	e := &Engine{Store: n.store, FlowSeed: 5}
	for _, text := range []string{
		`{"kind":"path","flow":"10.0.0.0:1000 > 10.1.0.1:9 udp"}`, `{"kind":"latency","hop":1,"flow":"10.0.0.0:1000 > 10.1.0.1:9 udp","quantiles":[0,1,0.5]}`,
		`{"kind":"latency","prefix":"10.0.0.0/28","step_ns":500000000}`, `{"kind":"congestion","limit":2,"proto":"17"}`, `{"kind":"loops","last_ns":1000000000}`,
		`{"kind":"frequency","flow":"10.0.0.0:1000 > 10.1.0.1:9 udp","confidence":0.999999}`, `{"kind":"heavy-hitters","theta":0.01,"by":"sketch"}`,
		`{"kind":"heavy-hitters","at":"b in","flows":["10.0.0.1:1 > 10.0.0.2:2 udp"],"unit":"bytes"}`, `{"kind":"volume","start_ns":-2305843009213693952,"step_ns":1}`,
		`{"kind":"volume","start_ns":-2305843009213693952,"end_ns":2305843009213693952,"step_ns":2305843009213693952}`,
		`{"kind":"entropy","step_ns":1073741824}`, `{"kind":"cardinality"}`, `{"kind":"delay","from":"b","to":"c:1"}`, `{"kind":"loss","from":"b","to":"c","weight":3}`, `{"kind":"network"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var q Question
		if json.Unmarshal(text, &q) != nil || q.Kind == KindTarget {
			return // a search for a target takes a second: TestDigestsChooseFragments has one
		}
		valid := q.Validate()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		a, err := e.Ask(ctx, &q)
		switch {
		case valid != nil && !errors.Is(err, ErrInvalid):
			t.Errorf("%s: valid says %v, Ask %v", text, valid, err)
		case err == nil && (a == nil || reflect.ValueOf(a).IsNil()), err != nil && a != nil:
			t.Errorf("%s: %v, %v", text, a, err)
		}
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
