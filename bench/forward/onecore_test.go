package forward

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/patch"
)

// BenchmarkOneCore is what a device's own work costs, ns per packet: its guests send and receive on the same core, outside of the clock, so that no
// line of memory goes from core to core.
func BenchmarkOneCore(b *testing.B) {
	for _, ports := range []Ports{PortsMemif, PortsVhost} {
		b.Run(string(ports), func(b *testing.B) { benchmarkOneCore(b, ports) })
	}
}

func benchmarkOneCore(b *testing.B, ports Ports) {
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := hugePages(); err != nil && ports == PortsVhost { // its guests' memory
		b.Skip(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 8192, FrameSize: 2048})
	check(err)
	cache := pool.NewCache()
	batch := packet.NewBatch(cache, packet.BatchSize)
	dir := b.TempDir()
	var devices [2]port.Port
	var queues [2]port.Queue
	var sockets [2]string
	for i := range devices {
		c := port.DefaultConfig()
		c.Name, c.Driver, c.Socket = fmt.Sprintf("p%d", i), string(ports), filepath.Join(dir, fmt.Sprintf("v%d", i))
		sockets[i] = c.Socket
		if ports == PortsMemif {
			devices[i], err = port.NewMemif(c, 2048)
		} else {
			devices[i], err = port.NewVhost(c, 2048)
		}
		check(err)
		queues[i], err = devices[i].Open(uint16(i), 0, cache)
		check(err)
	}
	config := DefaultConfig()
	config.Ports = ports
	g, err := dialGuests(&config, sockets, false, false, []int{64})
	check(err)
	defer g.close()
	for devices[0].Info().State != port.StateUp || devices[1].Info().State != port.StateUp {
		time.Sleep(time.Millisecond)
	}
	names := []pipeline.Port{{Name: "p0"}, {Name: "p1"}}
	pm, err := parse.New(parse.DefaultConfig(), pipeline.Env{Ports: names, Workers: 1})
	check(err)
	tm, err := patch.New(patch.Config{Pairs: [][2]string{{"p0", "p1"}}}, pipeline.Env{Ports: names, Workers: 1})
	check(err)
	graph := pipeline.NewGraph([]pipeline.Named{{Name: "parse", Module: pm}, {Name: "patch", Module: tm}}, 0)
	for _, e := range g.ends {
		check(e.begin())
		defer e.end()
	}
	flow := g.flow
	idx := make([]uint16, packet.BatchSize)
	for i := range idx {
		idx[i] = uint16(i)
	}
	var spent [4]time.Duration
	packets := 0
	b.ResetTimer()
	for packets < b.N {
		for _, e := range g.ends {
			e.send(512, flow)
		}
		for range 8 {
			for i := range queues {
				t0 := time.Now()
				n := queues[i].Receive(batch)
				t1 := time.Now()
				if n == 0 {
					continue
				}
				graph.Run(batch)
				t2 := time.Now()
				packets += n
				if queues[1-i].Transmit(batch, idx[:n]) != n {
					b.Fatal("not taken")
				}
				t3 := time.Now()
				batch.Reset()
				spent[0] += t1.Sub(t0)
				spent[1] += t2.Sub(t1)
				spent[2] += t3.Sub(t2)
			}
		}
		t0 := time.Now()
		for _, e := range g.ends {
			e.receive()
		}
		spent[3] += time.Since(t0)
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(packets) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(per(spent[0]), "rx-ns")
	b.ReportMetric(per(spent[1]), "graph-ns")
	b.ReportMetric(per(spent[2]), "tx-ns")
	b.ReportMetric(per(spent[0]+spent[1]+spent[2]), "sum-ns")
	b.ReportMetric(per(spent[3]), "skip-ns")
}
