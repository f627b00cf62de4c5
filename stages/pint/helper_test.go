package pint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/telemetry/hash"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	envelope "github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// node is one switch of a test network: parser, a cross-connect from port 0 to
// port 1, and the stage, with the queue and clock of the test's choice.
type node struct {
	module *Module
	stage  *stage
	parse  pipeline.Stage
	out    uint16
}

// testNetwork is a chain of switches in which packets go from the first one's
// port 0 to the last one's port 1.
type testNetwork struct {
	t     testing.TB
	batch *packet.Batch
	nodes []*node
	now   int64

	stores map[*Module]*store.Store // of what was recorded

	headroom int  // in front of packets, if not 0
	ttl      bool // the switches route: each lowers the TTL
}

// config is what a test says of its switches; edge is set by the chain.
func newChain(t testing.TB, hops int, c Config, maxFrame int) *testNetwork {
	t.Helper()
	return newChainOf(t, hash.XX, hops, c, maxFrame)
}

func newChainOf(t testing.TB, f hash.Family, hops int, c Config, maxFrame int) *testNetwork {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 256, FrameSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	n := &testNetwork{t: t, batch: packet.NewBatch(pool.NewCache(), packet.BatchSize), now: 1_000_000_000, stores: map[*Module]*store.Store{}}
	for i := range hops {
		c.Edge = nil
		if i == 0 {
			c.Edge = append(c.Edge, "p0")
		}
		if i == hops-1 {
			c.Edge = append(c.Edge, "p1")
		}
		n.nodes = append(n.nodes, newNodeOf(t, f, uint32(i+1), c, maxFrame))
	}
	return n
}

func newNode(t testing.TB, id uint32, c Config, maxFrame int) *node {
	t.Helper()
	return newNodeOf(t, hash.XX, id, c, maxFrame)
}

func newNodeOf(t testing.TB, f hash.Family, id uint32, c Config, maxFrame int) *node {
	t.Helper()
	env := pipeline.Env{ID: id, Workers: 1, Hash: f, Ports: []pipeline.Port{{Name: "p0", MaxFrame: maxFrame}, {Name: "p1", MaxFrame: maxFrame}}}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	m.Listen()
	env.Needs = m.Needs()
	p, err := parse.New(parse.DefaultConfig(), env)
	if err != nil {
		t.Fatal(err)
	}
	return &node{module: m, stage: m.Stage(0).(*stage), parse: p.Stage(0), out: 1}
}

// at takes frames through one switch, each with the given latency, and returns
// what leaves: nil where a packet was dropped.
func (n *testNetwork) at(i int, frames [][]byte, latency func() int64) [][]byte {
	n.t.Helper()
	out := make([][]byte, 0, len(frames))
	for len(frames) > 0 {
		some := frames[:min(len(frames), packet.BatchSize)]
		frames = frames[len(some):]
		out = append(out, n.batchAt(i, some, latency)...)
	}
	return out
}

func (n *testNetwork) batchAt(i int, frames [][]byte, latency func() int64) [][]byte {
	n.t.Helper()
	b, node := n.batch, n.nodes[i]
	b.Reset()
	b.Now = n.now
	b.Depth = []uint32{0, 0}
	for _, f := range frames {
		addr, ok := b.Frames.AllocOne()
		if !ok {
			n.t.Fatal("no frame")
		}
		p := b.Append()
		p.Addr = addr + 256
		if n.headroom != 0 {
			p.Addr = addr + uint64(n.headroom)
		}
		p.Len = uint32(copy(b.Mem[p.Addr:addr+4096], f))
		p.WireLen = p.Len
		p.Arrival = n.now - latency()
	}
	node.parse.Process(b)
	for k := range b.Pkts {
		p := &b.Pkts[k]
		p.OutPort = node.out
		if n.ttl && p.Flags.Has(packet.FlagIPv4) {
			ip := header.IPv4At(b.Data(p), int(p.L3))
			ip.SetTTL(ip.TTL() - 1)
			p.TTL--
		}
	}
	node.stage.Process(b)
	out := make([][]byte, len(b.Pkts)) // what the switch made is at the end
	for k := range b.Pkts {
		p := &b.Pkts[k]
		if p.Reason == 0 {
			out[k] = bytes.Clone(b.Data(p))
			if !p.Flags.Has(packet.FlagCopy) {
				checkMetadata(n.t, node, b, p)
			} else if p.OutPort != p.InPort {
				n.t.Errorf("a packet of the switch leaves by port %d", p.OutPort)
			}
		}
		b.Frames.FreePacket(p)
	}
	n.now += 1_000_000
	return out
}

// checkMetadata parses again what leaves: the stage must have kept the metadata right.
func checkMetadata(t testing.TB, node *node, b *packet.Batch, p *packet.Packet) {
	t.Helper()
	again := packet.NewBatch(b.Frames, packet.BatchSize)
	again.Now = b.Now
	q := again.Append()
	q.Addr, q.Len, q.WireLen, q.Arrival = p.Addr, p.Len, p.WireLen, p.Arrival
	node.parse.Process(again)
	q.OutPort, q.InPort = p.OutPort, p.InPort
	// A tag that is cut is a fault in front of a shim, and opaque behind one.
	q.Flags = q.Flags&^packet.FlagMalformed | p.Flags&packet.FlagMalformed
	if *q != *p {
		t.Fatalf("metadata behind the stage:\n%+v\nparsed again:\n%+v", *p, *q)
	}
}

// through takes frames through the whole chain.
func (n *testNetwork) through(frames [][]byte, latency func(hop int) int64) [][]byte {
	n.t.Helper()
	for i := range n.nodes {
		frames = n.at(i, frames, func() int64 { return latency(i + 1) })
	}
	return frames
}

func (n *testNetwork) sink() *Module { return n.nodes[len(n.nodes)-1].module }

// ask asks the engine about all that a switch has recorded.
func (n *testNetwork) ask(m *Module, q query.Question) (any, error) {
	n.t.Helper()
	s := n.stores[m]
	if s == nil {
		s = new(store.Store)
		n.stores[m] = s
	}
	m.drain()
	m.Collect(math.MaxInt64, true, func(h *envelope.Header, body func([]byte) ([]byte, error)) {
		h.Switch, h.Hash = m.env.ID, m.env.Hash
		text, err := body(nil)
		if outcome := s.Add(*h, text); err != nil || outcome != store.Taken {
			n.t.Fatalf("a record is %v: %v", outcome, err)
		}
	})
	s.Sort()
	plans, switches, links := m.Decoding()
	e := query.Engine{Store: s, Plans: plans, Switches: switches, Topology: links}
	return e.Ask(context.Background(), &q)
}

// path is what is known of a flow's path.
type path struct {
	query.FlowPath
	numbers []uint64 // of the switches
}

// paths are those that the digests of the last switch tell.
func (n *testNetwork) paths() (list []path) {
	n.t.Helper()
	answer, err := n.ask(n.sink(), query.Question{Kind: query.KindPath})
	if errors.Is(err, query.ErrNoRecords) {
		return nil
	}
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range answer.(*query.PathAnswer).Flows {
		p := path{FlowPath: f}
		for _, h := range f.Hops {
			if f.Known {
				p.numbers = append(p.numbers, h.Number)
			}
		}
		list = append(list, p)
	}
	return list
}

// counts are the counters of a switch by name and reason.
func counts(m *Module) map[string]uint64 {
	c := map[string]uint64{}
	m.Metrics(func(x pipeline.Metric) {
		name := x.Name
		for _, l := range x.Labels {
			name += " " + l[1]
		}
		if x.Value != 0 {
			c[name] = uint64(x.Value)
		}
	})
	return c
}

// checkSum fails unless the fates add up to the packets.
func checkSum(t testing.TB, m *Module, packets uint64) {
	t.Helper()
	var sum uint64
	c := counts(m)
	for name, n := range c {
		switch name {
		case "sourced_packets_total", "transited_packets_total", "sunk_packets_total", "local_packets_total":
			sum += n
		default:
			if len(name) > 18 && name[:18] == "left_packets_total" {
				sum += n
			}
		}
	}
	if c["packets_total"] != packets || sum != packets {
		t.Errorf("%d packets counted, fates of %d, want %d: %v", c["packets_total"], sum, packets, c)
	}
}

// savePlan writes a plan for a Config to name.
func savePlan(t testing.TB, c pintplan.Config) string {
	t.Helper()
	p, err := pintplan.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("plan%d.toml", c.ID))
	if err := p.Save(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// The frames of the tests.

func ethernet(typ int, rest ...[]byte) []byte {
	f := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, byte(typ >> 8), byte(typ)}
	for _, r := range rest {
		f = append(f, r...)
	}
	return f
}

func tagged(vid, typ int, rest ...[]byte) []byte {
	f := []byte{byte(vid >> 8), byte(vid), byte(typ >> 8), byte(typ)}
	for _, r := range rest {
		f = append(f, r...)
	}
	return f
}

// ipv4 is a packet with a right checksum; word is identification, flags and offset.
func ipv4(ttl int, word uint32, proto int, payload []byte) []byte {
	ip := make([]byte, 20, 20+len(payload))
	ip[0], ip[8], ip[9] = 0x45, byte(ttl), byte(proto)
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint32(ip[4:], word)
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip))
	return append(ip, payload...)
}

func ipv6(next int, payload []byte) []byte {
	ip := make([]byte, 40, 40+len(payload))
	ip[0], ip[6], ip[7] = 0x60, byte(next), 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(payload)))
	ip[8], ip[23], ip[24], ip[39] = 0xfd, 1, 0xfd, 2
	return append(ip, payload...)
}

func udp(src, dst int, payload []byte) []byte {
	u := binary.BigEndian.AppendUint16(nil, uint16(src))
	u = binary.BigEndian.AppendUint16(u, uint16(dst))
	u = binary.BigEndian.AppendUint16(u, uint16(8+len(payload)))
	return append(append(u, 0xab, 0xcd), payload...)
}

func tcp(src, dst int, seq uint32, payload []byte) []byte {
	h := binary.BigEndian.AppendUint16(nil, uint16(src))
	h = binary.BigEndian.AppendUint16(h, uint16(dst))
	h = binary.BigEndian.AppendUint32(h, seq)
	h = append(h, 0, 0, 0, 1, 0x50, 0x10, 0xfa, 0xf0, 0x12, 0x34, 0, 0)
	return append(h, payload...)
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// anyFrame is a frame of a kind that hosts send, with a payload of its own.
func anyFrame(r *rand.Rand) []byte {
	body := random(r, 24+r.IntN(1000))
	atomic := uint32(0x4000) | uint32(r.IntN(2)*r.IntN(65536))<<16
	switch r.IntN(12) {
	case 0:
		return ethernet(0x0800, ipv4(64, atomic, 6, tcp(1000, 80, r.Uint32(), body)))
	case 1:
		return ethernet(0x0800, ipv4(64, atomic, 17, udp(1000, 53, body)))
	case 2:
		return ethernet(0x0800, ipv4(64, r.Uint32()&0xffff0000|0x2000, 17, body)) // first fragment
	case 3:
		return ethernet(0x0800, ipv4(64, r.Uint32()&0xffff0000|0x00b9, 17, body)) // last fragment
	case 4:
		return ethernet(0x86dd, ipv6(6, tcp(2000, 80, r.Uint32(), body)))
	case 5:
		return ethernet(0x86dd, ipv6(44, append([]byte{17, 0, 0, 1, 1, 2, 3, 4}, body...)))
	case 6:
		return ethernet(0x8100, tagged(10, 0x0800, ipv4(64, atomic, 6, tcp(3000, 80, r.Uint32(), body))))
	case 7:
		return ethernet(0x88a8, tagged(10, 0x8100, tagged(20, 0x86dd, ipv6(17, udp(3000, 80, body)))))
	case 8:
		return ethernet(0x0806, []byte{0, 1, 8, 0, 6, 4, 0, 1}, body[:20], make([]byte, 18))
	case 9:
		return ethernet(0x0800, ipv4(64, atomic, 1, append([]byte{8, 0, 1, 2}, body...)))
	case 10:
		return ethernet(len(body), body) // 802.3 with LLC
	}
	return ethernet(0x9999, body)
}
