package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
)

// phase is what goes on while questions are asked.
type phase int

const (
	allThere phase = iota
	serverDown
	collectorDown
	again // all are there again
	phases
)

var phaseNames = [phases]string{"all_there", "server_killed", "collector_killed", "again"}

// kinds of questions, and the windows that they are about.
const (
	askPath = iota
	askHeavy
	asks
)

var askNames = [asks]string{"path", "heavy_hitters"}

const (
	pathWindow  = 30 * time.Second
	heavyEpochs = 3 // whose samples are joined: a few, as docs/scale.md has it
	heavyTheta  = 0.001
	askEvery    = 250 * time.Millisecond
	heavyEvery  = 4 // questions
	askTimeout  = 30 * time.Second
)

// tally is what became of the questions of a kind in a phase.
type tally struct {
	ms      []float64
	rightMs []float64 // of those that are right
	right   int
	none    int // no answer yet: no record, or not certain
	wrong   int
	refused int // a collector or a partition was away
	reasons map[string]int
}

// asked are all questions of a run.
type asked struct {
	of    *run
	began time.Time

	mu    sync.Mutex
	phase phase
	tally [asks][phases]tally
}

func newAsked(r *run, began time.Time) *asked { return &asked{of: r, began: began} }

// enter begins a phase.
func (a *asked) enter(p phase) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase = p
}

// run asks until ctx ends, both collectors in turns.
func (a *asked) run(ctx context.Context) {
	r := rand.New(rand.NewPCG(a.of.config.Seed, 'q'))
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		kind := askPath
		if i%heavyEvery == heavyEvery-1 {
			kind = askHeavy
		}
		a.ask(ctx, r, kind, i/heavyEvery%collectors)
	}
}

// ask asks a collector one question, and holds the answer to what was sent.
func (a *asked) ask(ctx context.Context, r *rand.Rand, kind, collector int) {
	c := &a.of.config
	rows := c.Switches / rowSwitches
	row, flow := r.IntN(rows), r.IntN(3)
	q := query.Question{Kind: query.KindPath, Flow: query.FormatKey(rowFlow(row, flow)), Last: pathWindow}
	if kind == askHeavy {
		q = query.Question{Kind: query.KindHeavyHitters, Theta: heavyTheta, Last: time.Duration(heavyEpochs << c.EpochBits)}
	}
	a.mu.Lock()
	phase := a.phase
	a.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	began := time.Now()
	answer, err := a.of.clients[collector].Ask(call, &q)
	ms := float64(time.Since(began).Nanoseconds()) / 1e6
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := &a.tally[kind][phase]
	if err != nil {
		if errors.Is(err, query.ErrNoRecords) || errors.Is(err, query.ErrUnknownFlow) {
			t.none++
			return
		}
		t.refused++
		if t.reasons == nil {
			t.reasons = map[string]int{}
		}
		text := err.Error()
		if i := strings.IndexByte(text, '\n'); i > 0 {
			text = text[:i]
		}
		t.reasons[text]++
		return
	}
	t.ms = append(t.ms, ms)
	before := t.right
	switch x := answer.(type) {
	case *query.PathAnswer:
		t.path(x, row)
	case *query.HeavyHitters:
		t.heavy(x, rows)
	}
	if t.right > before {
		t.rightMs = append(t.rightMs, ms)
	}
}

// path counts an answer about a row's flow.
func (t *tally) path(a *query.PathAnswer, row int) {
	if len(a.Flows) != 1 || !a.Flows[0].Certain {
		t.none++
		return
	}
	var got []int
	for _, h := range a.Flows[0].Hops {
		got = append(got, int(h.Number))
	}
	if want := rowPath(row); slices.Equal(got, want[:]) {
		t.right++
	} else {
		t.wrong++
	}
}

// heavy counts an answer that is to have all elephants.
func (t *tally) heavy(a *query.HeavyHitters, rows int) {
	if len(a.Flows) == 0 {
		t.none++
		return
	}
	named := map[string]bool{}
	for _, f := range a.Flows {
		named[f.Flow] = true
	}
	for i := range elephants {
		if row, flow := elephant(i, rows); !named[query.FormatKey(rowFlow(row, flow))] {
			if len(a.Missing) > 0 { // the answer says so: a switch that is behind misses epochs
				t.none++
			} else {
				t.wrong++
			}
			return
		}
	}
	t.right++
}

// median of times; 0: there are none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// quantile is the one of a rank.
func quantile(all []float64, rank float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return s[min(int(rank*float64(len(s))), len(s)-1)]
}
