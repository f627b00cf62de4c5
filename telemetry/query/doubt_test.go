package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// hostileNetwork is a chain of three switches, of which each samples the same packets: n honest ones, and those of a
// host that chooses the ids of its packets.
func hostileNetwork(t *testing.T, size, honest int, ids []uint64) *Engine {
	t.Helper()
	s := &store.Store{}
	for sw := uint32(1); sw <= 3; sw++ {
		sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: size})
		if err != nil {
			t.Fatal(err)
		}
		own, hostile := oblivious.Key(key(1)), oblivious.Key(key(2))
		for i := range honest {
			sampler.Add(hash.Uint64(7, uint64(i)), 100, &own)
		}
		for _, id := range ids {
			sampler.Add(id, 100, &hostile)
		}
		add(t, s, record.Header{Kind: record.Oblivious, Switch: sw, Start: 5 << 30, Span: 1 << 30}, sampler.Sample().AppendBinary)
	}
	s.Sort()
	return &Engine{Store: s}
}

// chosen are ids whose ranks under the public hash functions of seed 0 are small, or large.
func chosen(n int, small bool) (ids []uint64) {
	for id := uint64(1); len(ids) < n; id++ {
		if rank := hash.Uint64(hash.Bytes(0, []byte("oblivious")), id); small && rank < 1<<50 || !small && rank > 3<<62 {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestChosenPackets: whatever packets a host chooses, an answer does not contradict what the switches counted exactly,
// and names the switches whose samples do.
func TestChosenPackets(t *testing.T) {
	same := make([]uint64, 13_000)
	for name, c := range map[string]struct {
		size, honest    int
		ids             []uint64
		surplus, excess bool
	}{
		"identical packets, all sampled":  {1000, 200, same, true, false},
		"identical packets, some sampled": {100, 5000, same, true, false},
		"packets of small ranks":          {100, 5000, chosen(200, true), false, true},
		"packets of large ranks":          {100, 2000, chosen(9000, false), true, false},
		"honest packets":                  {100, 12_000, nil, false, false},
	} {
		e := hostileNetwork(t, c.size, c.honest, c.ids)
		truth := float64(c.honest + len(c.ids))
		v := ask[*Volume](t, e, &Question{Kind: KindVolume})
		if !v.Packets.Holds(truth) || v.Packets.Value > 3*truth || v.Packets.High > 3*truth || !v.Bytes.Holds(100*truth) || v.Bytes.High > 300*truth {
			t.Errorf("%s: %+v packets, %+v bytes; truth %g", name, v.Packets, v.Bytes, truth)
		}
		surplus, excess := 0, 0
		for _, m := range v.Missing {
			if m.Surplus > 0 {
				surplus++
			}
			if m.Excess > 0 {
				excess++
			}
		}
		if (surplus == 3) != c.surplus || (excess == 3) != c.excess {
			t.Errorf("%s: %d switches with a surplus, %d with an excess: %+v", name, surplus, excess, v.Missing)
		}
		f := ask[*Frequency](t, e, &Question{Kind: KindFrequency, Flow: FormatKey(key(2))})
		if !f.Sample.Packets.Holds(float64(len(c.ids))) || f.Sample.Packets.High > 3*truth {
			t.Errorf("%s: the host's flow has %+v packets, truth %d", name, f.Sample.Packets, len(c.ids))
		}
		h := ask[*HeavyHitters](t, e, &Question{Kind: KindHeavyHitters, Theta: 0.01})
		if h.Guaranteed && (c.surplus || c.excess) || !h.Volume.Holds(truth) {
			t.Errorf("%s: %+v", name, h)
		}
		part := ask[*Volume](t, e, &Question{Kind: KindVolume, Proto: "udp"})
		if part.Share == nil || part.Share.Packets.High > 1 || part.Share.Packets.Low < 0 {
			t.Errorf("%s: share %+v", name, part.Share)
		}
	}
}

// TestRepeatedPackets: a host that sends the same packets again and again, each once in a record, is not counted once: each record
// fits its switch's count, all of them together do not.
func TestRepeatedPackets(t *testing.T) {
	const epochs, repeated, fresh = 100, 300, 20
	for name, c := range map[string]struct {
		size  int
		kind  oblivious.Kind
		unit  oblivious.Unit
		again bool
	}{
		"all sampled":                  {1000, oblivious.NWPS, oblivious.Packets, true},
		"some sampled":                 {50, oblivious.NWPS, oblivious.Packets, true},
		"by bytes":                     {50, oblivious.NWPS, oblivious.Bytes, true},
		"byte by byte":                 {50, oblivious.UWRA, oblivious.Bytes, true},
		"all sampled, never again":     {1000, oblivious.NWPS, oblivious.Packets, false},
		"some sampled, never again":    {50, oblivious.NWPS, oblivious.Packets, false},
		"by bytes, never again":        {50, oblivious.NWPS, oblivious.Bytes, false},
		"byte by byte, never again":    {50, oblivious.UWRA, oblivious.Bytes, false},
		"distinct units, never again":  {50, oblivious.DUS, oblivious.Packets, false},
		"distinct units, all repeated": {50, oblivious.DUS, oblivious.Packets, true},
	} {
		s := &store.Store{}
		for sw := uint32(1); sw <= 3; sw++ {
			for epoch := range uint64(epochs) {
				sampler, err := oblivious.NewSampler(oblivious.Config{Kind: c.kind, Unit: c.unit, Size: c.size, Seed: 26})
				if err != nil {
					t.Fatal(err)
				}
				honest, hostile := oblivious.Key(key(1)), oblivious.Key(key(2))
				for i := range uint64(fresh) {
					sampler.Add(hash.Uint64(epoch, i), 1000, &honest)
				}
				for i := range uint64(repeated) {
					n := i
					if !c.again {
						n += epoch << 32
					}
					sampler.Add(hash.Uint64(1<<40, n), 100, &hostile)
				}
				add(t, s, record.Header{Kind: record.Oblivious, Switch: sw, Start: int64(5+epoch) << 30, Span: 1 << 30}, sampler.Sample().AppendBinary)
			}
		}
		s.Sort()
		e := &Engine{Store: s, Confidence: 1 - 1e-9}
		v := ask[*Volume](t, e, &Question{Kind: KindVolume})
		const truth = epochs * (repeated + fresh)
		if !v.Packets.Holds(truth) {
			t.Errorf("%s: %+v packets, truth %d", name, v.Packets, truth)
		}
		if c.again && v.Packets.Low == v.Packets.High {
			t.Errorf("%s: %+v packets as if they were exact", name, v.Packets)
		}
		f := ask[*Frequency](t, e, &Question{Kind: KindFrequency, Flow: FormatKey(key(2))})
		if !f.Sample.Packets.Holds(epochs * repeated) {
			t.Errorf("%s: the host's flow has %+v packets, truth %d", name, f.Sample.Packets, epochs*repeated)
		}
		named := 0
		for _, m := range v.Missing {
			if m.Surplus > 0 {
				named++
			}
			if m.Excess > 0 {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if named != 0 && !c.again || named != 3 && c.again {
			t.Errorf("%s: %d switches are named: %+v", name, named, v.Missing)
		}
	}
}

// TestFewRepeatedPackets: packets that came again, though so few that a sample may be as wrong by chance, are within the bounds of all
// confidences.
func TestFewRepeatedPackets(t *testing.T) {
	const epochs, fresh, repeated = 70, 1000, 20_000 // the last two have the same packets
	s := &store.Store{}
	for sw := uint32(1); sw <= 6; sw++ {
		for epoch := range uint64(epochs + 2) {
			sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: 200, Seed: 26})
			if err != nil {
				t.Fatal(err)
			}
			honest, hostile := oblivious.Key(key(1)), oblivious.Key(key(2))
			n, from, of := uint64(repeated), uint64(1<<40), &hostile
			if epoch < epochs {
				n, from, of = fresh, epoch<<41, &honest
			}
			for i := range n {
				sampler.Add(hash.Uint64(from, i), 100, of)
			}
			add(t, s, record.Header{Kind: record.Oblivious, Switch: sw, Start: int64(5+epoch) << 30, Span: 1 << 30}, sampler.Sample().AppendBinary)
		}
	}
	s.Sort()
	for _, confidence := range []float64{0.5, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9} {
		e := &Engine{Store: s, Confidence: confidence}
		v := ask[*Volume](t, e, &Question{Kind: KindVolume})
		const truth = epochs*fresh + 2*repeated
		if p := v.Packets; !p.Holds(truth) || p.Low > p.Value || p.Value > p.High || !v.Bytes.Holds(100*truth) {
			t.Errorf("confidence %v: %+v packets, %+v bytes, truth %d packets", confidence, p, v.Bytes, truth)
		}
		f := ask[*Frequency](t, e, &Question{Kind: KindFrequency, Flow: FormatKey(key(2))})
		if !f.Sample.Packets.Holds(2 * repeated) {
			t.Errorf("confidence %v: the host's flow has %+v packets, truth %d", confidence, f.Sample.Packets, 2*repeated)
		}
	}
}

// TestUnmeasuredPackets: packets that passed a switch and were not measured widen the upper bounds of all that samples answer, and nothing is promised.
func TestUnmeasuredPackets(t *testing.T) {
	const measured, missed = 500, 300
	s := &store.Store{}
	for _, unit := range []oblivious.Unit{oblivious.Packets, oblivious.Flows} {
		sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: unit, Size: 2000})
		if err != nil {
			t.Fatal(err)
		}
		for i := range measured {
			k := oblivious.Key(key(1 + i%5))
			sampler.Add(hash.Uint64(7, uint64(i)), 100, &k)
		}
		h := record.Header{Kind: record.Oblivious, Switch: 1, Start: 5 << 30, Span: 1 << 30, Missed: missed}
		if unit == oblivious.Flows {
			h.Instance = 1
		}
		add(t, s, h, sampler.Sample().AppendBinary)
	}
	s.Sort()
	e := &Engine{Store: s}
	v := ask[*Volume](t, e, &Question{Kind: KindVolume})
	if p := v.Packets; p.Value != measured || p.Low != measured || p.High != measured+missed {
		t.Errorf("%+v packets, measured %d and not %d", p, measured, missed)
	}
	if b := v.Bytes; b.Low != 100*measured || b.High < 100*measured+1500*missed {
		t.Errorf("%+v bytes", b)
	}
	h := ask[*HeavyHitters](t, e, &Question{Kind: KindHeavyHitters, Theta: 0.1})
	if len(h.Flows) != 5 || h.Guaranteed || h.Flows[0].High < 100+missed {
		t.Errorf("%+v", h)
	}
	if c := ask[*Cardinality](t, e, &Question{Kind: KindCardinality}); c.Flows.High < c.Flows.Value+missed {
		t.Errorf("%+v flows", c.Flows)
	}
}

// TestSeedOfOne: a switch whose samples have another seed is left out and named; of as many of either kind nothing is
// chosen.
func TestSeedOfOne(t *testing.T) {
	build := func(seeds ...uint64) *Engine {
		s := &store.Store{}
		for i, seed := range seeds {
			sampler, _ := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: 10, Seed: seed})
			sampler.Add(hash.Uint64(7, 1), 100, &oblivious.Key{})
			add(t, s, record.Header{Kind: record.Oblivious, Switch: uint32(i + 1), Start: 5 << 30, Span: 1 << 30}, sampler.Sample().AppendBinary)
		}
		s.Sort()
		return &Engine{Store: s}
	}
	v := ask[*Volume](t, build(66, 0, 0, 0), &Question{Kind: KindVolume})
	if v.Switches != 3 || v.Packets.Value != 1 || len(v.Missing) != 1 || v.Missing[0].Disputed != 1 || v.Missing[0].Switch != "b" {
		t.Errorf("%d switches, %+v packets, missing %+v", v.Switches, v.Packets, v.Missing)
	}
	if _, err := build(66, 0).Volume(nil); !errors.Is(err, oblivious.ErrUnlike) || !strings.Contains(err.Error(), "0x42") {
		t.Errorf("%v", err)
	}
}

// TestBytesWithShims: what switches count on the wire, with shims, tags and padding, is not taken for the packets' lengths: all totals of bytes are the
// same, and a few packets that came again widen bounds by their own length alone.
func TestBytesWithShims(t *testing.T) {
	const packets, length, shim, again, switches = 2000, 86, 8, 3, 4
	for _, size := range []int{4000, 500} {
		s := &store.Store{}
		for sw := uint32(1); sw <= switches; sw++ {
			sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: size})
			if err != nil {
				t.Fatal(err)
			}
			wire := uint64(0)
			for i := range packets + again {
				k := oblivious.Key(key(1 + i%5))
				sampler.Add(hash.Uint64(7, uint64(i%packets)), length, &k)
				wire += length + shim
			}
			sample := sampler.Sample()
			sample.Bytes = wire
			add(t, s, record.Header{Kind: record.Oblivious, Switch: sw, Start: 5 << 30, Span: 1 << 30}, sample.AppendBinary)
		}
		s.Sort()
		e := &Engine{Store: s}
		const most = length * (packets + switches*again)
		v := ask[*Volume](t, e, &Question{Kind: KindVolume})
		if !v.Bytes.Holds(length * (packets + again)) {
			t.Errorf("size %d: %+v bytes, not %d", size, v.Bytes, length*(packets+again))
		}
		h := ask[*HeavyHitters](t, e, &Question{Kind: KindHeavyHitters, Theta: 0.1, Unit: "bytes"})
		if h.Volume != v.Bytes {
			t.Errorf("size %d: heavy hitters are of %+v bytes, the volume is %+v", size, h.Volume, v.Bytes)
		}
		part := ask[*Volume](t, e, &Question{Kind: KindVolume, Proto: "udp"})
		if part.Share == nil || !part.Share.Bytes.Holds(part.Bytes.Value/v.Bytes.Value) {
			t.Errorf("size %d: %+v of %+v", size, part, v.Bytes)
		}
		if size > packets && (v.Bytes.Value != length*packets || v.Bytes.High > most || h.Flows[0].High > h.Flows[0].Value+length*switches*again) {
			t.Errorf("%+v bytes, at most %d; %+v", v.Bytes, most, h.Flows[0])
		}
	}
}
