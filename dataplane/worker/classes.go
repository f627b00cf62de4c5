package worker

import (
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// lines is what a worker knows of an outlet whose queue has classes.
type lines struct {
	queue   port.Classed
	seen    packet.Lines
	drains  [packet.MaxClasses]drain
	device  drain
	waiting port.Waiting
}

// pastClass is what a class of a port has counted in queues that are closed.
type pastClass struct {
	port uint16
	port.ClassCounters
}

// exchangeLines follows an exchange of an outlet's queue. What a queue has counted that goes stays, and what waits in it is not sent: its
// taker closes it.
func (w *Worker) exchangeLines(o *outlet, q port.Queue) {
	w.retireLines(o)
	if c, ok := q.(port.Classed); ok {
		o.lines = &lines{queue: c}
		c.Classify(&o.lines.seen)
		w.classed++
	}
	w.batch.Lines = nil
	if w.classed != 0 && w.wants.needs&(packet.NeedDepth|packet.NeedWait) != 0 {
		w.batch.Lines = make([]*packet.Lines, len(w.counters))
	}
}

// retireLines keeps the counts of an outlet's queue with classes, which is about to be closed.
func (w *Worker) retireLines(o *outlet) {
	if o.lines == nil {
		return
	}
	for _, c := range o.lines.queue.AppendClasses(nil) {
		c.Close()
		w.past = addClass(w.past, o.port, &c)
	}
	o.lines = nil
	w.classed--
}

// addClass adds the counters of a class to those of its port and name.
func addClass(sums []pastClass, port uint16, c *port.ClassCounters) []pastClass {
	for i := range sums {
		if s := &sums[i]; s.port == port && s.Name == c.Name {
			s.Add(c)
			return sums
		}
	}
	return append(sums, pastClass{port, *c})
}

// addClasses adds what the worker's queues count by class, and what those counted that are closed.
func (w *Worker) addClasses(sums []pastClass) []pastClass {
	for k := range w.outlets {
		if o := &w.outlets[k]; o.lines != nil {
			for _, c := range o.lines.queue.AppendClasses(nil) {
				sums = addClass(sums, o.port, &c)
			}
		}
	}
	for i := range w.past {
		sums = addClass(sums, w.past[i].port, &w.past[i].ClassCounters)
	}
	return sums
}

// lines fills in, for each output port with classes, what waits there by class, as depths and waits do by port. A packet waits for those of
// its class, and then for those that the device has.
func (w *Worker) lines(b *packet.Batch, inQueue uint8) {
	for p := range b.Lines {
		o := &w.outlets[w.route[p<<queueBits|int(inQueue)]]
		l := o.lines
		if l == nil {
			b.Lines[p] = nil
			continue
		}
		l.queue.Waiting(&l.waiting)
		ahead := l.device.wait(l.waiting.Ahead, l.waiting.Left, w.now)
		for c := range l.seen.Depth {
			l.seen.Depth[c] = l.waiting.Held[c] + l.waiting.Ahead
			wait := l.drains[c].wait(l.waiting.Held[c], l.waiting.Joined[c], w.now)
			l.seen.Wait[c] = packet.Wait{First: ahead.First + wait.First, Each: max(wait.Each, ahead.Each)}
		}
		b.Lines[p] = &l.seen
	}
}
