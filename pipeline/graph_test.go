package pipeline

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// module is a stage for tests: it calls a function per batch.
type module struct {
	role    Role
	needs   packet.Needs
	process func(*packet.Batch)
}

func (m module) Role() Role              { return m.role }
func (m module) Needs() packet.Needs     { return m.needs }
func (m module) Stage(int) Stage         { return m }
func (m module) Process(b *packet.Batch) { m.process(b) }
func (m module) Explain(_ *packet.Batch, p *packet.Packet) string {
	return "saw a packet of port " + string('0'+rune(p.InPort))
}

func nothing(*packet.Batch) {}

func TestCheck(t *testing.T) {
	parse, in := module{role: RoleParse, process: nothing}, module{role: RoleIngress, process: nothing}
	forward, out := module{role: RoleForward, process: nothing}, module{role: RoleEgress, process: nothing}
	for _, tc := range []struct {
		name  string
		chain []Named
		want  []string // parts of the error, none for a good graph
	}{
		{"shortest", []Named{{"parse", parse}, {"patch", forward}}, nil},
		{"all roles", []Named{{"parse", parse}, {"lds", in}, {"l2", forward}, {"pint", out}}, nil},
		{"empty", nil, []string{"0 forwarding stages"}},
		{"no parse", []Named{{"patch", forward}}, []string{`begins with "patch"`}},
		{"no forwarding", []Named{{"parse", parse}}, []string{"0 forwarding stages"}},
		{"two forwarding", []Named{{"parse", parse}, {"patch", forward}, {"l2", forward}}, []string{"2 forwarding stages"}},
		{"twice", []Named{{"parse", parse}, {"parse", parse}, {"patch", forward}}, []string{`"parse" appears twice`}},
		{"all at once", []Named{{"pint", out}, {"lds", in}}, []string{`begins with "pint"`, `"lds" (ingress) is behind "pint" (egress)`, "0 forwarding"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Check(tc.chain)
			if len(tc.want) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, part := range tc.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not say %q", err, part)
				}
			}
		})
	}
}

func TestNeedsAreJoined(t *testing.T) {
	got := Needs([]Named{{"a", module{needs: packet.NeedID}}, {"b", module{needs: packet.NeedArrival}}})
	if got != packet.NeedID|packet.NeedArrival {
		t.Fatalf("needs %b", got)
	}
}

var testReason = packet.Register("graph_test", "the graph's test drops it")

// testGraph drops every third packet in its second stage and copies every
// packet of port 1 in its third.
func testGraph(t *testing.T) (*Graph, *packet.Batch) {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1024, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	b := packet.NewBatch(pool.NewCache(), 4*packet.BatchSize)
	drop := func(b *packet.Batch) {
		for i := range b.Pkts {
			if b.Pkts[i].ID%3 == 0 && b.Pkts[i].Reason == 0 {
				b.Drop(&b.Pkts[i], testReason)
			}
		}
	}
	double := func(b *packet.Batch) {
		old := b.Rebuild()
		for i := range old {
			p := &old[i]
			*b.Append() = *p
			if p.InPort == 1 && p.Reason == 0 {
				if !b.Copy(b.Append(), p) {
					t.Error("no frame for a copy")
				}
			}
		}
	}
	return NewGraph([]Named{
		{"parse", module{role: RoleParse, process: nothing}},
		{"drop", module{role: RolePolicy, process: drop}},
		{"double", module{role: RoleForward, process: double}},
	}, 0), b
}

// fillBatch puts 12 packets with ids 1 to 12 into the batch, the even ones on
// port 1.
func fillBatch(b *packet.Batch) {
	for id := range uint64(12) {
		addr, _ := b.Frames.AllocOne()
		p := b.Append()
		p.Addr, p.Len, p.WireLen, p.ID = addr, 60, 60, id+1
		p.InPort = uint16(id % 2)
	}
}

func release(b *packet.Batch) {
	for i := range b.Pkts {
		b.Frames.FreePacket(&b.Pkts[i])
	}
	b.Reset()
}

// TestCounters: of the ids 1 to 12 four are dropped; of the eight that live,
// four are even and are copied. Sampled and traced runs count the same.
func TestCounters(t *testing.T) {
	g, b := testGraph(t)
	const runs = 3 * sampleEvery
	for i := range runs {
		if i == runs/2 {
			g.SetTracer(NewTracer(5, nil))
		}
		fillBatch(b)
		g.Run(b)
		if len(b.Pkts) != 16 {
			t.Fatalf("%d packets left the graph, want 12 and 4 copies", len(b.Pkts))
		}
		release(b)
	}
	for i, want := range []StageCounters{
		{Name: "parse", Packets: 12, Dropped: 0, Copied: 0},
		{Name: "drop", Packets: 12, Dropped: 4, Copied: 0},
		{Name: "double", Packets: 8, Dropped: 0, Copied: 4},
	} {
		got := g.AppendCounters(nil)[i]
		if got.Name != want.Name || got.Batches != runs || got.Packets != runs*want.Packets ||
			got.Dropped != runs*want.Dropped || got.Copied != runs*want.Copied {
			t.Errorf("counters %+v, want %d times %+v", got, runs, want)
		}
		if got.SampledPackets == 0 || got.SampledPackets >= got.Packets {
			t.Errorf("%s: %d of %d packets were sampled", got.Name, got.SampledPackets, got.Packets)
		}
	}
}

// TestTracer follows the packets of port 1 through rebuilt batches.
func TestTracer(t *testing.T) {
	g, b := testGraph(t)
	tracer := NewTracer(3, func(_ *packet.Batch, p *packet.Packet) bool { return p.InPort == 1 })
	g.SetTracer(tracer)
	for range 2 {
		fillBatch(b)
		g.Run(b)
		release(b)
	}
	traces := tracer.Traces()
	if len(traces) != 3 || !tracer.Done() {
		t.Fatalf("%d traces, want 3", len(traces))
	}
	for i, wantSteps := range []int{3, 3, 2} { // ids 2, 4, 6; id 6 is dropped
		tr := traces[i]
		if tr.InPort != 1 || tr.Length != 60 || len(tr.Steps) != wantSteps {
			t.Fatalf("trace %d: %+v, want %d steps", i, tr, wantSteps)
		}
	}
	last := traces[2].Steps[1]
	if last.Stage != "drop" || !strings.Contains(last.Text, "saw a packet of port 1; dropped: graph_test") {
		t.Errorf("last step of the dropped packet: %+v", last)
	}
}

// TestRunDoesNotAllocate covers plain and sampled runs.
func TestRunDoesNotAllocate(t *testing.T) {
	g, b := testGraph(t)
	if n := testing.AllocsPerRun(4*sampleEvery, func() {
		fillBatch(b)
		g.Run(b)
		release(b)
	}); n != 0 {
		t.Fatalf("%v allocations per batch", n)
	}
}
