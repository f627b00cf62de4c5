package node

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirswitch/weir/control/api"
	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint"
)

// finalFlows bounds the flows of each query in a node's last report.
const finalFlows = 1000

// Pint returns what the stage pint decoded; false without that stage.
func (n *Node) Pint(q *api.PintRequest) (*api.PintResponse, bool) {
	m, ok := moduleOf[*stage.Module](n.chain)
	if !ok {
		return nil, false
	}
	return PintAnswer(m, q), true
}

var (
	latencyValues    = []pint.Value{pint.HopLatency, pint.IngressTime}
	congestionValues = []pint.Value{pint.EgressUtilisation, pint.QueueOccupancy, pint.QueueCongestion}
)

// PintAnswer asks the stage for one view, or all.
func PintAnswer(m *stage.Module, q *api.PintRequest) *api.PintResponse {
	s := stage.Selection{Limit: int(q.Limit)}
	if q.Flow != "" {
		s.Match = func(k pint.FlowKey) bool { return strings.Contains(stage.FlowText(k), q.Flow) }
	}
	r := &api.PintResponse{Sink: m.Sink()}
	for _, p := range m.Plans() {
		r.Plans = append(r.Plans, &api.PintPlan{Id: uint32(p.ID), Digest: fmt.Sprintf("%016x", p.Digest)})
	}
	wants := func(view string) bool { return q.View == "" || q.View == view }
	if wants("paths") {
		for _, a := range m.Paths(s) {
			r.Paths = append(r.Paths, pathMessage(&a))
		}
	}
	for _, v := range []struct {
		view     string
		values   []pint.Value
		measured pint.Value
	}{{"latency", latencyValues, pint.HopLatency}, {"congestion", congestionValues, pint.QueueOccupancy}} {
		if !wants(v.view) {
			continue
		}
		for _, a := range m.Hops(s, v.values...) {
			r.Hops = append(r.Hops, hopMessage(&a))
		}
		for _, a := range m.Pools(s, v.values...) {
			r.Pools = append(r.Pools, poolMessage(&a))
		}
		for _, a := range m.Packets(s, v.values...) {
			r.Values = append(r.Values, valueMessage(&a))
		}
		for _, a := range m.Measured(v.measured) {
			r.Measured = append(r.Measured, &api.PintMeasured{
				Port: a.Port, Value: a.Value.String(), Packets: a.Packets, Median: a.Median, P90: a.P90, P99: a.P99, Highest: a.Highest,
			})
		}
	}
	if wants("loops") {
		for _, a := range m.Loops(s) {
			r.Loops = append(r.Loops, &api.PintLoop{Flow: stage.FlowText(a.Flow), Packets: a.Packets, Hops: int64(a.Hops), LastNs: a.LastNs})
		}
	}
	return r
}

func pathMessage(a *stage.PathAnswer) *api.PintPath {
	p := &api.PintPath{
		Query: a.Query, Value: a.Value.String(), Flow: stage.FlowText(a.Flow), Path: a.Path, Certain: a.Certain,
		Confidence: a.Confidence, Packets: a.Packets, Changes: a.Changes, Strays: a.Strays, Digests: int64(a.Digests),
	}
	for _, n := range a.Left {
		p.Left = append(p.Left, int64(n))
	}
	return p
}

func hopMessage(a *stage.HopAnswer) *api.PintHop {
	h := &api.PintHop{
		Query: a.Query, Value: a.Value.String(), Flow: stage.FlowText(a.Flow), Hop: int64(a.Hop), SwitchId: a.Switch, Samples: a.Samples,
		Median: a.Median.Value, MedianLow: a.Median.Low, MedianHigh: bound(a.Median.High), P90: a.P90.Value,
		P99: a.P99.Value, P99Low: a.P99.Low, P99High: bound(a.P99.High),
	}
	for _, f := range a.Frequent {
		h.Frequent = append(h.Frequent, &api.PintFrequent{Value: f.Value, Share: f.Share, Low: f.Low, High: f.High})
	}
	return h
}

func poolMessage(a *stage.PoolAnswer) *api.PintPool {
	return &api.PintPool{
		Query: a.Query, Value: a.Value.String(), Path: a.Path, Hop: int64(a.Hop), SwitchId: a.Switch, Flows: int64(a.Flows),
		Samples: a.Samples, Median: a.Median.Value, MedianLow: a.Median.Low, MedianHigh: bound(a.Median.High), P90: a.P90.Value,
		P99: a.P99.Value, P99Low: a.P99.Low, P99High: bound(a.P99.High), SamplingLow: a.SamplingLow, SamplingHigh: bound(a.SamplingHigh),
	}
}

// bound is an upper bound as the API has it: JSON knows no infinity.
func bound(high float64) float64 {
	if math.IsInf(high, 1) {
		return -1
	}
	return high
}

func valueMessage(a *stage.PacketAnswer) *api.PintValue {
	p := &a.PacketAnswer
	scale := scaleOf(a.Value)
	return &api.PintValue{
		Query: a.Query, Value: a.Value.String(), Aggregation: a.Aggregation.String(), Flow: stage.FlowText(a.Flow),
		Packets: p.Packets, Last: p.Last * scale, Low: p.Low * scale, High: bound(p.High * scale), LastNs: p.LastNs,
		Min: p.Min * scale, Max: p.Max * scale, Mean: p.Mean * scale,
	}
}

// scaleOf turns a value into the units of reports: use as a share of the link.
func scaleOf(v pint.Value) float64 {
	if v == pint.EgressUtilisation {
		return 1. / pint.UtilisationOne
	}
	return 1
}
