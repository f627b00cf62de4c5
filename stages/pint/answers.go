package pint

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// PathAnswer is what a sink knows of a flow's path.
type PathAnswer struct {
	Query string
	Value pint.Value
	Flow  pint.FlowKey
	sink.PathAnswer
}

// HopAnswer is what a sink knows of the values at one hop of a flow: of a query
// for quantiles or frequent values.
type HopAnswer struct {
	Query  string
	Value  pint.Value
	Flow   pint.FlowKey
	Hop    int
	Switch uint64 // 0 if the flow's path is not known
	// Quantiles, each with its bounds; or the frequent values.
	Median, P90, P99 sink.Quantile
	Frequent         []sink.FrequentValue
	Samples          uint64
}

// PoolAnswer is what a sink knows of the values at one hop of all flows of a path
// together, of queries for quantiles.
type PoolAnswer struct {
	Query            string
	Value            pint.Value
	Path             []uint64 // of switch ids
	Hop              int
	Switch           uint64
	Flows            int
	Median, P90, P99 sink.Quantile // of all packets of the flows
	Samples          uint64
	// Of the median's bounds, what comes of sampling alone.
	SamplingLow, SamplingHigh float64
}

// PacketAnswer is what the packets of a flow said of their whole path.
type PacketAnswer struct {
	Query       string
	Value       pint.Value
	Aggregation pint.Aggregation
	Flow        pint.FlowKey
	sink.PacketAnswer
}

// LoopAnswer tells of a flow whose packets were found to loop, here.
type LoopAnswer struct {
	Flow    pint.FlowKey
	Packets uint64
	Hops    int // of the last one, when it was found
	LastNs  uint64
}

// Measured is what the switch itself measured at an output port: of all packets
// that left there. Latencies are in ns, queues in packets.
type Measured struct {
	Port                      string
	Value                     pint.Value // HopLatency or QueueOccupancy
	Packets                   uint64
	Median, P90, P99, Highest float64
}

// Selection says which answers are wanted.
type Selection struct {
	// Match chooses flows; nil: all.
	Match func(pint.FlowKey) bool
	// Limit is how many flows of each query to answer for, those of the most
	// packets first; 0: all.
	Limit int
}

// PlanAnswer is a live plan, with the digest of its file.
type PlanAnswer struct {
	ID     uint16
	Digest uint64
}

// Plans are the live plans, that of sources first.
func (m *Module) Plans() (list []PlanAnswer) {
	for i := range m.plans {
		list = append(list, PlanAnswer{m.plans[i].id, m.plans[i].digest})
	}
	return list
}

// Sink reports whether the switch records: whether it has an edge port.
func (m *Module) Sink() bool { return m.recorder != nil }

// Asks reports whether any live plan asks for one of the values.
func (m *Module) Asks(values ...pint.Value) bool { return m.asked(values...) }

// Paths answers the path queries.
func (m *Module) Paths(s Selection) []PathAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []PathAnswer
	for q := range m.matching(func(q *pint.Query) bool { return q.Aggregation == pint.Path }) {
		var list []PathAnswer
		for flow := range m.flows(q, s) {
			if a, ok := m.recorder.Path(q.Name, flow); ok {
				list = append(list, PathAnswer{q.Name, q.Value, flow, a})
			}
		}
		all = append(all, most(list, s.Limit, func(a *PathAnswer) (uint64, pint.FlowKey) { return a.Packets, a.Flow })...)
	}
	return all
}

// Hops answers the queries for quantiles and frequent values of the given values.
func (m *Module) Hops(s Selection, values ...pint.Value) []HopAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []HopAnswer
	for q := range m.matching(func(q *pint.Query) bool {
		return (q.Aggregation == pint.Quantiles || q.Aggregation == pint.Frequent) && slices.Contains(values, q.Value)
	}) {
		var list [][]HopAnswer
		for flow := range m.flows(q, s) {
			if hops := m.hops(q, flow); len(hops) != 0 {
				list = append(list, hops)
			}
		}
		for _, hops := range most(list, s.Limit, func(a *[]HopAnswer) (n uint64, flow pint.FlowKey) {
			for i := range *a {
				n += (*a)[i].Samples
			}
			return n, (*a)[0].Flow
		}) {
			all = append(all, hops...)
		}
	}
	return all
}

func (m *Module) hops(q *pint.Query, flow pint.FlowKey) (list []HopAnswer) {
	path := m.pathOf(flow)
	for hop := 1; hop <= pint.MaxHops; hop++ {
		a := HopAnswer{Query: q.Name, Value: q.Value, Flow: flow, Hop: hop}
		if hop <= len(path) {
			a.Switch = path[hop-1]
		}
		known := false
		if q.Aggregation == pint.Quantiles {
			if a.Median, known = m.recorder.Quantile(q.Name, flow, hop, 0.5); known {
				a.P90, _ = m.recorder.Quantile(q.Name, flow, hop, 0.9)
				a.P99, _ = m.recorder.Quantile(q.Name, flow, hop, 0.99)
				a.Samples = a.Median.Samples
			}
		} else if a.Frequent, known = m.recorder.Frequent(q.Name, flow, hop, 0.1); known {
			a.Samples = m.recorder.Samples(q.Name, flow, hop)
		}
		if known {
			list = append(list, a)
		} else if hop > len(path) {
			break
		}
	}
	return list
}

// Pools answers the queries for quantiles of the given values, for each path that is known
// of a flow, over all packets of the flows that take it. Selection.Limit does not
// count.
func (m *Module) Pools(s Selection, values ...pint.Value) []PoolAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []PoolAnswer
	for q := range m.matching(func(q *pint.Query) bool {
		return q.Aggregation == pint.Quantiles && slices.Contains(values, q.Value)
	}) {
		type place struct {
			path string
			hop  int
		}
		pools, paths := map[place]*sink.Pool{}, map[string][]uint64{}
		for flow := range m.flows(q, s) {
			path := m.pathOf(flow)
			key := fmt.Sprint(path)
			for hop := 1; hop <= len(path); hop++ {
				at := place{key, hop}
				if pool := m.recorder.Pool(q.Name, flow, hop, pools[at]); pool != nil {
					pools[at], paths[key] = pool, path
				}
			}
		}
		for at, pool := range pools {
			path, e := paths[at.path], pool.Quantiles(0.5, 0.9, 0.99)
			low, high := pool.Sampling(0.5)
			all = append(all, PoolAnswer{
				SamplingLow: low, SamplingHigh: high, Query: q.Name, Value: q.Value, Path: path, Hop: at.hop, Switch: path[at.hop-1], Flows: pool.Flows(),
				Median: e[0], P90: e[1], P99: e[2], Samples: pool.Samples(),
			})
		}
	}
	slices.SortFunc(all, func(a, b PoolAnswer) int {
		return cmp.Or(cmp.Compare(a.Query, b.Query), slices.Compare(a.Path, b.Path), cmp.Compare(a.Hop, b.Hop))
	})
	return all
}

// pathOf is the flow's path of switch ids, nil if it is not known.
func (m *Module) pathOf(flow pint.FlowKey) []uint64 {
	for i := range m.queries {
		q := &m.queries[i]
		if q.Aggregation != pint.Path || q.Value != pint.SwitchID {
			continue
		}
		if a, ok := m.recorder.Path(q.Name, flow); ok && a.Path != nil {
			return a.Path
		}
	}
	return nil
}

// Packets answers the queries of single packets, of the given values.
func (m *Module) Packets(s Selection, values ...pint.Value) []PacketAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []PacketAnswer
	for q := range m.matching(func(q *pint.Query) bool { return slices.Contains(values, q.Value) }) {
		switch q.Aggregation {
		case pint.Path, pint.Quantiles, pint.Frequent, pint.Loop:
			continue
		}
		var list []PacketAnswer
		for flow := range m.flows(q, s) {
			if a, ok := m.recorder.Packets(q.Name, flow); ok {
				list = append(list, PacketAnswer{q.Name, q.Value, q.Aggregation, flow, a})
			}
		}
		all = append(all, most(list, s.Limit, func(a *PacketAnswer) (uint64, pint.FlowKey) { return a.PacketAnswer.Packets, a.Flow })...)
	}
	return all
}

// Loops tells of the loops that this switch has found.
func (m *Module) Loops(s Selection) []LoopAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []LoopAnswer
	for flow, e := range m.loops {
		if s.Match == nil || s.Match(flow) {
			list = append(list, LoopAnswer{flow, e.packets, e.hops, e.lastNs})
		}
	}
	return most(list, s.Limit, func(a *LoopAnswer) (uint64, pint.FlowKey) { return a.Packets, a.Flow })
}

// Measured tells what this switch measured itself, by output port. It is up to
// 100 ms old.
func (m *Module) Measured(value pint.Value) []Measured {
	var list []Measured
	for i := range m.env.Ports {
		var sum histogram
		for _, s := range m.stages {
			s.shown.mu.Lock()
			if value == pint.HopLatency {
				sum.merge(&s.shown.latency[i])
			} else {
				sum.merge(&s.shown.queue[i])
			}
			s.shown.mu.Unlock()
		}
		if sum.total != 0 {
			list = append(list, Measured{
				Port: m.env.Ports[i].Name, Value: value, Packets: sum.total,
				Median: sum.quantile(0.5), P90: sum.quantile(0.9), P99: sum.quantile(0.99), Highest: float64(sum.highest),
			})
		}
	}
	return list
}

// matching iterates over the queries for which want says yes, each name once;
// over none if nothing is recorded.
func (m *Module) matching(want func(*pint.Query) bool) iter.Seq[*pint.Query] {
	return func(yield func(*pint.Query) bool) {
		if m.recorder == nil {
			return
		}
		for i := range m.queries {
			q := &m.queries[i]
			again := slices.ContainsFunc(m.queries[:i], func(o pint.Query) bool { return o.Name == q.Name })
			if !again && want(q) && !yield(q) {
				return
			}
		}
	}
}

func (m *Module) flows(q *pint.Query, s Selection) iter.Seq[pint.FlowKey] {
	return func(yield func(pint.FlowKey) bool) {
		for flow := range m.recorder.Flows(q.Name) {
			if (s.Match == nil || s.Match(flow)) && !yield(flow) {
				return
			}
		}
	}
}

// most sorts by packets, the most first, and cuts at the limit. Flows of as many
// packets are in the order of their keys, so that answers repeat.
func most[T any](list []T, limit int, of func(*T) (uint64, pint.FlowKey)) []T {
	slices.SortFunc(list, func(a, b T) int {
		m, x := of(&a)
		n, y := of(&b)
		return cmp.Or(cmp.Compare(n, m), slices.Compare(x.Src[:], y.Src[:]), slices.Compare(x.Dst[:], y.Dst[:]),
			cmp.Compare(x.SrcPort, y.SrcPort), cmp.Compare(x.DstPort, y.DstPort), cmp.Compare(x.Proto, y.Proto))
	})
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list
}
