package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/pint"
)

// chainSwitches puts switches in a row in place of the one: each has its stages, and with the stage pint the ends are its
// edges.
func (r *Replay) chainSwitches() error {
	if len(r.names) != 2 {
		return fmt.Errorf("a chain needs switches of two ports, and there are %s", strings.Join(r.names, ", "))
	}
	c := r.config.Switch
	var switches []netsim.Switch
	var cables []netsim.Cable
	last := r.config.Chain - 1
	for i := range last + 1 {
		s := netsim.Switch{ID: uint32(i + 1), Hash: c.Switch.Hash, Ports: r.names, Graph: c.Switch.Graph, Stages: maps.Clone(c.Stages), MTU: r.config.MTU, BitsPerSecond: r.config.LinkRate}
		if slices.Contains(c.Switch.Graph, "pint") {
			edges := pint.DefaultConfig()
			if given, ok := c.Stages["pint"].(*pint.Config); ok {
				edges = *given
			}
			edges.Edge = nil
			if i == 0 {
				edges.Edge = append(edges.Edge, r.names[0])
			}
			if i == last {
				edges.Edge = append(edges.Edge, r.names[1])
			}
			s.Stages["pint"] = &edges
		}
		switches = append(switches, s)
		if i > 0 {
			cables = append(cables, netsim.Cable{{Switch: i - 1, Port: 1}, {Switch: i, Port: 0}})
		}
	}
	network, err := netsim.NewNetwork(switches, cables, r.pool.NewCache())
	if err != nil {
		return err
	}
	r.row = &rowModule{network: network, last: last, rate: r.config.LinkRate}
	if r.config.LinkRate > 0 {
		r.row.queues = make([][2]queue, last+1)
		network.Queue = r.row.wait
	}
	if r.config.INT != nil {
		if r.row.beside, err = newBeside(&r.config, roundTrip(c.Stages)); err != nil {
			return err
		}
		network.Passed = r.row.beside.passed
	}
	first, err := stages.Kinds["parse"].New(stages.Kinds["parse"].Default(), pipeline.Env{Workers: 1, Hash: c.Switch.Hash})
	r.chain = []pipeline.Named{{Name: "parse", Module: first}, {Name: "chain", Module: r.row}}
	return err
}

// rowModule is a network of switches as the forwarding stage of one: packets
// of port 0 enter the first switch of the row, those of port 1 the last one.
type rowModule struct {
	network *netsim.Network
	last    int
	// LinkRate, the queues by switch and arrival port, and the length of the present packet without telemetry.
	rate   uint64
	queues [][2]queue
	own    uint32
	beside *beside // nil: there is no second carrier
}

// queue is the packets at a switch that came by one port, in their order: when they will have left.
type queue struct{ leaves []int64 }

// wait is netsim's Network.Queue.
func (m *rowModule) wait(at netsim.End, _ *packet.Packet, now int64) (delayNs int64, waiting int) {
	q := &m.queues[at.Switch][at.Port]
	gone := 0
	for gone < len(q.leaves) && q.leaves[gone] <= now {
		gone++
	}
	q.leaves = slices.Delete(q.leaves, 0, gone)
	free := now
	if waiting = len(q.leaves); waiting > 0 {
		free = q.leaves[waiting-1]
	}
	q.leaves = append(q.leaves, free+int64(uint64(m.own)*8*1e9/m.rate))
	if m.beside != nil {
		m.beside.waited = uint32(waiting)
	}
	return q.leaves[waiting] - now, waiting
}

// checkLinks reports faults of what concerns the links of a chain.
func (c *Config) checkLinks() error {
	switch {
	case c.Chain == 0 && (c.LinkRate != 0 || c.MTU != 0 || c.INT != nil):
		return errors.New("links have a rate, an MTU and a second carrier in a chain: name its switches")
	case c.LinkRate != 0 && (c.LinkRate < 1_000_000 || c.LinkRate > 100_000_000_000_000):
		return fmt.Errorf("links of %d bit/s: choose 1 Mbit/s to 100 Tbit/s", c.LinkRate)
	case c.MTU != 0 && (c.MTU < 68 || c.MTU > 65535):
		return fmt.Errorf("an MTU of %d: choose 68 to 65535 bytes, or 0 for no limit", c.MTU)
	case c.INT == nil:
		return nil
	case c.Chain < 2 || c.LinkRate == 0:
		return errors.New("a second carrier needs a chain of at least 2 switches, and links with a rate")
	}
	return c.INT.Validate()
}

// Role implements pipeline.Module.
func (m *rowModule) Role() pipeline.Role { return pipeline.RoleForward }

// Needs implements pipeline.Module.
func (m *rowModule) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *rowModule) Stage(int) pipeline.Stage { return m }

// Process implements pipeline.Stage.
func (m *rowModule) Process(b *packet.Batch) {
	n := m.network
	n.Copied, n.NoFrame, n.NoRoom = 0, 0, 0
	old := b.Rebuild()
	for i := range old {
		p := &old[i]
		if p.Reason != 0 {
			*b.Append() = *p
			continue
		}
		enter := netsim.End{Switch: 0, Port: 0}
		if p.InPort == 1 {
			enter = netsim.End{Switch: m.last, Port: 1}
		}
		rest := len(old) - i
		m.own = p.WireLen
		if m.beside != nil {
			m.beside.begin(p, b.Data(p))
		}
		n.Carry(enter, *p, func(at netsim.End, q *packet.Packet) {
			if m.beside != nil && !q.Flags.Has(packet.FlagCopy) {
				m.beside.end(at)
			}
			m.leave(b, at, q, p.InPort, &rest)
		})
	}
	b.Copied, b.NoFrame, b.NoRoom = b.Copied+n.Copied, b.NoFrame+n.NoFrame, b.NoRoom+n.NoRoom
}

// leave puts a packet back into the batch; rest originals still need room there.
func (m *rowModule) leave(b *packet.Batch, at netsim.End, q *packet.Packet, in uint16, rest *int) {
	if q.Flags.Has(packet.FlagCopy) {
		if cap(b.Pkts)-len(b.Pkts) <= *rest {
			b.Frames.FreePacket(q)
			m.network.Copied--
			b.NoRoom++
			return
		}
	} else {
		*rest--
	}
	o := b.Append()
	*o = *q
	o.InPort, o.OutPort = in, uint16(at.Port)
	if q.Reason != 0 {
		o.OutPort = packet.NoPort
		b.Dropped++
	}
}

// Tick implements pipeline.Ticker: each switch of the row has its own clock.
func (m *rowModule) Tick(int64) int64 { return 1<<63 - 1 }

// Finish implements pipeline.Ticker.
func (m *rowModule) Finish(now int64) { m.network.Finish(now) }
