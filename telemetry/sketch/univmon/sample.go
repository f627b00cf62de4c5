package univmon

import (
	"cmp"
	"math"
	"slices"
)

// Flow is a heavy flow of some level, as an estimate: of one fragment, or of
// all fragments of a path.
type Flow struct {
	Hash  uint64
	Level int     // By Level.
	Value float64 // Packets or bytes.
}

// Sample is the k heaviest flows of each level's substream, from which any sum over
// all flows follows.
//
// A flow that is among the k heaviest from substream l upwards was there with a chance
// of 2^-l, so it represents 2^l flows like it (the paper's recursion, in
// closed form). Where a substream has fewer than k flows, all of them are in the
// sample. The standard errors are those of sampling; what the estimates of single
// flows err by comes on top.
type Sample struct {
	flows []weighted // Heaviest first.
}

type weighted struct {
	Flow
	weight float64 // 2^l
}

// NewSample takes candidates of all levels, each flow once, and keeps the k
// heaviest of each substream. Candidates that are missing (because a table was
// too small) make its sums too low. Values below 1 are taken as 1: who is a
// candidate was seen.
func NewSample(k int, flows []Flow) *Sample {
	sorted := slices.Clone(flows)
	slices.SortFunc(sorted, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Hash, b.Hash))
	})
	var heavier [MaxLevels]int // Flows before this one, of each substream.
	s := &Sample{}
	for _, f := range sorted {
		f.Value = max(f.Value, 1)
		first := MaxLevels
		for l := f.Level; l >= 0; l-- {
			if heavier[l] < k {
				first = l
			}
			heavier[l]++
		}
		if first < MaxLevels {
			s.flows = append(s.flows, weighted{f, math.Ldexp(1, first)})
		}
	}
	return s
}

// Sum estimates the sum of g over all flows, with its standard error: that of
// Horvitz and Thompson, given the k-th largest flow of each substream.
func (s *Sample) Sum(g func(value float64) float64) (sum, stderr float64) {
	variance := 0.0
	for i := range s.flows {
		f := &s.flows[i]
		y := g(f.Value)
		sum += f.weight * y
		variance += f.weight * (f.weight - 1) * y * y
	}
	return sum, math.Sqrt(variance)
}

// Cardinality estimates the number of flows (F0). Its relative standard error is about
// 1/sqrt(k).
func (s *Sample) Cardinality() (flows, stderr float64) {
	return s.Sum(func(float64) float64 { return 1 })
}

// Entropy estimates the entropy of the flows' shares of total, in bits. Fragment.Total is
// exact and better than what the sample would estimate for it. No total, no
// entropy: zero.
func (s *Sample) Entropy(total float64) (bits, stderr float64) {
	if total <= 0 {
		return 0, 0
	}
	sum, stderr := s.Sum(func(v float64) float64 { return v * math.Log2(v) })
	return max(0, math.Log2(total)-sum/total), stderr / total
}

// Total estimates the sum of all values (F1).
func (s *Sample) Total() (total, stderr float64) {
	return s.Sum(func(v float64) float64 { return v })
}

// SecondMoment estimates F2. The one of a fragment, from all of its cells, is better
// where few flows do not make up most of it.
func (s *Sample) SecondMoment() (f2, stderr float64) {
	return s.Sum(func(v float64) float64 { return v * v })
}

// Heavy appends the flows of at least the threshold, heaviest first. Those among the k
// heaviest of all are complete; a sample of the lighter ones is left out.
func (s *Sample) Heavy(dst []Flow, threshold float64) []Flow {
	for i := range s.flows {
		if s.flows[i].Value < threshold {
			break
		}
		if s.flows[i].weight == 1 {
			dst = append(dst, s.flows[i].Flow)
		}
	}
	return dst
}
