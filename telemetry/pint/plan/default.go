package plan

import (
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// Default is the plan of a network that has none of its own: 16 bits per
// packet for the three queries of section 6.4. The path is on all packets,
// in linear hashes that no set of switches is needed to decode, for switch ids
// below 1024; beside it the latency of hops, from 100 ns to 100 ms, on 15 of 16
// packets, and the most used link on the others.
func Default() *Plan {
	p, err := New(Config{ID: 1, Seed: 1, Bits: 16, Queries: []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.Dense(pint.Linear)}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 15. / 16, SpaceBytes: 2000,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}},
		{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: 1. / 16,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}},
	}})
	if err != nil {
		panic("pint: the default plan is not valid: " + err.Error())
	}
	return p
}
