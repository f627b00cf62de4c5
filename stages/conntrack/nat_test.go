package conntrack

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

const outsideAddr = "203.0.113.1"

// natConfig has inside hosts at p0, and at p2, and the outside at p1.
func natConfig() Config {
	c := guarded()
	c.SNAT = []SNAT{{Ports: []string{"p0", "p2"}, Src: "10.0.0.0/8", Addresses: []string{outsideAddr}}}
	return c
}

// forward sends one frame, and returns it as it leaves; nil if it was dropped.
func (r *rig) forward(port int, frame []byte) ([]byte, packet.Reason) {
	r.put(port, frame)
	r.batch.Now = r.now
	r.process()
	p := &r.batch.Pkts[0]
	reason := p.Reason
	out := slices.Clone(r.batch.Data(p))
	r.batch.Reset()
	if reason != 0 {
		return nil, reason
	}
	return out, 0
}

// packetText is a frame in words, and that its checksums are right: computed from the first to the last byte, with other code than the stage's.
func packetText(t testing.TB, frame []byte) string {
	t.Helper()
	return ipText(t, frame[14:14+int(binary.BigEndian.Uint16(frame[16:]))], true)
}

func ipText(t testing.TB, ip []byte, whole bool) string {
	t.Helper()
	hl := int(ip[0]&15) * 4
	if plainSum(ip[:hl]) != 0xffff {
		t.Errorf("the checksum of an IP header is wrong: %x", ip[:hl])
	}
	src, dst := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	frag := binary.BigEndian.Uint16(ip[6:])
	l4 := ip[hl:]
	if frag&0x1fff != 0 {
		return fmt.Sprintf("%v > %v proto %d part at %d: %x", src, dst, ip[9], frag&0x1fff*8, l4)
	}
	if ip[9] != 1 && ip[9] != 6 && ip[9] != 17 {
		return fmt.Sprintf("%v > %v proto %d: %x", src, dst, ip[9], l4)
	}
	sum := plainSum(l4)
	if ip[9] != 1 {
		sum = plainSum(slices.Concat(ip[12:20], []byte{0, ip[9]}, binary.BigEndian.AppendUint16(nil, uint16(len(l4))), l4))
	}
	none := ip[9] == 17 && len(l4) >= 8 && l4[6] == 0 && l4[7] == 0
	if whole && frag&0x2000 == 0 && !none && sum != 0xffff {
		t.Errorf("a checksum is wrong: %x", ip)
	}
	if ip[9] == 1 {
		switch l4[0] {
		case 3, 11, 12:
			return fmt.Sprintf("%v > %v icmp %d.%d about [%s]", src, dst, l4[0], l4[1], ipText(t, l4[8:], int(binary.BigEndian.Uint16(l4[10:])) == len(l4)-8))
		}
		return fmt.Sprintf("%v > %v icmp %d id %d", src, dst, l4[0], binary.BigEndian.Uint16(l4[4:]))
	}
	return fmt.Sprintf("%v:%d > %v:%d proto %d", src, binary.BigEndian.Uint16(l4), dst, binary.BigEndian.Uint16(l4[2:]), ip[9])
}

func plainSum(b []byte) uint16 {
	sum := 0
	for i, c := range b {
		if i%2 == 0 {
			sum += int(c) << 8
		} else {
			sum += int(c)
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// natStep is a packet, and how it leaves, or why not.
type natStep struct {
	what  string
	probe probe
	want  string
}

func runNAT(t *testing.T, r *rig, steps ...natStep) {
	t.Helper()
	for _, s := range steps {
		r.now += 1e6
		out, reason := r.forward(s.probe.port, s.probe.frame())
		got := reason.String()
		if out != nil {
			got = packetText(t, out)
		}
		if got != s.want {
			t.Errorf("%s: %s, want %s", s.what, got, s.want)
		}
	}
}

func outsidePort(t *testing.T, r *rig, q probe) string {
	t.Helper()
	out, reason := r.forward(q.port, q.frame())
	if out == nil {
		t.Fatalf("dropped: %v", reason)
	}
	return strings.Fields(packetText(t, out))[0]
}

func TestSNAT(t *testing.T) {
	r := newRig(t, natConfig())
	const in, server = "10.0.0.1:4321", "198.51.100.7:80"
	syn := tcpProbe(0, in, server, flagSYN, 1000, 0, 0)
	out := outsidePort(t, r, syn)
	runNAT(t, r,
		natStep{"SYN-ACK", tcpProbe(1, server, out, flagSYN|flagACK, 5000, 1001, 0), server + " > " + in + " proto 6"},
		natStep{"ACK", tcpProbe(0, in, server, flagACK, 1001, 5001, 0), out + " > " + server + " proto 6"},
		natStep{"data", tcpProbe(1, server, out, flagACK, 5001, 1001, 777), server + " > " + in + " proto 6"},
		natStep{"to the inside address, past the translation", tcpProbe(1, server, in, flagACK, 5778, 1001, 7), "ct_invalid"},
		natStep{"from the outside address, by an inside host", tcpProbe(0, out, server, flagACK, 1001, 5001, 0), "ct_invalid"},
		natStep{"from another server's port", tcpProbe(1, "198.51.100.7:81", out, flagACK, 1, 1, 0), "ct_denied"},
		natStep{"RST", tcpProbe(1, server, out, flagRST|flagACK, 5778, 1001, 0), server + " > " + in + " proto 6"},
	)

	// The mapping is endpoint-independent, and is the same for both servers.
	q := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
	a := outsidePort(t, r, q)
	q.dst = netip.MustParseAddr("198.51.100.8")
	if b := outsidePort(t, r, q); b != a {
		t.Errorf("%s is %s for one server and %s for another", "10.0.0.1:1111", a, b)
	}
	runNAT(t, r, natStep{"an answer of UDP", udpProbe(1, "198.51.100.8:53", a), "198.51.100.8:53 > 10.0.0.1:1111 proto 17"})
	other := udpProbe(2, "10.0.0.2:1111", "198.51.100.7:53")
	if b := outsidePort(t, r, other); b == a {
		t.Errorf("two inside hosts have %s", a)
	}
	if a, b := netip.MustParseAddrPort(a), netip.MustParseAddrPort(out); a.Port()/512 != b.Port()/512 {
		t.Errorf("one inside host has %v and %v: not of one block", a, b)
	}
	if port := netip.MustParseAddrPort(a).Port(); port%2 != 1 {
		t.Errorf("1111 became %d: the parity is lost", port)
	}

	// No checksum of UDP stays none.
	plain := udpProbe(0, "10.0.0.1:2222", "198.51.100.7:53")
	none := plain.frame()
	none[40], none[41] = 0, 0
	if left, _ := r.forward(0, none); left == nil || left[40] != 0 || left[41] != 0 {
		t.Errorf("a UDP packet without a checksum left with one, or not: %x", left)
	}

	echo := echoProbe(0, "10.0.0.1", "198.51.100.7", false, 99)
	left, _ := r.forward(0, echo.frame())
	id := binary.BigEndian.Uint16(left[38:])
	answer := echoProbe(1, "198.51.100.7", outsideAddr, true, id)
	runNAT(t, r,
		natStep{"echo reply", answer, "198.51.100.7 > 10.0.0.1 icmp 0 id 99"},
		natStep{"ping from outside", echoProbe(1, "198.51.100.7", outsideAddr, false, 5), "ct_denied"},
		natStep{"GRE", probe{port: 0, src: q.src, dst: q.dst, proto: 47, data: make([]byte, 20)}, "nat_unsupported"},
	)

	free := natConfig()
	free.Groups[1].Default = Permit
	r = newRig(t, free)
	out = outsidePort(t, r, syn)
	runNAT(t, r,
		natStep{"another station", tcpProbe(1, "198.51.100.9:80", out, flagSYN, 1, 1, 0), "nat_unmapped"},
		natStep{"a port that no inside host has", udpProbe(1, server, outsideAddr+":50001"), "nat_unmapped"},
		natStep{"below the range", udpProbe(1, server, outsideAddr+":179"), server + " > " + outsideAddr + ":179 proto 17"},
	)
	free.SNAT[0].Filtering = FilterIndependent
	r.reload(t, free)
	runNAT(t, r,
		natStep{"another station, endpoint-independent", tcpProbe(1, "198.51.100.9:80", out, flagSYN, 1, 1, 0), "198.51.100.9:80 > " + in + " proto 6"},
		natStep{"and its answer", tcpProbe(0, in, "198.51.100.9:80", flagSYN|flagACK, 7, 2, 0), out + " > 198.51.100.9:80 proto 6"},
	)
}

// TestNATErrors: ICMP errors quote what their receiver has sent (RFC 5508).
func TestNATErrors(t *testing.T) {
	r := newRig(t, natConfig())
	const in, server = "10.0.0.1:4321", "198.51.100.7:80"
	q := udpProbe(0, in, server)
	out := outsidePort(t, r, q)
	sent := udpProbe(0, out, server) // as the outside sees it
	answer := udpProbe(1, server, out)
	runNAT(t, r,
		natStep{"an answer", answer, server + " > " + in + " proto 17"},
		natStep{"from a router outside", errorProbe(1, "192.0.2.99", sent), "192.0.2.99 > 10.0.0.1 icmp 3.1 about [" + in + " > " + server + " proto 17]"},
		natStep{"from a router inside, about the answer", errorProbe(0, "10.9.9.9", udpProbe(1, server, in)),
			outsideAddr + " > 198.51.100.7 icmp 3.1 about [" + server + " > " + out + " proto 17]"},
		natStep{"about what did not leave so", errorProbe(1, "192.0.2.99", q), "ct_invalid"},
	)
	echo := echoProbe(0, "10.0.0.1", "198.51.100.7", false, 99)
	left, _ := r.forward(0, echo.frame())
	seen := echoProbe(1, outsideAddr, "198.51.100.7", false, binary.BigEndian.Uint16(left[38:]))
	runNAT(t, r, natStep{"about a ping", errorProbe(1, "192.0.2.99", seen), "192.0.2.99 > 10.0.0.1 icmp 3.1 about [10.0.0.1 > 198.51.100.7 icmp 8 id 99]"})
	// Eight bytes of TCP are enough.
	syn := tcpProbe(0, in, server, flagSYN, 1, 0, 0)
	out = outsidePort(t, r, syn)
	short := errorProbe(1, "192.0.2.99", tcpProbe(0, out, server, flagSYN, 1, 0, 0))
	frame := short.frame()
	cut := frame[:14+20+8+28]
	binary.BigEndian.PutUint16(cut[16:], uint16(len(cut)-14))
	cut[24], cut[25], cut[36], cut[37] = 0, 0, 0, 0
	binary.BigEndian.PutUint16(cut[24:], ^plainSum(cut[14:34]))
	binary.BigEndian.PutUint16(cut[36:], ^plainSum(cut[34:]))
	got, reason := r.forward(1, cut)
	if got == nil {
		t.Fatal(reason)
	}
	if text := packetText(t, got); text != "192.0.2.99 > 10.0.0.1 icmp 3.1 about ["+in+" > "+server+" proto 6]" {
		t.Errorf("a quote of eight bytes: %s", text)
	}
}

func TestDNATAndHairpin(t *testing.T) {
	c := natConfig()
	c.Groups[1].Rules = []Rule{{Action: Permit, Dst: outsideAddr}}
	c.DNAT = []DNAT{
		{Dst: outsideAddr, Protocol: "tcp", DstPort: "443", Backends: []Backend{{Address: "10.0.0.80", Port: 8443}, {Address: "10.0.0.81", Port: 8443, Weight: 3}}},
		{Dst: "203.0.113.2", Protocol: "icmp", Backends: []Backend{{Address: "10.0.0.80"}}},
		{Dst: outsideAddr, Protocol: "udp", DstPort: "500-600", Backends: []Backend{{Address: "10.0.0.82"}}},
	}
	r := newRig(t, c)
	got := map[string]int{}
	const connections = 4000
	for i := range connections {
		from := fmt.Sprintf("198.51.100.%d:%d", i%250, 1000+i/250)
		syn := tcpProbe(1, from, outsideAddr+":443", flagSYN, 1000, 0, 0)
		out, reason := r.forward(1, syn.frame())
		if out == nil {
			t.Fatal(reason)
		}
		to := strings.Fields(packetText(t, out))[2]
		got[to]++
		if again, _ := r.forward(1, syn.frame()); strings.Fields(packetText(t, again))[2] != to {
			t.Fatal("a connection changes its backend")
		}
		runNAT(t, r, natStep{"SYN-ACK", tcpProbe(0, to, from, flagSYN|flagACK, 1, 1001, 0), outsideAddr + ":443 > " + from + " proto 6"})
	}
	// The inline hash has fixed seeds, so the counts do not vary: 1 and 3 of 4, and the standard deviation is 27.
	if n := got["10.0.0.80:8443"]; n < connections/4-150 || n > connections/4+150 || n+got["10.0.0.81:8443"] != connections {
		t.Errorf("%v of %d connections: want one of four and three of four", got, connections)
	}
	runNAT(t, r,
		natStep{"a range keeps its port", udpProbe(1, "198.51.100.1:5", outsideAddr+":555"), "198.51.100.1:5 > 10.0.0.82:555 proto 17"},
		natStep{"back", udpProbe(0, "10.0.0.82:555", "198.51.100.1:5"), outsideAddr + ":555 > 198.51.100.1:5 proto 17"},
		natStep{"an error about it, from a router inside", errorProbe(0, "10.9.9.9", udpProbe(1, "198.51.100.1:5", "10.0.0.82:555")),
			outsideAddr + " > 198.51.100.1 icmp 3.1 about [198.51.100.1:5 > " + outsideAddr + ":555 proto 17]"},
	)
	// An inside host reaches the server by the outside address, and the server's answers come back here.
	syn := tcpProbe(0, "10.0.0.1:4321", outsideAddr+":443", flagSYN, 1000, 0, 0)
	out, reason := r.forward(0, syn.frame())
	if out == nil {
		t.Fatal(reason)
	}
	words := strings.Fields(packetText(t, out))
	if !strings.HasPrefix(words[0], outsideAddr+":") || !strings.HasPrefix(words[2], "10.0.0.8") {
		t.Fatalf("hairpin: %v", words)
	}
	runNAT(t, r, natStep{"hairpin, back", tcpProbe(0, words[2], words[0], flagSYN|flagACK, 1, 1001, 0), outsideAddr + ":443 > 10.0.0.1:4321 proto 6"})
	c.Groups[1].Default = Permit
	r = newRig(t, c)
	runNAT(t, r,
		natStep{"ping", echoProbe(1, "198.51.100.1", "203.0.113.2", false, 9), "198.51.100.1 > 10.0.0.80 icmp 8 id 9"},
		natStep{"its answer", echoProbe(0, "10.0.0.80", "198.51.100.1", true, 9), "203.0.113.2 > 198.51.100.1 icmp 0 id 9"},
	)
}

func TestNATFragments(t *testing.T) {
	r := newRig(t, natConfig())
	first := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
	first.data, first.more, first.id = make([]byte, 1000), true, 77
	later := probe{port: 0, src: first.src, dst: first.dst, proto: 17, offset: 1008, data: []byte("the rest")}
	later.id = 77
	runNAT(t, r, natStep{"before the first", later, "ct_fragment"})
	out := outsidePort(t, r, first)
	want := fmt.Sprintf("%s > 198.51.100.7 proto 17 part at 1008: %x", outsideAddr, "the rest")
	runNAT(t, r, natStep{"a later one", later, want}, natStep{"again", later, want})
	back := first.back(1)
	addr := netip.MustParseAddrPort(out)
	back.dst, back.dstPort = addr.Addr(), addr.Port()
	later = probe{port: 1, src: back.src, dst: back.dst, proto: 17, offset: 1008, data: []byte("the rest"), id: 77}
	runNAT(t, r,
		natStep{"an answer", back, "198.51.100.7:53 > 10.0.0.1:1111 proto 17"},
		natStep{"its rest", later, fmt.Sprintf("198.51.100.7 > 10.0.0.1 proto 17 part at 1008: %x", "the rest")})
}

// TestNATExhausted: an inside address has so many blocks, a port its part of them, and what it did not take up makes room.
func TestNATExhausted(t *testing.T) {
	c := natConfig()
	c.Connections = 9000
	c.SNAT[0].BlockSize, c.SNAT[0].Blocks, c.SNAT[0].PortRange = 64, 2, "2000-3000"
	r := newRig(t, c)
	n := r.stage.nat
	o := &n.outside[0]
	if o.blocks != 15 {
		t.Fatalf("%d blocks of 64 ports in 1001", o.blocks)
	}
	send := func(host, port int, in int) packet.Reason {
		_, reason := r.forward(in, func() []byte {
			q := udpProbe(in, fmt.Sprintf("10.0.0.%d:%d", host, port), "198.51.100.7:53")
			return q.frame()
		}())
		return reason
	}
	for port := range 128 {
		if reason := send(1, 1000+port, 0); reason != 0 {
			t.Fatalf("port %d: %v", port, reason)
		}
	}
	if reason := send(1, 5000, 0); reason != reasonExhausted {
		t.Errorf("a port beyond two blocks: %q", reason)
	}
	if reason := send(2, 5000, 0); reason != 0 {
		t.Errorf("another host: %q", reason)
	}
	// Forged sources of p0 displace each other, not what p2 has.
	other := udpProbe(2, "10.0.1.1:1", "198.51.100.7:53")
	out := outsidePort(t, r, other)
	for host := range 200 {
		if reason := send(3+host, 7, 0); reason != 0 {
			t.Fatalf("host %d: %v", host, reason)
		}
	}
	runNAT(t, r, natStep{"the other port's", udpProbe(1, "198.51.100.7:53", out), "198.51.100.7:53 > 10.0.1.1:1 proto 17"})
	if used := n.rules[0].byPort; int(used[0]) > r.stage.settings.nat.snat[0].perPort || used[2] != 1 {
		t.Errorf("blocks by port: %v, at most %d", used, r.stage.settings.nat.snat[0].perPort)
	}
	checkNAT(t, r)
	// All of it is given back.
	r.now += int64(time.Hour)
	r.stage.Tick(r.now)
	checkNAT(t, r)
	if o.used != 0 || o.freeLen != o.blocks {
		t.Errorf("%d mappings, %d of %d blocks free after an hour", o.used, o.freeLen, o.blocks)
	}
}

// checkNAT holds the mappings against the connections that hold them.
func checkNAT(t testing.TB, r *rig) {
	t.Helper()
	for _, s := range r.stages {
		checkNATOf(t, s)
	}
}

func checkNATOf(t testing.TB, s *stage) {
	t.Helper()
	held := map[handle]uint32{}
	kept := map[*block]int32{}
	tab := s.table
	slots := 0
	for _, slot := range tab.slots {
		if slot != 0 {
			slots++
		}
	}
	aliases := 0
	for i := range tab.entries {
		if e := &tab.entries[i]; e.flags&flagInUse != 0 && e.flags&flagTranslated != 0 {
			aliases++
			for _, h := range []handle{tab.aliases[i].snat, tab.aliases[i].dnat} {
				if h != noHandle {
					held[h]++
				}
			}
			keep := func(h handle) {
				if h != noHandle {
					o, _, at := s.nat.of(h)
					kept[&o.owners[at/o.size]]++
				}
			}
			if keep(tab.aliases[i].dnat); e.flags&flagConfirmed != 0 {
				keep(tab.aliases[i].snat)
			}
		}
	}
	if slots != int(tab.used)+aliases {
		t.Fatalf("%d slots, %d connections, %d aliases", slots, tab.used, aliases)
	}
	chained := map[uint32]bool{}
	for _, link := range s.nat.heads {
		for link != 0 {
			chained[link-1] = true
			_, b := s.nat.blockAt(link - 1)
			link = b.next
		}
	}
	for number := range s.nat.outside {
		o := &s.nat.outside[number]
		used, free := uint32(0), uint32(0)
		for kind := range o.mappings {
			for at := range o.mappings[kind] {
				m := &o.mappings[kind][at]
				h := o.handle(number, kind, uint32(at))
				if m.refs != held[h] {
					t.Fatalf("outside port %d of kind %d: %d connections, counted %d", uint32(o.low)+uint32(at), kind, held[h], m.refs)
				}
				if m.refs != 0 {
					used++
				}
				delete(held, h)
			}
		}
		for b := range o.owners {
			if got, want := o.owners[b].kept, kept[&o.owners[b]]; got != want {
				t.Fatalf("block %d is kept by %d connections, counted %d", b, want, got)
			}
			if mine := o.outsideSpec.owner(uint32(b), s.nat.workers) == uint8(s.worker); !mine && o.owners[b].owner != 0 {
				t.Fatalf("worker %d has block %d, which is another one's", s.worker, b)
			} else if !mine {
				continue
			}
			if owned := o.owners[b].owner != 0; !owned {
				free++
			} else if !chained[uint32(number)<<16|uint32(b)] {
				t.Fatalf("block %d has an owner and is in no chain", b)
			} else {
				delete(chained, uint32(number)<<16|uint32(b))
			}
		}
		if used != o.used || free != o.freeLen {
			t.Fatalf("%d mappings, counted %d; %d blocks free, counted %d", used, o.used, free, o.freeLen)
		}
	}
	if len(held) != 0 || len(chained) != 0 {
		t.Fatalf("held but not there: %v; chained without an owner: %v", held, chained)
	}
}

// TestNATReload: connections that the new rules translate otherwise end, and others go on.
func TestNATReload(t *testing.T) {
	c := natConfig()
	r := newRig(t, c)
	q := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
	kept := udpProbe(2, "10.0.1.1:1111", "198.51.100.7:53")
	out, keptOut := outsidePort(t, r, q), outsidePort(t, r, kept)
	c.SNAT = append([]SNAT{{Ports: []string{"p0"}, Src: "10.0.0.0/8", Addresses: []string{"203.0.113.9"}}}, c.SNAT...)
	r.reload(t, c)
	runNAT(t, r,
		natStep{"an answer to what is translated otherwise now", udpProbe(1, "198.51.100.7:53", out), "ct_denied"},
		natStep{"an answer to what is not", udpProbe(1, "198.51.100.7:53", keptOut), "198.51.100.7:53 > 10.0.1.1:1111 proto 17"},
	)
	if a := outsidePort(t, r, q); !strings.HasPrefix(a, "203.0.113.9:") {
		t.Errorf("after the change: %s", a)
	}
	checkNAT(t, r)
	if testWorkers > 1 {
		return // without rules connections have other homes, and begin anew there
	}
	c.SNAT = nil
	r.reload(t, c)
	runNAT(t, r, natStep{"without rules", kept, "ct_denied"}, natStep{"and anew", kept, "10.0.1.1:1111 > 198.51.100.7:53 proto 17"})
	r.now += int64(time.Hour)
	r.stage.Tick(r.now)
	checkNAT(t, r)

	plain := newRig(t, guarded())
	if _, err := plain.Prepare(natConfig(), testEnv.Ports); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("first rules by reload: %v", err)
	}
}

func TestNATConfig(t *testing.T) {
	for _, tt := range []struct {
		want string
		snat SNAT
	}{
		{"snat[1].src: 2001:db8::/32 is of IPv6, which is not translated: name an IPv4 prefix", SNAT{Src: "2001:db8::/32", Addresses: []string{"192.0.2.1"}}},
		{"snat[1].addresses: name the outside addresses, or exempt = true", SNAT{}},
		{"snat[1].addresses: 203.0.113.1 is in snat[0] already: leave it in one place", SNAT{Addresses: []string{"203.0.113.0/31"}}},
		{"snat[1].addresses: 10.0.0.0/8 has more than 64 addresses: name a part of it", SNAT{Addresses: []string{"10.0.0.0/8"}}},
		{"snat[1].block_size: 100: choose a power of two from 64 to 8192", SNAT{Addresses: []string{"192.0.2.1"}, BlockSize: 100}},
		{"snat[1].port_range: 1-100 has no room for a block of 512 ports: widen it, or lower block_size", SNAT{Addresses: []string{"192.0.2.1"}, PortRange: "1-100"}},
		{"snat[1].exempt: what the rule matches is not translated: leave the keys of outside addresses out", SNAT{Exempt: true, Blocks: 3}},
		{`snat[1].filtering: "none": choose "address_and_port_dependent" or "endpoint_independent"`, SNAT{Addresses: []string{"192.0.2.1"}, Filtering: "none"}},
		{"", SNAT{Exempt: true, Dst: "10.0.0.0/8"}},
	} {
		c := natConfig()
		c.SNAT = append(c.SNAT, tt.snat)
		got := ""
		if err := c.Validate([]string{"p0", "p1", "p2"}); err != nil {
			got = err.Error()
		}
		if got != tt.want && !strings.HasPrefix(got, tt.want+"\n") || tt.want == "" && got != "" {
			t.Errorf("%+v: %s, want %s", tt.snat, got, tt.want)
		}
	}
	c := natConfig()
	c.Invalid = Permit
	c.DNAT = []DNAT{{Protocol: "gre"}, {Dst: "192.0.2.1", Protocol: "icmp", DstPort: "8", Backends: []Backend{{Address: "::1", Port: 1}, {Address: "10.0.0.1", Weight: 999}}}}
	err := c.Validate([]string{"p0", "p1", "p2"})
	for _, want := range []string{"invalid = ", "dnat[0].dst:", "dnat[0].protocol:", "dnat[0].backend: 0 backends", "dnat[1].dst_port:", "dnat[1].backend[0].address:", "dnat[1].backend[1].weight: 999"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault of %s in: %v", want, err)
		}
	}
}

// TestNATLarge: the checksum of a large packet is partial, the sum of the pseudo-header, and stays one.
func TestNATLarge(t *testing.T) {
	r := newRig(t, natConfig())
	q := tcpProbe(0, "10.0.0.1:4321", "198.51.100.7:80", flagSYN, 1, 0, 0)
	outsidePort(t, r, q)
	q.data = make([]byte, 1000)
	frame := q.frame()
	const field, length, rest = 14 + 20 + 16, 20 + 20 + 1000 + 1000, 1000
	binary.BigEndian.PutUint16(frame[16:], length)
	frame[24], frame[25] = 0, 0
	binary.BigEndian.PutUint16(frame[24:], ^plainSum(frame[14:34]))
	pseudo := func(frame []byte) uint16 {
		return plainSum(slices.Concat(frame[26:34], []byte{0, 6, (length - 20) >> 8, (length - 20) & 255}))
	}
	binary.BigEndian.PutUint16(frame[field:], pseudo(frame))
	r.put(0, frame)
	p := &r.batch.Pkts[0]
	pool := r.batch.Pool()
	p.WireLen += rest
	p.Next = pool.Link(r.addrs[packet.BatchSize-1], rest, 0)
	pool.SetLarge(p.Next, packet.Large{Size: 500, Kind: 1})
	r.batch.Now = r.now
	r.parse.Process(r.batch)
	r.stage.Process(r.batch)
	if p.Reason != 0 {
		t.Fatalf("dropped: %v", p.Reason)
	}
	out := r.batch.Data(p)
	if src := netip.AddrFrom4([4]byte(out[26:30])); src.String() != outsideAddr || p.SrcPort != binary.BigEndian.Uint16(out[34:]) || plainSum(out[14:34]) != 0xffff {
		t.Errorf("left from %v:%d", src, p.SrcPort)
	}
	if got := binary.BigEndian.Uint16(out[field:]); got != pseudo(out) {
		t.Errorf("the partial checksum is %04x, want %04x", got, pseudo(out))
	}
}

func TestNATAllocatesNothing(t *testing.T) {
	c := natConfig()
	c.Connections = 64
	r := newRig(t, c)
	frames := [][]byte{}
	for port := range packet.BatchSize {
		q := udpProbe(0, fmt.Sprintf("10.0.0.1:%d", 1+port), "198.51.100.7:53")
		frames = append(frames, q.frame())
	}
	next := uint16(0)
	if got := testing.AllocsPerRun(200, func() {
		for _, f := range frames {
			next++
			binary.BigEndian.PutUint16(f[34:], 1+next%300)
			r.put(0, f)
		}
		r.batch.Now = r.now
		r.parse.Process(r.batch)
		r.stage.Process(r.batch)
		r.batch.Reset()
	}); got != 0 {
		t.Errorf("%v allocations per batch", got)
	}
	checkNAT(t, r)
}

// TestNATClash: an outside port that another connection has to the same destination is passed over, also as the first of a block.
func TestNATClash(t *testing.T) {
	const in, server = "10.0.0.1:1111", "198.51.100.7:53"
	q := udpProbe(0, in, server)
	out := outsidePort(t, newRig(t, natConfig()), q)
	r := newRig(t, natConfig())
	runNAT(t, r, natStep{"of the outside address itself", udpProbe(0, out, server), out + " > " + server + " proto 17"})
	got := netip.MustParseAddrPort(outsidePort(t, r, q))
	if want := netip.MustParseAddrPort(out).Port() + 2; got.Addr() != twinOutside || got.Port() != want {
		t.Errorf("%v, want port %d, the next of the block", got, want)
	}
	checkNAT(t, r)

	// Where none fits after so many, the block is free again.
	r = newRig(t, natConfig())
	first := netip.MustParseAddrPort(out)
	for i := range maxClashes {
		end := netip.AddrPortFrom(first.Addr(), first.Port()+2*uint16(i)).String()
		runNAT(t, r, natStep{"of the outside address itself", udpProbe(0, end, server), end + " > " + server + " proto 17"})
	}
	runNAT(t, r, natStep{"the ports are another's", q, "nat_exhausted"})
	if o := &r.stage.nat.outside[0]; o.used != 0 || o.freeLen != o.blocks {
		t.Errorf("%d mappings, %d of %d blocks free", o.used, o.freeLen, o.blocks)
	}
	checkNAT(t, r)
}

// TestNATKeepsSource: multicast, broadcast, and what is for the outside address itself are not translated.
func TestNATKeepsSource(t *testing.T) {
	r := newRig(t, natConfig())
	for _, to := range []string{"224.0.0.251:5353", "255.255.255.255:67", outsideAddr + ":53"} {
		runNAT(t, r, natStep{"to " + to, udpProbe(0, "10.0.0.1:1111", to), "10.0.0.1:1111 > " + to + " proto 17"})
	}
	// A reload leaves it so.
	r.reload(t, natConfig())
	runNAT(t, r, natStep{"again", udpProbe(0, "10.0.0.1:1111", outsideAddr+":53"), "10.0.0.1:1111 > " + outsideAddr + ":53 proto 17"})
	if n := r.stage.table.used; n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
	checkNAT(t, r)
}

// TestNATSearchIsBounded: a host whose ports all begin at one place of a block has each search end early.
func TestNATSearchIsBounded(t *testing.T) {
	r := newRig(t, natConfig())
	for i := range 4 * 512 {
		q := udpProbe(0, fmt.Sprintf("10.0.0.1:%d", i/128+i%128*512), "198.51.100.7:53")
		if q.srcPort != 0 {
			r.forward(0, q.frame())
		}
	}
	for _, o := range r.stage.nat.outside {
		for i := range o.owners {
			if reach := o.owners[i].reach[natUDP]; reach > maxProbes {
				t.Errorf("a search in block %d takes %d steps", i, reach)
			}
		}
	}
	checkNAT(t, r)
}

// TestNATEvictions: a packet for which there is no block looks at few connections, whatever the number of backends, and ends those of one block alone. After
// some packets one is free.
func TestNATEvictions(t *testing.T) {
	c := natConfig()
	c.SNAT[0].BlockSize, c.SNAT[0].PortRange = 64, "2000-3000"
	c.DNAT = []DNAT{{Dst: outsideAddr, Protocol: "udp", DstPort: "53"}}
	for i := range maxTries {
		c.DNAT[0].Backends = append(c.DNAT[0].Backends, Backend{Address: fmt.Sprintf("10.0.1.%d", i)})
	}
	for _, to := range []string{"198.51.100.7:53", outsideAddr + ":53"} {
		r := newRig(t, c)
		hosts := r.stage.settings.nat.snat[0].perPort
		const ports = 60
		for port := range ports { // the oldest connections are of all blocks
			for host := range hosts {
				q := udpProbe(0, fmt.Sprintf("10.0.0.%d:%d", 1+host, 1000+port), "198.51.100.7:53")
				outsidePort(t, r, q)
			}
		}
		q := udpProbe(0, "10.0.0.99:5", to)
		evicted := &r.stage.table.shares[0].evicted
		for reason := reasonExhausted; reason != 0; {
			before := *evicted
			if _, reason = r.forward(0, q.frame()); reason != 0 && reason != reasonExhausted || *evicted == before || *evicted-before > maxLooks {
				t.Fatalf("to %s: %q, and %d connections displaced, want 1 to %d", to, reason, *evicted-before, maxLooks)
			}
		}
		if *evicted < ports || *evicted >= uint64(ports*hosts) {
			t.Errorf("to %s: %d connections displaced for a block of %d", to, *evicted, ports)
		}
		checkNAT(t, r)
	}
}

// TestNATEvictsForRoomOnly: where no connection's end frees a block, none ends.
func TestNATEvictsForRoomOnly(t *testing.T) {
	c := natConfig()
	c.SNAT[0].BlockSize, c.SNAT[0].PortRange = 64, "2000-3000"
	r := newRig(t, c)
	const server = "198.51.100.7:53"
	for host := range r.stage.settings.nat.snat[0].perPort {
		q := udpProbe(0, fmt.Sprintf("10.0.0.%d:1000", 1+host), server)
		out := outsidePort(t, r, q)
		answer := udpProbe(1, server, out)
		for range 3 { // as a stream it is confirmed
			r.forward(1, answer.frame())
			r.now += int64(2 * time.Second)
			r.forward(0, q.frame())
		}
		q.srcPort++
		r.forward(0, q.frame()) // is not confirmed, but its block is kept
	}
	for port := range 100 {
		other := udpProbe(0, fmt.Sprintf("[fd00::1]:%d", 1000+port), "[fd00::2]:53")
		r.forward(0, other.frame())
	}
	before := r.stage.table.used
	runNAT(t, r, natStep{"without a block", udpProbe(0, "10.0.0.99:5", server), "nat_exhausted"})
	if used := r.stage.table.used; used != before {
		t.Errorf("%d connections ended for nothing", before-used)
	}
	checkNAT(t, r)
}

// TestNATReloadSame: rules that stay end nothing, also no connection to a backend that is the address itself.
func TestNATReloadSame(t *testing.T) {
	c := natConfig()
	c.SNAT = nil
	c.DNAT = []DNAT{{Dst: "10.0.0.80", Protocol: "udp", Backends: []Backend{{Address: "10.0.0.80"}}}}
	r := newRig(t, c)
	step := natStep{"to itself", udpProbe(0, "10.0.0.1:1111", "10.0.0.80:53"), "10.0.0.1:1111 > 10.0.0.80:53 proto 17"}
	runNAT(t, r, step)
	r.reload(t, c)
	runNAT(t, r, step)
	c.DNAT[0].Backends[0].Address = "10.0.0.81"
	r.reload(t, c)
	step.want = "ct_denied"
	runNAT(t, r, step)
}

// TestNATMemory: an outside address that no rule has keeps its memory as long as a mapping.
func TestNATMemory(t *testing.T) {
	c := natConfig()
	r := newRig(t, c)
	q := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
	outsidePort(t, r, q)
	c.SNAT = []SNAT{{Addresses: []string{"203.0.113.9", "203.0.113.10"}}}
	r.reload(t, c)
	r.stage.Tick(r.now)
	old := &r.stage.nat.outside[0]
	if old.mappings[natUDP] == nil {
		t.Error("the memory of a mapping is gone")
	}
	checkNAT(t, r)
	r.now += int64(time.Hour)
	r.stage.Tick(r.now)
	if old.mappings[natUDP] != nil {
		t.Error("the memory of an outside address without rules and mappings stays")
	}
	checkNAT(t, r)
	r.reload(t, natConfig())
	if out := outsidePort(t, r, q); !strings.HasPrefix(out, outsideAddr+":") {
		t.Errorf("after the reload: %s", out)
	}
	if n := len(r.stage.nat.outside); n != 3 {
		t.Errorf("%d outside addresses, want the 3 of before", n)
	}
	checkNAT(t, r)
}
