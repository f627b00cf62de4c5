package hash

import "fmt"

// Family names an implementation of the seeded family. Switches that share
// digests, samples or sketches use the same one. The zero value is XX.
type Family uint8

const (
	XX  Family = iota // XXH64: the fastest in software
	CRC               // CRCs around additions: what P4 targets can do
)

var familyNames = [...]string{XX: "xxhash", CRC: "crc"}

// String is the name in plans and configurations.
func (f Family) String() string {
	if int(f) >= len(familyNames) {
		return fmt.Sprintf("Family(%d)", uint8(f))
	}
	return familyNames[f]
}

// Valid reports whether there is such a family: numbers in records may be anything.
func (f Family) Valid() bool { return int(f) < len(familyNames) }

// MarshalText implements encoding.TextMarshaler.
func (f Family) MarshalText() ([]byte, error) {
	if !f.Valid() {
		return nil, fmt.Errorf("hash family %d: there are %q and %q", uint8(f), XX, CRC)
	}
	return []byte(familyNames[f]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Family) UnmarshalText(text []byte) error {
	for i, name := range familyNames {
		if name == string(text) {
			*f = Family(i)
			return nil
		}
	}
	return fmt.Errorf("hash %q: choose %q or %q", text, XX, CRC)
}

// Uint64 is the family's hash of one word.
func (f Family) Uint64(seed, a uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a))
	}
	return Uint64(seed, a)
}

// Uint64x2 is the family's hash of two words.
func (f Family) Uint64x2(seed, a, b uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a).add(b))
	}
	return Uint64x2(seed, a, b)
}

// Uint64x4 is the family's hash of four words.
func (f Family) Uint64x4(seed, a, b, c, d uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a).add(b).add(c).add(d))
	}
	return Uint64x4(seed, a, b, c, d)
}

// Uint64x5 is the family's hash of five words.
func (f Family) Uint64x5(seed, a, b, c, d, e uint64) uint64 {
	if f == CRC {
		return crcOf(seed, sum{}.add(a).add(b).add(c).add(d).add(e))
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
	return Uint64x8(seed, w)
}

// Uint64s is Uint64 of many inputs; see the function.
func (f Family) Uint64s(dst []uint64, seed uint64, a []uint64) {
	if f == XX {
		Uint64s(dst, seed, a)
		return
	}
	k := keyOf(seed)
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = k.hash(sum{}.add(a[i]))
	}
}

// Uint64x2s is Uint64x2 of many inputs; see the function.
func (f Family) Uint64x2s(dst []uint64, seed uint64, a, b []uint64) {
	if f == XX {
		Uint64x2s(dst, seed, a, b)
		return
	}
	k := keyOf(seed)
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = k.hash(sum{}.add(a[i]).add(b[i]))
	}
}

// Uint64sBehind is Uint64x2 of the same word and each of many behind it.
func (f Family) Uint64sBehind(dst []uint64, seed, a uint64, b []uint64) {
	if f == XX {
		Uint64s(dst, Behind(seed, a), b)
		return
	}
	k, first := keyOf(seed), sum{}.add(a)
	b = b[:len(dst)]
	for i := range dst {
		dst[i] = k.hash(first.add(b[i]))
	}
}

// Uint64x5s is Uint64x5 of many inputs; see the function.
func (f Family) Uint64x5s(dst []uint64, seed uint64, a, b, c, d, e []uint64) {
	if f == XX {
		Uint64x5s(dst, seed, a, b, c, d, e)
		return
	}
	k := keyOf(seed)
	n := len(dst)
	a, b, c, d, e = a[:n], b[:n], c[:n], d[:n], e[:n]
	for i := range dst {
		dst[i] = k.hash(sum{}.add(a[i]).add(b[i]).add(c[i]).add(d[i]).add(e[i]))
	}
}
