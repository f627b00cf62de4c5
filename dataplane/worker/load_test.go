package worker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
)

// flood sends frames from a host to the other until stopped, and returns a
// function that stops it.
func flood(t *testing.T, from, to *netnstest.Host) (stop func()) {
	t.Helper()
	s, err := from.NS.PacketSocket(from.Interface)
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 60)
	copy(frame, to.MAC)
	copy(frame[6:], from.MAC)
	frame[12], frame[13] = 0x88, 0xb6 // local experimental: nobody answers
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !done.Load() {
			// A full queue of the device is as good as a sent frame here.
			_ = s.Send(frame)
		}
	}()
	return func() {
		done.Store(true)
		<-ended
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseUnderLoad closes switches into which both hosts send all they can.
// The audit knows every frame's owner, and none may be lost.
func TestCloseUnderLoad(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		c := liveConfig{port.DriverXSK, 1 + round%2, 1 + round%3, 1500, worker.PollAdaptive, 0}
		t.Run(fmt.Sprintf("%d workers %d queues", c.workers, c.queues), func(t *testing.T) {
			l := startLive(t, c)
			stopA, stopB := flood(t, l.a, l.b), flood(t, l.b, l.a)
			time.Sleep(100 * time.Millisecond)
			r := l.stop()
			stopA()
			stopB()
			t.Log(r.Fate, fmt.Sprintf("%+v %+v", r.Frames, r.Ports[0].Counters))
			if !r.Balanced || r.Received == 0 {
				t.Errorf("counters: balanced %v, %+v", r.Balanced, r.Fate)
			}
			if r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("frames: %+v", r.Frames)
			}
		})
	}
}
