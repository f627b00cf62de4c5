package export

import (
	"time"

	"github.com/weirswitch/weir/telemetry/jetstream"
)

// flight is a record from its taking until it is settled.
type flight struct {
	shipment
	number    uint64
	due       bool // to be published, for the first time or again
	published bool
	sentAt    time.Time // the last time
	settled   bool
	reason    string // for which a settled one is dropped; "": it is sent
	refusals  int
}

// window holds the flights in the order of the spool, so that what is settled is always
// all before some place of it.
type window struct {
	flights []flight
	bytes   int
	next    uint64 // number of the next flight

	hold    time.Time     // until when nothing is published
	faults  int           // since something was acknowledged; with any, one record is tried alone
	heardAt time.Time     // when something was acknowledged, or all was published again
	wait    time.Duration // how long no acknowledgement may arrive
	saved   time.Time
}

func (w *window) push(x shipment) {
	w.flights = append(w.flights, flight{shipment: x, number: w.next, due: true})
	w.next++
	w.bytes += len(x.encoded)
}

func (w *window) pop() flight {
	f := w.flights[0]
	w.flights[0] = flight{} // lets go of the bytes
	if w.flights = w.flights[1:]; len(w.flights) == 0 {
		w.flights = nil
	}
	w.bytes -= len(f.encoded)
	return f
}

// find finds a flight by its number, nil if it is over.
func (w *window) find(number uint64) *flight {
	i := number - (w.next - uint64(len(w.flights)))
	if i >= uint64(len(w.flights)) {
		return nil
	}
	return &w.flights[i]
}

// repeat makes all that is not settled due.
func (w *window) repeat() {
	for i := range w.flights {
		w.flights[i].due = !w.flights[i].settled
	}
}

// left are the shipments that are not settled, but for those behind which others
// are: they are published again, which does no harm.
func (w *window) left() []shipment {
	all := make([]shipment, len(w.flights))
	for i := range w.flights {
		all[i] = w.flights[i].shipment
	}
	return all
}

// heard notes that a record was acknowledged.
func (w *window) heard(now time.Time) {
	w.heardAt, w.wait, w.faults, w.hold = now, ackWait, 0, time.Time{}
}

// back holds everything back for a while, longer with each fault in turn.
func (w *window) back(now time.Time) {
	if now.Before(w.hold) {
		return // one fault, reported for many records
	}
	w.faults++
	w.hold = now.Add(jetstream.Pause(w.faults))
}

// overdue makes due what seems lost: everything, if no acknowledgement arrived for too long;
// else what others have overtaken, and long ago.
func (w *window) overdue(now time.Time) {
	w.wait = max(w.wait, ackWait)
	if len(w.flights) == 0 {
		return
	}
	if now.Sub(w.heardAt) > w.wait {
		w.repeat()
		w.faults++
		w.heardAt, w.wait = now, min(2*w.wait, maxAckWait)
		return
	}
	last := len(w.flights) - 1
	for last > 0 && !w.flights[last].settled {
		last--
	}
	for i := range w.flights[:last] {
		f := &w.flights[i]
		f.due = f.due || !f.settled && now.Sub(f.sentAt) > ackWait
	}
}

// pause is how long the shipper sleeps if nothing happens.
func (w *window) pause(now time.Time) time.Duration {
	if now.Before(w.hold) {
		return w.hold.Sub(now)
	}
	return lookAgain
}
