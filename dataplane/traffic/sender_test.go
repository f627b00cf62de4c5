package traffic

import (
	"testing"
	"time"
)

// TestElapsedOfFew: of one batch at no rate the time is that of sending it.
func TestElapsedOfFew(t *testing.T) {
	clock, err := newClock(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &sender{clock: clock}
	load := Load{Count: sendBatch}
	p := NewPacer(load)
	var sent Sent
	const took = 2 * time.Millisecond
	batch := func(_ uint64, n int, sent *Sent) error {
		for began := clock.now(); clock.now()-began < uint64(took); {
		}
		sent.Packets += uint64(n)
		return nil
	}
	if err := s.loop(load, &p, batch, &sent); err != nil || sent.Packets != sendBatch || sent.Elapsed < took {
		t.Errorf("%v: %d packets in %v, want %d in %v or more", err, sent.Packets, sent.Elapsed, sendBatch, took)
	}
}
