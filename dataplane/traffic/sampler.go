package traffic

import "math"

// A bucket is a run of neighbouring flows that are drawn with equal probability.
type bucket struct {
	base, width uint32
}

// column is one column of an alias table (Walker 1977; built in linear time as by
// Vose, IEEE Trans. Softw. Eng. 17(9), 1991). A 32-bit number below threshold gives
// the column's own bucket, any other the alias.
type column struct {
	threshold  uint32
	own, alias bucket
}

const (
	// exactRanks flows at the head of Zipf's law have their own bucket.
	exactRanks = 4096
	// bucketsPerE is the number of tail buckets while the rank grows by e. Within a
	// bucket the true probability varies by a factor of at most
	// 1 + Exponent/bucketsPerE, which is the largest error of the draw.
	bucketsPerE = 1024
)

// zipfColumns builds the alias table of Zipf's law over flows 0 to n-1. Buckets keep
// it at about 12,000 columns (250 kB) for 10 million flows, so that a draw stays in
// the cache; a table with a column per flow would cost a miss for each packet.
func zipfColumns(n int, exponent float64) []column {
	buckets, weights := zipfBuckets(n, exponent)
	return aliasColumns(buckets, weights)
}

func zipfBuckets(n int, exponent float64) (buckets []bucket, weights []float64) {
	for base := 0; base < n; {
		width := 1
		if base >= exactRanks {
			width = min(base/bucketsPerE, n-base)
		}
		weight := 0.0
		for f := base; f < base+width; f++ {
			weight += math.Pow(float64(f+1), -exponent)
		}
		buckets = append(buckets, bucket{uint32(base), uint32(width)})
		weights = append(weights, weight)
		base += width
	}
	return buckets, weights
}

func aliasColumns(buckets []bucket, weights []float64) []column {
	n, sum := len(weights), 0.0
	for _, w := range weights {
		sum += w
	}
	columns := make([]column, n)
	share := make([]float64, n) // of a column's height that is still to be filled
	var small, large []int
	for i, w := range weights {
		columns[i] = column{math.MaxUint32, buckets[i], buckets[i]}
		share[i] = w / sum * float64(n)
		if share[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		columns[s].threshold = uint32(min(share[s]*(1<<32), math.MaxUint32))
		columns[s].alias = buckets[l]
		share[l] -= 1 - share[s]
		if share[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return columns
}
