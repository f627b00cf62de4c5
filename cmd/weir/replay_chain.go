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
	"github.com/weirswitch/weir/telemetry/query"
	queries "github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// maxRow bounds --chain: the hop field ends at 255.
const maxRow = 255

// row puts n switches in a row instead of the one: each has the stages of the
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

// replayBytes bounds the memory for digests in a replay without a configuration: it holds those of a long capture.
const replayBytes = 1 << 30

// edges is the configuration of pint for a switch of the row.
func (p *replayPlan) edges(first, last bool) *pint.Config {
	c := pint.DefaultConfig()
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

// Tick implements pipeline.Ticker: the switches of the row have their own clocks.
func (m *rowModule) Tick(int64) int64 { return 1<<63 - 1 }

// Finish implements pipeline.Ticker.
func (m *rowModule) Finish(now int64) { m.network.Finish(now) }

// replayDecoded is what the digests that ended at one switch of a replay tell, and whether it is true, where that is known:
// in a chain each flow's path is.
type replayDecoded struct {
	Switch int             `json:"switch"`
	Pint   *api.PintReport `json:"-"`
	Flows  int             `json:"flows"`   // with a path query's digest
	Long   int             `json:"long"`    // of these, with at least LongFlow packets
	Found  int             `json:"decoded"` // of these, certain and right
	Wrong  int             `json:"wrong"`   // of all flows, certain and not right
	Hops   int             `json:"hops"`    // of the chain, 0 if there is none

	answers []any // of the query engine, as in Pint
}

// longFlow is how many packets a flow needs for its path to count as decodable:
// packets with distinct ids: a repeated packet adds no information.
const longFlow = 60

// addDecoded asks the sinks.
func (r *replayReport) addDecoded(p *replayPlan, records replayRecords) error {
	if p.chained == nil {
		return r.decodedAt(p.chain, records[0], int(p.id), nil)
	}
	var errs []error
	n := p.chained.last + 1
	for i := range n {
		chain := p.chained.network.Chain(i)
		if n > 1 && i != 0 && i != n-1 || !slices.Contains(p.graph, "pint") {
			continue
		}
		truth := make([]uint64, n)
		for hop := range truth {
			truth[hop] = uint64(hop + 1)
		}
		if i == 0 {
			slices.Reverse(truth)
		}
		errs = append(errs, r.decodedAt(chain, records[i], i+1, truth))
	}
	return errors.Join(errs...)
}

// decodedAt asks one switch; truth is the path of all flows, nil: it is not known.
func (r *replayReport) decodedAt(chain []pipeline.Named, records *replayPath, id int, truth []uint64) error {
	answers, err := records.digests.Answers(query.MaxLimit)
	report, reportErr := node.PintReport(chain, answers)
	if err := errors.Join(err, reportErr); err != nil || report == nil {
		return err
	}
	d := &replayDecoded{Switch: id, Pint: report, Flows: int(report.Paths.GetMore()), Hops: len(truth), answers: answers}
	for _, f := range report.Paths.GetFlows() {
		right := truth == nil || slices.EqualFunc(f.Hops, truth, func(h *queries.PathHop, id uint64) bool { return h.Number == id })
		d.Flows++
		if f.Packets >= longFlow && (f.Certain || f.Undecoded >= longFlow) {
			d.Long++
			if f.Certain && right {
				d.Found++
			}
		}
		if f.Certain && !right {
			d.Wrong++
		}
	}
	r.Decoded = append(r.Decoded, d)
	return nil
}

// shownFlows is how many flows of an answer the text report shows.
const shownFlows = 10

func (r *replayReport) printDecoded(w io.Writer) error {
	for _, d := range r.Decoded {
		if d.Flows == 0 && len(d.Pint.Loops.GetFlows()) == 0 {
			continue
		}
		_, err := fmt.Fprintf(w, "\nswitch %d decoded: %d flows, %d of at least %d packets, of these %d paths certain", d.Switch, d.Flows, d.Long, longFlow, d.Found)
		if d.Hops != 0 {
			_, err = fmt.Fprintf(w, " and right, %d wrong", d.Wrong)
		}
		fmt.Fprintln(w)
		if err != nil {
			return err
		}
		for _, answer := range d.answers {
			kind := query.KindLatency
			switch a := answer.(type) {
			case *query.PathAnswer:
				kind, a.Flows, a.More = query.KindPath, a.Flows[:min(len(a.Flows), shownFlows)], 0
			case *query.LoopsAnswer:
				if len(a.Flows) == 0 {
					continue
				}
				kind, a.Flows, a.More = query.KindLoops, a.Flows[:min(len(a.Flows), shownFlows)], 0
			case *query.CongestionAnswer:
				continue
			}
			if err := text.Write(w, kind, answer); err != nil {
				return err
			}
			fmt.Fprintln(w)
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
