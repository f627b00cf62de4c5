package collect

import (
	"fmt"
	"maps"
	"testing"
)

// TestShares: a switch that fills the stream is over its share, and is not any more when its messages are gone.
func TestShares(t *testing.T) {
	var s shares
	seq := uint64(0)
	send := func(sw, n, size int) {
		for range n {
			seq++
			s.add(seq, fmt.Sprintf("weir.records.lds.0.5.%d", sw), size)
		}
	}
	for sw := 1; sw <= 9; sw++ {
		send(sw, 100, 1000)
	}
	if over := s.over(1e6, nil); len(over) != 0 {
		t.Errorf("even shares: %v", over)
	}
	before := seq
	send(66, 5000, 1000)
	over := s.over(1e6, nil)
	if !maps.Equal(over, map[uint32]bool{66: true}) {
		t.Errorf("a flood: %v", over)
	}
	s.dropBefore(before + 4400)
	send(1, 100, 1000)
	if over = s.over(1e6, over); len(over) != 1 {
		t.Errorf("hardly less: %v", over)
	}
	s.dropBefore(seq + 1<<chunkBits)
	if over = s.over(1e6, over); len(over) != 0 || len(s.chunks) != 0 || len(s.bytes) != 0 {
		t.Errorf("all is gone: %v, %v", over, s.bytes)
	}
	s.add(1, "weir.records.x", 5) // of no switch
	if len(s.bytes) != 0 {
		t.Errorf("%v", s.bytes)
	}
}
