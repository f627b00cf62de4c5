package path

import (
	"math/bits"
	"slices"
)

// piece is a piece of a walk that ends in a link, or begins with it: xor is what its
// hops contribute to the packed digests; next is the piece that it extends, -1 where it
// starts. The root is the link of the cut that a piece beside it is of.
type piece struct {
	xor        uint64
	link, root int32
	next       int32
}

// walkJoin finds the walks that explain the digests of several writers. A walk is four
// pieces,
//
//	hop 1 ---- head ----> link .. before ..> link of the cut .. after ..> link ---- tail ----> last hop
//
// of which only the pieces are listed: about the fourth root of the number of walks. For each link
// of the cut, all sums of a head and a piece before go through a bitmap, and those of
// a piece after and a tail are looked up in it; what is found meets in a
// table.
type walkJoin struct {
	packed []*equation // as many digests as fit into a word
	target uint64
	words  [][]uint64 // by hop-1 and node: packed contributions of the hop's candidates

	head, before, after, tail pieces
	heads, tails              grouped
	first, last               int // hops where before begins, and where the last link of after does

	bitmap []uint64
	hits   []hit
	table  []int32
	nodes  []int32
	path   []uint64
}

// pieces are a list of pieces, the shorter ones first; those from index last on
// have the full length.
type pieces struct {
	all  []piece
	last int
}

func (p *pieces) full() []piece { return p.all[p.last:] }

// hit is a sum of a piece after the cut and a tail that is in the bitmap.
type hit struct {
	xor         uint64
	after, tail int32
}

// run joins at the links of alive[cut].
func (j *walkJoin) run(d *walkSolver, hops, cut int, sol *Solution) {
	j.pack(d, hops)
	j.first = j.growBefore(d, cut)
	j.last = j.growAfter(d, hops, cut)
	j.growHead(d, j.first)
	j.growTail(d, hops, j.last)
	j.heads.group(j.head.full(), d.alive[j.first], len(d.t.to))
	j.tails.group(j.tail.full(), d.alive[j.last], len(d.t.to))
	found, before, after := 0, j.before.full(), j.after.full()
	for range d.alive[cut] {
		var b, a []piece
		b, before = cutRoot(before)
		a, after = cutRoot(after)
		if found += j.meet(d, hops, b, a, sol, found); found > 1 {
			break
		}
	}
	switch found {
	case 0:
		sol.Contradiction = true
	case 1:
		sol.Unique = true
		for i := range sol.Left {
			sol.Left[i] = 1
		}
	}
}

// cutRoot divides pieces behind those of the first one's root.
func cutRoot(p []piece) (first, rest []piece) {
	n := 0
	for n < len(p) && p[n].root == p[0].root {
		n++
	}
	return p[:n], p[n:]
}

// pack chooses the digests that pieces carry along, and computes what the candidates
// of each hop contribute to them.
func (j *walkJoin) pack(d *walkSolver, hops int) {
	j.packed, j.target = j.packed[:0], 0
	for i := range d.eqs {
		if e := &d.eqs[i]; !e.used && (len(j.packed)+1)*d.s.Bits <= 64 {
			j.target |= e.digest << (len(j.packed) * d.s.Bits)
			j.packed = append(j.packed, e)
		}
	}
	for len(j.words) < hops {
		j.words = append(j.words, make([]uint64, len(d.t.values)))
	}
	for hop := 1; hop <= hops; hop++ {
		d.sweep.filter.pack(j.words[hop-1], d, hop, j.packed, d.sweep.nodes[hop-1])
	}
}

// growBefore lists the pieces before the cut, until they are as many as the heads that
// they extend, and returns where they begin.
func (j *walkJoin) growBefore(d *walkSolver, cut int) int {
	j.before.start(d.alive[cut])
	for cut > 1 && float64(len(j.before.full())) < total(d.ahead[cut]) {
		cut--
		j.backward(d, &j.before, cut)
	}
	return cut
}

// growAfter does the same behind the cut.
func (j *walkJoin) growAfter(d *walkSolver, hops, cut int) int {
	j.after.start(d.alive[cut])
	for cut < hops-1 && float64(len(j.after.full())) < total(d.behind[cut]) {
		cut++
		j.forward(d, &j.after, cut)
	}
	return cut
}

// growHead lists the pieces from hop 1 to the links of alive[last].
func (j *walkJoin) growHead(d *walkSolver, last int) {
	j.head.start(d.alive[1])
	for i := range j.head.all {
		p := &j.head.all[i]
		p.xor = j.words[0][d.t.from[p.link]] ^ j.words[1][d.t.to[p.link]]
	}
	for i := 2; i <= last; i++ {
		j.forward(d, &j.head, i)
	}
}

// growTail lists the pieces from the links of alive[first] to the last hop.
func (j *walkJoin) growTail(d *walkSolver, hops, first int) {
	j.tail.start(d.alive[hops-1])
	for i := hops - 2; i >= first; i-- {
		j.backward(d, &j.tail, i)
	}
}

func total(counts []float64) (sum float64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// start lists the links, each a root.
func (p *pieces) start(links []int32) {
	p.all, p.last = p.all[:0], 0
	for _, l := range links {
		p.all = append(p.all, piece{link: l, root: l, next: -1})
	}
}

// forward extends the pieces to the links of alive[i]. A piece contains what the end
// of its last link contributes, but for roots of the cut.
func (j *walkJoin) forward(d *walkSolver, p *pieces, i int) {
	t, from, end, words := d.t, p.last, len(p.all), j.words[i]
	for _, l := range d.alive[i] {
		d.place[l] = 1
	}
	for k := from; k < end; k++ {
		h := p.all[k]
		for next, stop := t.out(t.to[h.link]); next < stop; next++ {
			if d.place[next] != 0 && next != t.back[h.link] {
				p.all = append(p.all, piece{h.xor ^ words[t.to[next]], next, h.root, int32(k)})
			}
		}
	}
	d.unplace(d.alive[i])
	p.last = end
}

// backward puts the links of alive[i] in front of the pieces. A piece does not
// contain what its first link's end contributes.
func (j *walkJoin) backward(d *walkSolver, p *pieces, i int) {
	t, from, end, words := d.t, p.last, len(p.all), j.words[i+1]
	for _, l := range d.alive[i] {
		d.place[l] = 1
	}
	for k := from; k < end; k++ {
		h := p.all[k]
		xor := h.xor ^ words[t.to[h.link]]
		// The links into a node are the reverse ones of those out of it.
		for out, stop := t.out(t.from[h.link]); out < stop; out++ {
			if in := t.back[out]; d.place[in] != 0 && out != h.link {
				p.all = append(p.all, piece{xor, in, h.root, int32(k)})
			}
		}
	}
	d.unplace(d.alive[i])
	p.last = end
}

// grouped are the sums of pieces by their link.
type grouped struct {
	of    []int32 // by link: its group, from 0, of the links that have one
	first []int32 // by group, and one more
	xor   []uint64
	piece []int32 // index in the pieces of full length
}

// group sorts the pieces by their links, which are in the list of links, of all of a
// topology.
func (g *grouped) group(p []piece, links []int32, all int) {
	g.of = resize(g.of, all)
	g.first = resize(g.first, len(links)+2)
	for i, l := range links {
		g.of[l] = int32(i)
	}
	for i := range p {
		g.first[g.of[p[i].link]+2]++
	}
	for i := 2; i < len(g.first); i++ {
		g.first[i] += g.first[i-1]
	}
	g.xor, g.piece = resize(g.xor, len(p)), resize(g.piece, len(p))
	for i := range p {
		at := &g.first[g.of[p[i].link]+1]
		g.xor[*at], g.piece[*at] = p[i].xor, int32(i)
		*at++
	}
}

// ofLink returns the sums of a link's pieces, and where they begin.
func (g *grouped) ofLink(link int32) (xor []uint64, at int32) {
	i := g.of[link]
	return g.xor[g.first[i]:g.first[i+1]], g.first[i]
}

// size is how many sums there are with pieces of the cut.
func (g *grouped) size(cut []piece) (n int) {
	for i := range cut {
		xor, _ := g.ofLink(cut[i].link)
		n += len(xor)
	}
	return n
}

// spread is where a sum is in tables: its upper bits are used.
func spread(xor uint64) uint64 { return xor * 0x9e3779b97f4a7c15 }

// meet finds the walks through one link of the cut, and returns how many they are; it
// stops when, with those found before, they are two.
func (j *walkJoin) meet(d *walkSolver, hops int, before, after []piece, sol *Solution, found int) int {
	j.sieve(before, after)
	if len(j.hits) == 0 {
		return 0
	}
	shift := j.tabulate()
	n := 0
	for b := range before {
		heads, at := j.heads.ofLink(before[b].link)
		for i, x := range heads {
			x ^= before[b].xor
			for slot := int(spread(x) >> (shift & 63)); j.table[slot] != 0; slot = (slot + 1) & (len(j.table) - 1) {
				h := &j.hits[j.table[slot]-1]
				if h.xor != x {
					continue
				}
				head := &j.head.full()[j.heads.piece[at+int32(i)]]
				if !j.explains(d, hops, head, &before[b], &after[h.after], &j.tail.full()[h.tail]) {
					continue
				}
				if n++; found+n == 1 {
					copy(sol.Path, j.path)
				} else {
					return n
				}
			}
		}
	}
	return n
}

// sieve lists the sums behind the cut that may be among those before it.
func (j *walkJoin) sieve(before, after []piece) {
	// 64 bits for each sum: one in 64 of the others comes through.
	width := max(bits.Len(uint(64*j.heads.size(before))), 6)
	shift := 64 - width
	j.bitmap = resize(j.bitmap, 1<<(width-6))
	for b := range before {
		heads, _ := j.heads.ofLink(before[b].link)
		for _, x := range heads {
			at := spread(x^before[b].xor) >> (shift & 63)
			j.bitmap[at>>6] |= 1 << (at & 63)
		}
	}
	j.hits = j.hits[:0]
	for a := range after {
		tails, first := j.tails.ofLink(after[a].link)
		xor := after[a].xor ^ j.target
		for i, y := range tails {
			at := spread(y^xor) >> (shift & 63)
			if j.bitmap[at>>6]>>(at&63)&1 != 0 {
				j.hits = append(j.hits, hit{y ^ xor, int32(a), j.tails.piece[first+int32(i)]})
			}
		}
	}
}

// tabulate makes a table of the hits, and returns the shift that gives a place in it.
func (j *walkJoin) tabulate() (shift int) {
	width := bits.Len(uint(2 * len(j.hits)))
	j.table = resize(j.table, 1<<width)
	for i := range j.hits {
		at := int(spread(j.hits[i].xor) >> (64 - width))
		for j.table[at] != 0 {
			at = (at + 1) & (len(j.table) - 1)
		}
		j.table[at] = int32(i + 1)
	}
	return 64 - width
}

// explains builds the whole walk, and checks it against loops and all digests.
func (j *walkJoin) explains(d *walkSolver, hops int, head, before, after, tail *piece) bool {
	t := d.t
	j.nodes = resize(j.nodes, hops)
	j.lay(t, &j.head, head, j.first, -1)
	j.lay(t, &j.before, before, j.first, +1)
	j.lay(t, &j.after, after, j.last, -1)
	j.lay(t, &j.tail, tail, j.last, +1)
	j.path = j.path[:0]
	for i, n := range j.nodes {
		if slices.Contains(j.nodes[:i], n) {
			return false
		}
		j.path = append(j.path, t.values[n])
	}
	for i := range d.eqs {
		if e := &d.eqs[i]; !e.used && d.s.Combine(&d.lanes, e.id, e.instance, &e.writers, j.path) != e.digest {
			return false
		}
	}
	return true
}

// lay writes the nodes of a piece, whose own link goes from hop at to hop at+1, and the
// links of those that it extends next to it.
func (j *walkJoin) lay(t *Topology, list *pieces, p *piece, at, step int) {
	for {
		j.nodes[at-1], j.nodes[at] = t.from[p.link], t.to[p.link]
		if p.next < 0 {
			return
		}
		p, at = &list.all[p.next], at+step
	}
}
