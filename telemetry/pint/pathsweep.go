package pint

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
func (w *walkSweep) run(d *Walks, hops int) bool {
	w.sort(d, hops)
	for hop := 1; hop <= hops; hop++ {
		if w.all[hop-1] = hop == 1 || w.all[hop-2]; !w.all[hop-1] {
			w.nodes[hop-1] = w.neighbours(d.t, w.nodes[hop-1][:0], w.nodes[hop-2])
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
			w.nodes[i], w.all[i] = w.neighbours(d.t, w.nodes[i][:0], w.nodes[i+1]), false
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
func (w *walkSweep) sort(d *Walks, hops int) {
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
			hop := e.writers.last()
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

// neighbours appends the neighbours of nodes to into.
func (w *walkSweep) neighbours(t *Topology, into, nodes []int32) []int32 {
	w.begin()
	for _, n := range nodes {
		l, end := t.out(n)
		for _, to := range t.to[l:end] {
			if w.mark[to] != w.stamp {
				w.mark[to] = w.stamp
				into = append(into, to)
			}
		}
	}
	return into
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
func (w *walkSweep) apply(d *Walks, hop int, e *equation) {
	if w.all[hop-1] {
		w.fill(d.t, hop-1)
	}
	w.nodes[hop-1] = w.filter.keep(d, hop, e, w.nodes[hop-1])
}

// walkFilter computes what nodes contribute to a digest, for many nodes at once.
type walkFilter struct {
	values   [laneCount]uint64
	products [(64 + 3) / 4][16]uint64
}

// keep keeps the nodes that contribute the digest.
func (f *walkFilter) keep(d *Walks, hop int, e *equation, nodes []int32) []int32 {
	if d.s.values == Linear {
		f.multiply(d.s.key(e.id, e.instance, hop), d.s.valueMask)
	}
	kept := nodes[:0]
	for len(nodes) > 0 {
		n := min(len(nodes), laneCount)
		for i, c := range f.contributions(d, hop, e, nodes[:n]) {
			if c&d.s.mask == e.digest {
				kept = append(kept, nodes[i])
			}
		}
		nodes = nodes[n:]
	}
	return kept
}

// addTo adds what the nodes contribute to a digest to their words, from a bit on.
func (f *walkFilter) addTo(words []uint64, d *Walks, hop int, e *equation, nodes []int32, bit int) {
	if d.s.values == Linear {
		f.multiply(d.s.key(e.id, e.instance, hop), d.s.valueMask)
	}
	for len(nodes) > 0 {
		n := min(len(nodes), laneCount)
		for i, c := range f.contributions(d, hop, e, nodes[:n]) {
			words[nodes[i]] |= c & d.s.mask << (bit & 63)
		}
		nodes = nodes[n:]
	}
}

// contributions are those of at most laneCount nodes. Bits beyond the digest's are garbage.
func (f *walkFilter) contributions(d *Walks, hop int, e *equation, nodes []int32) []uint64 {
	values := f.values[:len(nodes)]
	for i, n := range nodes {
		values[i] = d.t.values[n] & d.s.valueMask
	}
	switch d.s.values {
	case Hashed:
		return d.lanes.ofValues(d.s.seeds[e.instance].value, e.id, values)
	case Linear:
		for i, v := range values {
			var sum uint64
			for j := 0; v != 0; j, v = j+1, v>>4 {
				sum ^= f.products[j&15][v&15]
			}
			values[i] = sum
		}
	default:
		for i, v := range values {
			values[i] = d.s.contribution(e.id, e.instance, hop, v)
		}
	}
	return values
}

// multiply prepares the products of a key with each four bits of a value.
func (f *walkFilter) multiply(key, mask uint64) {
	for j := 0; mask>>(4*j) != 0; j++ {
		p := &f.products[j]
		for bit := range 4 {
			for v := range 1 << bit {
				p[v|1<<bit] = p[v] ^ key>>(4*j+bit)
			}
		}
	}
}
