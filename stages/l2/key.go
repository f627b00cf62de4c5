package l2

import "fmt"

// MAC is a 48-bit address in the order of transmission.
type MAC [6]byte

// String returns the usual form, as in "02:00:00:00:00:01".
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// MarshalText makes JSON and TOML carry the usual form.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// learnable reports whether the address can be a station's: neither a group's
// nor zero.
func (m MAC) learnable() bool { return m != MAC{} && m[0]&1 == 0 }

// A key is an address in a VLAN, in one word. The address is a
// little-endian load finds it, its first byte lowest, because only its identity
// matters.
//
//	63    61  60  59      48 47                    0
//	|  0  | 1 |    VLAN     |        address       |
const (
	keyPresent = 1 << 60
	macMask    = 1<<48 - 1
	macGroup   = 1 // the group bit of the first byte
)

func makeKey(vlan uint16, m MAC) uint64 {
	k := keyTag(vlan)
	for i, b := range m {
		k |= uint64(b) << (8 * i)
	}
	return k
}

// keyTag is what keys of a VLAN have in common.
func keyTag(vlan uint16) uint64 { return uint64(vlan&vidMask)<<48 | keyPresent }

func keyVLAN(k uint64) uint16 { return uint16(k>>48) & vidMask }

func keyMAC(k uint64) (m MAC) {
	for i := range m {
		m[i] = byte(k >> (8 * i))
	}
	return m
}

// unlearnable reports whether the source address of a key is a group's or zero.
func unlearnable(k uint64) bool { return k&macGroup != 0 || k&macMask == 0 }

// linkLocal reports whether the key's address is one of 01:80:c2:00:00:00 to
// 0f, which bridges do not forward (802.1Q, 8.6.3).
func linkLocal(k uint64) bool { return k&(macMask&^(0x0f<<40)) == 0x00c28001 }

// mixer spreads keys over 64 bits by a function that can be undone, so that an entry of the table need not have the whole
// key. A mixed key has zeros in its lowest five bits: four for what all keys have in common, one for the group bit of its address, which
// no station has. Those of groups have anything there, and may look like a station's.
type mixer struct {
	mask    uint64
	factors [3]uint64 // of 32 bits, odd
}

// newMixer makes its words from a seed, by the finaliser of SplitMix64,
// since a factor with few bits set would hardly mix. An even one would lose a bit.
func newMixer(seed uint64) mixer {
	m := mixer{mask: splitMix(seed) &^ 31}
	for i := range m.factors {
		m.factors[i] = splitMix(seed+1+uint64(i))>>32 | 1<<31 | 1
	}
	return m
}

// mix is a Feistel network of three rounds: each changes one half by a product of the other one, which undoes itself. 32 bits
// times 32 are what vectors multiply. The lower half, of which bits 5 and up choose the bucket, takes the middle of
// the products: their low bits know nothing of the high ones that were multiplied, and addresses that follow each other have products that
// do too. Once is not enough for these.
func (m *mixer) mix(key uint64) uint64 {
	x := key<<4 ^ m.mask
	x = mixLower(x, m.factors[0])
	x = mixUpper(x, m.factors[1])
	return mixLower(x, m.factors[2])
}

// unmix returns the key of a mixed one.
func (m *mixer) unmix(mixed uint64) uint64 {
	x := mixLower(mixed, m.factors[2])
	x = mixUpper(x, m.factors[1])
	x = mixLower(x, m.factors[0])
	return (x^m.mask)>>4 | keyPresent
}

func mixLower(x, factor uint64) uint64 { return x ^ (x>>32)*factor>>16&0xffff_ffe0 }
func mixUpper(x, factor uint64) uint64 { return x ^ (x&0xffff_ffff)*factor&^0xffff_ffff }

func splitMix(z uint64) uint64 {
	z = (z + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
