package hash

import (
	"fmt"
	"strconv"
	"strings"
)

// Family names an implementation of the seeded family and, of aes, the key by its id: in the low byte the kind, in the
// high half the id. Switches that share digests, samples or sketches use the same one. The zero value is XX.
// Families are equal if kind and key id are.
type Family uint32

// The kinds, which are families too: AES alone has the key of zeros.
const (
	XX  Family = iota // XXH64: fast everywhere; can be steered by a host that knows the seed
	CRC               // CRCs around additions: what P4 targets can do; linear, so easy to steer
	AES               // AES under the network's key: cannot be steered without it
)

var familyNames = [...]string{XX: "xxhash", CRC: "crc", AES: "aes"}

// FamilyOf is the family of a kind with a key id, as records name it. It need not be Known.
func FamilyOf(kind Family, keyID uint16) Family { return kind&0xff | Family(keyID)<<16 }

// Kind is XX, CRC or AES, or what a record had that has no name.
func (f Family) Kind() Family { return f & 0xffff }

// KeyID is the id of the network's key (Network.ID); 0: of zeros.
func (f Family) KeyID() uint16 { return uint16(f >> 16) }

// String is the name in plans and configurations, of aes with the key's id if it has one: aes:1f2e.
func (f Family) String() string {
	switch {
	case !f.Valid():
		return fmt.Sprintf("Family(%d)", uint32(f))
	case f.KeyID() != 0:
		return fmt.Sprintf("%s:%04x", familyNames[f.Kind()], f.KeyID())
	}
	return familyNames[f]
}

// Valid reports whether there is such a family: numbers in records may be anything.
func (f Family) Valid() bool {
	return int(f.Kind()) < len(familyNames) && (f.KeyID() == 0 || f.Kind() == AES)
}

// Known reports whether the process can hash by the family: whether it is valid, and Keyed was called with its key.
// The hashes of other families panic.
func (f Family) Known() bool { return f.Valid() && lookup(f.KeyID()) != nil }

// Check says why the process cannot hash by the family, if so.
func (f Family) Check() error {
	switch {
	case !f.Valid():
		return fmt.Errorf("hash %v: choose %q, %q or %q", f, AES, XX, CRC)
	case !f.Known():
		return fmt.Errorf("hash %q: the network key with this id is not loaded: load it, or write %q for that of the switch", f, AES)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (f Family) MarshalText() ([]byte, error) {
	if !f.Valid() {
		return nil, fmt.Errorf("hash family %d: there are %q, %q and %q", uint32(f), XX, CRC, AES)
	}
	return []byte(f.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. The family need not be Known.
func (f *Family) UnmarshalText(text []byte) error {
	name, id, keyed := strings.Cut(string(text), ":")
	for i, kind := range familyNames {
		if kind != name {
			continue
		}
		k := Family(i)
		if !keyed {
			*f = k
			return nil
		}
		n, err := strconv.ParseUint(id, 16, 16)
		if err != nil || k != AES || len(id) != 4 {
			return fmt.Errorf("hash %q: only %q has a key, named by its id of four hexadecimal digits, as in aes:1f2e", text, AES)
		}
		*f = FamilyOf(k, uint16(n))
		return nil
	}
	return fmt.Errorf("hash %q: choose %q, %q or %q", text, AES, XX, CRC)
}

// Uint64 is the family's hash of one word.
func (f Family) Uint64(seed, a uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a))
	}
	if f != XX {
		return f.schedule().of1(seed, a)[0]
	}
	return Uint64(seed, a)
}

// Uint64x2 is the family's hash of two words.
func (f Family) Uint64x2(seed, a, b uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a).add(b))
	}
	if f != XX {
		return f.schedule().of2(seed, a, b)[0]
	}
	return Uint64x2(seed, a, b)
}

// Uint64x4 is the family's hash of four words.
func (f Family) Uint64x4(seed, a, b, c, d uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a).add(b).add(c).add(d))
	}
	if f != XX {
		return f.schedule().of4(seed, a, b, c, d)[0]
	}
	return Uint64x4(seed, a, b, c, d)
}

// Uint64x5 is the family's hash of five words.
func (f Family) Uint64x5(seed, a, b, c, d, e uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a).add(b).add(c).add(d).add(e))
	}
	if f != XX {
		return f.schedule().of5(seed, a, b, c, d, e)[0]
	}
	return Uint64x5(seed, a, b, c, d, e)
}

// Uint64x8 is the family's hash of eight words.
func (f Family) Uint64x8(seed uint64, w *[8]uint64) uint64 {
	if f == CRC {
		m := sum{}
		for _, a := range w {
			m = m.add(a)
		}
		return crcOf(seed, m)
	}
	if f != XX {
		return f.schedule().of8(seed, w)[0]
	}
	return Uint64x8(seed, w)
}

// Uint64s is Uint64 of many inputs; see the function. Who hashes many batches under one seed asks for its Member once.
func (f Family) Uint64s(dst []uint64, seed uint64, a []uint64) {
	m := f.Member(seed)
	m.Uint64s(dst, a)
}

// Uint64x2s is Uint64x2 of many inputs; see the function.
func (f Family) Uint64x2s(dst []uint64, seed uint64, a, b []uint64) {
	m := f.Member(seed)
	m.Uint64x2s(dst, a, b)
}

// Uint64sBehind is Uint64x2 of the same word and each of many behind it.
func (f Family) Uint64sBehind(dst []uint64, seed, a uint64, b []uint64) {
	m := f.Member(seed)
	m.Uint64sBehind(dst, a, b)
}

// Uint64x5s is Uint64x5 of many inputs; see the function.
func (f Family) Uint64x5s(dst []uint64, seed uint64, a, b, c, d, e []uint64) {
	m := f.Member(seed)
	m.Uint64x5s(dst, a, b, c, d, e)
}
