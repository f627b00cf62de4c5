package collect

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// question is one that is timed, about the i-th of some flows.
type question struct {
	metric string
	most   float64 // ms, that the median may take
	warm   int     // times
	about  func(n *network, i int) query.Question
}

func ofFlow(k query.Kind) func(n *network, i int) query.Question {
	return func(n *network, i int) query.Question {
		return query.Question{Kind: k, Flow: query.FormatKey(n.flows[i*7%len(n.flows)])}
	}
}

var questions = []question{
	{"path", 20, 21, ofFlow(query.KindPath)},
	{"frequency", 200, 15, ofFlow(query.KindFrequency)},
	{"heavy_hitters", 1000, 5, func(*network, int) query.Question {
		return query.Question{Kind: query.KindHeavyHitters, Theta: 0.001}
	}},
	{"latency", 0, 11, ofFlow(query.KindLatency)},
	{"volume", 0, 5, func(*network, int) query.Question { return query.Question{Kind: query.KindVolume} }},
}

// answered are the times of a question, in ms.
type answered struct{ cold, warm []float64 }

// ask fills a store with all records and asks it: each question first of a store that was not asked before, and then
// again and again, about other flows where it is about one.
func ask(ctx context.Context, n *network, all map[string]*answered) error {
	for _, q := range questions {
		a, err := newApplier()
		if err != nil {
			return err
		}
		for _, kind := range []record.Kind{record.PINT, record.DiSketch, record.Oblivious} {
			if err := a.fill(n.messages[kind]); err != nil {
				return err
			}
		}
		runtime.GC() // of what filling left behind
		times := all[q.metric]
		if times == nil {
			times = &answered{}
			all[q.metric] = times
		}
		cold, view, err := askOnce(ctx, n, a.live, nil, &q, 0)
		if err != nil {
			return err
		}
		times.cold = append(times.cold, cold)
		for i := range q.warm {
			warm, _, err := askOnce(ctx, n, a.live, view, &q, i+1)
			if err != nil {
				return err
			}
			times.warm = append(times.warm, warm)
		}
	}
	return nil
}

// askOnce returns the time of a question in ms, and the view of the store that it was asked of: a collector
// answers questions that come in quick succession from one.
func askOnce(ctx context.Context, n *network, live *store.Live, view *store.Store, q *question, i int) (float64, *store.Store, error) {
	ask := q.about(n, i)
	began := time.Now()
	if view == nil {
		view = live.View(store.Window{})
	}
	e := query.Engine{Store: view}
	answer, err := e.Ask(ctx, &ask)
	ms := float64(time.Since(began).Nanoseconds()) / 1e6
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", ask.Kind, err)
	}
	return ms, view, n.believe(answer)
}

// believe refuses an answer that is fast because it says nothing.
func (n *network) believe(answer any) error {
	switch a := answer.(type) {
	case *query.PathAnswer:
		if len(a.Flows) != 1 || !a.Flows[0].Known || len(a.Flows[0].Hops) != hops {
			return fmt.Errorf("the path of a flow with %d digests was not found", a.Digests)
		}
	case *query.Frequency:
		if a.Sketch == nil || a.Sample == nil || len(a.Sketch.Path) != hops || a.Sketch.Records < n.config.Epochs*n.config.Switches {
			return fmt.Errorf("a flow's frequency lacks a part: %v", a.Faults)
		}
	case *query.HeavyHitters:
		if len(a.Flows) == 0 || a.Records != n.config.Epochs*n.config.Switches {
			return fmt.Errorf("%d heavy hitters of %d records", len(a.Flows), a.Records)
		}
	}
	return nil
}

// median of some times.
func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
