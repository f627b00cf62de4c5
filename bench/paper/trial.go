package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
)

// sample is a measure of many runs, sorted.
type sample []float64

func (s sample) mean() float64 {
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	return sum / float64(len(s))
}

// quantile is the smallest value that a fraction q of the runs do not exceed.
func (s sample) quantile(q float64) float64 {
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// quantileInterval is half of the 95 % confidence interval of a quantile: how many runs are below it is binomial, so that two standard deviations of
// that number on either side are the ranks of the interval's ends.
func (s sample) quantileInterval(q float64) float64 {
	deviation := 2 * math.Sqrt(q*(1-q)/float64(len(s)))
	return (s.quantile(min(q+deviation, 1)) - s.quantile(max(q-deviation, 0))) / 2
}

// shareHalf is half of the 95 % confidence interval of a share of n (Wilson, "Probable inference, the law of succession, and statistical inference", 1927).
func shareHalf(share, n float64) float64 {
	const z = 1.96
	return z / (1 + z*z/n) * math.Sqrt((share*(1-share)+z*z/(4*n))/n)
}

// groupedMedian is the median of whole numbers as of grouped data: with the n values taken to
// spread evenly over steps of 1 around the numbers, it is
//
//	m - 1/2 + (n/2 - below) / at
//
// where m is the median, below of the values are smaller than m, and at of them are m. Thus it
// changes by parts of a step where the median jumps by a whole one.
func (s sample) groupedMedian() float64 {
	m := s.quantile(0.5)
	below, _ := slices.BinarySearch(s, m)
	upTo, _ := slices.BinarySearch(s, m+1)
	return m - 0.5 + (float64(len(s))/2-float64(below))/float64(upTo-below)
}

// trial is one run with its own randomness.
type trial func(r *rand.Rand) (float64, error)

// trials makes n runs on all cores. setup gives each worker a trial with
// its own scratch memory. The i-th run has the same randomness whichever worker does
// it, so the outcome depends on the seed and the name alone.
func trials(ctx context.Context, o Options, name string, n int, setup func() (trial, error)) (sample, error) {
	out := make(sample, n)
	base := hash.Bytes(o.Seed, []byte(name))
	var next atomic.Int64
	running, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), n) {
		run, err := setup()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		running.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				var err error
				if out[i], err = run(rand.New(rand.NewPCG(base, uint64(i)))); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			return nil
		})
	}
	if err := running.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.Sort(out)
	return out, nil
}

// decodeTrial counts the packets until the solver has one path left, which
// must be the right one. path draws the values of a run. The count is the
// smallest number of packets that suffices: more digests never make a unique
// path ambiguous, so it is searched for where the solver starts anew each time.
func decodeTrial(s *encode.Static, solver pintpath.Solver, path func(*rand.Rand) []uint64, limit int) trial {
	var obs []pintpath.Observation
	var sol pintpath.Solution
	var scratch encode.Scratch
	return func(r *rand.Rand) (float64, error) {
		values := path(r)
		obs = obs[:0]
		unique := func(n int) bool {
			for len(obs) < n {
				id := r.Uint64()
				obs = append(obs, pintpath.Observation{ID: id, Digest: s.Digest(&scratch, id, values)})
			}
			solver.Solve(obs[:n], len(values), &sol)
			return sol.Unique
		}
		n := 1
		if solver.Resumes() {
			for ; n <= limit && !unique(n); n++ {
			}
		} else {
			low := 0
			for ; n <= limit && !unique(n); n += n/2 + 1 {
				low = n
			}
			for high := n; low+1 < high; n = high {
				if m := (low + high) / 2; unique(m) {
					high = m
				} else {
					low = m
				}
			}
		}
		if n > limit || !unique(n) {
			return 0, fmt.Errorf("%d packets do not decode a path of %d hops", limit, len(values))
		}
		if !slices.Equal(sol.Path, values) {
			return 0, fmt.Errorf("path %v is decoded as %v", values, sol.Path)
		}
		return float64(n), nil
	}
}
