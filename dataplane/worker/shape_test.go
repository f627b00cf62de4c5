package worker_test

import (
	"encoding/binary"
	"fmt"
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

// TestWaitAtShapedPort: what stages know of how long packets will wait is how long they do, of the middle one of many: where the worker sends by
// itself and where another one does, and for packets of several frames.
func TestWaitAtShapedPort(t *testing.T) {
	for _, c := range []struct {
		workers, mtu, size int
		rate               int64
	}{{1, 1500, 1000, 4_000_000}, {2, 1500, 1000, 4_000_000}, {1, 9000, 8000, 32_000_000}} { // 2 ms per packet
		t.Run(fmt.Sprintf("%d workers, %d B", c.workers, c.size), func(t *testing.T) {
			p := &probe{seen: make([]sighting, 0, 4096), first: c.workers > 1}
			l := startLive(t, liveConfig{port.DriverXSK, c.workers, 1, c.mtu, worker.PollAdaptive, 0}, func(l *live) {
				l.parse = p
				l.configure = func(pc *port.Config) {
					if pc.Name == "p1" {
						pc.RateBits, pc.QueuePackets = c.rate, 256
					}
				}
			})
			testWait(t, l, p, c.size)
		})
	}
}

func testWait(t *testing.T, l *live, p *probe, size int) {
	out, in := l.a.Packet(t), l.b.Packet(t)
	if err := in.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	const line, packets = 100, 300 // that are kept waiting, and all
	left := make([]int64, 0, packets)
	buf := make([]byte, 16384)
	for sent := uint32(0); len(left) < packets; {
		for ; sent < packets && int(sent) < len(left)+line; sent++ {
			if err := out.Send(numbered(l.a, l.b, sent, size)); err != nil {
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
	for i, s := range seen[line:packets] {
		ratios = append(ratios, float64(s.wait[1].First)/float64(left[line+i]-s.now))
	}
	slices.Sort(ratios)
	middle := ratios[len(ratios)/2]
	t.Logf("expected over waited: %.2f, %.2f, %.2f of %d packets", ratios[0], middle, ratios[len(ratios)-1], len(ratios))
	if middle < 0.7 || middle > 1.4 {
		t.Errorf("packets are expected to wait %.2f of what they do", middle)
	}
	if r := l.stop(); !r.Balanced || r.DroppedTotal() != 0 {
		t.Errorf("%+v", r.Fate)
	}
}
