package lds

import (
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// keys are the flow keys of a batch's packets, as the words to hash, IPv4 and IPv6
// apart, so that the hashes of all are computed side by side.
type keys struct {
	four struct {
		n    int
		of   [lds.BlockSize]uint8 // which of the packets taken in
		a, b [lds.BlockSize]uint64
	}
	six struct {
		n             int
		of            [lds.BlockSize]uint8
		a, b, c, d, e [lds.BlockSize]uint64
	}
	hashes [lds.BlockSize]uint64
}

// take4 takes in the flow key of the block's packet i, which has an IPv4 header, as KeyWords4 gives it.
func (k *keys) take4(i int, a, b uint64) {
	f := &k.four
	j := f.n & (lds.BlockSize - 1) // BCE
	f.of[j], f.a[j], f.b[j] = uint8(i), a, b
	f.n++
}

// take6 takes in that of an IPv6 packet.
func (k *keys) take6(i int, p *packet.Packet, data []byte) {
	f := &k.six
	j := f.n & (lds.BlockSize - 1) // BCE
	f.of[j] = uint8(i)
	f.a[j], f.b[j], f.c[j], f.d[j], f.e[j] = p.KeyWords6(data)
	f.n++
}

// flows stores the hashes of the keys by the switch's family, all 64 bits of them and under
// a seed that is the same everywhere, so that a query can look a flow up by its key, and
// forgets the keys.
func (k *keys) flows(dst *[lds.BlockSize]uint64, family hash.Family) {
	const mask = lds.BlockSize - 1 // BCE
	if k.six.n == 0 {
		family.Uint64x2s(dst[:k.four.n], 0, k.four.a[:], k.four.b[:])
		k.four.n = 0
		return
	}
	h := k.hashes[:k.four.n]
	family.Uint64x2s(h, 0, k.four.a[:], k.four.b[:])
	for j, v := range h {
		dst[k.four.of[j&mask]&mask] = v
	}
	h = k.hashes[:k.six.n]
	f := &k.six
	family.Uint64x5s(h, 0, f.a[:], f.b[:], f.c[:], f.d[:], f.e[:])
	for j, v := range h {
		dst[k.six.of[j&mask]&mask] = v
	}
	k.four.n, k.six.n = 0, 0
}
