package policer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var testEnv = pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}}}

func newStage(t testing.TB, c Config) (*Module, *stage) {
	t.Helper()
	m, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return m, m.Stage(0).(*stage)
}

func fill(b *packet.Batch, now int64, port uint16, lengths ...uint32) {
	b.Pkts, b.Dropped, b.Now = b.Pkts[:0], 0, now
	for _, n := range lengths {
		b.Pkts = append(b.Pkts, packet.Packet{InPort: port, WireLen: n})
	}
}

// TestTwin compares the stage with a bucket in plain arithmetic: over any time,
// no more than burst + rate * time passes, and no packet is dropped that the
// plain bucket would have had the bytes for, but for a nanosecond per batch.
func TestTwin(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		rate, burst := MinRate+r.Int64N(10e9), MinBurst+r.Int64N(100_000)
		m, s := newStage(t, Config{Ports: []Port{{"p1", rate, burst}}})
		b := &packet.Batch{}
		now := int64(1e18)
		tokens, at := float64(burst), now
		passed, dropped := uint64(0), uint64(0)
		perNs, rounding := float64(rate)/8e9, 0.0
		for range 2000 {
			now += r.Int64N(200_000)
			lengths := make([]uint32, 1+r.IntN(64))
			for i := range lengths {
				lengths[i] = 60 + uint32(r.IntN(1455))
			}
			tokens, rounding = tokens+float64(now-at)*perNs, rounding+perNs
			if tokens >= float64(burst) {
				tokens, rounding = float64(burst), perNs
			}
			at = now
			fill(b, now, 1, lengths...)
			s.Process(b)
			for i := range b.Pkts {
				n := float64(b.Pkts[i].WireLen)
				switch {
				case b.Pkts[i].Reason == 0:
					tokens -= n
					passed++
					if tokens < -perNs-1e-3 { // which a full bucket may have more
						t.Fatalf("seed %d: %v bytes too many passed", seed, -tokens)
					}
				case tokens > n+1+rounding:
					t.Fatalf("seed %d: %v bytes dropped with %v left", seed, n, tokens)
				default:
					dropped++
				}
			}
		}
		c := m.Counters()
		if len(c) != 1 || c[0].Packets != dropped || passed == 0 {
			t.Errorf("seed %d: counters %+v, %d dropped, %d passed", seed, c, dropped, passed)
		}
	}
}

func TestUnpoliced(t *testing.T) {
	_, s := newStage(t, Config{Ports: []Port{{"p1", MinRate, MinBurst}}})
	b := &packet.Batch{}
	fill(b, 0, 0, 9000, 9000, 9000)
	s.Process(b)
	if b.Dropped != 0 {
		t.Error("dropped on a port without a policer")
	}
	s.Process(&packet.Batch{})
}

// TestClockSteps: a step of the clock either way lets a burst pass at most.
func TestClockSteps(t *testing.T) {
	_, s := newStage(t, Config{Ports: []Port{{"p0", 8_000_000, 10_000}}})
	b := &packet.Batch{}
	pass := func(now int64) (bytes uint32) {
		fill(b, now, 0, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
		s.Process(b)
		for i := range b.Pkts {
			if b.Pkts[i].Reason == 0 {
				bytes += b.Pkts[i].WireLen
			}
		}
		return bytes
	}
	if got := pass(1e18); got != 10_000 {
		t.Errorf("%d bytes of a full bucket", got)
	}
	if got := pass(1e18); got != 0 {
		t.Errorf("%d bytes of an empty bucket", got)
	}
	if got := pass(2e18); got != 10_000 {
		t.Errorf("%d bytes a century on", got)
	}
	if got := pass(1e18); got != 0 {
		t.Errorf("%d bytes after a step back", got)
	}
	if got := pass(1e18 + 5e6); got < 4000 || got > 5000 {
		t.Errorf("%d bytes 5 ms later, the rate gives 5000", got)
	}
}

// TestLateWorker: a worker whose clock was read long before another's, because it
// was interrupted, takes nothing twice.
func TestLateWorker(t *testing.T) {
	_, s := newStage(t, Config{Ports: []Port{{"p0", 8_000_000, 10_000}}})
	b := &packet.Batch{}
	passed := 0
	for _, now := range []int64{1e18, 1e18 - 30e6, 1e18, 1e18 - 90e6, 1e18} {
		fill(b, now, 0, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
		s.Process(b)
		passed += len(b.Pkts) - b.Dropped
	}
	if passed != 10 {
		t.Errorf("%d packets passed, the bucket had 10", passed)
	}
}

// TestFastLinks: at rates of which a packet takes few nanoseconds, or less than
// one, no more passes than the rate, and a full packet does.
func TestFastLinks(t *testing.T) {
	for _, rate := range []int64{100e9, 400e9, MaxRate} {
		_, s := newStage(t, Config{Ports: []Port{{"p0", rate, MinBurst}}})
		b := &packet.Batch{}
		fill(b, 1e18, 0, MinBurst)
		s.Process(b)
		passed := int64(b.Pkts[0].WireLen)
		if b.Dropped != 0 {
			t.Errorf("%d bit/s: a full bucket has no room for a full packet", rate)
		}
		const span = 100_000
		for ns := int64(1); ns <= span; ns++ {
			fill(b, 1e18+ns, 0, 60, 60, 60)
			s.Process(b)
			passed += 60 * int64(len(b.Pkts)-b.Dropped)
		}
		limit := MinBurst + rate/8*span/1e9
		if passed > limit || passed < limit*6/10 {
			t.Errorf("%d bit/s: %d bytes passed in %d ns, the rate allows %d", rate, passed, span, limit)
		}
	}
}

// TestSharedBucket: several workers together get no more than one would.
func TestSharedBucket(t *testing.T) {
	env := testEnv
	env.Workers = 4
	m, err := New(Config{Ports: []Port{{"p0", 1e9, 100_000}}}, env)
	if err != nil {
		t.Fatal(err)
	}
	var passed, clock atomic.Int64
	var workers sync.WaitGroup
	for w := range env.Workers {
		s := m.Stage(w)
		workers.Go(func() {
			b := &packet.Batch{}
			for range 5000 {
				fill(b, 1e18+clock.Add(100), 0, 500, 500, 500, 500)
				s.Process(b)
				for i := range b.Pkts {
					if b.Pkts[i].Reason == 0 {
						passed.Add(int64(b.Pkts[i].WireLen))
					}
				}
			}
		})
	}
	workers.Wait()
	limit := 100_000 + clock.Load()*1e9/8e9
	if got := passed.Load(); got > limit+100 || got < limit*9/10 {
		t.Errorf("%d bytes passed, the rate allows %d", got, limit)
	}
}

func TestFaults(t *testing.T) {
	c := Config{Ports: []Port{{"p9", 1, 5}, {"p0", MinRate, 0}, {"p0", MaxRate + 1, MaxBurst + 1}}}
	err := c.Validate([]string{"p0"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`port[0].port: port "p9"`, "port[0].rate_bits: 1", "port[0].burst_bytes: 5", "port[2].port: port[1] polices", "port[2].rate_bits: ", "port[2].burst_bytes: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	m, s := newStage(t, DefaultConfig())
	if m.setConfig(c) == nil {
		t.Error("a wrong configuration was taken")
	}
	p := packet.Packet{InPort: 0}
	if got := s.Explain(nil, &p); got != "p0 is not policed" {
		t.Error(got)
	}
	if err := m.setConfig(Config{Ports: []Port{{"p0", 9000, 0}}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Explain(nil, &p); got != "p0 keeps to 9000 bit/s" {
		t.Error(got)
	}
	p.Reason = reasonPoliced
	if got := s.Explain(nil, &p); got != "p0 exceeds 9000 bit/s" {
		t.Error(got)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	_, s := newStage(t, Config{Ports: []Port{{"p0", 1e6, MinBurst}}})
	b := &packet.Batch{Pkts: make([]packet.Packet, 0, packet.BatchSize)}
	lengths := make([]uint32, packet.BatchSize)
	for i := range lengths {
		lengths[i] = 60
	}
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 1000
		fill(b, now, 0, lengths...)
		s.Process(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPolicer(b *testing.B) {
	for _, rate := range []int64{1e6, 1e12} {
		_, s := newStage(b, Config{Ports: []Port{{"p0", rate, 0}}})
		batch := &packet.Batch{Pkts: make([]packet.Packet, packet.BatchSize)}
		b.Run(map[int64]string{1e6: "exceeding", 1e12: "conforming"}[rate], func(b *testing.B) {
			for b.Loop() {
				batch.Now += 1000
				for i := range batch.Pkts {
					batch.Pkts[i].WireLen, batch.Pkts[i].Reason = 60, 0
				}
				s.Process(batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*packet.BatchSize), "ns/packet")
		})
	}
}

// TestSubinterfaces: packets of a batch that are of several ports are policed by theirs, and a VLAN subinterface without a policer shares
// that of the port beneath, where its drops count. A packet of another port in front changes nothing.
func TestSubinterfaces(t *testing.T) {
	ports := []pipeline.Port{
		{Name: "p0"}, {Name: "p1"}, {Name: "p1.5", Parent: 1, VLAN: 5}, {Name: "p1.6", Parent: 1, VLAN: 6}, {Name: "p0.5", Parent: 0, VLAN: 5},
	}
	m, err := New(Config{Ports: []Port{{"p1", 8_000_000, 10_000}, {"p1.6", 8_000_000, 2_000}}}, pipeline.Env{ID: 1, Workers: 1, Ports: ports})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Stage(0)
	b := &packet.Batch{}
	fill(b, 1e18, 0, slices.Repeat([]uint32{1000}, 64)...)
	for i := range b.Pkts {
		b.Pkts[i].InPort = []uint16{0, 4, 1, 2, 3, 2, 1, 3}[i%8]
	}
	s.Process(b)
	passed := map[uint16]int{}
	for i := range b.Pkts {
		if b.Pkts[i].Reason == 0 {
			passed[b.Pkts[i].InPort]++
		}
	}
	if passed[0] != 8 || passed[4] != 8 || passed[1]+passed[2] != 10 || passed[1] == 0 || passed[2] == 0 || passed[3] != 2 {
		t.Errorf("packets that passed, by port: %v", passed)
	}
	want := []Counters{{"p1", 22, 22_000}, {"p1.6", 14, 14_000}}
	if got := m.Counters(); !slices.Equal(got, want) || b.Dropped != 36 {
		t.Errorf("%d dropped: %+v, want %+v", b.Dropped, got, want)
	}
}
