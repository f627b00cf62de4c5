package query

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/oblivious"
)

var (
	// ErrUnknownFlow says that no record in the window is of the flow asked about.
	ErrUnknownFlow = errors.New("the flow is not known")
	// ErrTooCostly says that a question would take more than Engine.Limits.
	ErrTooCostly = errors.New("the question is too costly")
)

// Limits bound what one question may cost. 0 means the default.
type Limits struct {
	Candidates int   `json:"candidates"` // flows that are asked one by one; 1<<18
	Records    int   `json:"records"`    // records, or digests, that are read; 1<<24
	Bytes      int64 `json:"bytes"`      // of memory beside the store's, about; 1<<30
	// Entries of samples are joined at most, those of the smallest ranks: beyond, answers
	// are less exact, and their bounds say so. 1<<20.
	Entries int `json:"entries"`
}

func (l Limits) orDefaults() Limits {
	if l.Candidates == 0 {
		l.Candidates = 1 << 18
	}
	if l.Records == 0 {
		l.Records = 1 << 24
	}
	if l.Bytes == 0 {
		l.Bytes = 1 << 30
	}
	if l.Entries == 0 {
		l.Entries = defaultEntries
	}
	return l
}

// Ask answers a question: with a pointer to the answer type of its Kind, or a *Series
// if it has a Step. Errors that callers branch on are ErrInvalid, ErrNoRecords,
// ErrUnknownFlow, ErrTooCostly, and the context's. It is safe for concurrent use, as
// the store's readers are.
func (e *Engine) Ask(ctx context.Context, q *Question) (any, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.Step != 0 {
		return answer(e.Series(ctx, q, q.Step))
	}
	return kinds[q.Kind].ask(ctx, e.of(ctx, q), q)
}

// of is an engine for one question, with its window and confidence.
func (e *Engine) of(ctx context.Context, q *Question) *Engine {
	own := *e
	own.ctx, own.unions, own.wires = ctx, map[string]*network{}, nil
	own.wires = newWiring(&own)
	own.Window = q.window(e.Store, e.window(), e.Now)
	if q.Confidence != 0 {
		own.Confidence = q.Confidence
	}
	if q.Weight != 0 {
		own.Weight = q.Weight
	}
	return &own
}

// stoppedEach is how many cheap steps are taken between two looks at whether a question goes on.
const stoppedEach = 256

// stopped is the context's error, nil while the question may go on.
func (e *Engine) stopped() error {
	if e == nil || e.ctx == nil { // paths may be asked without an engine
		return nil
	}
	if err := e.ctx.Err(); err != nil {
		return fmt.Errorf("the question was given up: %w: give it more time, or ask about a shorter window or fewer flows", err)
	}
	return nil
}

func askVolume(_ context.Context, e *Engine, q *Question) (any, error) {
	s, err := q.selection()
	if err != nil {
		return nil, err
	}
	return answer(e.Select(s))
}

func askFrequency(_ context.Context, e *Engine, q *Question) (any, error) {
	k, err := q.key()
	if err != nil {
		return nil, err
	}
	return answer(e.Frequency(k))
}

func askEntropy(_ context.Context, e *Engine, _ *Question) (any, error) { return answer(e.Entropy()) }

func askCardinality(_ context.Context, e *Engine, _ *Question) (any, error) {
	return answer(e.Cardinality())
}

func askTarget(_ context.Context, e *Engine, q *Question) (any, error) {
	t, err := e.Target(q.Sketch)
	if err != nil {
		return nil, err
	}
	t.Fragments, t.More = limited(t.Fragments, q.limit())
	return t, nil
}

// answer keeps a nil pointer from becoming an answer that is not nil.
func answer[A any](a *A, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// askBetween answers delay and loss.
func askBetween(_ context.Context, e *Engine, q *Question) (any, error) {
	from, err := e.ParsePlace(q.From)
	to, err2 := e.ParsePlace(q.To)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if q.Flow == "" {
		flows, err := q.keys()
		if err != nil {
			return nil, err
		}
		b, err := e.BetweenSeveral(from, to, flows)
		if err != nil {
			return nil, err
		}
		b.LostFlows, b.MoreLost = limited(b.LostFlows, q.limit())
		return b, nil
	}
	k, err := q.key()
	if err != nil {
		return nil, err
	}
	b, err := e.Between(from, to, &k)
	if err == nil && q.Segments && from.Switch != to.Switch {
		err = e.segments(b, from, to, k)
	}
	return answer(b, err)
}

// limited is the beginning of a list, and how many it leaves out.
func limited[T any](list []T, limit int) ([]T, int) {
	left := max(len(list)-limit, 0)
	return list[:len(list)-left], left
}

// askHeavyHitters asks whom By or At names, or else who knows.
func askHeavyHitters(_ context.Context, e *Engine, q *Question) (any, error) {
	unit, err := q.unit()
	if err != nil {
		return nil, err
	}
	of, err := q.selection()
	if err != nil {
		return nil, err
	}
	h, err := e.heaviest(q, unit)
	if err != nil {
		return nil, err
	}
	if !of.All() {
		h.Flows = slices.DeleteFunc(h.Flows, func(f HeavyFlow) bool { return !of.Has(&f.Key) })
	}
	h.Flows, h.More = limited(h.Flows, q.limit())
	return h, nil
}

func (e *Engine) heaviest(q *Question, unit oblivious.Unit) (*HeavyHitters, error) {
	theta := q.theta()
	switch {
	case q.At != "":
		return e.heavyAt(q, unit)
	case q.By == BySketch || q.AtLeast > 0:
		return e.SketchHeavyHitters(theta, q.AtLeast)
	}
	h, err := e.HeavyHitters(unit, theta, q.Epsilon)
	if err == nil || q.By != "" || !errors.Is(err, ErrNoRecords) {
		return h, err
	}
	bySketch, sketchErr := e.SketchHeavyHitters(theta, 0)
	if sketchErr != nil {
		return nil, errors.Join(err, sketchErr)
	}
	return bySketch, nil
}

func (e *Engine) heavyAt(q *Question, unit oblivious.Unit) (*HeavyHitters, error) {
	at, err := e.ParseAt(q.At)
	if err != nil {
		return nil, fmt.Errorf("%w: at: %w", ErrInvalid, err)
	}
	flows, err := q.keys()
	if err != nil {
		return nil, err
	}
	return e.HeavyHittersAt(at, unit, q.theta(), q.Epsilon, flows)
}
