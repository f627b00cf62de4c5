package paper

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// laterCarrying is which packets of a flow carry digests: the first ones, and of the others each with the probability rest; path instances
// of 8 bits, and 8 bits for other queries beside them.
type laterCarrying struct {
	name      string
	first     int
	rest      float64
	instances int
	like      string // rest is chosen for as many bytes as this one takes
}

// shim is what a digest takes on a wire.
func (c *laterCarrying) shim() float64 { return float64(header.ShimLen(c.instances + 1)) }

var laterCarryings = []laterCarrying{
	{name: "all", rest: 1, instances: 1},
	{name: "all_8B", rest: 1, instances: 7},
	{name: "first16", first: 16, rest: 1. / 16, instances: 1},
	{name: "even_like_first16", instances: 1, like: "first16"},
	{name: "first4_8B", first: 4, rest: 1. / 16, instances: 7},
	{name: "even_like_first4_8B", instances: 1, like: "first4_8B"},
	{name: "even_8B_like_first4_8B", instances: 7, like: "first4_8B"},
}

const (
	laterPINTFlows  = 2000
	laterChanges    = 40
	laterChangeAt   = 2000 // packets of a flow before its path changes
	laterChangeWait = 4000
)

// laterPINT measures what digests on fewer packets cost and give: on the first packets of a flow and then on 1 of 16 (after DeltaINT: a value travels when it
// is news), on all packets as by default, and on packets chosen evenly in as many bytes, with digests of 2 bytes and of 8. bytes is by how much a packet grows on average; known
// the share of the flows whose path is certain at their end, known_packets that of the packets that these flows have, wrong how many are certain and wrong; change how many packets
// of a flow pass after its path changed until the new one is certain, the median.
func laterPINT(ctx context.Context, o Options) ([]Row, error) {
	tree, err := newFatTree()
	if err != nil {
		return nil, err
	}
	synthetic, err := workload.Synthetic{Packets: ldsPackets / 10, Flows: ldsFlows / 10, Shape: ldsSmallShape, Largest: ldsLargest, Seed: o.Seed}.Trace()
	if err != nil {
		return nil, err
	}
	captured, err := workload.Capture(filepath.Join(cmp.Or(o.Data, netsim.DataDir()), "traces", "realmix-snap128.pcap.gz"), o.Seed)
	if err != nil {
		return nil, fmt.Errorf("%w (--data names the folder)", err)
	}
	traces := []struct {
		prefix string
		*workload.Trace
	}{{"", synthetic}, {"realmix.", captured}}
	runs := o.runs(60)
	var mu sync.Mutex
	m, done := measures{}, 0
	err = parallel(ctx, runs*len(traces), func(i int) error {
		run, t := i/len(traces), &traces[i%len(traces)]
		seed := hash.Uint64x2(o.Seed, 'D', uint64(run))
		r := rand.New(rand.NewPCG(seed, 1))
		flows := make([]laterFlow, laterPINTFlows)
		paths, err := tree.paths(2*laterPINTFlows, seed, false)
		if err != nil {
			return err
		}
		for i := range flows {
			flows[i] = laterFlow{packets: int(t.Flows[r.IntN(len(t.Flows))].Packets), path: paths[2*i].numbers(), next: paths[2*i+1].numbers()}
		}
		bytes := map[string]float64{}
		for _, c := range laterCarryings {
			if c.like != "" {
				c.rest = bytes[c.like] / c.shim()
			}
			got, err := c.follow(flows, r.Uint64())
			if err != nil {
				return err
			}
			bytes[c.name] = got.bytes
			mu.Lock()
			for _, x := range []struct {
				metric string
				value  float64
			}{{"bytes", got.bytes}, {"known", got.known}, {"known_packets", got.knownPackets}, {"wrong", got.wrong}, {"change", got.change}} {
				m.add(t.prefix+x.metric+"."+c.name, run, runs, x.value)
			}
			mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		o.progress(done, runs*len(traces), t.prefix+"digests")
		return nil
	})
	if err != nil {
		return nil, err
	}
	var t table
	for _, trace := range traces {
		source := fmt.Sprintf("fat tree, %d flows of %s, %d runs", laterPINTFlows, trace.Name, runs)
		for _, x := range []struct{ metric, unit, better string }{{"bytes", "bytes", "lower"}, {"known", "share", "higher"}, {"known_packets", "share", "higher"}, {"wrong", "flows", "lower"}, {"change", "packets", "lower"}} {
			for _, c := range laterCarryings {
				row := trace.prefix + x.metric + "." + c.name
				mean, half := interval(m[row])
				t.add(row, x.unit, mean, source, x.better)
				t.add(row+".ci95", x.unit, half, "half the 95 % confidence interval of the mean", "neither")
			}
		}
	}
	return t, nil
}

// numbers are the ids of a path's switches.
func (p *flowPath) numbers() (ids []uint64) {
	for _, at := range p.at[:p.n] {
		ids = append(ids, uint64(at)+1)
	}
	return ids
}

// laterFlow is a flow with its path, and another one that it may change to.
type laterFlow struct {
	packets    int
	path, next []uint64
}

// laterKnown is what came of digests.
type laterKnown struct{ bytes, known, knownPackets, wrong, change float64 }

// follow has all flows carry digests, and decodes them.
func (c *laterCarrying) follow(flows []laterFlow, seed uint64) (out laterKnown, err error) {
	plan := densePlan(8, c.instances)
	plan.Seed, plan.ValueBits = seed, 10 // as the built-in plan has
	s, err := encode.NewStatic(plan)
	if err != nil {
		return out, err
	}
	decoder, err := pintsink.NewDecoder(s, pintsink.DecoderConfig{})
	if err != nil {
		return out, err
	}
	r := rand.New(rand.NewPCG(seed, 2))
	var scratch encode.Scratch
	packets, digests := 0., 0.
	for i := range flows {
		f := &flows[i]
		var state pintsink.Flow
		packets += float64(f.packets)
		for k := range f.packets {
			if k >= c.first && r.Float64() >= c.rest {
				continue
			}
			digests++
			id := r.Uint64()
			if decoder.Add(&state, id, s.Digest(&scratch, id, f.path), len(f.path)) != pintsink.Certain {
				continue
			}
			out.known++
			out.knownPackets += float64(f.packets)
			if !slices.Equal(state.Path(), f.path) {
				out.wrong++
			}
			early := max(min(c.first, f.packets)-k-1, 0)
			digests += float64(early) + float64(f.packets-k-1-early)*c.rest // those that follow
			break
		}
	}
	out.bytes = digests / packets * c.shim()
	out.known /= float64(len(flows))
	out.knownPackets /= packets
	var waits sample
	for i := range flows {
		f := &flows[i]
		if len(waits) == laterChanges || len(f.path) != len(f.next) || slices.Equal(f.path, f.next) {
			continue
		}
		var state pintsink.Flow
		wait := laterChangeWait
		for k := range laterChangeAt + laterChangeWait {
			if k >= c.first && r.Float64() >= c.rest {
				continue
			}
			path, id := f.path, r.Uint64()
			if k >= laterChangeAt {
				path = f.next
			}
			decoder.Add(&state, id, s.Digest(&scratch, id, path), len(path))
			if k >= laterChangeAt && state.Certain() && slices.Equal(state.Path(), f.next) {
				wait = k - laterChangeAt + 1
				break
			}
		}
		waits = append(waits, float64(wait))
	}
	slices.Sort(waits)
	out.change = waits.quantile(0.5)
	return out, nil
}
