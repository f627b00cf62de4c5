package paper

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// obliviousFig11 measures packets per second through a sampler, on one core,
// hash of the packet id included: the processor time of one thread, the best of
// several passes over the trace, as others use the machine too. The reference
// is what the paper states for C++.
//
// qmax_over_heap compares the work of updates alone, of DUS: what enters in the
// course of the trace is noted first, for each of the two structures, and then
// given to it again. What does not enter costs both the same hash and
// comparison, and over a long trace hides all else: qmax_over_heap.trace is the
// ratio over the whole trace. The heap here is a better one than the paper's
// DUS had, which moved whole entries: it sifts ranks only, and replaces the top
// in one go.
func obliviousFig11(ctx context.Context, o Options) ([]Row, error) {
	return obliviousThroughput(ctx, o, fig11Source, fig11Cases)
}

// obliviousFig12 is the same for bytes.
func obliviousFig12(ctx context.Context, o Options) ([]Row, error) {
	return obliviousThroughput(ctx, o, fig12Source, fig12Cases)
}

type throughputCase struct {
	name      string
	config    oblivious.Config
	reference float64 // Mpps, 0: none
	source    string
}

const (
	fig11Source = "routing-oblivious Fig. 11, C++"
	fig12Source = "routing-oblivious Fig. 12, C++"
)

var (
	fig11Cases = []throughputCase{
		{"uwra", oblivious.Config{Kind: oblivious.UWRA, Unit: oblivious.Packets}, 11, fig11Source},
		{"nwps", oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets}, 11, fig11Source},
		{"dus", oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Packets}, 0, "DUS over q-max"},
		{"dus_heap", oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Packets, Heap: true}, 3, "routing-oblivious Fig. 11, C++: DUS"},
	}
	fig12Cases = []throughputCase{
		{"uwra", oblivious.Config{Kind: oblivious.UWRA, Unit: oblivious.Bytes}, 11, fig12Source},
		{"nwps", oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes}, 11, fig12Source},
		{"uwra_heap", oblivious.Config{Kind: oblivious.UWRA, Unit: oblivious.Bytes, Heap: true}, 0, "UWRA over a heap"},
		{"nwps_heap", oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Heap: true}, 0, "NWPS over a heap"},
	}
)

func obliviousThroughput(ctx context.Context, o Options, source string, cases []throughputCase) ([]Row, error) {
	trace, err := obliviousSynthetic(o)
	if err != nil {
		return nil, err
	}
	passes := 3
	steps := len(cases)*3*passes + 3
	var t table
	done := 0
	for _, size := range sampleSizes[1:] {
		seconds := map[string]float64{}
		// Rivals take turns, so that the machine's moods reach all.
		for range passes {
			for _, c := range cases {
				o.progress(done, steps, c.name+" "+size.name)
				done++
				c.config.Size, c.config.Seed = size.size, o.Seed
				s, err := trace.throughput(ctx, c.config)
				if err != nil {
					return nil, err
				}
				if best, ok := seconds[c.name]; !ok || s < best {
					seconds[c.name] = s
				}
			}
		}
		for _, c := range cases {
			mpps := float64(trace.Len()) / seconds[c.name] / 1e6
			if row := c.name + ".mpps." + size.name; c.reference > 0 {
				t.against(row, "Mpps", mpps, c.reference, c.source, "higher")
			} else {
				t.add(row, "Mpps", mpps, c.source, "higher")
			}
		}
		if qmax, heap := seconds["dus"], seconds["dus_heap"]; heap > 0 {
			o.progress(done, steps, "updates "+size.name)
			done++
			ratio, ns, err := trace.qmaxOverHeap(ctx, oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Packets, Size: size.size, Seed: o.Seed})
			if err != nil {
				return nil, err
			}
			t.against("qmax_over_heap."+size.name, "ratio", ratio, 3, source+": the updates of DUS, see the figure's comment", "higher")
			t.add("qmax.update."+size.name, "ns", ns, "an update over q-max", "lower")
			t.add("qmax_over_heap.trace."+size.name, "ratio", heap/qmax, "the whole trace, most of whose packets do not enter", "higher")
		}
	}
	return t, nil
}

// arrival is a packet ready to be added.
type arrival struct {
	id    uint64
	bytes uint32
	flow  uint32
}

// batch makes packets first and on, so that making them is not measured.
func (t *obliviousTrace) batch(to []arrival, first int) []arrival {
	to = to[:0]
	for i := first; i < min(first+cap(to), t.Len()); i++ {
		p := t.At(i)
		to = append(to, arrival{p.ID, p.Bytes, p.Flow})
	}
	return to
}

// throughput returns the seconds that the trace takes through one sampler.
func (t *obliviousTrace) throughput(ctx context.Context, c oblivious.Config) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := oblivious.NewSampler(c)
	if err != nil {
		return 0, err
	}
	runtime.GC()
	buffer := make([]arrival, 0, windowSize)
	var sum time.Duration
	for first := 0; first < t.Len(); first += windowSize {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		buffer = t.batch(buffer, first)
		start := clock.Thread(0)
		for i := range buffer {
			p := &buffer[i]
			s.Add(p.id, p.bytes, &t.keys[p.flow])
		}
		sum += clock.Thread(0) - start
	}
	return sum.Seconds(), nil
}

// qmaxOverHeap returns how many times as long the heap takes for the updates of
// the trace, and the time of one over q-max in ns.
func (t *obliviousTrace) qmaxOverHeap(ctx context.Context, c oblivious.Config) (ratio, ns float64, err error) {
	best := [2]float64{math.Inf(1), math.Inf(1)}
	var enter [2][]arrival
	var samplers [2]*oblivious.Sampler
	for i, heap := range []bool{false, true} {
		c.Heap = heap
		if samplers[i], err = oblivious.NewSampler(c); err != nil {
			return 0, 0, err
		}
		if enter[i], err = t.entering(ctx, samplers[i]); err != nil {
			return 0, 0, err
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 15 {
		for i, s := range samplers {
			if err := ctx.Err(); err != nil {
				return 0, 0, err
			}
			best[i] = min(best[i], t.replay(s, enter[i]))
		}
	}
	return best[1] / best[0], best[0] / float64(len(enter[0])) * 1e9, nil
}

// entering returns the packets of the trace that enter the sampler.
func (t *obliviousTrace) entering(ctx context.Context, s *oblivious.Sampler) ([]arrival, error) {
	var out []arrival
	buffer := make([]arrival, 0, windowSize)
	for first := 0; first < t.Len(); first += windowSize {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, p := range t.batch(buffer, first) {
			before := s.Updates()
			s.Add(p.id, p.bytes, &t.keys[p.flow])
			if s.Updates() > before {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// replay returns the seconds that packets take through an emptied sampler. All
// have one key, as fetching keys from memory is no work of the structure.
func (t *obliviousTrace) replay(s *oblivious.Sampler, packets []arrival) float64 {
	s.Reset()
	start := clock.Thread(0)
	for i := range packets {
		p := &packets[i]
		s.Add(p.id, p.bytes, &t.keys[0])
	}
	return (clock.Thread(0) - start).Seconds()
}
