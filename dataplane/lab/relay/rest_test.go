package relay

import (
	"testing"
	"time"
)

// TestRest: what is of no class, of any protocol, has the rest's delay and loss; a rate lets frames out one behind the other,
// and what is too much is dropped and counted.
func TestRest(t *testing.T) {
	arp := make([]byte, 60)
	arp[12], arp[13] = 8, 6
	l := newLine(&Config{Rest: &Class{Delay: 5 * time.Millisecond}}, 0)
	for i := range 10 {
		l.arrive(arp, time.Duration(i))
	}
	for i := range 10 {
		if p := l.queue.pop(); p.due != time.Duration(i)+5*time.Millisecond {
			t.Errorf("frame %d is due at %v", i, p.due)
		}
	}
	// 60 bytes at 480 kbit/s take a millisecond.
	l = newLine(&Config{Rest: &Class{}, RateBits: 480_000}, 0)
	for range maxQueue + 500 {
		l.arrive(arp, time.Second)
	}
	if l.dropped != 499 || len(l.queue) != maxQueue+1 || l.rest.dropped != 499 {
		t.Errorf("%d are dropped, %d wait", l.dropped, len(l.queue))
	}
	for i := range 5 {
		if p := l.queue.pop(); p.due != time.Second+time.Duration(i+1)*time.Millisecond {
			t.Errorf("frame %d is due at %v", i, p.due)
		}
	}
	// Of 100,000 frames with a loss of 0.1 more than 5.5 standard deviations off has a chance below 1e-7.
	l = newLine(&Config{Rest: &Class{Drop: 0.1}, Seed: 3}, 0)
	for range 100_000 {
		l.arrive(arp, 0)
	}
	if l.dropped < 10_000-530 || l.dropped > 10_000+530 {
		t.Errorf("%d of 100000 are lost", l.dropped)
	}
}
