package disketch

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

const parseSeed = 5

func env() pipeline.Env {
	return pipeline.Env{Name: "s7", ID: 7, Workers: 2, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}}
}

func newBatch(t testing.TB) *packet.Batch {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 2 * packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return packet.NewBatch(pool.NewCache(), 2*packet.BatchSize)
}

// key is the key of flow i, IPv4 or IPv6.
func key(i uint64) packet.FlowKey {
	k := packet.FlowKey{Version: 4, Proto: 17, SrcPort: uint16(i), DstPort: 53}
	binary.BigEndian.PutUint32(k.Src[:], uint32(0x0a000000+i))
	binary.BigEndian.PutUint32(k.Dst[:], uint32(0xc0a80000+i%17))
	if i%3 == 0 {
		k.Version = 6
		binary.BigEndian.PutUint64(k.Src[8:], i*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(k.Dst[4:], i)
	}
	return k
}

// add appends a packet as the parser leaves it: offsets, flags and flow hash.
func add(t testing.TB, b *packet.Batch, k packet.FlowKey, in, out uint16) *packet.Packet {
	addr, ok := b.Frames.AllocOne()
	if !ok {
		t.Fatal("no frame")
	}
	p := b.Append()
	p.Addr, p.Len, p.WireLen, p.L3 = addr, 60, 100, 14
	p.InPort, p.OutPort, p.Proto, p.SrcPort, p.DstPort = in, out, k.Proto, k.SrcPort, k.DstPort
	data := b.Data(p)
	if k.Version == 4 {
		p.Flags = packet.FlagIPv4 | packet.FlagPorts
		copy(data[14+12:], k.Src[:4])
		copy(data[14+16:], k.Dst[:4])
	} else {
		p.Flags = packet.FlagIPv6 | packet.FlagPorts
		copy(data[14+8:], k.Src[:])
		copy(data[14+24:], k.Dst[:])
	}
	five := (&Fragment{}).newKeyer(hash.XX)
	p.FlowHash = uint32(five.flow(&k, parseSeed))
	return p
}

func clearBatch(b *packet.Batch) {
	for i := range b.Pkts {
		b.Frames.Free(b.Pkts[i].Addr)
	}
	b.Reset()
}

// TestRecords runs two workers and a collector over traffic of random flows, and
// asks the records: each fragment's exact count of what it saw, and each flow's
// frequency under its own key, as the query finds it from the key alone.
func TestRecords(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testRecords(t, family) })
	}
}

func testRecords(t *testing.T, family hash.Family) {
	c := Config{EpochBits: 20, Seed: 9, HostPorts: []string{"p0", "p1"}, Fragments: []Fragment{
		{}, {Kind: "countmin", Unit: "bytes", Memory: 64 << 10, Target: 1e9}, {Kind: "countmin", Key: "src", Memory: 64 << 10, Target: 0.001, Candidates: -1},
		{Kind: "univmon", Key: "dst", Prefix4: 24, Prefix6: 64, Memory: 64 << 10},
	}}
	e := env()
	e.Hash = family
	m, err := New(c, e)
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	stages := []*stage{m.Stage(0).(*stage), m.Stage(1).(*stage)}
	all := disketch.Records{}
	var seen, cells, named [4]uint64
	partial := 0
	emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
		b, err := body(nil)
		if err != nil {
			t.Fatal(err)
		}
		var r disketch.Record
		if err := r.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		r.Use(family)
		if h.Kind != record.DiSketch || h.Instance != r.Fragment.Sketch || r.Fragment.Switch != 7 || h.Missed != 0 ||
			uint64(h.Start) != r.Epoch<<20+r.Subepoch*(1<<20/r.N()) || uint64(h.Span) != 1<<20/r.N() || h.Partial != r.Partial {
			t.Fatalf("header %+v of %+v", h, r)
		}
		keyer := c.Fragments[h.Instance].newKeyer(family)
		for _, x := range r.Candidates {
			k := packet.FlowKey(x.Key)
			if keyer.flow(&k, parseSeed) != x.Flow || !keyer.tuple && k.SrcPort != 0 {
				t.Fatalf("fragment %d names flow %x as %v", h.Instance, x.Flow, k)
			}
			named[h.Instance] += uint64(x.Count)
		}
		seen[h.Instance] += r.Seen
		for _, x := range r.Cells(0) {
			cells[h.Instance] += uint64(x)
		}
		if h.Instance < 3 && h.Instance > 0 {
			cells[h.Instance] -= r.Value // to be equal
		}
		if err := all.Add(&r); err != nil {
			partial++
		}
	}
	tuple := (&Fragment{}).newKeyer(family)
	r := rand.New(rand.NewPCG(1, 1))
	b := newBatch(t)
	exact := map[uint64]float64{}
	const epochs, step = 24, 1 << 13
	now, packets, next := int64(1<<20), uint64(0), [2]int64{}
	for ; now < (epochs+1)<<20; now += step {
		w := r.IntN(2)
		for i, s := range stages {
			if now >= next[i] {
				next[i] = s.Tick(now)
			}
		}
		for range 1 + r.IntN(100) {
			f := r.Uint64N(40)
			k := key(f)
			p := add(t, b, k, uint16(r.IntN(3)), uint16(r.IntN(3)))
			p.FlowHash = uint32(tuple.flow(&k, parseSeed))
			switch r.IntN(9) {
			case 0:
				b.Drop(p, packet.ReasonNoPort)
			case 1:
				p.Flags |= packet.FlagCopy
			default:
				exact[f]++
				packets++
			}
		}
		stages[w].Process(b)
		clearBatch(b)
		m.Collect(now, false, emit)
	}
	for _, s := range stages {
		s.Finish(now)
	}
	m.Collect(now, true, emit)
	for i, n := range seen {
		if n != packets {
			t.Errorf("fragment %d saw %d of %d packets", i, n, packets)
		}
	}
	if cells[1] != 0 || cells[2] != 0 {
		t.Errorf("cells of Count-Min differ from the records' sums by %v", cells)
	}
	// 40 flows fit in the tables, but the last one makes none. Of some 50 packets at a
	// time a row is offered one in nine, which counts for nine: within half, whatever the seed.
	for i, n := range []uint64{packets, 100 * packets, 0, packets} {
		if got := named[i]; i != 2 && (got < n/2 || got > 3*n/2) {
			t.Errorf("fragment %d: candidates count %d, %d passed", i, got, n)
		}
	}
	// Flows come one way; those from host to host are in their records as well. The first
	// subepochs of the workers are whole, the last ones are not.
	path := disketch.PathFunc(func(uint64) []uint64 { return []uint64{7} })
	for i, unit := range []float64{1, 100} {
		for f, n := range exact {
			k := key(f)
			keyer := c.Fragments[i].newKeyer(family)
			a := all.Frequency(disketch.Query{Sketch: uint16(i), Hash: family, From: 1, To: epochs + 1, Confidence: 0.999}, keyer.flow(&k, parseSeed), path)
			if n*unit < a.Low || n*unit > a.High || a.Value < n*unit*0.7 || a.Value > n*unit*1.3 {
				t.Errorf("fragment %d, flow %d: %+v, it has %g", i, f, a, n*unit)
			}
		}
	}
	if n := all.N(disketch.ID{Switch: 7, Sketch: 2}, epochs); n < 2 {
		t.Errorf("fragment 2 aims at almost no error with n = %d", n)
	}
	metrics := map[string]float64{}
	m.Metrics(func(x pipeline.Metric) { metrics[x.Name+x.Labels[0][1]] = x.Value })
	if metrics["cell_bytes1"] != 64<<10 || metrics["candidate_bytes1"] != 256*54 || metrics["candidate_bytes2"] != 0 || metrics["subepochs2"] < 2 || metrics["target_error0"] != 0 || metrics["records_total0"] < epochs ||
		metrics["conflicts_total0"] != 0 || metrics["missed_packets_total0"] != 0 {
		t.Errorf("metrics %v", metrics)
	}
}

// TestKeysOfPackets: the flow of a packet is that of its key, and keys that
// a prefix makes equal are one flow.
func TestKeysOfPackets(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testKeysOfPackets(t, family) })
	}
}

func testKeysOfPackets(t *testing.T, family hash.Family) {
	b := newBatch(t)
	for _, name := range keyKinds[1:] {
		for _, bits := range []int{0, 1, 24, 32} {
			for _, bits6 := range []int{0, 1, 63, 64, 65, 128} {
				f := Fragment{Key: name, Prefix4: bits, Prefix6: bits6}
				keyer := f.newKeyer(family)
				for i := range uint64(30) {
					k := key(i)
					p := add(t, b, k, 0, 1)
					got, ok := keyer.address(b.Data(p), p)
					if want := keyer.flow(&k, parseSeed); !ok || got != want {
						t.Fatalf("%s, /%d, /%d, flow %d: %x, want %x", name, bits, bits6, i, got, want)
					}
					other := k
					other.SrcPort++
					if name != "dst" && k.Version == 6 && bits6 > 0 && bits6 < 128 {
						other.Src[15] ^= 1
					}
					if keyer.flow(&other, parseSeed) != got {
						t.Fatalf("%s, /%d: what is not in the key changes the flow", name, bits6)
					}
					clearBatch(b)
				}
			}
		}
	}
}

// TestLateExporter: while no exporter collects, packets are missed and counted, and
// none is counted twice. Each record is of the window that its epoch and subepoch say, also where the epoch was counted in slices.
func TestLateExporter(t *testing.T) {
	for _, target := range []float64{1e9, 0} {
		testLateExporter(t, target)
	}
}

func testLateExporter(t *testing.T, target float64) {
	const bits = 30
	m, err := New(Config{EpochBits: bits, Fragments: []Fragment{{Target: target}}}, env())
	if err != nil {
		t.Fatal(err)
	}
	s := m.Stage(0).(*stage)
	b := newBatch(t)
	var seen, missed, sent uint64
	emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
		form, _ := body(nil)
		var r disketch.Record
		if err := r.UnmarshalBinary(form); err != nil {
			t.Fatal(err)
		}
		seen += r.Seen
		missed += h.Missed
		span := int64(1<<bits) >> r.Log
		if h.Span != span || h.Start != int64(r.Epoch)<<bits+int64(r.Subepoch)*span {
			t.Errorf("a record from %d on over %d is of subepoch %d of 2^%d of epoch %d", h.Start, h.Span, r.Subepoch, r.Log, r.Epoch)
		}
	}
	rng := rand.New(rand.NewPCG(2, 2))
	now := int64(5 << bits)
	for range 2000 {
		now += rng.Int64N(1 << (bits - 2))
		if rng.IntN(50) == 0 {
			now -= rng.Int64N(4 << bits) // the clock is set back
		}
		s.Tick(now)
		for range 1 + rng.IntN(9) {
			add(t, b, key(rng.Uint64N(9)), 0, 1)
			sent++
		}
		s.Process(b)
		clearBatch(b)
		if rng.IntN(20) == 0 {
			m.Collect(now, false, emit)
		}
	}
	m.Collect(now, false, emit)
	s.Finish(now)
	m.Collect(now, true, emit)
	if seen+missed != sent || missed == 0 {
		t.Errorf("%d counted and %d missed of %d", seen, missed, sent)
	}
}

func TestProcessDoesNotAllocate(t *testing.T) {
	m, err := New(Config{EpochBits: 20, HostPorts: []string{"p0", "p1"}, Fragments: []Fragment{{}, {Kind: "univmon", Key: "src-dst"}, {Kind: "countmin", Unit: "bytes"}}}, env())
	if err != nil {
		t.Fatal(err)
	}
	s := m.Stage(0).(*stage)
	b := newBatch(t)
	for i := range uint64(packet.BatchSize) {
		add(t, b, key(i), 0, uint16(1+i%2))
	}
	now := int64(1 << 20)
	if n := testing.AllocsPerRun(100, func() {
		now = s.Tick(now)
		s.Process(b)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestValidate(t *testing.T) {
	ports := []string{"p0"}
	ok := DefaultConfig()
	if err := ok.Validate(ports); err != nil {
		t.Error(err)
	}
	c := Config{EpochBits: 99, HostPorts: []string{"x"}, Fragments: []Fragment{{Kind: "a", Key: "b", Unit: "c", Prefix4: 40, Prefix6: -1, Hops: 99, Candidates: -2}}}
	err := c.Validate(ports)
	for _, key := range []string{"epoch_bits", "host_ports", "fragment[0].kind", "fragment[0].key", "fragment[0].unit", "fragment[0].prefix4", "fragment[0].prefix6", "fragment[0].hops", "fragment[0].candidates"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no fault of %s in %v", key, err)
		}
	}
	if err := (&Config{EpochBits: 30, Fragments: []Fragment{{Memory: 1 << 30}, {Memory: 3}}}).Validate(ports); err == nil || strings.Count(err.Error(), "memory") != 2 {
		t.Errorf("memories: %v", err)
	}
	if (&Config{EpochBits: 30}).Validate(ports) == nil {
		t.Error("no fragment")
	}
	// What a kind or a key has no use for is refused, not ignored; its default, which
	// --dump prints, is none.
	for _, c := range []struct {
		f   Fragment
		key string
	}{{Fragment{Levels: 8}, "levels"}, {Fragment{Prefix4: 24}, "prefix4"}, {Fragment{Prefix6: 64}, "prefix6"}, {Fragment{Kind: "univmon", Candidates: 1 << 62}, "candidates"}} {
		if err := (&Config{EpochBits: 30, Fragments: []Fragment{c.f}}).Validate(ports); err == nil || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%+v: %v", c.f, err)
		}
	}
	for _, f := range []Fragment{{Prefix4: 32, Prefix6: 128}, {Key: "src", Prefix4: 24}, {Kind: "univmon", Levels: 8}} {
		if err := (&Config{EpochBits: 30, Fragments: []Fragment{f}}).Validate(ports); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestExplain(t *testing.T) {
	m, err := New(Config{EpochBits: 20, Fragments: []Fragment{{}, {Key: "src"}}}, env())
	if err != nil {
		t.Fatal(err)
	}
	s := m.Stage(0).(*stage)
	s.Tick(1 << 20)
	b := newBatch(t)
	p := add(t, b, key(1), 0, 1)
	if got := s.Explain(b, p); got != "fragment 0: counted, subepoch 0 of 1; fragment 1: counted, subepoch 0 of 1" {
		t.Error(got)
	}
	p.Flags |= packet.FlagCopy
	if got := s.Explain(b, p); !strings.HasPrefix(got, "not counted") {
		t.Error(got)
	}
}

// BenchmarkProcess: ns per packet of 200,000 flows beyond the parser's flow
// hash, 128 KiB of cells, with all flows counted (n = 1); beside the bare loop, which
// gives the packets their flows and counts nothing.
func BenchmarkProcess(b *testing.B) {
	b.Run("bare", func(b *testing.B) { benchmarkStage(b, bare{}) })
	for _, f := range []Fragment{{}, {Candidates: -1}, {Kind: "countmin"}, {Kind: "countmin", Candidates: -1}, {Kind: "univmon"}, {Kind: "univmon", Candidates: -1}, {Key: "src"},
		{Kind: "conservative"}, {Kind: "sumax"}, {Kind: "tower"}, {Kind: "bloom"}, {Kind: "hyperloglog"}} {
		f = f.withDefaults()
		m, err := New(Config{EpochBits: 30, Fragments: []Fragment{f}}, env())
		if err != nil {
			b.Fatal(err)
		}
		s := m.Stage(0).(*stage)
		// The first epochs may be counted in slices, the third one is not.
		for epoch := int64(1); epoch <= 3; epoch++ {
			s.Tick(epoch << 30)
			m.Collect(epoch<<30, false, func(*record.Header, func([]byte) ([]byte, error)) {})
			if name := fmt.Sprintf("%s/%s/candidates=%d", f.Kind, f.Key, max(f.Candidates, 0)); epoch == 3 {
				b.Run(name, func(b *testing.B) { benchmarkStage(b, s) })
			} else if epoch == 1 && s.counts[0].parts > 0 {
				b.Run(name+"/slices", func(b *testing.B) { benchmarkStage(b, s) })
			}
		}
	}
}

// bare looks at packets as a stage must.
type bare struct{}

func (bare) Process(b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason != 0 || p.Flags.Has(packet.FlagCopy) {
			panic("not a packet to count")
		}
	}
}

func benchmarkStage(b *testing.B, s pipeline.Stage) {
	batch := newBatch(b)
	for i := range uint64(packet.BatchSize) {
		add(b, batch, key(i), 0, 1)
	}
	r := rand.New(rand.NewPCG(1, 1))
	hashes := make([]uint32, 1<<18)
	for i := range hashes {
		hashes[i] = uint32(r.Uint64N(200_000)) * 0x9e3779b1
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + packet.BatchSize) & (len(hashes) - 1) {
		for j := range batch.Pkts {
			batch.Pkts[j].FlowHash = hashes[i+j]
		}
		s.Process(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
}

// TestHostToHost: with n = 2, a flow between host ports is counted in both
// subepochs, one that comes from another switch or goes there in one.
func TestHostToHost(t *testing.T) {
	for _, c := range []struct {
		in, out uint16
		once    bool
		want    uint64
		edge    bool
	}{
		{0, 1, false, 2, false}, {1, 0, false, 2, false}, {0, 2, false, 1, false}, {2, 0, false, 1, false}, {2, 2, false, 1, false},
		{0, 1, true, 1, false}, {0, packet.NoPort, false, 1, false}, {0, 1, false, 2, true}, {0, 2, false, 1, true},
	} {
		config := Config{EpochBits: 21, HostPorts: []string{"p0", "p1"}, Fragments: []Fragment{{Target: 1e-6, OneSubepoch: c.once}}}
		if c.edge {
			config.HostPorts = nil
			config = *config.WithEdge([]string{"p0", "p1"})
		} else {
			config = *config.WithEdge([]string{"p2"}) // the named ones go first
		}
		m, err := New(config, env())
		if err != nil {
			t.Fatal(err)
		}
		s := m.Stage(0).(*stage)
		counted := map[int64]uint64{}
		emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
			form, _ := body(nil)
			var r disketch.Record
			if err := r.UnmarshalBinary(form); err != nil {
				t.Fatal(err)
			}
			if r.N() == 2 {
				counted[h.Start>>21] += r.Packets
			}
		}
		b := newBatch(t)
		// Two packets in each epoch, one in each half.
		for now := int64(1 << 21); now < 8<<21; now += 1 << 20 {
			s.Tick(now)
			m.Collect(now, false, emit)
			add(t, b, key(1), c.in, c.out)
			s.Process(b)
			clearBatch(b)
		}
		if len(counted) < 3 {
			t.Fatalf("n = 2 in %d epochs only", len(counted))
		}
		whole := 0
		for _, n := range counted {
			if n == c.want {
				whole++
			}
		}
		if whole < len(counted)-1 { // The last one may lack its second half.
			t.Errorf("from port %d to %d: counted %v, want %d in each", c.in, c.out, counted, c.want)
		}
	}
}

// TestPrepare: a new target takes effect at the next epoch, and nothing else can change.
func TestPrepare(t *testing.T) {
	config := func(targets ...float64) Config {
		c := Config{EpochBits: 21, HostPorts: []string{"p0"}}
		for _, x := range targets {
			c.Fragments = append(c.Fragments, Fragment{Kind: "countmin", Target: x})
		}
		return c
	}
	m, err := New(config(1e9, 0), env())
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	s := m.Stage(0).(*stage)
	b := newBatch(t)
	now, n := int64(1<<21), [2]uint64{}
	emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
		form, _ := body(nil)
		var r disketch.Record
		if err := r.UnmarshalBinary(form); err != nil {
			t.Fatal(err)
		}
		n[h.Instance] = r.N()
	}
	run := func() {
		for range 12 { // half epochs
			s.Tick(now)
			m.Collect(now, false, emit)
			add(t, b, key(1), 0, 1)
			s.Process(b)
			clearBatch(b)
			now += 1 << 20
		}
	}
	change := func(c Config) {
		t.Helper()
		commit, err := m.Prepare(c, env().Ports)
		if err != nil {
			t.Fatal(err)
		}
		commit()
		run()
	}
	if run(); n[0] != 1 {
		t.Errorf("n = %d with a target that is easily met", n[0])
	}
	if change(config(1e-6, 1e-6)); n != [2]uint64{2, 2} {
		t.Errorf("n = %v with targets that cannot be met", n)
	}
	if change(config(1e9, 1e-6)); n != [2]uint64{1, 2} {
		t.Errorf("n = %v, want 1 and 2", n)
	}
	if change(config(1e9, 0)); n[0] != 1 {
		t.Errorf("n = %v, want 1 in the first", n)
	}
	more := append(env().Ports, pipeline.Port{Name: "p3"})
	commit, err := m.Prepare(config(1e9, 0), more)
	if err != nil {
		t.Fatal(err)
	}
	if commit(); !slices.Equal(m.HostPorts(), []string{"p0"}) || len(m.ports.Load().host) != 4 {
		t.Errorf("with a port more, %v are hosts' of %d", m.HostPorts(), len(m.ports.Load().host))
	}
	add(t, b, key(1), 3, 0) // from a port without number 3 this would be out of range
	s.Process(b)
	bad := config(1, 2, 3)
	bad.EpochBits, bad.Seed, bad.HostPorts, bad.Fragments[1].Memory = 22, 5, nil, 4096
	_, err = m.Prepare(bad, env().Ports)
	for _, key := range []string{"epoch_bits", "seed", "host_ports", "their number", "fragment[1]"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no fault of %s in %v", key, err)
		}
	}
	bad = config(1, -1)
	if _, err := m.Prepare(bad, env().Ports); err == nil {
		t.Error("a target below 0 was taken")
	}
}

// flow is that of a key. parseSeed is the seed of [stages.parse].
func (k *Keyer) flow(key *packet.FlowKey, parseSeed uint64) uint64 {
	if k.tuple {
		w, n := key.Words()
		if n == 2 {
			return uint64(uint32(k.family.Uint64x2(parseSeed, w[0], w[1])))
		}
		return uint64(uint32(k.family.Uint64x5(parseSeed, w[0], w[1], w[2], w[3], w[4])))
	}
	mask := &k.mask6
	if key.Version == 4 {
		mask = &k.mask4
	}
	return k.addresses(mask, uint64(key.Version),
		binary.BigEndian.Uint64(key.Src[:8]), binary.BigEndian.Uint64(key.Src[8:]),
		binary.BigEndian.Uint64(key.Dst[:8]), binary.BigEndian.Uint64(key.Dst[8:]))
}
