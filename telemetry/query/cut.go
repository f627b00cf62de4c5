package query

import (
	"sort"

	"github.com/weirswitch/weir/telemetry/oblivious"
)

// defaultEntries is how many entries of samples are joined at most: the volume's relative
// error by them alone is then about 1/1000, and joining takes half a second.
const defaultEntries = 1 << 20

// cut keeps the samples' entries of the smallest ranks, at most so many of all samples
// together, by lowering the thresholds of those that are above one common threshold: the
// largest number below which there are not more. Samples themselves are not changed.
//
// Whether an entry stays depends on the others only by that threshold, which does not
// change while its rank moves below it; so entries represent as many packets as before, by
// their new thresholds (as in bottom-k samples; Cohen and Kaplan, 2007).
func cut(samples []*oblivious.Sample, most int) []*oblivious.Sample {
	low, high, total := make([]int, len(samples)), make([]int, len(samples)), 0
	for i, s := range samples {
		high[i] = len(s.Entries)
		total += len(s.Entries)
	}
	if total <= most {
		return samples
	}
	// Bit by bit, from the top: between low and high is the place of the threshold in
	// each sample, so that later bits look at few entries.
	threshold, at := uint64(0), make([]int, len(samples))
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		try, below := threshold|bit, 0
		for i, s := range samples {
			part := s.Entries[low[i]:high[i]]
			at[i] = low[i] + sort.Search(len(part), func(k int) bool { return part[k].Rank.Value >= try })
			below += at[i]
		}
		if below <= most {
			threshold = try
			copy(low, at)
		} else {
			copy(high, at)
		}
	}
	limit := oblivious.Rank{Value: threshold}
	cut := make([]*oblivious.Sample, len(samples))
	for i, s := range samples {
		if cut[i] = s; s.Threshold.Compare(limit) > 0 {
			fewer := *s
			fewer.Threshold, fewer.Entries, fewer.Seen = limit, s.Entries[:low[i]], s.Seen[:min(low[i], len(s.Seen))]
			cut[i] = &fewer
		}
	}
	return cut
}
