package pint

import (
	"math"
	"sync/atomic"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	envelope "github.com/weirswitch/weir/telemetry/record"
)

// condensing decides whether digests are exported as they are, or condensed, and has what was condensed. It belongs to the goroutine that
// collects.
//
// Most digests of a long flow tell nothing new. Where all of them are more than the exporter has room for, the sink reads them
// itself: it sends the paths that are certain and how many packets flows had, the values of hops by switch, and of the digests a share of 1 in
// 2^n packets. It begins in the middle of a slice, if it must, and goes on
// until all digests of a slice take less than resume of the room.
type condensing struct {
	module  *Module
	room    float64 // bytes per second; 0: no bound
	demand  float64 // bytes per second of all digests in the last whole slice
	useful  float64 // of these, what all that can be condensed of them takes; 0: not known
	slice   int64
	digests uint64 // of the slice
	sent    uint64 // of these, as they are
	on      bool
	share   uint8
	read    uint8  // what workers were asked for, see Module.read
	most    uint8  // the largest weight in the slice
	local   uint64 // packets from edge to edge until the last slice ended
	plans   map[uint16]*sink.Condenser
	last    lastCondenser

	condensed, left atomic.Uint64 // digests that were condensed and not exported, and packets of flows that records do not list
}

// lastCondenser is that of the digest before: there are one or two plans.
type lastCondenser struct {
	plan uint16
	*sink.Condenser
}

const (
	// readDigests is how many digests of packets from edge to edge a sink that condenses reads in a slice, about: if more such packets come
	// it reads a share. Their path is known, quantiles do not need more, and reading one costs as much as two stages.
	readDigests = 1 << 18

	resume = 0.7
	// firstShare is that of a slice in whose middle the room ends.
	firstShare   = 5
	sliceSeconds = (1 << sliceBits) / 1e9
)

// Demand implements export.Shaper.
func (m *Module) Demand() (all, useful float64) {
	c := &m.condensing
	if c.useful == 0 {
		return c.demand, c.demand
	}
	return c.demand, min(c.demand, c.useful)
}

// Shape implements export.Shaper.
func (m *Module) Shape(bytesPerSecond float64) {
	if math.IsInf(bytesPerSecond, 1) {
		bytesPerSecond = 0
	}
	m.condensing.room = bytesPerSecond
}

// take counts a digest, and reports whether it is to be exported as it is, and whether as one of the share. What the switch found to
// loop always is exported.
func (c *condensing) take(r *record) (export, sampled bool) {
	c.digests += 1 << r.weight
	if r.weight > 0 && !c.on { // it was made when the sink condensed
		c.on, c.share = true, firstShare
	}
	c.most = max(c.most, r.weight)
	if !c.on && c.room != 0 && sink.DigestBytes(c.sent) > c.room*sliceSeconds {
		c.on, c.share = true, firstShare
	}
	if r.loop || !c.on {
		c.sent++
		return true, false
	}
	s := c.last.Condenser
	if s == nil || c.last.plan != r.Plan {
		s = c.condenser(r.Plan)
		c.last = lastCondenser{r.Plan, s}
	}
	if s == nil {
		c.sent++
		return true, false
	}
	s.Add(&r.Record, r.weight)
	if !pint.Sampled(r.ID, c.share) || r.weight > c.share {
		c.condensed.Add(1)
		return false, true
	}
	c.sent++
	return true, true
}

// locals is how many packets went from edge to edge since it was last called: read or not, so that what is read does not decide how many
// are to be.
func (c *condensing) locals() uint64 {
	before := c.local
	c.local = 0
	for _, s := range c.module.stages {
		c.local += s.counters.published[local].Load()
	}
	return c.local - before
}

// idle is called when no digest came for a slice.
func (c *condensing) idle() {
	c.demand, c.useful = 0, 0
	if c.locals(); c.read > 0 {
		c.ask(0)
	}
}

// ask tells the workers to record those of 1 of 2^read of the packets from edge to edge.
func (c *condensing) ask(read uint8) {
	c.read = read
	c.module.read.Store(uint32(read))
}

// condenser is that of a plan, nil if the plan is not known here.
func (c *condensing) condenser(id uint16) *sink.Condenser {
	if s, ok := c.plans[id]; ok {
		return s
	}
	var made *sink.Condenser
	for _, p := range c.module.loaded.plans {
		if p.ID == id {
			// Its queries were found good with these when the configuration was read.
			made, _ = sink.NewCondenser(p, sink.CondenserConfig{
				MaxFlows: c.module.config.MaxFlows, Partitions: envelope.Partitions, Switch: uint64(c.module.env.ID),
				Decoder: sink.DecoderConfig{Values: c.module.config.Switches, Topology: c.module.loaded.topology},
			})
		}
	}
	if c.plans == nil {
		c.plans = map[uint16]*sink.Condenser{}
	}
	c.plans[id] = made
	return made
}

// turn ends the slice before another one, and gives what was condensed in it to attach, by plan and partition.
func (c *condensing) turn(next int64, attach func(plan uint16, partition int, slice int64, of *pint.Condensed)) {
	was, ending := c.on, false
	c.useful = 0
	if c.digests > 0 {
		c.demand = sink.DigestBytes(c.digests) / sliceSeconds
		limit := c.room
		if c.on {
			limit *= resume
		}
		// All digests are there again when workers record them all, which they do a slice before.
		over := c.room != 0 && c.demand > limit
		c.on, ending = over || c.read > 0, !over
	}
	room := c.room * sliceSeconds
	if room == 0 {
		room = math.MaxInt // it was bounded when the slice began
	}
	needs, of := sink.Needs{}, map[uint16]sink.Needs{}
	for plan, s := range c.plans {
		if s != nil && was {
			each := s.Needs()
			of[plan] = each
			needs.Flows, needs.Values, needs.FlowValues = needs.Flows+each.Flows, needs.Values+each.Values, needs.FlowValues+each.FlowValues
		}
	}
	if was {
		c.useful = needs.Useful() / sliceSeconds
	}
	left := needs.Divide(room)
	if was {
		for plan, s := range c.plans {
			each := of[plan]
			if s == nil || each.Flows == 0 {
				continue
			}
			// Each plan has its part of the room.
			all := s.Take(each.Divide(room * each.Useful() / needs.Useful()))
			for partition := range all {
				if x := &all[partition]; x.Packets > 0 {
					x.Share, x.Read = c.share, c.most
					c.left.Add(x.Packets - x.Listed())
					attach(plan, partition, c.slice, x)
				}
			}
		}
	}
	locals := c.locals()
	switch {
	case !c.on:
		c.plans, c.last = nil, lastCondenser{} // their memory is not needed
	case c.digests > 0: // else as many may come as in the slice before
		// Not below what workers were asked for until now, as those packets are still on their way.
		c.share = max(sink.Share(c.digests, left.Digests), c.read)
		read := min(sink.Share(locals, readDigests), c.share, pint.MaxRead)
		if ending {
			read = 0
		}
		c.ask(read)
	}
	c.slice, c.digests, c.sent, c.most = next, 0, 0, 0
}
