package l3

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// manyRoutes returns a configuration with n random IPv4 routes over several gateways, and their prefixes.
func manyRoutes(r *rand.Rand, n int) (c Config, prefixes []netip.Prefix) {
	c = testConfig()
	seen := map[netip.Prefix]bool{netip.MustParsePrefix("10.9.0.0/16"): true}
	for len(prefixes) < n {
		p := randomPrefix(r, false)
		if seen[p] || !routable(p) {
			continue
		}
		seen[p] = true
		prefixes = append(prefixes, p)
		via := []string{fmt.Sprintf("10.0.%d.2", 2+r.IntN(2))}
		if r.IntN(8) == 0 {
			via = []string{"10.0.2.2", "10.0.3.2"}
		}
		c.Routes = append(c.Routes, Route{Prefix: p.String(), Via: via})
	}
	return c, prefixes
}

// somewhere returns an address in a prefix, or, one in four, anywhere.
func somewhere(r *rand.Rand, prefixes []netip.Prefix) netip.Addr {
	p := prefixes[r.IntN(len(prefixes))]
	a := p.Addr().As4()
	n := binary.BigEndian.Uint32(a[:]) | uint32(r.Uint64()&(1<<(32-p.Bits())-1))
	if r.IntN(4) == 0 {
		n = r.Uint32()
	}
	binary.BigEndian.PutUint32(a[:], n)
	return netip.AddrFrom4(a)
}

// TestFlatTwin compares the flat table with the tree that it is made of.
func TestFlatTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 8))
	c, prefixes := manyRoutes(r, 3*flatFrom)
	m, err := New(c, testEnv(1))
	if err != nil {
		t.Fatal(err)
	}
	tables := m.tables.Load()
	f := tables.fibs[0].flat
	if f == nil || len(f.groups) == 0 || len(f.results) > 64 {
		t.Fatalf("flat %v, want one with groups and few results", f)
	}
	for range 1_000_000 {
		a := somewhere(r, prefixes)
		b := a.As4()
		n := binary.BigEndian.Uint32(b[:])
		e := f.first[n>>8]
		if e&grouped != 0 {
			e = f.groups[e&^grouped*groupSize|n&(groupSize-1)]
		}
		want, got := tables.fibs[0].lookup(a), f.results[e]
		if want != nil && want.kind == forward && !want.route {
			if got.kind != connected {
				t.Fatalf("%s, a neighbour, gives %+v, want connected", a, got)
			}
			continue
		}
		if (want == nil) != (got == nil) || want != nil && (want.kind != got.kind || want.reason != got.reason || want.port != got.port || !slices.Equal(want.hops, got.hops)) {
			t.Fatalf("%s gives %+v, want %+v", a, got, want)
		}
	}
	if few, err := New(testConfig(), testEnv(1)); err != nil || few.tables.Load().flat {
		t.Errorf("a router of few routes has a flat table (%v)", err)
	}
}

// TestFlatTooManyGroups: longer prefixes than there is memory for leave all to the tree.
func TestFlatTooManyGroups(t *testing.T) {
	f := &flat{first: make([]uint32, 1<<24), groups: make([]uint32, maxGroups*groupSize), results: []*target{nil}}
	if f.set(netip.MustParsePrefix("20.0.0.0/25"), 0) {
		t.Error("a group was made beyond the bound")
	}
	if !f.set(netip.MustParsePrefix("20.0.0.0/24"), 0) {
		t.Error("a prefix that needs no group was refused")
	}
}

// TestFlatForwards: routers with and without the flat table send the same packets, also while neighbours come, go stale
// and are forgotten.
func TestFlatForwards(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 24))
	c, prefixes := manyRoutes(r, flatFrom)
	with, without := newBench(t, c), newBench(t, c)
	without.module.tables.Load().flat, without.module.tables.Load().fibs[0].flat = false, nil
	if !with.module.tables.Load().flat {
		t.Fatal("no flat table")
	}
	for round := range 1000 {
		var batch []in
		for range 1 + r.IntN(packet.BatchSize) {
			dst := somewhere(r, prefixes).String()
			switch r.IntN(8) {
			case 0: // hosts on a link
				dst = fmt.Sprintf("10.0.%d.%d", 1+r.IntN(3), r.IntN(8))
			case 1:
				dst = "10.9.8.7"
			}
			data := udp(t, "10.0.1.2", dst, uint8(1+r.IntN(3)), 10)
			if r.IntN(16) == 0 {
				data = arpFrame(t, ownMAC(0), hostMAC, 2, fmt.Sprintf("10.0.1.%d", 3+r.IntN(5)), ownMAC(0), "10.0.1.1")
			}
			batch = append(batch, in{uint16(r.IntN(2)), data})
		}
		got, want := with.run(batch...), without.run(batch...)
		if !slices.EqualFunc(got, want, func(a, b out) bool { return a.port == b.port && slices.Equal(a.data, b.data) }) {
			t.Fatalf("round %d: %d packets left with the flat table, %d without, or others", round, len(got), len(want))
		}
		step := int64(r.IntN(2_000_000_000))
		with.now, without.now = with.now+step, without.now+step
		if without.module.tables.Load().flat {
			t.Fatal("the twin has a flat table")
		}
	}
	if with.got.forwarded < 1000 || with.got.reasons["no_route"] != without.got.reasons["no_route"] {
		t.Errorf("%+v and %+v", with.got, without.got)
	}
}
