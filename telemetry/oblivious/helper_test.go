package oblivious

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// seen is a packet of a test.
type seen struct {
	id    uint64
	bytes uint32
	key   Key
}

// flowKey makes the key of flow n, IPv4 or IPv6.
func flowKey(n int) Key {
	k := Key{Version: 4, Proto: 6, SrcPort: uint16(n), DstPort: 443}
	if n%3 == 0 {
		k.Version, k.Proto = 6, 17
	}
	binary.BigEndian.PutUint32(k.Src[:], 0x0a000000|uint32(n))
	binary.BigEndian.PutUint32(k.Dst[:], uint32(hash.Uint64(7, uint64(n))))
	return k
}

// packets draws a trace of n packets of the given number of flows: short ones,
// as the twin of UWRA keeps each byte.
func packets(seed uint64, n, flows int) []seen {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]seen, n)
	for i := range out {
		flow := int(float64(flows) * r.Float64() * r.Float64())
		out[i] = seen{r.Uint64(), 4 + uint32(r.IntN(120)), flowKey(flow)}
	}
	return out
}

func sampler(t testing.TB, c Config) *Sampler {
	t.Helper()
	s, err := NewSampler(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Sampler) addAll(ps []seen) *Sampler {
	for i := range ps {
		s.Add(ps[i].id, ps[i].bytes, &ps[i].key)
	}
	return s
}

// sameEntries reports that two samples say the same of the network; totals
// count what each saw.
func sameEntries(a, b *Sample) bool {
	return a.Kind == b.Kind && a.Unit == b.Unit && a.Size == b.Size && a.Seed == b.Seed && a.Hash == b.Hash &&
		a.Threshold == b.Threshold && slices.Equal(a.Entries, b.Entries)
}

// kinds are all that can be configured, of crc what differs.
var kinds = []Config{
	{Kind: DUS, Unit: Packets}, {Kind: DUS, Unit: Flows}, {Kind: UWRA, Unit: Packets}, {Kind: UWRA, Unit: Bytes},
	{Kind: NWPS, Unit: Packets}, {Kind: NWPS, Unit: Bytes}, {Kind: NWPS, Unit: Both},
	{Kind: DUS, Unit: Packets, Hash: hash.CRC}, {Kind: DUS, Unit: Flows, Hash: hash.CRC},
	{Kind: UWRA, Unit: Bytes, Hash: hash.CRC}, {Kind: NWPS, Unit: Bytes, Hash: hash.CRC},
}

func (c Config) name() string { return c.Kind.String() + " " + c.Unit.String() + " " + c.Hash.String() }

// twin is the obviously right sampler: all ranks of all packets, sorted.
type twin struct {
	c     Config
	ranks map[Rank]Entry
}

func (tw *twin) add(p *seen) {
	r := newRanker(tw.c)
	w := uint64(1)
	switch tw.c.Unit {
	case Bytes:
		w = uint64(p.bytes)
	case Both:
		w = uint64(p.bytes) + bothBytes
	}
	if w == 0 {
		return
	}
	value, n := r.first(p.id, w)
	for j := uint64(1); ; j++ {
		rank := Rank{value, p.id}
		e := Entry{rank, p.bytes, p.key}
		if have, ok := tw.ranks[rank]; !ok || e.before(&have) {
			tw.ranks[rank] = e
		}
		if j >= n {
			return
		}
		value += max(exponential(r.family.Uint64x2(r.seed, p.id, j))/(w-j), 1)
	}
}

// upTo returns the entries up to a threshold; size, if not 0, cuts them.
func (tw *twin) upTo(threshold Rank, size int) *Sample {
	s := &Sample{Kind: tw.c.Kind, Unit: tw.c.Unit, Size: tw.c.Size, Seed: tw.c.Seed, Hash: tw.c.Hash, Threshold: threshold}
	for r, e := range tw.ranks {
		if r.Compare(threshold) <= 0 {
			s.Entries = append(s.Entries, e)
		}
	}
	slices.SortFunc(s.Entries, func(a, b Entry) int { return a.Rank.Compare(b.Rank) })
	if size > 0 && len(s.Entries) >= size {
		s.Entries = s.Entries[:size]
		s.Threshold = s.Entries[size-1].Rank
	}
	return s
}
