package oblivious

import (
	"math"
	"math/bits"
)

// qmax keeps the chi smallest of the ranks put into it, in constant time each
// (Ben Basat et al., "q-MAX", IMC 2019). It has room for more than chi; when
// that is used up, maintenance drops what is beyond the chi-th smallest. With
// room for (1+gamma) chi, a put costs (1+gamma)/gamma looks at a rank in each of
// two sequential passes, however large chi is. The worst single put is a
// maintenance, (1+gamma) chi looks.
//
// Memory: 68 (1+gamma) chi bytes, and 16 to 32 (1+gamma) chi for the index.
type qmax struct {
	store
	size  int
	limit uint64 // no larger rank value is needed
	// histogram counts words by some of their bits.
	histogram [buckets]uint32
}

const (
	bucketBits  = 10
	buckets     = 1 << bucketBits
	bucketShift = 64 - bucketBits
)

func newQmax(size, capacity int) *qmax {
	return &qmax{store: newStore(capacity), size: size, limit: math.MaxUint64}
}

// put takes an entry of a rank value up to the limit, and reports whether it was
// new.
func (q *qmax) put(r Rank, bytes uint32, key *Key) bool {
	slot, found := q.index.claim(r, q.next(), q.values, q.ids)
	if found {
		q.settle(slot, bytes, key)
		return false
	}
	q.take()
	q.fill(slot, r, bytes, key)
	if q.full() {
		q.maintain()
	}
	return true
}

func (q *qmax) reset() {
	q.store.reset()
	q.limit = math.MaxUint64
}

// maintain drops what the size smallest do not need, and lowers the limit
// accordingly. All slots are in use, so none is free.
//
// Values are hashes, spread up to the limit, so one pass of counting them by
// their leading bits gives a limit that few values beyond the size smallest are
// below; the sample leaves those out. Where values are not spread, as while the
// limit is still far above them, the exact one is selected.
func (q *qmax) maintain() {
	clear(q.histogram[:])
	zeros := bits.LeadingZeros64(q.limit) & 63
	for _, v := range q.values {
		q.histogram[v<<zeros>>bucketShift]++
	}
	kept, at := 0, uint64(0)
	for ; kept < q.size; at++ {
		kept += int(q.histogram[at])
	}
	if room := len(q.values) - q.size; kept-q.size <= room/8 {
		q.limit = min(q.limit, (at<<bucketShift-1)>>zeros)
		q.drop()
	} else {
		value, below, equal := q.selectWord(q.values, nil, 0, q.size-1)
		q.limit = value
		q.drop()
		if keep := q.size - below; equal > keep {
			q.dropTies(value, keep)
		}
	}
	if q.index.crowded() {
		q.index.reset()
		for slot, v := range q.values {
			if v <= q.limit {
				q.index.add(Rank{v, q.ids[slot]}, uint32(slot))
			}
		}
	}
}

// drop gives back all slots beyond the limit. Which they are is random, so each
// is written where the next one belongs, with a step on only if it is one,
// instead of a branch that the processor would guess wrong.
func (q *qmax) drop() {
	free, n := q.free[:cap(q.free)], 0
	for slot, v := range q.values {
		free[n] = uint32(slot)
		if v > q.limit {
			n++
		}
	}
	q.free = free[:n]
}

// dropTies drops all but the first entries, by id, of just this value: more of
// them than there is room for.
func (q *qmax) dropTies(value uint64, keep int) {
	last, _, _ := q.selectWord(q.ids, q.values, value, keep-1)
	for slot, v := range q.values {
		if v == value && q.ids[slot] > last {
			q.remove(uint32(slot))
		}
	}
}

// selectWord returns the word that would be at index k if words were sorted, how many are
// smaller, and how many are equal to it. If of is not nil, only words whose place in it has the value
// count. It counts words by bucketBits of them at a time, from the highest: that needs no copy of
// them, at the price of up to seven passes.
func (q *qmax) selectWord(words, of []uint64, value uint64, k int) (word uint64, below, equal int) {
	for from := 64; from > 0; {
		shift := max(from-bucketBits, 0)
		mask := uint64(1)<<(from-shift) - 1
		clear(q.histogram[:])
		for i, w := range words {
			if w>>from == word && (of == nil || of[i] == value) {
				q.histogram[w>>shift&mask]++
			}
		}
		at := uint64(0)
		for ; below+int(q.histogram[at]) <= k; at++ {
			below += int(q.histogram[at])
		}
		word, equal, from = word<<(from-shift)|at, int(q.histogram[at]), shift
	}
	return word, below, equal
}
