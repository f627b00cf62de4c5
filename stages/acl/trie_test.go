package acl

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"
)

// TestTrie compares tries of random prefixes with bart, at the edges of the prefixes
// and at random, and ends one that has no room.
func TestTrie(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 8))
	full := 0
	for round := range 60 {
		var prefixes []netip.Prefix
		spread := uint32(1)<<r.IntN(33) - 1
		for range pick(r, 1, 50, 3000, 9000) {
			v := 0x0a000000 ^ r.Uint32()&spread
			a := netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
			prefixes = append(prefixes, netip.PrefixFrom(a, pick(r, r.IntN(33), 16, 24, 32)).Masked())
		}
		slices.SortFunc(prefixes, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
		fast, slow := newTrie(), &bart.Table[uint32]{}
		room := true
		for i, p := range prefixes {
			slow.Insert(p, uint32(i+1))
			if room = fast.insert(p, uint32(i+1)); !room {
				break
			}
		}
		if !room {
			full++
			if len(fast.chunks) != maxChunks {
				t.Errorf("round %d: no room behind %d chunks", round, len(fast.chunks))
			}
			continue
		}
		check := func(a netip.Addr) {
			if !a.IsValid() {
				return
			}
			if want, _ := slow.Lookup(a); fast.lookup(a) != want {
				t.Fatalf("round %d: %v has class %d, not %d", round, a, fast.lookup(a), want)
			}
		}
		for _, p := range prefixes {
			v := r.Uint32()
			check(p.Addr())
			check(p.Addr().Prev())
			check(p.Addr().Next())
			check(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}))
		}
	}
	if full == 0 || full == 60 {
		t.Errorf("%d of 60 tries were full", full)
	}
}
