package oblivious

// Union merges samples without leaving out an entry that could be used: each
// keeps its own threshold, the largest of the samples that have it. A
// packet is sampled if its rank is below the threshold of any switch that it
// passed; those of its switches that do not have it have smaller thresholds
// than its rank, so the largest one is known without its path. (This goes
// beyond the paper, with what Cohen and Kaplan call discarded samples.)
//
// The result has Limits. It gives estimates, and cannot be merged or encoded.
func Union(samples ...*Sample) (*Sample, error) {
	out, err := empty(samples)
	if err != nil {
		return nil, err
	}
	c := newCursors(samples)
	out.Limits = []uint64{}
	for c.next(maxRank) {
		if c.limit.Compare(c.entry.Rank) <= 0 {
			continue // it is a threshold wherever it is
		}
		out.Entries = append(out.Entries, c.entry)
		out.Limits = append(out.Limits, c.limit.Value)
	}
	return out, nil
}
