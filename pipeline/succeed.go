package pipeline

import (
	"slices"

	"github.com/weirswitch/weir/pipeline/packet"
)

// NeedsFollower is a Stage that computes what stages of its graph need. FollowNeeds gives it what those after it need when the graph
// becomes another one; it is called on the worker, between two batches, and must not allocate. For the graph that the stage is made
// for, Env.Needs says so.
type NeedsFollower interface {
	FollowNeeds(n packet.Needs)
}

// Leaver is a Module that others keep something of. Leave is called once when a graph without it has taken the place of its own:
// its stages are called no more, its Run has ended, and what it measured is collected.
type Leaver interface {
	Leave()
}

// Holder is a Stage that may keep packets between two batches. Release calls drop for each of them, which then has its fate, and keeps none; it is called on the worker,
// as the stage has left the graph or the switch ends, and must not allocate.
type Holder interface {
	Release(drop func(p *packet.Packet))
}

// Release has the stages that are not in next, all of them if it is nil, release the packets that they keep. It is called where Become may be, and before it.
func (g *Graph) Release(next *Graph, drop func(p *packet.Packet)) {
	for i, s := range g.stages {
		if h, ok := s.(Holder); ok && (next == nil || !slices.Contains(next.from, i)) {
			h.Release(drop)
		}
	}
}

// Successor makes worker w's graph of a checked chain that is to take g's place. Modules that g has too keep their stages, and all that
// these know; the others' are made. It may be called while g runs, beside the packet path, but not while g becomes another graph. It is
// of use for Become alone.
func (g *Graph) Successor(chain []Named, w int) *Graph {
	next := &Graph{chain: chain, stages: make([]Stage, len(chain)), counters: make([]StageCounters, len(chain)), from: make([]int, len(chain))}
	for i, n := range chain {
		next.counters[i].Name = n.Name
		if next.from[i] = slices.IndexFunc(g.chain, func(o Named) bool { return o.Module == n.Module }); next.from[i] >= 0 {
			next.stages[i] = g.stages[next.from[i]]
		} else {
			next.stages[i] = n.Module.Stage(w)
		}
	}
	next.schedule()
	return next
}

// Become has the graph be the one that Successor made of it, from its next batch on. It is called on the worker, between two batches, or
// while the worker waits, and does not allocate. Stages that stay keep their counters and the times of their ticks; those that come are
// ticked before their first batch; those that went are finished at time now, ns of CLOCK_TAI, and their counters end. A tracer stays.
func (g *Graph) Become(next *Graph, now int64) {
	for k, t := range g.tickers {
		if at := slices.Index(next.from, g.tickerAt[k]); at < 0 {
			if !g.finished {
				t.Finish(now)
			}
		} else {
			next.due[slices.Index(next.tickerAt, at)] = g.due[k]
		}
	}
	needs := packet.Needs(0)
	for i, n := range slices.Backward(next.chain) {
		if next.from[i] >= 0 {
			next.counters[i] = g.counters[next.from[i]]
			if f, ok := next.stages[i].(NeedsFollower); ok {
				f.FollowNeeds(needs)
			}
		}
		needs |= n.Module.Needs()
	}
	g.chain, g.stages, g.counters = next.chain, next.stages, next.counters
	g.steerer, g.steerAt = next.steerer, next.steerAt
	g.tickers, g.tickerAt, g.due, g.emitters = next.tickers, next.tickerAt, next.due, next.emitters
	g.next, g.emitting = never, len(g.emitters) != 0 && g.emitting
	for _, due := range g.due {
		g.next = min(g.next, due)
	}
}
