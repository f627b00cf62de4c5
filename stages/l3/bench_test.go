package l3

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// BenchmarkL3 is the cost of a packet through parse and l3, beside parse alone in
// the same form, by number of routes and of destinations, which are random ones
// in random routes and come in turn: the worst for the caches. Between batches
// the destinations are written anew, which is in both.
func BenchmarkL3(b *testing.B) {
	for _, six := range []bool{false, true} {
		for _, n := range []struct{ routes, destinations int }{{1, 1000}, {1000, 1000}, {100_000, 1000}, {100_000, 16_000}} {
			for _, with := range []bool{false, true} {
				name := fmt.Sprintf("v%d/routes=%d/destinations=%d/parse", 4+2*b2i(six), n.routes, n.destinations)
				if with {
					name += "+l3"
				}
				b.Run(name, func(b *testing.B) { benchmark(b, six, n.routes, n.destinations, with) })
			}
		}
	}
}

func b2i(v bool) int {
	if v {
		return 1
	}
	return 0
}

func benchmark(b *testing.B, six bool, routes, destinations int, with bool) {
	r := rand.New(rand.NewPCG(7, 7))
	c := testConfig()
	c.Routes = nil
	seen := map[netip.Prefix]bool{}
	var prefixes []netip.Prefix
	for len(prefixes) < routes {
		via, p := "10.0.2.2", netip.PrefixFrom(netip.AddrFrom4([4]byte{20 + byte(r.IntN(100)), byte(r.Uint32()), byte(r.Uint32()), 0}), 16+r.IntN(9)).Masked()
		if six {
			via, p = "fd00:2::2", netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(r.IntN(16)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}), 32+r.IntN(17)).Masked()
		}
		if !seen[p] {
			seen[p] = true
			prefixes = append(prefixes, p)
			c.Routes = append(c.Routes, Route{Prefix: p.String(), Via: []string{via}})
		}
	}
	bench := newBench(b, c)
	first, err := parse.New(parse.DefaultConfig(), testEnv(1))
	if err != nil {
		b.Fatal(err)
	}
	chain := []pipeline.Named{{Name: "parse", Module: first}}
	if with {
		chain = append(chain, pipeline.Named{Name: "l3", Module: bench.module})
	}
	g := pipeline.NewGraph(chain, 0)
	batch := bench.batch
	dst := "10.9.8.7"
	src := "10.0.1.2"
	if six {
		src, dst = "fd00:1::2", "fd09::1"
	}
	data := udp(b, src, dst, 64, 18)
	for range packet.BatchSize {
		addr, _ := batch.Frames.AllocOne()
		p := batch.Append()
		p.Addr = addr + headroom
		p.Len = uint32(copy(batch.Mem[p.Addr:], data))
		p.WireLen = p.Len
	}
	headers := make([][]byte, destinations)
	for i := range headers {
		headers[i] = randomised(r, data, prefixes[r.IntN(len(prefixes))])
	}
	batch.Now = bench.now
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch.Pkts {
			p := &batch.Pkts[i]
			copy(batch.Mem[p.Addr:][:64], headers[next][:min(64, len(data))])
			p.OutPort = packet.NoPort
			if next++; next == len(headers) {
				next = 0
			}
		}
		g.Run(batch)
	}
	if batch.Dropped != 0 || with && batch.Pkts[5].OutPort != 1 {
		b.Fatalf("%d dropped, %+v", batch.Dropped, batch.Pkts[5])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
}

// randomised returns the packet to a random address in a prefix.
func randomised(r *rand.Rand, data []byte, p netip.Prefix) []byte {
	d := append([]byte(nil), data...)
	a := p.Addr().AsSlice()
	a[len(a)-1] = byte(r.Uint32())
	if len(a) == 16 {
		copy(d[38:], a)
		return d
	}
	ip := header.IPv4At(d, 14)
	copy(ip[16:], a)
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:]))
	return d
}

// BenchmarkSetRoutes is what a change of 100,000 routes costs control; workers
// wait for none of it.
func BenchmarkSetRoutes(b *testing.B) {
	m, err := New(testConfig(), testEnv(1))
	if err != nil {
		b.Fatal(err)
	}
	routes := make([]Route, 100_000)
	for i := range routes {
		a := netip.AddrFrom4([4]byte{20 + byte(i>>16), byte(i >> 8), byte(i), 0})
		routes[i] = Route{Prefix: netip.PrefixFrom(a, 24).String(), Via: []string{"10.0.2.2"}}
	}
	for b.Loop() {
		if err := m.setRoutes(routes); err != nil {
			b.Fatal(err)
		}
	}
}
