package l2

import (
	"fmt"
	"math/bits"
)

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
// matters. A free slot of the table has key 0, which no address has.
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

// hashKey spreads keys over 64 bits: both halves of a 128-bit product, joined,
// twice. Once is not enough: addresses that follow each other give products that
// do too, and one factor in eight crowds them into few buckets.
func hashKey(key uint64, seed hashSeed) uint64 {
	hi, lo := bits.Mul64(key^seed.mask, seed.factor)
	hi, lo = bits.Mul64(hi^lo, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// hashSeed is what makes the hash of one table its own.
type hashSeed struct{ mask, factor uint64 }

// newHashSeed makes both words from a seed, by the finaliser of SplitMix64,
// since a factor with few bits set would hardly mix. An even one would lose a bit.
func newHashSeed(seed uint64) hashSeed {
	return hashSeed{splitMix(seed), splitMix(seed+1) | 1}
}

func splitMix(z uint64) uint64 {
	z = (z + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
