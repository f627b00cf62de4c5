package tables

import (
	"fmt"
	"time"

	"github.com/weirswitch/weir/pipeline"
	stages "github.com/weirswitch/weir/stages/disketch"
	points "github.com/weirswitch/weir/stages/lds"
	samples "github.com/weirswitch/weir/stages/oblivious"
	edges "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
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
	disketch.UnivMon:      "whose levels a packet would read in one step",
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
		b.fault(key+".kind", "the program has no %v, %s: choose \"countsketch\" or \"countmin\"", shape.Kind, why)
	}
	if f.Key != "5-tuple" {
		b.fault(key+".key", "the program's flows are 5-tuples: leave out key = %q", f.Key)
	}
	if f.Candidates > 0 {
		b.fault(key+".candidates", "a P4 target does not remember the keys of heavy flows: set candidates = -1")
	}
	columns, ok := powerOfTwo(f.Memory / 4)
	if f.Memory%4 != 0 || !ok || columns > maxFragmentColumnBits {
		below, above := nearest(max(f.Memory/4, 1))
		below, above = min(below, 1<<maxFragmentColumnBits), min(above, 1<<maxFragmentColumnBits)
		remedy := fmt.Sprintf("choose memory = %d", 4*below)
		if above != below {
			remedy += fmt.Sprintf(" or %d", 4*above)
		}
		b.fault(key+".memory", "%d bytes are %d cells: a P4 target needs a power of two, and this program has up to %d: %s", f.Memory, f.Memory/4, 1<<maxFragmentColumnBits, remedy)
	}
	control := fragmentControl(i)
	b.byDefault(control+".shape", act(control+".set_shape",
		param("with_signs", oneBit(shape.Kind == disketch.CountSketch)), param("in_bytes", oneBit(shape.Unit == disketch.Bytes)),
		param("in_two", oneBit(shape.SingleHop)), param("log_epoch", Number(uint64(shape.Epochs))), param("log_columns", Number(uint64(columns)))))
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
// an epoch's schedule. flip is the bank of the epoch's first subepoch: the other one than
// that of the last subepoch before.
func ScheduleRegisters(fragment int, s disketch.Schedule, flip bool) []Register {
	control, parity := fragmentControl(fragment), int(s.Epoch&1)
	return []Register{
		{control + ".schedule_log", parity, uint64(s.Log)},
		{control + ".schedule_flip", parity, oneBit(flip).Low},
		{control + ".schedule_key", parity, hash.Key(s.Seed)},
		{control + ".cell_key", parity, hash.Key(s.CellSeed())},
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
	if c.Unit != "packets" {
		b.fault("stages.oblivious.unit", "%q: ranks by bytes need a division, which a P4 target has not: set unit = \"packets\"", c.Unit)
	}
	if c.Flows {
		b.fault("stages.oblivious.flows", "the program has no sample of flows: set flows = false")
	}
	main, _ := c.Samplers(b.Hash)
	key := keyOf(main.RankSeed())
	b.byDefault(obliviousControl+".sampler", act(obliviousControl+".set_sampler",
		param("log_epoch", Number(uint64(c.EpochBits))), param("key_p", key.p), param("key_q", key.q)))
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
	columns, ok := powerOfTwo(c.Columns)
	if !ok || columns > maxLDSColumnBits {
		below, above := nearest(c.Columns)
		below, above = min(below, 1<<maxLDSColumnBits), min(above, 1<<maxLDSColumnBits)
		remedy := fmt.Sprintf("choose columns = %d", below)
		if above != below {
			remedy += fmt.Sprintf(" or %d", above)
		}
		b.fault(key+".columns", "%d: a P4 target needs a power of two, and this program has up to %d: %s", c.Columns, 1<<maxLDSColumnBits, remedy)
	}
	virtual, ok := powerOfTwo(c.Virtual)
	if !ok {
		below, above := nearest(c.Virtual)
		b.fault(key+".virtual", "%d: a P4 target needs a power of two: choose virtual = %d or %d", c.Virtual, below, above)
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
	if len(c.Weights) > 0 {
		b.fault(key+".weight", "the program's flows all count once, as a weight multiplies the time, which a register's unit cannot: remove the weights")
	}
	for number, port := range ports {
		b.entry(control+".point", act(control+".set_point", param("point_number", Number(uint64(number)))), exact(field, Number(uint64(port))))
	}
	b.byDefault(control+".shape", act(control+".set_shape", param("log_interval", Number(uint64(c.IntervalBits))),
		param("by_shim", oneBit(c.IntervalBit)), param("log_columns", Number(uint64(columns))), param("log_virtual", Number(uint64(virtual)))))
	s := c.Sketch(b.Hash)
	var limits []Param
	for row, accept := range s.Accepts() {
		limits = append(limits, param(fmt.Sprintf("limit_%d", row), Number(accept-1)))
	}
	b.byDefault(control+".rates", act(control+".set_rates", limits...))
	var keys []Param
	for _, k := range []struct {
		name string
		seed uint64
	}{{"flow_0", s.FlowSeed(0)}, {"flow_1", s.FlowSeed(1)}, {"packet_0", s.PacketSeed(0)}, {"packet_1", s.PacketSeed(1)}, {"name", flowNameSeed}} {
		h := keyOf(k.seed)
		keys = append(keys, param(k.name+"_p", h.p), param(k.name+"_q", h.q))
	}
	b.byDefault(control+".keys", act(control+".set_keys", keys...))
}

// flowNameSeed is that under which stages/lds hashes flow keys.
const flowNameSeed = 0
