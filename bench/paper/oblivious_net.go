package paper

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// fatTree is the network of figures 2 to 10: the fat tree of 8-port switches,
// 80 of them.
type fatTree struct {
	graph  *netsim.Graph
	routes *netsim.Routes
	edge   []int
	core   []int
}

func newFatTree() (*fatTree, error) {
	g, err := netsim.FatTree(8)
	if err != nil {
		return nil, err
	}
	f := &fatTree{graph: g, routes: netsim.NewRoutes(g), edge: g.EdgeNodes()}
	for n := range g.Nodes {
		if !g.Nodes[n].Edge && f.routes.Distance(f.edge[0], n) == 2 {
			f.core = append(f.core, n)
		}
	}
	return f, nil
}

// flowPath is the switches that a flow passes: n of at.
type flowPath struct {
	n  uint8
	at [5]uint8
}

// paths draws for each flow two different edge switches, and its way by equal
// cost between them; or, as the paper does, an edge switch and a core switch.
func (f *fatTree) paths(flows int, seed uint64, toCore bool) ([]flowPath, error) {
	out := make([]flowPath, flows)
	n := uint64(len(f.edge))
	for i := range out {
		h := hash.Uint64x2(seed, 'P', uint64(i))
		from := hash.Reduce(h, n)
		to := (from + 1 + hash.Reduce(hash.Uint64(seed, h), n-1)) % n
		last := f.edge[to]
		if toCore {
			last = f.core[hash.Reduce(hash.Uint64(seed, h), uint64(len(f.core)))]
		}
		path, err := f.routes.Path(f.edge[from], last, h)
		if err != nil {
			return nil, err
		}
		out[i].n = uint8(copyPath(out[i].at[:], path))
	}
	return out, nil
}

func copyPath(to []uint8, path netsim.Path) int {
	for i, node := range path {
		to[i] = uint8(node)
	}
	return len(path)
}

// obliviousTrace is a trace with its flows' keys as samples have them.
type obliviousTrace struct {
	*workload.Trace
	// prefix of the rows' names: none for the synthetic trace.
	prefix string
	toCore bool // flows end at core switches
	keys   []oblivious.Key
	flow   map[oblivious.Key]int
	// packets and bytes are the flows' true sizes.
	packets, bytes []float64

	mu    sync.Mutex
	drawn map[uint64][]flowPath // by seed
}

// newObliviousTrace indexes a trace. Packets of a capture that have one id are
// one packet, seen twice, as their bytes do not distinguish them; so the truth
// counts them once, as all that is measured here does.
func newObliviousTrace(t *workload.Trace, prefix string) *obliviousTrace {
	n := len(t.Flows)
	out := &obliviousTrace{Trace: t, prefix: prefix, keys: make([]oblivious.Key, n), flow: make(map[oblivious.Key]int, n),
		packets: make([]float64, n), bytes: make([]float64, n), drawn: map[uint64][]flowPath{}}
	for i, f := range t.Flows {
		out.keys[i] = oblivious.Key(f.Key)
		out.flow[out.keys[i]] = i
		out.packets[i], out.bytes[i] = float64(f.Packets), float64(f.Bytes)
	}
	if prefix == "" {
		return out // ids of synthetic traces are distinct
	}
	seen := make(map[uint64]bool, t.Len())
	for i := range t.Len() {
		p := t.At(i)
		if seen[p.ID] {
			out.packets[p.Flow]--
			out.bytes[p.Flow] -= float64(p.Bytes)
		}
		seen[p.ID] = true
	}
	return out
}

// size is the true packets or bytes of a flow.
func (t *obliviousTrace) size(flow int, unit oblivious.Unit) float64 {
	if unit == oblivious.Bytes {
		return t.bytes[flow]
	}
	return t.packets[flow]
}

// volume is the true sum of all flows.
func (t *obliviousTrace) volume(unit oblivious.Unit) (sum float64) {
	for f := range t.Flows {
		sum += t.size(f, unit)
	}
	return sum
}

// packetsPerFlow of the synthetic trace, about what a second of a backbone link
// has.
const packetsPerFlow = 20

// obliviousSynthetic makes the synthetic trace: 20 million packets, or what the
// options say.
func obliviousSynthetic(o Options) (*obliviousTrace, error) {
	packets := o.Packets
	if packets == 0 {
		if packets = 20_000_000; o.Quick {
			packets = 1_000_000
		}
	}
	t, err := workload.Synthetic{Packets: packets, Flows: max(packets/packetsPerFlow, 1), Seed: o.Seed}.Trace()
	if err != nil {
		return nil, fmt.Errorf("synthetic trace: %w", err)
	}
	return newObliviousTrace(t, ""), nil
}

// obliviousTraces are the synthetic trace and a real one, with routes between edge
// switches, and the synthetic one with the paper's routes.
func obliviousTraces(o Options) ([]*obliviousTrace, error) {
	synthetic, err := obliviousSynthetic(o)
	if err != nil {
		return nil, err
	}
	data := o.Data
	if data == "" {
		data = netsim.DataDir()
	}
	real, err := workload.Capture(filepath.Join(data, "traces", "realmix-snap128.pcap.gz"), o.Seed)
	if err != nil {
		return nil, fmt.Errorf("%w (--data names the folder)", err)
	}
	toCore := newObliviousTrace(synthetic.Trace, "")
	toCore.prefix, toCore.toCore = "core.", true
	return []*obliviousTrace{synthetic, newObliviousTrace(real, "realmix."), toCore}, nil
}

// paths draws the paths of the trace's flows, or returns them if they are drawn.
func (t *obliviousTrace) paths(f *fatTree, seed uint64) ([]flowPath, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.drawn[seed]; ok {
		return p, nil
	}
	p, err := f.paths(len(t.Flows), seed, t.toCore)
	if err == nil && len(t.drawn) < 16 {
		t.drawn[seed] = p
	}
	return p, err
}

// observe passes a trace through the network, each switch of which has one of
// the samplers. window, if set, is called before every windowSize packets.
func (t *obliviousTrace) observe(ctx context.Context, paths []flowPath, samplers []*oblivious.Sampler, window func(first int)) error {
	for f, p := range paths {
		for _, at := range p.at[:p.n] {
			samplers[at].CountOf(t.keys[f].Proto, t.Flows[f].Packets, t.Flows[f].Bytes)
		}
	}
	for first := 0; first < t.Len(); first += windowSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		if window != nil {
			window(first)
		}
		// No sampler's limit grows, so what the largest one of now refuses they
		// all will refuse: most packets are done with one test.
		limit := uint64(0)
		for _, s := range samplers {
			limit = max(limit, s.Limit())
		}
		for i := first; i < min(first+windowSize, t.Len()); i++ {
			p := t.At(i)
			if !samplers[0].AdmitsUnder(limit, p.ID, p.Bytes) {
				continue
			}
			path := &paths[p.Flow]
			for _, at := range path.at[:path.n] {
				if s := samplers[at]; s.Admits(p.ID, p.Bytes) {
					s.Insert(p.ID, p.Bytes, &t.keys[p.Flow])
				}
			}
		}
	}
	return nil
}

const windowSize = 4096

// newSamplers makes one for each switch of the tree.
func (f *fatTree) newSamplers(c oblivious.Config) ([]*oblivious.Sampler, error) {
	out := make([]*oblivious.Sampler, len(f.graph.Nodes))
	for i := range out {
		s, err := oblivious.NewSampler(c)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// parallel does n jobs on two goroutines at most, as each needs much memory.
func parallel(ctx context.Context, n int, job func(i int) error) error {
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(2)
	for i := range n {
		running.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return job(i)
		})
	}
	return running.Wait()
}
