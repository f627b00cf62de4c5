package worker_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// patience is far longer than anything here takes.
const patience = 30 * time.Second

// numbered is a frame with a number, of a type that nobody answers.
func numbered(from, to *netnstest.Host, n uint32, size int) []byte {
	f := make([]byte, size)
	copy(f, to.MAC)
	copy(f[6:], from.MAC)
	f[12], f[13] = 0x88, 0xb6
	binary.BigEndian.PutUint32(f[14:], n)
	return f
}

// lossless sends numbered packets one way, a window at a time, and expects each
// in order, until stop is closed.
func lossless(from, to *netnstest.Host, stop <-chan struct{}) (sent uint32, err error) {
	in, err := to.NS.PacketSocket(to.Interface)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := from.NS.PacketSocket(from.Interface)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	for {
		select {
		case <-stop:
			return sent, nil
		default:
		}
		if err := window(from, to, out, in, sent, 32); err != nil {
			return sent, err
		}
		sent += 32
	}
}

// window sends n packets from number first on, and receives them.
func window(from, to *netnstest.Host, out, in *netns.PacketSocket, first, n uint32) error {
	for i := first; i < first+n; i++ {
		if err := out.Send(numbered(from, to, i, 60+int(i)%1000)); err != nil {
			return err
		}
	}
	if err := in.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buf := make([]byte, 2048)
	for want := first; want < first+n; {
		if _, err := in.Receive(buf); err != nil {
			return fmt.Errorf("packet %d: %w", want, err)
		}
		if buf[12] != 0x88 || buf[13] != 0xb6 {
			continue
		}
		if got := binary.BigEndian.Uint32(buf[14:]); got != want {
			return fmt.Errorf("packet %d arrived in the place of %d", got, want)
		}
		want++
	}
	return nil
}

// load sends packets as fast as it can, whatever becomes of them, until stop is
// closed. An interface that vanishes and returns is used again.
func load(from, to *netnstest.Host, sent *atomic.Uint64, stop <-chan struct{}) {
	for {
		out, err := from.NS.PacketSocket(from.Interface)
		for err == nil {
			select {
			case <-stop:
				out.Close()
				return
			default:
			}
			if err = out.Send(numbered(from, to, 0xffff_0000, 200)); err == nil {
				if sent.Add(1)%32 == 0 {
					time.Sleep(time.Millisecond) // the machine has other things to do
				}
			}
		}
		if out != nil {
			out.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// faulty is a switch of two pairs of ports: p0 and p1, which have faults, under
// a load both ways; and p2 and p3, which may lose nothing meanwhile.
type faulty struct {
	*live
	t       *testing.T
	c       liveConfig
	halt    func() // ends all traffic, and fails if p2 and p3 lost something
	loaded  atomic.Uint64
	mu      sync.Mutex
	events  []worker.PortEvent
	threads int // goroutines at rest
	files   int // descriptors at rest
}

func startFaulty(t *testing.T, c liveConfig) *faulty { return startFaultyWith(t, c, open{}) }

// startFaultyWith has a parse stage of the test's own.
func startFaultyWith(t *testing.T, c liveConfig, parse pipeline.Module) *faulty {
	f := &faulty{t: t, c: c}
	f.live = startLive(t, c, func(l *live) {
		l.pairs, l.parse = 2, parse
		l.onEvent = func(e worker.PortEvent) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		}
	})
	f.rest()
	f.threads, f.files = runtime.NumGoroutine(), descriptors(t)
	f.traffic()
	return f
}

// traffic begins the load and the lossless flows.
func (f *faulty) traffic() {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		all.Go(func() { load(f.hosts[way[0]], f.hosts[way[1]], &f.loaded, stop) })
	}
	for _, way := range [][2]int{{2, 3}, {3, 2}} {
		all.Go(func() {
			n, err := lossless(f.hosts[way[0]], f.hosts[way[1]], stop)
			if err != nil {
				f.t.Errorf("from p%d to p%d: %v", way[0], way[1], err)
			}
			f.t.Logf("p%d to p%d: %d packets without loss", way[0], way[1], n)
		})
	}
	once := sync.OnceFunc(func() { close(stop); all.Wait() })
	f.halt = once
	f.t.Cleanup(once)
}

// rest waits until nothing moves any more, so that goroutines and descriptors
// can be counted.
func (f *faulty) rest() {
	last := -1
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		n := runtime.NumGoroutine()<<16 + descriptors(f.t)
		if n == last {
			return
		}
		last = n
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func (f *faulty) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// await waits until a port's report is as wanted.
func (f *faulty) await(number int, what string, ok func(*worker.PortReport) bool) worker.PortReport {
	f.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p := f.sw.Report().Ports[number]
		if ok(&p) {
			return p
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("p%d is not %s: %+v; events %+v", number, what, p.Info, f.events)
		}
	}
}

func (f *faulty) awaitState(number int, s port.State) worker.PortReport {
	f.t.Helper()
	return f.await(number, string(s), func(p *worker.PortReport) bool { return p.State == s })
}

// cable makes the veth pair of a port anew.
func (f *faulty) cable(number, queues int) {
	f.t.Helper()
	h, name := f.hosts[number], fmt.Sprintf("p%d", number)
	f.must(netns.AddVeth(netns.End{Namespace: h.NS, Name: h.Interface, MAC: h.MAC},
		netns.End{Namespace: f.middle, Name: name}, netns.Veth{Queues: queues, MTU: f.c.mtu}))
	f.must(errors.Join(h.NS.SetHostOffloads(h.Interface), h.NS.SetARP(h.Interface, false), f.middle.SetSwitchOffloads(name),
		f.middle.SetUp(name), h.NS.SetUp(h.Interface), f.middle.WaitUp(name, patience), h.NS.WaitUp(h.Interface, patience)))
}

// passes sees that numbered packets go both ways between p0 and p1 again, amid
// the load.
func (f *faulty) passes(n uint32) {
	f.t.Helper()
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		from, to := f.hosts[way[0]], f.hosts[way[1]]
		out, in := from.Packet(f.t), to.Packet(f.t)
		f.must(in.SetDeadline(time.Now().Add(patience)))
		buf := make([]byte, 2048)
		// A load may fill rings, so one packet is sent until it comes.
		for tries, got := 0, false; !got; tries++ {
			f.must(out.Send(numbered(from, to, n, 100)))
			f.must(in.SetDeadline(time.Now().Add(100 * time.Millisecond)))
			for {
				_, err := in.Receive(buf)
				if os.IsTimeout(err) {
					break
				}
				f.must(err)
				if got = buf[12] == 0x88 && binary.BigEndian.Uint32(buf[14:]) == n; got {
					break
				}
			}
			if tries > 100 {
				f.t.Fatalf("no packet from p%d to p%d", way[0], way[1])
			}
		}
		out.Close()
		in.Close()
	}
}

// end stops everything and counts what is left.
func (f *faulty) end() worker.Report {
	f.t.Helper()
	f.halt()
	f.rest()
	// One more goroutine or descriptor would be one per fault.
	if n := runtime.NumGoroutine(); n > f.threads+2 {
		buf := make([]byte, 1<<20)
		f.t.Errorf("%d goroutines, %d at the beginning: %s", n, f.threads, buf[:runtime.Stack(buf, true)])
	}
	if n := descriptors(f.t); n > f.files+2 {
		f.t.Errorf("%d descriptors, %d at the beginning", n, f.files)
	}
	r := f.stop()
	if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		f.t.Errorf("balanced %v, %+v, %+v", r.Balanced, r.Frames, r.Fate)
	}
	for i, p := range r.Ports[2:] {
		if p.DroppedTotal() != 0 || p.Counters.Lost() != 0 || p.Rebuilds != 0 || p.LinkChanges != 0 {
			f.t.Errorf("p%d was harmed: %+v", i+2, p)
		}
	}
	f.t.Logf("loaded %d; %+v; frames %+v", f.loaded.Load(), r.Fate, r.Frames)
	for _, p := range r.Ports {
		f.t.Logf("%s: received %d dropped %v transmitted %d, %+v, rebuilds %d, link changes %d",
			p.Name, p.Received, p.Dropped, p.Transmitted, p.Counters, p.Rebuilds, p.LinkChanges)
	}
	return r
}

var faultConfigs = []liveConfig{
	{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0},
	{port.DriverXSK, 2, 4, 1500, worker.PollInterrupt, 0},
	{port.DriverAsavie, 1, 1, 1500, worker.PollAdaptive, 0},
}

func eachFault(t *testing.T, f func(t *testing.T, f *faulty)) {
	for _, c := range faultConfigs {
		t.Run(fmt.Sprintf("%s %d workers %d queues", c.driver, c.workers, c.queues), func(t *testing.T) { f(t, startFaulty(t, c)) })
	}
}

// times returns how often a test makes its fault: the variable's value, or usual.
func times(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" && testing.Short() {
		return max(1, usual/8)
	}
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number", variable, text)
	}
	return n
}

// TestFlaps takes links down and up under load, from our side and from the far
// one in turn. Of the latter the kernel may tell us nothing, if they are short.
func TestFlaps(t *testing.T) {
	eachFault(t, func(t *testing.T, f *faulty) {
		n := times(t, "WEIR_FLAPS", 100)
		index := f.sw.Report().Ports[0].Index
		for i := range n {
			ns, name := f.middle, "p0"
			if i%2 == 1 {
				ns, name = f.a.NS, f.a.Interface
			}
			f.must(ns.SetDown(name))
			if i%8 == 0 {
				f.awaitState(0, port.StateDown)
			}
			f.must(ns.SetUp(name))
			f.must(f.middle.WaitUp("p0", patience))
			f.must(f.a.NS.WaitUp(f.a.Interface, patience))
		}
		f.passes(1)
		f.await(0, "up as often as down", func(p *worker.PortReport) bool {
			return p.State == port.StateUp && p.LinkChanges >= uint64(n) && p.LinkChanges <= uint64(2*n) && p.LinkChanges%2 == 0
		})
		r := f.end()
		if p := r.Ports[0]; p.Rebuilds != 0 || p.Index != index {
			t.Errorf("a link that flaps needs no rebuild: %+v", p)
		}
		if r.Ports[1].LinkChanges != 0 {
			t.Errorf("p1's link changed %d times", r.Ports[1].LinkChanges)
		}
	})
}

// TestRecreated deletes an interface and makes it again, under load.
func TestRecreated(t *testing.T) {
	eachFault(t, func(t *testing.T, f *faulty) {
		n := times(t, "WEIR_RECREATE", 20/f.c.queues)
		for i := range n {
			before := f.sw.Report().Ports[0]
			f.must(f.middle.DeleteLink("p0"))
			if i%4 == 0 {
				p := f.awaitState(0, port.StateGone)
				if !strings.HasPrefix(p.Error, "no interface p0 in this network namespace") || p.Up {
					t.Errorf("a port without interface says %+v", p.Info)
				}
				// Long enough for packets to be dropped.
				f.await(1, "dropping", func(p *worker.PortReport) bool { return p.Dropped["port_down"] > 0 })
			}
			f.cable(0, f.c.queues)
			p := f.await(0, "back", func(p *worker.PortReport) bool { return p.State == port.StateUp && p.Rebuilds == uint64(i+1) })
			if p.Index == before.Index || p.Error != "" || p.Mode != before.Mode || p.MTU != 1500 {
				t.Errorf("it came back as %+v, was %+v", p.Info, before.Info)
			}
			f.passes(uint32(i))
		}
		r := f.end()
		if got := r.Ports[0].Rebuilds; got != uint64(n) {
			t.Errorf("%d rebuilds, want %d", got, n)
		}
	})
}

// TestSwitchedOff switches a port off and on under load: its interface is the
// kernel's in between, and nothing that it had received is lost.
func TestSwitchedOff(t *testing.T) {
	eachFault(t, func(t *testing.T, f *faulty) {
		n := times(t, "WEIR_RECREATE", 5)
		for i := range n {
			f.must(f.sw.SetPort("p0", false))
			p := f.awaitState(0, port.StateDisabled)
			if l, err := f.middle.Link("p0"); err != nil || l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached || p.Error != "" {
				t.Errorf("off: %+v, %v", p.Info, err)
			}
			f.must(errors.Join(f.middle.SetDown("p0"), f.middle.SetUp("p0"))) // not for us
			f.must(f.sw.SetPort("p0", false))                                 // nor is this a change
			f.must(f.sw.SetPort("p0", true))
			f.must(f.middle.WaitUp("p0", patience))
			f.awaitState(0, port.StateUp)
			f.passes(uint32(i))
		}
		f.must(f.sw.SetPort("p0", true))
		if err := f.sw.SetPort("p9", true); err == nil || err.Error() != "there is no port p9" {
			t.Errorf("p9: %v", err)
		}
		r := f.end()
		if got := r.Ports[0].Rebuilds; got != uint64(n) {
			t.Errorf("%d rebuilds, want %d", got, n)
		}
		if err := f.sw.SetPort("p0", false); err == nil {
			t.Error("a port of a closed switch can be switched off")
		}
	})
}

// TestNamespaceGone deletes the namespace at the far end, and the cable with it.
func TestNamespaceGone(t *testing.T) {
	f := startFaulty(t, faultConfigs[0])
	far, err := netns.Create(netnstest.UniqueName(prefix))
	f.must(err)
	// Its port gets a cable into a namespace that can go before the test ends.
	f.must(f.hosts[0].NS.DeleteLink("eth0"))
	f.awaitState(0, port.StateGone)
	f.must(netns.AddVeth(netns.End{Namespace: far, Name: "eth0", MAC: f.hosts[0].MAC}, netns.End{Namespace: f.middle, Name: "p0"}, netns.Veth{}))
	f.must(errors.Join(far.SetHostOffloads("eth0"), f.middle.SetSwitchOffloads("p0"), far.SetUp("eth0"), f.middle.SetUp("p0"), f.middle.WaitUp("p0", patience)))
	f.await(0, "back", func(p *worker.PortReport) bool { return p.State == port.StateUp && p.Rebuilds == 1 })
	f.must(far.Delete())
	f.awaitState(0, port.StateGone)
	f.await(1, "dropping", func(p *worker.PortReport) bool { return p.Dropped["port_down"] > 0 })
	time.Sleep(300 * time.Millisecond) // some tries of the keeper
	if r := f.end(); r.Ports[0].Rebuilds != 1 || r.Ports[0].State != port.StateGone {
		t.Errorf("%+v", r.Ports[0].Info)
	}
}

// ticking is a parse stage that looks at the clock of its batches and calls: it is told
// at once of a clock that was set back, and never of two calls out of order otherwise.
type ticking struct {
	open
	calls, back, stray atomic.Uint64
	last               int64
}

func (s *ticking) Stage(int) pipeline.Stage { return s }
func (s *ticking) Finish(int64)             {}
func (s *ticking) Process(b *packet.Batch) {
	if b.Now < s.last {
		s.stray.Add(1) // a batch in front of its Tick
	}
}

func (s *ticking) Tick(now int64) (next int64) {
	s.calls.Add(1)
	if now < s.last {
		s.back.Add(1)
	}
	s.last = now
	return now + int64(time.Millisecond)
}

// TestClockJumps sets the clock forward and back by hours under load: nothing is lost
// at ports without a fault, the stages are told, and all adds up.
func TestClockJumps(t *testing.T) {
	var ahead atomic.Int64
	t.Cleanup(worker.JumpingClock(&ahead))
	stage := &ticking{}
	f := startFaultyWith(t, faultConfigs[0], stage)
	const jumps = 20
	for i := range jumps {
		ahead.Add([]int64{int64(3 * time.Hour), -int64(2 * time.Hour)}[i%2])
		before := stage.calls.Load()
		for deadline := time.Now().Add(patience); stage.calls.Load() < before+20; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after jump %d the stages are called no more", i)
			}
		}
		f.passes(uint32(i))
	}
	r := f.end()
	if back, stray := stage.back.Load(), stage.stray.Load(); back != jumps/2 || stray != 0 {
		t.Errorf("%d steps back were told, want %d; %d batches came in front of that", back, jumps/2, stray)
	}
	t.Logf("%d jumps of the clock; p0 and p1: %+v", jumps, r.Fate)
}

// TestFewerQueues: a port does not come back as less than it was.
func TestFewerQueues(t *testing.T) {
	f := startFaulty(t, faultConfigs[1])
	f.must(f.middle.DeleteLink("p0"))
	f.awaitState(0, port.StateGone)
	f.cable(0, 1)
	p := f.awaitState(0, port.StateRebuilding)
	if want := "p0 came back with 1 queues, and had 4: give it as many (ethtool -L), or restart the switch"; p.Error != want {
		t.Errorf("got %q, want %q", p.Error, want)
	}
	f.must(f.middle.DeleteLink("p0"))
	f.awaitState(0, port.StateGone)
	f.cable(0, 4)
	f.awaitState(0, port.StateUp)
	f.passes(1)
	f.end()
}

// TestMTU: what a port sends follows its interface, as far as frames go.
func TestMTU(t *testing.T) {
	f := startFaulty(t, faultConfigs[0])
	f.halt() // counters are exact then
	out, err := f.b.NS.PacketSocket(f.b.Interface)
	f.must(err)
	defer out.Close()
	limit := func(mtu, frame int, fault string) {
		t.Helper()
		f.must(f.a.NS.SetMTU("eth0", mtu))
		f.must(f.middle.SetMTU("p0", mtu))
		p := f.await(0, "of another MTU", func(p *worker.PortReport) bool { return p.MTU == mtu })
		if p.MaxFrame != frame || !strings.HasPrefix(p.Error, fault) || (p.Error == "") != (fault == "") {
			t.Errorf("MTU %d: %+v", mtu, p.Info)
		}
	}
	send := func(size int) { f.must(out.Send(numbered(f.b, f.a, 1, size))) }
	dropped := func() uint64 { return f.sw.Report().Ports[1].Dropped["too_long"] }

	limit(1400, 1418, "")
	// The workers are told a moment later than the report.
	for deadline := time.Now().Add(patience); dropped() == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		send(1419)
	}
	if dropped() == 0 {
		t.Error("a packet longer than the MTU passes")
	}
	before, sent := dropped(), f.sw.Report().Ports[0].Transmitted
	send(1418)
	f.await(0, "sending", func(p *worker.PortReport) bool { return p.Transmitted == sent+1 })
	limit(1500, 1518, "")
	limit(2000, 1792, "the MTU was set to 2000, but a frame holds a packet of 1792 bytes: longer ones are dropped; set jumbo = true")
	limit(1500, 1518, "")
	if n := dropped(); n != before {
		t.Errorf("%d packets were too long, want %d", n, before)
	}
	f.passes(2)
	f.end()
}

// TestHungPeer: a peer that does not drain what it gets. It forwards to a link
// that sends next to nothing, so all that we send waits there. The kernel confirms
// to us what it gave to a veth, so no frame of ours waits with it: see
// TestHungDevice for a device of which that is not true.
func TestHungPeer(t *testing.T) {
	netnstest.Require(t)
	slow := netnstest.New(t, prefix)
	f := startFaulty(t, faultConfigs[0])
	f.must(netns.AddVeth(netns.End{Namespace: f.a.NS, Name: "slow"}, netns.End{Namespace: slow, Name: "far"}, netns.Veth{}))
	f.must(errors.Join(f.a.NS.SetUp("slow"), slow.SetUp("far"), f.a.NS.WaitUp("slow", patience)))
	link, err := f.a.NS.Link("slow")
	f.must(err)
	f.must(f.a.NS.Netlink().QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       1000, Buffer: netlink.Xmittime(1000, 2000), Limit: 1 << 30, // bytes per second; the time of 2000 bytes; bytes
	}))
	f.must(f.a.NS.AddBridge("bridge", "eth0", "slow"))
	out, err := f.b.NS.PacketSocket(f.b.Interface)
	f.must(err)
	defer out.Close()
	frame := numbered(f.b, f.a, 1, 200)
	frame[0], frame[5] = 2, frame[5]^1 // nobody's address: the bridge floods it
	frames := uint64(f.sw.Report().Frames.Total)
	f.await(0, "sending more than there are frames", func(p *worker.PortReport) bool {
		for range 64 {
			f.must(out.Send(frame))
		}
		return p.Transmitted > 2*frames
	})
	r := f.end()
	for _, p := range r.Ports[:2] {
		if p.DroppedTotal() != 0 {
			t.Errorf("%s drops %v", p.Name, p.Dropped)
		}
	}
}
