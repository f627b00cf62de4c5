package pint

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// Which identifications carry a digest, with carrier ipid.
const (
	IdentificationZero = "zero" // those that are zero: hosts see no change
	IdentificationAny  = "any"  // all of atomic datagrams; hosts see zero
)

// Config is the stage's section of the configuration, [stages.pint].
type Config struct {
	// Plan is the file of the plan that sources use; empty: the default plan (docs/pint.md), with the switch's
	// family of hashes. All switches of the network need the same. A relative name counts from the
	// working directory.
	Plan string `toml:"plan"`
	// NextPlan is the file of a second plan that is understood as well, while one
	// replaces the other: first all switches learn the new one as NextPlan, then
	// it becomes Plan and the old one NextPlan, then the old one goes.
	NextPlan string `toml:"next_plan"`
	// Edge are the ports to hosts, and to networks that know nothing of the plan.
	Edge []string `toml:"edge"`
	// Identification is "zero" or "any"; the same in
	// the whole network. For carrier ipid.
	Identification string `toml:"identification"`
	// IntervalBits makes a source set the shim's interval bit to that bit of the
	// time at which the packet leaves: whether the number of its interval of 2^IntervalBits ns is
	// odd. The stages lds read it, with the same interval_bits. 0: the bit stays
	// clear. For carrier shim.
	IntervalBits int `toml:"interval_bits"`
	// DropLoops drops packets of which a loop query says that they loop.
	DropLoops bool `toml:"drop_loops"`

	// Switches are the ids of all switches of the network: a sink needs them to
	// decode paths whose values are hashed, unless it has Links.
	Switches []uint64 `toml:"switches"`
	// Links are pairs of switch ids, if the network is known: paths then decode
	// from fewer packets.
	Links [][]uint64 `toml:"links"`
	// Records is how many digests wait for the exporter at most, per worker.
	Records int `toml:"records"`
	// MaxFlows is how many flows a sink decodes itself, where the budget of [telemetry] has no room for all of their digests: about 250 bytes
	// each, 4 more for each latency that was read in a second, up to 1 KB, and up to 2 KB while its path is not certain; and 16 MB for all.
	MaxFlows int `toml:"max_flows"`
	// FeedbackPort is the UDP port to which a sink reports to the sources of flows how much the fullest link of their
	// packets' paths is used, about once in a RoundTrip. 0: it does not.
	FeedbackPort int `toml:"feedback_port"`
	// FirstPackets and ThenOneOf choose the packets of a flow to which a source gives a digest: so many first ones, and then one of so many.
	// ThenOneOf is a power of two; 1: all. For carrier shim.
	FirstPackets int `toml:"first_packets"`
	ThenOneOf    int `toml:"then_one_of"`
	// RoundTrip is the base round trip time of the network: the time over which
	// the use of a link is averaged.
	RoundTrip time.Duration `toml:"round_trip"`
}

// DefaultConfig returns a switch in the middle of a network with the default plan.
func DefaultConfig() Config {
	return Config{Identification: IdentificationAny, Records: 1 << 14, MaxFlows: 1 << 15, FirstPackets: 16, ThenOneOf: 1, RoundTrip: time.Millisecond}
}

// Bounds of the configuration.
const (
	maxRecords = 1 << 20
	maxFlows   = 1 << 24
	// An interval's, as the stages lds have them: 1 ms to 18 min.
	minInterval, maxInterval = 20, 40
)

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. It reads the plans.
func (c *Config) Validate(ports []string) error {
	_, err := c.load(ports)
	return err
}

// loaded is a configuration that was found good.
type loaded struct {
	plans    []*pintplan.Plan // as sources use them: Plan, then NextPlan
	edge     []bool           // by port number
	topology *pintpath.Topology
}

func (c *Config) load(ports []string) (*loaded, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	l := &loaded{edge: make([]bool, len(ports))}
	var err error
	if l.plans, err = c.loadPlans(); err != nil {
		faults = append(faults, err)
	}
	for i, name := range c.Edge {
		n := slices.Index(ports, name)
		switch {
		case n < 0:
			fault("edge[%d]: port %q is not defined: define [[port]] name = %q or correct the name", i, name, name)
		case l.edge[n]:
			fault("edge[%d]: port %q appears twice: remove one", i, name)
		default:
			l.edge[n] = true
		}
	}
	if c.Identification != IdentificationZero && c.Identification != IdentificationAny {
		fault("identification: %q: choose %q or %q", c.Identification, IdentificationZero, IdentificationAny)
	}
	if c.Records < 1 || c.Records > maxRecords {
		fault("records: %d is out of range: choose 1 to %d", c.Records, maxRecords)
	}
	if c.MaxFlows < 1 || c.MaxFlows > maxFlows {
		fault("max_flows: %d is out of range: choose 1 to %d", c.MaxFlows, maxFlows)
	}
	if c.FeedbackPort < 0 || c.FeedbackPort > 65535 {
		fault("feedback_port: %d is no UDP port: choose 1 to 65535, or 0 for no feedback", c.FeedbackPort)
	} else if c.FeedbackPort != 0 && len(l.plans) > 0 {
		for _, p := range l.plans {
			if p.Carrier != pintplan.CarrierShim || feedbackQuery(p) < 0 {
				fault("feedback_port: plan %d has no query of the maximum of egress_utilisation with carrier shim: add one, or leave the key out", p.ID)
			}
		}
	}
	if c.RoundTrip < time.Microsecond || c.RoundTrip > 100*time.Second {
		fault("round_trip: %v is out of range: choose 1us to 100s", c.RoundTrip)
	}
	if c.IntervalBits != 0 && (c.IntervalBits < minInterval || c.IntervalBits > maxInterval) {
		fault("interval_bits: %d: choose %d (1 ms) to %d (18 min), or 0 to leave the shim's interval bit clear", c.IntervalBits, minInterval, maxInterval)
	} else if c.IntervalBits != 0 && len(l.plans) > 0 && l.plans[0].Carrier != pintplan.CarrierShim {
		fault("interval_bits: carrier %q has no interval bit: leave it out, or use carrier %q", l.plans[0].Carrier, pintplan.CarrierShim)
	}
	if c.FirstPackets < 0 || c.FirstPackets > maxFirst {
		fault("first_packets: %d is out of range: choose 0 to %d", c.FirstPackets, maxFirst)
	}
	switch {
	case c.ThenOneOf < 1 || c.ThenOneOf > maxOneOf || c.ThenOneOf&(c.ThenOneOf-1) != 0:
		fault("then_one_of: %d: choose a power of two up to %d; 1: all packets carry a digest", c.ThenOneOf, maxOneOf)
	case c.ThenOneOf == 1:
	case c.IntervalBits != 0:
		fault("then_one_of: the stages lds need the interval bit of all packets: leave it out, or interval_bits")
	case len(l.plans) > 0 && l.plans[0].Carrier != pintplan.CarrierShim:
		fault("then_one_of: carrier %q makes no packet longer, so there is nothing to spare: leave it out", l.plans[0].Carrier)
	}
	l.topology = c.links(fault)
	if len(faults) == 0 {
		for _, p := range l.plans {
			if err := c.decodable(p, l); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return l, errors.Join(faults...)
}

// loadPlans reads the plans. On error it returns those that were read.
func (c *Config) loadPlans() (plans []*pintplan.Plan, err error) {
	for _, f := range []struct{ key, file string }{{"plan", c.Plan}, {"next_plan", c.NextPlan}} {
		if f.file == "" {
			if f.key == "plan" {
				plans = append(plans, pintplan.Default())
			}
			continue
		}
		p, fault := pintplan.Load(f.file)
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", f.key, fault))
			continue
		}
		plans = append(plans, p)
	}
	if len(plans) == 2 {
		if fault := together(plans[0], plans[1]); fault != nil {
			err = errors.Join(err, fmt.Errorf("next_plan: %w", fault))
		}
	}
	return plans, err
}

// checkIDs says which switch ids a plan's paths cannot hold: a sink would take
// them for others, and be certain. own is this switch's.
func (c *Config) checkIDs(p *pintplan.Plan, own uint32) error {
	if own == 0 {
		return errors.New("switch.id is missing: give each switch a number of its own, from 1 on")
	}
	var errs []error
	if p.EdgeBits != 0 && uint64(own)>>p.EdgeBits != 0 {
		errs = append(errs, fmt.Errorf("plan %d: switch id %d does not fit into its edge_bits, %d: choose an id below %d, or a plan with more", p.ID, own, p.EdgeBits, uint64(1)<<p.EdgeBits))
	}
	for i := range p.Queries {
		q := &p.Queries[i]
		if q.Aggregation != pint.Path || q.Value != pint.SwitchID || q.Static.Code == pint.Hashed || q.Static.ValueBits >= 64 {
			continue
		}
		ids := append(slices.Clone(c.Switches), uint64(own))
		for _, l := range c.Links {
			ids = append(ids, l...)
		}
		if id := slices.Max(ids); id>>q.Static.ValueBits != 0 {
			errs = append(errs, fmt.Errorf("plan %d, query %q: switch id %d needs more than the plan's %d bits: choose ids below %d, or a plan with a larger value_bits",
				p.ID, q.Name, id, q.Static.ValueBits, uint64(1)<<q.Static.ValueBits))
		}
	}
	return errors.Join(errs...)
}

// useFamily gives the built-in plan the switch's family of hashes, and says which other plans have
// not got it: packet ids and digests are of one family, or nothing decodes.
func (c *Config) useFamily(f hash.Family, plans []*pintplan.Plan) error {
	var errs []error
	for i, p := range plans {
		if i == 0 && c.Plan == "" || p.Hash == hash.AES && f.Kind() == hash.AES {
			p.Hash = f // whatever key the network has
		}
		if p.Hash != f {
			errs = append(errs, fmt.Errorf("plan %d has hash %q, and the switch has %q: set hash = %q in [switch] of all switches, or write hash = %q in the plan's file",
				p.ID, p.Hash, f, p.Hash, f))
		}
	}
	return errors.Join(errs...)
}

// Plans are the plans of a switch with the family of hashes: that of sources first.
func (c *Config) Plans(f hash.Family) ([]*pintplan.Plan, error) {
	plans, err := c.loadPlans()
	if err != nil {
		return nil, err
	}
	return plans, c.useFamily(f, plans)
}

// together says why two plans cannot be live at once.
func together(a, b *pintplan.Plan) error {
	var errs []error
	if a.ID == b.ID {
		errs = append(errs, fmt.Errorf("both plans have the id %d: give the new one another", a.ID))
	}
	if a.Carrier != b.Carrier {
		errs = append(errs, fmt.Errorf("the plans have carriers %q and %q, and packet ids differ between them: use one carrier", a.Carrier, b.Carrier))
	}
	if a.Carrier == pintplan.CarrierIPID {
		errs = append(errs, fmt.Errorf("carrier %q does not say which plan a digest is of: replace the plan on all switches at once", a.Carrier))
	}
	return errors.Join(errs...)
}

func (c *Config) links(fault func(string, ...any)) *pintpath.Topology {
	if len(c.Links) == 0 {
		return nil
	}
	values := slices.Clone(c.Switches)
	var links [][2]uint64
	for i, l := range c.Links {
		if len(l) != 2 {
			fault("links[%d]: it has %d ends: write two switch ids, as in [1, 2]", i, len(l))
			continue
		}
		links = append(links, [2]uint64{l[0], l[1]})
		values = append(values, l...)
	}
	slices.Sort(values)
	t, err := pintpath.NewTopology(slices.Compact(values), links)
	if err != nil {
		fault("links: %w", err)
	}
	return t
}

// decodable says what a sink lacks to decode a plan's paths. A switch without an edge port decodes nothing.
func (c *Config) decodable(p *pintplan.Plan, l *loaded) error {
	if !slices.Contains(l.edge, true) {
		return nil
	}
	r, err := sink.NewReader(p)
	if err != nil {
		return err
	}
	for i := range p.Queries {
		if q := &p.Queries[i]; q.Aggregation == pint.Path && q.Value == pint.SwitchID {
			if _, err := r.Decoder(i, sink.DecoderConfig{Values: c.Switches, Topology: l.topology}); err != nil {
				return fmt.Errorf("plan %d: query %q: %w: name the ids of all switches in switches, or the network's links in links", p.ID, q.Name, err)
			}
		}
	}
	return nil
}
