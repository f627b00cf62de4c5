package paper

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
)

func num(name string, d float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return v
	}
	return d
}

func TestExpReno(t *testing.T) {
	if os.Getenv("EXP") != "reno" {
		t.Skip("experiment")
	}
	o := Options{Seed: uint64(num("SEED", 1))}
	var all []scenario
	over := []int{0, 48, 108}
	for _, b := range over {
		s, err := renoScenario(o, int(num("LOAD", 70)), b)
		if err != nil {
			t.Fatal(err)
		}
		ms := event.Time(num("MS", 200)) * event.Millisecond
		f := &s.config.Fabric
		if num("TRUNK", 10) == 40 {
			tr := fabric.Tree{Pods: 4, Racks: 2, Aggregations: 2, Core: 4, Hosts: 8}
			f.Graph, _ = tr.Graph()
			f.TrunkRate = 40e9
		}
		f.QueueLimit = int64(num("QUEUE", 150000))
		s.config.Reno = &transport.Reno{InitialSegments: int(num("IW", 10)), MinRTO: event.Time(num("RTO", 5) * float64(event.Millisecond))}
		sizes, _ := flowSizes(o, transport.WebSearch)
		s.config.Deadline = 1000 * ms
		s.flows, _ = transport.Arrivals{Hosts: 64, Sizes: sizes, Load: num("LOAD", 70) / 100, Rate: 10e9, Until: ms, Seed: o.Seed}.Flows()
		all = append(all, s)
	}
	out, err := simulate(context.Background(), o, all)
	if err != nil {
		t.Fatal(err)
	}
	g0, n := out[0].longGoodput()
	for i, b := range over {
		g, _ := out[i].longGoodput()
		fmt.Printf("%d B: fct %.4f s (%.4f), goodput %.3f Gbit/s (%.4f) n=%d, events %.1fM cpu %.1fs span %.3f\n", b, out[i].meanFCT(), out[i].meanFCT()/out[0].meanFCT(), g/1e9, g/g0, n, float64(out[i].speed.events)/1e6, out[i].speed.cpu.Seconds(), out[i].speed.span)
	}
}
