package vectors

import (
	"strings"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// Sizes of P4's counters (p4/include/types.p4, telemetry.p4).
const (
	numFaults  = 25
	numReasons = 32
	maxPorts   = 64
)

// The names under which counters stand in a State: that of P4's control and counter. What was
// dropped is counted at both ends of the switch, and added up.
const (
	faultCounter  = "derive.faults"
	reasonCounter = "dropped"
	pintCounter   = "pint_egress.counts"

	copyCounter       = "egress.copies"
	copyReasonCounter = "egress.copies_dropped"
)

// Registers of the links' averages.
const (
	utilisationUsed = "pint_egress.utilisation.used"
	utilisationLast = "pint_egress.utilisation.last"
)

// reasonNumbers are P4's numbers of drop reasons by their names. What the Go stage answers or
// refuses by itself is the control plane's matter.
var reasonNumbers = func() map[string]int {
	numbers := map[string]int{"neighbour_pending": reasonConsumed, "no_listener": reasonConsumed, "neighbour_refused": reasonConsumed}
	for n, name := range tables.ReasonNames() {
		numbers[name] = n
	}
	return numbers
}()

const reasonConsumed = 1

var reasonBadChecksum = reasonNumbers["bad_checksum"]

// reasonNumber is P4's number of a drop reason; false: P4 has none.
func reasonNumber(r packet.Reason) (int, bool) {
	n, ok := reasonNumbers[r.String()]
	return n, ok
}

// pintCounts are P4's counters of pint, in order, by the Go stage's metrics: a name, and the value of
// its label reason.
var pintCounts = [...][2]string{
	{"sourced_packets_total"}, {"transited_packets_total"}, {"sunk_packets_total"}, {"local_packets_total"},
	{"left_packets_total", "bare"}, {"left_packets_total", "mtu"}, {"left_packets_total", "headroom"}, {"left_packets_total", "other"},
	{"left_packets_total", "nonzero"}, {"left_packets_total", "own"}, {"left_packets_total", "looping"}, {"left_packets_total", "host_shim"},
	{"unknown_plan_packets_total"}, {"saturated_packets_total"}, {"unknown_hop_packets_total"}, {"loop_packets_total"},
	{"records_total"}, {"lost_records_total"},
}

// ldsCounts are P4's registers of one cell in a side of lds, by the Go stage's metrics.
var ldsCounts = map[string]string{
	"measured_packets_total": "measured", "skipped_packets_total": "skipped", "marked_packets_total": "by_bit",
	"timed_packets_total": "timed", "waited_ns_total": "waited",
}

// count adds what the Go stages count to the state.
func (g *goSwitch) count(s State) {
	g.latencies(s)
	for _, n := range g.chain {
		m, ok := n.Module.(pipeline.Metered)
		if !ok {
			continue
		}
		m.Metrics(func(x pipeline.Metric) {
			switch {
			case n.Name == "parse" && x.Name == "malformed_packets_total":
				if f, ok := faultNumber(label(x)); ok {
					s.add(faultCounter, numFaults, f, uint64(x.Value))
				}
			case n.Name == "pint":
				for i, c := range pintCounts {
					if c[0] == x.Name && c[1] == label(x) {
						s.add(pintCounter, len(pintCounts), i, uint64(x.Value))
					}
				}
			case strings.HasPrefix(n.Name, "lds_"):
				if register, ok := ldsCounts[x.Name]; ok {
					s.add(n.Name+".side."+register, 1, 0, uint64(x.Value))
				}
			}
		})
	}
}

// label is the value of a metric's one label, empty if it has none.
func label(m pipeline.Metric) string {
	if len(m.Labels) == 0 {
		return ""
	}
	return m.Labels[0][1]
}

func faultNumber(name string) (int, bool) {
	for f := parse.Fault(1); f < numFaults; f++ {
		if f.String() == name {
			return int(f), true
		}
	}
	return 0, false
}

// copies counts the copies of flooded packets that reached their ports' stages, and of these the
// dropped ones by P4's number of the reason.
type copies struct {
	all     uint64
	dropped [numReasons]uint64
}

func (c *copies) count(r packet.Reason) {
	c.all++
	if n, ok := reasonNumber(r); ok && r != 0 {
		c.dropped[n]++
	}
}

func (c *copies) add(s State) {
	s.add(copyCounter, 1, 0, c.all)
	for n, packets := range c.dropped {
		s.add(copyReasonCounter, numReasons, n, packets)
	}
}
