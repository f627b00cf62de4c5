package oblivious

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Rank orders the entries of all samples of a kind, unit, seed and family: the smaller
// are kept. No two entries have the same rank, as the id decides between equal
// values, and the ranks of one packet increase strictly.
type Rank struct {
	// Value is the number drawn: for packets and flows, a fraction of 2^64; for
	// bytes by NWPS, the fraction over the bytes; for bytes by UWRA, an exponential
	// variable with 58 bits behind the point.
	Value uint64
	// ID is the packet id.
	ID uint64
}

// maxRank is the threshold of a sample that lacks nothing.
var maxRank = Rank{math.MaxUint64, math.MaxUint64}

// Compare is negative, zero or positive as r is smaller, equal or larger.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(r.Value, o.Value), cmp.Compare(r.ID, o.ID))
}

// less is Compare below 0, for loops in which the difference counts.
func (r Rank) less(o Rank) bool { return r.Value < o.Value || r.Value == o.Value && r.ID < o.ID }

// ranker draws the ranks of packets.
type ranker struct {
	seed   uint64
	family hash.Family
	member hash.Member
	// A packet's weight is bytes&mask + one: 1, its bytes, or these and bothBytes.
	mask, one uint64
	// shift makes a rank's scale of a hash's: 64 bits behind the point, or
	// exponentialBits.
	shift uint8
	kind  Kind
	bytes bool // weights depend on bytes
}

func newRanker(c Config) ranker {
	r := ranker{seed: c.rankSeed(), family: c.Hash, member: c.Hash.Member(c.rankSeed()), one: 1, kind: c.Kind}
	if c.Unit == Bytes {
		r.mask, r.one, r.bytes = math.MaxUint64, 0, true
		if c.Kind == UWRA {
			r.shift = 64 - exponentialBits
		}
	}
	if c.Unit == Both {
		r.mask, r.one, r.bytes = math.MaxUint64, bothBytes, true
	}
	return r
}

// admits is the test that most packets end at: whether a packet's first rank
// may be at most the limit. The first rank is h/w, rounded down, or with UWRA at
// least that, since the smallest of w numbers is -ln(1-h)/w and so above h/w;
// and h/w <= limit is h <= limit*w + w-1. The excess that UWRA admits is at
// most limit*w/2 of what passes, and is refused when its rank is drawn.
func (r *ranker) admits(limit, id uint64, bytes uint32) bool {
	w := uint64(bytes)&r.mask + r.one
	hi, lo := bits.Mul64(r.coarse(limit), w)
	lo, carry := bits.Add64(lo, w-1, 0)
	if r.family == hash.XX { // inlined
		return hi+carry != 0 || hash.Uint64(r.seed, id)>>(r.shift&63) <= lo
	}
	return hi+carry != 0 || r.family.Uint64(r.seed, id)>>(r.shift&63) <= lo
}

// coarse is the limit that admits compares with: of crc, in samples that P4 targets take
// too, its high half, as these compare 32 bits. What it lets pass beyond is refused when its
// rank is drawn.
func (r *ranker) coarse(limit uint64) uint64 {
	if r.family == hash.CRC && !r.bytes {
		return limit | math.MaxUint32
	}
	return limit
}

// admitBlock is how many packets admitsEach hashes at once.
const admitBlock = 64

// admitsEach is admits of the first n packets of a block at once, as hashing many costs a
// fraction of as many single hashes. It returns a bit for each that passes. Few do, and which is random: so no branch
// depends on it.
// hashes is memory for it, and bytes are weights, where these depend on bytes.
func (r *ranker) admitsEach(limit uint64, hashes, ids *[admitBlock]uint64, bytes *[admitBlock]uint32, n int) (m uint64) {
	n = min(n, admitBlock)
	if n <= 0 {
		return 0
	}
	r.member.Uint64s(hashes[:n], ids[:n])
	if !r.bytes {
		limit = r.coarse(limit)
		for i, h := range hashes[:n] {
			m |= bit(h <= limit) << (i & 63)
		}
		return m
	}
	if wide {
		return wideAdmits(hashes, bytes, limit, uint64(r.shift), n) & (1<<n - 1)
	}
	shift := r.shift & 63
	for i, h := range hashes[:n] {
		w := uint64(bytes[i])
		hi, lo := bits.Mul64(limit, w)
		lo, carry := bits.Add64(lo, w-1, 0)
		if hi+carry != 0 {
			lo = math.MaxUint64
		}
		m |= bit(h>>shift <= lo) << (i & 63)
	}
	return m
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// first returns the first rank value of a packet of w > 0 units, and how many
// ranks it has.
func (r *ranker) first(id, w uint64) (value, n uint64) {
	h := r.family.Uint64(r.seed, id)
	switch {
	case !r.bytes:
		return h, 1
	case r.kind == UWRA:
		return exponential(h) / w, w
	}
	return h / w, 1
}

// next returns the j-th rank value, 0 < j < w, of UWRA behind the one before.
// The gap between the order statistics of w exponential variables is an
// exponential variable over the number that is left. It reports false if the
// value would be beyond the limit.
func (r *ranker) next(before, limit, id, w, j uint64) (uint64, bool) {
	h := r.family.Uint64x2(r.seed, id, j)
	left := w - j
	// The linear bound of admits, which saves most of the logarithms.
	hi, lo := bits.Mul64(limit-before, left)
	lo, carry := bits.Add64(lo, left-1, 0)
	if hi+carry == 0 && h>>r.shift > lo {
		return 0, false
	}
	value, overflow := bits.Add64(before, max(exponential(h)/left, 1), 0)
	return value, overflow == 0 && value <= limit
}

// probability is the chance that an entry of the given bytes has a rank value
// below t.
func (r *ranker) probability(t uint64, bytes uint32) float64 {
	const whole = 1 << 64
	switch {
	case !r.bytes:
		return float64(t) / whole
	case r.kind == UWRA:
		return -math.Expm1(-float64(t) / (1 << exponentialBits))
	}
	return min(1, float64(t)*float64(uint64(bytes)&r.mask+r.one)/whole)
}
