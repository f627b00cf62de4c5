package pint

import "iter"

// flowTable keeps the state of at most a fixed number of flows. A full table
// evicts by the clock method: a hand goes around and takes the first flow that
// was not heard of since the hand last passed. Recent flows stay, without a
// list to keep in order; a flow of one packet goes before one of several.
type flowTable[S any] struct {
	index map[FlowKey]int32
	flows []flowEntry[S]
	limit int
	hand  int
}

type flowEntry[S any] struct {
	key   FlowKey
	heard bool
	state S
}

func newFlowTable[S any](limit int) *flowTable[S] {
	return &flowTable[S]{index: map[FlowKey]int32{}, limit: limit}
}

// at returns the state of a flow, a zero one if the flow is new. It is valid
// until the next call.
func (t *flowTable[S]) at(k FlowKey, evicted *uint64) *S {
	if i, known := t.index[k]; known {
		f := &t.flows[i]
		f.heard = true
		return &f.state
	}
	if len(t.flows) < t.limit {
		t.index[k] = int32(len(t.flows))
		t.flows = append(t.flows, flowEntry[S]{key: k})
		return &t.flows[len(t.flows)-1].state
	}
	for t.flows[t.hand].heard {
		t.flows[t.hand].heard = false
		t.hand = (t.hand + 1) % len(t.flows)
	}
	f := &t.flows[t.hand]
	delete(t.index, f.key)
	*evicted++
	t.index[k] = int32(t.hand)
	*f = flowEntry[S]{key: k}
	t.hand = (t.hand + 1) % len(t.flows)
	return &f.state
}

// find returns the state of a flow that is known, or nil.
func (t *flowTable[S]) find(k FlowKey) *S {
	if i, known := t.index[k]; known {
		return &t.flows[i].state
	}
	return nil
}

func (t *flowTable[S]) keys() iter.Seq[FlowKey] {
	return func(yield func(FlowKey) bool) {
		for i := range t.flows {
			if !yield(t.flows[i].key) {
				return
			}
		}
	}
}
