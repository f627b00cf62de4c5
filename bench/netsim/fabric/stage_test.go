package fabric

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// realSwitch is a switch that runs parse and pint on frames.
type realSwitch struct {
	parse, pint pipeline.Stage
	ports       []uint32 // links, by port
}

// frameBytes is the length of the frames, shims included: of one size, so that a queue in packets, which
// the stage knows, says as much as one in bytes.
const frameBytes = 1000

// newFrame is a UDP packet of a network that carries digests already, before its first switch.
func newFrame(p *pintplan.Plan, number int) []byte {
	f := make([]byte, frameBytes)
	f[5], f[11] = 1, 2 // addresses
	binary.BigEndian.PutUint16(f[12:], header.TypeShim)
	at := header.EthernetLen + header.ShimLen((p.Bits+7)/8)
	binary.BigEndian.PutUint16(f[at-2:], 0x0800)
	header.NewShim(f[header.EthernetLen:], (p.Bits+7)/8, p.ID)
	ip := f[at:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(ip[20:], 7)
	binary.BigEndian.PutUint16(ip[22:], 4791)
	binary.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20))
	binary.BigEndian.PutUint32(ip[28:], uint32(number)) // the payload
	return f
}

// TestStageWritesTheSameDigest takes each simulated packet through the real stage as well, byte by byte, at
// each switch with the time and the queue of the simulation: hop numbers and digests must be the simulator's.
func TestStageWritesTheSameDigest(t *testing.T) {
	plan, err := pintplan.New(pintplan.Config{ID: 9, Seed: 5, Bits: 16, Queries: []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Hybrid(5)}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: .5,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}},
		congestionQuery(.5),
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.toml")
	if err := plan.Save(file); err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	batch := packet.NewBatch(pool.NewCache(), packet.BatchSize)

	c, _ := pintConfig(t, plan)
	frames := map[uint64][]byte{} // by packet id
	var n *Network
	var switches []realSwitch
	// at has the frame of a simulated packet pass a switch.
	at := func(p *Packet) (hop int, digest uint64) {
		link := n.routes[p.Route].links[p.hop]
		l := &n.links[link]
		v := &switches[l.from]
		port := slices.Index(v.ports, link)
		f := frames[p.ID]
		b := batch
		b.Reset()
		b.Now = int64(n.now / event.Nanosecond)
		b.Depth = make([]uint32, len(v.ports))
		b.Depth[port] = uint32(l.queued / frameBytes)
		addr, _ := b.Frames.AllocOne()
		q := b.Append()
		q.Addr, q.Len, q.WireLen = addr+256, frameBytes, frameBytes
		q.Arrival = int64(n.came(p, p.Bytes, link) / event.Nanosecond)
		copy(b.Mem[q.Addr:], f)
		v.parse.Process(b)
		if q.ID != p.ID {
			t.Fatalf("packet id %x, at its source %x", q.ID, p.ID)
		}
		q.OutPort = uint16(port)
		v.pint.Process(b)
		if q.Reason != 0 || int(q.Len) != frameBytes {
			t.Fatalf("the stage dropped or changed the packet: reason %d, %d bytes", q.Reason, q.Len)
		}
		copy(f, b.Data(q))
		b.Frames.FreePacket(q)
		s := header.ShimAt(f, header.EthernetLen)
		return int(s.Hop()), s.Digest()
	}
	compared, differing := 0, map[uint64]bool{}
	c.Telemetry.Observed = func(p *Packet, v *pint.Observed) {
		hop, digest := at(p)
		if hop != int(p.Hops) || digest != p.Digest {
			t.Fatalf("packet %x: the stage wrote %04x as hop %d, the simulator %04x as hop %d", p.ID, digest, hop, p.Digest, p.Hops)
		}
		compared++
		differing[digest] = true
	}
	n = newNetwork(t, c)
	switches = realSwitches(t, n, file)
	s := incast(t, n, 3000)
	s.bytes = func(int, int) uint32 { return frameBytes }
	s.id = func(i int) uint64 {
		f := newFrame(plan, i)
		id := parsedID(t, batch, switches[0].parse, f)
		frames[id] = f
		return id
	}
	s.drain(nil)
	if compared < 9000 || len(differing) < 1000 || len(frames) != 3000 {
		t.Errorf("%d digests were compared, %d of them different, of %d packets", compared, len(differing), len(frames))
	}
}

func realSwitches(t *testing.T, n *Network, plan string) []realSwitch {
	switches := make([]realSwitch, len(n.switches))
	for i := range n.links {
		if l := &n.links[i]; !n.isHost(l.from) {
			switches[l.from].ports = append(switches[l.from].ports, uint32(i))
		}
	}
	for i := range switches {
		v := &switches[i]
		env := pipeline.Env{ID: uint32(n.config.Graph.Nodes[i].ID), Workers: 1}
		for _, l := range v.ports {
			env.Ports = append(env.Ports, pipeline.Port{Name: "to" + string(rune('a'+len(env.Ports))), BitsPerSecond: uint64(8 * event.Second / n.links[l].perByte)})
		}
		config := stage.DefaultConfig()
		config.Plan, config.RoundTrip = plan, 13*time.Microsecond
		m, err := stage.New(config, env)
		if err != nil {
			t.Fatal(err)
		}
		m.Inline()
		env.Needs = m.Needs()
		p, err := parse.New(parse.DefaultConfig(), env)
		if err != nil {
			t.Fatal(err)
		}
		v.parse, v.pint = p.Stage(0), m.Stage(0)
	}
	return switches
}

func parsedID(t *testing.T, b *packet.Batch, parse pipeline.Stage, f []byte) uint64 {
	b.Reset()
	addr, _ := b.Frames.AllocOne()
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr+256, uint32(len(f)), uint32(len(f))
	copy(b.Mem[p.Addr:], f)
	parse.Process(b)
	if p.ID == 0 {
		t.Fatal("the parser gives no id")
	}
	b.Frames.FreePacket(p)
	return p.ID
}
