package path

import (
	"math"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// This file has the slow twins of the solvers: plain algorithms, hop by hop and
// value by value, which start anew where the others remember. pathtwin_test.go compares.

// slowCombine is Static.combine.
func slowCombine(s *encode.Static, id uint64, instance int, writers *encode.HopSet, path []uint64) uint64 {
	var d uint64
	for hop := range writers.All {
		d ^= slowContribution(s, id, instance, hop, path[hop-1])
	}
	return d
}

// slowContribution is one of Static.Contributions.
func slowContribution(s *encode.Static, id uint64, instance, hop int, value uint64) uint64 {
	return s.Contributions(new(encode.Scratch), id, instance, hop, []uint64{value})[0]
}

// slowCandidates is candidateSolver.
type slowCandidates struct {
	s      *encode.Static
	values []uint64
	eqs    []equation
	left   [][]uint64 // by hop; nil: all values
	known  encode.HopSet
	path   []uint64
	joint  slowFilter

	room [pint.MaxHops][]uint64 // of left, by hop, from attempt to attempt

	resume        resume
	spare         int
	contradictory bool
}

// newSlowCandidates makes a decoder for values of the given set.
func newSlowCandidates(s *encode.Static, values []uint64) *slowCandidates {
	return &slowCandidates{s: s, values: values}
}

// Solve implements Solver.
func (d *slowCandidates) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	from := d.resume.from(obs, hops)
	if from == 0 {
		d.left, d.path, d.known = resize(d.left, hops), resize(d.path, hops), encode.HopSet{}
		d.eqs, d.spare, d.contradictory = d.eqs[:0], 0, false
	}
	var ok bool
	if d.eqs, ok = equations(d.s, new(encode.Scratch), d.eqs, obs[from:], hops); !ok {
		d.contradictory = true
	}
	d.resume.took(obs, hops)
	for progress := true; progress && !d.contradictory; {
		progress = false
		for i := range d.eqs {
			if e := &d.eqs[i]; !e.used && d.apply(e) {
				progress = true
			}
		}
		d.eqs = slices.DeleteFunc(d.eqs, func(e equation) bool { return e.used })
		for i := 0; i < len(d.eqs) && !progress && d.s.Bits <= jointBits; i++ {
			progress = d.applyJoint(&d.eqs[i])
		}
	}
	d.collect(hops, sol)
}

// apply uses the digest up if at most one writer is unknown, and reports
// whether it narrowed that hop.
func (d *slowCandidates) apply(e *equation) bool {
	open := e.writers.Without(&d.known)
	n := open.Len()
	if n > 1 {
		return false
	}
	e.used = true
	residual := d.residual(e)
	if n == 0 {
		d.contradictory = d.contradictory || residual != 0
		d.spare += d.s.Bits
		return false
	}
	hop := open.Last()
	return d.filter(hop, func(v uint64) bool { return slowContribution(d.s, e.id, e.instance, hop, v) == residual })
}

// residual is the digest without the known writers.
func (d *slowCandidates) residual(e *equation) uint64 {
	known := e.writers.And(&d.known)
	return e.digest ^ slowCombine(d.s, e.id, e.instance, &known, d.path)
}

// filter keeps the hop's values for which keep holds, and reports whether
// fewer are left.
func (d *slowCandidates) filter(hop int, keep func(uint64) bool) bool {
	from, into := d.candidates(hop)
	for _, v := range from {
		if keep(v) {
			into = append(into, v)
		}
	}
	return d.keep(hop, len(from), into)
}

// candidates returns the hop's values, and room for those that shall be left; it
// may be the same memory.
func (d *slowCandidates) candidates(hop int) (from, into []uint64) {
	if from = d.left[hop-1]; from == nil {
		return d.values, d.room[hop-1][:0]
	}
	return from, from[:0]
}

// keep notes the values left, of those before, and reports whether they are fewer.
func (d *slowCandidates) keep(hop, before int, into []uint64) bool {
	d.left[hop-1] = into
	if cap(into) > cap(d.room[hop-1]) {
		d.room[hop-1] = into
	}
	switch len(into) {
	case 0:
		d.contradictory = true
	case 1:
		d.known.Add(hop)
		d.path[hop-1] = into[0]
	}
	return len(into) < before
}

func (d *slowCandidates) collect(hops int, sol *Solution) {
	copy(sol.Path, d.path)
	sol.Spare, sol.Contradiction = d.spare, d.contradictory
	sol.Unique = d.known.Len() == hops && !sol.Contradiction
	missing := 0.0
	for i, l := range d.left {
		if sol.Left[i] = len(l); l == nil {
			missing += math.Log2(float64(len(d.values)))
		} else if len(l) > 0 {
			missing += math.Log2(float64(len(l)))
		}
	}
	sol.Missing = int(missing)
}

// slowFilter holds, for the unknown writers of a digest, what each can
// contribute, and what those before and behind it can together.
type slowFilter struct {
	hops                 []int
	own, before, further []sums
}

// applyJoint filters all unknown writers of a digest by each other.
func (d *slowCandidates) applyJoint(e *equation) bool {
	open := e.writers.Without(&d.known)
	j := &d.joint
	j.hops = j.hops[:0]
	for hop := range open.All {
		if d.left[hop-1] == nil {
			// A hop without a digest of its own contributes anything.
			if len(d.values) > 1<<d.s.Bits {
				return false
			}
		}
		j.hops = append(j.hops, hop)
	}
	if n := len(j.hops); n < 2 || n > 8 || !d.prepareJoint(e) {
		return false
	}
	residual, progress := d.residual(e), false
	for i, hop := range j.hops {
		others := slowSumset(&j.before[i], &j.further[i])
		if others.len() == 1<<d.s.Bits {
			continue
		}
		if d.filter(hop, func(v uint64) bool { return others.has(residual ^ slowContribution(d.s, e.id, e.instance, hop, v)) }) {
			progress = true
		}
		if d.contradictory {
			return true
		}
	}
	return progress
}

// prepareJoint fills the filter, and reports whether it can narrow anything.
func (d *slowCandidates) prepareJoint(e *equation) bool {
	j, n := &d.joint, len(d.joint.hops)
	j.own, j.before, j.further = resize(j.own, n), resize(j.before, n), resize(j.further, n)
	for i, hop := range j.hops {
		from := d.left[hop-1]
		if from == nil {
			from = d.values
		}
		for _, v := range from {
			j.own[i].add(slowContribution(d.s, e.id, e.instance, hop, v))
		}
	}
	j.before[0].add(0)
	j.further[n-1].add(0)
	for i := 1; i < n; i++ {
		j.before[i] = slowSumset(&j.before[i-1], &j.own[i-1])
		j.further[n-1-i] = slowSumset(&j.further[n-i], &j.own[n-i])
	}
	full := 1 << d.s.Bits
	return j.before[n-1].len() < full || j.further[0].len() < full
}

// slowSumset is the set of x xor y.
func slowSumset(a, b *sums) (out sums) {
	for x := range uint64(1 << jointBits) {
		for y := range uint64(1 << jointBits) {
			if a.has(x) && b.has(y) {
				out.add(x ^ y)
			}
		}
	}
	return out
}

// slowWalks is walkSolver.
type slowWalks struct {
	s   *encode.Static
	t   *Topology
	eqs []equation
	// may[hop-1][node]: the node is a candidate of the hop.
	may  [][]bool
	open []bool // the hop has all candidates
	// alive[hop-1] lists the links from hop-1 to hop that lie on a walk, and
	// ahead and behind count, for each, the walks up to it and from it.
	alive         [][]int32
	ahead, behind [][]float64
	place         []int32 // of a link in the list in work, plus 1
	join          slowJoin
}

// newSlowWalks makes a decoder that knows the topology.
func newSlowWalks(s *encode.Static, t *Topology) *slowWalks {
	return &slowWalks{s: s, t: t, place: make([]int32, len(t.to))}
}

// Solve implements Solver.
func (d *slowWalks) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	if hops == 1 {
		newSlowCandidates(d.s, d.t.values).Solve(obs, hops, sol)
		return
	}
	var ok bool
	if d.eqs, ok = equations(d.s, new(encode.Scratch), d.eqs[:0], obs, hops); !ok || !d.filter(hops) || !d.prune(hops) {
		sol.Contradiction = true
		return
	}
	d.count(hops, sol)
	sumBits := 0
	for i := range d.eqs {
		if !d.eqs[i].used {
			sumBits += d.s.Bits
		}
	}
	if sol.Missing = max(0, int(d.bits())-sumBits); sol.Missing <= 2 {
		d.choose(hops, sol)
	}
}

// bits is the binary logarithm of the number of walks that prune has left.
func (d *slowWalks) bits() float64 {
	walks := 0.0
	for i, n := range d.ahead[1] {
		walks += n * d.behind[1][i]
	}
	return math.Log2(walks)
}

// filter applies the digests of single writers, and reports whether every hop
// has a candidate.
func (d *slowWalks) filter(hops int) bool {
	v := len(d.t.values)
	for len(d.may) < hops {
		d.may = append(d.may, make([]bool, v))
	}
	d.open = resize(d.open, hops)
	for i := range hops {
		d.open[i] = true
	}
	for i := range d.eqs {
		e := &d.eqs[i]
		if e.writers.Len() != 1 {
			continue
		}
		e.used = true
		hop := e.writers.Last()
		may, any, fresh := d.may[hop-1], false, d.open[hop-1]
		for n, value := range d.t.values {
			may[n] = (fresh || may[n]) && slowContribution(d.s, e.id, e.instance, hop, value) == e.digest
			any = any || may[n]
		}
		if d.open[hop-1] = false; !any {
			return false
		}
	}
	for i, open := range d.open {
		for n := 0; open && n < v; n++ {
			d.may[i][n] = true
		}
	}
	return true
}

// prune lists the links on walks, and reports whether there is a walk.
func (d *slowWalks) prune(hops int) bool {
	for len(d.alive) < hops {
		d.alive, d.ahead, d.behind = append(d.alive, nil), append(d.ahead, nil), append(d.behind, nil)
	}
	t := d.t
	d.alive[1], d.ahead[1] = d.alive[1][:0], d.ahead[1][:0]
	for l := range t.to {
		if d.may[0][t.from[l]] && d.may[1][t.to[l]] {
			d.alive[1], d.ahead[1] = append(d.alive[1], int32(l)), append(d.ahead[1], 1)
		}
	}
	for i := 2; i < hops; i++ {
		d.forward(i)
	}
	last := hops - 1
	d.behind[last] = resize(d.behind[last], len(d.alive[last]))
	for i := range d.behind[last] {
		d.behind[last][i] = 1
	}
	for i := last - 1; i >= 1; i-- {
		d.backward(i)
	}
	return len(d.alive[1]) > 0
}

// forward extends the walks that end in alive[i-1] by one link.
func (d *slowWalks) forward(i int) {
	t, may := d.t, d.may[i]
	list, ahead := d.alive[i][:0], d.ahead[i][:0]
	for k, l := range d.alive[i-1] {
		for next, end := t.out(t.to[l]); next < end; next++ {
			if next == t.back[l] || !may[t.to[next]] {
				continue
			}
			if d.place[next] == 0 {
				list, ahead = append(list, next), append(ahead, 0)
				d.place[next] = int32(len(list))
			}
			ahead[d.place[next]-1] += d.ahead[i-1][k]
		}
	}
	d.unplace(list)
	d.alive[i], d.ahead[i] = list, ahead
}

// backward drops the links of alive[i] that no link of alive[i+1] continues.
func (d *slowWalks) backward(i int) {
	t := d.t
	for k, l := range d.alive[i+1] {
		d.place[l] = int32(k + 1)
	}
	list, ahead, behind := d.alive[i][:0], d.ahead[i][:0], resize(d.behind[i], len(d.alive[i]))[:0]
	for k, l := range d.alive[i] {
		n := 0.0
		for next, end := t.out(t.to[l]); next < end; next++ {
			if p := d.place[next]; p != 0 && next != t.back[l] {
				n += d.behind[i+1][p-1]
			}
		}
		if n > 0 {
			list, ahead, behind = append(list, l), append(ahead, d.ahead[i][k]), append(behind, n)
		}
	}
	d.unplace(d.alive[i+1])
	d.alive[i], d.ahead[i], d.behind[i] = list, ahead, behind
}

func (d *slowWalks) unplace(list []int32) {
	for _, l := range list {
		d.place[l] = 0
	}
}

// count sets the candidates left of each hop.
func (d *slowWalks) count(hops int, sol *Solution) {
	seen := make([]int32, len(d.t.values))
	for hop := 1; hop <= hops; hop++ {
		for _, l := range d.alive[max(hop-1, 1)] {
			n := d.t.to[l]
			if hop == 1 {
				n = d.t.from[l]
			}
			if seen[n] != int32(hop) {
				seen[n] = int32(hop)
				sol.Left[hop-1]++
				sol.Path[hop-1] = d.t.values[n]
			}
		}
	}
}

// slowCap bounds the slowHalf walks that are listed.
const slowCap = walkCap

// choose finds the walks that explain the digests of several writers.
func (d *slowWalks) choose(hops int, sol *Solution) {
	cut, least := 0, math.Inf(1)
	for i := 1; i < hops; i++ {
		a, b := 0.0, 0.0
		for k := range d.alive[i] {
			a, b = a+d.ahead[i][k], b+d.behind[i][k]
		}
		if n := max(a, b); n < least {
			cut, least = i, n
		}
	}
	if least > slowCap {
		sol.Missing = max(1, sol.Missing)
		return
	}
	d.join.run(d, hops, cut, sol)
}

// slowHalf is a slowHalf walk: xor is what its hops contribute to the packed digests;
// next is the slowHalf walk that it extends, -1 at an end of the path.
type slowHalf struct {
	xor  uint64
	link int32
	next int32
}

// slowJoin lists slowHalf walks and joins them.
type slowJoin struct {
	packed      []*equation // as many digests as fit into a word
	target      uint64
	front, rear []slowHalf
	table       []int32
	nodes       []int32
	path        []uint64
	words       [][]uint64 // by hop and node: packed contributions, where known
	has         [][]bool
}

// run joins at the links of alive[cut]: fronts end in them, rears begin there.
func (j *slowJoin) run(d *slowWalks, hops, cut int, sol *Solution) {
	j.pack(d, hops)
	j.front, j.rear = j.front[:0], j.rear[:0]
	t := d.t
	for _, l := range d.alive[1] {
		j.front = append(j.front, slowHalf{j.word(d, 1, t.from[l]) ^ j.word(d, 2, t.to[l]), l, -1})
	}
	from := 0
	for i := 2; i <= cut; i++ {
		from = j.extendFront(d, i, from)
	}
	for _, l := range d.alive[hops-1] {
		j.rear = append(j.rear, slowHalf{0, l, -1})
	}
	back := 0
	for i := hops - 2; i >= cut; i-- {
		back = j.extendRear(d, i, back)
	}
	j.match(d, hops, cut, from, back, sol)
}

// pack chooses the digests that slowHalf walks carry along.
func (j *slowJoin) pack(d *slowWalks, hops int) {
	j.packed, j.target = j.packed[:0], 0
	for i := range d.eqs {
		if e := &d.eqs[i]; !e.used && (len(j.packed)+1)*d.s.Bits <= 64 {
			j.target |= e.digest << (len(j.packed) * d.s.Bits)
			j.packed = append(j.packed, e)
		}
	}
	for len(j.words) < hops {
		j.words, j.has = append(j.words, make([]uint64, len(d.t.values))), append(j.has, make([]bool, len(d.t.values)))
	}
	for i := range hops {
		clear(j.has[i])
	}
}

// word is what a node contributes at a hop.
func (j *slowJoin) word(d *slowWalks, hop int, node int32) uint64 {
	if !j.has[hop-1][node] {
		var w uint64
		v := d.t.values[node]
		for i, e := range j.packed {
			if e.writers.Has(hop) {
				w |= slowContribution(d.s, e.id, e.instance, hop, v) << (i * d.s.Bits)
			}
		}
		j.words[hop-1][node], j.has[hop-1][node] = w, true
	}
	return j.words[hop-1][node]
}

// extendFront adds the link to hop i+1 to the fronts from index from on, and
// returns where the longer ones start.
func (j *slowJoin) extendFront(d *slowWalks, i, from int) int {
	t, end := d.t, len(j.front)
	for _, l := range d.alive[i] {
		d.place[l] = 1
	}
	for k := from; k < end; k++ {
		h := j.front[k]
		for next, stop := t.out(t.to[h.link]); next < stop; next++ {
			if d.place[next] != 0 && next != t.back[h.link] {
				j.front = append(j.front, slowHalf{h.xor ^ j.word(d, i+1, t.to[next]), next, int32(k)})
			}
		}
	}
	d.unplace(d.alive[i])
	return end
}

// extendRear puts a link to hop i+1 in front of the rears from index from on;
// a rear does not contain what its first link's end contributes.
func (j *slowJoin) extendRear(d *slowWalks, i, from int) int {
	t, end := d.t, len(j.rear)
	for _, l := range d.alive[i] {
		d.place[l] = 1
	}
	for k := from; k < end; k++ {
		h := j.rear[k]
		xor := h.xor ^ j.word(d, i+2, t.to[h.link])
		// The links into a node are the reverse ones of those out of it.
		for out, stop := t.out(t.from[h.link]); out < stop; out++ {
			if in := t.back[out]; d.place[in] != 0 && out != h.link {
				j.rear = append(j.rear, slowHalf{xor, in, int32(k)})
			}
		}
	}
	d.unplace(d.alive[i])
	return end
}

// match looks up the rears among the fronts.
func (j *slowJoin) match(d *slowWalks, hops, cut, from, back int, sol *Solution) {
	size := 1 << bits.Len(uint(2*(len(j.front)-from)))
	j.table = resize(j.table, size)
	slot := func(xor uint64, link int32) int {
		x := (xor ^ uint64(link)) * 0x9e3779b97f4a7c15
		return int((x ^ x>>32) & uint64(size-1))
	}
	for k := from; k < len(j.front); k++ {
		at := slot(j.front[k].xor, j.front[k].link)
		for j.table[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		j.table[at] = int32(k + 1)
	}
	found := 0
	for k := back; k < len(j.rear) && found < 2; k++ {
		r := &j.rear[k]
		want := r.xor ^ j.target
		for at := slot(want, r.link); j.table[at] != 0; at = (at + 1) & (size - 1) {
			f := &j.front[j.table[at]-1]
			if f.xor == want && f.link == r.link && j.explains(d, j.table[at]-1, r, hops, cut) {
				if found++; found == 1 {
					copy(sol.Path, j.path)
				}
			}
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

// explains builds the whole walk, and checks it against loops and all digests.
func (j *slowJoin) explains(d *slowWalks, front int32, r *slowHalf, hops, cut int) bool {
	t := d.t
	j.nodes = resize(j.nodes, hops)
	at := cut
	for k := front; k >= 0; k = j.front[k].next {
		j.nodes[at-1], j.nodes[at] = t.from[j.front[k].link], t.to[j.front[k].link]
		at--
	}
	at = cut
	for k := r.next; k >= 0; k = j.rear[k].next {
		at++
		j.nodes[at] = t.to[j.rear[k].link]
	}
	j.path = j.path[:0]
	for i, n := range j.nodes {
		for _, m := range j.nodes[:i] {
			if n == m {
				return false
			}
		}
		j.path = append(j.path, t.values[n])
	}
	for i := range d.eqs {
		if e := &d.eqs[i]; !e.used && slowCombine(d.s, e.id, e.instance, &e.writers, j.path) != e.digest {
			return false
		}
	}
	return true
}

func (d *slowCandidates) PathBits(hops int) float64 {
	return NewCandidates(d.s, d.values).PathBits(hops)
}
func (d *slowCandidates) Resumes() bool        { return true }
func (d *slowWalks) PathBits(hops int) float64 { return NewWalks(d.s, d.t).PathBits(hops) }
func (d *slowWalks) Resumes() bool             { return false }
