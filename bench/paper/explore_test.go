package paper

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
)

func TestExplore(t *testing.T) {
	if os.Getenv("EXPLORE") == "" {
		t.Skip()
	}
	net, _ := dsFatTree()
	ws, err := transport.LoadDistribution(netsim.DataDir(), transport.WebSearch)
	if err != nil {
		t.Fatal(err)
	}
	hd, _ := transport.LoadDistribution(netsim.DataDir(), transport.Hadoop)
	for _, name := range strings.Split(os.Getenv("EXPLORE"), ",") {
		var tr *workload.Trace
		switch name {
		case "synthetic":
			tr, err = workload.Synthetic{Packets: 200_000, Flows: 20_000, Seconds: 5, Seed: 1}.Trace()
		case "bursty":
			tr, err = workload.OnOff{Packets: 200_000, Seconds: 5, Sizes: []func(float64) float64{ws.Quantile, hd.Quantile}, Seed: 1}.Trace()
		default:
			tr, err = dsRealmix(Options{Seed: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		tt, err := newDSTraffic(net, tr, 1)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(name, tr.Name, tt.packets, len(tt.flows))
		for _, bytes := range []int{400, 800, 3200, 51200} {
			if name == "realmix" {
				bytes *= 10
			}
			mem := dsMemories(20, bytes, true, 1)
			d, _ := tt.disco(disketch.CountSketch, mem, 1)
			fmt.Printf("%s %d disco %.4f |", name, bytes, math.Sqrt(tt.squares(d, 5)))
			for _, how := range []dsHow{dsFixed, dsCentral, dsAutonomous, dsCoordinated} {
				o, err := tt.run(context.Background(), dsRun{kind: disketch.CountSketch, memory: mem, seed: 1, how: how, trials: 2000, ways: []disketch.Composition{disketch.Rows, disketch.Likeliest}, wanted: func(f *dsFlow) bool { return len(f.path) == 5 }})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Printf(" how%d n%.1f", how, o.subepochs)
				for i := range o.estimate {
					fmt.Printf(" %.4f", math.Sqrt(tt.squares(o.estimate[i], 5)))
				}
			}
			fmt.Println()
		}
	}
}
