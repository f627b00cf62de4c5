package vectors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/l3"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// goSwitch is the graph that a switch runs, over packets that come one by one. It
// belongs to one goroutine.
type goSwitch struct {
	ports  int
	graph  *pipeline.Graph
	chain  []pipeline.Named
	pool   *packet.Pool
	frames *packet.Cache
	batch  *packet.Batch
	pint   *stagepint.Module // nil without
	edge   []bool            // by port
	bridge *bridge           // nil without l2

	copies    copies          // of all packets
	seen      seen            // of the packet that goes through
	dropped   []packet.Reason // likewise
	collector collector
}

// seen is what the tap behind the parser saw of a packet.
type seen struct {
	id    uint64
	bytes uint64 // what it counts for in a sample of bytes
	vid   uint16 // of its tag; 0: none, or one of a priority alone
	alive bool
	// It is a message of neighbour discovery; it is one that p4/tna follows.
	discovery, plain bool
}

const (
	frameSize = 1 << 17 // of a packet of 64 KiB, with room in front
	headroom  = 256
)

// newGoSwitch builds the stages of a switch. Records go to the collector.
func newGoSwitch(s *tables.Switch, c collector) (*goSwitch, error) {
	env := pipeline.Env{Name: "vectors", ID: s.ID, Workers: 1, Hash: s.Hash, Ports: s.Ports}
	chain, err := stages.Build(s.Graph, s.Stages, env)
	if err != nil {
		return nil, err
	}
	stages.Inline(chain)
	// A packet and a copy for each port that it is flooded to, and what stages hold back.
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4 * packet.BatchSize, FrameSize: frameSize})
	if err != nil {
		return nil, err
	}
	g := &goSwitch{ports: len(s.Ports), pool: pool, frames: pool.NewCache(), collector: c}
	g.chain = slices.Insert(chain, 1, pipeline.Named{Name: "tap", Module: tap{&g.seen}})
	if router := slices.IndexFunc(g.chain, func(n pipeline.Named) bool { return n.Name == "l3" }); router >= 0 {
		g.chain = slices.Insert(g.chain, router+1, pipeline.Named{Name: "hush", Module: hush{}})
	}
	g.batch = packet.NewBatch(g.frames, packet.BatchSize*2)
	g.batch.Depth = make([]uint32, len(s.Ports))
	for _, n := range g.chain {
		if m, ok := n.Module.(*stagepint.Module); ok {
			g.pint = m
			m.Listen()
			c, _ := stageConfig[stagepint.Config](s, "pint")
			for i := range s.Ports {
				g.edge = append(g.edge, slices.Contains(c.Edge, s.Ports[i].Name))
			}
		}
	}
	if g.bridge, err = newBridge(s); err != nil {
		return nil, errors.Join(err, g.close())
	}
	g.graph = pipeline.NewGraph(g.chain, 0)
	g.graph.OnTick(func(now int64) { g.collect(now, false) })
	return g, nil
}

// close gives the memory back.
func (g *goSwitch) close() error {
	g.frames.Close()
	return g.pool.Close()
}

// source is export.Source, which the stages that make records are.
type source interface {
	Collect(now int64, last bool, emit func(*record.Header, func([]byte) ([]byte, error)))
}

// collect takes the records of what is complete, or of all.
func (g *goSwitch) collect(now int64, last bool) {
	for _, n := range g.chain {
		if m, ok := n.Module.(source); ok && n.Module != pipeline.Module(g.pint) {
			m.Collect(now, last, g.collector.record)
		}
	}
}

// finish ends the measurements behind the last packet.
func (g *goSwitch) finish(now int64) {
	g.graph.Finish(now)
	g.collect(now, true)
}

// step takes one packet through the graph.
func (g *goSwitch) step(in Packet) (Result, error) {
	b := g.batch
	b.Reset()
	b.Now = in.Now
	for i := range b.Depth {
		b.Depth[i] = uint32(in.Depth)
	}
	addr, ok := g.frames.AllocOne()
	if !ok || len(in.Data) > frameSize-headroom {
		return Result{}, fmt.Errorf("no frame for a packet of %d bytes", len(in.Data))
	}
	copy(b.Mem[addr+headroom:], in.Data)
	p := b.Append()
	p.Addr, p.Arrival, p.InPort = addr+headroom, in.Arrival, in.Port
	p.Len, p.WireLen = uint32(len(in.Data)), uint32(len(in.Data))
	g.seen, g.dropped = seen{}, g.dropped[:0]
	g.graph.Run(b)
	var r Result
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Flags.Has(packet.FlagCopy) && p.Reason != reasonOwn {
			g.copies.count(p.Reason)
		}
		switch {
		case p.Reason == reasonOwn:
		case p.Reason != 0:
			g.dropped = append(g.dropped, p.Reason)
		case int(p.OutPort) < g.ports:
			r.Out = append(r.Out, Output{p.OutPort, b.AppendBytes(nil, p)})
		default:
			g.dropped = append(g.dropped, packet.ReasonNoPort)
		}
		// What a stage held back is not in the batch, and is the stage's to free.
		g.frames.FreePacket(p)
	}
	var err error
	if g.pint != nil {
		r.Messages, err = g.digests(in)
		g.complete(&r)
	}
	slices.SortStableFunc(r.Out, func(a, b Output) int { return int(a.Port) - int(b.Port) })
	return r, err
}

// digests are the records that the sink made of the packet.
func (g *goSwitch) digests(in Packet) (messages []Message, err error) {
	g.pint.Collect(in.Now, true, func(_ *record.Header, body func([]byte) ([]byte, error)) {
		text, bodyErr := body(nil)
		var d pint.DigestBatch
		if err = errors.Join(err, bodyErr, pint.DecodeDigests(text, &d)); err != nil {
			return
		}
		for _, r := range d.Records {
			messages = append(messages, Message{
				Kind: MessageRecord, Hop: r.Hops, Plan: r.Plan, InPort: in.Port, Digest: r.Digest, ID: r.ID, Arrival: int64(r.TimeNs),
			})
		}
	})
	return messages, err
}

// complete adds to the records which packet each is of: those that left by edge ports, in order.
func (g *goSwitch) complete(r *Result) {
	at := 0
	for _, o := range r.Out {
		if g.edge[o.Port] && at < len(r.Messages) {
			r.Messages[at].OutPort, r.Messages[at].Data = o.Port, o.Data
			at++
		}
	}
}

// tap stands behind the parser and notes what it found.
type tap struct{ seen *seen }

// Role implements pipeline.Module.
func (tap) Role() pipeline.Role { return pipeline.RoleIngress }

// Needs implements pipeline.Module.
func (tap) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (t tap) Stage(int) pipeline.Stage { return t }

// Process implements pipeline.Stage.
func (t tap) Process(b *packet.Batch) {
	p := &b.Pkts[0]
	*t.seen = seen{
		id: p.ID, bytes: sampleBytes(p, b.Data(p)), alive: p.Reason == 0, discovery: p.Reason == 0 && l3.Discovery(p, b.Data(p)),
		plain: p.Reason == 0 && plain(p, b.Data(p)),
	}
	if p.Flags.Has(packet.FlagVLAN) {
		t.seen.vid = p.VLAN & 0xfff
	}
}

// sampleBytes is the length of an Ethernet frame with what IP declares, or of other packets behind the link header, without a tag.
func sampleBytes(p *packet.Packet, data []byte) uint64 {
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		return header.EthernetLen + uint64(header.IPv4At(data, int(p.L3)).TotalLen())
	case p.Flags.Has(packet.FlagIPv6):
		return header.EthernetLen + header.IPv6Len + uint64(header.IPv6At(data, int(p.L3)).PayloadLen())
	}
	return max(60, header.EthernetLen+uint64(len(data))-min(uint64(p.L3), uint64(len(data))))
}

// reasonOwn takes out what the switch itself asks and answers, which with P4 is the control plane's.
var reasonOwn = packet.Register("vectors_own", "a packet of the switch itself, which the vectors leave out")

// hush stands behind the router and takes out the packets that it made: they have no packet id.
type hush struct{}

// Role implements pipeline.Module.
func (hush) Role() pipeline.Role { return pipeline.RoleEgress }

// Needs implements pipeline.Module.
func (hush) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (h hush) Stage(int) pipeline.Stage { return h }

// Process implements pipeline.Stage.
func (hush) Process(b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && p.ID == 0 {
			p.Reason = reasonOwn
		}
	}
}
