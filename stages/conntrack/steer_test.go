package conntrack

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// withWorkers runs a test with rigs of so many workers.
func withWorkers(t *testing.T, n int, f func(t *testing.T)) {
	testWorkers = n
	defer func() { testWorkers = 1 }()
	t.Run(fmt.Sprintf("%d workers", n), f)
}

// TestWorkers: with several workers, and packets that arrive at any, the same becomes of packets as with one. Limits alone are
// divided, so tables have room here.
func TestWorkers(t *testing.T) {
	packets := 1_000_000
	if testing.Short() {
		packets = 100_000
	}
	for n := 2; n <= 3; n++ {
		withWorkers(t, n, func(t *testing.T) {
			t.Run("twin", func(t *testing.T) { againstTwin(t, packets, 30_000, 0) })
			t.Run("NAT twin", func(t *testing.T) { againstNATTwin(t, packets/2, 30_000, 0) })
			for name, f := range map[string]func(*testing.T){
				"TCP": TestTCP, "UDP": TestUDPAndOthers, "ICMP": TestICMP, "fragments": TestFragments, "reload": TestRulesAndReload, "zones": TestZones,
				"strict": TestStrictAndInvalid, "unparsed": TestUnparsed, "SNAT": TestSNAT, "NAT errors": TestNATErrors, "DNAT": TestDNATAndHairpin,
				"NAT fragments": TestNATFragments, "NAT reload": TestNATReload,
			} {
				t.Run(name, f)
			}
		})
	}
}

// TestToeplitz: the hash of homes is that of NICs. The slow one here is compared with vectors of Microsoft's verification suite for RSS.
func TestToeplitz(t *testing.T) {
	slow := func(key, input []byte) (sum uint32) {
		window := func(i int) (w uint32) {
			for bit := range 32 {
				at := i + bit
				w = w<<1 | uint32(key[at/8%len(key)]>>(7-at%8)&1)
			}
			return w
		}
		for i := range 8 * len(input) {
			if input[i/8]>>(7-i%8)&1 != 0 {
				sum ^= window(i)
			}
		}
		return sum
	}
	microsoft := []byte{
		0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
		0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
	}
	if got := slow(microsoft, []byte{66, 9, 149, 187, 161, 142, 100, 80, 2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255}); got != 0x51ccc178 {
		t.Fatalf("%#x, the suite has 0x51ccc178", got)
	}
	r := rand.New(rand.NewPCG(19, 9))
	symmetric := []byte{0x6d, 0x5a}
	for _, workers := range []int{2, 4, 5} {
		v := &steering{workers: uint8(workers)}
		for i := range v.byHash {
			v.byHash[i] = uint8(i % workers)
		}
		for range 10_000 {
			q := tcpProbe(0, client, server, flagSYN, 1, 0, 0)
			if r.IntN(2) == 0 {
				q = udpProbe(0, client6, server6)
			}
			q.srcPort, q.dstPort = uint16(r.Uint32()), uint16(r.Uint32())
			src, dst := q.src.AsSlice(), q.dst.AsSlice()
			for _, a := range [][]byte{src, dst} {
				for i := range a {
					a[i] = byte(r.Uint32())
				}
			}
			input := append(append(append([]byte{}, src...), dst...), byte(q.srcPort>>8), byte(q.srcPort), byte(q.dstPort>>8), byte(q.dstPort))
			var k key
			frame := q.frame()
			if q.src.Is4() {
				copy(frame[26:], src)
				copy(frame[30:], dst)
				key4(&k, header.IPv4At(frame, 14), q.proto, 0, ends{src: q.srcPort, dst: q.dstPort})
			} else {
				copy(frame[22:], src)
				copy(frame[38:], dst)
				key6(&k, header.IPv6At(frame, 14), q.proto, 0, ends{src: q.srcPort, dst: q.dstPort})
			}
			if got, want := v.home(&k), slow(symmetric, input)&(hashRange-1)%uint32(workers); uint32(got) != want {
				t.Fatalf("%x: worker %d, by the slow hash %d", input, got, want)
			}
		}
	}
}

// TestSteerConfig: rules by which a home is not certain are refused with several workers, with what to do.
func TestSteerConfig(t *testing.T) {
	env := testEnv
	env.Workers = 3
	c := natConfig()
	if _, err := New(c, env); err != nil {
		t.Fatal(err)
	}
	c.Connections = 100
	c.SNAT = append(c.SNAT, SNAT{Addresses: []string{"203.0.113.9"}, PortRange: "1024-2000"})
	c.DNAT = []DNAT{{Dst: outsideAddr, Protocol: "tcp", DstPort: "1000-2000", Backends: []Backend{{Address: "10.0.0.80"}}}}
	_, err := New(c, env)
	for _, want := range []string{
		"connections = 100: 3 workers divide them: choose 192", "snat[1].src: the inside address chooses among 3 workers", "snat[1].block_size: an outside address has 1 blocks",
		"dnat[0].dst_port: snat[0] gives out ports of 203.0.113.1",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := c.Validate([]string{"p0", "p1", "p2"}); err != nil {
		t.Errorf("of one worker: %v", err)
	}
}

// TestWorkersDivideLimits: a flood has its port's share and no more, of all workers together.
func TestWorkersDivideLimits(t *testing.T) {
	withWorkers(t, 3, func(t *testing.T) {
		c := guarded()
		c.Connections = 3000
		c.Groups[0].Share = 300
		r := newRig(t, c)
		for i := range 10_000 {
			r.send(0, udpFrame(uint16(i)))
		}
		if used := r.used(); used > 300 || used < 295 {
			t.Errorf("%d connections of 300", used)
		}
		for _, s := range r.stages {
			s.Tick(r.now)
		}
		if got := r.Counters(); len(got) != 3 || got[0].Share != 300 || got[0].Begun != 10_000 || got[0].Connections != uint64(r.used()) || got[0].Evicted != uint64(10_000-r.used()) {
			t.Errorf("counters %+v", got)
		}
	})
}

func udpFrame(port uint16) []byte {
	q := udpProbe(0, client, server)
	q.srcPort = port
	return q.frame()
}

// TestSteerAllocatesNothing, and leaves packets as they are.
func TestSteerAllocatesNothing(t *testing.T) {
	withWorkers(t, 2, func(t *testing.T) {
		c := natConfig()
		c.DNAT = []DNAT{{Dst: outsideAddr, Protocol: "tcp", DstPort: "443", Backends: []Backend{{Address: "10.0.0.80"}}}}
		r := newRig(t, c)
		q := udpProbe(0, "10.0.0.1:1", "198.51.100.7:53")
		part, rest := q, q
		part.more, part.id = true, 7
		rest.offset, rest.id = 64, 7
		for _, p := range []probe{q, part, rest, errorProbe(1, "192.0.2.9", q), echoProbe(0, "10.0.0.1", "198.51.100.7", false, 1), tcpProbe(1, "198.51.100.7:9", outsideAddr+":443", flagSYN, 1, 0, 0)} {
			r.put(p.port, p.frame())
		}
		r.batch.Now = r.now
		r.parse.Process(r.batch)
		before := append([]packet.Packet{}, r.batch.Pkts...)
		homes := make([]uint8, len(r.batch.Pkts))
		if got := testing.AllocsPerRun(100, func() {
			r.Steer(0, r.batch, 0, homes)
			r.Steer(1, r.batch, 0, homes)
		}); got != 0 {
			t.Errorf("%v allocations", got)
		}
		for i := range before {
			if before[i] != r.batch.Pkts[i] {
				t.Errorf("packet %d was changed", i)
			}
		}
	})
}

// FuzzSteer: any packet has a home, which it comes to by two ways at most, and which is that of the answer to it.
func FuzzSteer(f *testing.F) {
	q := udpProbe(0, "10.0.0.1:1", "198.51.100.7:53")
	part := q
	part.more, part.id = true, 7
	for _, p := range []probe{q, part, errorProbe(1, "192.0.2.9", q), echoProbe(0, "10.0.0.1", "198.51.100.7", false, 1), udpProbe(0, client6, server6)} {
		f.Add(p.frame())
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 1500 {
			return
		}
		testWorkers = 3
		defer func() { testWorkers = 1 }()
		c := natConfig()
		c.Connections, c.Groups = 192, nil
		c.SNAT[0].BlockSize, c.SNAT[0].PortRange = 64, "1024-1300"
		c.DNAT = []DNAT{{Dst: outsideAddr, Protocol: "tcp", DstPort: "443", Backends: []Backend{{Address: "10.0.0.80"}}}}
		r := newRig(t, c)
		for port := range 3 {
			r.send(port, frame)
		}
		checkNAT(t, r)
	})
}
