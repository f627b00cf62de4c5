package pint

import "math/bits"

// histogram counts values exactly to their five leading bits: buckets are 3 %
// wide. Adding is two shifts and an increment. It belongs to one worker.
//
//	value   0 .. 31      32 .. 63     64, 66 .. 126     128, 132 .. 252    ...
//	bucket  0 .. 31      32 .. 63     64 .. 95          96 .. 127          ...
type histogram struct {
	counts  [histogramBuckets]uint64
	total   uint64
	highest uint64
}

const (
	histogramBits = 5
	// Values of 2^40 and more, 18 minutes, fall into the last bucket.
	histogramTop     = 40
	histogramBuckets = (histogramTop - histogramBits + 1) << histogramBits
)

func (h *histogram) add(v uint64) {
	h.counts[bucketOf(v)]++
	h.total++
	h.highest = max(h.highest, v)
}

// addMany adds a value n times.
func (h *histogram) addMany(v, n uint64) {
	if n == 0 {
		return
	}
	h.counts[bucketOf(v)] += n
	h.total += n
	h.highest = max(h.highest, v)
}

// bucketOf is v itself below 32; above, the place of the leading bit and the
// five bits behind it.
func bucketOf(v uint64) int {
	v = min(v, 1<<histogramTop-1)
	shift := max(bits.Len64(v)-1-histogramBits, 0)
	return shift<<histogramBits + int(v>>shift)
}

// valueOf is the middle of a bucket.
func valueOf(bucket int) float64 {
	if bucket < 2<<histogramBits {
		return float64(bucket)
	}
	shift := bucket>>histogramBits - 1
	low := uint64(bucket-shift<<histogramBits) << shift
	return float64(low) + float64(uint64(1)<<shift-1)/2
}

// merge adds what another one counted.
func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.highest = max(h.highest, o.highest)
}

// quantile returns the value of which a share of rank, in 0..1, is not above;
// 0 if the histogram is empty.
func (h *histogram) quantile(rank float64) float64 {
	at := uint64(rank * float64(h.total))
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen > at {
			return min(valueOf(i), float64(h.highest))
		}
	}
	return float64(h.highest)
}
