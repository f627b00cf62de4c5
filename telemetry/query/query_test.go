package query

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
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

func newTraffic(t testing.TB) *traffic {
	t.Helper()
	return newTrafficOf(t, hash.XX)
}

// newTrafficOf runs 60,000 packets through samplers and fragments of a hash family. One record got lost.
func newTrafficOf(t testing.TB, family hash.Family) *traffic {
	t.Helper()
	return newTrafficLosing(t, family, func(sw uint32, epoch uint64) loss {
		return map[bool]loss{true: lostRecord}[sw == 2 && epoch == 1]
	})
}

// loss is what becomes of a fragment's record.
type loss int

const (
	lostNothing loss = iota
	lostRecord       // it does not come
	lostPart         // the switch was not there for all of its slice
	lostPackets      // the switch had no room to count each second packet
)

// newTrafficLosing is newTrafficOf with other losses.
func newTrafficLosing(t testing.TB, family hash.Family, losses func(sw uint32, epoch uint64) loss) *traffic {
	t.Helper()
	out := &traffic{store: &store.Store{}, packets: map[Key]float64{}, bytes: map[Key]float64{}}
	r := rand.New(rand.NewPCG(3, 4))
	for epoch := range uint64(3) {
		samplers, flows, counters := map[uint32]*oblivious.Sampler{}, map[uint32]*oblivious.Sampler{}, map[uint32]*disketch.Counter{}
		for sw := uint32(1); sw <= 3; sw++ {
			samplers[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 4000, Hash: family})
			flows[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Flows, Size: 1000, Hash: family})
			f, err := disketch.NewFragment(disketch.Config{
				ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.UnivMon, Memory: 1 << 18, Epochs: epochBits, Target: 1, Hash: family,
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
		missed := map[uint32]uint64{}
		for i := range 20_000 {
			k := key(int(math.Pow(float64(testFlows), r.Float64())) - 1)
			id, length := r.Uint64(), 60+uint32(r.IntN(1400))
			out.packets[k]++
			out.bytes[k] += float64(length)
			out.total++
			out.length += float64(length)
			for _, sw := range way(k) {
				out.hops++
				samplers[sw].Add(id, length, &k)
				flows[sw].Add(Hash(family, k, 77), 1, &k)
				if i%2 == 0 && losses(sw, epoch) == lostPackets {
					missed[sw]++
					continue
				}
				counters[sw].Add(engine.FlowID(family, k), 1, false)
			}
		}
		for sw := uint32(1); sw <= 3; sw++ {
			h := record.Header{Switch: sw, Start: int64(epoch) << epochBits, Span: 1 << epochBits, Kind: record.Oblivious, Hash: family}
			add(t, out.store, h, samplers[sw].Sample().AppendBinary)
			h.Instance = 1
			add(t, out.store, h, flows[sw].Sample().AppendBinary)
			h.Kind, h.Instance = record.DiSketch, 0
			h.Missed = missed[sw]
			r := counters[sw].Record()
			switch losses(sw, epoch) {
			case lostRecord:
				continue
			case lostPart:
				h.Partial, r.Partial = true, true
			}
			add(t, out.store, h, r.AppendBinary)
		}
	}
	out.store.Sort()
	return out
}

func (n *traffic) engine() *Engine {
	return &Engine{Store: n.store, Confidence: 1 - testDelta, FlowSeed: 5, Paths: PathFunc(way)}
}

func TestVolume(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testVolume(t, family) })
	}
}

func testVolume(t *testing.T, family hash.Family) {
	n := newTrafficOf(t, family)
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
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testHeavyHittersAndCardinality(t, family) })
	}
}

func testHeavyHittersAndCardinality(t *testing.T, family hash.Family) {
	n := newTrafficOf(t, family)
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
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testFrequencyByBothSystems(t, family) })
	}
}

func testFrequencyByBothSystems(t *testing.T, family hash.Family) {
	n := newTrafficOf(t, family)
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
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testEntropy(t, family) })
	}
}

func testEntropy(t *testing.T, family hash.Family) {
	n := newTrafficOf(t, family)
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
		"delay": func() error {
			_, err := e.Between(Place{Switch: 1, Port: -1}, Place{Switch: 2, Port: -1}, nil)
			return err
		}(),
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
