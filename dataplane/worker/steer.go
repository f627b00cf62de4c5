package worker

import (
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// This file takes packets to their home: the worker that has the state of their connection, where a stage of the graph has such state
// (pipeline.Steerer). The graph is divided in front of that stage:
//
//	worker A   receive -> Graph.Front -> steer ──┬─> Graph.Back -> dispatch
//	                                             └─ ring ─┐
//	worker B                              takeHome -> steer -> Graph.Back -> dispatch
//
// A counts the packet as received, B what becomes of it, both at the port of its arrival. Packets of a queue that have the same
// home stay in order, as each pair of workers has one ring in each direction. Fragments are handed over twice at most.

// homeward is the way to another worker's part of the graph.
type homeward struct {
	ring *handoff
	to   *Worker
	n    int
	idx  []uint16 // the first n are the batch's packets to hand over
}

// steers reports whether packets of a graph have a home among several workers.
func (s *Switch) steers(g *pipeline.Graph) bool { return len(s.workers) > 1 && g.Steers() }

// joinHomes makes a ring from each worker to each other one, for packets that these are the home of, unless there are such rings.
func (s *Switch) joinHomes() {
	if s.workers[0].homes != nil {
		return
	}
	homes, steered := make([][]homeward, len(s.workers)), make([][]*handoff, len(s.workers))
	for i := range s.workers {
		homes[i], steered[i] = make([]homeward, len(s.workers)), make([]*handoff, len(s.workers))
	}
	for from := range s.workers {
		for to := range s.workers {
			if from != to {
				h := newHandoff(s.handoff)
				homes[from][to] = homeward{ring: h, to: s.workers[to]}
				steered[to][from] = h
			}
		}
	}
	for i, w := range s.workers {
		w.Do(func() {
			w.homes, w.steered = homes[i], steered[i]
			w.seatHomes()
		})
	}
}

// seatHomes makes room for the packets of the worker's batch.
func (w *Worker) seatHomes() {
	w.choices = make([]uint8, cap(w.batch.Pkts))
	for k := range w.homes {
		w.homes[k].idx = make([]uint16, cap(w.batch.Pkts))
	}
}

// steer hands over the packets of a batch, which arrived on a port, that have another home, and leaves the others. from is the worker that
// handed the batch over, or this one.
func (w *Worker) steer(b *packet.Batch, port uint16, from int) {
	choices := w.choices[:len(b.Pkts)]
	w.graph.Steer(b, from, choices)
	leaving := 0
	for i, home := range choices {
		if int(home) == w.id {
			continue
		}
		leaving++
		h := &w.homes[home]
		h.idx[h.n] = uint16(i)
		h.n++
		if p := &b.Pkts[i]; p.InPort != port {
			w.enterAt(p, port)
		}
	}
	if leaving == 0 {
		return
	}
	for k := range w.homes {
		h := &w.homes[k]
		if h.n == 0 {
			continue
		}
		idx := h.idx[:h.n]
		h.n = 0
		n := h.ring.push(b.Pkts, idx)
		w.loop.HandedOver += uint64(n)
		w.loop.Steered += uint64(n)
		for _, i := range idx[n:] {
			p := &b.Pkts[i]
			w.graph.Refused(b, p, packet.ReasonHandoffFull)
			w.drop(b, p, packet.ReasonHandoffFull)
		}
		if n != 0 {
			h.to.wake()
		}
	}
	b.Keep(choices, uint8(w.id))
}

// takeHome runs packets that other workers handed over through the rest of the graph, all that wait: work was spent on them already,
// and what arrives meanwhile waits in the devices' rings.
func (w *Worker) takeHome() int {
	total := 0
	for from, h := range w.steered {
		if h == nil {
			continue
		}
		for waiting := int(h.len()); waiting > 0; {
			b := w.batch
			n := h.popRun(b)
			waiting -= n
			total += n
			w.loop.TakenOver += uint64(n)
			w.touch(b)
			first := &b.Pkts[0]
			port := first.InPort
			w.begin(b, first.InQueue)
			w.inGraph = true
			w.steer(b, port, from)
			if len(b.Pkts) != 0 {
				w.graph.Back(b)
			}
			w.inGraph = false
			w.finish(b, port)
		}
	}
	return total
}

// emptyHomes takes what waits for its home through the rest of the graph, while all workers wait.
func (s *Switch) emptyHomes() {
	for taken := 1; taken != 0; { // what a home hands over once more included
		taken = 0
		for _, w := range s.workers {
			taken += w.takeHome()
		}
	}
}

// touch loads the packets' headers, which are in another core's cache: this short loop has tens of loads in flight, where the stages have a few. What is
// loaded is kept, mixed, for the loads to be of use.
func (w *Worker) touch(b *packet.Batch) {
	mix := w.touched
	for i := range b.Pkts {
		mix ^= b.Mem[b.Pkts[i].Addr]
	}
	w.touched = mix
}

// homesEmpty reports whether no packet waits for which this worker is the home.
func (w *Worker) homesEmpty() bool {
	for _, h := range w.steered {
		if h != nil && !h.empty() {
			return false
		}
	}
	return true
}
