package pint

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/parse"
)

// router is a router with the stage: p0 leads to hosts, 10.0.1.0/24, and p1 into the
// network, 10.0.2.0/24.
type router struct {
	*testing.T
	graph  *pipeline.Graph
	module *Module
	batch  *packet.Batch
}

func newRouter(t *testing.T) *router {
	t.Helper()
	env := pipeline.Env{Name: "r", ID: 7, Workers: 1, Ports: []pipeline.Port{{Name: "p0", MaxFrame: largeFrame}, {Name: "p1", MaxFrame: largeFrame}}}
	c := DefaultConfig()
	c.Edge = []string{"p0"}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	routes := l3.DefaultConfig()
	routes.Interfaces = []l3.Interface{{Port: "p0", Addresses: []string{"10.0.1.1/24"}}, {Port: "p1", Addresses: []string{"10.0.2.1/24"}}}
	r, err := l3.New(routes, env)
	if err != nil {
		t.Fatal(err)
	}
	env.Needs = m.Needs() | r.Needs()
	p, err := parse.New(parse.DefaultConfig(), env)
	if err != nil {
		t.Fatal(err)
	}
	chain := []pipeline.Named{{Name: "parse", Module: p}, {Name: "l3", Module: r}, {Name: "pint", Module: m}}
	if err := pipeline.Check(chain); err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 256, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &router{T: t, graph: pipeline.NewGraph(chain, 0), module: m, batch: packet.NewBatch(pool.NewCache(), 2*packet.BatchSize)}
}

// pass takes frames that arrive by a port through, and returns what leaves by the ports.
func (r *router) pass(port uint16, frames ...[]byte) (out [2][][]byte) {
	r.Helper()
	b := r.batch
	b.Reset()
	b.Now += 1_000_000_000
	b.Depth = []uint32{0, 0}
	for _, f := range frames {
		addr, ok := b.Frames.AllocOne()
		if !ok {
			r.Fatal("no frame")
		}
		p := b.Append()
		p.Addr, p.InPort = addr+256, port
		p.Len = uint32(copy(b.Mem[p.Addr:addr+2048], f))
		p.WireLen = p.Len
	}
	r.graph.Run(b)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason == 0 {
			out[p.OutPort] = append(out[p.OutPort], bytes.Clone(b.Data(p)))
		}
		b.Frames.FreePacket(p)
	}
	return out
}

// routerMAC is the link address of the router's port.
func routerMAC(port uint16) [6]byte { return l3.DefaultMAC(7, port) }

// arpReply is a neighbour's answer to the router.
func arpReply(from string, port uint16) []byte {
	mac, me, them := routerMAC(port), netip.AddrFrom4([4]byte{10, 0, byte(port + 1), 1}).As4(), netip.MustParseAddr(from).As4()
	f := slices.Concat(mac[:], []byte{2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 9}, them[:], mac[:], me[:])
	return append(f, make([]byte, 18)...)
}

// routedFrame is a TCP packet between hosts, to the router's port, whose type is behind a
// shim if there is one.
func routedFrame(src, dst string, port uint16, shim []byte) []byte {
	ip := ipv4(64, 0x4000, 6, tcp(1000, 80, 1, []byte("payload of some bytes")))
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	ip[10], ip[11] = 0, 0
	sum := header.Checksum(ip[:20])
	ip[10], ip[11] = byte(sum>>8), byte(sum)
	mac := routerMAC(port)
	f := slices.Concat(mac[:], []byte{2, 0, 0, 0, 0, 8})
	if shim != nil {
		f = slices.Concat(f, []byte{header.TypeShim >> 8, header.TypeShim & 0xff}, shim)
	}
	return slices.Concat(f, []byte{8, 0}, ip)
}

// oneShim is a shim of the built-in plan at its third hop, up to the type behind it.
var oneShim = []byte{1<<4 | 1, 3, 0, 1, 0xde, 0xad}

// TestHeldAtTheSource: a router's answer from within the network lets packets of hosts go on
// that had to wait. They get their digests, and a shim that a host has forged is wrapped
// like any other data, and not taken for the network's.
func TestHeldAtTheSource(t *testing.T) {
	r := newRouter(t)
	for _, f := range [][]byte{routedFrame("10.0.1.2", "10.0.2.2", 0, nil), routedFrame("10.0.1.2", "10.0.2.2", 0, oneShim)} {
		if out := r.pass(0, f); len(out[1]) > 1 || len(out[1]) == 1 && out[1][0][12] != 8 {
			t.Fatalf("% x did not wait: % x", f, out)
		}
	}
	before := counts(r.module)
	out := r.pass(1, arpReply("10.0.2.2", 1))
	c := counts(r.module)
	if len(out[1]) != 2 || c["sourced_packets_total"]-before["sourced_packets_total"] != 2 || c["transited_packets_total"] != 0 {
		t.Fatalf("left % x: %v", out, c)
	}
	for i, f := range out[1] {
		shim := header.ShimAt(f, header.EthernetLen)
		if shim == nil || shim.Hop() != 1 || shim.Plan() != 1 {
			t.Fatalf("packet %d: % x", i, f)
		}
		inner := header.ShimAt(f, header.EthernetLen+len(shim))
		if forged := i == 1; forged != (shim.Type() == header.TypeShim) || forged && !bytes.Equal(inner[:len(oneShim)], oneShim) {
			t.Errorf("packet %d: % x", i, f)
		}
	}
}

// TestHeldAtTheSink: packets of the network that waited for a host to answer lose their digests and
// are recorded.
func TestHeldAtTheSink(t *testing.T) {
	r := newRouter(t)
	r.pass(1, routedFrame("10.0.2.2", "10.0.1.2", 1, oneShim))
	out := r.pass(0, arpReply("10.0.1.2", 0))
	c := counts(r.module)
	if len(out[0]) != 1 || c["sunk_packets_total"] != 1 || c["records_total"] != 1 || c["local_packets_total"] != 0 {
		t.Fatalf("left % x: %v", out, c)
	}
	if want := routedFrame("10.0.2.2", "10.0.1.2", 1, nil); len(out[0][0]) != len(want) || !bytes.Equal(out[0][0][34:], want[34:]) || out[0][0][12] != 8 {
		t.Errorf("left % x", out[0][0])
	}
}
