package grade

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
)

// generated is the smallest prefix with the destinations of all generated flows.
func (t *truth) generated() netip.Prefix {
	var all netip.Prefix
	for _, k := range t.keys {
		if !all.IsValid() {
			all = netip.PrefixFrom(k.DstAddr(), k.DstAddr().BitLen())
		}
		for !all.Contains(k.DstAddr()) && all.Bits() > 0 {
			all = netip.PrefixFrom(all.Addr(), all.Bits()-1).Masked()
		}
	}
	if !all.IsValid() {
		return netip.MustParsePrefix("0.0.0.0/0")
	}
	return all
}

// flowTruth is what the far ends counted of a flow.
type flowTruth struct {
	packets, bytes, received float64
}

// truth is what the far ends counted of all generated flows.
type truth struct {
	flows          map[query.Key]flowTruth
	keys           []query.Key // those of most packets first
	packets, bytes float64     // sent
}

func newTruth(loads []lab.LoadCount) (*truth, error) {
	t := &truth{flows: map[query.Key]flowTruth{}}
	for _, l := range loads {
		for _, f := range l.Flows {
			k, err := query.ParseKey(f.Flow)
			if err != nil {
				return nil, err
			}
			sum, known := t.flows[k]
			if !known {
				t.keys = append(t.keys, k)
			}
			sum.packets += float64(f.Sent)
			sum.bytes += float64(f.SentBytes)
			sum.received += float64(f.Received)
			t.flows[k] = sum
			t.packets += float64(f.Sent)
			t.bytes += float64(f.SentBytes)
		}
	}
	slices.SortStableFunc(t.keys, func(a, b query.Key) int { return cmp.Compare(t.flows[b].packets, t.flows[a].packets) })
	return t, nil
}

// sent counts the flows of which a packet was sent.
func (t *truth) sent() (n float64) {
	for _, f := range t.flows {
		if f.packets > 0 {
			n++
		}
	}
	return n
}

// of is what was sent of a flow in a unit.
func (t *truth) of(k query.Key, unit string) float64 {
	if unit == oblivious.Bytes.String() {
		return t.flows[k].bytes
	}
	return t.flows[k].packets
}

// entropy of the flows' shares of the packets, in bits.
func (t *truth) entropy() (bits float64) {
	for _, f := range t.flows {
		if share := f.packets / t.packets; share > 0 {
			bits -= share * math.Log2(share)
		}
	}
	return bits
}

// heavy counts the flows of at least a share of all packets.
func (t *truth) heavy(theta float64) (n int) {
	for _, f := range t.flows {
		if f.packets >= theta*t.packets {
			n++
		}
	}
	return n
}

// passes names the switches that a flow passes; nil: its path is not known.
func (g *grader) passes(k query.Key) (names []string) {
	for _, id := range g.paths.Of(k) {
		names = append(names, g.name(id))
	}
	return names
}

// name is that of a switch by its id.
func (g *grader) name(id uint32) string {
	for _, sw := range g.paths.Switches {
		if sw.Switch.ID == id {
			return sw.Switch.Name
		}
	}
	return fmt.Sprint(id)
}

// switchReport is the last report of a switch; nil: there is none.
func (g *grader) switchReport(name string) *lab.SwitchReport {
	if e := g.switchEnd(name); e != nil {
		return e.Report
	}
	return nil
}

// switchEnd is how a switch ended; nil: there is no such switch.
func (g *grader) switchEnd(name string) *lab.SwitchEnd {
	for i := range g.lab.Switches {
		if g.lab.Switches[i].Name == name {
			return &g.lab.Switches[i]
		}
	}
	return nil
}

// measuredLatency is the range of a switch's own median latencies over its ports, in ns; 0: it measured none.
func (g *grader) measuredLatency(name string) (low, high float64) {
	r := g.switchReport(name)
	if r == nil || r.Pint == nil {
		return 0, 0
	}
	for _, m := range r.Pint.Measured {
		if m.Value != "hop_latency" || m.Packets == 0 {
			continue
		}
		if high == 0 {
			low = m.Median
		}
		low, high = min(low, m.Median), max(high, m.Median)
	}
	return low, high
}

// planned is how long the generated flows take at their rates, in seconds. Groups follow each other.
func (g *grader) planned() (seconds float64) {
	longest := map[string]float64{}
	for i, l := range g.lab.Config.Traffic {
		if l.Kind == lab.KindFlows {
			group := cmp.Or(l.Group, fmt.Sprint(i))
			longest[group] = max(longest[group], float64(l.Count)/float64(l.Rate))
		}
	}
	for _, s := range longest {
		seconds += s
	}
	return seconds
}

// wireOverhead is what a frame takes on the wire in addition to its bytes: preamble, FCS and gap.
const wireOverhead = 24

// leastUse is the mean use of the least used link to a host by generated flows while these were sent. Every packet to the
// host passes it, so packets met links of at least this use.
func (g *grader) leastUse(links []query.NetworkLink) (least float64) {
	seconds := g.lab.FlowsEnded.Sub(g.lab.FlowsBegan).Seconds()
	for _, l := range links {
		for _, end := range l.Ends {
			bits := 0.0
			for _, load := range g.lab.Truth {
				for _, f := range load.Flows {
					if load.To == end.Name && !end.HasSwitch {
						bits += 8 * float64(f.ReceivedBytes+wireOverhead*f.Received)
					}
				}
			}
			if use := bits / seconds / float64(l.Speed); bits > 0 && l.Speed > 0 && (least == 0 || use < least) {
				least = use
			}
		}
	}
	return least
}
