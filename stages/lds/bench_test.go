package lds

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// BenchmarkProcess measures what the stage costs for each packet, with the paper's
// reference sketch of four rows of 17,500 cells: full batches of 64 packets, each in a
// frame of its own whose headers are in the cache, as the parser leaves them. Packets
// are of 65,536 flows, evenly, so that every cell is as likely as every other, which
// is worse for the cache than real traffic. Ids and ports are copied into the batches
// from a table.
//
// ns/packet is a difference: visits of 200 batches with the stage and without it,
// the bare loop, which does all else, take turns; of each the fastest fifth is
// averaged. It leaves out pauses of a busy machine, and nothing that recurs in most
// visits. bare-ns/packet is what was subtracted.
func BenchmarkProcess(b *testing.B) {
	for _, c := range []struct {
		name   string
		six    bool
		change func(*Config)
	}{
		{"clock", false, func(*Config) {}},
		{"bit", false, func(c *Config) { c.IntervalBit = true }},
		{"ipv6", true, func(*Config) {}},
		{"k5", false, func(c *Config) { c.Virtual = 5 }},
		{"banks", false, func(c *Config) { c.Virtual, c.Banks = 5, []float64{0.01, 0.1, 0.5, 1} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := DefaultConfig()
			config.Ports = []string{"p1"}
			c.change(&config)
			benchmarkStage(b, newBenchBatch(b, config, c.six))
		})
	}
}

// benchBatch is a full batch, and a table of what differs from one to the next.
type benchBatch struct {
	*end
	ids   []uint64
	ports []uint16
	next  int
}

func newBenchBatch(b *testing.B, c Config, six bool) *benchBatch {
	e := newEnd(b, c, NewIngress)
	const now = 1 << 30
	e.put(1, 1, now, c.IntervalBit, false)
	e.tick(now)
	first := e.batch.Pkts[0]
	if six {
		first.Flags = first.Flags&^packet.FlagIPv4 | packet.FlagIPv6
	}
	for len(e.batch.Pkts) < packet.BatchSize {
		addr, _ := e.batch.Frames.AllocOne()
		copy(e.batch.Mem[addr:][:128], e.batch.Mem[first.Addr:][:128])
		p := e.batch.Append()
		*p = first
		p.Addr = addr
	}
	e.batch.Pkts[0] = first
	t := &benchBatch{end: e}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1 << 15 {
		t.ids, t.ports = append(t.ids, r.Uint64()), append(t.ports, uint16(r.Uint32()))
	}
	return t
}

// visit passes 200 batches, through the stage or not, and returns ns per packet.
func (t *benchBatch) visit(stage bool) float64 {
	const batches = 200
	begin := time.Now()
	for range batches {
		for i := range t.batch.Pkts {
			p := &t.batch.Pkts[i]
			p.ID, p.SrcPort = t.ids[t.next], t.ports[t.next]
			t.next = (t.next + 1) & (len(t.ids) - 1)
		}
		if stage {
			t.stage.Process(t.batch)
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(batches*len(t.batch.Pkts))
}

func benchmarkStage(b *testing.B, t *benchBatch) {
	var with, bare []float64
	for b.Loop() {
		with, bare = append(with, t.visit(true)), append(bare, t.visit(false))
	}
	b.ReportMetric(fastest(with)-fastest(bare), "ns/packet")
	b.ReportMetric(fastest(bare), "bare-ns/packet")
	b.ReportMetric(0, "ns/op")
}

// fastest is the mean of the lower fifth.
func fastest(ns []float64) float64 {
	slices.Sort(ns)
	ns = ns[:max(len(ns)/5, 1)]
	sum := 0.0
	for _, x := range ns {
		sum += x
	}
	return sum / float64(len(ns))
}
