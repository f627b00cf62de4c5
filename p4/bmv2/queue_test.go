package bmv2

import (
	"strings"
	"testing"
	"time"
)

// TestQueueRate: of packets that come at once a limited port sends the last one not before its turn.
func TestQueueRate(t *testing.T) {
	s := start(t, reflector)
	if err := s.Load("table_add stations to 02:00:00:00:00:01 => 1\ntable_add stations to 02:00:00:00:00:02 => 2"); err != nil {
		t.Fatal(err)
	}
	const n, rate = 30, 100
	if err := s.SetQueueRate(1, rate); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 2 * n {
		if err := s.Send(Packet{0, frame(byte(i%2+1), 9, 0x1234, "")}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * n {
		if _, err := s.Receive(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	// The first one leaves at once, and a busy machine sends later, never sooner. The slack is for the two clocks.
	if took := time.Since(began); took < (n-1)*time.Second/rate*9/10 {
		t.Errorf("%d packets left within %v by a port of %d packets per second", n, took, rate)
	}
	for _, c := range []struct {
		port int
		rate int64
		says string
	}{
		{-1, 1, "port -1 is not 0 to 510"}, {511, 1, "port 511 is not"}, {1, -1, "-1 packets per second are not 0 to"}, {1, MaxQueueRate + 1, "are not 0 to"},
	} {
		if err := s.SetQueueRate(c.port, c.rate); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("port %d, rate %d: %v, want it to say %q", c.port, c.rate, err, c.says)
		}
	}
	if err := s.SetQueueRate(1, 0); err != nil {
		t.Error(err)
	}
}
