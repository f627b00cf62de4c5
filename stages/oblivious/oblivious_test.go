package oblivious

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

var (
	_ pipeline.Module    = (*Module)(nil)
	_ pipeline.Metered   = (*Module)(nil)
	_ pipeline.Ticker    = (*stage)(nil)
	_ pipeline.Explainer = (*stage)(nil)
	_ export.Source      = (*Module)(nil)
)

// arrival is a packet of a test: its id, length and flow.
type arrival struct {
	id     uint64
	length uint32
	flow   uint32
}

func arrivals(seed uint64, n int) []arrival {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]arrival, n)
	for i := range out {
		out[i] = arrival{r.Uint64(), 60 + r.Uint32N(1400), r.Uint32N(50) * r.Uint32N(50)}
		if i > 100 && i%10 == 0 { // comes again
			out[i] = out[i-1-int(r.Uint32N(100))]
		}
	}
	return out
}

// newBatch returns a batch of UDP packets over IPv4 as the parser leaves them,
// frames included.
func newBatch(t testing.TB) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	b := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	for range packet.BatchSize {
		addr, ok := b.Frames.AllocOne()
		if !ok {
			t.Fatal("no frame")
		}
		p := b.Append()
		p.Addr, p.Len, p.L3, p.L4 = addr, 60, 14, 34
		p.Flags, p.Proto = packet.FlagIPv4|packet.FlagL4|packet.FlagPorts, 17
	}
	return b
}

// fill makes the first packets of the batch those given.
func fill(b *packet.Batch, as []arrival) {
	b.Pkts = b.Pkts[:len(as)]
	b.Dropped = 0
	for i, a := range as {
		p := &b.Pkts[i]
		p.ID, p.WireLen, p.SrcPort, p.DstPort, p.Reason = a.id, a.length, uint16(a.flow), 53, 0
		binary.BigEndian.PutUint16(b.Mem[p.Addr+16:], uint16(a.length-14))
		binary.BigEndian.PutUint32(b.Mem[p.Addr+26:], 0x0a000000|a.flow)
		binary.BigEndian.PutUint32(b.Mem[p.Addr+30:], 0xc0a80001)
	}
}

// key is the 5-tuple of an arrival.
func (a arrival) key() oblivious.Key {
	k := oblivious.Key{Version: 4, Proto: 17, SrcPort: uint16(a.flow), DstPort: 53}
	binary.BigEndian.PutUint32(k.Src[:], 0x0a000000|a.flow)
	binary.BigEndian.PutUint32(k.Dst[:], 0xc0a80001)
	return k
}

func module(t testing.TB, c Config) *Module { return moduleOf(t, c, hash.XX) }

func moduleOf(t testing.TB, c Config, family hash.Family) *Module {
	t.Helper()
	m, err := New(c, pipeline.Env{Workers: 1, Hash: family})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// collected are the samples that a module emitted, by epoch number and instance.
type collected map[[2]int64]*oblivious.Sample

func (c collected) collect(t testing.TB, m *Module, now int64, last bool) {
	t.Helper()
	m.Collect(now, last, func(h *record.Header, body func([]byte) ([]byte, error)) {
		b, err := body(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := new(oblivious.Sample)
		if err := s.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if h.Kind != record.Oblivious || h.Span != 1<<m.config.EpochBits || h.Start%h.Span != 0 {
			t.Errorf("record %+v", h)
		}
		s.Hash = m.family // as the exporter tells in the envelope
		at := [2]int64{h.Start / h.Span, int64(h.Instance)}
		if c[at] != nil {
			t.Errorf("epoch %d, instance %d came twice", at[0], at[1])
		}
		c[at] = s
	})
}

// TestRecords: with one worker or three, the record of each epoch is the sample
// of one sampler that saw the epoch's packets, of each kind.
func TestRecords(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testRecords(t, family) })
	}
}

func testRecords(t *testing.T, family hash.Family) {
	as := arrivals(1, 20_000)
	for _, c := range []Config{
		{Kind: "nwps", Unit: "bytes"}, {Kind: "uwra", Unit: "bytes"}, {Kind: "dus", Unit: "packets"},
	} {
		for _, workers := range []int{1, 3} {
			c.Size, c.Gamma, c.EpochBits, c.Seed, c.Key, c.Prefix4, c.Prefix6, c.Flows = 200, 0.25, 24, 5, "5-tuple", 32, 128, true
			m := moduleOf(t, c, family)
			stages := make([]*stage, workers)
			for i := range stages {
				stages[i] = m.Stage(i).(*stage)
				stages[i].Tick(0)
			}
			b, got := newBatch(t), collected{}
			main, flows := c.samplers(family)
			want := map[[2]int64]*oblivious.Sampler{}
			now := int64(0)
			for i := 0; i < len(as); i += 50 {
				now += 100_000 // 2^24 ns hold 167 batches
				batch := as[i : i+50]
				at := now >> 24
				if want[[2]int64{at, 0}] == nil {
					want[[2]int64{at, 0}], want[[2]int64{at, 1}] = mustSampler(main), mustSampler(flows)
				}
				for j, a := range batch {
					if j == 7 {
						continue
					}
					key := a.key()
					want[[2]int64{at, 0}].Add(a.id, a.length, &key)
					k := packet.FlowKey(key)
					want[[2]int64{at, 1}].Add(keyID(family, &k), 1, &key)
				}
				fill(b, batch)
				b.Pkts[7].Reason = 1
				for _, s := range stages {
					s.Tick(now)
				}
				stages[i/50%workers].Process(b)
				got.collect(t, m, now, false)
			}
			for _, s := range stages {
				s.Finish(now)
			}
			got.collect(t, m, now, true)
			if len(got) != len(want) || len(got) != 6 {
				t.Fatalf("%s, %d workers: %d records, want %d", c.Kind, workers, len(got), len(want))
			}
			for at, sampler := range want {
				w := sampler.Sample()
				same, err := oblivious.Simple(got[at], w)
				if err != nil {
					t.Fatal(err)
				}
				if g := got[at]; g.Threshold != w.Threshold || len(g.Entries) != len(w.Entries) || len(same.Entries) != len(w.Entries) || g.Packets != w.Packets {
					t.Errorf("%s, %d workers, epoch %d, instance %d: %d entries up to %v of %d packets, want %d up to %v of %d",
						c.Kind, workers, at[0], at[1], len(g.Entries), g.Threshold, g.Packets, len(w.Entries), w.Threshold, w.Packets)
				}
				if at[1] == 0 && !slices.Equal(got[at].Seen, w.Seen) {
					t.Errorf("%s, %d workers, epoch %d: seen %v times, want %v", c.Kind, workers, at[0], got[at].Seen, w.Seen)
				}
				for class, total := range got[at].Classes {
					want := w.Classes[class]
					if c.Unit == "packets" {
						want.Bytes = 0
					}
					if at[1] == 0 && total != want {
						t.Errorf("%s, %d workers, epoch %d, class %d: %+v, want %+v", c.Kind, workers, at[0], class, total, want)
					}
				}
				for i, e := range got[at].Entries {
					if e != w.Entries[i] {
						t.Fatalf("%s, %d workers, epoch %d, instance %d: entry %d is %+v, want %+v", c.Kind, workers, at[0], at[1], i, e, w.Entries[i])
					}
				}
			}
			metrics := map[string]float64{}
			m.Metrics(func(x pipeline.Metric) { metrics[x.Name] = x.Value })
			if metrics["records_total"] != 6 || metrics["entries"] != 200 || metrics["missed_packets_total"] != 0 || metrics["updates_total"] < 600 {
				t.Errorf("metrics %v", metrics)
			}
		}
	}
}

// TestMissed: with nobody to collect, packets beyond two epochs are counted as
// missed, and said to be in the record behind.
func TestMissed(t *testing.T) {
	c := DefaultConfig()
	c.Size, c.EpochBits = 10, 24
	m := module(t, c)
	s := m.Stage(0).(*stage)
	b := newBatch(t)
	as := arrivals(2, 64)
	for e := range int64(5) {
		s.Tick(e << 24)
		fill(b, as)
		s.Process(b)
		if text := s.Explain(b, &b.Pkts[0]); strings.HasPrefix(text, "counted") != (e < 2) {
			t.Errorf("epoch %d: %q", e, text)
		}
	}
	got := collected{}
	got.collect(t, m, 5<<24, false)
	s.Tick(5 << 24)
	s.Finish(5 << 24)
	missed := uint64(0)
	m.Collect(5<<24, true, func(h *record.Header, _ func([]byte) ([]byte, error)) { missed += h.Missed })
	if len(got) != 2 || missed != 3*64 {
		t.Errorf("%d records, %d packets missed, want 2 and %d", len(got), missed, 3*64)
	}
}

func TestKeys(t *testing.T) {
	b := newBatch(t)
	fill(b, []arrival{{1, 100, 0x010203}})
	p := &b.Pkts[0]
	full := packet.FlowKey(arrival{1, 100, 0x010203}.key())
	for _, c := range []struct {
		key              string
		prefix4, prefix6 int
		want             packet.FlowKey
	}{
		{"5-tuple", 32, 0, full},
		{"5-tuple", 32, 128, full},
		{"src", 32, 128, packet.FlowKey{Version: 4, Src: full.Src}},
		{"dst", 32, 128, packet.FlowKey{Version: 4, Dst: full.Dst}},
		{"src-dst", 12, 128, packet.FlowKey{Version: 4, Src: [16]byte{10}, Dst: [16]byte{192, 160}}},
		{"src", 0, 128, packet.FlowKey{Version: 4}},
	} {
		k := newKeyer(&Config{Key: c.key, Prefix4: c.prefix4, Prefix6: c.prefix6}, hash.XX)
		if got := k.key(b.Data(p), p); got != c.want {
			t.Errorf("%s/%d: %v, want %v", c.key, c.prefix4, got, c.want)
		}
		if k.flowID(b.Data(p), p) != keyID(hash.XX, &c.want) {
			t.Errorf("%s/%d: the id of the packet's flow is not the one of its key", c.key, c.prefix4)
		}
	}
	p.Flags = 0
	k := newKeyer(&Config{Key: "src", Prefix4: 8, Prefix6: 8}, hash.XX)
	if got := k.key(b.Data(p), p); got != (packet.FlowKey{}) {
		t.Errorf("a packet without IP has the key %v", got)
	}
}

func TestPrefix(t *testing.T) {
	all := [16]byte{}
	for i := range all {
		all[i] = 0xff
	}
	for bits := range 129 {
		got, ones := prefix(all, bits), 0
		for i := range 128 {
			if got[i/8]>>(7-i%8)&1 == 1 {
				ones++
				if i >= bits {
					t.Fatalf("%d bits keep bit %d", bits, i)
				}
			}
		}
		if ones != bits {
			t.Errorf("%d bits keep %d", bits, ones)
		}
	}
}

func TestConfig(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(nil); err != nil {
		t.Errorf("the default: %v", err)
	}
	c = Config{Kind: "kmv", Unit: "flows", Size: 1, Gamma: 5, EpochBits: 10, Key: "vlan", Prefix4: 33, Prefix6: -1}
	err := c.Validate(nil)
	if err == nil || strings.Count(err.Error(), "\n") != 7 {
		t.Errorf("not all faults of %+v: %v", c, err)
	}
	for _, key := range []string{"kind", "unit", "size", "gamma", "epoch_bits", "key", "prefix4", "prefix6"} {
		if err != nil && !strings.Contains("\n"+err.Error(), "\n"+key+" = ") {
			t.Errorf("no fault begins with %s", key)
		}
	}
	for _, gamma := range []float64{0, -1, 1e-300, math.NaN(), math.Inf(1)} {
		c = DefaultConfig()
		if c.Gamma = gamma; c.Validate(nil) == nil {
			t.Errorf("gamma %g: no fault", gamma)
		}
	}
	c = DefaultConfig()
	c.Kind = "dus"
	if err := c.Validate(nil); err == nil {
		t.Error("dus of bytes: no fault")
	}
}

func TestProcessDoesNotAllocate(t *testing.T) {
	c := DefaultConfig()
	c.Size, c.Flows = 100, true
	s := module(t, c).Stage(0).(*stage)
	s.Tick(0)
	b := newBatch(t)
	round := uint64(0)
	if n := testing.AllocsPerRun(200, func() {
		round++
		as := [64]arrival{}
		for i := range as {
			as[i] = arrival{hash.Uint64x2(1, round, uint64(i)), 60 + uint32(i), uint32(round) + uint32(i)}
		}
		fill(b, as[:])
		s.Process(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkProcess gives the cost per packet beyond parsing, once the samples
// are warm: "none" changes the ids, as all others do, and no more.
func BenchmarkProcess(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"none", nil},
		{"nwps-bytes", func(*Config) {}},
		{"uwra-bytes", func(c *Config) { c.Kind = "uwra" }},
		{"dus-packets", func(c *Config) { c.Kind, c.Unit = "dus", "packets" }},
		{"nwps-bytes-flows", func(c *Config) { c.Flows = true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := DefaultConfig()
			var s *stage
			if c.change != nil {
				c.change(&config)
				s = module(b, config).Stage(0).(*stage)
				s.Tick(0)
			}
			batch := newBatch(b)
			fill(batch, arrivals(3, packet.BatchSize))
			change := func() {
				for i := range batch.Pkts {
					batch.Pkts[i].ID += 0x9e3779b97f4a7c15
				}
			}
			if s != nil { // two million packets, as in a second or two
				for range 2_000_000 / packet.BatchSize {
					change()
					s.Process(batch)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				change()
				if s != nil {
					s.Process(batch)
				}
			}
			ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / packet.BatchSize
			b.ReportMetric(ns, "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestLengthOfThePath: a packet counts once, in bytes too, where it is longer on
// one link than on another: tagged, with a shim, or padded.
func TestLengthOfThePath(t *testing.T) {
	as := arrivals(9, 3000)
	plain, other := collected{}, collected{}
	for _, c := range []struct {
		got  collected
		more uint32
	}{{plain, 0}, {other, 4}, {other, 22}} {
		m := module(t, func() Config {
			c := DefaultConfig()
			c.Size, c.EpochBits = 100, 24
			return c
		}())
		s := m.Stage(0)
		b := newBatch(t)
		s.(pipeline.Ticker).Tick(0)
		for i := 0; i < len(as); i += packet.BatchSize {
			fill(b, as[i:min(i+packet.BatchSize, len(as))])
			for k := range b.Pkts {
				b.Pkts[k].WireLen += c.more
			}
			s.Process(b)
			b.Pkts = b.Pkts[:packet.BatchSize]
		}
		s.(pipeline.Ticker).Finish(1)
		clear(c.got)
		c.got.collect(t, m, 1, true)
		if c.more == 0 {
			continue
		}
		a, b2 := plain[[2]int64{0, 0}], c.got[[2]int64{0, 0}]
		merged, err := oblivious.Simple(a, b2)
		if err != nil {
			t.Fatal(err)
		}
		if merged.Threshold != a.Threshold || !slices.Equal(merged.Entries, a.Entries) {
			t.Errorf("with %d bytes more on the wire the same packets give another sample: %d entries", c.more, len(merged.Entries))
		}
	}
}

// mixed are batches of what parsers make of packets, and of what they do not: of IPv4 and IPv6, fragments, others, dead ones and copies,
// some of which look like IP in flags that gather does not look at. Each has an IP header of random bytes.
func mixed(t testing.TB, r *rand.Rand, b *packet.Batch, plain int) {
	b.Pkts = b.Pkts[:1+r.IntN(packet.BatchSize)]
	for i := range b.Pkts {
		p := &b.Pkts[i]
		l3 := uint16(14 + 4*r.IntN(3))
		*p = packet.Packet{Addr: uint64(r.IntN(len(b.Mem) - 100)), ID: r.Uint64(), Len: 80, WireLen: r.Uint32(), InQueue: uint8(r.Uint32()), TTL: uint8(r.Uint32()),
			Proto: [...]uint8{6, 6, 17, 1, uint8(r.Uint32())}[r.IntN(5)], L3: l3, L4: l3 + 20, Payload: l3 + 40, Flags: packet.FlagIPv4 | packet.FlagL4, FlowHash: r.Uint32()}
		if r.IntN(100) < plain {
			continue
		}
		switch r.IntN(7) {
		case 0:
			p.Reason = packet.Reason(1 + r.IntN(200))
		case 1:
			p.Flags |= packet.FlagCopy
		case 2:
			p.Flags |= packet.FlagFragment
		case 3:
			p.Flags = packet.FlagIPv6
		case 4:
			p.Flags = packet.FlagIPv6 | packet.FlagFragment | packet.FlagL4
		case 5:
			p.Flags = packet.FlagARP | packet.FlagBroadcast
		case 6:
			p.Flags, p.Reason = packet.FlagIPv6, packet.Reason(r.IntN(2))
		}
	}
}

// TestGather: with gather the sample and its totals are those without, and those of packets that are counted one by one; and gather reads packets as Go has them.
func TestGather(t *testing.T) {
	var p packet.Packet
	for name, at := range map[string][2]uintptr{
		"Addr": {unsafe.Offsetof(p.Addr), 0}, "ID": {unsafe.Offsetof(p.ID), 8}, "WireLen": {unsafe.Offsetof(p.WireLen), 28}, "InQueue": {unsafe.Offsetof(p.InQueue), 44},
		"Reason": {unsafe.Offsetof(p.Reason), 45}, "Proto": {unsafe.Offsetof(p.Proto), 46}, "Flags": {unsafe.Offsetof(p.Flags), 48}, "L3": {unsafe.Offsetof(p.L3), 50},
		"all":               {unsafe.Sizeof(p), 64},
		"FlagCopy | FlagIP": {uintptr(packet.FlagCopy | packet.FlagIP), 0x400c}, "FlagIPv4": {uintptr(packet.FlagIPv4), 4}, "FlagIPv6": {uintptr(packet.FlagIPv6), 8},
		"FlagFragment": {uintptr(packet.FlagFragment), 0x20}, "IPv6Len": {header.EthernetLen + header.IPv6Len, 54},
	} {
		if at[0] != at[1] {
			t.Errorf("%s is %d, not %d", name, at[0], at[1])
		}
	}
	if !gathers {
		t.Skip("no gather in this build")
	}
	defer func() { gathers = true }()
	for _, unit := range []string{"bytes", "packets"} {
		for _, key := range []string{"5-tuple", "src"} {
			var got [2]*oblivious.Sample
			var want [3]oblivious.Totals
			var sums oblivious.Totals
			for way := range got {
				gathers = way == 0
				r := rand.New(rand.NewPCG(4, 6))
				c := DefaultConfig()
				c.Unit, c.Key, c.Size = unit, key, 500
				s := module(t, c).Stage(0).(*stage)
				s.Tick(0)
				b := newBatch(t)
				for i := range b.Mem {
					b.Mem[i] = byte(r.Uint32())
				}
				for round := range 300 {
					mixed(t, r, b, []int{100, 95, 50, 0}[round%4])
					s.Process(b)
					for i := range b.Pkts {
						p := &b.Pkts[i]
						if way == 0 || !counts(p) {
							continue
						}
						class := 2
						switch proto := keyProto(p); {
						case key != "5-tuple":
						case proto == header.ProtoTCP:
							class = 0
						case proto == header.ProtoUDP:
							class = 1
						}
						want[class].Packets++
						if unit == "bytes" {
							want[class].Bytes += uint64(length(b.Mem, p))
						}
						sums.Packets, sums.Bytes = sums.Packets+1, sums.Bytes+uint64(p.WireLen)
					}
				}
				got[way] = s.worker.Current().main.Sample()
			}
			if !reflect.DeepEqual(got[0], got[1]) {
				t.Errorf("%s, %s: with gather %d entries, %+v, without %d, %+v", unit, key, len(got[0].Entries), got[0].Classes, len(got[1].Entries), got[1].Classes)
			}
			if got[0].Classes != want || got[0].Packets != sums.Packets || got[0].Bytes != sums.Bytes {
				t.Errorf("%s, %s: %+v of %d packets, %d bytes, want %+v of %+v", unit, key, got[0].Classes, got[0].Packets, got[0].Bytes, want, sums)
			}
		}
	}
}
