package worker_test

import (
	"encoding/binary"
	"slices"
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

// TestWaitAtShapedPort: what stages are told of how long packets will wait is how long they do, of the middle one of many.
func TestWaitAtShapedPort(t *testing.T) {
	p := &probe{seen: make([]sighting, 0, 4096)}
	l := startLive(t, liveConfig{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0}, func(l *live) {
		l.parse = p
		l.configure = func(c *port.Config) {
			if c.Name == "p1" {
				c.RateBits, c.QueuePackets = 4_000_000, 256 // 2 ms per packet
			}
		}
	})
	out, in := l.a.Packet(t), l.b.Packet(t)
	if err := in.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	const line, packets = 100, 300 // that are kept waiting, and all
	left := make([]int64, 0, packets)
	buf := make([]byte, 2048)
	for sent := uint32(0); len(left) < packets; {
		for ; sent < packets && int(sent) < len(left)+line; sent++ {
			if err := out.Send(numbered(l.a, l.b, sent, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := in.Receive(buf); err != nil {
			t.Fatalf("packet %d of %d: %v", len(left), packets, err)
		}
		if buf[12] == 0x88 && buf[13] == 0xb6 {
			if got := int(binary.BigEndian.Uint32(buf[14:])); got != len(left) {
				t.Fatalf("packet %d in the place of %d", got, len(left))
			}
			left = append(left, tai())
		}
	}
	seen := p.sightings(t, l.sw.Workers()[0], packets)
	var ratios []float64
	for i := line; i < packets; i++ {
		if s := seen[i]; s.depth[1] >= line/2 {
			ratios = append(ratios, float64(s.wait[1])/float64(left[i]-s.now))
		}
	}
	if len(ratios) < packets/4 {
		t.Fatalf("the line was long for %d packets of %d", len(ratios), packets-line)
	}
	slices.Sort(ratios)
	middle := ratios[len(ratios)/2]
	t.Logf("told over waited: %.2f, %.2f, %.2f of %d packets", ratios[0], middle, ratios[len(ratios)-1], len(ratios))
	if middle < 0.7 || middle > 1.4 {
		t.Errorf("packets are told to wait %.2f of what they do", middle)
	}
	if r := l.stop(); !r.Balanced || r.DroppedTotal() != 0 {
		t.Errorf("%+v", r.Fate)
	}
}
