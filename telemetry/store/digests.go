package store

import (
	"cmp"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// compare orders batches by slice, switch, partition, and as they were sent.
func (b *Batch) compare(o *Batch) int {
	return cmp.Or(b.Origin.compare(&o.Origin), cmp.Compare(b.Boot, o.Boot), cmp.Compare(b.Sequence, o.Sequence))
}

// Digests are those of a flow, a 5-tuple, under a plan, of whichever sink, in the order
// of time.
func (s *Store) Digests(flow pint.FlowKey, plan uint16) (all []pint.Record) {
	partition := uint16(flow.Partition(record.Partitions))
	for i := range s.Batches {
		b := s.Batches[i]
		if b.Instance != partition || b.Plan != plan || b.Loop {
			continue
		}
		if at, ok := b.Find(&flow); ok {
			all = b.AppendFlow(all, at)
		}
	}
	byTime := func(a, b pint.Record) int { return cmp.Compare(a.TimeNs, b.TimeNs) }
	if !slices.IsSortedFunc(all, byTime) { // mostly they are: a flow has one sink
		slices.SortStableFunc(all, byTime)
	}
	return all
}

// Flow is a flow with digests, and how many it has.
type Flow struct {
	Key     pint.FlowKey
	Digests int
}

// Flows lists the flows that have digests under a plan, those of most digests first.
func (s *Store) Flows(plan uint16) []Flow {
	count := map[pint.FlowKey]int{}
	for i := range s.Batches {
		b := s.Batches[i]
		if b.Plan != plan || b.Loop {
			continue
		}
		for k := range b.Digests.Flows() {
			count[b.Flow(k)] += b.Count(k)
		}
	}
	list := make([]Flow, 0, len(count))
	for k, n := range count {
		list = append(list, Flow{k, n})
	}
	slices.SortFunc(list, func(a, b Flow) int { return cmp.Or(cmp.Compare(b.Digests, a.Digests), a.Key.Compare(&b.Key)) })
	return list
}
