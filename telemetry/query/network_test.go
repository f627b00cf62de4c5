package query

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
	"github.com/weirswitch/weir/telemetry/store"
)

const statusSpan = 1 << 30

// said is the status of a switch, with one port and counters that grow by the same in
// each second since its boot.
func said(boot, at int64) *status.Status {
	n := uint64((at - boot) / 1e9)
	return &status.Status{
		Time: at, Boot: boot, Spool: status.Spool{Bytes: 10, Bound: 100, Remote: true, Connected: true},
		Ports: []status.Port{{
			Number: 1, Name: "p1", Up: true, Speed: 1e6, Received: 100 * n, ReceivedBytes: 6400 * n,
			Transmitted: 50 * n, TransmittedBytes: 3200 * n, Backlog: n % 5, Drops: []status.Drop{{Reason: "acl_denied", Packets: 3 * n}},
		}},
		Measurements: []status.Measurement{{Stage: "disketch", Part: "fragment 0", Epochs: 4 * n}},
		Workers:      []status.Worker{{ID: 0, Core: 2, CPUNs: n * 5e8, Rounds: 1000 * n, Batches: 250 * n, Packets: 100 * n}},
	}
}

// sayAll puts statuses into a store as their switch's.
func sayAll(t *testing.T, s *store.Store, sw uint32, name string, list ...*status.Status) {
	t.Helper()
	for _, at := range list {
		h := &record.Header{Kind: record.Status, Switch: sw, Name: name, Start: at.Time &^ (statusSpan - 1), Span: statusSpan, Partial: true}
		b, err := record.Append(nil, h, at.AppendBinary)
		if err != nil {
			t.Fatal(err)
		}
		s.AddBytes(b)
	}
	s.Sort()
}

// seconds are the statuses of a run, one in each second.
func seconds(boot, from, to int64) (list []*status.Status) {
	for at := from; at <= to; at++ {
		list = append(list, said(boot*1e9, at*1e9))
	}
	return list
}

func askedNetwork(t *testing.T, e *Engine) *Network {
	t.Helper()
	a, err := e.Ask(context.Background(), &Question{Kind: KindNetwork})
	if err != nil {
		t.Fatal(err)
	}
	return a.(*Network)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(b), 1) }

func TestNetworkRates(t *testing.T) {
	s := &store.Store{}
	sayAll(t, s, 1, "s1", seconds(1000, 1001, 1020)...)
	e := &Engine{Store: s, Links: []Link{{Ends: [2]string{"s1:p1", "h1"}, Speed: 2e6}, {Ends: [2]string{"s1:p9", "s2:p0"}}}}
	n := askedNetwork(t, e)
	if len(n.Switches) != 2 || n.Records != 20 || n.Basis.Switches != 1 {
		t.Fatalf("%+v", n)
	}
	slices.SortFunc(n.Switches, func(a, b NetworkSwitch) int { return strings.Compare(a.Name, b.Name) })
	sw := n.Switches[0]
	if !sw.HasStatus || sw.Statuses != 20 || sw.Health != HealthOK || sw.Epochs != 4*19 || len(sw.Measurements) != 1 {
		t.Errorf("%+v", sw)
	}
	p := sw.Ports[0]
	if !p.HasRates || !near(p.Received.PacketsPS, 100) || !near(p.Sent.BitsPS, 8*3200) || p.MostBacklog != 4 ||
		!near(p.DropsPS, 3) || !slices.Equal(p.Drops, []status.Drop{{Reason: "acl_denied", Packets: 57}}) {
		t.Errorf("%+v", p)
	}
	// 6,400 bytes and 100 frames of 24 bytes beside, each second, of 2 Mbit/s.
	if want := 8 * (6400 + 2400) / 2e6; p.Speed != 2e6 || !near(p.Received.Utilisation, want) {
		t.Errorf("utilisation %g of %d, want %g", p.Received.Utilisation, p.Speed, want)
	}
	if w := sw.Workers[0]; !near(w.CPU, 0.5) || !near(w.Busy, 0.25) || !near(w.PacketsPS, 100) || w.Core != 2 {
		t.Errorf("%+v", w)
	}
	l := n.Links[0]
	if !l.Up || !l.HasRates || !near(l.Rates[0].PacketsPS, 50) || !near(l.Rates[1].PacketsPS, 100) || l.Ends[0].Number != 1 || l.Ends[1].HasSwitch {
		t.Errorf("%+v", l)
	}
	if l := n.Links[1]; l.Up || l.HasRates || l.Ends[0].Number != -1 {
		t.Errorf("a link of a port that nobody knows: %+v", l)
	}
	if sw := n.Switches[1]; sw.Name != "s2" || sw.Health != HealthSilent || sw.HasStatus {
		t.Errorf("a switch of a link that nobody heard of: %+v", sw)
	}
	if _, err := json.Marshal(n); err != nil {
		t.Error(err)
	}
}

// TestNetworkFaults has one thing wrong at a time.
func TestNetworkFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*status.Status) // of the last one
		fault  string               // empty: all is well
	}{
		"nothing":         {func(*status.Status) {}, ""},
		"a port":          {func(s *status.Status) { s.Ports[0].Up = false }, "port p1 is down"},
		"overruns":        {func(s *status.Status) { s.Measurements[0].Overruns, s.Measurements[0].Missed = 1, 7 }, "1 overrun, 7 packets not measured"},
		"dropped":         {func(s *status.Status) { s.Exports = []status.Export{{Kind: "lds", Dropped: 2}} }, "2 records of lds dropped"},
		"lost":            {func(s *status.Status) { s.Exports = []status.Export{{Kind: "lds", Lost: 1}} }, "1 record of lds lost"},
		"full spool":      {func(s *status.Status) { s.Spool.Bytes = 90 }, "its spool is 90 % full"},
		"a spool's files": {func(s *status.Status) { s.Spool = status.Spool{Bytes: 90, Bound: 90} }, ""},
		"no collector":    {func(s *status.Status) { s.Spool.Connected = false }, "no collector takes its records"},
	} {
		t.Run(name, func(t *testing.T) {
			list := seconds(1000, 1001, 1003)
			c.change(list[2])
			s := &store.Store{}
			sayAll(t, s, 1, "s1", list...)
			sw := askedNetwork(t, &Engine{Store: s}).Switches[0]
			if c.fault == "" && (sw.Health != HealthOK || len(sw.Faults) != 0) {
				t.Errorf("%s: %q", sw.Health, sw.Faults)
			}
			if c.fault != "" && (sw.Health != HealthWarning || !slices.Contains(sw.Faults, c.fault)) {
				t.Errorf("%s: %q, want %q", sw.Health, sw.Faults, c.fault)
			}
		})
	}
}

// TestNetworkRestart: counters that begin anew make no rates of their own.
func TestNetworkRestart(t *testing.T) {
	s := &store.Store{}
	sayAll(t, s, 1, "s1", append(seconds(1000, 1001, 1010), seconds(1013, 1014, 1020)...)...)
	sw := askedNetwork(t, &Engine{Store: s}).Switches[0]
	if sw.Restarts != 1 || sw.BootNs != 1013e9 || sw.Health != HealthWarning || !near(sw.Ports[0].Received.PacketsPS, 100) {
		t.Errorf("%+v", sw)
	}
}

// TestNetworkWindow: rates of a window of one status begin at the one before it.
func TestNetworkWindow(t *testing.T) {
	s := &store.Store{}
	sayAll(t, s, 1, "s1", seconds(1000, 1001, 1021)...)
	sayAll(t, s, 2, "s2", seconds(1000, 1001, 1008)...)
	e := &Engine{Store: s, Window: s.Last(100 * time.Millisecond), Now: 1022e9}
	n := askedNetwork(t, e)
	sw := n.Switches[0]
	if sw.Statuses != 1 || !sw.Ports[0].HasRates || !near(sw.Ports[0].Sent.PacketsPS, 50) || sw.AgeNs != 1e9 {
		t.Errorf("%+v", sw)
	}
	if sw := n.Switches[1]; sw.HasStatus || sw.Health != HealthSilent || sw.AgeNs != 14e9 || sw.Faults[0] != "not heard of for 14s" {
		t.Errorf("%+v", sw)
	}
	if _, err := (&Engine{Store: &store.Store{}}).Ask(context.Background(), &Question{Kind: KindNetwork}); !errors.Is(err, ErrNoRecords) {
		t.Errorf("an empty store: %v", err)
	}
}

// TestNetworkLong: a long window is read in part, and its counters lose nothing.
func TestNetworkLong(t *testing.T) {
	s := &store.Store{}
	sayAll(t, s, 1, "s1", seconds(1000, 1001, 3000)...)
	n := askedNetwork(t, &Engine{Store: s})
	if sw := n.Switches[0]; sw.Statuses != 2000 || n.Records != mostStatuses || sw.Epochs != 4*1999 || !near(sw.Ports[0].Received.PacketsPS, 100) {
		t.Errorf("%d records, %+v", n.Records, sw)
	}
}

// TestNetworkSeries: of one switch a question has its state, and a series what its ports carried, piece by piece; where nothing
// was reported, a piece says so.
func TestNetworkSeries(t *testing.T) {
	s := &store.Store{}
	sayAll(t, s, 1, "s1", append(seconds(1000, 1001, 1020), seconds(1000, 1040, 1060)...)...)
	sayAll(t, s, 2, "s2", seconds(1000, 1001, 1060)...)
	e := &Engine{Store: s, Links: []Link{{Ends: [2]string{"s1:p1", "s2:p1"}}, {Ends: [2]string{"s2:p9", "h1"}}}}
	ask := func(q Question) (any, error) {
		q.Kind = KindNetwork
		return e.Ask(context.Background(), &q)
	}
	one, err := ask(Question{At: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if n := one.(*Network); len(n.Switches) != 1 || n.Switches[0].Name != "s1" || len(n.Links) != 1 || len(n.Switches[0].Ports) != 1 {
		t.Errorf("%+v", n)
	}
	if other, err := ask(Question{At: "s1:0"}); err != nil || len(other.(*Network).Switches[0].Ports) != 0 || len(other.(*Network).Links) != 0 {
		t.Errorf("a port that it has not: %+v, %v", other, err)
	}
	if few, err := ask(Question{Limit: 1}); err != nil || len(few.(*Network).Switches) != 1 || few.(*Network).More != 1 || few.(*Network).MoreLinks != 1 {
		t.Errorf("limited to one: %+v, %v", few, err)
	}
	got, err := ask(Question{At: "s1:1", Step: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	series := got.(*Series)
	known, silent := 0, 0
	for _, p := range series.Points {
		if p.Fault != "" {
			silent++
			continue
		}
		for _, v := range p.Values {
			want, is := map[string]float64{"p1 received": 100 * 64 * 8, "p1 sent": 50 * 64 * 8, "p1 drops": 3}[v.Name]
			if is && !near(v.Value, want) {
				t.Errorf("%s at %d: %v, want %v", v.Name, p.From, v.Value, want)
			}
			if is {
				known++
			}
		}
	}
	if known < 3*9 || silent < 3 {
		t.Errorf("%d values, and %d pieces without a status of %d", known, silent, len(series.Points))
	}
	for _, q := range []Question{{Step: time.Second}, {At: "s9"}, {At: "s1:p"}, {At: "s1/red"}} {
		if a, err := ask(q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %+v, %v", q, a, err)
		}
	}
}
