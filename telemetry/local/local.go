// Package local keeps the digests of PINT that ended at a switch last, and answers questions from them there.
//
//	Exporter ── Add ──> store.Live (memory, bounded) ── View ──> query.Engine.Ask ──> control API, last report
//
// It is the engine of the collector over a smaller store: of the digests that ended at other switches it
// knows nothing. A switch knows its own name alone, so answers call all switches by their numbers.
package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/export"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// Config says what digests are read by, and bounds what they may take.
type Config struct {
	Bytes int64 // of memory for records
	// Plans, Switches and Topology are as in query.Engine.
	Plans    []*pintplan.Plan
	Switches []uint64
	Topology *pintpath.Topology
}

// Digests are a switch's own. Its methods are safe for concurrent use.
type Digests struct {
	live *store.Live

	mu     sync.Mutex // guards engine
	engine query.Engine
}

// New returns an empty store with its engine. A question may read all that the store holds, and take 64 MiB beside it.
func New(c Config) (*Digests, error) {
	live, err := store.NewLive(store.LiveConfig{Bytes: c.Bytes})
	if err != nil {
		return nil, err
	}
	d := &Digests{live: live, engine: query.Engine{
		Confidence: Confidence, Limits: query.Limits{Candidates: math.MaxInt, Records: math.MaxInt, Bytes: 64 << 20},
	}}
	d.Read(c)
	return d, nil
}

// Read has digests be read by other plans, switches and topology than before. Those of plans that are not among them stay, and are read by the plans of before, unless
// another plan has the number now. The bound of the memory is that of New.
func (d *Digests) Read(c Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plans := slices.Clone(c.Plans)
	for _, old := range d.engine.Plans {
		if !slices.ContainsFunc(plans, func(p *pintplan.Plan) bool { return p.ID == old.ID }) {
			plans = append(plans, old)
		}
	}
	d.engine.Plans, d.engine.Switches, d.engine.Topology = plans, c.Switches, c.Topology
}

// over is an engine over what the store holds now.
func (d *Digests) over() query.Engine {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.engine
	e.Store = d.live.View(store.Window{})
	return e
}

// Local is the store as an exporter takes it: nil without one.
func (d *Digests) Local() export.Local {
	if d == nil {
		return nil // no interface around a nil pointer
	}
	return d
}

// Add implements export.Local.
func (d *Digests) Add(h *record.Header, body []byte) {
	unnamed := *h
	unnamed.Name = ""
	d.live.Add(unnamed, body)
}

// Bytes is how much memory the records take, of the bound.
func (d *Digests) Bytes() (held, bound int64) { return d.live.Bytes() }

// Confidence is the default of answers about a switch's own digests: that of a path which is certain.
const Confidence = 1 - 1e-6

// Kinds are the kinds of questions that digests answer.
var Kinds = []query.Kind{query.KindPath, query.KindLatency, query.KindCongestion, query.KindLoops}

// Ask answers as query.Engine.Ask does.
func (d *Digests) Ask(ctx context.Context, q *query.Question) (any, error) {
	if d == nil {
		return nil, errors.New("this switch keeps no digests to answer from: add the stage pint to its graph, and set telemetry.local_bytes")
	}
	e := d.over()
	return e.Ask(ctx, q)
}

// answersTime bounds the time that Answers takes.
const answersTime = time.Minute

// Answers asks about all flows by each of Kinds, for a report; each answer is about as many flows at most. What has no
// answer, since there are no digests for it, is left out.
func (d *Digests) Answers(flows int) (all []any, err error) {
	if d == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), answersTime)
	defer cancel()
	e := d.over()
	for _, kind := range Kinds {
		answer, askErr := e.Ask(ctx, &query.Question{Kind: kind, Limit: flows})
		switch {
		case askErr == nil:
			all = append(all, answer)
		case !errors.Is(askErr, query.ErrNoRecords):
			err = errors.Join(err, fmt.Errorf("answer %s for the report: %w", kind, askErr))
		}
	}
	return all, err
}
