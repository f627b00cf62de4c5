package path

import "slices"

// walkSweep lists the candidates of each hop of a walk: the nodes that the hop's
// single-writer digests allow, and that have a candidate of the next hop and of the hop
// before as neighbours. It goes along the path and back. Where the neighbours
// leave few nodes, only those are put to the digests, and all hops before the first such digest
// take their candidates from behind.
type walkSweep struct {
	nodes  [][]int32 // by hop-1
	all    []bool    // by hop-1: all nodes are candidates, and not listed
	by     [][]int32 // by hop-1: the equations of that hop alone
	mark   []int32   // by node: stamp, of the nodes in the set in work
	stamp  int32
	filter walkFilter
}

// run lists the candidates, and reports whether each hop has one. It marks the
// equations of single writers as used.
func (w *walkSweep) run(d *walkSolver, hops int) bool {
	w.sort(d, hops)
	for hop := 1; hop <= hops; hop++ {
		if w.all[hop-1] = hop == 1 || w.all[hop-2]; !w.all[hop-1] {
			w.nodes[hop-1] = w.neighbours(d.t, w.nodes[hop-1], w.nodes[hop-2])
		}
		for _, e := range w.by[hop-1] {
			w.apply(d, hop, &d.eqs[e])
		}
		if !w.all[hop-1] && len(w.nodes[hop-1]) == 0 {
			return false
		}
	}
	if w.all[hops-1] { // no digest of a single writer
		for i := range hops {
			w.fill(d.t, i)
		}
		return true
	}
	for i := hops - 2; i >= 0; i-- {
		if w.all[i] {
			w.nodes[i], w.all[i] = w.neighbours(d.t, w.nodes[i], w.nodes[i+1]), false
		} else {
			w.nodes[i] = w.nextTo(d.t, w.nodes[i], w.nodes[i+1])
		}
		if len(w.nodes[i]) == 0 {
			return false
		}
	}
	return true
}

// sort lists the equations of single writers by hop.
func (w *walkSweep) sort(d *walkSolver, hops int) {
	for len(w.nodes) < hops {
		w.nodes, w.by = append(w.nodes, nil), append(w.by, nil)
	}
	w.all = resize(w.all, hops)
	for i := range hops {
		w.by[i] = w.by[i][:0]
	}
	for i := range d.eqs {
		if e := &d.eqs[i]; e.writers.Len() == 1 {
			e.used = true
			hop := e.writers.Last()
			w.by[hop-1] = append(w.by[hop-1], int32(i))
		}
	}
}

// begin empties the set.
func (w *walkSweep) begin() {
	if w.stamp++; w.stamp < 0 { // after 2^31 sets
		clear(w.mark)
		w.stamp = 1
	}
}

// only makes the set that of a hop's candidates.
func (w *walkSweep) only(hop int) {
	w.begin()
	for _, n := range w.nodes[hop] {
		w.mark[n] = w.stamp
	}
}

func (w *walkSweep) has(node int32) bool { return w.mark[node] == w.stamp }

// fill lists all nodes.
func (w *walkSweep) fill(t *Topology, i int) {
	w.nodes[i] = w.nodes[i][:0]
	for n := range t.values {
		w.nodes[i] = append(w.nodes[i], int32(n))
	}
	w.all[i] = false
}

// neighbours lists the neighbours of nodes in the memory of into.
func (w *walkSweep) neighbours(t *Topology, into, nodes []int32) []int32 {
	into = slices.Grow(into[:0], len(w.mark)+1)[:len(w.mark)+1]
	w.begin()
	n, mark, stamp := 0, w.mark, w.stamp
	for _, v := range nodes {
		l, end := t.out(v)
		for _, to := range t.to[l:end] {
			// Written in any case, and kept if new: a branch would be guessed wrong often.
			into[n] = to
			if mark[to] != stamp {
				n++
			}
			mark[to] = stamp
		}
	}
	return into[:n]
}

// ends makes the hop's candidates the ends of links.
func (w *walkSweep) ends(hop int, links, end []int32) []int32 {
	w.begin()
	nodes := w.nodes[hop-1][:0]
	for _, l := range links {
		if n := end[l]; w.mark[n] != w.stamp {
			w.mark[n] = w.stamp
			nodes = append(nodes, n)
		}
	}
	w.nodes[hop-1] = nodes
	return nodes
}

// nextTo keeps those of the nodes that have a neighbour among others.
func (w *walkSweep) nextTo(t *Topology, nodes, others []int32) []int32 {
	w.begin()
	for _, n := range others {
		l, end := t.out(n)
		for _, to := range t.to[l:end] {
			w.mark[to] = w.stamp
		}
	}
	kept := nodes[:0]
	for _, n := range nodes {
		if w.mark[n] == w.stamp {
			kept = append(kept, n)
		}
	}
	return kept
}

// apply keeps the hop's nodes whose contribution is the digest.
func (w *walkSweep) apply(d *walkSolver, hop int, e *equation) {
	if w.all[hop-1] {
		w.fill(d.t, hop-1)
	}
	w.nodes[hop-1] = w.filter.keep(d, hop, e, w.nodes[hop-1])
}
