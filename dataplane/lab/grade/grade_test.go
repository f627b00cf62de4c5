package grade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// answering is an Asker with right answers about the lab of config/demo.toml, which a test spoils.
type answering struct {
	truth *truth
	spoil func(q *query.Question, answer any) (any, error)
}

func exactly(v float64) query.Bounded { return query.Bounded{Value: v, Low: v, High: v} }

func (a *answering) Ask(_ context.Context, q *query.Question) (any, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if len(q.Flows) > 0 {
		return a.several(q)
	}
	answer := a.right(q)
	if a.spoil != nil {
		return a.spoil(q, answer)
	}
	return answer, nil
}

// several answers about each flow as if it were alone.
func (a *answering) several(q *query.Question) (any, error) {
	all := &query.Between{Kept: 1}
	for _, flow := range q.Flows {
		one := *q
		one.Flow, one.Flows = flow, nil
		answer, err := a.Ask(context.Background(), &one)
		if errors.Is(err, query.ErrUnknownFlow) {
			all.Flows = append(all.Flows, query.FlowBetween{Flow: flow, Why: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		b := answer.(*query.Between)
		all.Kept = min(all.Kept, b.Kept)
		if all.Basis.Missing == nil {
			all.Basis = b.Basis
		}
		all.Flows = append(all.Flows, query.FlowBetween{Flow: flow, HasDelay: b.HasDelay, Delay: b.Delay, HasLoss: b.HasLoss, Lost: b.Lost})
	}
	return all, nil
}

func (a *answering) right(q *query.Question) any {
	of, _ := query.ParseKey(q.Flow)
	switch q.Kind {
	case query.KindNetwork:
		n := &query.Network{Links: []query.NetworkLink{{Ends: [2]query.NetworkEnd{{Name: "h2"}, {Name: "s3", HasSwitch: true}}, Speed: 1e9}}}
		for _, name := range []string{"s1", "s2", "s3"} {
			s := query.NetworkSwitch{Name: name, HasStatus: true, SpanNs: 1e9}
			for _, port := range []string{"p0", "p1"} {
				s.Ports = append(s.Ports, query.NetworkPort{Name: port, HasRates: true, Received: query.Rate{PacketsPS: 1000}, Sent: query.Rate{PacketsPS: 900}})
			}
			n.Switches = append(n.Switches, s)
		}
		return n
	case query.KindPath:
		p := &query.PathAnswer{Value: "switch_id"}
		for i, flow := range []string{query.FormatKey(a.truth.keys[0]), query.FormatKey(a.truth.keys[1]), "10.0.0.1:1 > 10.0.0.2:2 tcp", "10.0.0.9:1 > 10.0.0.2:2 tcp", "not IP"} {
			f := query.FlowPath{Flow: flow, Packets: 100, Known: true, Certain: true}
			if i == 2 {
				f.Packets, f.Certain = 59, false // too short
			}
			for _, name := range []string{"s1", "s2", "s3"} {
				f.Hops = append(f.Hops, query.PathHop{Switch: name})
			}
			p.Flows = append(p.Flows, f)
		}
		return p
	case query.KindLatency:
		l := &query.LatencyAnswer{Value: "hop_latency", Aggregation: "quantiles"}
		for _, name := range []string{"s1", "s2", "s3"} {
			l.Hops = append(l.Hops, query.HopStats{Switch: name, ValueStats: query.ValueStats{
				Samples: 9, Quantiles: []query.QuantileValue{{Bounded: query.Bounded{Value: 1500, Low: 1400, High: 1600}}, {}},
			}})
		}
		return l
	case query.KindCongestion:
		return &query.CongestionAnswer{Value: "egress_utilisation", Aggregation: "max", Packets: query.ValueStats{Samples: 9, Quantiles: []query.QuantileValue{{Bounded: exactly(0.001)}, {}}}}
	case query.KindLoops:
		return &query.LoopsAnswer{}
	case query.KindFrequency:
		packets := exactly(a.truth.flows[of].packets)
		return &query.Frequency{
			Sample: &query.SampleFrequency{Packets: packets},
			Sketch: &query.SketchFrequency{Unit: "packets", Bounded: packets},
		}
	case query.KindHeavyHitters:
		h := &query.HeavyHitters{By: q.By, Unit: "packets"}
		for _, k := range a.truth.keys {
			if is := a.truth.flows[k].packets; is >= q.Theta*a.truth.packets {
				h.Flows = append(h.Flows, query.HeavyFlow{Flow: query.FormatKey(k), Bounded: exactly(is)})
			}
		}
		return h
	case query.KindVolume:
		return &query.Volume{Packets: exactly(a.truth.packets), Bytes: exactly(a.truth.bytes), NaivePackets: 3 * uint64(a.truth.packets)}
	case query.KindEntropy:
		return &query.Entropy{Bits: query.Bounded{Value: a.truth.entropy(), Low: 0, High: 99}}
	case query.KindCardinality:
		return &query.Cardinality{Flows: exactly(a.truth.sent())}
	case query.KindDelay:
		b := &query.Between{From: q.From, To: q.To, Intervals: 4, Refused: 5, Cells: 100, Kept: 1, HasDelay: true, HasLoss: true}
		if q.Flow != "" {
			b.Delay, b.Lost = query.Bounded{Value: 20.1e6, Low: 19e6, High: 21e6}, 10
		}
		return b
	}
	panic(q.Kind)
}

// evidence is of config/demo.toml with 40 flows, of which 2 are delayed.
func evidence(t *testing.T) (*lab.Evidence, *answering) {
	t.Helper()
	c, err := lab.Load("../../../config/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	e := &lab.Evidence{Config: c, FlowsBegan: time.Now().Add(-4 * time.Second), FlowsEnded: time.Now()}
	load := lab.LoadCount{From: "h1", To: "h2"}
	for i := range 40 {
		n := uint64(2000 >> min(i, 10))
		load.Flows = append(load.Flows, lab.FlowCount{
			Flow: fmt.Sprintf("198.18.0.0:%d > 198.19.1.1:9 udp", 49152+i), Sent: n, Received: n, SentBytes: 100 * n, ReceivedBytes: 100 * n,
		})
	}
	slow := relay.Truth{Name: "slow", Classes: []relay.ClassTruth{{Class: relay.Class{Delay: 20 * time.Millisecond}}}}
	for _, f := range load.Flows[:2] {
		slow.Flows = append(slow.Flows, relay.FlowTruth{Flow: f.Flow, From: "left", Received: 1000, Sent: 990, Dropped: 10, MeanNs: 20e6})
	}
	e.Truth, e.Relays = []lab.LoadCount{load}, []relay.Truth{slow}
	for _, name := range []string{"s1", "s2", "s3"} {
		r := &lab.SwitchReport{Name: name}
		if err := json.Unmarshal([]byte(`{"ports": [{"name": "p0", "received": 1000, "transmitted": 900}, {"name": "p1", "received": 1000, "transmitted": 900}],
			"pint": {"measured": [{"port": "p0", "value": "hop_latency", "packets": 5, "median": 1000}, {"port": "p1", "value": "hop_latency", "packets": 5, "median": 2000},
				{"port": "p1", "value": "queue_occupancy", "packets": 5, "median": 9e9}, {"port": "p1", "value": "hop_latency", "packets": 0, "median": 1}]}}`), r); err != nil {
			t.Fatal(err)
		}
		e.Switches = append(e.Switches, lab.SwitchEnd{Name: name, Report: r})
	}
	known, err := newTruth(e.Truth)
	if err != nil {
		t.Fatal(err)
	}
	return e, &answering{truth: known}
}

// TestVerdicts spoils one answer at a time: the rows of its kind fail, or say why they are not judged, and no others.
func TestVerdicts(t *testing.T) {
	overrun := query.Basis{Missing: []store.Missing{{Switch: "s1", Packets: 7}}}
	for _, c := range []struct {
		name   string
		kind   query.Kind
		change func(a any) (any, error)
		want   string // "ok", "FAIL" or a part of why a row is not judged; empty: there is no row
		lab    func(e *lab.Evidence)
	}{
		{"all is right", query.KindNetwork, func(a any) (any, error) { return a, nil }, "ok", nil},
		{"a port is missing", query.KindNetwork, func(a any) (any, error) {
			n := a.(*query.Network)
			n.Switches[1].Ports = n.Switches[1].Ports[:1]
			return n, nil
		}, "FAIL", nil},
		{"a port counted less", query.KindNetwork, func(a any) (any, error) {
			a.(*query.Network).Switches[1].Ports[0].Received.PacketsPS = 900
			return a, nil
		}, "FAIL", nil},
		{"a certain path is wrong", query.KindPath, func(a any) (any, error) {
			a.(*query.PathAnswer).Flows[0].Hops[1].Switch = "s1"
			return a, nil
		}, "FAIL", nil},
		{"a wrong path that is not certain", query.KindPath, func(a any) (any, error) {
			a.(*query.PathAnswer).Flows[2].Hops[1].Switch = "s1"
			return a, nil
		}, "ok", nil},
		{"no long flow is decoded", query.KindPath, func(a any) (any, error) {
			for i := range a.(*query.PathAnswer).Flows {
				a.(*query.PathAnswer).Flows[i].Certain = false
			}
			return a, nil
		}, "FAIL", nil},
		{"no digest came", query.KindPath, func(any) (any, error) {
			return nil, query.Lacking{What: "digests", Remedy: "add the stage pint"}.Err()
		}, "no packet with a digest came to a port of edge", nil},
		{"the plan has no path", query.KindPath, func(any) (any, error) { return nil, fmt.Errorf("%w of paths", query.ErrNoRecords) }, "no records of paths", nil},
		{"a median is twice the largest", query.KindLatency, func(a any) (any, error) {
			a.(*query.LatencyAnswer).Hops[0].Quantiles[0].Bounded = query.Bounded{Value: 4000, Low: 3900, High: 4100}
			return a, nil
		}, "FAIL", nil},
		{"no median", query.KindLatency, func(a any) (any, error) { return &query.LatencyAnswer{Value: "hop_latency"}, nil }, "FAIL", nil},
		{"links are used too much", query.KindCongestion, func(a any) (any, error) {
			a.(*query.CongestionAnswer).Packets.Quantiles[0].Bounded = exactly(0.9)
			return a, nil
		}, "FAIL", nil},
		{"links are used too much by loads that were held up", query.KindCongestion, func(a any) (any, error) {
			a.(*query.CongestionAnswer).Packets.Quantiles[0].Bounded = exactly(0.9)
			return a, nil
		}, "held the loads up", func(e *lab.Evidence) { e.FlowsBegan = e.FlowsEnded.Add(-time.Minute) }},
		{"a loop", query.KindLoops, func(a any) (any, error) {
			a.(*query.LoopsAnswer).Flows = make([]query.FlowLoop, 1)
			return a, nil
		}, "FAIL", nil},
		{"frequencies are outside", query.KindFrequency, func(a any) (any, error) {
			a.(*query.Frequency).Sketch.Bounded = exactly(1e9)
			return a, nil
		}, "FAIL", nil},
		{"frequencies are outside where packets were not counted", query.KindFrequency, func(a any) (any, error) {
			a.(*query.Frequency).Sketch.Bounded, a.(*query.Frequency).Sketch.Basis = exactly(1e9), overrun
			return a, nil
		}, "held a switch up", nil},
		{"frequencies are right where packets were not counted", query.KindFrequency, func(a any) (any, error) {
			a.(*query.Frequency).Sketch.Basis = overrun
			return a, nil
		}, "ok", nil},
		{"no frequency", query.KindFrequency, func(any) (any, error) { return nil, query.ErrUnknownFlow }, "FAIL", nil},
		{"a third of the heavy flows", query.KindHeavyHitters, func(a any) (any, error) {
			h := a.(*query.HeavyHitters)
			h.Flows = h.Flows[:len(h.Flows)/3]
			return h, nil
		}, "FAIL", nil},
		{"a heavy flow is outside its bounds", query.KindHeavyHitters, func(a any) (any, error) {
			a.(*query.HeavyHitters).Flows[0].Bounded = exactly(1)
			return a, nil
		}, "FAIL", nil},
		{"volume", query.KindVolume, func(a any) (any, error) {
			a.(*query.Volume).Bytes = exactly(1)
			return a, nil
		}, "FAIL", nil},
		{"no volume", query.KindVolume, func(any) (any, error) { return nil, query.ErrNoRecords }, "FAIL", nil},
		{"entropy", query.KindEntropy, func(a any) (any, error) {
			a.(*query.Entropy).Bits = exactly(0)
			return a, nil
		}, "FAIL", nil},
		{"fragments without entropy", query.KindEntropy, func(any) (any, error) { return nil, query.ErrNoRecords }, "no records", nil},
		{"cardinality", query.KindCardinality, func(a any) (any, error) {
			a.(*query.Cardinality).Flows = exactly(41)
			return a, nil
		}, "FAIL", nil},
		{"delay is off, as its bounds say", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = query.Bounded{Value: 30e6, Low: 10e6, High: 50e6}
			return a, nil
		}, "off by more than 5 %, and within bounds", nil},
		{"delay is off", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = exactly(30e6)
			return a, nil
		}, "FAIL", nil},
		{"no cell survived", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).HasDelay = false
			return a, nil
		}, "FAIL", nil},
		{"delay is off where the relay was late", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = exactly(30e6)
			return a, nil
		}, "held the relay up", func(e *lab.Evidence) {
			for i := range e.Relays[0].Flows {
				e.Relays[0].Flows[i].MeanNs = 21e6
			}
		}},
		{"delay is above the truth where the switch that receives waited", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = exactly(22e6)
			return a, nil
		}, "s3 waited for a processor", func(e *lab.Evidence) {
			e.Switches[2].Late, e.Switches[1].Late = 250*time.Microsecond, 10*time.Microsecond
		}},
		{"delay is below the truth where a switch waited", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = exactly(18e6)
			return a, nil
		}, "FAIL", func(e *lab.Evidence) { e.Switches[2].Late = 250 * time.Microsecond }},
		{"delay is above the truth where a switch waited little", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = exactly(22e6)
			return a, nil
		}, "FAIL", func(e *lab.Evidence) { e.Switches[2].Late = 150 * time.Microsecond }},
		{"delay is above the truth where another switch waited", query.KindDelay, func(a any) (any, error) {
			a.(*query.Between).Delay = exactly(22e6)
			return a, nil
		}, "FAIL", func(e *lab.Evidence) { e.Switches[0].Late = time.Second }},
		{"no delay is measured", query.KindDelay, func(any) (any, error) { return nil, query.ErrNoRecords }, "", nil},
		{"loss is off by a tenth", query.KindLoss, func(a any) (any, error) {
			a.(*query.Between).Lost = 11
			return a, nil
		}, "FAIL", nil},
		{"loss is off in shortened records", query.KindLoss, func(a any) (any, error) {
			a.(*query.Between).Lost, a.(*query.Between).Kept = 11, 0.6
			return a, nil
		}, "records are shortened to 60 % of the cells", nil},
		{"loss is off by little in cells that others share", query.KindLoss, func(a any) (any, error) {
			a.(*query.Between).Lost = 10.4
			return a, nil
		}, "ok", nil},
		{"loss is off by little in its own cells", query.KindLoss, func(a any) (any, error) {
			a.(*query.Between).Lost = 10.4
			return a, nil
		}, "FAIL", func(e *lab.Evidence) { e.Truth[0].Flows = e.Truth[0].Flows[:2] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, asker := evidence(t)
			if c.lab != nil {
				c.lab(e)
			}
			known, err := newTruth(e.Truth)
			if err != nil {
				t.Fatal(err)
			}
			asker.truth = known
			asker.spoil = func(q *query.Question, answer any) (any, error) {
				if q.Kind == c.kind || c.kind == query.KindLoss && q.Kind == query.KindDelay && q.Flow != "" {
					return c.change(answer)
				}
				return answer, nil
			}
			report, err := Lab(t.Context(), e, asker)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, r := range report.Rows {
				verdict := "FAIL"
				if r.OK {
					verdict = "ok"
				} else if r.NotJudged != "" {
					verdict = r.NotJudged
				}
				if r.Kind != c.kind && verdict != "ok" {
					t.Errorf("%+v", r)
				}
				if r.Kind == c.kind && (got == "" || got == "ok") {
					got = verdict
				}
			}
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%q, want %q", got, c.want)
			}
			if report.OK() != (got != "FAIL") {
				t.Errorf("the report is good: %t, with %q", report.OK(), got)
			}
			var text strings.Builder
			if err := report.WriteText(&text); err != nil || strings.Contains(text.String(), "FAIL") != (got == "FAIL") {
				t.Errorf("%v\n%s", err, &text)
			}
			for line := range strings.Lines(text.String()) {
				if strings.HasPrefix(line, "  FAIL") != strings.Contains(line, "of the lab file)") {
					t.Errorf("what failed, and that alone, names its line: %s", line)
				}
			}
		})
	}
}

// TestQuestions: a right lab has a row of each kind that its stages answer, and other errors than missing records fail the rows of their kind alone.
func TestQuestions(t *testing.T) {
	e, asker := evidence(t)
	report, err := Lab(t.Context(), e, asker)
	if err != nil || !report.OK() {
		t.Fatalf("%v, %+v", err, report)
	}
	for _, kind := range query.Kinds() {
		if kind != query.KindTarget && !slices.ContainsFunc(report.Rows, func(r Row) bool { return r.Kind == kind }) {
			t.Errorf("no row of kind %s", kind)
		}
	}
	if d := report.Delays; len(d) != 1 || d[0].From != "s2:1" || d[0].To != "s3:0" || d[0].TruthLost != 20 || d[0].Refused != 5 {
		t.Errorf("%+v", d)
	}
	for _, kind := range query.Kinds() {
		if kind == query.KindTarget || kind == query.KindLoss {
			continue
		}
		asker.spoil = func(q *query.Question, answer any) (any, error) {
			if q.Kind == kind {
				return nil, context.DeadlineExceeded
			}
			return answer, nil
		}
		report, err := Lab(t.Context(), e, asker)
		failed := func(r Row) bool { return r.Kind == kind && !r.OK && strings.HasPrefix(r.Answer, "failed: ") }
		if err != nil || report.OK() || !slices.ContainsFunc(report.Rows, failed) {
			t.Errorf("%s: no failed row, %v", kind, err)
		}
	}
	// Labs without stages that measure are asked for their switches only.
	c, err := lab.Load("../../../config/routed.toml")
	if err != nil {
		t.Fatal(err)
	}
	asker.spoil = nil
	if report, err = Lab(t.Context(), &lab.Evidence{Config: c}, asker); err != nil || len(report.Rows) != 1 {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestLossOfPartialIntervals: a wrong loss is not judged where not all intervals were counted whole, unless the sender, whatever the answer names it by, has
// interval_bit.
func TestLossOfPartialIntervals(t *testing.T) {
	demo, err := os.ReadFile("../../../config/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	without := filepath.Join(t.TempDir(), "without.toml")
	if err := os.WriteFile(without, bytes.ReplaceAll(demo, []byte("interval_bit = true"), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, from string
		whole      int
		why        string
	}{
		{"../../../config/demo.toml", "s2:1 out", 3, ""},
		{"../../../config/demo.toml", "s2 10.1.0.0/16 > 10.2.0.0/16 out", 3, ""},
		{"../../../config/demo.toml", "s2 blue out", 3, ""},
		{"../../../config/demo.toml", "s2 out", 3, ""},
		{without, "s2:1 out", 4, ""},
		{without, "s2:1 out", 3, "1 of 4 intervals were not counted whole"},
	} {
		e, asker := evidence(t)
		if e.Config, err = lab.Load(c.file); err != nil {
			t.Fatal(err)
		}
		asker.spoil = func(q *query.Question, answer any) (any, error) {
			if b, ok := answer.(*query.Between); ok {
				b.From, b.Whole, b.Lost = c.from, c.whole, 11
			}
			return answer, nil
		}
		report, err := Lab(t.Context(), e, asker)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(report.Rows, func(r Row) bool { return r.Kind == query.KindLoss })
		if i < 0 || report.Rows[i].OK || !strings.HasPrefix(report.Rows[i].NotJudged, c.why) || (report.Rows[i].NotJudged == "") != (c.why == "") {
			t.Errorf("%s, %s, %d whole intervals: %+v, want %q", filepath.Base(c.file), c.from, c.whole, report.Rows, c.why)
		}
	}
}

// countingAsker counts the questions of a kind.
type countingAsker struct {
	Asker
	kind query.Kind
	n    int
}

func (c *countingAsker) Ask(ctx context.Context, q *query.Question) (any, error) {
	if q.Kind == c.kind {
		c.n++
	}
	return c.Asker.Ask(ctx, q)
}

// TestFewQuestions: the records of a delay are read for some hundred flows at once, not for each.
func TestFewQuestions(t *testing.T) {
	e, asker := evidence(t)
	e.FlowsBegan, e.FlowsEnded = time.Time{}, time.Time{}
	r := &e.Relays[0]
	r.Flows = nil
	for i := range flowsAtOnce + 50 {
		r.Flows = append(r.Flows, relay.FlowTruth{Flow: fmt.Sprintf("10.0.0.1:%d > 10.0.0.2:9 udp", 1000+i), From: "left", Received: 2000, Sent: 1990, Dropped: 10, MeanNs: 20e6})
	}
	c := &countingAsker{Asker: asker, kind: query.KindDelay}
	report, err := Lab(t.Context(), e, c)
	if err != nil || len(report.Delays) != 1 || report.Delays[0].Flows != flowsAtOnce+50 || report.Delays[0].TruthLost != 10*(flowsAtOnce+50) {
		t.Fatalf("%v, %+v", err, report)
	}
	if c.n != 3 { // of all flows, and of two parts
		t.Errorf("%d questions of delay about %d flows", c.n, len(r.Flows))
	}
}

// counted is a Meter of a test.
type counted struct {
	total, done int64
	ended       int
}

func (c *counted) Add(n int64) { c.done += n }
func (c *counted) Done()       { c.ended++ }

// TestProgress: questions about many flows count those that are answered, and each ends, also where a question fails.
func TestProgress(t *testing.T) {
	e, asker := evidence(t)
	var begun map[string]*counted
	e.Begin = func(what string, total int64) lab.Meter {
		c := &counted{total: total}
		begun[strings.Fields(what)[1]] = c
		return c
	}
	for _, fails := range []bool{false, true} {
		begun = map[string]*counted{}
		asker.spoil = func(q *query.Question, answer any) (any, error) {
			if fails && q.Flow != "" {
				return nil, context.DeadlineExceeded
			}
			return answer, nil
		}
		if _, err := Lab(t.Context(), e, asker); err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{"delay", "frequency,"} {
			c := begun[of]
			if c == nil || c.ended != 1 || c.total < 2 || !fails && c.done != c.total || fails && c.done != 0 {
				t.Errorf("%s, fails %v: %+v of %d", of, fails, c, len(begun))
			}
		}
	}
}

// TestOtherLoads: a relay also knows the flows of loads that no question is about, and their losses: these are not compared. Questions are about the time of the
// generated flows alone.
func TestOtherLoads(t *testing.T) {
	e, asker := evidence(t)
	e.Relays[0].Flows = append(e.Relays[0].Flows,
		relay.FlowTruth{Flow: "10.0.0.1:7001 > 10.0.0.2:7002 udp", From: "left", Received: 2000, Sent: 1938, Dropped: 62, MeanNs: 20e6},
		relay.FlowTruth{Flow: "10.0.0.2:7002 > 10.0.0.1:7001 udp", From: "right", Received: 2000, Sent: 2000, MeanNs: 20e6})
	length := time.Duration(e.FlowsEnded.UnixNano() - e.FlowsBegan.UnixNano())
	asker.spoil = func(q *query.Question, answer any) (any, error) {
		if strings.Contains(q.Flow, "7001") {
			return nil, fmt.Errorf("%w: it is of another time", query.ErrUnknownFlow)
		}
		if q.Kind == query.KindVolume && time.Duration(q.End-q.Start) != length {
			t.Errorf("a window of %v, flows took %v", time.Duration(q.End-q.Start), length)
		}
		return answer, nil
	}
	report, err := Lab(t.Context(), e, asker)
	if err != nil || !report.OK() || len(report.Delays) != 1 || report.Delays[0].TruthLost != 20 {
		t.Errorf("%v: %+v", err, report)
	}
	// Without generated flows the window is all of the run, and all flows are compared.
	e.FlowsBegan, e.FlowsEnded, asker.spoil = time.Time{}, time.Time{}, nil
	if report, err = Lab(t.Context(), e, asker); err != nil || len(report.Delays) != 2 {
		t.Errorf("%v: %+v", err, report)
	}
}

// TestOtherFlows: flows that no load generated, of ARP and of what routers answer, are neither wrong nor faults of the count of flows; others are.
func TestOtherFlows(t *testing.T) {
	for _, c := range []struct {
		flows []string
		count float64
		ok    bool
	}{
		{[]string{"not IP", "10.1.2.1:0 > 10.0.0.1:0 icmp"}, 41, true},
		{[]string{"not IP"}, 40, true},
		{[]string{"not IP"}, 41, false},
		{[]string{"10.1.2.1:0 > 10.0.0.1:0 icmp"}, 42, false},
		{[]string{"not IP"}, 39, false},
		{[]string{"10.9.9.9:1 > 10.0.0.1:2 tcp"}, 41, false},
		{[]string{"fe80::1 > ff02::2"}, 41, false},
	} {
		e, asker := evidence(t)
		asker.spoil = func(_ *query.Question, answer any) (any, error) {
			switch a := answer.(type) {
			case *query.HeavyHitters:
				for _, flow := range c.flows {
					a.Flows = append(a.Flows, query.HeavyFlow{Flow: flow, Bounded: exactly(7)})
				}
			case *query.Cardinality:
				a.Flows = exactly(c.count)
			}
			return answer, nil
		}
		report, err := Lab(t.Context(), e, asker)
		if err != nil {
			t.Fatal(err)
		}
		if report.OK() != c.ok {
			t.Errorf("%q, %g flows: %+v", c.flows, c.count, report.Rows)
		}
	}
}

// TestNoLongFlow: where no flow is long enough, no delay is compared, and lost packets are those of all flows.
func TestNoLongFlow(t *testing.T) {
	e, asker := evidence(t)
	for i := range e.Relays[0].Flows {
		e.Relays[0].Flows[i].Sent = 90
	}
	report, err := Lab(t.Context(), e, asker)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Rows {
		switch {
		case r.Kind == query.KindDelay && (r.Truth != "" || r.NotJudged != noLongFlow || strings.Contains(r.Answer, "error per flow")):
			t.Errorf("%+v", r)
		case r.Kind == query.KindLoss && (!r.OK || strings.Contains(r.What, ", 0 flows")):
			t.Errorf("%+v", r)
		}
	}
	if !slices.ContainsFunc(report.Rows, func(r Row) bool { return r.Kind == query.KindLoss }) {
		t.Errorf("no losses: %+v", report.Rows)
	}
}

// TestInterruptedAnswers: a context that ends leaves the rows that were answered, and of the question under way those of the flows so far, which are not judged.
func TestInterruptedAnswers(t *testing.T) {
	for _, c := range []struct {
		kind   query.Kind
		after  int // flows of it that are answered
		before query.Kind
		cut    string
	}{
		{query.KindFrequency, 7, query.KindLoops, "interrupted after 7 of 40 flows"},
		{query.KindDelay, 1, query.KindCardinality, "interrupted after 0 of 2 flows"},
		{query.KindVolume, 0, query.KindHeavyHitters, ""},
	} {
		e, asker := evidence(t)
		ctx, cancel := context.WithCancel(t.Context())
		answered := 0
		asker.spoil = func(q *query.Question, answer any) (any, error) {
			if q.Kind != c.kind || q.Kind == query.KindDelay && q.Flow == "" {
				return answer, nil
			}
			if answered++; answered <= c.after {
				return answer, nil
			}
			cancel()
			return nil, fmt.Errorf("asked in vain: %w", ctx.Err())
		}
		report, err := Lab(ctx, e, asker)
		if !errors.Is(err, context.Canceled) || report == nil || report.OK() {
			t.Fatalf("%s: %v, %+v", c.kind, err, report)
		}
		if !slices.ContainsFunc(report.Rows, func(r Row) bool { return r.Kind == c.before && r.OK }) {
			t.Errorf("%s: nothing of %s, which was answered before: %+v", c.kind, c.before, report.Rows)
		}
		last := report.Rows[len(report.Rows)-1]
		if last.NotJudged != c.cut || last.OK != (c.cut == "") {
			t.Errorf("%s: the last row is %+v, want %q", c.kind, last, c.cut)
		}
	}
}

// TestMixed: counts that are off because other loads are in the flows' epochs are not judged.
func TestMixed(t *testing.T) {
	for quiet, judged := range map[time.Duration]bool{100 * time.Millisecond: false, 2 * time.Second: true} {
		e, asker := evidence(t)
		c := *e.Config
		c.Quiet, e.Config = quiet, &c
		asker.spoil = func(q *query.Question, answer any) (any, error) {
			if v, ok := answer.(*query.Volume); ok {
				v.Bytes = exactly(2 * v.Bytes.Value)
			}
			return answer, nil
		}
		report, err := Lab(t.Context(), e, asker)
		if err != nil || report.OK() == judged {
			t.Errorf("quiet %v: %v, %+v", quiet, err, report)
		}
		for _, r := range report.Rows {
			if !r.OK && (r.NotJudged == "") != judged || r.NotJudged != "" && !strings.Contains(r.NotJudged, "shorter than an epoch") {
				t.Errorf("quiet %v: %+v", quiet, r)
			}
		}
	}
}

// TestPlans: each plan of the switches is read once.
func TestPlans(t *testing.T) {
	c, err := lab.Load("../../../config/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Switches {
		stages := s.Config["stages"].(map[string]any)
		if stages["pint"] == nil {
			stages["pint"] = map[string]any{}
		}
		stages["pint"].(map[string]any)["plan"] = "../../../p4/testdata/setups/plan-shim.toml"
		stages["pint"].(map[string]any)["switches"] = []any{int64(1), int64(2), int64(3)}
		s.Config["switch"] = map[string]any{"hash": "crc"}
	}
	paths, err := labpath.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := plans(paths); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestHop: what packets wait between two relays is known by their times where all that left one came to the next, over all relays of each, also where the sums
// pass 2^64.
func TestHop(t *testing.T) {
	const sent = math.MaxUint64 - 999
	var first, next hop
	first.add(&relay.FlowTruth{Received: 4, Sent: 3, Dropped: 1, MeanNs: 20e6, Departures: sent})
	first.add(&relay.FlowTruth{Received: 2, Sent: 2, MeanNs: 10e6, Departures: 500})
	next.add(&relay.FlowTruth{Received: 5, Sent: 4, Dropped: 1, Arrivals: 3_000_500})
	if ns, known := first.until(&next); !known || ns != 600_200 || first.delays != 80e6 {
		t.Errorf("%g ns (%t), %+v", ns, known, first)
	}
	next.add(&relay.FlowTruth{Received: 1, Arrivals: 1})
	if ns, known := first.until(&next); known || ns != 0 {
		t.Errorf("%g ns (%t) where another one came", ns, known)
	}
}
