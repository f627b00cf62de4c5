package query

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// ErrUnreached says that the digests which a question needs are with a collector that could not be asked.
var ErrUnreached = errors.New("the digests could not be asked for")

// Needs is what a question needs of the digests, which collectors may divide among them by partition. The zero value is nothing.
type Needs struct {
	// Partitions whose digests are needed.
	Partitions []int
	// Batches: digests are read, those of records that overlap Window; else only Sinks is.
	Batches bool
	Window  store.Window
	// Sinks: it is asked which switches sent digests last.
	Sinks bool
	// Flows are the fields of a question that say of which flows digests are read, nil: of all. With Only, records with none of
	// these are not needed.
	Flows *Question
	Only  bool
}

// everTime are records of all times.
var everTime = store.Window{From: math.MinInt64 / 4, To: math.MaxInt64 / 4}

// Needs finds out what a question needs: with it, a store with these digests and all records of other kinds gives the answer that a
// store with all records gives.
func (e *Engine) Needs(q *Question) Needs {
	if q.Validate() != nil {
		return Needs{} // Ask says why
	}
	n := Needs{Partitions: allPartitions(), Batches: true, Window: e.needed(q), Flows: &Question{Prefix: q.Prefix, Src: q.Src, Dst: q.Dst, Proto: q.Proto, Port: q.Port}}
	of, one := e.partition(q)
	if one {
		n.Partitions = []int{of}
	}
	switch q.Kind {
	case KindPath, KindLatency, KindCongestion, KindLoops:
		if q.Flow != "" {
			n.Flows = nil
			if one {
				n.Flows = &Question{Flow: q.Flow}
			}
		}
	case KindFrequency, KindDelay, KindLoss:
		if q.Kind != KindFrequency && (q.Flow == "" || !q.Segments) {
			return Needs{}
		}
		// A path that did not change is that of other times.
		n.Window, n.Flows, n.Only = everTime, &Question{Flow: q.Flow}, true
		if q.Segments && !one {
			n.Flows, n.Only = nil, false // a plan may join flows
		}
	case KindEntropy, KindTarget:
	case KindHeavyHitters:
		if !e.bySketch(q) {
			return Needs{}
		}
		n.Flows = nil // the path is of use whichever flows are shown
	case KindNetwork:
		return Needs{Partitions: allPartitions(), Sinks: true}
	default:
		return Needs{}
	}
	if n.Flows != nil && len(n.Flows.given()) == 0 {
		n.Flows = nil
	}
	return n
}

func allPartitions() []int {
	all := make([]int, record.Partitions)
	for i := range all {
		all[i] = i
	}
	return all
}

// bySketch reports whether the sketch names heavy hitters, along the paths of flows.
func (e *Engine) bySketch(q *Question) bool {
	if q.At != "" || q.By == BySketch || q.AtLeast > 0 || q.By != "" {
		return q.At == "" && (q.By == BySketch || q.AtLeast > 0)
	}
	w := q.window(e.Store, e.window(), e.Now)
	return !slices.ContainsFunc(e.Store.Samples, func(s *store.Sample) bool { return s.Overlaps(w) })
}

// needed is a window that holds the question's, whatever records other stores have.
func (e *Engine) needed(q *Question) store.Window {
	w := e.Window
	switch {
	case q.Last > 0:
		// A newer record elsewhere moves the window's beginning to a later time.
		from := min(e.Store.LastBefore(q.Last, e.Now).From, e.Store.All().To-int64(q.Last))
		return store.Window{From: max(from, everTime.From), To: everTime.To}
	case q.Start != 0 || q.End != 0:
		w = store.Window{From: q.Start, To: q.End}
	case w == (store.Window{}):
		return everTime
	}
	if w.From == 0 || w.From < everTime.From {
		w.From = everTime.From
	}
	if w.To == 0 || w.To > everTime.To {
		w.To = everTime.To
	}
	return w
}

// partition is the one that has all digests which a question about one flow needs; store.AllPartitions, and false: it may need those of others.
func (e *Engine) partition(q *Question) (int, bool) {
	if q.Flow == "" {
		return store.AllPartitions, false
	}
	k, err := q.key()
	if err != nil || k.Proto == 0 && k.SrcPort == 0 && k.DstPort == 0 { // a pair of addresses
		return store.AllPartitions, false
	}
	for _, p := range e.Plans { // the default one knows 5-tuples
		for i := range p.Queries {
			if p.Queries[i].Flow != (pint.FlowDefinition{}) {
				return store.AllPartitions, false
			}
		}
	}
	flow := pint.FlowKey(k)
	return flow.Partition(record.Partitions), true
}

// Has makes of a question's fields of flows what tells 5-tuples that it is about.
func (q *Question) Has() (func(*pint.FlowKey) bool, error) {
	s, err := q.selection()
	if err != nil {
		return nil, err
	}
	if q.Flow == "" {
		return func(k *pint.FlowKey) bool { return s.Has((*Key)(k)) }, nil
	}
	k, err := q.key()
	if err != nil {
		return nil, err
	}
	flow := pint.FlowKey(k)
	if k.Proto == 0 && k.SrcPort == 0 && k.DstPort == 0 {
		of := pint.FlowDefinition{Key: "src-dst"}
		pair := of.Of(flow)
		return func(k *pint.FlowKey) bool { return *k == flow || of.Of(*k) == pair }, nil
	}
	return func(k *pint.FlowKey) bool { return *k == flow }, nil
}

// population names the flows that an answer is about: those of partitions that could not be asked are not among them.
func (e *Engine) population(s *Selection) string {
	var numbers []string
	for _, m := range e.Store.Unreached() {
		numbers = append(numbers, fmt.Sprint(m.Instance))
	}
	var but []string
	switch len(numbers) {
	case 0:
	case 1:
		but = append(but, "partition "+numbers[0])
	default:
		but = append(but, "partitions "+strings.Join(numbers, ", "))
	}
	for _, m := range e.Store.RegionsUnreached() {
		but = append(but, "region "+m.Region)
	}
	if len(but) == 0 {
		return s.String()
	}
	return fmt.Sprintf("%s, but those of %s", s, strings.Join(but, " and of "))
}

// unreached is the error of a question about a flow of a partition that could not be asked.
func (e *Engine) unreached(partition int) error {
	for _, m := range e.Store.Unreached() {
		if int(m.Instance) == partition {
			return fmt.Errorf("%w: they are in partition %d: %s", ErrUnreached, partition, m.Unreached)
		}
	}
	return nil
}
