package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

const (
	boundsDelta   = 0.1
	boundsEpsilon = 0.15
)

// obliviousBounds counts how often estimates leave the bounds that they state,
// over delta = 0.1, in 2,000 runs of the fat tree: of the volume, of the twenty
// largest flows, of the packets of one protocol and of those from or to low
// ports; packets from samples of packets, bytes from samples of bytes by UWRA
// and by NWPS, and each from the other; by all merges. And how often the volume
// leaves 1 +- epsilon where chi is VolumeSize(epsilon, delta). The row
// misses_over_delta is the largest of all; of so many rows, whose deviations are 0.06 each, it is
// above its own rate by luck.
func obliviousBounds(ctx context.Context, o Options) ([]Row, error) {
	packets := o.Packets
	if packets == 0 {
		packets = 200_000
	}
	w, err := workload.Synthetic{Packets: packets, Flows: max(packets/packetsPerFlow, 20), Seed: o.Seed}.Trace()
	if err != nil {
		return nil, fmt.Errorf("synthetic trace: %w", err)
	}
	trace := newObliviousTrace(w, "")
	tree, err := newFatTree()
	if err != nil {
		return nil, err
	}
	size, err := oblivious.VolumeSize(boundsEpsilon, boundsDelta)
	if err != nil {
		return nil, err
	}
	configs := []oblivious.Config{
		{Kind: oblivious.DUS, Unit: oblivious.Packets, Size: size},
		{Kind: oblivious.UWRA, Unit: oblivious.Bytes, Size: size},
		{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: size},
	}
	runs := o.runs(2000)
	b := bounds{trace: trace, hits: map[string]hits{}}
	var mu sync.Mutex
	done := 0
	err = parallel(ctx, runs*len(configs), func(i int) error {
		c := configs[i%len(configs)]
		c.Seed = hash.Uint64x2(o.Seed, 'B', uint64(i/len(configs)))
		r, err := tree.run(ctx, trace, c, c.Seed)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		o.progress(done, runs*len(configs), c.Kind.String())
		return b.count(r)
	})
	if err != nil {
		return nil, err
	}
	return b.rows(runs), nil
}

// bounds counts estimates by row.
type bounds struct {
	trace *obliviousTrace
	order []string
	hits  map[string]hits
}

// hits counts estimates, and those that miss.
type hits struct{ misses, of float64 }

func (h hits) overDelta() float64 { return h.misses / h.of / boundsDelta }

func (b *bounds) note(row string, missed bool) {
	h := b.hits[row]
	if h.of == 0 {
		b.order = append(b.order, row)
	}
	h.of++
	if missed {
		h.misses++
	}
	b.hits[row] = h
}

// count adds the estimates of a run.
func (b *bounds) count(r *netRun) error {
	for _, merged := range r.merged() {
		for _, of := range []oblivious.Unit{oblivious.Packets, oblivious.Bytes} {
			if err := b.countMerged(merged.sample, fmt.Sprintf("%s.%v", merged.name, of), of, r.unit == of); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bounds) countMerged(s *oblivious.Sample, row string, of oblivious.Unit, own bool) error {
	volume, err := s.Volume(of, boundsDelta)
	if err != nil {
		return err
	}
	truth := b.trace.volume(of)
	b.note(row+".volume", volume.Low > truth || volume.High < truth)
	if own {
		b.note(row+".epsilon", math.Abs(volume.Value-truth) > boundsEpsilon*truth)
	}
	for name, in := range map[string]oblivious.In{
		"protocol": oblivious.HasProto(6),
		"ports":    func(k *oblivious.Key) bool { return min(k.SrcPort, k.DstPort) < 1024 },
	} {
		e, err := s.Subset(of, boundsDelta, in)
		if err != nil {
			return err
		}
		truth := 0.0
		for f := range b.trace.keys {
			if in(&b.trace.keys[f]) {
				truth += b.trace.size(f, of)
			}
		}
		b.note(row+"."+name, e.Low > truth || e.High < truth)
	}
	// The first flows of a synthetic trace are the largest.
	for f := range 20 {
		e, err := s.Frequency(of, boundsDelta, b.trace.keys[f])
		if err != nil {
			return err
		}
		truth := b.trace.size(f, of)
		b.note(row+".flow", e.Low > truth || e.High < truth)
	}
	return nil
}

func (b *bounds) rows(runs int) []Row {
	var t table
	worst := slices.MaxFunc(b.order, func(x, y string) int { return cmp.Compare(b.hits[x].overDelta(), b.hits[y].overDelta()) })
	t.against("misses_over_delta", "ratio", b.hits[worst].overDelta(), 1,
		fmt.Sprintf("%s, the largest row; delta %g, %d runs", worst, boundsDelta, runs), "lower")
	for _, row := range b.order {
		h := b.hits[row]
		t.within("misses_over_delta."+row, "ratio", h.overDelta(), shareHalf(h.misses/h.of, h.of)/boundsDelta, fmt.Sprintf("%.0f of %.0f outside", h.misses, h.of), "lower")
	}
	return t
}
