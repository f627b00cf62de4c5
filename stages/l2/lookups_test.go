package l2

import (
	"math/rand/v2"
	"testing"
)

// TestSearchFinds looks batches of keys up in tables of which some entries are in their second buckets, by vectors and without: what is
// there is found, and nothing else.
func TestSearchFinds(t *testing.T) {
	vectors := wide
	defer func() { wide = vectors }()
	for _, buckets := range []int{64, minBuckets, 1 << 14} {
		rng := rand.New(rand.NewPCG(uint64(buckets), 1))
		f := newFDBOf(buckets, buckets*fullBucket, 300, 9)
		ports := map[uint64]uint16{}
		key := func() uint64 { return rng.Uint64()&macMask&^macGroup | keyTag(uint16(rng.IntN(3))) }
		var keys []uint64
		for range buckets * fullBucket {
			k := key()
			port := uint16(rng.Uint64() & f.ports)
			f.learn(k, port, uint32(1000+rng.IntN(100)))
			if _, ok := ports[k]; !ok {
				keys = append(keys, k)
			}
			ports[k] = port
		}
		second := 0
		for round := range 300 {
			wide = vectors && round%2 == 0
			var s search
			n := 1 + rng.IntN(maxLookups)
			for i := range s.keys {
				s.keys[i] = keys[rng.IntN(len(keys))]
				switch rng.IntN(8) {
				case 0:
					s.keys[i] = key()
				case 1:
					s.keys[i] = keyTag(0)
				}
			}
			s.find(f, n)
			for i, k := range s.keys[:n] {
				port, known := ports[k]
				e := s.first.entries[i]
				found := (e^s.first.names[i])&f.name == 0
				if found != known || known && f.port(e) != port {
					t.Fatalf("%d buckets, vectors %v: key %#x: entry %#x, found %v, want %v with port %d", buckets, wide, k, e, found, known, port)
				}
				if !known {
					continue
				}
				if b, slot, _ := f.find(f.mix(k)); s.first.marks[i] != b.mark(slot) {
					t.Fatalf("key %#x: mark %d, want %d", k, s.first.marks[i], b.mark(slot))
				}
				if e&f.second != 0 {
					second++
				}
			}
		}
		if second == 0 {
			t.Errorf("%d buckets: no lookup ended in a second one: the test does not test what it should", buckets)
		}
	}
}

// TestSearchDoesNotAllocate, whatever it finds.
func TestSearchDoesNotAllocate(t *testing.T) {
	f := newFDB(100, 300, 1)
	var s search
	for i := range s.keys {
		s.keys[i] = makeKey(0, stationMAC(i))
		if i%2 == 0 {
			f.learn(s.keys[i], 1, 1)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.find(f, maxLookups) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
