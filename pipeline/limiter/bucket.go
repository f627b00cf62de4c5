package limiter

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Bucket is a token bucket that several workers may share. Its state is one
// number, the time at which it would be empty had it been filled without a bound:
// taking tokens moves it forward by the time that they take at the rate (the virtual
// scheduling form of the leaky bucket, ITU-T I.371). So one compare-and-swap per
// batch is all there is to agree on.
//
// The zero value has no limit. Set comes before the first Take; it makes the
// bucket full.
type Bucket struct {
	emptyAt atomic.Int64 // nanoseconds of Take's clock
	rate    uint64       // tokens per second; 0: no limit
	burst   uint64
	burstNs int64
	_       [32]byte // other buckets are other workers' business
}

// Set limits to rate tokens per second, 1 to 10^12, and burst tokens at once, at
// most what the rate gives in an hour.
func (k *Bucket) Set(rate, burst uint64) {
	k.emptyAt.Store(math.MinInt64 / 2) // full whatever the clock says
	k.rate, k.burst = rate, burst
	k.burstNs = k.span(burst)
}

// span is how long the rate takes for some tokens, in ns, rounded up.
func (k *Bucket) span(tokens uint64) int64 {
	hi, lo := bits.Mul64(tokens, 1e9)
	q, rest := bits.Div64(hi, lo, k.rate)
	if rest != 0 {
		q++
	}
	return int64(q)
}

// skew is by how much the clocks of workers may differ, in ns: they are read once
// per batch, and a worker may be interrupted behind that. A clock further back than
// that has been stepped.
const skew = 250e6

// Take takes up to want tokens at the time now and returns how many it got.
// After a step of the clock back the bucket is empty, for skew at most; after a
// step ahead it is full.
func (k *Bucket) Take(now int64, want uint64) (got uint64) {
	if k.rate == 0 {
		return want
	}
	for {
		was := k.emptyAt.Load()
		if was > now && was-now < skew {
			return 0 // a worker with a later clock emptied it
		}
		// Not earlier than a full bucket, nor later than an empty one.
		at := min(max(was, now-k.burstNs), now)
		hi, lo := bits.Mul64(uint64(now-at), k.rate)
		tokens, _ := bits.Div64(hi, lo, 1e9)
		got = min(want, k.burst, tokens)
		if got == 0 && at == was {
			return 0
		}
		if k.emptyAt.CompareAndSwap(was, at+k.span(got)) {
			return got
		}
	}
}

// GiveBack returns tokens of those that a Take gave, unused of taken ones: the
// bucket is as if they had never been taken.
func (k *Bucket) GiveBack(taken, unused uint64) {
	if k.rate != 0 {
		k.emptyAt.Add(k.span(taken-unused) - k.span(taken))
	}
}

// Level is how empty the bucket is, for Resume: the time at which it would be empty, of Take's clock. Without a limit it is that of a full one.
func (k *Bucket) Level() int64 {
	if k.rate == 0 {
		return math.MinInt64 / 2
	}
	return k.emptyAt.Load()
}

// Resume makes the bucket as empty as another one was, by its Level on the same clock, if it is not emptier; whatever the level, it is never
// more than full, nor empty for longer than skew. Their rates may differ: what the other one had gathered in some time is what this one
// gathers in it. Set comes before.
func (k *Bucket) Resume(level int64) {
	for {
		was := k.emptyAt.Load()
		if level <= was || k.emptyAt.CompareAndSwap(was, level) {
			return
		}
	}
}
