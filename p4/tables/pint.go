package tables

import (
	"slices"

	"github.com/weirswitch/weir/pipeline"
	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// The unknown values of a frame's longest length, in bytes, and for a link's speed, in bits
// per second, where they are not known, as in stages/pint.
const (
	noLimit     = 1<<32 - 1
	unknownRate = 10_000_000_000
)

// queries are those of a plan that the program has: at most one of each kind.
type queries struct{ path, latency, congestion *pint.Query }

// pint fills the tables of the control pint_egress and its encoder.
func (b *builder) pint() {
	c := configOf[stage.Config](b, "pint")
	if c == nil {
		return
	}
	before := len(b.faults)
	live := b.plans(c)
	if len(b.faults) > before {
		return
	}
	for i, p := range live {
		in := planTables[i].plan
		b.byDefault(pintControl+"."+in, act(pintControl+".set_"+in, param("id", Number(uint64(p.ID)))))
	}
	if live[0].Carrier == pintplan.CarrierIPID {
		b.byDefault(pintControl+".carrier", act(pintControl+".by_identification", param("any", oneBit(c.Identification == stage.IdentificationAny))))
	} else {
		b.byDefault(pintControl+".carrier", act(pintControl+".by_shim", param("bits", Number(uint64(c.IntervalBits)))))
	}
	for i, p := range live {
		hops := act(pintControl + ".from_shim")
		if p.Hops == pintplan.HopsFromTTL {
			hops = act(pintControl+".from_ttl", param("initial", Number(uint64(p.InitialTTL))))
		}
		b.byDefault(pintControl+"."+planTables[i].hops, hops)
	}
	b.links(c)
	for i, p := range live {
		b.encoder(pintControl+"."+planTables[i].encoder, p.encoder, p.queries)
	}
}

// livePlan is a plan that the program understands.
type livePlan struct {
	*pintplan.Plan
	encoder *encode.Encoder
	queries queries
}

// planTables are the tables of either plan, the first one that of sources; plan is its key in the configuration, too.
var planTables = []struct{ plan, hops, encoder string }{{"plan", "hops", "encoder"}, {"next_plan", "next_hops", "next_encoder"}}

// plans reads the plans, and says what of them the program cannot do.
func (b *builder) plans(c *stage.Config) (live []livePlan) {
	if c.FeedbackPort != 0 {
		b.fault("stages.pint.feedback_port", "the program sends no feedback: leave it out")
	}
	if c.ThenOneOf != 1 {
		b.fault("stages.pint.then_one_of", "the program gives all packets a digest: leave it out")
	}
	plans, err := c.LivePlans()
	if err != nil {
		b.fault("stages.pint", "%w", err)
	}
	if c.Plan == "" && len(plans) > 0 {
		plans[0].Hash = b.Hash // the built-in plan has the switch's family
	}
	for i, p := range plans {
		key := "stages.pint." + planTables[i].plan
		b.layout(key, p)
		l := livePlan{Plan: p, queries: b.queries(key, p)}
		if l.encoder, err = p.Compile(); err != nil {
			b.fault(key, "%w", err)
		}
		live = append(live, l)
	}
	return live
}

// layout says what of a plan the program cannot do, but for queries.
func (b *builder) layout(key string, p *pintplan.Plan) {
	if b.hasFamily() && p.Hash != b.Hash {
		b.fault(key, "plan %d: hash %q, and the switch has %q: make the plan with that (weir plan --hash %v)", p.ID, p.Hash, b.Hash, b.Hash)
	}
	if least := digestBits - 7; p.Bits < least || p.Bits > digestBits {
		b.fault(key, "plan %d: bits %d: the program's digest has 2 bytes: make a plan of %d to %d bits", p.ID, p.Bits, least, digestBits)
	}
	if p.EdgeBits != 0 {
		b.fault(key, "plan %d: edge_bits %d: the program's shim has a digest of 2 bytes and no edge, as its parser has one header for both: make a plan without", p.ID, p.EdgeBits)
	}
	if len(p.Sets) > maxSets {
		b.fault(key, "plan %d: %d sets of queries: the program has room for %d: ask for fewer queries, or other frequencies", p.ID, len(p.Sets), maxSets)
	}
}

// queries sorts a plan's queries by what the program does for them.
func (b *builder) queries(key string, p *pintplan.Plan) (q queries) {
	fault := func(x *pint.Query, format string, args ...any) {
		b.fault(key, "plan %d: query %q: "+format, append([]any{p.ID, x.Name}, args...)...)
	}
	take := func(place **pint.Query, x *pint.Query) {
		if *place != nil {
			fault(x, "query %q is of the same kind, and the program has one of each: remove one", (*place).Name)
		}
		*place = x
	}
	for i := range p.Queries {
		x := &p.Queries[i]
		multiplicative := x.Numeric != nil && x.Numeric.Multiplicative
		switch {
		case x.Aggregation == pint.Path && x.Value == pint.SwitchID:
			if s := x.Static; s.Code != pint.Hashed || s.Instances > 1 || s.Vector || len(s.Layers) > 2 {
				fault(x, "the program writes paths as one instance of hashed values in at most two layers: use code = \"hashed\", instances = 1, no vector and one or two [[query.static.layer]]")
			}
			take(&q.path, x)
		case x.Aggregation == pint.Quantiles && x.Value == pint.HopLatency && multiplicative:
			take(&q.latency, x)
		case x.Aggregation == pint.Maximum && x.Value == pint.EgressUtilisation && multiplicative:
			take(&q.congestion, x)
		default:
			fault(x, "the program has no %v of %v: it has path of switch_id, and with multiplicative codes quantiles of hop_latency and max of egress_utilisation", x.Aggregation, x.Value)
		}
	}
	return q
}

// links are the ports: edges, the longest frames, and what the use of links is
// measured against.
func (b *builder) links(c *stage.Config) {
	for i := range b.Ports {
		p := &b.Ports[i]
		edge := slices.Contains(c.Edge, p.Name)
		if edge {
			b.entry(pintControl+".arrival_port", act(pintControl+".edge_in"), exact("meta.in_port", Number(uint64(i))))
		}
		rate, longest := p.BitsPerSecond, uint64(noLimit)
		if rate == 0 {
			rate = unknownRate
		}
		if p.MaxFrame > 0 {
			longest = uint64(p.MaxFrame)
		}
		u, err := encode.NewUtilisation(rate/8, uint64(c.RoundTrip))
		if err != nil {
			b.fault("stages.pint.round_trip", "port %s: %w", p.Name, err)
			return
		}
		t := u.Tables()
		b.entry(pintControl+".port", act(pintControl+".set_port",
			param("edge", oneBit(edge)), param("longest", Number(longest)), param("round_trip", Number(t.RoundTripNs)),
			param("log_round_trip", Number(uint64(t.LogRoundTrip))), param("log_bytes", Number(uint64(t.LogBytes)))),
			exact("meta.out_port", Number(uint64(i))))
		if i == 0 {
			for j, v := range t.Log {
				b.register(pintControl+".utilisation.logarithm", j, uint64(v))
			}
			for j, v := range t.Exp {
				b.register(pintControl+".utilisation.exponential", j, v)
			}
		}
	}
}

// PortNumber is the number of a port, -1 without one of the name.
func (s *Switch) PortNumber(name string) int {
	return slices.IndexFunc(s.Ports, func(p pipeline.Port) bool { return p.Name == name })
}

// SetMTU sets the MTU of a port's link and, as of a port of Weir, the longest frame that it sends: an Ethernet header
// more, and room for a tag.
func (s *Switch) SetMTU(port, mtu int) { s.Ports[port].MTU, s.Ports[port].MaxFrame = mtu, mtu+18 }

// SetSpeed sets the speed of a port's link in bits per second, unless the port's rate is below it.
func (s *Switch) SetSpeed(port int, bits uint64) {
	if p := &s.Ports[port]; p.BitsPerSecond == 0 || bits < p.BitsPerSecond {
		p.BitsPerSecond = bits
	}
}

// UnknownMTUs are the ports by which a source of shims sends them, and whose links' MTU is not known: it
// lets frames become longer than they can be.
func (s *Switch) UnknownMTUs() (names []string) {
	c := configOf[stage.Config](&builder{Switch: s}, "pint")
	if c == nil || len(c.Edge) == 0 {
		return nil
	}
	if plan, err := c.SourcePlan(); err != nil || plan.Carrier == pintplan.CarrierIPID {
		return nil
	}
	for i := range s.Ports {
		if p := &s.Ports[i]; p.MaxFrame <= 0 && !slices.Contains(c.Edge, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// UnknownSpeeds are the ports whose use the plans ask for, and whose links' speed is not known: it counts as
// 10 Gb/s, as in stages/pint.
func (s *Switch) UnknownSpeeds() (names []string) {
	c := configOf[stage.Config](&builder{Switch: s}, "pint")
	if c == nil {
		return nil
	}
	plans, err := c.LivePlans()
	if err != nil || !asks(plans, pint.EgressUtilisation) {
		return nil
	}
	for i := range s.Ports {
		if s.Ports[i].BitsPerSecond == 0 {
			names = append(names, s.Ports[i].Name)
		}
	}
	return names
}

// asks says whether any of the plans asks for a value.
func asks(plans []*pintplan.Plan, v pint.Value) bool {
	return slices.ContainsFunc(plans, func(p *pintplan.Plan) bool {
		return slices.ContainsFunc(p.Queries, func(q pint.Query) bool { return q.Value == v })
	})
}

// encoder fills the tables of a control pint_encoder.
func (b *builder) encoder(encoder string, e *encode.Encoder, q queries) {
	sets, seeds := e.Sets(), e.Seeds()
	valueSeed := uint64(0)
	if step := stepOf(sets, q.path); step != nil {
		if path := step.Static.Table(); path != nil {
			valueSeed = path.ValueSeed
			b.path(encoder, path)
		}
	}
	b.byDefault(encoder+".keys", act(encoder+".set_keys", param("of_switch", Number(uint64(b.ID))),
		b.key("of_set", seeds.Set), b.key("of_writer", seeds.Writer), b.key("of_path", valueSeed)))
	b.sets(encoder, sets, q)
	for hop, most := range e.Reservoir() {
		if hop > 0 {
			b.entry(encoder+".sample", act(encoder+".sample_up_to", param("most", Number(most))), exact("hop", Number(uint64(hop))))
		}
	}
	for _, c := range []struct {
		instance string
		query    *pint.Query
	}{{"latency_code", q.latency}, {"congestion_code", q.congestion}} {
		if step := stepOf(sets, c.query); step != nil {
			b.codec(encoder+"."+c.instance, step.Codec.Table())
		}
	}
}

// sets say where the digests of queries are.
func (b *builder) sets(encoder string, sets []encode.Set, q queries) {
	from := uint64(0)
	for i, s := range sets {
		var params []Param
		for _, x := range []struct {
			name  string
			query *pint.Query
		}{{"path", q.path}, {"latency", q.latency}, {"congestion", q.congestion}} {
			mask, shift := uint64(0), 0
			for _, step := range s.Steps {
				if step.Query == x.query {
					mask, shift = 1<<step.Query.Bits-1, int(step.Shift)
				}
			}
			params = append(params, param("of_"+x.name, Number(mask)), param(x.name+"_at", Number(uint64(shift))))
		}
		b.out.Entries = append(b.out.Entries, Entry{
			Table: encoder + ".query_set", Priority: i + 1, Action: act(encoder+".set_queries", params...),
			Keys: []Key{{Field: "q.a", Match: Range, Value: Number(from), High: Number(s.Below - 1)}},
		})
		from = s.Below
	}
}

// path says how and with which probability hops write to the path.
func (b *builder) path(encoder string, path *encode.PathTable) {
	from := uint64(0)
	for number, l := range path.Layers {
		to := uint64(1<<64 - 1)
		if number == 0 && len(path.Layers) > 1 {
			to = path.UpTo
		}
		b.out.Entries = append(b.out.Entries, Entry{
			Table: encoder + ".layer", Priority: number + 1,
			Keys:   []Key{{Field: "turned", Match: Range, Value: Number(from), High: Number(to)}},
			Action: act(encoder+".set_layer", param("number", Number(uint64(number))), param("overwriting", oneBit(l.Overwrites))),
		})
		from = to + 1
		for hop := 1; hop <= pint.MaxHops; hop++ {
			b.entry(encoder+".path_writes", act(encoder+".path_up_to", param("most", Number(l.Accept[hop]))),
				exact("layer_number", Number(uint64(number))), exact("hop", Number(uint64(hop))))
		}
	}
}

// stepOf is how packets carry a query, nil if no set has it.
func stepOf(sets []encode.Set, q *pint.Query) *encode.Step {
	for _, s := range sets {
		for i := range s.Steps {
			if q != nil && s.Steps[i].Query == q {
				return &s.Steps[i]
			}
		}
	}
	return nil
}
