package patch

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

func TestValidate(t *testing.T) {
	ports := []string{"p0", "p1", "p2", "p3"}
	for _, tt := range []struct {
		name  string
		pairs [][2]string
		want  []string // one line per fault
	}{
		{"none", nil, nil},
		{"two pairs", [][2]string{{"p0", "p1"}, {"p3", "p2"}}, nil},
		{"one port left over", [][2]string{{"p0", "p3"}}, nil},
		{"undefined", [][2]string{{"p0", "p1"}, {"x", "p2"}}, []string{
			`pairs[1]: port "x" is not defined: define [[port]] name = "x" or correct the name`}},
		{"itself", [][2]string{{"p0", "p0"}}, []string{
			`pairs[0]: port "p0" is paired with itself: name two ports`}},
		{"twice", [][2]string{{"p0", "p1"}, {"p1", "p2"}}, []string{
			`pairs[1]: port "p1" is already in pairs[0]: a port is in one pair at most, use l2 to join more than two`}},
		{"all at once", [][2]string{{"x", "x"}, {"p1", "p1"}, {"p2", "p1"}}, []string{
			`pairs[0]: port "x" is not defined: define [[port]] name = "x" or correct the name`,
			`pairs[0]: port "x" is not defined: define [[port]] name = "x" or correct the name`,
			`pairs[1]: port "p1" is paired with itself: name two ports`,
			`pairs[2]: port "p1" is already in pairs[1]: a port is in one pair at most, use l2 to join more than two`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Config{Pairs: tt.pairs}
			err := c.Validate(ports)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if want := strings.Join(tt.want, "\n"); got != want {
				t.Errorf("faults\n%s\nwant\n%s", got, want)
			}
			if _, newErr := New(c, env(ports...)); (newErr == nil) != (err == nil) {
				t.Errorf("New says %v, Validate %v", newErr, err)
			}
		})
	}
}

// TestProcess sends packets from random ports and compares with the pairs.
func TestProcess(t *testing.T) {
	names := []string{"p0", "p1", "p2", "p3", "p4"}
	b := newBatch(t)
	g := newStage(t, [][2]string{{"p0", "p3"}, {"p2", "p1"}}, names...)
	want := []uint16{3, 2, 1, 0, packet.NoPort}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		b.Reset()
		dropped := 0
		for range packet.BatchSize {
			p := b.Append()
			p.InPort = uint16(rng.IntN(len(names)))
			if rng.IntN(8) == 0 {
				b.Drop(p, packet.ReasonNoPort)
			}
			if p.Reason != 0 || want[p.InPort] == packet.NoPort {
				dropped++
			}
		}
		g.Process(b)
		if b.Dropped != dropped {
			t.Fatalf("%d packets dropped, want %d", b.Dropped, dropped)
		}
		for i := range b.Pkts {
			p := &b.Pkts[i]
			switch {
			case p.Reason == packet.ReasonNoPort:
				if p.OutPort != packet.NoPort {
					t.Fatalf("a packet that was dropped before got port %d", p.OutPort)
				}
			case p.OutPort != want[p.InPort]:
				t.Fatalf("from port %d to %d, want %d", p.InPort, p.OutPort, want[p.InPort])
			case (p.Reason == reasonUnpatched) != (p.OutPort == packet.NoPort):
				t.Fatalf("from port %d to %d with reason %q", p.InPort, p.OutPort, p.Reason)
			}
		}
	}
}

func TestProcessDoesNotAllocate(t *testing.T) {
	b := newBatch(t)
	s := newStage(t, [][2]string{{"p0", "p1"}}, "p0", "p1", "p2")
	if n := testing.AllocsPerRun(100, func() {
		b.Reset()
		for i := range packet.BatchSize {
			b.Append().InPort = uint16(i % 3)
		}
		s.Process(b)
	}); n != 0 {
		t.Fatalf("%v allocations per batch", n)
	}
}

func TestExplain(t *testing.T) {
	b := newBatch(t)
	s := newStage(t, [][2]string{{"p0", "p2"}}, "p0", "p1", "p2")
	b.Append().InPort = 2
	b.Append().InPort = 1
	s.Process(b)
	for i, want := range []string{"p2 is patched to p0", "p1 is in no pair"} {
		if got := s.Explain(b, &b.Pkts[i]); got != want {
			t.Errorf("explained as %q, want %q", got, want)
		}
	}
}

func BenchmarkProcess(b *testing.B) {
	batch := newBatch(b)
	s := newStage(b, [][2]string{{"p0", "p1"}}, "p0", "p1")
	for i := range packet.BatchSize {
		batch.Append().InPort = uint16(i % 2)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Process(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
}

func env(ports ...string) pipeline.Env {
	e := pipeline.Env{Name: "s1", Workers: 1}
	for _, p := range ports {
		e.Ports = append(e.Ports, pipeline.Port{Name: p, MaxFrame: 1514})
	}
	return e
}

func newStage(t testing.TB, pairs [][2]string, ports ...string) *stage {
	t.Helper()
	m, err := New(Config{Pairs: pairs}, env(ports...))
	if err != nil {
		t.Fatal(err)
	}
	if m.Role() != pipeline.RoleForward || m.Needs() != 0 {
		t.Fatalf("role %v, needs %v", m.Role(), m.Needs())
	}
	return m.Stage(0).(*stage)
}

func newBatch(t testing.TB) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return packet.NewBatch(pool.NewCache(), packet.BatchSize)
}

// TestPrepare: packets go by the new pairs from the next batch on; wrong ones
// change nothing.
func TestPrepare(t *testing.T) {
	m, err := New(Config{Pairs: [][2]string{{"p0", "p1"}}}, env("p0", "p1", "p2"))
	if err != nil {
		t.Fatal(err)
	}
	s, b := m.Stage(0), newBatch(t)
	out := func() uint16 {
		b.Reset()
		b.Append()
		s.Process(b)
		return b.Pkts[0].OutPort
	}
	if _, err := m.Prepare(Config{Pairs: [][2]string{{"p0", "p9"}}}, env("p0", "p1", "p2").Ports); err == nil || out() != 1 {
		t.Errorf("a wrong pair: %v, out of port %d", err, out())
	}
	commit, err := m.Prepare(Config{Pairs: [][2]string{{"p2", "p0"}}}, env("p0", "p1", "p2").Ports)
	if err != nil || out() != 1 {
		t.Fatalf("before the change: %v, out of port %d", err, out())
	}
	if commit(); out() != 2 {
		t.Errorf("out of port %d, want 2", out())
	}
}
