// Package pinttest has the queries that tests of several packages of PINT go through.
package pinttest

import (
	"math"
	"math/rand/v2"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// Three are the queries of section 6.4, for 16 bits per packet: the path on all packets, beside it the latency on
// 15/16 and the congestion on 1/16.
func Three() []pint.Query {
	return []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Hybrid(10)}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 15. / 16, SpaceBytes: 500,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 1000, Max: 100_000_000}},
		{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: 1. / 16,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}},
	}
}

// Every has all aggregations, each on a share of the packets, for 32 bits per packet.
func Every() []pint.Query {
	latency := func() *pint.NumericQuery { return &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 10_000_000} }
	return []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 16, Frequency: 0.5,
			Static: &pint.StaticQuery{Code: pint.Hashed, Instances: 2, Vector: true, Layers: encode.MultiLayer(10)}},
		{Name: "linear", Value: pint.IngressPort, Aggregation: pint.Path, Bits: 8, Frequency: 0.25,
			Static: &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.XOR(1)}},
		{Name: "out", Value: pint.EgressPort, Aggregation: pint.Path, Bits: 4, Frequency: 0.3,
			Static: &pint.StaticQuery{Code: pint.Fragmented, ValueBits: 10, Layers: encode.Baseline()}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 0.8, Numeric: latency()},
		{Name: "queues", Value: pint.QueueOccupancy, Aggregation: pint.Frequent, Bits: 6, Frequency: 0.3, Numeric: &pint.NumericQuery{Delta: 4, Max: 500}},
		{Name: "time", Value: pint.IngressTime, Aggregation: pint.Quantiles, Bits: 12, Frequency: 0.2, Numeric: &pint.NumericQuery{Delta: 1 << 19}},
		{Name: "fullest", Value: pint.QueueCongestion, Aggregation: pint.Maximum, Bits: 7, Frequency: 0.3, Numeric: &pint.NumericQuery{Max: 100}},
		{Name: "fastest", Value: pint.HopLatency, Aggregation: pint.Minimum, Bits: 8, Frequency: 0.3, Numeric: latency()},
		{Name: "total", Value: pint.HopLatency, Aggregation: pint.Sum, Bits: 8, Frequency: 0.2, Numeric: &pint.NumericQuery{Min: 100, Max: 100_000_000}},
		{Name: "slow", Value: pint.HopLatency, Aggregation: pint.SlowHops, Bits: 3, Frequency: 0.7, Numeric: &pint.NumericQuery{Slow: 50_000, Max: 60}},
		{Name: "loops", Value: pint.SwitchID, Aggregation: pint.Loop, Bits: 16, Frequency: 0.1, Threshold: 1},
	}
}

// Observed is what a switch may observe.
func Observed(r *rand.Rand) *pint.Observed {
	return &pint.Observed{
		pint.SwitchID: r.Uint64N(1000), pint.IngressPort: r.Uint64N(64), pint.EgressPort: r.Uint64N(64), pint.IngressTime: r.Uint64(),
		pint.HopLatency: uint64(math.Exp(r.Float64() * 18)), pint.EgressUtilisation: r.Uint64N(2 * pint.UtilisationOne),
		pint.QueueOccupancy: r.Uint64N(500), pint.QueueCongestion: r.Uint64N(101),
	}
}
