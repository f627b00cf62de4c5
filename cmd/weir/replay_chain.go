package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/pint"
)

// maxRow bounds --chain: the hop field ends at 255.
const maxRow = 255

// row puts n switches in a row in place of the one: each has the stages of the
// plan, the ids are 1 to n, and with the stage pint the ends are its edges.
func (p *replayPlan) row(n int, pool *packet.Pool) error {
	if len(p.ports) != 2 {
		return fmt.Errorf("--chain needs switches of two ports, and there are %s", strings.Join(p.ports, ", "))
	}
	var switches []netsim.Switch
	var cables []netsim.Cable
	for i := range n {
		s := netsim.Switch{ID: uint32(i + 1), Hash: p.hash, Ports: p.ports, Graph: p.graph, Stages: maps.Clone(p.configs)}
		if slices.Contains(p.graph, "pint") {
			s.Stages["pint"] = p.edges(i == 0, i == n-1)
		}
		switches = append(switches, s)
		if i > 0 {
			cables = append(cables, netsim.Cable{{Switch: i - 1, Port: 1}, {Switch: i, Port: 0}})
		}
	}
	network, err := netsim.NewNetwork(switches, cables, pool.NewCache())
	if err != nil {
		return err
	}
	p.chained = &rowModule{network: network, last: n - 1}
	first, err := stages.Kinds["parse"].New(stages.Kinds["parse"].Default(), pipeline.Env{Workers: 1, Hash: p.hash})
	p.chain = []pipeline.Named{{Name: "parse", Module: first}, {Name: "chain", Module: p.chained}}
	return err
}

// replayFlows is how many flows a replay without a configuration keeps: those of
// a long capture.
const replayFlows = 1 << 20

// edges is the configuration of pint for a switch of the row.
func (p *replayPlan) edges(first, last bool) *pint.Config {
	c := pint.DefaultConfig()
	c.MaxFlows = replayFlows
	if given, ok := p.configs["pint"].(*pint.Config); ok {
		c = *given
	}
	c.Edge = nil
	if first {
		c.Edge = append(c.Edge, p.ports[0])
	}
	if last {
		c.Edge = append(c.Edge, p.ports[1])
	}
	return &c
}

// rowModule is a network of switches as the forwarding stage of one: what
// arrives on port 0 enters the first switch of the row, on port 1 the last one.
type rowModule struct {
	network *netsim.Network
	last    int
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
		n.Carry(enter, *p, func(at netsim.End, q *packet.Packet) { m.leave(b, at, q, p.InPort, &rest) })
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

// Tick implements pipeline.Ticker: the switches of the row have clocks of their own.
func (m *rowModule) Tick(int64) int64 { return 1<<63 - 1 }

// Finish implements pipeline.Ticker.
func (m *rowModule) Finish(now int64) { m.network.Finish(now) }

// replayDecoded is what one switch of a replay has decoded, and whether it is
// true, where that is known: in a chain each flow's path is.
type replayDecoded struct {
	Switch int               `json:"switch"`
	Pint   *api.PintResponse `json:"-"`
	Flows  int               `json:"flows"`   // with a path query's digest
	Long   int               `json:"long"`    // of these, with at least LongFlow packets
	Found  int               `json:"decoded"` // of these, certain and right
	Wrong  int               `json:"wrong"`   // of all flows, certain and not right
	Hops   int               `json:"hops"`    // of the chain, 0 if there is none
}

// longFlow is how many packets a flow needs for its path to count as decodable:
// packets that have ids of their own, for a repeated packet says nothing new.
const longFlow = 60

// addDecoded asks the sinks.
func (r *replayReport) addDecoded(p *replayPlan) {
	if p.chained == nil {
		if m := pintOf(p.chain); m != nil {
			r.Decoded = append(r.Decoded, newDecoded(m, int(p.id), nil))
		}
		return
	}
	n := p.chained.last + 1
	for i := range n {
		m := pintOf(p.chained.network.Chain(i))
		if m == nil || !m.Sink() || n > 1 && i != 0 && i != n-1 {
			continue
		}
		truth := make([]uint64, n)
		for hop := range truth {
			truth[hop] = uint64(hop + 1)
		}
		if i == 0 {
			slices.Reverse(truth)
		}
		r.Decoded = append(r.Decoded, newDecoded(m, i+1, truth))
	}
}

// pintOf finds the stage pint of a graph, or nil.
func pintOf(chain []pipeline.Named) *pint.Module {
	for _, n := range chain {
		if m, ok := n.Module.(*pint.Module); ok {
			return m
		}
	}
	return nil
}

func newDecoded(m *pint.Module, id int, truth []uint64) *replayDecoded {
	d := &replayDecoded{Switch: id, Pint: node.PintAnswer(m, &api.PintRequest{}), Hops: len(truth)}
	for _, p := range d.Pint.Paths {
		right := truth == nil || slices.Equal(p.Path, truth)
		d.Flows++
		if p.Packets >= longFlow && (p.Certain || p.Digests >= longFlow) {
			d.Long++
			if p.Certain && right {
				d.Found++
			}
		}
		if p.Certain && !right {
			d.Wrong++
		}
	}
	return d
}

// shownFlows is how many flows of a view the text report shows.
const shownFlows = 10

func (r *replayReport) printDecoded(w io.Writer) error {
	for _, d := range r.Decoded {
		if d.Flows == 0 && len(d.Pint.Loops) == 0 {
			continue
		}
		_, err := fmt.Fprintf(w, "\nswitch %d decoded: %d flows, %d of at least %d packets, of these %d paths certain", d.Switch, d.Flows, d.Long, longFlow, d.Found)
		if d.Hops != 0 {
			_, err = fmt.Fprintf(w, " and right, %d wrong", d.Wrong)
		}
		fmt.Fprintln(w)
		short := &api.PintResponse{
			Sink: d.Pint.Sink, Paths: d.Pint.Paths[:min(len(d.Pint.Paths), shownFlows)], Hops: d.Pint.Hops[:min(len(d.Pint.Hops), shownFlows)],
			Values: d.Pint.Values[:min(len(d.Pint.Values), shownFlows)], Measured: d.Pint.Measured,
		}
		if err := errors.Join(err, printPaths(w, short)); err != nil {
			return err
		}
		if len(short.Hops) != 0 {
			fmt.Fprintln(w)
			if err := printLatency(w, short); err != nil {
				return err
			}
		}
	}
	return nil
}

// MarshalJSON adds what was decoded as weir ctl show --json writes it.
func (d *replayDecoded) MarshalJSON() ([]byte, error) {
	type plain replayDecoded
	return json.Marshal(struct {
		plain
		Pint json.RawMessage `json:"pint"`
	}{plain(*d), control.JSON(d.Pint)})
}
