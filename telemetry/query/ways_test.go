package query

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
	"github.com/weirswitch/weir/telemetry/store"
)

// seenAt is a measurement point that packets pass, by its switch, the number of its port, and how long after the first point.
type seenAt struct {
	sw     uint32
	port   uint16
	egress bool
	after  int64 // ns
}

// stream is packets of flows that pass points, in this order, until every so many of them are lost there.
type stream struct {
	flows [2]int // from, and up to
	past  []seenAt
	lost  map[int]int // by index of past: of so many packets one does not come there
}

// streams makes the records of three intervals, in which each stream has 3,000 packets; lost are its losses by point.
func streams(t *testing.T, all ...stream) (s *store.Store, lost []map[int]float64) {
	t.Helper()
	const interval, packets = 1 << 30, 3000
	s = &store.Store{}
	r := rand.New(rand.NewPCG(7, 8))
	lost = make([]map[int]float64, len(all))
	for i := range lost {
		lost[i] = map[int]float64{}
	}
	for number := int64(1); number <= 3; number++ {
		points := map[seenAt]*lds.Point{}
		at := func(p seenAt) *lds.Point {
			p.after = 0
			if points[p] == nil {
				points[p], _ = lds.NewPoint(lds.Config{Rows: 4, Columns: 2000, Virtual: 1, IntervalNs: interval, Seed: 2})
				points[p].Begin(number)
			}
			return points[p]
		}
		for n, x := range all {
			for _, p := range x.past {
				at(p)
			}
			for i := range packets {
				flow := Hash(hash.XX, key(x.flows[0]+r.IntN(x.flows[1]-x.flows[0])), 0)
				id, now := r.Uint64(), number*interval+int64(i)*200_000
				for k, p := range x.past {
					if each := x.lost[k]; each > 0 && r.IntN(each) == 0 {
						lost[n][k]++
						break
					}
					at(p).Add(flow, id, now+p.after, 100)
				}
			}
		}
		for p, point := range points {
			instance := 2 * p.port
			if p.egress {
				instance++
			}
			add(t, s, record.Header{Kind: record.LDS, Switch: p.sw, Instance: instance, Start: number * interval, Span: interval}, point.AppendBinary)
		}
	}
	s.Sort()
	return s, lost
}

// withPorts adds a status of a switch whose ports have these names.
func withPorts(t *testing.T, s *store.Store, sw uint32, names ...string) {
	t.Helper()
	st := &status.Status{Time: 1 << 30}
	for i, name := range names {
		st.Ports = append(st.Ports, status.Port{Number: uint32(i), Name: name, Up: true})
	}
	add(t, s, record.Header{Kind: record.Status, Switch: sw, Start: 1 << 30, Span: 1 << 30}, st.AppendBinary)
	s.Sort()
}

// TestNothingCommon: points that see packets, but not the same ones, have neither delay nor loss, of all flows or of one.
func TestNothingCommon(t *testing.T) {
	s, _ := streams(t,
		stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 1, port: 0, egress: true}, {sw: 1, port: 1, egress: true}}},
		stream{flows: [2]int{40, 100}, past: []seenAt{{sw: 2, port: 0}}},
		stream{flows: [2]int{100, 140}, past: []seenAt{{sw: 2, port: 1}}},
		// Dense points, in which cells have packets of both by chance.
		stream{flows: [2]int{1000, 6000}, past: []seenAt{{sw: 4, port: 0, egress: true}}},
		stream{flows: [2]int{6000, 11000}, past: []seenAt{{sw: 5, port: 0}}},
	)
	e := &Engine{Store: s}
	for _, q := range []Question{
		{From: "b", To: "c"}, {From: "b:0", To: "c:1"}, {From: "e", To: "f"},
		{From: "b", To: "c", Flow: FormatKey(key(1))}, {From: "b", To: "c", Flow: FormatKey(key(50))}, {From: "b", To: "c", Flow: FormatKey(key(999))},
	} {
		for _, q.Kind = range []Kind{KindDelay, KindLoss} {
			a, err := e.Ask(t.Context(), &q)
			if !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "passed both") || !strings.Contains(err.Error(), "weir query path") {
				t.Errorf("%+v: %+v, %v", q, a, err)
			}
		}
	}
}

// TestFlowElsewhere: of a flow that passes only one of two switches, or neither, no loss is known, though others pass both; unless a link joins the ports.
func TestFlowElsewhere(t *testing.T) {
	s, _ := streams(t,
		stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 1, port: 0, egress: true}, {sw: 2, port: 1, after: 1000}}},
		stream{flows: [2]int{40, 42}, past: []seenAt{{sw: 1, port: 0, egress: true}}},
	)
	for _, ends := range [][]Link{nil, {{Ends: [2]string{"b:0", "c:1"}}}, {{Ends: [2]string{"b:up", "c:1"}}}} {
		if ends != nil {
			withPorts(t, s, 1, "up")
			withPorts(t, s, 2, "0", "1")
		}
		e := &Engine{Store: s, Links: ends}
		b, err := e.Ask(t.Context(), &Question{Kind: KindLoss, From: "b", To: "c", Flow: FormatKey(key(41))})
		if ends == nil && (!errors.Is(err, ErrUnknownFlow) || !strings.Contains(err.Error(), "none of them arrived")) {
			t.Errorf("%+v, %v", b, err)
		}
		if b, ok := b.(*Between); ends != nil && (!ok || !b.HasLoss || b.Lost != b.Packets || b.Lost < 4000) {
			t.Errorf("%v: %+v, %v", ends, b, err)
		}
		if b, err := e.Ask(t.Context(), &Question{Kind: KindLoss, From: "b", To: "c", Flow: FormatKey(key(999))}); !errors.Is(err, ErrUnknownFlow) {
			t.Errorf("%+v, %v", b, err)
		}
		if b := ask[*Between](t, e, &Question{Kind: KindLoss, From: "b", To: "c", Flow: FormatKey(key(1))}); !b.HasLoss || b.Lost != 0 {
			t.Errorf("%+v", b)
		}
		// A third of the packets went elsewhere, or was lost.
		all := ask[*Between](t, e, &Question{Kind: KindLoss, From: "b", To: "c"})
		if all.HasLoss != (ends != nil) || ends == nil && !strings.Contains(all.Why, "went elsewhere, or were lost") || ends != nil && all.Lost != 9000 {
			t.Errorf("%v: %+v", ends, all)
		}
	}
}

// TestSeveralWays: of two ways between two switches one loses packets, which the answer about all flows counts; packets that spread in between, and
// those of others that come there, do not change what is known.
func TestSeveralWays(t *testing.T) {
	const near, far = 1_000_000, 4_000_000
	s, lost := streams(t,
		stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 1, port: 0, egress: true}, {sw: 2, port: 1, after: near}}},
		stream{flows: [2]int{40, 80}, past: []seenAt{{sw: 1, port: 1, egress: true}, {sw: 2, port: 0, after: far}}, lost: map[int]int{1: 400}},
		// From one port to two, and to one that others use too.
		stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 3, port: 0, egress: true}, {sw: 4, port: 0, after: near}}},
		stream{flows: [2]int{40, 80}, past: []seenAt{{sw: 3, port: 0, egress: true}, {sw: 4, port: 1, after: far}}, lost: map[int]int{1: 400}},
		stream{flows: [2]int{80, 120}, past: []seenAt{{sw: 5, port: 0, egress: true}, {sw: 6, port: 0, after: near}}},
		stream{flows: [2]int{120, 160}, past: []seenAt{{sw: 6, port: 0}}},
	)
	e := &Engine{Store: s}
	for i, pair := range [][2]string{{"b", "c"}, {"d", "e"}} {
		truth := lost[2*i+1][1]
		b := ask[*Between](t, e, &Question{Kind: KindLoss, From: pair[0], To: pair[1]})
		if truth < 10 || !b.HasLoss || b.Lost != truth || b.Why != "" || len(b.Ways) != 2-i || math.Abs(b.Delay.Value-near) < 1e5 || math.Abs(b.Delay.Value-far) < 1e5 {
			t.Errorf("%v: %+v, truth %g", pair, b, truth)
		}
		// Each way counts by what was sent, though fewer cells of the lossy one survived. Where one port sends to both, cells are all that is known.
		if mean := float64(near+far) / 2; i == 0 && math.Abs(b.Delay.Value-mean) > mean/50 {
			t.Errorf("a mean of %g, not %g", b.Delay.Value, mean)
		}
		sum := 0.0
		for _, w := range b.Ways {
			if sum += w.Lost; !w.HasLoss || w.Packets < 9000 {
				t.Errorf("%+v", w)
			}
		}
		if sum != truth {
			t.Errorf("%v: %g lost by all ways, truth %g", pair, sum, truth)
		}
		for f, delay := range map[int]float64{3: near, 39: near, 40: far, 79: far} {
			k := key(f)
			of := ask[*Between](t, e, &Question{Kind: KindDelay, From: pair[0], To: pair[1], Flow: FormatKey(k)})
			if !of.HasDelay || math.Abs(of.Delay.Value-delay) > 1 || len(of.Ways) != 1 || f < 40 && (!of.HasLoss || of.Lost != 0) {
				t.Errorf("%v, flow %d: %+v", pair, f, of)
			}
		}
	}
	b := ask[*Between](t, e, &Question{Kind: KindLoss, From: "f", To: "g"})
	if b.HasLoss || b.Lost != 0 || !strings.Contains(b.Why, "50 % of what was counted at g:0 in did not pass f:0 out") || !b.HasDelay || math.Abs(b.Delay.Value-near) > 1 || len(b.LostFlows) != 0 {
		t.Errorf("%+v", b)
	}
}

// TestMovedFlow: a flow that changed its way has the packets of both.
func TestMovedFlow(t *testing.T) {
	s, _ := streams(t,
		stream{flows: [2]int{0, 2}, past: []seenAt{{sw: 1, port: 0, egress: true}, {sw: 2, port: 1, after: 1_000_000}}},
		stream{flows: [2]int{1, 3}, past: []seenAt{{sw: 1, port: 1, egress: true}, {sw: 2, port: 0, after: 4_000_000}}},
	)
	e := &Engine{Store: s}
	one := ask[*Between](t, e, &Question{Kind: KindDelay, From: "b", To: "c", Flow: FormatKey(key(0))})
	both := ask[*Between](t, e, &Question{Kind: KindDelay, From: "b", To: "c", Flow: FormatKey(key(1))})
	if len(one.Ways) != 1 || len(both.Ways) != 2 || both.Packets < 1.9*one.Packets || math.Abs(both.Delay.Value-2.5e6) > 1e5 || both.From != "b out" || both.To != "c in" {
		t.Errorf("%+v\n%+v", one, both)
	}
}

// TestTransit: packets pass two switches one way, and are counted wherever they arrive and leave. What is outside of both is not the way back.
func TestTransit(t *testing.T) {
	past := []seenAt{{sw: 1, port: 0}, {sw: 1, port: 1, egress: true, after: 2000}, {sw: 2, port: 1, after: 5_002_000}, {sw: 2, port: 0, egress: true, after: 5_004_000}}
	back := []seenAt{{sw: 2, port: 0}, {sw: 2, port: 1, egress: true, after: 2000}, {sw: 1, port: 1, after: 5_002_000}, {sw: 1, port: 0, egress: true, after: 5_004_000}}
	links := []Link{{Ends: [2]string{"b:1", "c:1"}}, {Ends: [2]string{"b:0", "h1"}}, {Ends: [2]string{"c:0", "d:1"}}}
	for _, l := range [][]Link{nil, links} {
		s, _ := streams(t, stream{flows: [2]int{0, 40}, past: past})
		withPorts(t, s, 1, "0", "1")
		withPorts(t, s, 2, "0", "1")
		e := &Engine{Store: s, Links: l}
		b := ask[*Between](t, e, &Question{Kind: KindDelay, From: "b", To: "c"})
		if len(b.Ways) != 1 || b.From != "b:1 out" || b.To != "c:1 in" || b.Clocks == nil || b.Clocks.HasOffset || b.Clocks.Warning != "" || math.Abs(b.Delay.Value-5e6) > 1 {
			t.Errorf("%v: %+v, %+v", l, b, b.Clocks)
		}
		if b, err := e.Ask(t.Context(), &Question{Kind: KindDelay, From: "c", To: "b"}); !errors.Is(err, ErrNoRecords) {
			t.Errorf("%v: %+v, %v", l, b, err)
		}
		s, _ = streams(t, stream{flows: [2]int{0, 40}, past: past}, stream{flows: [2]int{40, 80}, past: back})
		withPorts(t, s, 1, "0", "1")
		withPorts(t, s, 2, "0", "1")
		e = &Engine{Store: s, Links: l}
		for _, q := range [][2]string{{"b", "c"}, {"c", "b"}} {
			b := ask[*Between](t, e, &Question{Kind: KindDelay, From: q[0], To: q[1]})
			if len(b.Ways) != 1 || b.From != q[0]+":1 out" || b.Clocks == nil || !b.Clocks.HasOffset || b.Clocks.Warning != "" || math.Abs(b.Clocks.OffsetNs.Value) > 1 {
				t.Errorf("%v: %+v, %+v", l, b, b.Clocks)
			}
		}
	}
}

// TestNamedPorts: a place may have a port's name, which goes before a number; an unknown one is refused with those that there are.
func TestNamedPorts(t *testing.T) {
	s, _ := streams(t, stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 1, port: 1, egress: true}, {sw: 2, port: 0, after: 1000}}})
	withPorts(t, s, 1, "1", "up", "", "down2")
	e := &Engine{Store: s}
	for text, want := range map[string]int{"b": -1, "b:up": 1, "b:1": 0, "b:5": 5, "b:down2": 3, "c:0": 0, "b:up/blue": 1} {
		if p, err := e.ParsePlace(text); err != nil || p.Port != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for text, want := range map[string]string{
		"b:down": `switch b has no port "down": its ports are 1, up, down2; or write a number`, "b:": "its ports are 1, up, down2", "b:-1": "its ports are", "c:down": "write its number",
	} {
		if p, err := e.ParsePlace(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	b := ask[*Between](t, e, &Question{Kind: KindDelay, From: "b:up", To: "c"})
	if b.From != "b:1 out" || !b.HasDelay {
		t.Errorf("%+v", b)
	}
	if at, err := e.ParseAt("b:up out"); err != nil || at.Port != 1 || at.Direction != Out {
		t.Errorf("%+v, %v", at, err)
	}
	for _, q := range []*Question{{Kind: KindDelay, From: "b:no", To: "c"}, {Kind: KindNetwork, At: "b:no"}, {Kind: KindHeavyHitters, At: "b:no in"}} {
		if _, err := e.Ask(t.Context(), q); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "its ports are 1, up, down2") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if n := ask[*Network](t, e, &Question{Kind: KindNetwork, At: "b:up"}); len(n.Switches) != 1 || len(n.Switches[0].Ports) != 1 || n.Switches[0].Ports[0].Number != 1 {
		t.Errorf("%+v", n)
	}
}

// TestProgress: a question of delay or loss says how many of its intervals it has read, one after the other, up to all of them.
func TestProgress(t *testing.T) {
	s, _ := streams(t,
		stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 1, port: 0, egress: true}, {sw: 2, port: 0, after: 1000}}},
		stream{flows: [2]int{40, 80}, past: []seenAt{{sw: 1, port: 1, egress: true}, {sw: 2, port: 1, after: 1000}}},
	)
	for _, c := range []struct {
		q    Question
		want int
	}{{Question{From: "b", To: "c"}, 6}, {Question{From: "b:0", To: "c"}, 3}, {Question{From: "b", To: "c", Flow: FormatKey(key(50))}, 3}} {
		for _, c.q.Kind = range []Kind{KindDelay, KindLoss} {
			last := 0
			e := &Engine{Store: s, Progress: func(read, all int) {
				if read != last+1 || all != c.want {
					t.Errorf("%+v: %d of %d after %d, want %d in all", c.q, read, all, last, c.want)
				}
				last = read
			}}
			ask[*Between](t, e, &c.q)
			if last != c.want {
				t.Errorf("%+v: %d of %d", c.q, last, c.want)
			}
		}
	}
}
