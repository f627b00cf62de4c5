package vectors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	telemetry "github.com/weirswitch/weir/telemetry/disketch"
	sample "github.com/weirswitch/weir/telemetry/oblivious"
)

// Run is what one side made of a setup's packets.
type Run struct {
	Results []Result
	Writes  []Write // the control plane's
	State   State

	heard []int // by packet: the VLAN of the bridge in which its source is heard, or nobody
}

// RunGo takes packets through the Go stages of a switch, one by one, in the order of their
// clocks. What it returns is what P4 is to do: records become registers that are never reset, and
// decisions by the clock become writes of a control plane.
func RunGo(s *Setup, packets []Packet) (*Run, error) {
	c := newControlPlane(s, packets)
	g, err := newGoSwitch(s.Switch, c)
	if err != nil {
		return nil, err
	}
	results, heard := make([]Result, len(packets)), make([]int, len(packets))
	for i, p := range packets {
		if i > 0 && p.Now < packets[i-1].Now {
			return nil, errors.Join(fmt.Errorf("packet %d: the clock ran backwards", i), g.close())
		}
		c.enter(i)
		if results[i], err = g.step(p); err != nil {
			return nil, errors.Join(fmt.Errorf("packet %d: %w", i, err), g.close())
		}
		c.ingress(g, p, &results[i])
		heard[i] = g.heard(p)
	}
	if n := len(packets); n > 0 {
		g.finish(packets[n-1].Now)
	}
	g.count(c.state)
	g.utilisations(c.state)
	g.copies.add(c.state)
	c.schedules()
	slices.SortStableFunc(c.writes, func(a, b Write) int { return a.Before - b.Before })
	return &Run{Results: results, Writes: c.writes, State: c.state, heard: heard}, errors.Join(append(c.faults, g.close())...)
}

// newControlPlane knows the registers of the stages that the setup has, all zero.
func newControlPlane(s *Setup, packets []Packet) *controlPlane {
	c := &controlPlane{state: State{}, family: s.Switch.Hash, packets: packets, fragments: map[uint16][]*telemetry.Record{}}
	c.state.add(reasonCounter, numReasons, 0, 0)
	c.state.add(faultCounter, numFaults, 0, 0)
	if s.has("pint") {
		c.state.add(pintCounter, len(pintCounts), 0, 0)
	}
	if x, ok := stageConfig[oblivious.Config](s.Switch, "oblivious"); ok {
		main, _ := x.Samplers(s.Switch.Hash)
		c.sampler = &sampler{config: main, epochBits: x.EpochBits, samples: map[uint64][]sample.Rank{}}
		c.state.add("oblivious_ingress.packets", 2, 0, 0)
		c.state.add("oblivious_ingress.bytes", 2, 0, 0)
	}
	if x, ok := stageConfig[disketch.Config](s.Switch, "disketch"); ok {
		c.epochBits = x.EpochBits
		for i := range x.Fragments {
			c.state.add(fragmentControl(uint16(i))+"missed", 1, 0, 0)
			shape := x.FragmentConfig(i, s.Switch.ID, s.Switch.Hash)
			c.levels = append(c.levels, shape.NumLevels())
		}
		c.last = uint16(len(x.Fragments) - 1)
	}
	for side, name := range sides {
		if x, ok := stageConfig[lds.Config](s.Switch, name); ok {
			c.ldsAt[side] = points(x, s.Switch)
		}
	}
	return c
}

// points are P4's numbers of the measured ports: those of the stage, in order.
func points(c *lds.Config, s *tables.Switch) map[int]int {
	names := make([]string, len(s.Ports))
	for i := range s.Ports {
		names[i] = s.Ports[i].Name
	}
	ports, err := c.Points(names)
	if err != nil {
		return nil // a valid configuration has them
	}
	numbers := map[int]int{}
	for number, port := range ports {
		numbers[port] = number
	}
	return numbers
}

// ingress completes a result by what P4 sends to the control plane from ingress, and what it
// counts as dropped.
func (c *controlPlane) ingress(g *goSwitch, p Packet, r *Result) {
	m := Message{InPort: p.Port, OutPort: noPort, Arrival: p.Arrival, ID: g.seen.id, Data: p.Data}
	if c.sampler != nil && g.seen.alive {
		if rank, ok := c.admits(g.seen.id, g.seen.bytes); ok {
			m.Kind, m.Digest = MessageSample, rank
		}
	}
	for _, reason := range g.dropped {
		n, ok := reasonNumber(reason)
		if !ok {
			c.faults = append(c.faults, fmt.Errorf("a packet was dropped for the reason %s, which P4 has not", reason))
			continue
		}
		if g.seen.discovery && n == reasonBadChecksum {
			n = reasonConsumed // P4 hands the message over without summing it up: its control plane does (records.PuntChecksum)
		}
		c.state.add(reasonCounter, numReasons, n, 1)
		if n == reasonConsumed {
			m.Kind |= MessagePunt
		}
	}
	if m.Kind != 0 {
		r.Messages = append(r.Messages, m)
	}
	slices.SortStableFunc(r.Messages, compareMessages)
}
