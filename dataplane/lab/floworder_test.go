package lab

import (
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/pipeline/header"
)

func TestParetoSizes(t *testing.T) {
	for _, c := range []struct {
		flows, count int
		shape        float64
	}{{1, 1, 1}, {1, 1000, 1}, {10, 10, 1.05}, {1000, 1000, 0.5}, {20_000, 200_000, 1.05}, {300, 100_000, 3}} {
		sizes := paretoSizes(c.flows, c.count, c.shape)
		sum := 0
		for _, s := range sizes {
			sum += s
		}
		if len(sizes) != c.flows || sum != c.count || slices.Min(sizes) < 1 {
			t.Errorf("%+v: %d flows of %d packets, the least %d", c, len(sizes), sum, slices.Min(sizes))
		}
	}
	// The heaviest hundredth of the flows has most of the packets.
	sizes, top := paretoSizes(20_000, 2_000_000, 1.05), 0
	slices.Sort(sizes)
	for _, s := range sizes[len(sizes)-200:] {
		top += s
	}
	if top < 800_000 {
		t.Errorf("the heaviest 200 of 20,000 flows have %d of 2,000,000 packets", top)
	}
}

// TestParetoFew: sizes follow the distribution where a flow's share is large, as there are few: the quantiles' ratios are the distribution's, up to rounding.
func TestParetoFew(t *testing.T) {
	const count, shape = 1_000_000, 1.05
	for _, flows := range []int{2, 5, 20, 50} {
		sizes := paretoSizes(flows, count, shape)
		for f, size := range sizes {
			want := math.Pow(float64(2*f+1), -1/shape) * float64(sizes[0])
			if math.Abs(float64(size)-want) > 2 {
				t.Errorf("%d flows: that of rank %d has %d packets beside %d of the largest, want %.0f", flows, f, size, sizes[0], want)
			}
		}
	}
	for flows, most := range map[int]int{100: count / 5, 1000: count / 50, 20_000: count / 50} { // a flow's share is bounded still
		if got := slices.Max(paretoSizes(flows, count, 0.5)); got > most+1 || got < most/2 {
			t.Errorf("%d flows: the largest has %d of %d packets, want up to %d", flows, got, count, most)
		}
	}
}

// TestFlowOrder holds that all packets of the sizes occur, numbered in order within their flows, and that a seed
// says which order it is.
func TestFlowOrder(t *testing.T) {
	load := Traffic{Count: 5000, Flows: 300, Distribution: DistributionPareto, Shape: 1.05, Seed: 7}
	order, again := newFlowOrder(&load), newFlowOrder(&load)
	load.Seed = 8
	other := newFlowOrder(&load)
	if !slices.Equal(order.of, again.of) || slices.Equal(order.of, other.of) {
		t.Error("the order does not hang on the seed alone")
	}
	got := make([]int, load.Flows)
	for i := range uint64(load.Count) {
		flow, nth := order.packet(i)
		if int(nth) != got[flow] {
			t.Fatalf("packet %d is number %d of flow %d, want %d", i, nth, flow, got[flow])
		}
		got[flow]++
	}
	if !slices.Equal(got, paretoSizes(load.Flows, load.Count, load.Shape)) {
		t.Error("the order has other sizes")
	}
	if flow, _ := order.packet(1 << 40); flow >= order.flows {
		t.Errorf("a packet beyond the load is of flow %d", flow)
	}
}

// TestRoutedSink holds that a sink behind routers accepts what routers change, and nothing else.
func TestRoutedSink(t *testing.T) {
	router, host := netns.HardwareAddr(9), netns.HardwareAddr(2)
	f := newFlowFrames(netns.HardwareAddr(1), router, 80, 3)
	f.between(1, 2, 5, 4000)
	s := &flowSink{frames: f, track: newTracker(10, 3), want: make([]byte, 80), routed: true, shared: true}
	f.prepare(s.want)
	copy(s.want, host)
	arrive := func(change func([]byte)) (received, wrong uint64) {
		frame := make([]byte, 80)
		f.prepare(frame)
		f.number(frame, 4)
		copy(frame, host)
		copy(frame[6:], netns.HardwareAddr(77))
		frame[22] = 61
		change(frame)
		frame[24], frame[25] = 0, 0
		sum := header.Checksum(frame[14:34])
		frame[24], frame[25] = byte(sum>>8), byte(sum)
		before := *s.track
		s.accept(frame)
		return s.track.received - before.received, s.track.wrong - before.wrong
	}
	if r, w := arrive(func([]byte) {}); r != 1 || w != 0 {
		t.Errorf("a routed frame: received %d, wrong %d", r, w)
	}
	for name, at := range map[string]int{"destination MAC": 2, "type of service": 15, "destination": 33, "payload": 70} {
		if r, w := arrive(func(b []byte) { b[at] ^= 4 }); r != 0 || w != 1 {
			t.Errorf("another %s: received %d, wrong %d", name, r, w)
		}
	}
	if r, w := arrive(func(b []byte) { b[22] = 65 }); r != 0 || w != 1 {
		t.Errorf("a longer time to live: received %d, wrong %d", r, w)
	}
	if r, w := arrive(func(b []byte) { b[flowHeaders+1] ^= 1 }); r != 0 || w != 0 {
		t.Errorf("another load's frame: received %d, wrong %d", r, w)
	}
	if name := f.name(1); name != "198.18.4.0:49153 > 198.19.2.1:4000 udp" {
		t.Errorf("the flow is called %s", name)
	}
}

func TestRouted(t *testing.T) {
	host := func(gateway string, addresses ...string) *Host { return &Host{Addresses: addresses, Gateway: gateway} }
	a := host("10.0.1.1", "10.0.1.2/24", "fd00::1/64")
	for _, c := range []struct {
		to   *Host
		want bool
	}{{host("", "10.0.1.3/24"), false}, {host("", "10.0.2.3/24"), true}, {host("", "10.0.2.3/24", "10.0.1.9/24"), false}} {
		if got := routed(a, c.to); got != c.want {
			t.Errorf("to %v: routed %t", c.to.Addresses, got)
		}
	}
	if routed(host("", "10.0.1.2/24"), host("", "10.0.2.2/24")) {
		t.Error("routed without a router")
	}
}

func TestARP(t *testing.T) {
	our, target := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
	mac := netns.HardwareAddr(3)
	frame := arpRequest(mac, our, target)
	if _, ok := arpAnswer(frame, our); ok {
		t.Error("a request is taken for an answer")
	}
	frame[21] = 2
	got, ok := arpAnswer(frame, our)
	if !ok || !slices.Equal(got, net.HardwareAddr(mac)) {
		t.Errorf("answer %v, %t", got, ok)
	}
	for n := range frame {
		if _, ok := arpAnswer(frame[:n], our); ok {
			t.Errorf("%d bytes are taken for an answer", n)
		}
	}
}

func TestDistributionFaults(t *testing.T) {
	_, err := Parse(line+`
[[traffic]]
kind = "flows"
from = "h1"
to = "h2"
shape = 2.0
[[traffic]]
kind = "flows"
from = "h1"
to = "h2"
distribution = "pareto"
shape = -1.0
flows = 10
count = 5
[[traffic]]
kind = "flows"
from = "h1"
to = "h2"
distribution = "uniform"
port = 70000
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
seed = 1
`, "x")
	for _, want := range []string{
		"traffic[0].shape: only", "traffic[1].shape: -1", "traffic[1].count: 5", "traffic[2].distribution", "traffic[2].port: 70000",
		`traffic[3].seed: not read by kind "ping"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing fault %q in %v", want, err)
		}
	}
}
