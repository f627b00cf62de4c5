package paper

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
)

// pintFig1 is what bytes of telemetry cost TCP Reno (section 2): the mean flow completion time at 30 and 70 % of load,
// web search, 64 hosts at 10 Gbit/s in a fat tree of 5 hops, over that without such bytes. fct.48B.load70 is the row of 48 bytes on each packet.
func pintFig1(ctx context.Context, o Options) ([]Row, error) {
	return renoFigure(ctx, o, "fct", "mean flow completion time over that without overhead, Reno, web search; PINT Fig. 1", "lower",
		map[string]float64{"48B.load70": 1.10, "108B.load70": 1.25}, (*simulated).meanFCT)
}

// renoOverheads are one to five values of INT at each of five hops, behind a header of 8 bytes.
var renoOverheads = []int{28, 48, 68, 88, 108}

var renoLoads = []int{30, 70}

// renoArrivals is how long flows arrive in a full run. What overhead costs shows when queues of flows have built up, so
// that short runs show less of it.
const renoArrivals = 200 * event.Millisecond

// renoFigure measures one figure of each simulated and divides it by that without overhead.
func renoFigure(ctx context.Context, o Options, name, source, better string, reference map[string]float64, measure func(*simulated) float64) ([]Row, error) {
	var all []scenario
	for _, load := range renoLoads {
		for _, overhead := range append([]int{0}, renoOverheads...) {
			s, err := renoScenario(o, load, overhead)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	out, err := simulate(ctx, o, all)
	if err != nil {
		return nil, err
	}
	var t table
	for i, load := range renoLoads {
		of := out[i*(len(renoOverheads)+1):]
		base := measure(&of[0])
		if base == 0 { // no flow is long
			return nil, fmt.Errorf("%s at %d %% of load: no flow of the workload counts", name, load)
		}
		for k, overhead := range renoOverheads {
			at := fmt.Sprintf("%dB.load%d", overhead, load)
			value := measure(&of[1+k]) / base
			if want, ok := reference[at]; ok {
				t.against(name+"."+at, "ratio", value, want, source, better)
			} else {
				t.add(name+"."+at, "ratio", value, source, better)
			}
		}
	}
	addSpeed(&t, out)
	return t, nil
}

// renoTree has 64 hosts, 5 hops and links of one rate, as many up as down at each switch.
var renoTree = fabric.Tree{Pods: 4, Racks: 2, Aggregations: 8, Core: 16, Hosts: 8}

// renoScenario is Reno with bytes of overhead on each packet. MTU-sized packets grow by them, and so do
// acknowledgements. Flows are the same with all overheads.
func renoScenario(o Options, load, overhead int) (scenario, error) {
	g, err := renoTree.Graph()
	if err != nil {
		return scenario{}, err
	}
	sizes, err := flowSizes(o, transport.WebSearch)
	if err != nil {
		return scenario{}, err
	}
	const rate = 10_000_000_000
	arrivals := renoArrivals
	if o.Quick {
		arrivals /= 4
	}
	c := transport.Config{
		Fabric: fabric.Config{
			Graph: g, Hosts: renoTree.Hosts, HostRate: rate, TrunkRate: rate, Delay: event.Microsecond,
			Buffer: 32 << 20, QueueLimit: renoQueue, Seed: o.Seed,
		},
		Reno:    &transport.DefaultReno,
		Payload: 1460, HeaderBytes: 40 + 18, TelemetryBytes: overhead, AckBytes: 40 + 24,
		Deadline: 100 * arrivals, Seed: o.Seed,
	}
	flows, err := transport.Arrivals{
		Hosts: renoTree.Pods * renoTree.Racks * renoTree.Hosts, Sizes: sizes, Load: float64(load) / 100, Rate: rate, Until: arrivals, Seed: o.Seed,
	}.Flows()
	return scenario{fmt.Sprintf("%d%%, %d bytes", load, overhead), c, flows}, err
}

// renoQueue bounds a queue: 100 packets, as devices of ns-3 have by default.
const renoQueue = 150_000
