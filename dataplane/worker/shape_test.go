package worker_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
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
	if testing.Short() {
		t.Skip("it compares with how long packets waited, which a machine under the race detector bends: TestDrain is without a clock")
	}
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

// classProbe is a probe that gives each tenth packet a priority, and keeps what waits by class.
type classProbe struct {
	probe
	lines []packet.Lines
}

func (p *classProbe) Stage(int) pipeline.Stage { return p }
func (p *classProbe) Process(b *packet.Batch) {
	p.probe.Process(b)
	for i := range b.Pkts {
		if k := &b.Pkts[i]; k.InPort == 0 && binary.BigEndian.Uint32(b.Data(k)[14:])%10 == 9 {
			k.VLAN = 5 << 13
		}
		p.lines = append(p.lines, *b.Lines[1])
	}
}

// TestWaitByClass: how long stages are told that packets will wait is how long they do, by class: strict ones hardly, the others long.
func TestWaitByClass(t *testing.T) {
	p := &classProbe{probe: probe{seen: make([]sighting, 0, 4096)}, lines: make([]packet.Lines, 0, 4096)}
	l := startLive(t, liveConfig{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0}, func(l *live) {
		l.parse = p
		l.configure = func(c *port.Config) {
			if c.Name == "p1" {
				c.RateBits = 4_000_000 // 2 ms per packet
				c.Classes = []port.Class{{Name: "best", Weight: 1}, {Name: "voice", PCP: []int{5}}}
				c.Classes[0].Default = true
			}
		}
	})
	out, in := l.a.Packet(t), l.b.Packet(t)
	if err := in.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	const line, packets = 100, 400
	left := make([]int64, packets)
	buf := make([]byte, 2048)
	sent := 0
	for got := 0; got < packets; {
		for ; sent < packets && sent < got+line; sent++ {
			if err := out.Send(numbered(l.a, l.b, uint32(sent), 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := in.Receive(buf); err != nil {
			t.Fatalf("packet %d of %d: %v", got, packets, err)
		}
		if buf[12] == 0x88 && buf[13] == 0xb6 {
			left[binary.BigEndian.Uint32(buf[14:])] = tai()
			got++
		}
	}
	seen := p.sightings(t, l.sw.Workers()[0], packets)
	var ratios, strict []float64
	deep := 0
	for i := line; i < packets; i++ {
		lines, waited := &p.lines[i], float64(left[i]-seen[i].now)
		switch {
		case i%10 == 9: // the strict class is the first
			strict = append(strict, waited/float64(max(lines.Wait[1].First, 1)))
			if lines.Depth[0] > lines.Depth[1]/4 {
				deep++
			}
		case lines.Depth[1] >= line/2:
			ratios = append(ratios, float64(lines.Wait[1].First)/waited)
		}
	}
	if len(ratios) < packets/4 {
		t.Fatalf("the line was long for %d packets", len(ratios))
	}
	slices.Sort(ratios)
	slices.Sort(strict)
	middle := ratios[len(ratios)/2]
	t.Logf("told over waited: %.2f, %.2f, %.2f; strict packets waited %.3f of what the others are told", ratios[0], middle, ratios[len(ratios)-1], strict[len(strict)/2])
	if middle < 0.7 || middle > 1.4 {
		t.Errorf("packets are told to wait %.2f of what they do", middle)
	}
	if got := strict[len(strict)/2]; got > 0.25 || deep > len(strict)/2 {
		t.Errorf("strict packets wait %.2f of what the others are told, and %d of %d in a deep line", got, deep, len(strict))
	}
	r := l.stop()
	if !r.Balanced || r.DroppedTotal() != 0 || r.Frames.Lost != 0 || r.Frames.Faults != 0 || len(r.Ports[1].Classes) != 2 || r.Ports[1].Classes[0].Sent != packets/10 {
		t.Errorf("%+v, %+v", r.Fate, r.Ports[1].Classes)
	}
}
