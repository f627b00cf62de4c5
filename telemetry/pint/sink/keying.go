package sink

import (
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// keying makes the keys of a sketch from codes and by what these were rounded, as that says more of a value than its code alone (Likeliest): a key
// has a code, and in the bits that are left of its bytes the complement of the rounding, so that keys are in the order of the least values that they may stand for.
//
//	key:   code | ^rounding     in 1, 2 or 4 bytes
type keying struct {
	bytes int
	low   int // bits of the rounding; negative: so many of the code are left out
}

func newKeying(c *encode.Codec) keying {
	k := keying{bytes: 1}
	for k.bytes < 4 && 8*k.bytes < c.Bits() {
		k.bytes *= 2
	}
	k.low = min(8*k.bytes-c.Bits(), roundingBits)
	if k.low > 0 && !c.RoundsAtRandom() || k.low < leastRounding && k.low > 0 || c.Bits() >= likeliestBits && k.low > 0 {
		k.low = 0
	}
	return k
}

// roundingBits are those of encode.RoundOne; of fewer than leastRounding hardly more is known than without.
const roundingBits, leastRounding = 16, 2

// rounded reports whether keys say how codes were rounded.
func (k keying) rounded() bool { return k.low > 0 }

func (k keying) key(code, rounding uint64) uint64 {
	if k.low < 0 {
		return code >> -k.low
	}
	return code<<k.low | (encode.RoundOne-1-rounding)>>(roundingBits-k.low)
}

func (k keying) code(key uint64) uint64 {
	if k.low < 0 {
		return key << -k.low
	}
	return key >> k.low
}

// rounding is the middle of those that a key may have been made of.
func (k keying) rounding(key uint64) uint64 {
	least := (^key & (1<<k.low - 1)) << (roundingBits - k.low)
	return least + 1<<(roundingBits-k.low)/2
}
