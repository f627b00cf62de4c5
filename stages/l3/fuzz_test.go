package l3

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline"
)

// seeds are packets of every kind that the stage knows.
func seeds(t testing.TB) [][]byte {
	none := make(net.HardwareAddr, 6)
	mac := net.HardwareAddr{2, 0xaa, 0, 0, 2, 2}
	return [][]byte{
		udp(t, "10.0.1.2", "10.9.8.7", 9, 10), udp(t, "fd00:1::2", "fd09::1", 9, 10),
		udp(t, "10.0.1.2", "10.9.8.7", 1, 700), udp(t, "fd00:1::2", "fd09::1", 1, 1400),
		udp(t, "10.0.1.2", "10.0.3.2", 9, 1420), udp(t, "10.0.1.2", "10.0.3.9", 9, 10), udp(t, "fd00:1::2", "fd00:3::9", 9, 10),
		udp(t, "10.0.1.2", "10.0.1.1", 9, 10), udp(t, "fd00:1::2", "fd00:1::1", 9, 10), udp(t, "10.0.1.9", "192.0.2.1", 9, 10),
		arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.2", none, "10.0.1.1"), arpFrame(t, ownMAC(0), hostMAC, 2, "10.0.1.9", ownMAC(0), "10.0.1.1"),
		neighbourFrame(t, net.HardwareAddr{0x33, 0x33, 0xff, 0, 0, 1}, hostMAC, "fd00:1::2", "ff02::1:ff00:1", 135, 0, "fd00:1::1", layers.ICMPv6OptSourceAddress, hostMAC),
		neighbourFrame(t, ownMAC(0), mac, "fd00:1::9", "fd00:1::1", 136, 0x60, "fd00:1::9", layers.ICMPv6OptTargetAddress, mac),
		frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv4), ip4("10.0.1.2", "10.0.1.1", 9, layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)}),
		frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv6), ip6("fe80::5", "fd00:1::1", 9, layers.IPProtocolICMPv6),
			&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}, &layers.ICMPv6Echo{}),
	}
}

// FuzzRouter takes any bytes through parse and l3: nothing may panic, frames and
// books must add up (bench.run looks), and what the trace says must be had.
func FuzzRouter(f *testing.F) {
	for i, s := range seeds(f) {
		f.Add(s, uint8(i))
	}
	b := newBench(f, dynamicConfig())
	f.Fuzz(func(t *testing.T, data []byte, port uint8) {
		if len(data) > 1700 {
			return
		}
		b.TB = t
		b.now += int64(50 * time.Millisecond)
		b.graph.SetTracer(nil)
		if port&4 != 0 {
			b.graph.SetTracer(pipeline.NewTracer(2, nil))
		}
		b.run(in{uint16(port % 4), data}, in{0, data})
	})
}

// TestMutated does as the fuzzer, with the seeds changed and cut, in batches,
// with neighbours that answer now and then, and the clock going on, or back.
func TestMutated(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	c := dynamicConfig()
	c.Routes = append(c.Routes, Route{Prefix: "0.0.0.0/0", Via: []string{"10.0.2.2", "10.0.3.2"}})
	c.NeighbourTable = 64
	b := newBench(t, c)
	all := seeds(t)
	for range 10000 {
		var batch []in
		for range 1 + r.IntN(8) {
			data := append([]byte(nil), all[r.IntN(len(all))]...)
			port := uint16(0)
			if r.IntN(4) == 0 {
				port = uint16(r.IntN(4))
			}
			for range max(0, r.IntN(5)-2) {
				data[r.IntN(min(len(data), 90))] = byte(r.Uint32() >> r.IntN(8))
			}
			if r.IntN(8) == 0 {
				data = data[:r.IntN(len(data)+1)]
			}
			batch = append(batch, in{port, data})
		}
		if r.IntN(10) == 0 { // gateways answer now and then
			batch = append(batch, in{1, arpFrame(t, ownMAC(1), hostMAC, 2, "10.0.2.2", ownMAC(1), "10.0.2.1")},
				in{1, neighbourFrame(t, ownMAC(1), hostMAC, "fd00:2::2", "fd00:2::1", 136, 0x60, "fd00:2::2", layers.ICMPv6OptTargetAddress, hostMAC)})
		}
		b.run(batch...)
		b.now += int64(r.IntN(int(100 * time.Millisecond)))
		if r.IntN(200) == 0 {
			b.now += int64(r.IntN(200)-50) * int64(time.Second)
		}
		if t.Failed() {
			t.Fatalf("batch %x", batch)
		}
	}
	for _, reason := range []string{"ttl_expired", "bad_checksum", "not_for_us", "neighbour_pending", "neighbour_unreachable", "mtu_exceeded", "no_listener"} {
		if b.got.reasons[reason] == 0 {
			t.Errorf("no packet was dropped for %s: %v", reason, b.got.reasons)
		}
	}
	if b.got.forwarded < 1000 || b.got.copiesOut < 1000 {
		t.Errorf("%+v", b.got)
	}
}
