package l3

import (
	"bytes"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// bench is a router on a bench: parse and l3, one worker, and a clock in hand.
type bench struct {
	testing.TB
	module *Module
	graph  *pipeline.Graph
	batch  *packet.Batch
	now    int64
	cache  *packet.Cache
	got    tally
	shared bool // others use the pool, too
}

// tally is the books of all batches.
type tally struct {
	received, forwarded, consumed, dropped  int
	copied, copiesOut, copiesIn, copiesGone int
	reasons                                 map[string]int
}

const testID = 7

// testConfig: p0 has 10.0.1.1/24, p1 10.0.2.1/24, p2 10.0.3.1/24, and fd00:N::1/64.
func testConfig() Config {
	c := DefaultConfig()
	c.Interfaces = []Interface{
		{Port: "p0", Addresses: []string{"10.0.1.1/24", "fd00:1::1/64"}},
		{Port: "p1", Addresses: []string{"10.0.2.1/24", "fd00:2::1/64"}},
		{Port: "p2", Addresses: []string{"10.0.3.1/24", "fd00:3::1/64"}, MTU: 1400},
	}
	c.Neighbours = []Neighbour{
		{"10.0.1.2", "02:aa:00:00:01:02", "p0"}, {"fd00:1::2", "02:aa:00:00:01:02", "p0"},
		{"10.0.2.2", "02:aa:00:00:02:02", "p1"}, {"fd00:2::2", "02:aa:00:00:02:02", "p1"},
		{"10.0.3.2", "02:aa:00:00:03:02", "p2"}, {"fd00:3::2", "02:aa:00:00:03:02", "p2"},
	}
	c.Routes = []Route{
		{Prefix: "10.9.0.0/16", Via: []string{"10.0.2.2"}},
		{Prefix: "fd09::/32", Via: []string{"fd00:2::2"}},
	}
	return c
}

var (
	hostMAC = net.HardwareAddr{0x02, 0xaa, 0, 0, 1, 2} // of 10.0.1.2 on p0
	ownMAC  = func(port uint16) net.HardwareAddr { m := DefaultMAC(testID, port); return m[:] }
)

func testEnv(workers int) pipeline.Env {
	env := pipeline.Env{Name: "r", ID: testID, Workers: workers, Needs: packet.NeedFlowHash}
	for _, name := range []string{"p0", "p1", "p2", "p3"} {
		env.Ports = append(env.Ports, pipeline.Port{Name: name, MaxFrame: 1514})
	}
	return env
}

func newBench(t testing.TB, c Config) *bench {
	t.Helper()
	return newBenchOf(t, c, testEnv(1))
}

func newBenchOf(t testing.TB, c Config, env pipeline.Env) *bench {
	t.Helper()
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	first, err := parse.New(parse.DefaultConfig(), env)
	if err != nil {
		t.Fatal(err)
	}
	chain := []pipeline.Named{{Name: "parse", Module: first}, {Name: "l3", Module: m}}
	if err := pipeline.Check(chain); err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 2048, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	cache := pool.NewCache()
	return &bench{TB: t, module: m, graph: pipeline.NewGraph(chain, 0), cache: cache,
		batch: packet.NewBatch(cache, 4*packet.BatchSize), now: 1e18, got: tally{reasons: map[string]int{}}}
}

// out is a packet that left.
type out struct {
	port uint16
	data []byte
	copy bool
}

// in is a packet that arrives.
type in struct {
	port uint16
	data []byte
}

// run takes one batch through, keeps the books, and returns what left.
func (b *bench) run(packets ...in) []out {
	b.Helper()
	batch := b.batch
	batch.Now = b.now
	for _, x := range packets {
		addr, ok := batch.Frames.AllocOne()
		for deadline := time.Now().Add(time.Minute); !ok && b.shared && time.Now().Before(deadline); addr, ok = batch.Frames.AllocOne() {
			runtime.Gosched() // another worker has the pool's lock
		}
		if !ok {
			b.Fatal("no frame")
		}
		p := batch.Append()
		p.Addr, p.InPort = addr+headroom, x.port
		p.Len = uint32(copy(batch.Mem[p.Addr:addr+2048], x.data))
		p.WireLen = p.Len
	}
	b.graph.Run(batch)
	b.got.received += len(packets)
	b.got.copied += batch.Copied
	var left []out
	dropped := 0
	for i := range batch.Pkts {
		p := &batch.Pkts[i]
		isCopy := p.Flags.Has(packet.FlagCopy)
		if isCopy != (i >= len(packets)) {
			b.Errorf("packet %d of %d: copy %v", i, len(packets), isCopy)
		}
		fate := []*int{&b.got.forwarded, &b.got.consumed, &b.got.dropped}
		if isCopy {
			fate = []*int{&b.got.copiesOut, &b.got.copiesIn, &b.got.copiesGone}
		}
		switch {
		case p.Reason == packet.Consumed:
			*fate[1]++
			dropped++
		case p.Reason != 0:
			*fate[2]++
			dropped++
			b.got.reasons[p.Reason.String()]++
		default:
			if int(p.OutPort) >= len(b.module.env.Ports) {
				b.Fatalf("packet %d leaves by port %d", i, p.OutPort)
			}
			*fate[0]++
			left = append(left, out{p.OutPort, batch.AppendBytes(nil, p), isCopy})
		}
		batch.Frames.FreePacket(p)
	}
	if dropped != batch.Dropped {
		b.Errorf("%d packets have a reason, the batch counts %d", dropped, batch.Dropped)
	}
	batch.Reset()
	b.balance()
	return left
}

// balance checks the books and the frames.
func (b *bench) balance() {
	b.Helper()
	g := &b.got
	if g.received != g.forwarded+g.consumed+g.dropped || g.copied != g.copiesOut+g.copiesIn+g.copiesGone {
		b.Errorf("the books do not add up: %+v", g)
	}
	if c := b.batch.Pool().Census(); !b.shared && (c.Faults != 0 || c.Free != c.Frames) {
		b.Errorf("frames: %+v", c)
	}
}

// one runs a packet and expects exactly one to leave.
func (b *bench) one(port uint16, data []byte) out {
	b.Helper()
	left := b.run(in{port, data})
	if len(left) != 1 {
		b.Fatalf("%d packets left, want 1; %+v", len(left), b.got)
	}
	return left[0]
}

// none runs a packet and expects it to be dropped for a reason.
func (b *bench) none(port uint16, data []byte, reason packet.Reason) {
	b.Helper()
	before := b.got.reasons[reason.String()]
	if left := b.run(in{port, data}); len(left) != 0 {
		b.Fatalf("%d packets left, want none", len(left))
	}
	if reason != packet.Consumed && b.got.reasons[reason.String()] != before+1 {
		b.Fatalf("reasons %v, want one more of %s", b.got.reasons, reason)
	}
}

// frame serialises layers with all lengths and checksums.
func frame(t testing.TB, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	var network gopacket.NetworkLayer
	for _, l := range parts {
		switch l := l.(type) {
		case *layers.IPv4:
			network = l
		case *layers.IPv6:
			network = l
		case *layers.UDP:
			_ = l.SetNetworkLayerForChecksum(network)
		case *layers.TCP:
			_ = l.SetNetworkLayerForChecksum(network)
		case *layers.ICMPv6:
			_ = l.SetNetworkLayerForChecksum(network)
		}
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, parts...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(buf.Bytes())
}

func ether(dst, src net.HardwareAddr, typ layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{DstMAC: dst, SrcMAC: src, EthernetType: typ}
}

func ip4(src, dst string, ttl uint8, proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, IHL: 5, TTL: ttl, Id: 0x1234, Protocol: proto, SrcIP: net.ParseIP(src).To4(), DstIP: net.ParseIP(dst).To4()}
}

func ip6(src, dst string, hops uint8, next layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: hops, NextHeader: next, SrcIP: net.ParseIP(src), DstIP: net.ParseIP(dst)}
}

// udp returns a datagram from 10.0.1.2 or fd00:1::2 on p0, of n payload bytes.
func udp(t testing.TB, src, dst string, ttl uint8, n int, change ...func(*layers.IPv4)) []byte {
	t.Helper()
	u := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	payload := gopacket.Payload(bytes.Repeat([]byte{0x5a}, n))
	if netip.MustParseAddr(dst).Is6() {
		return frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv6), ip6(src, dst, ttl, layers.IPProtocolUDP), u, payload)
	}
	ip := ip4(src, dst, ttl, layers.IPProtocolUDP)
	for _, f := range change {
		f(ip)
	}
	return frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv4), ip, u, payload)
}

// verified decodes a frame and lets gopacket compute all checksums and lengths
// anew: the bytes must not change.
func verified(t testing.TB, data []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("gopacket cannot decode %x: %v", data, e.Error())
	}
	var parts []gopacket.SerializableLayer
	for _, l := range p.Layers() {
		s, ok := l.(gopacket.SerializableLayer)
		if !ok {
			t.Fatalf("cannot serialise a %s", l.LayerType())
		}
		parts = append(parts, s)
	}
	want := bytes.Clone(data)
	if got := frame(t, parts...); !bytes.Equal(got, want) {
		t.Errorf("gopacket would write\n%x, the stage wrote\n%x", got, want)
	}
	return p
}
