package lds

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// TestFaultyLink: a link that loses a tenth of the packets, brings some twice, and lets
// some be overtaken by more than a quarter of an interval, to a receiver that restarts:
// the cells that are used sum up the delays of their packets to the nanosecond, all
// others are refused.
func TestFaultyLink(t *testing.T) {
	for _, x := range []struct {
		name                      string
		loss, duplicate, overtake float64
		restart                   bool
	}{
		{"loss", 0.1, 0, 0, false},
		{"duplicates", 0, 0.05, 0, false},
		{"reordering", 0, 0, 0.05, false},
		{"restart", 0, 0, 0, true},
		{"all", 0.1, 0.05, 0.05, true},
	} {
		for _, bit := range []bool{false, true} {
			t.Run(x.name, func(t *testing.T) {
				c := testConfig()
				c.IntervalBits, c.IntervalBit, c.Virtual = 24, bit, 5
				c.Banks = []float64{0.05, 0.2, 0.5, 1}
				w := faultyWorld{t: t, shape: c.sketch(hash.XX), length: 1 << c.IntervalBits, truth: map[int64]*lds.Point{}, sender: newEnd(t, c, NewEgress), receiver: newEnd(t, c, NewIngress)}
				w.receiver.again = true
				w.send(x.loss, x.duplicate, x.overtake)
				w.run(bit, func() *end {
					if !x.restart {
						return nil
					}
					again := newEnd(t, c, NewIngress)
					again.again = true
					return again
				})
				w.check(x.restart)
			})
		}
	}
}

// faultyWorld is a link's two ends and what happens at them.
type faultyWorld struct {
	t                *testing.T
	shape            lds.Config
	length           int64
	truth            map[int64]*lds.Point // by interval, of delays instead of timestamps
	sender, receiver *end
	before           *end // the receiver that restarted
	events           []faultyEvent
	until            int64
}

type faultyEvent struct {
	at   int64
	from bool
	flow uint32
	id   uint64
	odd  bool
}

// faultyDelay is a flow's: those of every fourth flow are long, so that their packets
// are overtaken.
func faultyDelay(flow uint32, length int64) int64 {
	d := linkNs + 1000*int64(flow)
	if flow%4 == 3 {
		d += length / 4
	}
	return d
}

// send draws what happens in ten intervals from number 7 on.
func (w *faultyWorld) send(loss, duplicate, late float64) {
	r := rand.New(rand.NewPCG(11, 12))
	const packets = 12_000
	for i := range packets {
		sent := 7*w.length + int64(i)*10*w.length/packets
		e := faultyEvent{at: sent, from: true, flow: r.Uint32N(linkFlows), id: r.Uint64(), odd: sent/w.length&1 != 0}
		w.events = append(w.events, e)
		number := sent / w.length
		if w.truth[number] == nil {
			p, err := lds.NewPoint(w.shape)
			if err != nil {
				w.t.Fatal(err)
			}
			p.Begin(number)
			w.truth[number] = p
		}
		delay, copies := faultyDelay(e.flow, w.length), 1
		if r.Float64() < late {
			// Beyond what the bit can tell, so that it falls into a wrong interval.
			delay += w.length * 3 / 4
		}
		if r.Float64() < duplicate {
			copies = 2 + r.IntN(2)
		}
		for range copies {
			if r.Float64() < loss {
				continue
			}
			e.from, e.at = false, sent+delay
			w.events = append(w.events, e)
			w.truth[number].Add(flowOf(e.flow), e.id, number*w.length+delay, 128)
		}
	}
	slices.SortStableFunc(w.events, func(a, b faultyEvent) int { return cmp.Compare(a.at, b.at) })
	w.until = w.events[len(w.events)-1].at
}

// run has both ends see it all; restarted makes the receiver's successor, or nil.
func (w *faultyWorld) run(marked bool, restarted func() *end) {
	for _, e := range w.events {
		if w.before == nil && !e.from && e.at > 12*w.length+w.length/3 {
			if next := restarted(); next != nil {
				w.receiver.finish(e.at)
				w.before, w.receiver = w.receiver, next
			}
		}
		at := w.receiver
		if e.from {
			at = w.sender
		}
		at.put(e.flow, e.id, e.at, marked, e.odd)
		at.pass()
	}
	w.sender.finish(w.until)
	w.receiver.finish(w.until)
}

// check compares every interval that both ends have with the flows' delays.
func (w *faultyWorld) check(restart bool) {
	points := w.receiver.more
	for _, e := range []*end{w.before, w.receiver} {
		if e == nil {
			continue
		}
		for _, p := range e.got {
			points = append(points, p)
		}
		points = append(points, e.more...)
	}
	used, refused, partial := 0, 0, 0
	for _, b := range points {
		a := w.sender.got[b.Interval()]
		if a == nil {
			continue
		}
		d, err := lds.Subtract(a, b, lds.AnyDelay())
		if err != nil {
			w.t.Fatal(err)
		}
		refused += d.Refused()
		if (a.Flags()|b.Flags())&lds.Partial != 0 {
			partial++
		}
		for flow := range uint32(linkFlows) {
			if e := d.Flow(flowOf(flow), 1, lds.Balanced); e.HasLoss && (a.Flags()|b.Flags())&lds.Partial != 0 {
				w.t.Errorf("interval %d, flow %d: loss is told by a point that was not there for all of it", b.Interval(), flow)
			}
		}
		used += w.compare(d, a, b)
	}
	w.t.Logf("%d cells used, %d refused, %d partial pairs", used, refused, partial)
	if used < 500 || refused == 0 {
		w.t.Errorf("%d cells used, %d refused: the test shows nothing", used, refused)
	}
	if restart && partial < 2 {
		w.t.Errorf("%d pairs are in part, of a receiver that restarted", partial)
	}
}

// compare holds the cells that may be used against the packets' delays, and returns
// how many these are.
func (w *faultyWorld) compare(d *lds.Difference, a, b *lds.Point) (used int) {
	for row := range w.shape.Rows {
		for column := range w.shape.Columns {
			if d.State(row, column) != lds.Usable {
				continue
			}
			used++
			got, want := b.Cell(row, column).Sum-a.Cell(row, column).Sum, w.truth[a.Interval()].Cell(row, column).Sum
			if got != want {
				w.t.Errorf("interval %d, row %d, column %d: delays of %d ns, want %d", a.Interval(), row, column, got, want)
			}
		}
	}
	return used
}
