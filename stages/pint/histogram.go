package pint

import (
	"math/bits"

	"github.com/weirswitch/weir/pipeline/packet"
)

// histogram counts values exactly to the six bits behind the leading one: buckets are 0.8 to
// 1.6 % wide. Adding is two shifts and an increment. It belongs to one worker.
//
//	value   0 .. 63      64 .. 127    128, 130 .. 254     256, 260 .. 508    ...
//	bucket  0 .. 63      64 .. 127    128 .. 191          192 .. 255         ...
type histogram struct {
	counts  [histogramBuckets]uint64
	total   uint64
	highest uint64
}

const (
	histogramBits = 6
	// Values of 2^40 and more, 18 minutes, fall into the last bucket.
	histogramTop     = 40
	histogramBuckets = (histogramTop - histogramBits + 1) << histogramBits
)

func (h *histogram) add(v uint64) {
	h.counts[bucketOf(v)]++
	h.total++
	h.highest = max(h.highest, v)
}

// addEach adds how long each of some packets has waited when it leaves, the first at a time and each one so much after the one in front: as long
// as the first, if nothing differs.
func (h *histogram) addEach(pkts []packet.Packet, leaves, each int64, first, differ uint64) {
	if differ == 0 {
		h.counts[bucketOf(first)] += uint64(len(pkts))
		h.total += uint64(len(pkts))
		h.highest = max(h.highest, first)
		return
	}
	for i := range pkts {
		h.add(uint64(max(0, leaves-pkts[i].Arrival)))
		leaves += each
	}
}

// bucketOf is v itself below 64; above, the place of the leading bit and the
// six bits behind it.
func bucketOf(v uint64) int {
	v = min(v, 1<<histogramTop-1)
	shift := max(bits.Len64(v)-1-histogramBits, 0)
	return shift<<histogramBits + int(v>>shift)
}

// boundsOf are the least value of a bucket and how many it has.
func boundsOf(bucket int) (low, width uint64) {
	if bucket < 2<<histogramBits {
		return uint64(bucket), 1
	}
	shift := bucket>>histogramBits - 1
	return uint64(bucket-shift<<histogramBits) << shift, 1 << shift
}

// merge adds what another one counted.
func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.highest = max(h.highest, o.highest)
}

// quantile returns the value of which a share of rank, in 0..1, is not above,
// as if the values of a bucket were evenly spread; 0 if the histogram is empty.
func (h *histogram) quantile(rank float64) float64 {
	at := uint64(rank * float64(h.total))
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen > at {
			low, width := boundsOf(i)
			part := (float64(at-(seen-n)) + 0.5) / float64(n)
			return min(float64(low)+part*float64(width-1), float64(h.highest))
		}
	}
	return float64(h.highest)
}
