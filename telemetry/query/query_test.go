package query

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// key is the key of the i-th flow.
func key(i int) Key {
	k := Key{Version: 4, Proto: 17, SrcPort: uint16(1000 + i), DstPort: 9}
	k.Src, k.Dst = [16]byte{10, 0, byte(i >> 8), byte(i)}, [16]byte{10, 1, 0, 1}
	return k
}

func TestKeys(t *testing.T) {
	for _, text := range []string{
		"10.0.0.1:1234 > 10.0.0.2:80 udp", "[fd00::1]:1 > [fd00::2]:80 tcp", "10.0.0.1 > 10.0.0.2", "10.0.0.1:0 > 10.0.0.2:0 icmp", "1.2.3.4:5 > 6.7.8.9:10 99",
	} {
		k, err := ParseKey(text)
		if err != nil || FormatKey(k) != text {
			t.Errorf("%q is read as %q, %v", text, FormatKey(k), err)
		}
	}
	for _, bad := range []string{
		"", ">", "10.0.0.1", "10.0.0.1 > ", "10.0.0.1:1 > 10.0.0.2:1", "10.0.0.1:1 > 10.0.0.2:1 frog", "10.0.0.1 > fd00::1 udp", "10.0.0.1:70000 > 1.1.1.1:1 udp", "a > b c d",
	} {
		if k, err := ParseKey(bad); err == nil || !strings.Contains(err.Error(), "write it as") {
			t.Errorf("%q is read as %q, %v", bad, FormatKey(k), err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("10.0.0.1:1234 > 10.0.0.2:80 udp")
	f.Add("[fd00::1%eth0]:1 > [::ffff:1.2.3.4]:80 tcp")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			return
		}
		if again, err := ParseKey(FormatKey(k)); err != nil || again != k {
			t.Errorf("%q is %q, which is read as %q, %v", text, FormatKey(k), FormatKey(again), err)
		}
	})
}

// TestWords holds the packing of keys equal to the pipeline's.
func TestWords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		k := packet.FlowKey{SrcPort: uint16(r.Uint32()), DstPort: uint16(r.Uint32()), Proto: uint8(r.Uint32()), Version: 4}
		n := 4
		if r.IntN(2) == 0 {
			k.Version, n = 6, 16
		}
		for i := range n {
			k.Src[i], k.Dst[i] = uint8(r.Uint32()), uint8(r.Uint32())
		}
		want, wantN := k.Words()
		got, gotN := Words(Key(k))
		if want != got || wantN != gotN {
			t.Fatalf("%v: %v, %d; the pipeline has %v, %d", k, got, gotN, want, wantN)
		}
	}
}

const (
	epochBits = 30
	testFlows = 400
	testDelta = 1e-7
)

// traffic is a network of three switches in a row, of which flows pass one, two
// or three, over a few epochs, with the truth beside it.
type traffic struct {
	store   *store.Store
	packets map[Key]float64
	bytes   map[Key]float64
	total   float64
	length  float64
	hops    float64
}

// way is which switches a flow passes: 1, 1-2 or 1-2-3.
func way(k Key) []uint32 { return []uint32{1, 2, 3}[:1+int(k.SrcPort)%3] }

func add(t testing.TB, s *store.Store, h record.Header, body func([]byte) ([]byte, error)) {
	t.Helper()
	h.Name = string(rune('a' + h.Switch))
	b, err := record.Append(nil, &h, body)
	if err != nil {
		t.Fatal(err)
	}
	s.AddBytes(b)
}

// network runs 60,000 packets through samplers and fragments.
func newTraffic(t testing.TB) *traffic {
	t.Helper()
	out := &traffic{store: &store.Store{}, packets: map[Key]float64{}, bytes: map[Key]float64{}}
	r := rand.New(rand.NewPCG(3, 4))
	for epoch := range uint64(3) {
		samplers, flows, counters := map[uint32]*oblivious.Sampler{}, map[uint32]*oblivious.Sampler{}, map[uint32]*disketch.Counter{}
		for sw := uint32(1); sw <= 3; sw++ {
			samplers[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 4000})
			flows[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Flows, Size: 1000})
			f, err := disketch.NewFragment(disketch.Config{
				ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.UnivMon, Memory: 1 << 18, Epochs: epochBits, Target: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			if counters[sw], err = f.NewCounter(); err != nil {
				t.Fatal(err)
			}
			counters[sw].Begin(f.Begin(epoch), 0)
		}
		engine := Engine{FlowSeed: 5}
		for range 20_000 {
			k := key(int(math.Pow(float64(testFlows), r.Float64())) - 1)
			id, length := r.Uint64(), 60+uint32(r.IntN(1400))
			out.packets[k]++
			out.bytes[k] += float64(length)
			out.total++
			out.length += float64(length)
			for _, sw := range way(k) {
				out.hops++
				samplers[sw].Add(id, length, &k)
				flows[sw].Add(Hash(k, 77), 1, &k)
				counters[sw].Add(engine.FlowID(k), 1, false)
			}
		}
		for sw := uint32(1); sw <= 3; sw++ {
			h := record.Header{Switch: sw, Start: int64(epoch) << epochBits, Span: 1 << epochBits, Kind: record.Oblivious}
			add(t, out.store, h, samplers[sw].Sample().AppendBinary)
			h.Instance = 1
			add(t, out.store, h, flows[sw].Sample().AppendBinary)
			h.Kind, h.Instance = record.DiSketch, 0
			if sw == 2 && epoch == 1 {
				continue // this one got lost
			}
			add(t, out.store, h, counters[sw].Record().AppendBinary)
		}
	}
	out.store.Sort()
	return out
}

func (n *traffic) engine() *Engine {
	return &Engine{Store: n.store, Confidence: 1 - testDelta, FlowSeed: 5, Paths: PathFunc(way)}
}

func TestVolume(t *testing.T) {
	n := newTraffic(t)
	v, err := n.engine().Volume(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Packets.Holds(n.total) || !v.Bytes.Holds(n.length) || float64(v.NaivePackets) != n.hops {
		t.Errorf("volume %+v; truth %g packets, %g bytes, %g over all switches", v, n.total, n.length, n.hops)
	}
	if v.Packets.High > 1.5*n.total || v.Packets.Low < n.total/2 || v.Packets.Low == v.Packets.High {
		t.Errorf("bounds %+v say nothing about %g", v.Packets, n.total)
	}
	if v.Records != 9 || v.Switches != 3 || len(v.PerSwitch) != 3 || len(v.Missing) != 0 {
		t.Errorf("basis %+v of %v", v.Basis, v.PerSwitch)
	}
	sum := 0.0
	for k, b := range n.bytes {
		if k.SrcPort%2 == 0 {
			sum += b
		}
	}
	even, err := n.engine().Volume(func(k *Key) bool { return k.SrcPort%2 == 0 })
	if err != nil || !even.Bytes.Holds(sum) {
		t.Errorf("even ports: %+v, %v, truth %g", even, err, sum)
	}
}

func TestHeavyHittersAndCardinality(t *testing.T) {
	n := newTraffic(t)
	h, err := n.engine().HeavyHitters(oblivious.Packets, 0.01, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range h.Flows {
		if !f.Holds(n.packets[f.Key]) || f.Share < 0.01 || i > 0 && f.Value > h.Flows[i-1].Value {
			t.Errorf("%s: %+v, truth %g", f.Flow, f, n.packets[f.Key])
		}
	}
	if len(h.Flows) == 0 || h.Flows[0].Key != key(0) {
		t.Errorf("the largest flow is not the first one: %+v", h.Flows)
	}
	c, err := n.engine().Cardinality()
	if err != nil || c.Flows.Value != float64(len(n.packets)) || c.Flows.Low != c.Flows.High {
		t.Errorf("%+v, %v; %d flows", c, err, len(n.packets))
	}
}

func TestFrequencyByBothSystems(t *testing.T) {
	n := newTraffic(t)
	for i := range 40 {
		k := key(i)
		f, err := n.engine().Frequency(k)
		if err != nil || f.Sample == nil || f.Sketch == nil {
			t.Fatalf("%+v, %v", f, err)
		}
		if !f.Sample.Packets.Holds(n.packets[k]) || !f.Sketch.Holds(n.packets[k]) {
			t.Errorf("%s: sample %+v, sketch %+v, truth %g", f.Flow, f.Sample.Packets, f.Sketch.Bounded, n.packets[k])
		}
		// The lost record is missed by the flows of its switch, and by no others.
		if got, want := len(f.Sketch.Absent), min(len(way(k))-1, 1); got != want {
			t.Errorf("%s: %d fragments are absent, want %d: %v", f.Flow, got, want, f.Sketch.Absent)
		}
	}
	e := n.engine()
	e.Paths = nil
	if f, err := e.Frequency(key(1)); err != nil || f.Sketch != nil || len(f.Faults) != 1 {
		t.Errorf("without paths: %+v, %v", f, err)
	}
	e.Store = &store.Store{}
	if _, err := e.Frequency(key(1)); !errors.Is(err, ErrNoRecords) {
		t.Errorf("without records: %v", err)
	}
}

func TestEntropy(t *testing.T) {
	n := newTraffic(t)
	a, err := n.engine().Entropy()
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for _, c := range n.packets {
		want -= c / n.total * math.Log2(c/n.total)
	}
	if math.Abs(a.Bits.Value-want) > 0.05*want || !a.Bits.Holds(want) {
		t.Errorf("entropy %+v, truth %g", a.Bits, want)
	}
	if a.Candidates != len(n.packets) || a.Unlocated != 0 {
		t.Errorf("%+v of %d flows", a, len(n.packets))
	}
}

func TestWindow(t *testing.T) {
	n := newTraffic(t)
	e := n.engine()
	e.Window = n.store.Last(1 << epochBits)
	v, err := e.Volume(nil)
	if err != nil || !v.Packets.Holds(20_000) || v.Records != 3 {
		t.Errorf("the last epoch: %+v, %v", v, err)
	}
	e.Window = store.Window{From: 1 << 50, To: 1 << 51}
	for name, err := range map[string]error{
		"volume":        func() error { _, err := e.Volume(nil); return err }(),
		"heavy hitters": func() error { _, err := e.HeavyHitters(oblivious.Bytes, 0.1, 0); return err }(),
		"cardinality":   func() error { _, err := e.Cardinality(); return err }(),
		"entropy":       func() error { _, err := e.Entropy(); return err }(),
		"delay":         func() error { _, err := e.Between(Place{1, -1}, Place{2, -1}, nil); return err }(),
	} {
		if !errors.Is(err, ErrNoRecords) {
			t.Errorf("%s of a window without records: %v", name, err)
		}
	}
	e.Window, e.Confidence = store.Window{}, 2
	if _, err := e.Volume(nil); err == nil {
		t.Error("a confidence of 2: no error")
	}
}

// TestBetween measures two classes of flows of different delays over a link that
// loses packets.
func TestBetween(t *testing.T) {
	const interval, flows = 1 << 30, 40
	s := &store.Store{}
	r := rand.New(rand.NewPCG(5, 6))
	delays, counts, lost := make([]float64, flows), make([]float64, flows), make([]float64, flows)
	for number := int64(1); number <= 3; number++ {
		config := lds.Config{Rows: 4, Columns: 2000, Virtual: 5, IntervalNs: interval, Seed: 1}
		out, _ := lds.NewPoint(config)
		in, _ := lds.NewPoint(config)
		other, _ := lds.NewPoint(config)
		for _, p := range []*lds.Point{out, in, other} {
			p.Begin(number)
		}
		for i := range 20_000 {
			f := r.IntN(flows)
			id, at := r.Uint64(), number*interval+int64(i)*20_000
			delay := int64(5e6) * int64(1+f%2) * int64(90+r.IntN(20)) / 100
			out.Add(Hash(key(f), 0), id, at, 100)
			if f < 4 && r.IntN(500) == 0 {
				lost[f]++
				continue
			}
			in.Add(Hash(key(f), 0), id, at+delay, 100)
			delays[f] += float64(delay)
			counts[f]++
		}
		for _, p := range []struct {
			sw       uint32
			instance uint16
			*lds.Point
		}{{1, 3, out}, {2, 0, in}, {2, 2, other}} {
			add(t, s, record.Header{Kind: record.LDS, Switch: p.sw, Instance: p.instance, Start: number * interval, Span: interval}, p.AppendBinary)
		}
	}
	s.Sort()
	e := &Engine{Store: s, Confidence: 0.999999}
	from, err1 := e.ParsePlace("b")
	to, err2 := e.ParsePlace("c:0")
	if _, err := e.ParsePlace("nobody"); err == nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	for f := range flows {
		k := key(f)
		b, err := e.Between(from, to, &k)
		if err != nil {
			t.Fatal(err)
		}
		truth := delays[f] / counts[f]
		if !b.HasDelay || math.Abs(b.Delay.Value-truth) > 0.02*truth || !b.Delay.Holds(truth) {
			t.Errorf("flow %d: delay %+v, truth %g", f, b.Delay, truth)
		}
		if !b.HasLoss || b.Lost != lost[f] || b.Packets < counts[f]+lost[f] || b.Whole != 3 || b.Bytes < 100*b.Packets || b.CountTrust < 0.8 || b.CountTrust > 1 {
			t.Errorf("flow %d: lost %g of %g, truth %g of %g", f, b.Lost, b.Packets, lost[f], counts[f]+lost[f])
		}
	}
	all, err := e.Between(from, Place{2, -1}, nil)
	if err != nil || all.Lost != lost[0]+lost[1]+lost[2]+lost[3] || all.Intervals != 3 || all.To != "c:0 in" || all.From != "b:1 out" || all.Refused == 0 {
		t.Errorf("all flows: %+v, %v", all, err)
	}
}

// TestImpossibleSum: a cell whose sum no packets can have is refused.
func TestImpossibleSum(t *testing.T) {
	const interval = 1 << 30
	config := lds.Config{Rows: 1, Columns: 1, Virtual: 1, IntervalNs: interval}
	s := &store.Store{}
	for sw := range 2 {
		p, _ := lds.NewPoint(config)
		p.Begin(7)
		p.Add(1, 2, 7*interval, 100)
		add(t, s, record.Header{Kind: record.LDS, Switch: uint32(sw + 1), Instance: uint16(1 - sw), Start: 7 * interval, Span: interval}, func(b []byte) ([]byte, error) {
			b, err := p.AppendBinary(b)
			if sw == 1 {
				binary.LittleEndian.PutUint64(b[len(b)-32:], 2*interval+1)
			}
			return b, err
		})
	}
	b, err := (&Engine{Store: s}).Between(Place{1, -1}, Place{2, -1}, nil)
	if err != nil || b.HasDelay || b.Refused != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestWeight: packets and losses of a flow that counts more are told by its weight.
func TestWeight(t *testing.T) {
	const interval, weight = 1 << 30, 100
	config := lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: interval}
	s := &store.Store{}
	for sw, sent := range []uint64{1000, 990} {
		p, _ := lds.NewPoint(config)
		p.Begin(7)
		for i := range sent {
			p.AddWeighted(Hash(key(1), 0), i, 7*interval+int64(i), 100, weight)
		}
		add(t, s, record.Header{Kind: record.LDS, Switch: uint32(sw + 1), Instance: uint16(1 - sw), Start: 7 * interval, Span: interval}, p.AppendBinary)
	}
	e, k := &Engine{Store: s, Weight: weight}, key(1)
	b, err := e.Between(Place{1, -1}, Place{2, -1}, &k)
	if err != nil || b.Packets != 1000 || b.Lost != 10 || b.Bytes != 100_000 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestRestartedPoint: a switch that restarts makes two records of an interval. They
// add up, in whatever order and however often they come, so that only what passed in
// between is missing.
func TestRestartedPoint(t *testing.T) {
	const interval = 1 << 30
	config := lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: interval}
	var pieces [2]*lds.Point
	out, _ := lds.NewPoint(config)
	out.Begin(7)
	for i := range pieces {
		pieces[i], _ = lds.NewPoint(config)
		pieces[i].Begin(7)
		pieces[i].Mark(lds.Partial)
	}
	for i := range uint64(1000) {
		f, at := key(int(i%10)), int64(7*interval+i*100_000)
		out.Add(Hash(f, 0), i, at, 100)
		if i != 500 { // of flow 0
			pieces[i/500].Add(Hash(f, 0), i, at+2000, 100)
		}
	}
	s := &store.Store{}
	add(t, s, record.Header{Kind: record.LDS, Switch: 1, Instance: 1, Start: 7 * interval, Span: interval}, out.AppendBinary)
	for _, i := range []int{0, 1, 0, 1} {
		add(t, s, record.Header{Kind: record.LDS, Switch: 2, Start: 7 * interval, Span: interval, Partial: true}, pieces[i].AppendBinary)
	}
	s.Sort()
	if c := s.Counts(); c.Records != 3 || c.Duplicates != 2 {
		t.Fatalf("%+v", c)
	}
	e := &Engine{Store: s}
	all, err := e.Between(Place{1, -1}, Place{2, -1}, nil)
	if err != nil || all.Intervals != 1 || all.Whole != 0 || all.HasLoss || all.Refused == 0 || all.Refused > 2 || all.Delay.Value != 2000 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestClocks: two switches whose clocks differ, or move, through the real records of
// both directions; the answers say by how much, and warn.
func TestClocks(t *testing.T) {
	const interval, least = 1 << 30, 200_000
	for _, x := range []struct {
		name   string
		offset [3]int64 // of the second switch's clock, by interval
		back   bool     // the way back is measured
		warns  string
	}{
		{"equal", [3]int64{}, true, ""},
		{"one way", [3]int64{}, false, ""},
		{"near", [3]int64{5000, 5000, 5000}, true, ""},
		{"a third", [3]int64{90_000, 90_000, 90_000}, true, "may differ by"},
		{"ahead", [3]int64{7e6, 7e6, 7e6}, true, "differ by 6."},
		{"behind", [3]int64{-7e6, -7e6, -7e6}, true, "differ by 6."},
		{"behind, one way", [3]int64{-7e6, -7e6, -7e6}, false, "differ by 6."},
		{"moved", [3]int64{-7e6, 7e6, 0}, true, "moved against each other"},
	} {
		s := &store.Store{}
		r := rand.New(rand.NewPCG(8, 9))
		config := lds.Config{Rows: 4, Columns: 500, Virtual: 2, IntervalNs: interval, Seed: 1}
		for number := int64(1); number <= 3; number++ {
			// Points by switch: what leaves and what arrives.
			var points [2][2]*lds.Point
			for i := range points {
				for j := range points[i] {
					points[i][j], _ = lds.NewPoint(config)
					points[i][j].Begin(number)
				}
			}
			clock := [2]int64{0, x.offset[number-1]}
			for i := range 4000 {
				from := i & 1
				id, at := r.Uint64(), number*interval+1e8+int64(i)*10_000
				points[from][0].Add(Hash(key(i%40), 0), id, at+clock[from], 100)
				points[1-from][1].Add(Hash(key(i%40), 0), id, at+least+r.Int64N(least/10)+clock[1-from], 100)
			}
			for i := range points {
				for j, p := range points[i] {
					if forth := i == j; !forth && !x.back {
						continue
					}
					add(t, s, record.Header{Kind: record.LDS, Switch: uint32(1 + i), Instance: uint16(1 - j), Start: number * interval, Span: interval}, p.AppendBinary)
				}
			}
		}
		s.Sort()
		e := &Engine{Store: s}
		b, err := e.Between(Place{1, -1}, Place{2, -1}, nil)
		if err != nil {
			t.Fatal(x.name, err)
		}
		truth := float64(x.offset[2])
		c := b.Clocks
		if c == nil || c.HasOffset != x.back || (c.Warning == "") != (x.warns == "") || !strings.Contains(c.Warning, x.warns) {
			t.Errorf("%s: %+v", x.name, c)
			continue
		}
		if x.back && x.name != "moved" && (math.Abs(c.OffsetNs.Value-truth) > least/10 || !c.OffsetNs.Holds(truth)) {
			t.Errorf("%s: offset %+v, want %g", x.name, c.OffsetNs, truth)
		}
		if !x.back && c.OffsetNs.High < truth {
			t.Errorf("%s: at most %g, truth %g", x.name, c.OffsetNs.High, truth)
		}
	}
}

func TestFilePaths(t *testing.T) {
	n := newTraffic(t)
	p, err := parsePaths([]byte(`[{"dst": "10.9.0.0/16", "switches": ["b"]}, {"src": "10.0.1.0/24", "switches": ["b", "c"]}, {"dst": "10.1.0.0/16", "switches": ["3"]}]`), n.store)
	if err != nil {
		t.Fatal(err)
	}
	other := key(1)
	other.Dst[1] = 7
	if got := p.Path(key(1)); len(got) != 1 || got[0].From != Always || len(got[0].Switches) != 1 || got[0].Switches[0] != 3 {
		t.Errorf("path %v", got)
	}
	if got := p.Path(key(256)); len(got) != 1 || len(got[0].Switches) != 2 || got[0].Switches[1] != 2 {
		t.Errorf("path %v", got)
	}
	if p.Path(other) != nil {
		t.Error("a path is known that no line has")
	}
	_, err = parsePaths([]byte(`[{"src": "10", "switches": ["x"]}, {}]`), n.store)
	for _, want := range []string{`line 1: src: "10"`, `line 1: switches: "x" sent no records`, "line 2: switches: name one"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing fault %q in %v", want, err)
		}
	}
}

// TestSelect compares sizes and shares of selected flows with the truth.
func TestSelect(t *testing.T) {
	n := newTraffic(t)
	proto, tcp, port := uint8(17), uint8(6), uint16(1003)
	prefix := func(text string) netip.Prefix {
		p, err := ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		s     Selection
		name  string
		truth func(Key) bool
	}{
		{Selection{Src: prefix("10.0.0.5/28")}, "from 10.0.0.0/28", func(k Key) bool { return k.SrcPort < 1016 }},
		{Selection{Dst: prefix("10.0.0.0/24")}, "to 10.0.0.0/24", func(Key) bool { return false }},
		{Selection{Prefix: prefix("10.1.0.1")}, "from or to 10.1.0.1/32", func(Key) bool { return true }},
		{Selection{Proto: &proto, Port: &port}, "udp, port 1003", func(k Key) bool { return k.SrcPort == 1003 }},
		{Selection{Proto: &tcp}, "tcp", func(Key) bool { return false }},
	} {
		v, err := n.engine().Select(&c.s)
		if err != nil {
			t.Fatal(err)
		}
		packets, bytes := 0.0, 0.0
		for k, x := range n.packets {
			if c.truth(k) {
				packets, bytes = packets+x, bytes+n.bytes[k]
			}
		}
		if v.Flows != c.name || !v.Packets.Holds(packets) || !v.Bytes.Holds(bytes) || v.Packets.High > 3*packets+2000 {
			t.Errorf("%s: %+v, truth %g packets, %g bytes", c.name, v, packets, bytes)
		}
		if v.Share == nil || !v.Share.Packets.Holds(packets/n.total) || !v.Share.Bytes.Holds(bytes/n.length) || v.Share.Bytes.High > 1 || v.Share.Bytes.Low < 0 {
			t.Errorf("%s: share %+v, truth %g, %g", c.name, v.Share, packets/n.total, bytes/n.length)
		}
	}
	v, err := n.engine().Select(&Selection{})
	if err != nil || v.Share != nil || v.Flows != "" || !v.Packets.Holds(n.total) {
		t.Errorf("all flows: %+v, %v", v, err)
	}
	if text := new(Selection).String(); text != "all flows" {
		t.Error(text)
	}
	other := Selection{Port: new(uint16)}
	if other.Has(&Key{}) || !other.Has(&Key{Version: 4, SrcPort: 9}) {
		t.Error("port 0 holds other than IP packets without ports")
	}
}

// TestSelectKnowsWhatKeysLack: switches that keep less than the 5-tuple cannot answer
// about the rest, and that is said; packets that are no IP say nothing of it.
func TestSelectKnowsWhatKeysLack(t *testing.T) {
	port, proto := uint16(9), uint8(17)
	p := netip.MustParsePrefix("10.0.0.0/8")
	address := [16]byte{10, 0, 0, 1}
	for _, c := range []struct {
		key    Key
		refuse []Selection
		answer []Selection
	}{
		{Key{Version: 4, Src: address}, []Selection{{Dst: p}, {Prefix: p}, {Port: &port}, {Proto: &proto}}, []Selection{{Src: p}}},
		{Key{Version: 4, Dst: address}, []Selection{{Src: p}, {Prefix: p}, {Port: &port}}, []Selection{{Dst: p}}},
		{Key{Version: 4, Src: address, Dst: address}, []Selection{{Port: &port}}, []Selection{{Src: p}, {Dst: p}, {Prefix: p}}},
		{Key{}, nil, []Selection{{Src: p}, {Port: &port}, {Proto: &proto}}},
	} {
		s := &store.Store{}
		sampler, _ := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 10})
		sampler.Add(1, 100, &c.key)
		sampler.Add(2, 100, &Key{})
		add(t, s, record.Header{Switch: 1, Span: 1 << epochBits, Kind: record.Oblivious}, sampler.Sample().AppendBinary)
		e := &Engine{Store: s}
		for _, x := range c.refuse {
			if v, err := e.Select(&x); err == nil || !strings.Contains(err.Error(), "5-tuple") {
				t.Errorf("keys %s, flows %s: %+v, %v", FormatKey(c.key), &x, v, err)
			}
		}
		for _, x := range c.answer {
			if _, err := e.Select(&x); err != nil {
				t.Errorf("keys %s, flows %s: %v", FormatKey(c.key), &x, err)
			}
		}
	}
}

func TestParseSelections(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32", "10.1.2.3/8": "10.0.0.0/8", "::ffff:10.0.0.1": "10.0.0.1/32", "fd00::1%eth0": "fd00::1/128", "fd00::1/16": "fd00::/16",
	} {
		if p, err := ParsePrefix(text); err != nil || p.String() != want {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "10", "10.0.0.0/33", "ten", "10.0.0.0/-1"} {
		if p, err := ParsePrefix(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
	for text, want := range map[string]uint8{"UDP": 17, "tcp": 6, "255": 255, "0": 0} {
		if n, err := ParseProto(text); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "256", "-1", "frog"} {
		if n, err := ParseProto(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
}

// TestHeavyHittersPromise: what the answer guarantees, and that it keeps it.
func TestHeavyHittersPromise(t *testing.T) {
	n := newTraffic(t)
	e := n.engine()
	e.Confidence = 0.99
	for _, c := range []struct {
		theta, epsilon float64
		guaranteed     bool
	}{{0.05, 0.04, true}, {0.05, 0, false}, {0.05, 1e-5, false}} {
		h, err := e.HeavyHitters(oblivious.Bytes, c.theta, c.epsilon)
		if err != nil || h.Guaranteed != c.guaranteed || h.LeastEpsilon == nil || *h.LeastEpsilon <= 1e-5 || *h.LeastEpsilon > 0.04 || h.EffectiveSize < 4000 {
			t.Fatalf("%+v: guaranteed %v, effective size %d, %v", c, h.Guaranteed, h.EffectiveSize, err)
		}
		reported := map[Key]bool{}
		for _, f := range h.Flows {
			reported[f.Key] = true
		}
		for k, x := range n.bytes {
			if c.guaranteed && (x >= c.theta*n.length && !reported[k] || x < (c.theta-c.epsilon)*n.length && reported[k]) {
				t.Errorf("%+v: %s, of %.4f, reported %v", c, FormatKey(k), x/n.length, reported[k])
			}
		}
	}
	if h, err := e.HeavyHitters(oblivious.Bytes, 1e-6, 0); err != nil || h.LeastEpsilon != nil || h.Guaranteed {
		t.Errorf("theta 1e-6: %+v, %v", h, err)
	}
	if _, err := e.HeavyHitters(oblivious.Bytes, 0.1, 0.3); err == nil {
		t.Error("epsilon above twice theta: no error")
	}
}
