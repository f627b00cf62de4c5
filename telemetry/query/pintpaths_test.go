package query

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// digest is what the sink records of a packet that passed the switches.
func digest(e *encode.Encoder, r *rand.Rand, flow Key, way []uint32, at int64) *pint.Record {
	id, d := r.Uint64(), uint64(0)
	for hop, sw := range way {
		var v pint.Observed
		v[pint.SwitchID] = uint64(sw)
		d = e.Encode(id, hop+1, d, &v)
	}
	return &pint.Record{Flow: pint.FlowKey(flow), ID: id, Digest: d, Plan: e.Plan(), Hops: uint8(len(way)), TimeNs: uint64(at)}
}

// detour is a flow's way over switch 2 before a time, and over 4 from then on.
func detour(change int64) func(at int64) []uint32 {
	return func(at int64) []uint32 {
		if at < change {
			return []uint32{1, 2, 3}
		}
		return []uint32{1, 4, 3}
	}
}

// TestPintPaths: digests alone tell the ways of flows, and when one changed.
func TestPintPaths(t *testing.T) {
	plan := pintplan.Default()
	e, err := plan.Compile()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPintPaths(plan, sink.RecorderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	const packets, every, change = 1000, 1000, 400_000
	changing := detour(change)
	for i := range int64(packets) {
		p.Record(digest(e, r, key(0), changing(i*every), i*every))
		p.Record(digest(e, r, key(1), way(key(1)), i*every))
		if i < 2 {
			p.Record(digest(e, r, key(2), way(key(2)), i*every))
		}
	}
	got := p.Path(key(0))
	if len(got) != 2 || got[0].From != Always || !slices.Equal(got[0].Switches, []uint32{1, 2, 3}) || !slices.Equal(got[1].Switches, []uint32{1, 4, 3}) {
		t.Fatalf("passages %+v", got)
	}
	// A change is noticed some digests later; 100 are ample.
	if got[1].From < change || got[1].From > change+100*every {
		t.Errorf("the change is said to have been at %d, it was at %d", got[1].From, change)
	}
	if got := p.Path(key(1)); len(got) != 1 || !slices.Equal(got[0].Switches, way(key(1))) {
		t.Errorf("passages %+v, want %v", got, way(key(1)))
	}
	if p.Path(key(2)) != nil || p.Path(key(3)) != nil || p.Flows() != 2 {
		t.Errorf("%d flows have a path, two digests gave %+v", p.Flows(), p.Path(key(2)))
	}
	// Where PINT knows nothing, another source does.
	both := FirstOf{p, PathFunc(way)}
	if got := both.Path(key(3)); len(got) != 1 || !slices.Equal(got[0].Switches, way(key(3))) || len(both.Path(key(0))) != 2 {
		t.Errorf("passages %+v", got)
	}
	plan.Queries[0].Value = pint.IngressPort
	if _, err := NewPintPaths(plan, sink.RecorderConfig{}); err == nil {
		t.Error("a plan without the path of switches")
	}
}

// TestPathChange: flows that change their way in the middle of an epoch are estimated
// from the fragments of both ways, each for its time, by the ways that their
// digests tell. One that believes the first way misses what passed the second one.
func TestPathChange(t *testing.T) {
	const epochs, flows, packets, epochNs, first = 4, 50, 400, 1 << epochBits, 8
	plan := pintplan.Default()
	e, err := plan.Compile()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := NewPintPaths(plan, sink.RecorderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// 0.4 epochs behind the beginning of the third one.
	changing := detour(first*epochNs + 2*epochNs + epochNs*4/10)
	r := rand.New(rand.NewPCG(2, 3))
	engine := &Engine{Store: &store.Store{}, FlowSeed: 5, Paths: decoded}
	for epoch := range uint64(epochs) {
		counters := map[uint32]*disketch.Counter{}
		for _, sw := range []uint32{2, 4} { // 1 and 3 have no fragment
			f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.CountSketch, Memory: 1 << 20, Epochs: epochBits})
			if err != nil {
				t.Fatal(err)
			}
			counters[sw], _ = f.NewCounter()
			counters[sw].Begin(f.Begin(first+epoch), 0)
		}
		for i := range int64(packets) {
			at := int64(first+epoch)*epochNs + i*epochNs/packets
			for f := range flows {
				w := changing(at)
				decoded.Record(digest(e, r, key(f), w, at))
				counters[w[1]].Add(engine.FlowID(hash.XX, key(f)), 1, false)
			}
		}
		for sw, c := range counters {
			h := record.Header{Switch: sw, Start: int64(first+epoch) * epochNs, Span: epochNs, Kind: record.DiSketch}
			add(t, engine.Store, h, c.Record().AppendBinary)
		}
	}
	engine.Store.Sort()
	// Believing the first way alone, in comparison.
	old := *engine
	old.Paths = PathFunc(func(Key) []uint32 { return []uint32{1, 2, 3} })
	worst, believed := 0.0, 0.0
	for f := range flows {
		a, err := engine.SketchFrequency(key(f))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Path, []string{"1", "c", "3", "e"}) {
			t.Fatalf("path %v", a.Path)
		}
		worst = max(worst, math.Abs(a.Value/(epochs*packets)-1))
		b, err := old.SketchFrequency(key(f))
		if err != nil {
			t.Fatal(err)
		}
		believed += b.Value / (epochs * packets) / flows
	}
	// The change is noticed up to some 20 packets late, of 1600.
	if worst > 0.05 {
		t.Errorf("off by up to %.3f", worst)
	}
	if believed > 0.7 {
		t.Errorf("the first way alone tells %.2f of the packets, so this test proves nothing", believed)
	}
}

func TestReadPintPaths(t *testing.T) {
	file := filepath.Join(t.TempDir(), "paths.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const hops = `"hops": [{"hop": 1, "switch": "4", "number": 4, "candidates": 1}, {"hop": 2, "switch": "2", "number": 2, "candidates": 1}]`
	write(`{"sink": true, "paths": {"value": "switch_id", "flows": [
		{"flow": "10.0.0.0:1000 > 10.1.0.1:9 udp", ` + hops + `, "certain": true},
		{"flow": "10.0.0.1:1001 > 10.1.0.1:9 udp", ` + hops + `},
		{"flow": "10.0.0.2:1002 > 10.1.0.1:9 udp", ` + hops + `, "certain": true, "changes": 1},
		{"flow": "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff type 0x0806", ` + hops + `, "certain": true},
		{"flow": "10.0.0.4 > 10.1.0.1", "hops": [{"number": 4}, {"number": 3}], "certain": true},
		{"flow": "[fd00::1]:1 > [fd00::2]:2 tcp", "hops": [{"number": 9}], "certain": true}]}}`)
	p, err := ReadPintPaths(file)
	if err != nil || p.Flows() != 3 {
		t.Fatalf("%d flows, %v", p.Flows(), err)
	}
	for i, want := range map[int][]uint32{0: {4, 2}, 1: nil, 2: nil, 3: nil, 4: {4, 3}} {
		got := p.Path(key(i))
		if want == nil && got != nil || want != nil && (len(got) != 1 || got[0].From != Always || !slices.Equal(got[0].Switches, want)) {
			t.Errorf("flow %d: %+v, want %v", i, got, want)
		}
	}
	for text, want := range map[string]string{
		`[]`: "paths.json", `{}`: "ctl show paths --json",
		`{"paths": {"value": "switch_id", "flows": [{"flow": "frog", "certain": true}]}}`: "paths[0]",
	} {
		write(text)
		if _, err := ReadPintPaths(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadPintPaths(file + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}
