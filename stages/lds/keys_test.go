package lds

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// TestKeys: the hashes of a batch's keys, of both IP versions in any order, are those
// that a query makes of the key alone.
func TestKeys(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testKeys(t, family) })
	}
}

func testKeys(t *testing.T, family hash.Family) {
	r := rand.New(rand.NewPCG(4, 4))
	var k keys
	for round := range 300 {
		var want, got [lds.BlockSize]uint64
		n := r.IntN(lds.BlockSize + 1)
		for i := range n {
			data := make([]byte, 128)
			for j := range data {
				data[j] = byte(r.Uint32())
			}
			p := packet.Packet{L3: 14, Proto: uint8(r.Uint32()), SrcPort: uint16(r.Uint32()), DstPort: uint16(r.Uint32()), Flags: packet.FlagIPv4 | packet.FlagPorts}
			// Rounds of one version only, and of both.
			if round%3 == 1 || round%3 == 2 && r.IntN(2) == 0 {
				p.Flags = packet.FlagIPv6 | packet.FlagPorts
			}
			if p.Flags.Has(packet.FlagIPv4) {
				a, b := p.KeyWords4(data)
				k.take4(i, a, b)
			} else {
				k.take6(i, &p, data)
			}
			key, ok := p.Key(data)
			w, words := key.Words()
			if !ok {
				t.Fatal("no key")
			}
			want[i] = family.Uint64x2(0, w[0], w[1])
			if words == 5 {
				want[i] = family.Uint64x5(0, w[0], w[1], w[2], w[3], w[4])
			}
		}
		if k.flows(&got, family); got != want {
			t.Fatalf("round %d of %d packets: hashes differ", round, n)
		}
	}
}
