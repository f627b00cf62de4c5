package query

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/store"
)

// everyQuestion asks for all kinds of things, of two windows and with two confidences.
func everyQuestion() (all []Question) {
	flow := FormatKey(key(3))
	for _, q := range []Question{
		{Kind: KindPath, Flow: flow}, {Kind: KindPath}, {Kind: KindLatency, Flow: flow}, {Kind: KindLatency}, {Kind: KindLoops},
		{Kind: KindFrequency, Flow: flow}, {Kind: KindHeavyHitters}, {Kind: KindHeavyHitters, By: BySketch, Theta: 0.01},
		{Kind: KindVolume}, {Kind: KindVolume, Src: "10.0.0.0/9"}, {Kind: KindEntropy}, {Kind: KindCardinality}, {Kind: KindTarget},
		{Kind: KindVolume, Step: 1 << epochBits},
	} {
		narrow := q
		narrow.Confidence, narrow.Start, narrow.End = 0.9, 1, 2<<epochBits
		all = append(all, q, narrow)
	}
	return all
}

// saying is an answer, or a fault, as text.
func saying(e *Engine, q *Question) string {
	a, err := e.Ask(context.Background(), q)
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := json.Marshal(a)
	return fmt.Sprint(string(text), err)
}

// TestRememberedAnswers: what a frozen store remembers changes no answer, whoever asks before, and
// several at a time.
func TestRememberedAnswers(t *testing.T) {
	n := newTraffic(t)
	n.withDigests(t)
	e, want, answers := n.engine(), map[int]string{}, 0
	e.Paths = nil
	questions := everyQuestion()
	if testing.Short() {
		questions = questions[:len(questions)/2]
	}
	for i := range questions {
		if want[i] = saying(e, &questions[i]); want[i][0] == '{' {
			answers++
		}
	}
	if answers < len(questions)/2 {
		t.Errorf("%d answers to %d questions", answers, len(questions))
	}
	n.store.Freeze()
	var all sync.WaitGroup
	for g := range 2 {
		all.Go(func() {
			for k := range questions {
				i := k * (4*g + 5) % len(questions) // each once, in an order of its own
				if got := saying(e, &questions[i]); got != want[i] {
					t.Errorf("%+v: %.300s\nand not remembered: %.300s", questions[i], got, want[i])
				}
			}
		})
	}
	all.Wait()
}

// TestHeavyHittersTwin: those of UnivMon, whose summary leaves out who is too small, are those of
// asking for every candidate.
func TestHeavyHittersTwin(t *testing.T) {
	e, _ := sketchOnly(t, disketch.UnivMon, 256)
	for _, theta := range []float64{0.0002, 0.002, 0.02, 0.9} {
		h, err := e.SketchHeavyHitters(theta, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.sketch(func(*store.Fragment) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		l, err := e.candidates(s)
		if err != nil {
			t.Fatal(err)
		}
		want := e.Store.Sketches.HeavyHitters(s.query, l.flows, theta*h.Volume.Value, l)
		if len(want) != len(h.Flows) || len(want) == len(l.flows) {
			t.Errorf("theta %g: %d flows, not %d", theta, len(h.Flows), len(want))
			continue
		}
		for i, f := range want {
			if got := h.Flows[i]; got.Bounded != (Bounded{f.Value, f.Low, f.High}) || e.FlowID(hash.XX, got.Key) != f.Flow {
				t.Errorf("theta %g, flow %d: %+v, not %+v", theta, i, got, f)
			}
		}
	}
}
