package stages_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/tunnel"
)

// The ports of the test's switches: a station's, the underlay's and the tunnel's.
const station, under, tun = 0, 1, 2

// bed is a bridge with a tunnel, and its one worker.
type bed struct {
	t     *testing.T
	graph *pipeline.Graph
	batch *packet.Batch
	now   int64
	mac   [6]byte
}

type frame struct {
	port   uint16
	reason packet.Reason
	data   []byte
}

func newBed(t *testing.T, id uint32, own string, tc tunnel.Tunnel, more func(*tunnel.Config)) *bed {
	t.Helper()
	c := tunnel.DefaultConfig()
	c.Underlays = []tunnel.Underlay{{Port: "up", Addresses: []string{own}, MAC: fmt.Sprintf("02:00:00:00:00:%02x", id)}}
	tc.Port = "vx"
	c.Tunnels = []tunnel.Tunnel{tc}
	if more != nil {
		more(&c)
	}
	env := pipeline.Env{ID: id, Workers: 1, Ports: []pipeline.Port{{Name: "vm"}, {Name: "up", MTU: 1500}, {Name: "vx"}}}
	chain, err := stages.Build([]string{"parse", "tunnel", "l2", "encap"}, map[string]any{"tunnel": &c}, env)
	if err != nil {
		t.Fatal(err)
	}
	stages.Inline(chain)
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &bed{t: t, graph: pipeline.NewGraph(chain, 0), batch: packet.NewBatch(pool.NewCache(), 256), now: int64(time.Hour), mac: [6]byte{2, 0, 0, 0, 0, byte(id)}}
}

// run sends packets through the switch, and returns what leaves and what is dropped.
func (s *bed) run(port uint16, packets ...[]byte) (out []frame) {
	b := s.batch
	b.Now = s.now
	for _, data := range packets {
		addr, _ := b.Frames.AllocOne()
		p := b.Append()
		p.Addr, p.Len, p.WireLen, p.InPort = addr+256, uint32(len(data)), uint32(len(data)), port
		copy(b.Data(p), data)
	}
	s.graph.Run(b)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		out = append(out, frame{p.OutPort, p.Reason, b.AppendBytes(nil, p)})
		b.Frames.FreePacket(p)
	}
	b.Reset()
	return out
}

// one wants a single packet that leaves by a port.
func one(t *testing.T, out []frame, port uint16) []byte {
	t.Helper()
	var data []byte
	for _, f := range out {
		if f.reason == 0 && f.port == port {
			if data != nil {
				t.Fatalf("more than one packet leaves by %d", port)
			}
			data = f.data
		}
	}
	if data == nil {
		t.Fatalf("no packet leaves by port %d: %v", port, out)
	}
	return data
}

func dropped(t *testing.T, out []frame, reason packet.Reason) {
	t.Helper()
	if len(out) != 1 || out[0].reason != reason {
		t.Errorf("got %v, want one packet dropped: %s", out, reason)
	}
}

// inner makes an Ethernet packet with UDP over IPv4, or IPv6.
func inner(dst, src byte, six bool, tos uint8, payload int) []byte {
	d := make([]byte, 14, 2048)
	d[5], d[11], d[0], d[6] = dst, src, 2, 2
	udp := make([]byte, 8+payload)
	udp[0], udp[1], udp[3], udp[4], udp[5] = 1, src, dst, byte(len(udp)>>8), byte(len(udp))
	for i := range payload {
		udp[8+i] = byte(i * 7)
	}
	if six {
		d[12], d[13] = 0x86, 0xdd
		var ip header.IPv6
		ip.Init([16]byte{0: 0xfd, 15: src}, [16]byte{0: 0xfd, 15: dst}, 17, 64, len(udp))
		ip[0] |= tos >> 4
		ip[1] |= tos << 4
		udp[6], udp[7] = 0x12, 0x34
		return append(append(d, ip[:]...), udp...)
	}
	d[12] = 8
	var ip header.IPv4
	ip.Init([4]byte{10, 0, 0, src}, [4]byte{10, 0, 0, dst}, 17, 64, tos, 7, 20+len(udp))
	return append(append(d, ip[:]...), udp...)
}

var beds = []struct {
	name, a, b string
	kind       string
}{
	{"vxlan over IPv4", "192.0.2.1/24", "192.0.2.2/24", "vxlan"},
	{"vxlan over IPv6", "2001:db8::1/64", "2001:db8::2/64", "vxlan"},
	{"geneve over IPv4", "192.0.2.1/24", "192.0.2.2/24", "geneve"},
	{"geneve over IPv6", "2001:db8::1/64", "2001:db8::2/64", "geneve"},
}

// pair makes two switches with a tunnel between, and has them find each other.
func pair(t *testing.T, a, b, kind string, more func(*tunnel.Config)) (left, right *bed) {
	end := func(s string) string { return netip.MustParsePrefix(s).Addr().String() }
	left = newBed(t, 1, a, tunnel.Tunnel{Kind: kind, VNI: 0x123456, Remotes: []string{end(b)}}, more)
	right = newBed(t, 2, b, tunnel.Tunnel{Kind: kind, VNI: 0x123456, Remotes: []string{end(a)}}, more)
	out := left.run(station, inner(9, 1, false, 0, 10))
	request := one(t, out, under)
	reply := one(t, right.run(under, request), under)
	left.run(under, reply)
	// The asked one has learned nothing of who is no next hop of a packet yet, but its end is one.
	if right.run(station, inner(8, 2, false, 0, 10))[0].reason != 0 {
		t.Error("the switch that was asked does not know who asked")
	}
	return left, right
}

// TestTunnel sends packets through two switches, both directions, and wants them back as they were.
func TestTunnel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range beds {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, c.a, c.b, c.kind, nil)
			for range 2000 {
				from, to, src, dst := a, b, byte(1), byte(2)
				if r.IntN(2) == 0 {
					from, to, src, dst = b, a, 2, 1
				}
				ecn := uint8(r.IntN(4))
				data := inner(dst, src, r.IntN(2) == 0, ecn, r.IntN(1350))
				outer := one(t, from.run(station, data), under)
				if c.a[0] == '1' && !bytes.Equal(outer[40:42], []byte{0, 0}) {
					t.Fatal("a UDP checksum over IPv4")
				}
				if len(outer) < 60 {
					t.Fatal("short")
				}
				if got := one(t, to.run(under, outer), station); !bytes.Equal(got, data) {
					t.Fatalf("got  %x\nwant %x", got, data)
				}
			}
		})
	}
}

// TestTunnelECN compares both ends with the table of RFC 6040, written out.
func TestTunnelECN(t *testing.T) {
	const dropIt = 9
	// by inner and outer bits: Not-ECT, ECT(1), ECT(0), CE
	want := [4][4]int{
		0: {0, 0, 0, dropIt},
		1: {1, 1, 1, 3},
		2: {2, 1, 2, 3},
		3: {3, 3, 3, 3},
	}
	for _, c := range beds {
		a, b := pair(t, c.a, c.b, c.kind, func(c *tunnel.Config) { c.ZeroChecksum6 = true })
		for _, six := range []bool{false, true} {
			for in := range uint8(4) {
				outer := one(t, a.run(station, inner(2, 1, six, in|0x28<<2, 20)), under)
				for mark := range uint8(4) {
					d := bytes.Clone(outer)
					if d[12] == 8 {
						ip := header.IPv4At(d, 14)
						if ip.TOS() != in {
							t.Errorf("%s: the outer TOS is %#x, the inner ECN %d", c.name, ip.TOS(), in)
						}
						ip.SetTOS(mark)
					} else {
						if header.IPv6At(d, 14).TrafficClass() != in {
							t.Errorf("%s: the outer class is %#x, the inner ECN %d", c.name, header.IPv6At(d, 14).TrafficClass(), in)
						}
						d[15] = d[15]&^0x30 | mark<<4
					}
					out := b.run(under, d)
					if want[in][mark] == dropIt {
						dropped(t, out, tunnel.ReasonECN)
						continue
					}
					got := one(t, out, station)
					if !bytes.Equal(got, inner(2, 1, six, uint8(want[in][mark])|0x28<<2, 20)) {
						t.Errorf("%s: inner %d, outer %d: got %x", c.name, in, mark, got)
					}
				}
			}
		}
	}
}

// TestTunnelRefuses counts each malformed or foreign packet by its reason.
func TestTunnelRefuses(t *testing.T) {
	for _, c := range beds {
		a, b := pair(t, c.a, c.b, c.kind, nil)
		outer := one(t, a.run(station, inner(2, 1, false, 0, 30)), under)
		udp := 14 + 20
		if outer[12] != 8 {
			udp = 14 + 40
		}
		six := udp != 34
		for _, f := range []struct {
			name   string
			reason packet.Reason
			change func(d []byte) []byte
		}{
			{"VNI", tunnel.ReasonUnknownVNI, func(d []byte) []byte { d[udp+12]++; return d }},
			{"UDP length", tunnel.ReasonMalformed, func(d []byte) []byte { d[udp+5]--; return d }},
			{"checksum", tunnel.ReasonChecksum, func(d []byte) []byte { d[udp+6], d[udp+7] = 1, 2; return d }},
			{"source", tunnel.ReasonRemote, func(d []byte) []byte {
				if six {
					d[14+23]++
				} else {
					d[14+15]++
					header.IPv4At(d, 14).SetTTL(64)
				}
				return d
			}},
			{"other port", tunnel.ReasonUnderlay, func(d []byte) []byte { d[udp+3]++; return d }},
			{"ours", 0, func(d []byte) []byte { return d }},
			{"padding", 0, func(d []byte) []byte { return append(d, 0, 0, 0) }},
			{"reserved bits", 0, func(d []byte) []byte {
				d[udp+15] = 0xff
				if c.kind == "vxlan" {
					d[udp+8] |= 0xf7
				}
				return d
			}},
			{"flag I", tunnel.ReasonMalformed, func(d []byte) []byte {
				if c.kind == "geneve" {
					d[udp+8] = 0x40 // version 1
				} else {
					d[udp+8] = 0
				}
				return d
			}},
		} {
			d := f.change(bytes.Clone(outer))
			// What changed behind the IP header has a right checksum over IPv6, but where that is the point.
			if six && f.name != "checksum" {
				end := udp + int(d[udp+4])<<8 + int(d[udp+5])
				d[udp+6], d[udp+7] = 0, 0
				sum := ^header.Sum(d[udp:end], header.PseudoSum6(header.IPv6At(d, 14), 17, end-udp))
				d[udp+6], d[udp+7] = byte(sum>>8), byte(sum)
			}
			if f.name == "source" && !six {
				ip := header.IPv4At(d, 14)
				ip.Init(ip.Src(), ip.Dst(), 17, 64, 0, 0, ip.TotalLen())
			}
			out := b.run(under, d)
			if f.reason == 0 {
				if got := one(t, out, station); !bytes.Equal(got, inner(2, 1, false, 0, 30)) {
					t.Errorf("%s, %s: got %x", c.name, f.name, got)
				}
				continue
			}
			if len(out) != 1 || out[0].reason != f.reason {
				t.Errorf("%s, %s: got %v, want %s", c.name, f.name, out[0].reason, f.reason)
			}
		}
	}
}

// TestTunnelFloods has each end get one copy, and the underlay nothing else.
func TestTunnelFloods(t *testing.T) {
	s := newBed(t, 1, "192.0.2.1/24", tunnel.Tunnel{Kind: "vxlan", VNI: 5, Remotes: []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"}}, nil)
	for last := byte(2); last <= 4; last++ {
		var d [60]byte
		copy(d[:], []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, last, 8, 6})
		header.ARPAt(d[:], 14).Init(header.ARPReply, [6]byte{2, 0, 0, 0, 1, last}, [4]byte{192, 0, 2, last}, s.mac, [4]byte{192, 0, 2, 1})
		s.run(under, d[:])
	}
	data := inner(0xff, 1, false, 0, 30)
	copy(data, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	seen := map[byte]int{}
	for _, f := range s.run(station, data, data) {
		if f.reason != 0 || f.port != under || !bytes.Equal(f.data[50:], data) {
			t.Errorf("%v", f)
		}
		seen[f.data[33]]++
	}
	if len(seen) != 3 || seen[2] != 2 || seen[3] != 2 || seen[4] != 2 {
		t.Errorf("copies by end: %v", seen)
	}
	// What came out of the tunnel does not go into it again.
	outer := make([]byte, 0, 200)
	for _, f := range s.run(station, data) {
		if f.data[33] == 2 {
			outer = append(outer, f.data...)
		}
	}
	ip := header.IPv4At(outer, 14)
	ip.Init([4]byte{192, 0, 2, 2}, [4]byte{192, 0, 2, 1}, 17, 64, 0, 0, ip.TotalLen())
	outer[50+11] = 77 // of a station that is not the switch's own
	out := s.run(under, outer)
	if len(out) != 1 || out[0].port != station || out[0].reason != 0 {
		t.Errorf("got %v, want one packet to the station", out)
	}
}

// TestTunnelTooLong wants an ICMP error, with the next batch, for what exceeds the underlay's MTU, but not about a packet that is flooded: the
// bridge would learn from it that the station is in the tunnel.
func TestTunnelTooLong(t *testing.T) {
	a, b := pair(t, "192.0.2.1/24", "192.0.2.2/24", "vxlan", nil)
	dropped(t, a.run(station, inner(2, 1, true, 0, 1500-50-40-8+1)), tunnel.ReasonTooLong)
	if out := a.run(station, inner(2, 1, true, 0, 10)); len(out) != 1 || out[0].port != under {
		t.Errorf("about a station that is not known: %v", out)
	}
	a.run(under, one(t, b.run(station, inner(1, 2, false, 0, 30)), under))
	fits := inner(2, 1, true, 0, 1500-50-40-8)
	one(t, a.run(station, fits), under)
	dropped(t, a.run(station, inner(2, 1, true, 0, 1500-50-40-8+1)), tunnel.ReasonTooLong)
	out := a.run(station, inner(2, 1, true, 0, 10))
	message := one(t, out, station)
	if message[20] != header.ProtoICMPv6 || message[54] != header.ICMPv6TooBig || int(message[60])<<8|int(message[61]) != 1450 {
		t.Errorf("got %x", message[:80])
	}
	if ip := header.IPv6At(message, 14); header.Sum(message[54:], header.PseudoSum6(ip, 58, len(message)-54)) != 0xffff {
		t.Error("the checksum is wrong")
	}
	with := inner(2, 1, false, 0, 1500)
	ip := header.IPv4At(with, 14)
	with[20] = 0x40
	ip.SetTTL(64)
	dropped(t, a.run(station, with), tunnel.ReasonTooLong)
	message = one(t, a.run(station, inner(2, 1, true, 0, 10)), station)
	if message[23] != header.ProtoICMP || message[34] != header.ICMPUnreachable || message[35] != header.ICMPFragNeeded || int(message[40])<<8|int(message[41]) != 1450 {
		t.Errorf("got %x", message[:60])
	}
}

// TestTunnelAllocations wants none for a batch, either way.
func TestTunnelAllocations(t *testing.T) {
	a, b := pair(t, "192.0.2.1/24", "192.0.2.2/24", "vxlan", nil)
	data := inner(2, 1, false, 0, 30)
	outer := one(t, a.run(station, data), under)
	for _, c := range []struct {
		s    *bed
		port uint16
		data []byte
	}{{a, station, data}, {b, under, outer}} {
		batch := c.s.batch
		if n := testing.AllocsPerRun(100, func() {
			addr, _ := batch.Frames.AllocOne()
			p := batch.Append()
			p.Addr, p.Len, p.WireLen, p.InPort = addr+256, uint32(len(c.data)), uint32(len(c.data)), c.port
			copy(batch.Data(p), c.data)
			batch.Now = c.s.now
			c.s.graph.Run(batch)
			batch.Frames.FreePacket(&batch.Pkts[0])
			batch.Reset()
		}); n != 0 {
			t.Errorf("%v allocations per batch", n)
		}
	}
}

// TestTunnelGraph wants both stages in a graph, or neither.
func TestTunnelGraph(t *testing.T) {
	for _, names := range [][]string{{"parse", "tunnel", "l2"}, {"parse", "l2", "encap"}} {
		if _, err := stages.Build(names, nil, pipeline.Env{Workers: 1}); err == nil || !strings.Contains(err.Error(), "add \"") {
			t.Errorf("%v: %v", names, err)
		}
	}
}

// FuzzTunnel sends any bytes to an underlay's port: every packet has one fate.
func FuzzTunnel(f *testing.F) {
	f.Add([]byte{0}, false)
	f.Add([]byte{8, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0}, true)
	f.Add([]byte{1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 4, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0}, false)
	f.Fuzz(func(t *testing.T, data []byte, six bool) {
		if len(data) > 1400 {
			return
		}
		own := "192.0.2.2/24"
		remote := "192.0.2.1"
		var ip []byte
		udp := append([]byte{0xc0, 0, 0x12, 0xb5, byte((len(data) + 8) >> 8), byte(len(data) + 8), 0, 0}, data...)
		d := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}
		if len(data) > 0 && data[0]&1 != 0 {
			udp[2], udp[3] = 0x17, 0xc1
		}
		if six {
			own, remote = "2001:db8::2/64", "2001:db8::1"
			var h header.IPv6
			h.Init(netip.MustParseAddr(remote).As16(), netip.MustParsePrefix(own).Addr().As16(), 17, 64, len(udp))
			ip, d[12], d[13] = h[:], 0x86, 0xdd
		} else {
			var h header.IPv4
			h.Init([4]byte{192, 0, 2, 1}, [4]byte{192, 0, 2, 2}, 17, 64, 0, 0, 20+len(udp))
			ip = h[:]
		}
		s := newBed(t, 2, own, tunnel.Tunnel{Kind: "vxlan", VNI: 1, Remotes: []string{remote}}, func(c *tunnel.Config) {
			c.ZeroChecksum6 = true
		})
		for _, o := range s.run(under, append(append(d, ip...), udp...)) {
			if o.reason == 0 && o.port == packet.NoPort {
				t.Error("a packet without a fate")
			}
		}
	})
}
