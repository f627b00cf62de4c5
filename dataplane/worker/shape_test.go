package worker_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
)

// TestShapedPort: packets beyond a port's rate wait, which stages see, and leave in
// order.
func TestShapedPort(t *testing.T) {
	for _, c := range []liveConfig{
		{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0},
		{port.DriverAsavie, 1, 1, 1500, worker.PollInterrupt, 0},
	} {
		t.Run(c.driver, func(t *testing.T) {
			p := &probe{seen: make([]sighting, 0, 4096)}
			l := startLive(t, c, func(l *live) {
				l.parse = p
				l.configure = func(c *port.Config) {
					if c.Name == "p1" {
						c.RateBits, c.QueuePackets = 1_000_000, 256
					}
				}
			})
			out, in := l.a.Packet(t), l.b.Packet(t)
			// 125 packets leave per second, so they pile up, unless we are held up for long.
			sent, waited := uint32(0), uint32(0)
			for deadline := time.Now().Add(patience); waited < 10; {
				if time.Now().After(deadline) {
					t.Fatalf("of %d packets no more than %d wait", sent, waited)
				}
				for range 20 {
					if err := out.Send(numbered(l.a, l.b, sent, 1000)); err != nil {
						t.Fatal(err)
					}
					sent++
				}
				for _, s := range p.sightings(t, l.sw.Workers()[0], int(sent)) {
					waited = max(waited, s.depth[1])
				}
			}
			if err := in.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 2048)
			for want := uint32(0); want < sent; {
				if _, err := in.Receive(buf); err != nil {
					t.Fatalf("packet %d of %d: %v", want, sent, err)
				}
				if buf[12] != 0x88 || buf[13] != 0xb6 {
					continue
				}
				if got := binary.BigEndian.Uint32(buf[14:]); got != want {
					t.Fatalf("packet %d in the place of %d", got, want)
				}
				want++
			}
			r := l.stop()
			if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 || r.DroppedTotal() != 0 || r.Ports[1].Transmitted != uint64(sent) {
				t.Errorf("%+v, frames %+v", r.Fate, r.Frames)
			}
			t.Logf("%d packets, of which %d waited", sent, waited)
		})
	}
}
