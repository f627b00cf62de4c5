package grade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/stages/lds"
)

// passage is a flow over a relay, from one switch to another.
type passage struct {
	from, to string // switches
	relay    *relay.Truth
	flow     *relay.FlowTruth
}

// classes asks for delay and loss between each two switches that measure classes of traffic, over all relays between them: with
// ECMP a flow's packets pass some of these, and the truth is the sum of what those did.
func (g *grader) classes() error {
	byFlow := map[string][]passage{}
	for i := range g.lab.Relays {
		r := &g.lab.Relays[i]
		ends := g.ends(r)
		if len(ends) != 2 {
			continue
		}
		for j := range r.Flows {
			f := &r.Flows[j]
			if !g.asked(f.Flow) {
				continue
			}
			for port, from := range ends {
				for other, to := range ends {
					if port == f.From && other != port {
						byFlow[f.Flow] = append(byFlow[f.Flow], passage{from, to, r, f})
					}
				}
			}
		}
	}
	pairs := map[[2]string][]delayed{}
	late := map[[2]string]string{}
	for _, flow := range slices.Sorted(maps.Keys(byFlow)) {
		passed := byFlow[flow]
		pair, ok := endsOf(passed)
		if !ok || !g.measuresClasses(pair[0], "lds_egress") || !g.measuresClasses(pair[1], "lds_ingress") {
			continue
		}
		d := delayed{flow: flow}
		between, depth := map[string]bool{}, depths(passed, pair[0])
		hops := map[int]*hop{} // not all that passed one passed the next
		for _, p := range passed {
			d.dropped += p.flow.Dropped
			at := hops[depth[p.from]]
			if at == nil {
				at = &hop{}
				hops[depth[p.from]] = at
			}
			at.add(p.flow)
			if p.to == pair[1] {
				d.sent += p.flow.Sent
			} else {
				between[p.to] = true
			}
			if set := p.relay.Classes[p.flow.Class].Delay; p.flow.MeanNs > (1+MostHeldUp)*float64(set) {
				late[pair] = heldRelayUp
			}
		}
		dwelled := true
		for i, h := range hops {
			d.meanNs += h.delays / max(float64(h.sent), 1)
			if next := hops[i+1]; next != nil {
				waited, known := h.until(next)
				d.meanNs += waited
				dwelled = dwelled && known
			}
		}
		for name := range between {
			// What packets wait in a switch between the relays is in the answer. Where the relays' times do not show it, it is not in the truth.
			if dwelled {
				break
			}
			if _, high := g.measuredLatency(name); high > mostDwell*d.meanNs {
				late[pair] = fmt.Sprintf("the machine held %s up", name)
			}
		}
		pairs[pair] = append(pairs[pair], d)
	}
	for _, pair := range slices.SortedFunc(maps.Keys(pairs), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		d := Delay{From: pair[0], To: pair[1], line: g.lab.Config.Line(pair[0])}
		if err := g.compare(&d, pairs[pair], false, true, func() string { return late[pair] }); err != nil {
			return err
		}
	}
	return nil
}

// hop is what the relays did to a flow that are as many relays away from its source.
type hop struct {
	received, sent       uint64
	delays               float64
	arrivals, departures uint64 // modulo 2^64
}

func (h *hop) add(f *relay.FlowTruth) {
	h.received, h.sent = h.received+f.Received, h.sent+f.Sent
	h.delays += float64(f.Sent) * f.MeanNs
	h.arrivals, h.departures = h.arrivals+f.Arrivals, h.departures+f.Departures
}

// until is the mean time that packets waited between a hop and the next one; known if all came there.
func (h *hop) until(next *hop) (ns float64, known bool) {
	if h.sent == 0 || h.sent != next.received || h.departures == 0 {
		return 0, false
	}
	return float64(int64(next.arrivals-h.departures)) / float64(h.sent), true
}

// mostDwell is how much of a flow's delay its packets may wait in a switch between two relays, in the median, for wrong answers to be
// faults.
const mostDwell = 0.02

// ends are the switches next to a relay, by its ports.
func (g *grader) ends(r *relay.Truth) map[string]string {
	ends := map[string]string{}
	for _, l := range g.lab.Config.Links {
		for side, endpoint := range l.Endpoints {
			node, port, _ := strings.Cut(endpoint, ":")
			other, _, _ := strings.Cut(l.Endpoints[1-side], ":")
			if node == r.Name && g.hasSwitch(other) {
				ends[port] = other
			}
		}
	}
	return ends
}

// endsOf are the switches at which the relays that a flow passed begin and end; false: these are no path.
func endsOf(passed []passage) (pair [2]string, ok bool) {
	from, to := map[string]bool{}, map[string]bool{}
	for _, p := range passed {
		from[p.from], to[p.to] = true, true
	}
	for name := range from {
		if to[name] {
			delete(to, name)
			delete(from, name)
		}
	}
	if len(from) != 1 || len(to) != 1 {
		return pair, false
	}
	for name := range from {
		pair[0] = name
	}
	for name := range to {
		pair[1] = name
	}
	return pair, true
}

// depths is how many relays a flow has passed at each switch.
func depths(passed []passage, first string) map[string]int {
	depth := map[string]int{first: 0}
	for range passed {
		for _, p := range passed {
			if n, ok := depth[p.from]; ok && p.to != first {
				depth[p.to] = n + 1
			}
		}
	}
	return depth
}

// measuresClasses reports whether the points of a switch's stage are of classes.
func (g *grader) measuresClasses(name, stage string) bool {
	return slices.ContainsFunc(g.paths.Switches, func(sw *config.Config) bool {
		c, ok := sw.Stages[stage].(*lds.Config)
		return sw.Switch.Name == name && slices.Contains(sw.Switch.Graph, stage) && ok && (c.Edges || len(c.Classes) > 0)
	})
}

func (g *grader) hasSwitch(name string) bool {
	return slices.ContainsFunc(g.paths.Switches, func(sw *config.Config) bool { return sw.Switch.Name == name })
}
