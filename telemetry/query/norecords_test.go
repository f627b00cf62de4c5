package query

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/oblivious"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestOldRecords: where there are records of what is asked and all are older than the window, the answer has the age of the newest one and
// how to ask about it, by the clock of who asks or, of a folder, by the newest record of all; that a stage is missing is said only where it may be.
func TestOldRecords(t *testing.T) {
	s, _ := streams(t, stream{flows: [2]int{0, 40}, past: []seenAt{{sw: 1, port: 1, egress: true}, {sw: 2, port: 0, after: 1000}}})
	s.Batches = mixed(t).store.Batches
	sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, record.Header{Kind: record.Oblivious, Switch: 1, Start: 1 << 30, Span: 1 << 30}, sampler.Sample().AppendBinary)
	f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: 1}, Kind: disketch.CountSketch, Memory: 4096, Epochs: 30})
	if err != nil {
		t.Fatal(err)
	}
	counter, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	counter.Begin(f.Begin(1), 0)
	add(t, s, record.Header{Kind: record.DiSketch, Switch: 1, Start: 1 << 30, Span: 1 << 30}, counter.Record().AppendBinary)
	s.Sort()
	questions := []*Question{
		{Kind: KindPath}, {Kind: KindVolume}, {Kind: KindHeavyHitters, By: BySketch}, {Kind: KindDelay, From: "b", To: "c"},
		{Kind: KindHeavyHitters, At: "b:1 out"}, {Kind: KindVolume, Step: 1e9}, {Kind: KindFrequency, Flow: FormatKey(key(1)), Step: 1e9},
	}
	later := s.All().To + 3600e9
	for _, q := range questions {
		fault := func(e *Engine) string {
			t.Helper()
			_, err := e.Ask(context.Background(), q)
			if !errors.Is(err, ErrNoRecords) {
				t.Errorf("%+v: %v", q, err)
				return ""
			}
			return err.Error()
		}
		q.Last = 10e9
		got := fault(&Engine{Store: s, Now: later})
		if !strings.Contains(got, ", 1h0m") || !strings.Contains(got, "s ago: ask about a longer one (--last 1h2m0s), or ask about their time (--start 1970-") || strings.Contains(got, "add the stage") {
			t.Errorf("%+v: %s", q, got)
		}
		q.Last = 0
		got = fault(&Engine{Store: s, Window: store.Window{From: later - 1e9, To: later}})
		if !strings.Contains(got, "there are some from 1") && !strings.Contains(got, "before the newest record of any kind") {
			t.Errorf("%+v: %s", q, got)
		}
	}
	// A switch that goes on to report its state does not make the others new.
	s.Statuses = append(s.Statuses, &store.Status{Origin: store.Origin{Switch: 1, Window: store.Window{From: later - 1e9, To: later}}})
	for _, q := range questions {
		q.Last = 10e9
		if _, err := (&Engine{Store: s}).Ask(context.Background(), q); !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "before the newest record of any kind, from which --last counts: ask about a longer one (--last 1h2m0s)") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, p := range ask[*Series](t, &Engine{Store: s, Window: store.Window{To: 10 << 30}}, &Question{Kind: KindVolume, Step: 1 << 30}).Points {
		if strings.Contains(p.Fault, "--") || len(p.Values) == 0 && p.Fault != "no records of a sample in this step" {
			t.Errorf("a step has the times of all: %+v", p)
		}
	}
	for _, q := range []*Question{{Kind: KindVolume}, {Kind: KindPath}} {
		if _, err := (&Engine{Store: &store.Store{}}).Ask(context.Background(), q); !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "add the stage") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestNoDigestOfSelection: the error names selected flows in a sentence.
func TestNoDigestOfSelection(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	for i := range 100 {
		n.send(key(1), int64(i)<<20, 1, 2, 3)
	}
	n.flush(t, nil)
	_, err := n.engine().Ask(t.Context(), &Question{Kind: KindLatency, Src: "10.9.9.9"})
	if err == nil || !strings.Contains(err.Error(), "no digest of flows from 10.9.9.9/32 is in the window") {
		t.Error(err)
	}
}
