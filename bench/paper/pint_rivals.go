package paper

import (
	"math/bits"
	"math/rand/v2"
)

// The rivals of figure 10 are IP traceback schemes, both improved by reservoir
// sampling (Sattari, 2007): a packet carries the mark of a hop that is uniform
// on the path, not one that is biased to the last hops. Both have 16 bits per
// packet. What they need is a matter of combinatorics; no scheme is charged
// for false positives, nor for distinguishing paths of several sources, so
// the counts favour the rivals.

// ppmTrial is probabilistic packet marking with compressed edge fragments
// (Savage, Wetherall, Karlin, Anderson, SIGCOMM 2000, section 4.3): an address
// and its hash make 64 bits, of which a packet carries one of 8 fragments of 8
// bits beside 3 bits of offset and 5 of distance. The path is known when all
// fragments of all hops have arrived.
func ppmTrial(hops int) trial {
	have := make([]uint8, hops)
	return func(r *rand.Rand) (float64, error) {
		clear(have)
		for missing, packets := 8*hops, 1.0; ; packets++ {
			hop, fragment := r.IntN(hops), r.IntN(8)
			if have[hop]>>fragment&1 == 0 {
				have[hop] |= 1 << fragment
				if missing--; missing == 0 {
					return packets, nil
				}
			}
		}
	}
}

// ams2Trial is advanced marking scheme II (Song, Perrig, INFOCOM 2001): a
// packet carries 8 bits of one of 8 hash functions of the edge, 3 bits that
// name the function, and 5 of distance. The victim has a map of the network,
// and accepts a router when m different functions agree with it.
func ams2Trial(hops, m int) trial {
	have := make([]uint8, hops)
	return func(r *rand.Rand) (float64, error) {
		clear(have)
		for missing, packets := hops, 1.0; ; packets++ {
			hop, function := r.IntN(hops), r.IntN(8)
			if have[hop]>>function&1 == 0 {
				have[hop] |= 1 << function
				if bits.OnesCount8(have[hop]) == m {
					if missing--; missing == 0 {
						return packets, nil
					}
				}
			}
		}
	}
}
