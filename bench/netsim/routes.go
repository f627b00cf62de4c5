package netsim

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Routes are the shortest paths of a graph to every node: the equal-cost next
// hops that routers would install. Distances take 2 bytes per pair of nodes.
type Routes struct {
	g        *Graph
	distance [][]int16 // by destination and node; -1: no path
}

// NewRoutes measures all distances, each link counting 1.
func NewRoutes(g *Graph) *Routes {
	r := &Routes{g: g, distance: make([][]int16, len(g.Nodes))}
	queue := make([]int, 0, len(g.Nodes))
	for to := range g.Nodes {
		d := make([]int16, len(g.Nodes))
		for i := range d {
			d[i] = -1
		}
		d[to] = 0
		queue = append(queue[:0], to)
		for at := 0; at < len(queue); at++ {
			n := queue[at]
			for _, m := range g.near[n] {
				if d[m] < 0 {
					d[m] = d[n] + 1
					queue = append(queue, m)
				}
			}
		}
		r.distance[to] = d
	}
	return r
}

// Distance is the number of links of a shortest path, -1 if there is none.
func (r *Routes) Distance(from, to int) int { return int(r.distance[to][from]) }

// Diameter is the largest distance of two nodes that have a path.
func (r *Routes) Diameter() int {
	most := 0
	for _, d := range r.distance {
		for _, n := range d {
			most = max(most, int(n))
		}
	}
	return most
}

// nextHops appends the equal-cost next hops of a node towards a destination to
// buf, in increasing order: none at the destination, or without a path.
func (r *Routes) nextHops(buf []int, at, to int) []int {
	d := r.distance[to]
	if d[at] < 0 {
		return buf
	}
	for _, n := range r.g.near[at] {
		if d[n] == d[at]-1 {
			buf = append(buf, n)
		}
	}
	return buf
}

// Path is the path of a flow: at each node the flow's hash, mixed with the node,
// picks one of the next hops, as routers with different seeds do.
func (r *Routes) Path(from, to int, flow uint64) (Path, error) {
	if r.Distance(from, to) < 0 {
		return nil, fmt.Errorf("%s: no path from node %d to %d", r.g.Name, from, to)
	}
	path := Path{from}
	var next []int
	for at := from; at != to; path = append(path, at) {
		next = r.nextHops(next[:0], at, to)
		at = next[hash.Reduce(hash.Uint64x2('E', flow, uint64(at)), uint64(len(next)))]
	}
	return path, nil
}

// Pair is a source and a destination, by node number.
type Pair struct{ From, To int }

// Pairs lists the pairs of edge nodes whose paths have the given number of
// switches, both ends included.
func (r *Routes) Pairs(switches int) []Pair {
	var pairs []Pair
	edge := r.g.EdgeNodes()
	for _, a := range edge {
		for _, b := range edge {
			if r.Distance(a, b) == switches-1 {
				pairs = append(pairs, Pair{a, b})
			}
		}
	}
	return pairs
}
