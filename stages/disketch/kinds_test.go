package disketch

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestNonlinearKinds: fragments whose updates are no sums, on two workers, from the configuration to the answer. 40 flows have cells of their own
// in 16 KiB, so that answers are exact but for what merging adds.
func TestNonlinearKinds(t *testing.T) {
	for _, kind := range []string{"conservative", "sumax", "tower", "bloom", "hyperloglog"} {
		for family := hash.XX; family.Valid(); family++ {
			t.Run(kind+" "+family.String(), func(t *testing.T) { testNonlinear(t, kind, family) })
		}
	}
}

func testNonlinear(t *testing.T, kind string, family hash.Family) {
	e := env()
	e.Hash = family
	c := Config{EpochBits: 20, Seed: 9, Fragments: []Fragment{{Kind: kind, Memory: 16 << 10}}}
	m, err := New(c, e)
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	stages := []*stage{m.Stage(0).(*stage), m.Stage(1).(*stage)}
	var all disketch.Records
	seen := uint64(0)
	emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
		b, err := body(nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := disketch.Decode(b, family)
		if err != nil {
			t.Fatal(err)
		}
		if x.N() != 1 || x.Squares != nil || h.Missed != 0 {
			t.Errorf("epoch %d has %d subepochs, %d second moments; %d packets were missed", x.Epoch, x.N(), len(x.Squares), h.Missed)
		}
		seen += x.Seen
		_ = all.AddPrepared(x) // but for the last one, which is partial
	}
	keyer := (&Fragment{}).newKeyer(family)
	r := rand.New(rand.NewPCG(1, 1))
	b := newBatch(t)
	packets, present := map[uint64]float64{}, map[uint64]float64{} // and epochs in which there were some
	const epochs, step = 6, 1 << 15
	now, sent := int64(1<<20), uint64(0)
	lastSeen := map[uint64]int64{}
	for ; now < (epochs+1)<<20; now += step {
		w := r.IntN(2)
		for _, s := range stages {
			s.Tick(now)
		}
		for range 1 + r.IntN(30) {
			f := r.Uint64N(40)
			k := key(f)
			p := add(t, b, k, 0, 2)
			p.FlowHash = uint32(keyer.flow(&k, parseSeed))
			id := uint64(p.FlowHash)
			packets[id]++
			if lastSeen[id] != now>>20 {
				lastSeen[id] = now >> 20
				present[id]++
			}
			sent++
		}
		stages[w].Process(b)
		clearBatch(b)
		m.Collect(now, false, emit)
	}
	for _, s := range stages {
		s.Tick(now)
	}
	m.Collect(now, false, emit)
	if seen != sent {
		t.Errorf("%d of %d packets are in records", seen, sent)
	}
	q := disketch.Query{Hash: family, From: 1, To: epochs + 1}
	path := disketch.PathFunc(func(uint64) []uint64 { return []uint64{7} })
	switch kind {
	case "hyperloglog":
		a, err := all.Flows(q)
		if err != nil || a.Value < float64(len(packets))-1 || a.Value > float64(len(packets))+1 || a.Covered != 1 {
			t.Errorf("%v, %+v of %d flows", err, a, len(packets))
		}
		return
	case "bloom":
		packets = present
	}
	off := 0.0
	for flow, n := range packets {
		a := all.Frequency(q, flow, path)
		if a.Value < n || n < a.Low || n > a.High {
			t.Errorf("flow %#x: %+v, it has %g", flow, a, n)
		}
		off += a.Value - n
	}
	if off > 0.02*float64(sent) {
		t.Errorf("answers are %g of %d packets too high", off, sent)
	}
	if a := all.Frequency(q, 12345, path); a.Value > 1 {
		t.Errorf("a flow that did not come: %+v", a)
	}
}

// TestUndividedKinds: what has no subepochs and names no flows refuses what asks for them.
func TestUndividedKinds(t *testing.T) {
	for _, kind := range []string{"bloom", "hyperloglog"} {
		for _, f := range []Fragment{{Kind: kind, Target: 1}, {Kind: kind, Memory: 4}, {Kind: kind, Levels: 3}} {
			c := Config{EpochBits: 20, Fragments: []Fragment{f}}
			if c.Validate(nil) == nil {
				t.Errorf("%+v is taken", f)
			}
		}
		if f := (Fragment{Kind: kind}).withDefaults(); f.Candidates != -1 {
			t.Errorf("%s remembers %d flows", kind, f.Candidates)
		}
	}
}
