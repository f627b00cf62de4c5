package tables

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/weirswitch/weir/pipeline"
	stages "github.com/weirswitch/weir/stages/disketch"
	points "github.com/weirswitch/weir/stages/lds"
	samples "github.com/weirswitch/weir/stages/oblivious"
	edges "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// disketch fills the tables of the control disketch_egress and the schedules of the
// present epoch and of the next one, which begin with one subepoch.
func (b *builder) disketch() {
	c := configOf[stages.Config](b, "disketch")
	if c == nil {
		return
	}
	if n := len(c.Fragments); n > maxFragments {
		b.fault("stages.disketch.fragment", "%d of them: the program has %d: remove some", n, maxFragments)
		return
	}
	if p := configOf[edges.Config](b, "pint"); p != nil {
		c = c.WithEdge(p.Edge)
	}
	names := pipeline.PortNames(b.Ports)
	for port, host := range c.Hosts(names) {
		if host {
			b.entry(disketchControl+".from_host", act(disketchControl+".in_from_host"), exact("meta.in_port", Number(uint64(port))))
			b.entry(disketchControl+".to_host", act(disketchControl+".out_to_host"), exact("meta.out_port", Number(uint64(port))))
		}
	}
	b.checkEpochs("stages.disketch.epoch_bits", c.EpochBits)
	for i := range c.Fragments {
		b.fragment(c, i)
	}
}

// kindsWithout says why the program has no such fragments.
var kindsWithout = map[disketch.Kind]string{
	disketch.Tower:        "of which a packet reads both counters before it writes one",
	disketch.Conservative: "of which a packet reads both counters before it writes one",
	disketch.SuMax:        "whose second counter would take a register and an operation more than its fragments have",
	disketch.Bloom:        "whose bits would take a register for each hash, where its fragments have one",
	disketch.HyperLogLog:  "whose ranks take a table of prefixes that its fragments do not have",
}

// fragment fills the tables of one of the controls disketch_fragment.
func (b *builder) fragment(c *stages.Config, i int) {
	key := fmt.Sprintf("stages.disketch.fragment[%d]", i)
	f, shape := c.Fragments[i].WithDefaults(), c.FragmentConfig(i, b.ID, b.Hash)
	if why := kindsWithout[shape.Kind]; why != "" {
		b.fault(key+".kind", "the program has no %v, %s: choose \"countsketch\", \"countmin\" or \"univmon\"", shape.Kind, why)
	}
	if f.Candidates > 0 {
		b.fault(key+".candidates", "a P4 target does not remember the keys of heavy flows: set candidates = -1")
	}
	if cells := f.Memory / 4; cells > 1<<maxFragmentColumnBits {
		b.fault(key+".memory", "%d bytes are %d cells: the program has %d of a fragment: choose memory = %d or less", f.Memory, cells, 1<<maxFragmentColumnBits, 4<<maxFragmentColumnBits)
	}
	control, levels, columns := fragmentControl(i), shape.NumLevels(), shape.Width()
	b.byDefault(control+".shape", act(control+".set_shape",
		param("with_signs", oneBit(shape.Kind != disketch.CountMin)), param("in_bytes", oneBit(shape.Unit == disketch.Bytes)),
		param("in_two", oneBit(shape.SingleHop)), param("log_epoch", Number(uint64(shape.Epochs))), param("row_cells", Number(uint64(columns)))))
	if levels > 1 {
		b.byDefault(control+".levels", act(control+".set_levels", param("level_top", Number(1<<(levels-1))), b.key("of_levels", shape.LevelSeed())))
	}
	if m, ok := f.AddressMasks(); ok {
		b.byDefault(control+".flow_key", act(control+".by_addresses", param("src4", Number(m.Src4)), param("dst4", Number(m.Dst4)),
			param("src6", Value{m.Src6[0], m.Src6[1]}), param("dst6", Value{m.Dst6[0], m.Dst6[1]}), b.key("of_flows", stages.AddressSeed)))
	}
	plan, err := disketch.NewFragment(shape)
	if err != nil {
		b.fault(key, "%w", err)
		return
	}
	b.epochs(int(shape.Epochs), func(epoch uint64) []Register {
		return ScheduleRegisters(i, plan.Schedule(epoch, 0), epoch&1 != 0)
	})
}

// checkEpochs refuses epochs of 2^bits ns that are too short.
func (b *builder) checkEpochs(key string, bits int) {
	if bits < b.LeastEpochBits {
		b.fault(key, "%d: epochs of %v are too short for the control plane to write each one's registers in time: choose %d or more on all switches",
			bits, time.Duration(1)<<bits, b.LeastEpochBits)
	}
}

// epochs notes what is written for an epoch of 2^bits ns: for the present one and the next.
func (b *builder) epochs(bits int, registers func(epoch uint64) []Register) {
	b.out.schedules = append(b.out.schedules, func(now uint64) []Register {
		epoch := now >> bits
		return append(registers(epoch), registers(epoch+1)...)
	})
}

func fragmentControl(i int) string { return fmt.Sprintf("%s.fragment_%d", disketchControl, i) }

// ScheduleRegisters are the cells that configure a fragment, by its number on the switch,
// an epoch's schedule, whose family is the program's. flip is the bank of the epoch's first subepoch: the other one than
// that of the last subepoch before.
func ScheduleRegisters(fragment int, s disketch.Schedule, flip bool) []Register {
	control, parity := fragmentControl(fragment), int(s.Epoch&1)
	return []Register{
		{control + ".schedule_log", parity, uint64(s.Log)},
		{control + ".schedule_flip", parity, oneBit(flip).Low},
		{control + ".schedule_key", parity, familyKey(s.Hash, s.Seed)},
		{control + ".cell_key", parity, familyKey(s.Hash, s.CellSeed())},
		{control + ".schedule_epoch", parity, s.Epoch}, // last: it puts the others into force
	}
}

// oblivious fills the table of the control oblivious_ingress. Until the control plane
// lowers the threshold all packets are admitted.
func (b *builder) oblivious() {
	c := configOf[samples.Config](b, "oblivious")
	if c == nil {
		return
	}
	if c.Flows {
		b.fault("stages.oblivious.flows", "the program has no sample of flows: set flows = false")
	}
	if c.Unit == "both" {
		b.fault("stages.oblivious.unit", "the program has no ranks by number and bytes: choose \"packets\" or \"bytes\"")
	}
	main, _ := c.Samplers(b.Hash)
	b.byDefault(obliviousControl+".sampler", act(obliviousControl+".set_sampler",
		param("log_epoch", Number(uint64(c.EpochBits))), b.key("of_ranks", main.RankSeed()),
		param("in_bytes", oneBit(main.Unit == oblivious.Bytes)), param("shift", Number(uint64(main.RankShift())))))
	b.checkEpochs("stages.oblivious.epoch_bits", c.EpochBits)
	b.epochs(c.EpochBits, func(epoch uint64) []Register { return ThresholdRegisters(epoch, 1<<64-1) })
}

// ThresholdRegisters are the cells that lower an epoch's threshold to a limit of ranks
// (oblivious.Sampler.Limit).
func ThresholdRegisters(epoch, limit uint64) []Register {
	parity := int(epoch & 1)
	return []Register{
		{obliviousControl + ".threshold", parity, limit >> 32},
		{obliviousControl + ".epoch", parity, epoch}, // last, too
	}
}

// lds fills the tables of both sides' measurement points.
func (b *builder) lds() {
	for _, side := range []struct{ stage, control, port string }{
		{"lds_ingress", ldsIngressControl, "p.port"}, {"lds_egress", ldsEgressControl, "p.port"},
	} {
		if c := configOf[points.Config](b, side.stage); c != nil {
			b.points(c, "stages."+side.stage, side.control, side.port)
		}
	}
}

// points is one side.
func (b *builder) points(c *points.Config, key, control, field string) {
	ports, err := c.Points(pipeline.PortNames(b.Ports))
	if err != nil {
		b.fault(key, "%w", err)
		return
	}
	if n := len(ports); n > maxPoints {
		b.fault(key+".ports", "%d measurement points: the program has %d on either side: name that many ports at most", n, maxPoints)
	}
	if rows := c.Sketch(b.Hash).Rows; rows != pointRows {
		b.fault(key+".rows", "%d: the program has %d: set rows = %d", rows, pointRows, pointRows)
	}
	if c.Columns > 1<<maxLDSColumnBits {
		b.fault(key+".columns", "%d: the program has %d of a row: choose columns = %d or less", c.Columns, 1<<maxLDSColumnBits, 1<<maxLDSColumnBits)
	}
	if c.Edges || len(c.Classes) > 0 {
		b.fault(key, "edges and class: the program's points are of ports, as a class takes two ternary tables and a third one behind both, of which the stages in front of the cells have none to spare: remove them, or measure classes at switches of Weir")
	}
	if c.Samples > 0 {
		b.fault(key+".samples", "%d: the program keeps no arrivals of packets, only their sums: remove it", c.Samples)
	}
	if c.LostFlows > 0 {
		b.fault(key+".lost_flows", "%d: the program has no cells that name flows: remove it", c.LostFlows)
	}
	for number, port := range ports {
		b.entry(control+".point", act(control+".set_point", param("point_number", Number(uint64(number)))), exact(field, Number(uint64(port))))
	}
	b.byDefault(control+".shape", act(control+".set_shape", param("log_interval", Number(uint64(c.IntervalBits))),
		param("by_shim", oneBit(c.IntervalBit)), param("row_cells", Number(uint64(c.Columns))), param("flow_cells", Number(uint64(c.Virtual)))))
	b.flowWeights(c, control)
	s := c.Sketch(b.Hash)
	var limits []Param
	for row, accept := range s.Accepts() {
		limits = append(limits, param(fmt.Sprintf("limit_%d", row), Number(accept-1)))
	}
	b.byDefault(control+".rates", act(control+".set_rates", limits...))
	b.byDefault(control+".keys", act(control+".set_keys", b.key("of_flow_0", s.FlowSeed(0)), b.key("of_flow_1", s.FlowSeed(1)),
		b.key("of_packet_0", s.PacketSeed(0)), b.key("of_packet_1", s.PacketSeed(1)), b.key("of_name", flowNameSeed)))
}

// flowWeights fills the table of weights: of each policy an entry for either address and either port that it may mean. The
// first policy that matches decides.
func (b *builder) flowWeights(c *points.Config, control string) {
	number := func(field string, v, width int) Key {
		if v == 0 {
			return ternary(field, Value{}, Value{})
		}
		return ternary(field, Number(uint64(v)), Number(1<<width-1))
	}
	priority := 0
	for i := range c.Weights {
		w := &c.Weights[i]
		var addresses, ports [][2]Key // of source and destination
		version := ternary("p.ipv4", Value{}, Value{})
		anyAddress := func(field string) Key { return ternary(field, Value{}, Value{}) }
		if prefix, err := netip.ParsePrefix(w.Prefix); err == nil { // an empty one has passed Validate, too
			version = ternary("p.ipv4", oneBit(prefix.Addr().Is4()), Number(1))
			at := func(field string) Key {
				return ternary(field, firstBits(prefix.Masked().Addr()), ones(prefix.Bits(), 128))
			}
			addresses = [][2]Key{{at("p.src"), anyAddress("p.dst")}, {anyAddress("p.src"), at("p.dst")}}
		} else {
			addresses = [][2]Key{{anyAddress("p.src"), anyAddress("p.dst")}}
		}
		ports = [][2]Key{{number("p.src_port", w.Port, 16), number("p.dst_port", 0, 16)}}
		if w.Port != 0 {
			ports = append(ports, [2]Key{number("p.src_port", 0, 16), number("p.dst_port", w.Port, 16)})
		}
		for _, a := range addresses {
			for _, p := range ports {
				priority++
				b.out.Entries = append(b.out.Entries, Entry{
					Table: control + ".weights", Priority: priority, Action: act(control+".set_weight", param("times", Number(uint64(w.Weight)))),
					Keys: []Key{version, a[0], a[1], number("p.proto", w.Protocol, 8), p[0], p[1]},
				})
			}
		}
	}
}

// firstBits is an address of IPv4 in the first 32 of 128 bits, or one of IPv6.
func firstBits(a netip.Addr) Value {
	v := address(a)
	if a.Is4() {
		return Value{High: v.Low << 32}
	}
	return v
}

// flowNameSeed is that under which stages/lds hashes flow keys.
const flowNameSeed = 0
