package paper

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// What the simulations of DiSketch have in common: the paper's setup (Section
// 6). A trace is played into a network of switches; each address of the trace is
// mapped to a host at random, and flows whose ends are one host are left out.
const (
	dsEpochs    = disketch.Epochs(27) // 134 ms
	dsWindow    = 32                  // epochs of the query, whatever the trace's duration
	dsGini      = 0.4
	dsHostsEdge = 2                       // hosts at each edge switch
	dsLeast     = 16 * aggregatedRows * 4 // bytes of a switch: a cell for each row of any sketch
)

// dsNetwork is a topology with what is needed to place memory on it.
type dsNetwork struct {
	name     string
	graph    *netsim.Graph
	routes   *netsim.Routes
	edge     []int
	full     int   // switches on the longest path
	core     []int // switches in the middle of the longest paths, where aggregated sketches are
	coreMark []bool
}

func dsFatTree() (*dsNetwork, error) {
	g, err := netsim.FatTree(4)
	if err != nil {
		return nil, err
	}
	return newDSNetwork("fattree", g)
}

func dsSpineLeaf() (*dsNetwork, error) {
	g, err := netsim.SpineLeaf(4, 8)
	if err != nil {
		return nil, err
	}
	return newDSNetwork("spineleaf", g)
}

func newDSNetwork(name string, g *netsim.Graph) (*dsNetwork, error) {
	n := &dsNetwork{name: name, graph: g, routes: netsim.NewRoutes(g), edge: g.EdgeNodes(), coreMark: make([]bool, len(g.Nodes))}
	n.full = n.routes.Diameter() + 1
	// The middle of a longest path is furthest from the edge.
	for i := range g.Nodes {
		nearest := n.full
		for _, e := range n.edge {
			nearest = min(nearest, n.routes.Distance(e, i))
		}
		if nearest == n.full/2 {
			n.core = append(n.core, i)
			n.coreMark[i] = true
		}
	}
	if len(n.core) == 0 {
		return nil, fmt.Errorf("%s: no core switches", g.Name)
	}
	return n, nil
}

// dsFlow is a flow of a trace in the network.
type dsFlow struct {
	hash    uint64
	packets float64
	path    []uint64 // nodes
}

// dsPacket is a packet at a switch.
type dsPacket struct {
	flow uint32
	tick uint32 // position in its epoch, of 2^16
}

// dsTraffic is a trace in a network: which packets each switch sees in each
// epoch, in the order of time.
type dsTraffic struct {
	net     *dsNetwork
	trace   string
	flows   []dsFlow
	packets int
	hops    int                    // of the longest path
	at      [dsWindow][][]dsPacket // by epoch and node
}

func newDSTraffic(n *dsNetwork, t *workload.Trace, seed uint64) (*dsTraffic, error) {
	tr := &dsTraffic{net: n, trace: t.Name, hops: n.full}
	index := make([]int32, len(t.Flows))
	hosts := uint64(len(n.edge) * dsHostsEdge)
	paths := map[string][]uint64{}
	for i := range t.Flows {
		f := &t.Flows[i]
		from := hash.Reduce(hash.Bytes(seed, f.Key.Src[:]), hosts)
		to := hash.Reduce(hash.Bytes(seed, f.Key.Dst[:]), hosts)
		index[i] = -1
		if from == to {
			continue
		}
		p, err := n.routes.Path(n.edge[from/dsHostsEdge], n.edge[to/dsHostsEdge], hash.Uint64(seed, f.Hash))
		if err != nil {
			return nil, err
		}
		key := fmt.Sprint(p)
		if paths[key] == nil {
			for _, node := range p {
				paths[key] = append(paths[key], uint64(node))
			}
		}
		index[i] = int32(len(tr.flows))
		tr.flows = append(tr.flows, dsFlow{hash: f.Hash, path: paths[key]})
	}
	for e := range tr.at {
		tr.at[e] = make([][]dsPacket, len(n.graph.Nodes))
	}
	for i := range t.Len() {
		p := t.At(i)
		f := index[p.Flow]
		if f < 0 {
			continue
		}
		// The window's epochs share the trace's duration evenly.
		at := min(int64(float64(p.TimeNs)/float64(t.DurationNs)*(dsWindow<<16)), dsWindow<<16-1)
		tr.flows[f].packets++
		tr.packets++
		for _, node := range tr.flows[f].path {
			s := &tr.at[at>>16][node]
			*s = append(*s, dsPacket{uint32(f), uint32(at & 0xffff)})
		}
	}
	return tr, nil
}

// dsMemories are the bytes of memory of each of n switches: the mean for all, or
// drawn with the Gini index dsGini about the same mean. A power of a uniform
// variable has the shape of the paper's example (10, 30, 100, 160, 200 %).
func dsMemories(n, mean int, heterogeneous bool, seed uint64) []int {
	share := make([]float64, n)
	for i := range share {
		share[i] = 1
	}
	if heterogeneous {
		r := rand.New(rand.NewPCG(seed, 'm'))
		for i := range share {
			share[i] = r.Float64()
		}
		low, high := 0.0, 20.0
		for range 60 {
			p := (low + high) / 2
			if gini(powers(share, p)) < dsGini {
				low = p
			} else {
				high = p
			}
		}
		share = powers(share, low)
	}
	sum := 0.0
	for _, x := range share {
		sum += x
	}
	memory := make([]int, n)
	for i, x := range share {
		memory[i] = max(int(x/sum*float64(n*mean))&^3, dsLeast)
	}
	return memory
}

func powers(x []float64, p float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = math.Pow(x[i], p)
	}
	return y
}

// gini is the index of inequality: 0 if all are equal.
func gini(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	sum, weighted := 0.0, 0.0
	for i, v := range s {
		sum += v
		weighted += float64(2*i-len(s)+1) * v
	}
	return weighted / (float64(len(s)) * sum)
}
