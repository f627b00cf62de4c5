package lab

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/pipeline/header"
)

// slowTracker is the tracker's twin: it remembers all that arrived.
type slowTracker struct {
	count, flows                           uint64
	arrived                                []uint64
	received, duplicated, reordered, wrong uint64
}

func (t *slowTracker) observe(i uint64) {
	if i >= t.count {
		t.wrong++
		return
	}
	overtaken := false
	for _, old := range t.arrived {
		if old == i {
			t.duplicated++
			return
		}
		overtaken = overtaken || old%t.flows == i%t.flows && old > i
	}
	t.arrived = append(t.arrived, i)
	t.received++
	if overtaken {
		t.reordered++
	}
}

func TestTrackerAgainstItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		count, flows := 1+random.IntN(200), 1+random.IntN(8)
		fast, slow := newTracker(count, flows), &slowTracker{count: uint64(count), flows: uint64(flows)}
		for range random.IntN(300) {
			i := random.Uint64N(uint64(count) + 3)
			fast.observe(i)
			slow.observe(i)
		}
		if fast.received != slow.received || fast.duplicated != slow.duplicated ||
			fast.reordered != slow.reordered || fast.wrong != slow.wrong {
			t.Fatalf("count %d, flows %d: %+v, twin %+v", count, flows, fast, slow)
		}
	}
}

func TestResultOK(t *testing.T) {
	good := Result{Sent: 5, Received: 5}
	if !good.OK() {
		t.Error("a whole result is not OK")
	}
	for name, bad := range map[string]Result{
		"nothing sent": {},
		"lost":         {Sent: 5, Received: 4, Lost: 1},
		"duplicated":   {Sent: 5, Received: 5, Duplicated: 1},
		"reordered":    {Sent: 5, Received: 5, Reordered: 1},
		"wrong":        {Sent: 5, Received: 5, Wrong: 1},
		"overflow":     {Sent: 5, Received: 5, Overflow: 1},
		"fault":        {Sent: 5, Received: 5, Fault: "x"},
	} {
		if bad.OK() {
			t.Errorf("%s is OK", name)
		}
	}
}

func TestSizesCoverTheRange(t *testing.T) {
	for _, count := range []int{1, 2, 10, 1436, 1437, 1438, 5000} {
		l := load{Traffic: Traffic{Count: count, Sizes: []int{64, 1500}}}
		seen := map[int]bool{}
		for i := range count {
			size := l.size(i)
			if size < 64 || size > 1500 {
				t.Fatalf("count %d: size(%d) = %d", count, i, size)
			}
			seen[size] = true
		}
		if len(seen) != min(count, 1437) || !seen[64] || count > 1 && !seen[1500] {
			t.Errorf("count %d: %d different sizes, 64: %t, 1500: %t", count, len(seen), seen[64], seen[1500])
		}
	}
}

func TestFillDiffers(t *testing.T) {
	a, b := make([]byte, 100), make([]byte, 100)
	fill(a, 1)
	fill(b, 2)
	if binary.BigEndian.Uint64(a) != 1 || bytes.Equal(a[8:], b[8:]) || bytes.Equal(a[8:50], a[50:92]) {
		t.Errorf("fill: %x, %x", a, b)
	}
	fill(b, 1)
	if !bytes.Equal(a, b) {
		t.Error("fill of one number differs")
	}
}

func TestWindow(t *testing.T) {
	received := uint64(0)
	w := newWindow(10, 1000, 8, func() uint64 { return received })
	start := time.Now()
	for _, step := range []struct {
		ms             int
		sent, received uint64
		room           int
	}{
		{0, 0, 0, 10},
		{1, 4, 0, 6},
		{2, 10, 0, 0},
		{3, 10, 3, 3},
		{4, 13, 3, 0},
		{900, 13, 3, 0},   // not yet a second without an arrival
		{1100, 13, 3, 10}, // the ten are given up
		{1101, 23, 3, 0},
		{1102, 23, 5, 2},   // two of the later ten, as it seems
		{1103, 23, 15, 10}, // eight are missing, no more than were given up
		{1104, 23, 23, 10},
	} {
		received = step.received
		if room := w.room(step.sent, start.Add(time.Duration(step.ms)*time.Millisecond)); room != step.room {
			t.Errorf("at %d ms, %d sent and %d received: room for %d, want %d", step.ms, step.sent, step.received, room, step.room)
		}
	}
}

// TestFlowFrames decodes frames with an independent decoder.
func TestFlowFrames(t *testing.T) {
	source, sink := netns.HardwareAddr(1), netns.HardwareAddr(2)
	const flows = 20_000
	for _, size := range []int{minFlowFrame, 64, 1514} {
		f := newFlowFrames(source, sink, size, flows)
		buf := make([]byte, size)
		f.prepare(buf)
		keys := map[string]bool{}
		for i := range uint64(flows + 3) {
			f.number(buf, i)
			p := gopacket.NewPacket(buf, layers.LayerTypeEthernet, gopacket.NoCopy)
			eth, _ := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			ip, _ := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
			udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if p.ErrorLayer() != nil || eth == nil || ip == nil || udp == nil {
				t.Fatalf("size %d: frame %d: %v", size, i, p)
			}
			if !bytes.Equal(eth.SrcMAC, source) || !bytes.Equal(eth.DstMAC, sink) || int(ip.Length) != size-14 || int(udp.Length) != size-34 {
				t.Fatalf("size %d: frame %d: %v", size, i, p)
			}
			if header.Checksum(buf[14:34]) != 0 {
				t.Fatalf("size %d: frame %d: the IP checksum is wrong", size, i)
			}
			benchmarks := net.IPNet{IP: net.IPv4(198, 18, 0, 0), Mask: net.CIDRMask(15, 32)}
			if !benchmarks.Contains(ip.SrcIP) || !benchmarks.Contains(ip.DstIP) {
				t.Fatalf("addresses %v, %v are not for benchmarks", ip.SrcIP, ip.DstIP)
			}
			keys[ip.SrcIP.String()+udp.SrcPort.String()] = true
		}
		if len(keys) != flows {
			t.Errorf("size %d: %d different flows, want %d", size, len(keys), flows)
		}
	}
}

// TestFlowSinkSeesEveryByte changes one byte at a time.
func TestFlowSinkSeesEveryByte(t *testing.T) {
	f := newFlowFrames(netns.HardwareAddr(1), netns.HardwareAddr(2), 80, 3)
	s := &flowSink{frames: f, track: newTracker(10, 3), want: make([]byte, 80)}
	f.prepare(s.want)
	frame := make([]byte, 80)
	f.prepare(frame)
	f.number(frame, 4)
	s.accept(frame)
	if s.track.received != 1 || s.track.wrong != 0 {
		t.Fatalf("an unchanged frame: %+v", s.track)
	}
	for k := range frame {
		frame[k] ^= 0x10
		s.accept(frame)
		frame[k] ^= 0x10
	}
	// A frame without EtherType (2 bytes) or mark (4) is not ours and not counted.
	if want := uint64(len(frame) - 6); s.track.wrong != want || s.track.received != 1 {
		t.Errorf("%d changed frames are wrong and %d right, want %d and 1", s.track.wrong, s.track.received, want)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	f := newFlowFrames(netns.HardwareAddr(1), netns.HardwareAddr(2), 80, 3)
	s := &flowSink{frames: f, track: newTracker(1<<20, 3), want: make([]byte, 80)}
	f.prepare(s.want)
	frame := make([]byte, 80)
	f.prepare(frame)
	i := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		f.number(frame, i)
		s.accept(frame)
		i++
	}); n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}
