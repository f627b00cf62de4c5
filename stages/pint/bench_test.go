package pint

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// paperPlan is the plan of section 6.4: three queries in 16 bits, with the
// paper's own encoding of paths.
func paperPlan(t testing.TB) string {
	return savePlan(t, pintplan.Config{ID: 1, Seed: 1, Bits: 16, Queries: []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Hybrid(10)}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 15. / 16, SpaceBytes: 500,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 1000, Max: 100_000_000}},
		{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: 1. / 16,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}},
	}})
}

// patchStage is the least that a forwarding stage does.
type patchStage struct{ peer []uint16 }

func (s *patchStage) Process(b *packet.Batch) {
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason == 0 {
			p.OutPort = s.peer[p.InPort]
		}
	}
}

// BenchmarkTransit is the cost per packet of a switch in the middle, beside
// that of the switch without the stage: "patch" is parse and patch, "patch,id"
// the same with the packet id, which all telemetry shares.
func BenchmarkTransit(b *testing.B) {
	plan := paperPlan(b)
	for _, c := range []struct {
		name string
		run  func(*Config) (pintOn bool, needs packet.Needs)
	}{
		{"patch", func(*Config) (bool, packet.Needs) { return false, 0 }},
		{"patch,id", func(*Config) (bool, packet.Needs) { return false, packet.NeedID | packet.NeedArrival }},
		{"patch,id,pint,paper", func(c *Config) (bool, packet.Needs) { c.Plan = plan; return true, 0 }},
		{"patch,id,pint,default", func(c *Config) (bool, packet.Needs) { return true, 0 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := DefaultConfig()
			on, needs := c.run(&config)
			benchmarkTransit(b, config, on, needs)
		})
	}
}

func benchmarkTransit(b *testing.B, config Config, on bool, needs packet.Needs) {
	const (
		frames = 1024
		hopAt  = header.EthernetLen + 1 // in a frame with a shim
	)
	env := pipeline.Env{ID: 437, Workers: 1, Ports: []pipeline.Port{{Name: "p0", MaxFrame: 2000}, {Name: "p1", MaxFrame: 2000}}}
	m, err := New(config, env)
	if err != nil {
		b.Fatal(err)
	}
	env.Needs = needs
	if on {
		env.Needs = m.Needs()
	}
	p, err := parse.New(parse.DefaultConfig(), env)
	if err != nil {
		b.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames, FrameSize: 2048})
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	batch := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	batch.Depth = []uint32{0, 0}
	// The source of another switch has made the frames.
	config.Switches = []uint64{1, 2, 437}
	source := newChain(b, 2, config, largeFrame)
	r := rand.New(rand.NewPCG(4, 4))
	var addrs [frames]uint64
	var lens [frames]uint32
	batch.Frames.Alloc(addrs[:])
	for i := range addrs {
		f := source.at(0, [][]byte{ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(r.IntN(60000), 80, r.Uint32(), random(r, 10))))}, func() int64 { return 1000 })[0]
		lens[i] = uint32(copy(batch.Mem[addrs[i]+256:], f))
	}
	parser, patch, pint := p.Stage(0), &patchStage{[]uint16{1, 0}}, m.Stage(0)
	b.ReportAllocs()
	i := 0
	now := int64(1e9)
	for b.Loop() {
		batch.Reset()
		now += 10_000
		batch.Now = now
		for range packet.BatchSize {
			q := batch.Append()
			q.Addr, q.Len, q.WireLen, q.Arrival = addrs[i]+256, lens[i], lens[i], now-int64(i)
			batch.Mem[q.Addr+hopAt] = uint8(2 + i&3) // else hops would soon exceed what is encoded
			i = (i + 1) & (frames - 1)
		}
		parser.Process(batch)
		patch.Process(batch)
		if on {
			pint.Process(batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
	b.ReportMetric(0, "ns/op")
}
