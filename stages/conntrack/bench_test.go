package conntrack

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// BenchmarkSteer measures how long it takes to find the home of a packet, by its ends, by an inside address and by an outside port.
func BenchmarkSteer(b *testing.B) {
	for _, c := range []struct {
		name   string
		config Config
		probe  probe
	}{
		{"plain", DefaultConfig(), udpProbe(0, client, server)},
		{"inside", natConfig(), udpProbe(0, "10.0.0.1:1", "198.51.100.7:53")},
		{"outside", natConfig(), udpProbe(1, "198.51.100.7:53", outsideAddr+":2000")},
	} {
		b.Run(c.name, func(b *testing.B) {
			testWorkers = 2
			defer func() { testWorkers = 1 }()
			r := newRig(b, c.config)
			for range packet.BatchSize {
				r.put(c.probe.port, c.probe.frame())
			}
			r.batch.Now = r.now
			r.parse.Process(r.batch)
			homes := make([]uint8, packet.BatchSize)
			n := 0
			for b.Loop() {
				r.Steer(0, r.batch, 0, homes)
				n += packet.BatchSize
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
		})
	}
}

// BenchmarkProcess measures the stage without the parser, per packet of 60 bytes, over connections of UDP that come at random, and
// over as many packets that each begin a new one and displace the oldest.
func BenchmarkProcess(b *testing.B) {
	for _, c := range []struct {
		flows int
		fresh bool
	}{{10_000, false}, {1_000_000, false}, {1_000_000, true}} {
		name := fmt.Sprintf("flows=%d", c.flows)
		if c.fresh {
			name = "new"
		}
		b.Run(name, func(b *testing.B) {
			config := DefaultConfig()
			config.Connections = 3 * (c.flows + 1)
			r := newRig(b, config)
			q := udpProbe(0, client, server)
			frame := q.frame()
			for range packet.BatchSize {
				r.put(0, frame)
			}
			r.batch.Now = r.now
			r.parse.Process(r.batch)
			next := uint32(0)
			batch := func(pick func() uint32) {
				for i := range r.batch.Pkts {
					p := &r.batch.Pkts[i]
					n := pick()
					binary.BigEndian.PutUint32(r.batch.Data(p)[26:], 0x0a000000+n>>8)
					p.SrcPort = uint16(1024 + n&255)
				}
				r.now += 1000
				r.batch.Now = r.now
				r.stage.Process(r.batch)
			}
			inTurn := func() uint32 { next++; return next }
			for range c.flows/packet.BatchSize + 1 {
				batch(inTurn)
			}
			random := rand.New(rand.NewPCG(1, 1))
			pick := func() uint32 { return 1 + uint32(random.IntN(c.flows)) }
			if c.fresh {
				pick = inTurn
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				batch(pick)
				n += packet.BatchSize
			}
			if r.batch.Dropped != 0 {
				b.Fatalf("%d packets dropped", r.batch.Dropped)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
		})
	}
}
