package disketch

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Keyer turns packets, and the keys that a query names, into flows of a sketch.
type Keyer struct {
	tuple  bool
	family hash.Family
	// Masks of the source's and the destination's address words, by version: zero
	// for what is not in the key.
	mask4, mask6 [4]uint64
}

// newKeyer returns the keyer of a valid fragment on a switch of a hash family.
func (f *Fragment) newKeyer(family hash.Family) Keyer {
	d := f.withDefaults()
	k := Keyer{tuple: d.Key == "5-tuple", family: family}
	for side, has := range []bool{d.Key != "dst", d.Key != "src"} {
		if has {
			k.mask4[2*side], _ = prefixMask(d.Prefix4)
			k.mask6[2*side], k.mask6[2*side+1] = prefixMask(d.Prefix6)
		}
	}
	return k
}

// prefixMask keeps the first bits of 16 bytes, read as two big-endian words.
func prefixMask(bits int) (a, b uint64) {
	switch {
	case bits >= 128:
		return ^uint64(0), ^uint64(0)
	case bits >= 64:
		return ^uint64(0), ^uint64(0) << (128 - bits) & -boolWord(bits > 64)
	}
	return ^uint64(0) << (64 - bits), 0
}

func boolWord(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// AddressSeed is that of flows that are addresses.
const AddressSeed = 'A'

func (k *Keyer) addresses(mask *[4]uint64, version, a, b, c, d uint64) uint64 {
	return k.family.Uint64x5(AddressSeed, a&mask[0], b&mask[1], c&mask[2], d&mask[3], version)
}

// address is the flow of a packet whose key is addresses; false: it has none.
func (k *Keyer) address(data []byte, p *packet.Packet) (uint64, bool) {
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		w := binary.BigEndian.Uint64(data[p.L3+12:])
		return k.addresses(&k.mask4, 4, w>>32<<32, 0, w<<32, 0), true
	case p.Flags.Has(packet.FlagIPv6):
		w := (*[32]byte)(data[p.L3+8:])
		return k.addresses(&k.mask6, 6, binary.BigEndian.Uint64(w[:8]), binary.BigEndian.Uint64(w[8:16]),
			binary.BigEndian.Uint64(w[16:24]), binary.BigEndian.Uint64(w[24:])), true
	}
	return 0, false
}

// key is the key of a packet as a record names its flow: what of the 5-tuple is
// not in the sketch's key is zero.
func (k *Keyer) key(data []byte, p *packet.Packet) disketch.Key {
	f, ok := p.Key(data)
	if !ok {
		return disketch.Key{}
	}
	if !k.tuple {
		f.SrcPort, f.DstPort, f.Proto = 0, 0, 0
		mask := &k.mask6
		if f.Version == 4 {
			mask = &k.mask4
		}
		maskAddress(&f.Src, mask[0], mask[1])
		maskAddress(&f.Dst, mask[2], mask[3])
	}
	return disketch.Key(f)
}

func maskAddress(a *[16]byte, high, low uint64) {
	binary.BigEndian.PutUint64(a[:8], binary.BigEndian.Uint64(a[:8])&high)
	binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(a[8:])&low)
}
