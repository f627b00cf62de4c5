package query

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// passages are the same for all flows.
type passages []Passage

func (p passages) Path(Key) []Passage { return p }

// TestPathChange: flows that change their path in the middle of an epoch are estimated
// from the fragments of both paths, each for its time. One that believes the first path
// misses what passed the second one.
func TestPathChange(t *testing.T) {
	const epochs, flows, packets, epochNs, first = 4, 50, 400, 1 << epochBits, 8
	// 0.4 epochs behind the beginning of the third one.
	paths := passages{{Always, []uint32{1, 2, 3}}, {first*epochNs + 2*epochNs + epochNs*4/10, []uint32{1, 4, 3}}}
	engine := &Engine{Store: &store.Store{}, FlowSeed: 5, Paths: paths}
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
				passage := paths[0]
				if at >= paths[1].From {
					passage = paths[1]
				}
				counters[passage.Switches[1]].Add(engine.FlowID(hash.XX, key(f)), 1, false)
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
	if err != nil || len(p) != 3 {
		t.Fatalf("%d flows, %v", len(p), err)
	}
	for i, want := range map[int][]uint32{0: {4, 2}, 1: nil, 2: nil, 3: nil, 4: {4, 3}} {
		got := p.Path(key(i))
		if want == nil && got != nil || want != nil && (len(got) != 1 || got[0].From != Always || !slices.Equal(got[0].Switches, want)) {
			t.Errorf("flow %d: %+v, want %v", i, got, want)
		}
	}
	// Where PINT knows nothing, another source does.
	both := FirstOf{p, PathFunc(way)}
	if got := both.Path(key(3)); len(got) != 1 || !slices.Equal(got[0].Switches, way(key(3))) || !slices.Equal(both.Path(key(0))[0].Switches, []uint32{4, 2}) {
		t.Errorf("passages %+v", got)
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
