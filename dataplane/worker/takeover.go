package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Rest is a switch whose workers wait between two batches, all at once, with nothing between them: a process that takes the switch over goes
// on from there. End resumes the workers, Leave ends them. Between Rest and either, no Worker.Do returns.
type Rest struct {
	sw     *Switch
	queues map[uint16]int // of the ports that are there: workers keep the slots of others
	peered []port.Peered  // whose peers wait
	resume chan struct{}
	left   bool
}

// Hold keeps the ports and the graph from changing by control until release is called: what is under way of such a change has ended.
func (s *Switch) Hold() (release func(), err error) {
	s.changing.Lock()
	s.regraph.Lock()
	release = func() {
		s.regraph.Unlock()
		s.changing.Unlock()
	}
	switch {
	case !s.running.Load():
		err = errNotRunning
	case s.ending:
		err = errClosing
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// Takeable lists the ports for another process to go on with, by their numbers, or names those that it cannot. A worker that is in a stage for good
// is an error, too.
func (s *Switch) Takeable() (ports []port.Takeable, err error) {
	if _, err := s.together(func() {}); err != nil {
		return nil, err
	}
	var errs []error
	queues := s.queueCounts()
	for _, seat := range s.members() {
		p, ok := seat.port.(port.Takeable)
		if !ok {
			i := seat.port.Info()
			errs = append(errs, fmt.Errorf("port %s: no other process can take over a port of the driver %s", i.Name, i.Driver))
			continue
		}
		ports = append(ports, p)
	}
	for _, w := range s.workers {
		w.Do(func() {
			for k := range w.queues {
				q := &w.queues[k]
				if int(q.number) >= queues[q.port] {
					continue
				}
				if why := port.Unmovable(q.queue); why != "" {
					errs = append(errs, fmt.Errorf("queue %s: no other process can take it over: %s", w.names[k], why))
				}
			}
		})
	}
	return ports, errors.Join(errs...)
}

// queueCounts are those of the ports that are there, by their numbers.
func (s *Switch) queueCounts() map[uint16]int {
	counts := map[uint16]int{}
	for _, seat := range s.members() {
		counts[uint16(seat.number)] = seat.port.Info().Queues
	}
	return counts
}

// freezeLimit is how long a message of a port's peer may take to be handled.
const freezeLimit = 200 * time.Millisecond

// Rest has the peers of ports wait, brings all workers to rest between two batches, and empties the rings between them. The caller has Hold. If a worker does not come within the
// limit, all go on.
func (s *Switch) Rest(limit time.Duration) (*Rest, error) {
	r := &Rest{sw: s, queues: s.queueCounts(), resume: make(chan struct{})}
	// Peers first: what is being done for one may take longer than a batch, and packets flow meanwhile.
	for _, seat := range s.members() {
		p, ok := seat.port.(port.Peered)
		if !ok {
			continue
		}
		if err := p.Freeze(freezeLimit); err != nil {
			r.thaw()
			return nil, err
		}
		r.peered = append(r.peered, p)
	}
	resting := make(chan struct{}, len(s.workers))
	for _, w := range s.workers {
		// A worker that has ended by itself never comes; Do runs the function here then.
		go w.Do(func() {
			resting <- struct{}{}
			<-r.resume
			w.left = r.left
		})
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for range s.workers {
		select {
		case <-resting:
		case <-late.C:
			r.End()
			return nil, fmt.Errorf("a worker has been in a batch for %v", limit)
		}
	}
	s.emptyHomes()
	for _, w := range s.workers {
		w.letGo()
	}
	// The workers are between two batches and this goroutine has all they have. What a worker takes over leaves by its own queues,
	// so one round empties the rings.
	for _, w := range s.workers {
		for w.takeOver() != 0 {
		}
	}
	return r, nil
}

// letGo sends what stages keep between two batches (pipeline.Holder): frames that no queue has are free in the process that takes the switch over.
func (w *Worker) letGo() {
	b := w.taken
	b.Now = w.now
	w.graph.Release(nil, func(p *packet.Packet) {
		if o := b.Append(); o != nil {
			*o = *p
		} else {
			w.drop(b, p, packet.ReasonShutdown)
		}
	})
	w.dispatch(b, true)
}

// Queues calls f for each queue of each port, with the port's and the queue's number.
func (r *Rest) Queues(f func(number, queue int, q port.Movable) error) error {
	for _, w := range r.sw.workers {
		for k := range w.queues {
			q := &w.queues[k]
			if int(q.number) >= r.queues[q.port] {
				continue
			}
			m, ok := q.queue.(port.Movable)
			if !ok {
				return fmt.Errorf("queue %s is not what it was: %s", w.names[k], port.Unmovable(q.queue))
			}
			if err := f(int(q.port), int(q.number), m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Free counts the frames that no queue has.
func (r *Rest) Free() int {
	n := r.sw.pool.Free()
	for _, w := range r.sw.workers {
		n += w.cache.Len()
	}
	return n
}

// End has the workers go on as if nothing had happened.
func (r *Rest) End() {
	close(r.resume)
	r.thaw()
}

func (r *Rest) thaw() {
	for _, p := range r.peered {
		p.Thaw()
	}
}

// Peered calls f for each port whose peers wait.
func (r *Rest) Peered(f func(p port.Peered) error) error {
	for _, p := range r.peered {
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

// EnterPeered has the ports of a switch that does not run yet take what another process's say of their peers: in front of Enter. It returns how many
// there are.
func (s *Switch) EnterPeered(state func(number int) (*port.Share, error)) (n int, err error) {
	for _, seat := range s.members() {
		p, ok := seat.port.(port.Peered)
		if !ok {
			continue
		}
		share, err := state(seat.number)
		if err != nil {
			return n, err
		}
		if err := p.Enter(share); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Leave leaves the ports to the process that has taken them over, and ends the workers: Run drains nothing, and closes what is this process's
// alone.
func (r *Rest) Leave() {
	for _, seat := range r.sw.members() {
		seat.port.(port.Takeable).Leave()
	}
	_ = r.Queues(func(_, _ int, q port.Movable) error { q.Leave(); return nil })
	r.left = true
	close(r.resume)
}

// Enter has the queues of a switch that does not run yet go on where another process's workers rest, and gives the pool the frames that no queue
// has. state is what that process says of a queue. Nothing is taken from the other process before Begin.
func (s *Switch) Enter(state func(number, queue int) ([]byte, bool)) error {
	taken := make([]bool, s.pool.Frames())
	r := &Rest{sw: s, queues: s.queueCounts()}
	if err := r.Queues(func(number, queue int, q port.Movable) error {
		text, ok := state(number, queue)
		if !ok {
			return fmt.Errorf("queue %d of port %d has no state", queue, number)
		}
		frames, err := q.Enter(text)
		for _, f := range frames {
			if taken[f] {
				return fmt.Errorf("frame %d is in two queues", f)
			}
			taken[f] = true
		}
		return err
	}); err != nil {
		return err
	}
	s.pool.Release(func(frame int) bool { return taken[frame] })
	return nil
}

// Begin takes the queues over, behind Enter and the other process's word that it has left them.
func (s *Switch) Begin() {
	_ = (&Rest{sw: s, queues: s.queueCounts()}).Queues(func(_, _ int, q port.Movable) error { q.Begin(); return nil })
}

// Entered tells the ports that were taken over that the workers have their queues.
func (s *Switch) Entered() error {
	var errs []error
	for _, seat := range s.members() {
		if p, ok := seat.port.(port.Takeable); ok {
			errs = append(errs, p.Entered())
		}
	}
	return errors.Join(errs...)
}
