package policer

import (
	"math/bits"
	"sync/atomic"
)

// bucket is a token bucket that several workers share. Its state is a single
// number, the time at which it would be empty had it been filled without a
// bound: taking n bytes moves it forward by the time that n bytes take at the
// rate (the virtual scheduling form of the leaky bucket, ITU-T I.371). So one
// compare-and-swap per batch is all there is to agree on.
type bucket struct {
	emptyAt atomic.Int64 // nanoseconds of the batch's clock
	_       [56]byte     // buckets of other ports are other workers' business

	rateBits   int64
	burstBytes int64
	burstNs    int64
}

func (k *bucket) set(rateBits, burstBytes int64) {
	k.rateBits, k.burstBytes = rateBits, burstBytes
	k.burstNs = k.span(burstBytes)
}

// span is how long the rate takes for some bytes, in ns, rounded up, so that the
// rate is never exceeded: it loses less than a nanosecond per batch.
func (k *bucket) span(bytes int64) int64 {
	hi, lo := bits.Mul64(uint64(bytes), 8e9)
	q, rest := bits.Div64(hi, lo, uint64(k.rateBits))
	if rest != 0 {
		q++
	}
	return int64(q)
}

// tokens is how many bytes the rate gives in a span of at most burstNs.
func (k *bucket) tokens(ns int64) int64 {
	hi, lo := bits.Mul64(uint64(ns), uint64(k.rateBits))
	q, _ := bits.Div64(hi, lo, 8e9)
	return int64(q)
}

// skew is by how much the clocks of workers may differ, in ns: they are read once
// per batch, and a worker may be interrupted behind that. A clock further back than
// that has been stepped.
const skew = 250e6

// take takes up to want bytes out of the bucket and returns how many it got.
// After a step of the clock back the bucket is empty, for skew at most; after a
// step ahead it is full.
func (k *bucket) take(now, want int64) (got int64) {
	for {
		was := k.emptyAt.Load()
		if was > now && was-now < skew {
			return 0 // a worker with a later clock emptied it
		}
		// Not earlier than a full bucket, nor later than an empty one.
		at := min(max(was, now-k.burstNs), now)
		got = min(want, k.burstBytes, k.tokens(now-at))
		if got == 0 && at == was {
			return 0
		}
		if k.emptyAt.CompareAndSwap(was, at+k.span(got)) {
			return got
		}
	}
}

// giveBack returns bytes of those that were taken.
func (k *bucket) giveBack(taken, bytes int64) { k.emptyAt.Add(k.span(taken-bytes) - k.span(taken)) }
