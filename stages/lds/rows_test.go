package lds

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
)

// TestRowsAdapt: both ends of a link that loses packets count an interval in the same rows, of which many flows have one and few flows four, from
// the next term on; all whole intervals compare. An end that restarts within a term does so from the next one on.
func TestRowsAdapt(t *testing.T) {
	for _, bit := range []bool{false, true} {
		c := testConfig()
		c.Columns, c.IntervalBit = 1500, bit
		sender, receiver := newEnd(t, c, NewEgress), newEnd(t, c, NewIngress)
		const length, first, many, few, restart, last, packets = 1 << 20, 32, 64, 96, 103, 119, 8000
		type event struct {
			at   int64
			from bool
			flow uint32
			id   uint64
			odd  bool
		}
		var events []event
		r := rand.New(rand.NewPCG(5, 5))
		for i := range (last + 1 - first) * packets {
			sent := first*length + int64(i)*length/packets
			number := sent / length
			flow := r.Uint32N(linkFlows)
			if number >= many && number < few {
				flow = r.Uint32N(20_000)
			}
			id := r.Uint64()
			events = append(events, event{sent, true, flow, id, number&1 != 0})
			if r.IntN(10_000) != 0 {
				events = append(events, event{sent + linkNs + int64(flow)%20*1000, false, flow, id, number&1 != 0})
			}
		}
		slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
		begun := false
		for _, e := range events {
			if !begun && e.at >= restart*length+length/3 {
				begun = true
				receiver.finish(e.at)
				again := newEnd(t, c, NewIngress)
				again.got, again.heads, again.again = receiver.got, receiver.heads, true
				receiver = again
			}
			at := receiver
			if e.from {
				at = sender
			}
			at.put(e.flow, e.id, e.at, true, e.odd)
			at.pass()
		}
		sender.finish((last + 1) * length)
		receiver.finish((last + 1) * length)
		compared := map[int]int{}
		for number := int64(first + 2); number < last; number++ {
			want := 4
			if number >= many+term && number < few+term {
				want = 1
			}
			a, b := sender.got[number], receiver.got[number]
			if rows := a.Config().Rows; rows != want {
				t.Errorf("bit %t: interval %d of %.0f flows has %d rows, want %d", bit, number, a.Flows(), rows, want)
			}
			if number >= restart-1 && number <= restart+1 {
				continue // parts
			}
			d, err := lds.Subtract(a, b, lds.AnyDelay())
			if number > restart && number < few+term {
				if err == nil {
					t.Errorf("bit %t: interval %d: rows of a receiver that began within the term do not differ", bit, number)
				}
				continue
			}
			if err != nil {
				t.Errorf("bit %t: interval %d: %v", bit, number, err)
				continue
			}
			compared[d.Rows()]++
			if bit && d.Cells(lds.Usable) <= d.Refused() {
				t.Errorf("interval %d: %d cells are refused, %d used", number, d.Refused(), d.Cells(lds.Usable))
			}
			if number >= many && number < few {
				continue // many flows share cells
			}
			for flow := range uint32(linkFlows) {
				e := d.Flow(flowOf(flow), 1, lds.Balanced)
				checkDelay(t, number, flow, &e)
			}
		}
		if compared[1] < term || compared[4] < 2*term {
			t.Errorf("bit %t: compared %v", bit, compared)
		}
	}
}

// TestRowsOfSmallPoints: points that a P4 target may have, and those whose rows are given, keep them.
func TestRowsOfSmallPoints(t *testing.T) {
	for _, c := range []Config{{Columns: FixedColumns}, {Rows: 4, Columns: 2000}} {
		c.Virtual, c.IntervalBits = 1, 20
		e := newEnd(t, c, NewIngress)
		r := rand.New(rand.NewPCG(1, 1))
		for at := int64(1 << 24); at < 1<<24+40<<20; at += 100 {
			e.put(r.Uint32N(1<<20), r.Uint64(), at, false, false)
			e.pass()
		}
		e.finish(1<<24 + 40<<20)
		if len(e.got) < 40 {
			t.Fatalf("%d intervals", len(e.got))
		}
		for number, p := range e.got {
			if p.Config().Rows != 4 {
				t.Errorf("interval %d has %d rows", number, p.Config().Rows)
			}
		}
	}
}
