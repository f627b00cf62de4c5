package hash

// Member is a member of a family, with what its seed makes computed once: for the hashes of whole batches. It gives the
// values that the family gives under the seed. The zero value is the member of XX with seed 0. It is a value, to be copied freely;
// it holds no key, but must not be shown, as it tells those of aes apart.
type Member struct {
	family Family
	seed   uint64
	crc    key
	aes    *schedule
	d1, d2 block // of aes, for one, two
	d5     block // and five words
}

// Member makes the member with a seed. The family must be Known.
func (f Family) Member(seed uint64) Member {
	m := Member{family: f, seed: seed}
	switch {
	case f == CRC:
		m.crc = keyOf(seed)
	case f != XX:
		m.aes = f.schedule()
		m.d1, m.d2, m.d5 = m.aes.delta(seed, 1), m.aes.delta(seed, 2), m.aes.delta(seed, 5)
	}
	return m
}

// Family returns the member's family, and Seed its seed.
func (m *Member) Family() Family { return m.family }
func (m *Member) Seed() uint64   { return m.seed }

// Uint64s is Family.Uint64s.
func (m *Member) Uint64s(dst, a []uint64) {
	switch {
	case m.aes != nil:
		m.aes.many1(dst, m.d1, a)
	case m.family == CRC:
		m.crc.many(dst, sum{}, [][]uint64{a})
	default:
		Uint64s(dst, m.seed, a)
	}
}

// Uint64x2s is Family.Uint64x2s.
func (m *Member) Uint64x2s(dst, a, b []uint64) {
	switch {
	case m.aes != nil:
		m.aes.many2(dst, m.d2, a, b)
	case m.family == CRC:
		m.crc.many(dst, sum{}, [][]uint64{a, b})
	default:
		Uint64x2s(dst, m.seed, a, b)
	}
}

// Uint64sBehind is Family.Uint64sBehind.
func (m *Member) Uint64sBehind(dst []uint64, a uint64, b []uint64) {
	switch {
	case m.aes != nil:
		d := m.d2
		d[1] ^= a
		m.aes.many1(dst, d, b)
	case m.family == CRC:
		m.crc.many(dst, sum{}.add(a), [][]uint64{b})
	default:
		Uint64s(dst, Behind(m.seed, a), b)
	}
}

// Uint64x5s is Family.Uint64x5s.
func (m *Member) Uint64x5s(dst, a, b, c, d, e []uint64) {
	switch {
	case m.aes != nil:
		m.aes.many5(dst, m.d5, &[5][]uint64{a, b, c, d, e})
	case m.family == CRC:
		m.crc.many(dst, sum{}, [][]uint64{a, b, c, d, e})
	default:
		Uint64x5s(dst, m.seed, a, b, c, d, e)
	}
}
