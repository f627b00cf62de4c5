package lds

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
)

func TestReadClocks(t *testing.T) {
	s := newSteps()
	read := 0
	for range 20 {
		if _, _, ok := s.read(); ok {
			read++
		}
	}
	if read == 0 {
		t.Skip("no two readings in a row without an interruption: the machine is too busy")
	}
	tai, monotonic, ok := readClocks()
	for range 3 {
		if more, later, again := readClocks(); ok && again && (more <= tai || later <= monotonic) {
			t.Errorf("clocks go back: %d to %d, %d to %d", tai, more, monotonic, later)
		}
	}
}

// TestStep: the receiver's clock steps in the middle of an interval, forward and back,
// by a little, by an eighth of an interval and by two. No cell that is used has
// timestamps of both times: its delay is the true one, or behind the step that and
// the whole step, which only the clocks' offset tells.
func TestStep(t *testing.T) {
	for _, bit := range []bool{false, true} {
		for _, step := range []int64{1 << 24, -1 << 24, 1 << 27, -1 << 27, 1 << 31, -1 << 31} {
			testStep(t, bit, step)
		}
	}
}

func testStep(t *testing.T, bit bool, step int64) {
	c := testConfig()
	c.IntervalBits, c.IntervalBit = 30, bit
	sender, receiver := newEnd(t, c, NewEgress), newEnd(t, c, NewIngress)
	receiver.again = true
	const length, delay = int64(1) << 30, 40_000
	offset := int64(0) // of the receiver's clock
	now := int64(0)
	sender.stage.steps.read = func() (int64, int64, bool) { return now, now, true }
	receiver.stage.steps.read = func() (int64, int64, bool) { return now + offset, now, true }
	r := rand.New(rand.NewPCG(3, 3))
	// In the middle of interval 12.
	for now = 8 * length; now < 18*length; now += length / 400 {
		if now >= 12*length+length/2 {
			offset = step
		}
		flow, id, odd := r.Uint32N(linkFlows), r.Uint64(), now/length&1 != 0
		sender.put(flow, id, now, bit, odd)
		sender.pass()
		receiver.put(flow, id, now+delay+offset, bit, odd)
		if offset < 0 {
			receiver.next = 0 // as the idle worker sees that its clock went back
		}
		receiver.pass()
	}
	sender.finish(now)
	receiver.finish(now + offset)
	used, refused := 0, 0
	received := receiver.more
	for _, b := range receiver.got {
		received = append(received, b)
	}
	for _, b := range received {
		number := b.Interval()
		a := sender.got[number]
		if a == nil {
			continue
		}
		d, err := lds.Subtract(a, b, lds.AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		refused += d.Cells(lds.ClockStepped)
		if mean, ok := d.MeanNs(); ok && number <= 11 {
			used++
			if mean != delay {
				t.Errorf("bit %t, step %d: interval %d has a delay of %g", bit, step, number, mean)
			}
		} else if ok && mean != delay && mean != float64(delay+step) {
			t.Errorf("bit %t, step %d: interval %d mixes clocks to %g", bit, step, number, mean)
		}
	}
	if used < 3 {
		t.Errorf("bit %t, step %d: only %d intervals before it are of use", bit, step, used)
	}
	// A small step leaves cells of which both points have the same packets.
	if step == 1<<24 && refused == 0 {
		t.Errorf("bit %t: no cell is refused for the step", bit)
	}
}
