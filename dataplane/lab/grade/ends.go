package grade

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/pint"
)

// linkEnd is a port at one end of a cable, with the index of its switch in the file.
type linkEnd struct {
	sw         int
	node, port string
}

// checkLinkEnds reports links whose two measurement points cannot be compared, as the stages at their ends differ in what both must have equal.
func checkLinkEnds(c *lab.Config, switches []*config.Config, faulty lab.FaultyKeys) error {
	var faults []error
	seen := map[string]bool{} // of switches with several links, each fault once
	for _, cable := range c.Cables() {
		var ends [2]linkEnd
		for i, text := range cable {
			node, port, _ := strings.Cut(text, ":")
			ends[i] = linkEnd{slices.IndexFunc(c.Switches, func(s lab.Switch) bool { return s.Name == node }), node, port}
		}
		if ends[0].sw < 0 || ends[1].sw < 0 {
			continue // a host's
		}
		for _, way := range [][2]linkEnd{ends, {ends[1], ends[0]}} {
			from, to := way[0], way[1]
			sender := measuring(switches[from.sw], "lds_egress", from.port)
			receiver := measuring(switches[to.sw], "lds_ingress", to.port)
			if sender == nil || receiver == nil {
				continue
			}
			for _, d := range differences(sender, receiver) {
				at := fmt.Sprintf("%s %s %s", from.node, to.node, d.key)
				there := "switch " + to.node + ": stages.lds_ingress." + d.key
				if seen[at] || faulty.Has(there) {
					continue
				}
				seen[at] = true
				if line := c.SwitchLine(to.sw, "stages.lds_ingress."+d.key); line != 0 {
					there += fmt.Sprintf(", line %d", line)
				}
				faults = append(faults, c.SwitchFault(from.sw, "stages.lds_egress."+d.key,
					"%s at %s:%s, but %s at %s:%s, the other end of the link (%s): %s, so give both the same %s",
					d.from, from.node, from.port, d.to, to.node, to.port, there, d.effect(), d.key))
			}
		}
	}
	return errors.Join(faults...)
}

// measuring is the stage of a switch that has a measurement point of packets at a port; nil: there is none.
func measuring(sw *config.Config, stage, port string) *lds.Config {
	c, ok := sw.Stages[stage].(*lds.Config)
	if !ok || !slices.Contains(sw.Switch.Graph, stage) || len(c.Ports) > 0 && !slices.Contains(c.Ports, port) {
		return nil
	}
	return c
}

// difference is a key in which two ends of a link differ, with its values as the file may have them.
type difference struct{ key, from, to string }

// effect says what comes of it.
func (d *difference) effect() string {
	if d.key == "lost_flows" {
		return "flows that lose packets between the two cannot be named"
	}
	return "what the two count cannot be compared"
}

// differences are those of keys that both ends need equal, as lds.Config.Equal of telemetry/lds has them.
func differences(from, to *lds.Config) (list []difference) {
	add := func(key string, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			list = append(list, difference{key, x, y})
		}
	}
	add("rows", rowsOf(from), rowsOf(to))
	fromClasses, toClasses := from.Edges || len(from.Classes) > 0, to.Edges || len(to.Classes) > 0
	switch {
	case (from.Links || !fromClasses) && (to.Links || !toClasses): // both count the packets of the port
		add("columns", from.Columns, to.Columns)
	case fromClasses && toClasses:
		add("class_columns", cmp.Or(from.ClassColumns, from.Columns), cmp.Or(to.ClassColumns, to.Columns))
	}
	if rowsOf(from) == adapting && rowsOf(to) == adapting {
		add("record_bytes", from.RecordBytes, to.RecordBytes)
	}
	add("virtual", from.Virtual, to.Virtual)
	add("banks", banksOf(from), banksOf(to))
	add("interval_bits", from.IntervalBits, to.IntervalBits)
	add("interval_bit", from.IntervalBit, to.IntervalBit)
	add("seed", from.Seed, to.Seed)
	add("weight", weightsOf(from), weightsOf(to))
	if from.LostFlows != 0 && to.LostFlows != 0 { // else the one is for other points: what both count is compared all the same
		add("lost_flows", from.LostFlows, to.LostFlows)
	}
	return list
}

// weightsOf writes the weights of flows.
func weightsOf(c *lds.Config) string {
	if len(c.Weights) == 0 {
		return "none"
	}
	return fmt.Sprintf("%+v", c.Weights)
}

// checkIntervalBits reports switches that set intervals' bits in packets other than the ones that their measurement points read, or set none.
func checkIntervalBits(c *lab.Config, switches []*config.Config) error {
	var faults []error
	for i, sw := range switches {
		source, ok := sw.Stages["pint"].(*pint.Config)
		if !ok || !slices.Contains(sw.Switch.Graph, "pint") {
			continue
		}
		for _, stage := range []string{"lds_ingress", "lds_egress"} {
			reads, ok := sw.Stages[stage].(*lds.Config)
			if !ok || !slices.Contains(sw.Switch.Graph, stage) || !reads.IntervalBit {
				continue
			}
			switch {
			case source.IntervalBits == reads.IntervalBits, source.IntervalBits == 0 && len(source.Edge) == 0:
			case source.IntervalBits == 0:
				faults = append(faults, c.SwitchFault(i, "stages.pint.edge", "packets that come in here have no interval bit, which %s reads (interval_bit): give stages.pint interval_bits = %d", stage, reads.IntervalBits))
			default:
				faults = append(faults, c.SwitchFault(i, "stages.pint.interval_bits", "%d, but %s, which reads the bit (interval_bit), has interval_bits = %d: give both the same", source.IntervalBits, stage, reads.IntervalBits))
			}
		}
	}
	return errors.Join(faults...)
}

// checkEdges reports a lab whose switches run pint, and have no port where packets get their digest or end with it: nothing is measured then.
func checkEdges(c *lab.Config, switches []*config.Config) error {
	var faults []error
	for i, sw := range switches {
		s, ok := sw.Stages["pint"].(*pint.Config)
		if !ok || !slices.Contains(sw.Switch.Graph, "pint") {
			continue
		}
		if len(s.Edge) > 0 {
			return nil
		}
		var ports []string
		for _, cable := range c.Cables() {
			for end, text := range cable {
				node, port, _ := strings.Cut(text, ":")
				other, _, _ := strings.Cut(cable[1-end], ":")
				if node == c.Switches[i].Name && slices.ContainsFunc(c.Hosts, func(h lab.Host) bool { return h.Name == other }) {
					ports = append(ports, strconv.Quote(port))
				}
			}
		}
		if len(ports) > 0 {
			faults = append(faults, c.SwitchFault(i, "stages.pint.edge", "missing, at all switches of the lab, so no packet gets a digest: name the ports to hosts, edge = [%s]", strings.Join(ports, ", ")))
		}
	}
	return errors.Join(faults...)
}

// adapting are rows that adapt.
const adapting = "0 (as many as suit the flows)"

// rowsOf says how many rows the points of a stage have.
func rowsOf(c *lds.Config) string {
	switch {
	case c.Rows != 0:
		return fmt.Sprint(c.Rows)
	case c.Columns <= lds.FixedColumns || c.Virtual > 1 || banksOf(c) != "[]":
		return "4"
	}
	return adapting
}

// banksOf writes the sampling rates of rows; those that are all 1 are the default, none.
func banksOf(c *lds.Config) string {
	if !slices.ContainsFunc(c.Banks, func(rate float64) bool { return rate != 1 }) {
		return "[]"
	}
	return fmt.Sprint(c.Banks)
}
