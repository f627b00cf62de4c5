package pint

// DefaultPlan is the plan of a network that has none of its own: 16 bits per
// packet for the three queries of section 6.4. The path stands on all packets,
// in linear hashes that no set of switches is needed to decode, for switch ids
// below 1024; beside it the latency of hops, from 100 ns to 100 ms, on 15 of 16
// packets, and the most used link on the others.
func DefaultPlan() *Plan {
	p, err := NewPlan(PlanConfig{ID: 1, Seed: 1, Bits: 16, Queries: []Query{
		{Name: "path", Value: SwitchID, Aggregation: Path, Bits: 8, Frequency: 1,
			Static: &StaticQuery{Code: Linear, ValueBits: 10, Layers: Dense(Linear)}},
		{Name: "latency", Value: HopLatency, Aggregation: Quantiles, Bits: 8, Frequency: 15. / 16, SpaceBytes: 2000,
			Numeric: &NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}},
		{Name: "congestion", Value: EgressUtilisation, Aggregation: Maximum, Bits: 8, Frequency: 1. / 16,
			Numeric: &NumericQuery{Multiplicative: true, Min: UtilisationOne >> 10, Max: UtilisationOne << 4, Epsilon: 0.025}},
	}})
	if err != nil {
		panic("pint: the default plan is not valid: " + err.Error())
	}
	return p
}
