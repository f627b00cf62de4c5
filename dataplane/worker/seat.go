package worker

import (
	"fmt"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// seat is a port number with the port that has it, or had it last. It never
// changes; another port, or none, makes another seat of the number.
type seat struct {
	number  int
	port    port.Port
	keeper  *keeper // nil: the port cannot be restored
	removed bool    // the port is closed, and only its counts are left
	past    past    // of ports that had the number before
}

// past is what was counted beneath the workers, beside what a port counts now.
type past struct {
	counters          port.Counters
	rebuilds, changes uint64
}

// addKept adds what the port's keeper counts, and what went before.
func (s *seat) addKept(r *PortReport) {
	r.Counters.Add(&s.past.counters)
	r.Rebuilds, r.LinkChanges = s.past.rebuilds, s.past.changes
	if k := s.keeper; k != nil {
		r.Rebuilds += k.rebuilds.Load()
		r.LinkChanges += k.changes.Load()
		r.TxUnsent += k.unsent
	}
	if s.removed {
		r.State, r.Up, r.Error = port.StateRemoved, false, ""
	}
}

// counted is what the next port of a seat's number has as its past.
func (s *Switch) counted(old *seat) past {
	r := PortReport{Counters: old.port.Counters()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old.addKept(&r)
	return past{r.Counters, r.Rebuilds, r.LinkChanges}
}

// members returns the seats whose ports are there.
func (s *Switch) members() (seats []*seat) {
	s.table.RLock()
	defer s.table.RUnlock()
	for _, seat := range s.seats {
		if seat != nil && !seat.removed {
			seats = append(seats, seat)
		}
	}
	return seats
}

// Infos describes the ports by number. One that went, or never came, has no name.
func (s *Switch) Infos() []port.Info {
	s.table.RLock()
	infos := make([]port.Info, len(s.seats))
	s.table.RUnlock()
	for _, seat := range s.members() {
		if seat.number < len(infos) {
			infos[seat.number] = seat.port.Info()
		}
	}
	return infos
}

// member finds a port by its name.
func (s *Switch) member(name string) (*seat, error) {
	for _, seat := range s.members() {
		if seat.port.Info().Name == name {
			return seat, nil
		}
	}
	return nil, fmt.Errorf("there is no port %s", name)
}

// slot is where a worker keeps a queue.
type slot struct {
	w *Worker
	k int // of Worker.queues
}

// slots finds the queues of a port number, by their own numbers. A worker's queues
// stay where they are once they are connected.
func (s *Switch) slots(number, queues int) []slot {
	slots := make([]slot, queues)
	for _, w := range s.workers {
		w.Do(func() {
			for i := range w.queues {
				if q := &w.queues[i]; int(q.port) == number && int(q.number) < queues {
					slots[q.number] = slot{w, i}
				}
			}
		})
	}
	return slots
}

// seat makes room for ports 0 to n-1, which have no queue yet, and bounds the idle
// frames. It is called on the worker, between two batches, or before it runs.
func (w *Worker) seat(n, cacheBound int) {
	w.cache.Bound(cacheBound)
	capacity := w.wants.capacity(n)
	if w.batch == nil || cap(w.batch.Pkts) < capacity {
		w.batch = packet.NewBatch(w.cache, capacity)
		for k := range w.outlets {
			w.outlets[k].idx = make([]uint16, capacity)
		}
		w.seatHomes()
	}
	w.counters = append(w.counters, make([]portCounters, n-len(w.counters))...)
	w.route = append(w.route, make([]uint16, n<<queueBits-len(w.route))...)
	if w.wants.needs&packet.NeedDepth != 0 {
		w.batch.Depth = make([]uint32, n)
	}
	if w.wants.needs&packet.NeedWait != 0 {
		w.batch.Wait = make([]packet.Wait, n)
		w.far = append(w.far, make([]*line, n<<queueBits-len(w.far))...)
		w.shows = len(w.sw.workers) > 1 && !w.sw.arrival
	}
	if len(w.far) != 0 { // also if no stage asks any more: one may again
		w.far = append(w.far, make([]*line, n<<queueBits-len(w.far))...)
	}
	if w.classed != 0 && w.wants.needs&(packet.NeedDepth|packet.NeedWait) != 0 {
		w.batch.Lines = make([]*packet.Lines, n)
	}
}

// connect gives a port number queues, each a worker and stood in for by port.Down,
// and each worker its outlets to them.
//
// Queue q goes to worker q modulo the workers, so that a flow that enters and
// leaves by the same queue number stays on one worker. Ports with fewer queues
// than there are workers go on where the last one ended. Queues that the number had
// before keep their workers.
func (s *Switch) connect(number, queues int, name string) error {
	n := len(s.workers)
	if queues < 1 || queues > 1<<queueBits {
		return fmt.Errorf("port %s has %d queues: need 1 to %d", name, queues, 1<<queueBits)
	}
	owners := make([]*Worker, queues)
	for q, slot := range s.slots(number, queues) {
		if owners[q] = slot.w; slot.w != nil {
			continue
		}
		owners[q] = s.workers[ownerOf(q, queues, s.opened, n)]
		owners[q].Do(func() { owners[q].adopt(number, q) })
	}
	s.opened += queues
	for _, w := range s.workers {
		for _, to := range owners {
			if _, known := w.peers[to]; !known && to != w {
				s.join(w, to)
			}
		}
		w.Do(func() { w.routeTo(number, owners, name) })
	}
	s.showLines(number, queues)
	return nil
}

// showLines gives each worker the lines of a port's queues that are other workers', where packets wait that it hands over (routeTo).
func (s *Switch) showLines(number, queues int) {
	lines := make([]*line, queues)
	for q, slot := range s.slots(number, queues) {
		slot.w.Do(func() { lines[q] = slot.w.outlets[slot.w.queues[slot.k].outlet].line })
	}
	for _, w := range s.workers {
		w.Do(func() {
			if len(w.far) == 0 {
				return // no stage asks
			}
			for in := range 1 << queueBits {
				at := number<<queueBits | in
				if w.far[at] = nil; w.outlets[w.route[at]].queue == nil {
					w.far[at] = lines[in%queues]
				}
			}
		})
	}
}

// ownerOf is the worker of a queue, where earlier ports have opened so many.
func ownerOf(q, queues, opened, workers int) int {
	if queues < workers {
		return (opened + q) % workers
	}
	return q % workers
}

// adopt gives a worker a queue that does nothing yet.
func (w *Worker) adopt(number, queue int) {
	q := port.Down()
	w.queues = append(w.queues, rxQueue{queue: q, port: uint16(number), number: uint8(queue), outlet: uint16(len(w.outlets))})
	w.names = append(w.names, "")
	w.pollFDs = append(w.pollFDs, pollFD(q))
	o := outlet{queue: q, port: uint16(number), maxFrame: ^uint32(0), idx: make([]uint16, cap(w.batch.Pkts))}
	if w.shows {
		o.line = new(line)
	}
	w.outlets = append(w.outlets, o)
}

// join makes the ring from one worker to another: first its end, then its
// beginning.
func (s *Switch) join(from, to *Worker) {
	h := newHandoff(s.handoff)
	to.Do(func() {
		if to.rings == nil {
			to.rings = make([]*handoff, len(s.workers))
		}
		to.rings[from.id] = h
	})
	from.Do(func() {
		from.peers[to] = uint16(len(from.outlets))
		from.outlets = append(from.outlets, outlet{ring: h, to: to, maxFrame: ^uint32(0), idx: make([]uint16, cap(from.batch.Pkts))})
	})
}

// routeTo chooses the outlet of each input queue to a port: the queue of the same
// number, or the worker's own first, or the worker that has that queue.
func (w *Worker) routeTo(number int, owners []*Worker, name string) {
	own := map[int]uint16{}
	first := -1
	for k, q := range w.queues {
		if int(q.port) == number && int(q.number) < len(owners) {
			w.names[k] = fmt.Sprintf("%s/%d", name, q.number)
			own[int(q.number)] = q.outlet
			if first < 0 || int(q.number) < first {
				first = int(q.number)
			}
		}
	}
	for in := range 1 << queueBits {
		q := in % len(owners)
		if _, ok := own[q]; !ok && first >= 0 {
			q = first
		}
		k, ok := own[q]
		if !ok {
			k = w.peers[owners[q]]
		}
		w.route[number<<queueBits|in] = k
	}
}
