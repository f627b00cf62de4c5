package relay

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// frame is a UDP datagram in Ethernet.
func frame(srcPort, dstPort uint16) []byte {
	f := make([]byte, 60)
	f[12], f[14], f[23] = 8, 0x45, protoUDP
	copy(f[26:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(f[34:], srcPort)
	binary.BigEndian.PutUint16(f[36:], dstPort)
	return f
}

// TestQueue holds the heap against a sorted list.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q queue
	var slow []parcel
	for number := range uint64(5000) {
		if len(slow) > 0 && r.IntN(5) < 2 {
			slices.SortFunc(slow, func(a, b parcel) int {
				if a.before(&b) {
					return -1
				}
				return 1
			})
			if got := q.pop(); got.number != slow[0].number {
				t.Fatalf("packet %d came out, want %d", got.number, slow[0].number)
			}
			slow = slow[1:]
			continue
		}
		p := parcel{due: time.Duration(r.IntN(100)), number: number}
		q.push(p)
		slow = append(slow, p)
	}
	if len(q) != len(slow) {
		t.Errorf("%d are queued, want %d", len(q), len(slow))
	}
}

func testConfig() *Config {
	return &Config{Name: "r", Ports: []string{"a", "b"}, Seed: 3, Classes: []Class{
		{Ports: []int{100, 199}, Delay: 10 * time.Millisecond, Jitter: 4 * time.Millisecond, Drop: 0.1},
		{Ports: []int{150, 300}, Delay: time.Millisecond},
	}}
}

// TestLine draws delays and losses for 20,000 packets of each class. With a chance
// to fail below 1e-6 (five standard errors), the losses are a tenth, the delays even
// over their range, and neighbours independent.
func TestLine(t *testing.T) {
	const n = 20_000
	l := newLine(testConfig(), 0)
	var delays []float64
	for i := range n {
		at := time.Duration(i) * time.Second
		for _, port := range []uint16{120, 250, 50} {
			l.arrive(frame(7, port), at)
		}
		for len(l.queue) > 0 {
			p := l.queue.pop()
			switch delay := p.due - p.at; {
			case p.flow == nil:
				if delay != 0 {
					t.Fatalf("a packet of no class is delayed by %v", delay)
				}
			case p.flow.class == 0:
				if delay < 6*time.Millisecond || delay > 14*time.Millisecond {
					t.Fatalf("delay %v", delay)
				}
				delays = append(delays, delay.Seconds()*1000)
			case delay != time.Millisecond:
				t.Fatalf("delay %v without jitter", delay)
			}
			l.leave(&p, p.due+time.Microsecond)
		}
	}
	mean, lag := 0.0, 0.0
	for _, d := range delays {
		mean += d / float64(len(delays))
	}
	for i := 1; i < len(delays); i++ {
		lag += (delays[i] - mean) * (delays[i-1] - mean) / float64(len(delays))
	}
	const variance = 8 * 8 / 12.0 // ms^2, of an even distribution over 8 ms
	if math.Abs(mean-10) > 5*math.Sqrt(variance/n) || math.Abs(lag) > 5*variance/math.Sqrt(n) {
		t.Errorf("mean delay %g ms, covariance of neighbours %g ms^2", mean, lag)
	}
	if got, want := float64(l.dropped), 0.1*n; math.Abs(got-want) > 5*math.Sqrt(0.09*n) {
		t.Errorf("%g packets dropped, want about %g", got, want)
	}
	if l.received != 3*n || l.received != l.sent+l.dropped {
		t.Errorf("received %d = sent %d + dropped %d", l.received, l.sent, l.dropped)
	}
	out := truth(l.config, [2]*line{l, newLine(l.config, 1)})
	if len(out.Flows) != 2 || out.Flows[0].Flow != "10.0.0.1:7 > 10.0.0.2:120 udp" || out.Flows[0].From != "a" || out.Flows[0].Dropped != l.dropped {
		t.Errorf("%+v", out.Flows)
	}
	// Sums of times are modulo 2^64: those of 20,000 packets over hours pass that. What a flow that loses nothing waited is their difference.
	if f := out.Flows[1]; f.Sent != n || f.Departures-f.Arrivals != n*uint64(time.Millisecond+time.Microsecond) || float64(f.Sent)*f.MeanNs != float64(f.Departures-f.Arrivals) {
		t.Errorf("%+v", f)
	}
	// What is reported is what was achieved.
	if got := out.Classes[1].MeanNs; math.Abs(got-1_001_000) > 1 || out.Classes[1].Sent != n {
		t.Errorf("class 1: %+v", out.Classes[1])
	}
}

// TestShim: a frame's class is found behind a shim, of any length that it can have.
func TestShim(t *testing.T) {
	plain := frame(7, 120)
	want, _ := parseFlow(plain)
	for digest := 1; digest <= 8; digest++ {
		shim := append([]byte{0x88, 0xb5, 0x18 | byte(digest-1), 1, 0, 7}, make([]byte, digest)...)
		f := slices.Concat(plain[:12], shim, plain[12:])
		if k, ok := parseFlow(f); !ok || k != want {
			t.Errorf("a digest of %d bytes: %v, %t", digest, k, ok)
		}
		for n := range len(shim) + 14 + 20 {
			if _, ok := parseFlow(f[:n]); ok {
				t.Errorf("%d bytes of %d have a flow", n, len(f))
			}
		}
	}
}

// TestVXLAN: the flow of a packet in VXLAN is the inner one's, with a shim or without. Without an inner flow it has none: tunnels' ends send and receive no flows to measure.
func TestVXLAN(t *testing.T) {
	inner := frame(7, 120)
	want, _ := parseFlow(inner)
	shim := slices.Concat(inner[:12], []byte{0x88, 0xb5, 0x18, 1, 0, 7, 9}, inner[12:])
	outer := frame(50000, portVXLAN)[:14+20+udpHeader]
	for i, in := range [][]byte{inner, shim} {
		f := slices.Concat(outer, []byte{8, 0, 0, 0, 0, 0, 100, 0}, in)
		if k, ok := parseFlow(f); !ok || k != want {
			t.Errorf("%d: %v, %t, want %v", i, k, ok, want)
		}
		for n := len(outer); n < len(outer)+vxlanHeader+14+24; n++ {
			if k, ok := parseFlow(f[:n]); ok {
				t.Errorf("%d bytes of %d: %v", n, len(f), k)
			}
		}
	}
	other := frame(50000, portVXLAN+1)
	if k, ok := parseFlow(slices.Concat(other[:len(outer)], make([]byte, vxlanHeader), inner)); !ok || k.dstPort != portVXLAN+1 {
		t.Errorf("another port: %v, %t", k, ok)
	}
}

func TestSeeds(t *testing.T) {
	fate := func(seed uint64, direction int) (dropped uint64) {
		c := testConfig()
		c.Seed = seed
		l := newLine(c, direction)
		fates := uint64(0)
		for range 64 {
			before := l.dropped
			l.arrive(frame(7, 120), 0)
			fates = fates<<1 | (l.dropped - before)
		}
		return fates
	}
	first, again := fate(1, 0), fate(1, 0)
	if first != again || fate(1, 0) == fate(2, 0) || fate(1, 0) == fate(1, 1) {
		t.Error("losses do not hang on the seed and the direction alone")
	}
}

func TestFaults(t *testing.T) {
	c := Config{Ports: []string{"a"}, Classes: []Class{
		{Ports: []int{5, 4}, Delay: -1, Drop: 2}, {Ports: []int{1, 2}, Delay: time.Second, Jitter: 2 * time.Second},
	}}
	err := c.Validate()
	for _, want := range []string{"ports: 1 of them", "class[0]: ports: [5 4]", "delay: -1ns", "drop: 2", "class[1]: jitter: 2s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing fault %q in %v", want, err)
		}
	}
	if err := testConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestArrival(t *testing.T) {
	b := make([]byte, 32)
	binary.NativeEndian.PutUint64(b, 32)
	binary.NativeEndian.PutUint32(b[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(b[12:], unix.SCM_TIMESTAMPNS)
	binary.NativeEndian.PutUint64(b[16:], 5)
	binary.NativeEndian.PutUint64(b[24:], 7)
	if got := arrival(b); got != 5*time.Second+7 {
		t.Errorf("arrival %v", got)
	}
	if got := arrival(b[:31]); got < time.Hour {
		t.Errorf("without the kernel's time: %v", got)
	}
}

func FuzzParseFlow(f *testing.F) {
	f.Add(frame(1, 2))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, ok := parseFlow(b)
		if ok && (k.proto != protoTCP && k.proto != protoUDP || !strings.Contains(k.String(), " > ")) {
			t.Errorf("%+v", k)
		}
		l := newLine(testConfig(), 0)
		l.arrive(b, 0)
		if l.received != uint64(len(l.queue))+l.dropped {
			t.Error("a packet was lost uncounted")
		}
	})
}
