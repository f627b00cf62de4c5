package worker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// probe keeps what it sees of each packet, or of those that came by the first port alone. It is for switches of one worker, or
// of one worker that receives by the first port, and read by Worker.Do.
type probe struct {
	seen  []sighting
	first bool
}

type sighting struct {
	port         uint16
	arrival, now int64
	depth        []uint32
	wait         []packet.Wait
}

func (*probe) Role() pipeline.Role        { return pipeline.RoleParse }
func (*probe) Needs() packet.Needs        { return packet.NeedArrival | packet.NeedDepth | packet.NeedWait }
func (p *probe) Stage(int) pipeline.Stage { return p }
func (p *probe) Process(b *packet.Batch) {
	for i := range b.Pkts {
		k := &b.Pkts[i]
		if p.first && k.InPort != 0 {
			continue
		}
		p.seen = append(p.seen, sighting{k.InPort, k.Arrival, b.Now, slices.Clone(b.Depth), slices.Clone(b.Wait)})
	}
}

// sightings waits for n packets in all.
func (p *probe) sightings(t *testing.T, w *worker.Worker, n int) []sighting {
	t.Helper()
	var seen []sighting
	for deadline := time.Now().Add(10 * time.Second); len(seen) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d packets came", len(seen), n)
		}
		w.Do(func() { seen = slices.Clone(p.seen) })
	}
	return seen
}

func tai() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &ts)
	return ts.Nano()
}

// sendFrames sends n frames that nobody answers.
func sendFrames(t *testing.T, s *netns.PacketSocket, n int) {
	t.Helper()
	frame := make([]byte, 60)
	copy(frame, "\x02weir\x01\x02weir\x02\x88\xb6")
	for range n {
		if err := s.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArrivalWhileHeld: a packet that waits in the RX ring while its worker does
// something else has the time at which it came, long before its batch's clock.
func TestArrivalWhileHeld(t *testing.T) {
	for _, timestamps := range []string{port.TimestampsXDP, port.TimestampsAuto, port.TimestampsBatch} {
		t.Run(timestamps, func(t *testing.T) {
			p := &probe{seen: make([]sighting, 0, 64)}
			l := startLive(t, liveConfig{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0}, func(l *live) {
				l.parse, l.timestamps = p, timestamps
			})
			w := l.sw.Workers()[0]
			from := l.a.Packet(t)
			var before, after, released int64
			const packets = 10
			w.Do(func() {
				before = tai()
				sendFrames(t, from, packets)
				after = tai()
				time.Sleep(50 * time.Millisecond)
				released = tai()
			})
			seen := p.sightings(t, w, packets)
			last := int64(0)
			for i, s := range seen[:packets] {
				if s.now < released {
					t.Errorf("packet %d: the batch's clock is %d ns before the worker was released", i, released-s.now)
				}
				if timestamps == port.TimestampsBatch {
					if s.arrival != 0 {
						t.Errorf("packet %d has a time of its own, %d", i, s.arrival)
					}
					continue
				}
				// The far end's receive work may run behind the return of the last send.
				if s.arrival < before || s.arrival >= released || s.arrival < last {
					t.Errorf("packet %d arrived at %d, sent from %d to %d, the one before at %d", i, s.arrival, before, after, last)
				}
				last = s.arrival
			}
			if timestamps != port.TimestampsBatch {
				t.Logf("the first of %d packets waited %v", packets, time.Duration(seen[0].now-seen[0].arrival))
			}
			r := l.stop()
			want := "arrival: xdp, 1 ns"
			if timestamps == port.TimestampsBatch {
				want = "arrival: batch"
			}
			for _, m := range r.Modes {
				if !strings.HasSuffix(m, want) {
					t.Errorf("mode %q, want %q at its end", m, want)
				}
			}
			if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("%+v %+v", r.Fate, r.Frames)
			}
		})
	}
}

// TestDepthWhileDown: packets to a port that does not send wait, the next batch
// sees how many, and none once they were sent.
func TestDepthWhileDown(t *testing.T) {
	for _, driver := range []string{port.DriverXSK, port.DriverAsavie} {
		t.Run(driver, func(t *testing.T) {
			p := &probe{seen: make([]sighting, 0, 4096)}
			l := startLive(t, liveConfig{driver, 1, 1, 1500, worker.PollAdaptive, 0}, func(l *live) { l.parse = p })
			w := l.sw.Workers()[0]
			from := l.a.Packet(t)
			sendFrames(t, from, 1)
			if d := p.sightings(t, w, 1)[0].depth; !slices.Equal(d, []uint32{0, 0}) {
				t.Errorf("depth %v of an idle switch", d)
			}
			const packets = 20 // in one batch, since the worker is held, before it hears that the link is down
			w.Do(func() {
				if err := l.middle.SetDown("p1"); err != nil {
					t.Error(err)
				}
				sendFrames(t, from, packets)
				time.Sleep(20 * time.Millisecond)
			})
			p.sightings(t, w, 1+packets)
			sendFrames(t, from, 1)
			seen := p.sightings(t, w, 2+packets)
			d := seen[1+packets].depth
			t.Logf("depths %v behind %d packets to a port that is down", d, packets)
			if d[0] != 0 || d[1] == 0 || d[1] > packets+1 {
				t.Errorf("depths %v, want 1 to %d packets to wait at the port that is down", d, packets)
			}
			if err := l.middle.SetUp("p1"); err != nil {
				t.Fatal(err)
			}
			if err := l.middle.WaitUp("p1", time.Minute); err != nil {
				t.Fatal(err)
			}
			for n := 3 + packets; ; n++ {
				sendFrames(t, from, 1)
				if d = p.sightings(t, w, n)[n-1].depth; d[1] == 0 {
					break
				}
				if n > 1000 {
					t.Fatalf("depths %v although the port is up", d)
				}
				time.Sleep(time.Millisecond)
			}
			if r := l.stop(); !r.Balanced || r.Frames.Faults != 0 {
				t.Errorf("%+v %+v", r.Fate, r.Frames)
			}
		})
	}
}

// timed counts the packets without an arrival time of their own, and those
// whose time has nothing to do with the batch's clock: another clock's, or none.
type timed struct{ packets, untimed, odd int }

func (*timed) Role() pipeline.Role        { return pipeline.RoleParse }
func (*timed) Needs() packet.Needs        { return packet.NeedArrival }
func (s *timed) Stage(int) pipeline.Stage { return s }
func (s *timed) Process(b *packet.Batch) {
	// Far more than a packet waits, and far less than clocks differ (TAI and UTC: 37 s).
	const apart = int64(20 * time.Second)
	for i := range b.Pkts {
		s.packets++
		switch a := b.Pkts[i].Arrival; {
		case a == 0:
			s.untimed++
		case a < b.Now-apart || a > b.Now+apart:
			s.odd++
		}
	}
}

// TestArrivalOfTraffic carries TCP with times in front of all packets, also of
// those of several frames: each has its own, and the bytes stay right.
func TestArrivalOfTraffic(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		s := &timed{}
		l := startLive(t, liveConfig{port.DriverXSK, 1, 1, mtu, worker.PollAdaptive, 0}, func(l *live) {
			l.parse, l.timestamps = s, port.TimestampsXDP
		})
		if err := l.transfer(16 << 20); err != nil {
			t.Error(err)
		}
		r := l.stop()
		t.Logf("mtu %d: %+v %v", mtu, *s, r.Modes)
		if s.packets < 1000 || s.untimed != 0 || s.odd != 0 {
			t.Errorf("mtu %d: %+v", mtu, *s)
		}
		if !r.Balanced || r.DroppedTotal() != 0 || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
			t.Errorf("mtu %d: %+v %+v", mtu, r.Fate, r.Frames)
		}
	}
}

// TestFirstWhileDown: once a switch says that a link is down, not even the first packet that is to leave there counts as transmitted.
func TestFirstWhileDown(t *testing.T) {
	p := &probe{seen: make([]sighting, 0, 16)}
	down := make(chan struct{}, 1)
	l := startLive(t, liveConfig{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0}, func(l *live) {
		l.parse = p
		l.onEvent = func(e worker.PortEvent) {
			if e.State == port.StateDown {
				down <- struct{}{}
			}
		}
	})
	w := l.sw.Workers()[0]
	from := l.a.Packet(t)
	sendFrames(t, from, 1)
	p.sightings(t, w, 1)
	if err := l.middle.SetDown("p1"); err != nil {
		t.Fatal(err)
	}
	<-down
	sendFrames(t, from, 3)
	p.sightings(t, w, 4)
	r := l.stop()
	if in, out := r.Ports[0], r.Ports[1]; out.Transmitted != 1 || in.Dropped["port_down"] != 3 || !r.Balanced || r.Frames.Faults != 0 {
		t.Errorf("transmitted %d, %+v, %+v", out.Transmitted, in.Fate, r.Frames)
	}
}
