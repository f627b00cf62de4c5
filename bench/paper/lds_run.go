package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// The size of the paper's trace (Section 5). The paper does not state its flow
// sizes, but what Section 3.1 computes from them fixes a Pareto distribution: a
// share of 0.0437 with more than 50 packets, 53 packets on average, and a
// probability of small collisions that the approximation misses by a few tenths
// of a percent, which is so for shapes of about 0.65; with 0.8 it is 0.8 percent.
const (
	ldsPackets = 7_760_000
	ldsFlows   = 146_000
	ldsScale   = 0.4057
	ldsShape   = 0.65
	ldsLargest = 0.003
	ldsSeconds = 287 // 27,000 packets/s
)

// ldsTrace draws the trace over the given time. Telemetry sees it in one
// interval.
func ldsTrace(o Options, seconds float64) (*workload.Trace, error) {
	return workload.Synthetic{Packets: ldsPackets, Flows: ldsFlows, Shape: ldsShape, Largest: ldsLargest, Seconds: seconds, Seed: o.Seed}.Trace()
}

// ldsSmallTrace is the trace with the sizes fitted anew, to what Section 5.1 says of small flows: those of less than 100 packets
// have 20 % of the packets. The fit above gives them 8.3 %, and no Pareto distribution has this and what Section 3.1 computes; here
// 8 % of the flows have over 50 packets.
func ldsSmallTrace(o Options, seconds float64) (*workload.Trace, error) {
	return workload.Synthetic{Packets: ldsPackets, Flows: ldsFlows, Shape: ldsSmallShape, Largest: ldsLargest, Seconds: seconds, Seed: o.Seed}.Trace()
}

const ldsSmallShape = 0.857

// flowError is the relative error of a flow's mean delay; +Inf where there is
// no estimate.
type flowError struct {
	packets uint64
	level   float64 // the flow's mean delay over that of all packets
	err     float64
	class   int // of customer, in figure 12
}

// truth is what the receiver could know at best: the mean of the delays of the
// packets that it got, by flow and of all.
type truth struct {
	mean []float64 // NaN: no packet came
	all  float64
}

// crossing is a trace in flight from sender to receiver.
type crossing struct {
	trace  *workload.Trace
	delays delays
	loss   float64
	seed   uint64

	measured sync.Once
	is       truth
}

// crossings keeps those of a figure, so that the truth about each is measured
// once. It is safe for concurrent use.
type crossings struct {
	trace *workload.Trace
	known sync.Map // crossingKey -> *crossing
}

type crossingKey struct {
	delays delays
	loss   float64
	seed   uint64
}

func (c *crossings) of(d delays, loss float64, seed uint64) *crossing {
	x, _ := c.known.LoadOrStore(crossingKey{d, loss, seed}, &crossing{trace: c.trace, delays: d, loss: loss, seed: seed})
	return x.(*crossing)
}

// lost decides by the packet, independently of all else.
func (x *crossing) lost(id uint64) bool {
	return x.loss > 0 && float64(hash.Uint64x2(x.seed, ldsLossSeed, id)) < x.loss*(1<<64)
}

// arrivals calls f for each packet with its delay, and whether it is lost.
func (x *crossing) arrivals(f func(p workload.Packet, delayNs int64, lost bool)) {
	for i := range x.trace.Len() {
		p := x.trace.At(i)
		f(p, x.delays.of(x.seed, p.Flow, p.ID, p.TimeNs), x.lost(p.ID))
	}
}

// truth is measured packet by packet, on the first call.
func (x *crossing) truth() truth {
	x.measured.Do(func() {
		n := len(x.trace.Flows)
		sum, count, all, packets := make([]float64, n), make([]float64, n), 0.0, 0.0
		x.arrivals(func(p workload.Packet, d int64, lost bool) {
			if !lost {
				sum[p.Flow] += float64(d)
				count[p.Flow]++
				all += float64(d)
				packets++
			}
		})
		for f := range sum {
			sum[f] /= count[f]
		}
		x.is = truth{sum, all / packets}
	})
	return x.is
}

// errors compares estimates with the truth. Flows that lost all packets have
// no delay and are left out.
func (x *crossing) errors(estimate func(flow int) (float64, bool)) []flowError {
	t := x.truth()
	out := make([]flowError, 0, len(t.mean))
	for f, mean := range t.mean {
		if math.IsNaN(mean) {
			continue
		}
		e := flowError{packets: x.trace.Flows[f].Packets, level: mean / t.all, err: math.Inf(1)}
		if got, ok := estimate(f); ok {
			e.err = math.Abs(got-mean) / mean
		}
		out = append(out, e)
	}
	return out
}

// sketch compares two points that the crossing ran through, in one interval that its packets
// agree on at both ends, as with an interval bit. weight may be nil.
func (x *crossing) sketch(c lds.Config, weight func(flow uint32) uint32) (*lds.Difference, error) {
	c.IntervalNs = x.trace.DurationNs + 1e9
	sender, receiver, err := x.points(c, weight)
	if err != nil {
		return nil, err
	}
	return lds.Subtract(sender, receiver, lds.AnyDelay())
}

// points runs the crossing through two points.
func (x *crossing) points(c lds.Config, weight func(flow uint32) uint32) (sender, receiver *lds.Point, err error) {
	c.Seed = hash.Uint64(x.seed, c.Seed)
	if sender, err = lds.NewPoint(c); err != nil {
		return nil, nil, err
	}
	if receiver, err = lds.NewPoint(c); err != nil {
		return nil, nil, err
	}
	x.arrivals(func(p workload.Packet, d int64, lost bool) {
		w, flow := uint32(1), x.trace.Flows[p.Flow].Hash
		if weight != nil {
			w = weight(p.Flow)
		}
		sender.AddWeighted(flow, p.ID, p.TimeNs, p.Bytes, w)
		if !lost {
			receiver.AddWeighted(flow, p.ID, p.TimeNs+d, p.Bytes, w)
		}
	})
	if sender.Outside()+receiver.Outside() > 0 {
		return nil, nil, fmt.Errorf("%d packets fell outside the interval", sender.Outside()+receiver.Outside())
	}
	return sender, receiver, nil
}

// ldsErrors is sketch, and the errors of its estimates.
func (x *crossing) ldsErrors(c lds.Config, weight func(flow uint32) uint32, alpha float64) ([]flowError, error) {
	d, err := x.sketch(c, weight)
	if err != nil {
		return nil, err
	}
	return x.errors(func(f int) (float64, bool) {
		w := uint32(1)
		if weight != nil {
			w = weight(uint32(f))
		}
		e := d.Flow(x.trace.Flows[f].Hash, w, alpha)
		return e.MeanNs, e.HasDelay
	}), nil
}

// pick is the sorted errors of flows of low <= packets < high, in all runs.
func pick(runs []flowError, low, high uint64) sample {
	var s sample
	for _, e := range runs {
		if e.packets >= low && e.packets < high {
			s = append(s, e.err)
		}
	}
	slices.Sort(s)
	return s
}

// within is the share of flows whose error is at most bound.
func (s sample) within(bound float64) float64 {
	n, found := slices.BinarySearch(s, bound)
	for found && n < len(s) && s[n] == bound {
		n++
	}
	return float64(n) / float64(len(s))
}

// ldsJob is one measurement of a figure, to be repeated with other seeds.
type ldsJob struct {
	name string
	run  func(seed uint64) ([]flowError, error)
}

// ldsMeasure makes n runs of each job, two at a time, and joins the errors of
// a job's runs in their order, so that the outcome does not depend on which ends
// first.
func ldsMeasure(ctx context.Context, o Options, n int, jobs []ldsJob) ([][]flowError, error) {
	if o.Quick {
		n = 1
	}
	total := n * len(jobs)
	out, errs := make([][]flowError, total), make([]error, total)
	var next, done atomic.Int64
	var told sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < total && ctx.Err() == nil; i = int(next.Add(1) - 1) {
				j := jobs[i/n]
				told.Lock()
				o.progress(int(done.Load()), total, j.name)
				told.Unlock()
				// All jobs of a run have one seed, so that they measure the same packets.
				out[i], errs[i] = j.run(hash.Uint64x2(o.Seed, ldsProbeSeed, uint64(i%n)))
				done.Add(1)
			}
		})
	}
	wg.Wait()
	joined := make([][]flowError, len(jobs))
	for i := range out {
		if err := errs[i]; err != nil {
			return nil, fmt.Errorf("%s: %w", jobs[i/n].name, err)
		}
		joined[i/n] = append(joined[i/n], out[i]...)
	}
	return joined, ctx.Err()
}

// ldsInputs are the packets and the delays of figures 9 to 12: a drawn trace over the given time, a real one, and
// measured delays.
func ldsInputs(o Options, seconds float64) (synthetic, captured *crossings, measured *measuredDelays, err error) {
	drawn, err := ldsTrace(o, seconds)
	if err != nil {
		return nil, nil, nil, err
	}
	if measured, err = readDelays(o); err != nil {
		return nil, nil, nil, err
	}
	// The largest of the real traces.
	real, err := workload.Capture(filepath.Join(cmp.Or(o.Data, netsim.DataDir()), "traces", "realmix-snap128.pcap.gz"), o.Seed)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("a real trace: %w; set WEIR_SHARED to the folder of the shared data", err)
	}
	return &crossings{trace: drawn}, &crossings{trace: real}, measured, nil
}
