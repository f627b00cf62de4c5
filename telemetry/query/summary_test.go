package query

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// sketchOnly is a network of which there are fragments' records and nothing else, with the
// exact counts of its flows.
func sketchOnly(t *testing.T, kind disketch.Kind, candidates int) (*Engine, map[Key]float64) {
	t.Helper()
	e := &Engine{Store: &store.Store{}, FlowSeed: 5, Paths: PathFunc(way), Confidence: 0.99}
	exact := map[Key]float64{}
	r := rand.New(rand.NewPCG(11, uint64(kind)))
	z := rand.NewZipf(r, 1.3, 1, 9999)
	for epoch := range uint64(4) {
		counters := map[uint32]*disketch.Counter{}
		for sw := uint32(1); sw <= 3; sw++ {
			f, err := disketch.NewFragment(disketch.Config{
				ID: disketch.ID{Switch: uint64(sw)}, Kind: kind, Memory: 1 << 19, Epochs: epochBits, Candidates: candidates,
			})
			if err != nil {
				t.Fatal(err)
			}
			counters[sw], _ = f.NewCounter()
			counters[sw].Begin(f.Begin(epoch), 0)
		}
		for range 40_000 {
			k := key(int(z.Uint64()))
			exact[k]++
			for _, sw := range way(k) {
				counters[sw].AddBatch([]uint64{e.FlowID(hash.XX, k)}, []int64{1}, false)
				for _, a := range counters[sw].Admitted() {
					*a.Key = disketch.Key(k)
				}
			}
		}
		for sw, c := range counters {
			add(t, e.Store, record.Header{Switch: sw, Start: int64(epoch) << epochBits, Span: 1 << epochBits, Kind: record.DiSketch}, c.Record().AppendBinary)
		}
	}
	e.Store.Sort()
	return e, exact
}

// TestHeavyHittersOfTheSketch: fragments alone name the heavy flows, say how large
// they are, and of what volume, as far as they can.
func TestHeavyHittersOfTheSketch(t *testing.T) {
	const theta, total = 0.002, 4 * 40_000.0
	for _, kind := range []disketch.Kind{disketch.UnivMon, disketch.CountSketch} {
		e, exact := sketchOnly(t, kind, 256)
		h, err := e.SketchHeavyHitters(theta, 0)
		if kind == disketch.CountSketch {
			if err == nil || !strings.Contains(err.Error(), "number of packets") {
				t.Errorf("a share of a volume that nobody knows: %v", err)
			}
			h, err = e.SketchHeavyHitters(0, theta*total)
		}
		if err != nil {
			t.Fatal(err)
		}
		if kind == disketch.UnivMon && (!h.Volume.Holds(total) || h.Volume.High > 2*total) {
			t.Errorf("volume %+v, it is %g", h.Volume, total)
		}
		truly, right, outside := 0, 0, 0
		for _, n := range exact {
			if n >= theta*total {
				truly++
			}
		}
		for i, f := range h.Flows {
			if n := exact[f.Key]; n >= theta*total {
				right++
			} else if n == 0 {
				t.Errorf("flow %s is made up", f.Flow)
			}
			if !f.Holds(exact[f.Key]) {
				outside++
			}
			if i > 0 && f.Value > h.Flows[i-1].Value {
				t.Errorf("flow %d is out of order", i)
			}
		}
		// Bounds of 99 % are by Chebyshev: of these 60 flows some 0.6 fall outside at most, and 6 by
		// a chance below 1e-4.
		if f1 := 2 * float64(right) / float64(truly+len(h.Flows)); f1 < 0.9 || truly < 30 || outside > 6 || h.By != BySketch {
			t.Errorf("%v: F1 %.3f, %d heavy flows, %d reported, %d outside their bounds", kind, f1, truly, len(h.Flows), outside)
		}
	}
	e, _ := sketchOnly(t, disketch.CountMin, 0)
	if _, err := e.SketchHeavyHitters(theta, 0); !errors.Is(err, ErrNoRecords) {
		t.Errorf("without candidates: %v", err)
	}
	e, _ = sketchOnly(t, disketch.CountMin, 8)
	e.Paths = nil
	if _, err := e.SketchHeavyHitters(0, 100); err == nil || !strings.Contains(err.Error(), "path of none") {
		t.Errorf("without paths: %v", err)
	}
}

// TestEntropyOfTheSketch: UnivMon's own candidates suffice, and the bounds say how well.
func TestEntropyOfTheSketch(t *testing.T) {
	e, exact := sketchOnly(t, disketch.UnivMon, 256)
	a, err := e.Entropy()
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for _, n := range exact {
		want -= n / 160_000 * math.Log2(n/160_000)
	}
	if !a.Bits.Holds(want) || math.Abs(a.Bits.Value/want-1) > 0.1 {
		t.Errorf("entropy %+v, it is %g", a.Bits, want)
	}
	if n := float64(len(exact)); !a.Flows.Holds(n) || math.Abs(a.Flows.Value/n-1) > 0.3 {
		t.Errorf("%+v flows, there are %g", a.Flows, n)
	}
	if a.TotalSample != nil || a.Candidates < 1000 || a.Unlocated != 0 {
		t.Errorf("%+v", a)
	}
}

// TestEntropyOfLosses: bounds hold the truth whatever is in no estimate, and the answer says how much that may be; without losses it says
// nothing of it.
func TestEntropyOfLosses(t *testing.T) {
	everywhere := func(lost loss, epochs uint64) func(sw uint32, epoch uint64) loss {
		return func(_ uint32, epoch uint64) loss { return map[bool]loss{true: lost}[epoch < epochs] }
	}
	for _, c := range []struct {
		name    string
		losses  func(sw uint32, epoch uint64) loss
		unknown int  // flows whose ports are multiples of it have no path; 0: none
		samples bool // there are samples, which know the volume
		share   float64
	}{
		{"nothing", everywhere(lostNothing, 3), 0, true, 0},
		{"an epoch of one switch", func(sw uint32, epoch uint64) loss { return map[bool]loss{true: lostRecord}[sw == 1 && epoch == 1] }, 0, true, 1. / 9},
		{"an epoch", everywhere(lostRecord, 1), 0, true, 1. / 3},
		{"two epochs", everywhere(lostRecord, 2), 0, true, 2. / 3},
		{"parts of an epoch", everywhere(lostPart, 1), 0, true, 1. / 3},
		{"parts of two epochs", everywhere(lostPart, 2), 0, true, 2. / 3},
		{"packets", everywhere(lostPackets, 3), 0, true, 1. / 2},
		{"half of the paths", everywhere(lostNothing, 3), 2, true, 1. / 2},
		{"parts of an epoch, without samples", everywhere(lostPart, 1), 0, false, 1. / 3},
		{"parts of two epochs, without samples", everywhere(lostPart, 2), 0, false, 2. / 3},
		{"packets, without samples", everywhere(lostPackets, 3), 0, false, 1. / 2},
		{"half of the paths, without samples", everywhere(lostNothing, 3), 2, false, 1. / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			testEntropyOfLosses(t, newTrafficLosing(t, hash.XX, c.losses), c.unknown, c.samples, c.share)
		})
	}
}

// testEntropyOfLosses asks about traffic of which about a share is in no estimate.
func testEntropyOfLosses(t *testing.T, n *traffic, unknown int, samples bool, share float64) {
	e := n.engine()
	e.Confidence = 0.95
	if unknown > 0 {
		e.Paths = PathFunc(func(k Key) []uint32 {
			if int(k.SrcPort)%unknown == 0 {
				return nil
			}
			return way(k)
		})
	}
	if !samples { // but for those of flows, which name them
		n.store.Samples = slices.DeleteFunc(n.store.Samples, func(s *store.Sample) bool { return s.Unit != oblivious.Flows })
	}
	a, err := e.Entropy()
	if err != nil {
		t.Fatal(err)
	}
	bits, f2 := 0.0, 0.0
	for _, v := range n.packets {
		bits -= v / n.total * math.Log2(v/n.total)
		f2 += v * v
	}
	t.Logf("%+v, it is %.2f; flows %+v, F2 %+v; not counted %+v", a.Bits, bits, a.Flows, a.F2, a.Uncounted)
	if !a.Bits.Holds(bits) || !a.Bits.Holds(a.Bits.Value) || !a.Flows.Holds(float64(len(n.packets))) || !a.F2.Holds(f2) {
		t.Errorf("entropy %+v, it is %g; flows %+v, there are %d; F2 %+v, it is %g", a.Bits, bits, a.Flows, len(n.packets), a.F2, f2)
	}
	if (a.TotalSample != nil) != samples {
		t.Errorf("the volume by samples is %+v", a.TotalSample)
	}
	if share == 0 {
		if a.Uncounted != nil {
			t.Errorf("%+v of nothing are not counted", a.Uncounted)
		}
	} else if a.Uncounted == nil || a.Uncounted.High < share*n.total || samples && (!a.Uncounted.Holds(share*n.total) || a.Uncounted.High > (share+0.2)*n.total) {
		t.Errorf("not counted: %+v, it is %g", a.Uncounted, share*n.total)
	}
}

// TestTarget: one target suits all switches, and is what the records' own search says.
func TestTarget(t *testing.T) {
	e, _ := sketchOnly(t, disketch.CountSketch, 256)
	a, err := e.Target(0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Epochs != 4 || len(a.Fragments) != 3 || a.Paths < 200 || a.Paths > targetPaths {
		t.Errorf("%+v", a)
	}
	for _, f := range a.Fragments {
		if f.Subepochs != 1 || f.Error <= 0 {
			t.Errorf("%+v", f)
		}
	}
	// Between an error that one packet makes and that of an undivided epoch.
	if a.Rho < 0.01 || a.Rho > 2*a.Fragments[0].Error {
		t.Errorf("target %g; the fragments' errors are %+v", a.Rho, a.Fragments)
	}
	if _, err := e.Target(3); !errors.Is(err, ErrNoRecords) {
		t.Errorf("a sketch that is not there: %v", err)
	}
	e.Paths = nil
	if _, err := e.Target(0); err == nil || !strings.Contains(err.Error(), "path of none") {
		t.Errorf("without paths: %v", err)
	}
}

// TestOddEpochs: records of epochs of another length, from before a change of the
// configuration, or of a clock that was far off, do not enter an answer with a wrong
// meaning, nor keep it for ever.
func TestOddEpochs(t *testing.T) {
	for _, c := range []struct {
		name    string
		epochs  disketch.Epochs
		epoch   uint64
		records int
	}{
		{"another length", disketch.MinEpochs, 3<<(epochBits-disketch.MinEpochs) - 1, 4 * 3},
		{"far-off clock", epochBits, 1 << 30, 4*3 + 1},
	} {
		if testing.Short() && c.name == "far-off clock" {
			continue
		}
		t.Run(c.name, func(t *testing.T) { testOddEpoch(t, c.epochs, c.epoch, c.records) })
	}
}

func testOddEpoch(t *testing.T, epochs disketch.Epochs, epoch uint64, records int) {
	e, exact := sketchOnly(t, disketch.UnivMon, 128)
	f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: 1}, Kind: disketch.UnivMon, Memory: 1 << 19, Epochs: epochs})
	if err != nil {
		t.Fatal(err)
	}
	odd, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	odd.Begin(f.Begin(epoch), 0)
	flow := key(0)
	odd.Add(e.FlowID(hash.XX, flow), 1, false)
	add(t, e.Store, record.Header{Switch: 1, Start: int64(epoch) << epochs, Span: 1 << epochs, Kind: record.DiSketch}, odd.Record().AppendBinary)
	e.Store.Sort()
	a, err := e.SketchFrequency(flow)
	if err != nil || !a.Holds(exact[flow]) || a.Value < 0.9*exact[flow] || a.Records != records {
		t.Errorf("%v from %d records, %v; exactly %g", a.Bounded, a.Records, err, exact[flow])
	}
	if h, err := e.SketchHeavyHitters(0, 2000); err != nil || len(h.Flows) == 0 {
		t.Errorf("no heavy hitters: %v", err)
	}
	if a, err := e.Entropy(); err != nil || a.Bits.Value <= 0 {
		t.Errorf("no entropy: %v", err)
	}
	if a, err := e.Target(0); err != nil || a.Epochs != records-4*3+4 || len(a.Fragments) != 3 {
		t.Errorf("target of %d epochs and %d fragments, %v", a.Epochs, len(a.Fragments), err)
	}
}
