package policer

import "github.com/weirswitch/weir/pipeline/limiter"

// bucket is a port's token bucket; its tokens are bits.
type bucket struct {
	limiter.Bucket
	rateBits int64
}

func (k *bucket) set(rateBits, burstBytes int64) {
	k.rateBits = rateBits
	k.Set(uint64(rateBits), 8*uint64(burstBytes))
}
