package sflow

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	decoder "github.com/netsampler/goflow2/v2/decoders/sflow"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/sflow"
)

var testEnv = pipeline.Env{ID: 3, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}}

// rig is a stage, a batch, and what its collector gets.
type rig struct {
	*Module
	*stage
	*packet.Batch
	got []decoder.Packet
}

func newRig(t testing.TB, id uint32, ports ...Port) *rig {
	t.Helper()
	c := DefaultConfig()
	c.Ports = ports
	env := testEnv
	env.ID = id
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 128, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	r := &rig{Module: m, stage: m.Stage(0).(*stage), Batch: packet.NewBatch(pool.NewCache(), packet.BatchSize)}
	m.SetOutput(&Output{Agent: netip.MustParseAddr("192.0.2.1"), Send: func(datagram []byte) error {
		var p decoder.Packet
		if err := decoder.DecodeMessageVersion(bytes.NewBuffer(datagram), &p); err != nil {
			t.Error(err)
		}
		r.got = append(r.got, p)
		return nil
	}})
	for range packet.BatchSize {
		addr, _ := r.Frames.AllocOne()
		p := r.Append()
		p.Addr, p.Len, p.WireLen, p.OutPort = addr+256, 100, 100, 1
	}
	return r
}

// flows are the flow samples that came.
func (r *rig) flows() (all []decoder.FlowSample) {
	for _, p := range r.got {
		for _, s := range p.Samples {
			if f, ok := s.(decoder.FlowSample); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// TestUnbiased: of batches*64 packets one in N is sampled, and the distances have the geometric distribution: their mean is N and their
// variance N(N-1). Over seeds each comparison would fail by luck with a probability below 1e-9 (six standard deviations); the seed is fixed.
func TestUnbiased(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, 1000} {
		r := newRig(t, 3, Port{"p0", n})
		total, last := 0, 0
		var count, sum, squares float64
		for total < 400*n+100_000 {
			r.Process(r.Batch)
			r.ring.Drain(func(v *sample) {
				count++
				d := float64(v.pool)
				sum += d
				squares += d * d
				last += int(v.pool)
			})
			total += len(r.Pkts)
		}
		mean := float64(total) / float64(n)
		if sd := math.Sqrt(mean * (1 - 1/float64(n))); math.Abs(count-mean) > 6*sd+1 {
			t.Errorf("one in %d: %v samples of %d packets", n, count, total)
		}
		if last > total {
			t.Errorf("the pool has %d of %d packets", last, total)
		}
		variance := squares/count - (sum/count)*(sum/count)
		want := float64(n) * float64(n-1)
		// The fourth central moment of the geometric distribution is 9 N^4 at most: the variance of a sample's variance is 8 N^4/count.
		if sd := math.Sqrt(8 * math.Pow(float64(n), 4) / count); math.Abs(variance-want) > 6*sd {
			t.Errorf("one in %d: variance %v of distances, want %v", n, variance, want)
		}
	}
}

// TestSamples: what is said of a packet, by how it leaves; copies are not sampled, nor are ports without an entry.
func TestSamples(t *testing.T) {
	r := newRig(t, 3, Port{"p0", 1}, Port{"p2", 1})
	r.Pkts = r.Pkts[:7]
	r.Pkts[1].Reason = packet.ReasonNoPort
	r.Pkts[2].Reason = packet.Consumed
	r.Pkts[3].Flags = packet.FlagCopy
	r.Pkts[4].Flags = packet.FlagMulticast
	r.Pkts[5].InPort = 1
	r.Pkts[6].InPort = 2
	copy(r.Data(&r.Pkts[0]), "0123456789")
	r.Process(r.Batch)
	r.send(time.Now())
	var got []string
	for _, f := range r.flows() {
		h := f.Records[0].Data.(decoder.SampledHeader)
		got = append(got, fmt.Sprintf("%d/%d %d->%d of %d, %d bytes", f.Header.SourceIdValue, f.Header.SampleSequenceNumber, f.Input, f.Output, f.SamplePool, h.FrameLength))
	}
	want := fmt.Sprintf("[1/1 1->2 of 1, 104 bytes 1/2 1->%d of 2, 104 bytes 1/3 1->%d of 3, 104 bytes 1/4 1->%d of 4, 104 bytes 3/1 3->2 of 1, 104 bytes]",
		uint32(sflow.DropUnknown), sflow.Internal, uint32(sflow.Several))
	if fmt.Sprint(got) != want {
		t.Errorf("\n%v, want\n%v", got, want)
	}
	if h := r.flows()[0].Records[0].Data.(decoder.SampledHeader); len(h.HeaderData) != 100 || string(h.HeaderData[:10]) != "0123456789" {
		t.Errorf("header %q", h.HeaderData)
	}
}

// TestLarge: a large packet counts as its segments.
func TestLarge(t *testing.T) {
	r := newRig(t, 3, Port{"p0", 1})
	r.Pkts = r.Pkts[:1]
	p := &r.Pkts[0]
	addr, _ := r.Frames.AllocOne()
	p.Next = r.Pool().Link(addr, 1000, 0)
	r.Pool().SetLarge(p.Next, packet.Large{Kind: 1, Size: 300})
	p.Flags, p.Payload, p.WireLen = packet.FlagL4, 54, 1054
	segments := r.Segments(p)
	r.Process(r.Batch)
	pool := uint32(0)
	n := r.ring.Drain(func(v *sample) { pool += v.pool })
	if segments < 2 || n != int(segments) || pool != uint32(segments) {
		t.Errorf("%d samples, pool %d of %d segments", n, pool, segments)
	}
}

// TestLost: samples beyond the ring are lost, counted, and reported with the next one.
func TestLost(t *testing.T) {
	r := newRig(t, 3, Port{"p0", 1})
	for range ringSize/packet.BatchSize + 1 {
		r.Process(r.Batch)
	}
	r.send(time.Now())
	r.Process(r.Batch)
	r.send(time.Now())
	f := r.flows()
	last := f[len(f)-1]
	if len(f) != ringSize+packet.BatchSize || last.Drops != packet.BatchSize || last.SamplePool != ringSize+2*packet.BatchSize || r.stage.lost.Load() != packet.BatchSize {
		t.Errorf("%d samples, last %+v", len(f), last)
	}
	for i, p := range r.got {
		if p.SequenceNumber != uint32(i+1) {
			t.Fatalf("datagram %d has the number %d", i, p.SequenceNumber)
		}
	}
}

// TestCounters: they are sent each interval, numbered by port.
func TestCounters(t *testing.T) {
	r := newRig(t, 3)
	r.output.Counters = func(f func(string, sflow.Counters)) {
		f("p1", sflow.Counters{InPackets: 5, Up: true})
		f("gone", sflow.Counters{})
		f("p2", sflow.Counters{OutPackets: 6})
	}
	start := time.Now()
	for _, at := range []time.Duration{0, time.Second, 30 * time.Second} {
		r.send(start.Add(at))
	}
	var got []string
	for _, p := range r.got {
		for _, s := range p.Samples {
			c := s.(decoder.CounterSample)
			i := c.Records[0].Data.(decoder.IfCounters)
			got = append(got, fmt.Sprintf("%d/%d in %d out %d", i.IfIndex, c.Header.SampleSequenceNumber, i.IfInUcastPkts, i.IfOutUcastPkts))
		}
	}
	if want := "[2/1 in 5 out 0 3/1 in 0 out 6 2/2 in 5 out 0 3/2 in 0 out 6]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestReload: a port whose rate stays goes on, and one that goes is sampled no more.
func TestReload(t *testing.T) {
	r := newRig(t, 3, Port{"p0", 1000})
	r.Process(r.Batch)
	skip := r.stage.ports[0].skip
	c := r.config
	c.Ports = []Port{{"p0", 1000}, {"p1", 1}}
	commit, err := r.Prepare(c, testEnv.Ports)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	r.Pkts = r.Pkts[:1]
	if r.Process(r.Batch); r.stage.ports[0].skip != skip-1 && skip > 1 {
		t.Errorf("skip %d after %d", r.stage.ports[0].skip, skip)
	}
	c.Ports = nil
	if commit, err = r.Prepare(c, testEnv.Ports); err != nil {
		t.Fatal(err)
	}
	commit()
	r.Process(r.Batch)
	if r.stage.ports[0].skip != 0 || r.stage.ports[1].skip != 0 {
		t.Errorf("%+v", r.stage.ports)
	}
	c.Collectors = []string{"192.0.2.1:6343"}
	if _, err := r.Prepare(c, testEnv.Ports); err == nil {
		t.Error("another collector was taken")
	}
}

func TestFaults(t *testing.T) {
	c := Config{Collectors: []string{"a", "192.0.2.1", "192.0.2.1:0", "[::]:1", "192.0.2.1:1"}, Agent: "x", HeaderBytes: 63, CounterInterval: 1,
		Ports: []Port{{"p9", 1}, {"p0", 0}, {"p0", 1 << 25}}}
	err := c.Validate([]string{"p0"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"collectors: 5", "collectors[0]", "collectors[1]", "collectors[2]", "collectors[3]", `agent: "x"`, "header_bytes: 63", "counter_interval: 1ns",
		`port[0].port: port "p9"`, "port[1].one_in: 0", "port[2].one_in: 33554432", `port[2].port: port "p0" is port[1] already`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "collectors[4]") {
		t.Error(err)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	r := newRig(t, 3, Port{"p0", 2})
	if n := testing.AllocsPerRun(100, func() { r.Process(r.Batch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
