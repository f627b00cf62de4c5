package path

import (
	"math"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

type walkSolver struct {
	s     *encode.Static
	lanes encode.Scratch
	t     *Topology
	eqs   []equation
	sweep walkSweep
	// alive[hop-1] lists the links from hop-1 to hop that lie on a walk, and
	// ahead and behind count, for each, the walks up to it and from it.
	alive         [][]int32
	ahead, behind [][]float64
	walks, sums   []float64 // by link, and by the node that it leaves: of the list in work, 0 for others
	place         []int32   // by link: 1 for those of the list in work
	join          walkJoin
}

// NewWalks makes a solver for a known topology: a path is a walk over links that visits
// no switch twice. It goes in three steps.
//
//  1. Digests of a single writer filter that hop's candidates, and neighbouring
//     hops' candidates prune each other (walkSweep).
//  2. Dynamic programming over (hop, directed link) keeps the links that lie on
//     a walk through candidates of all hops, and counts the walks. A link is
//     never followed by the same one backwards.
//  3. The digests of several writers choose among the walks. If they have
//     bits enough to expect one survivor, the walks are cut at the hop where
//     both halves are fewest; each half is listed with the digests it gives, and
//     the halves meet in a hash table. So w walks cost about sqrt(w) (walkJoin).
//
// It reads every ValueCode.
func NewWalks(s *encode.Static, t *Topology) Solver {
	return &walkSolver{s: s, t: t, sweep: walkSweep{mark: make([]int32, len(t.values))}, walks: make([]float64, len(t.to)), sums: make([]float64, len(t.values)), place: make([]int32, len(t.to))}
}

// Solve implements Solver.
func (d *walkSolver) Solve(obs []Observation, hops int, sol *Solution) {
	sol.reset(hops)
	if hops == 1 {
		NewCandidates(d.s, d.t.values).Solve(obs, hops, sol)
		return
	}
	var ok bool
	if d.eqs, ok = equations(d.s, &d.lanes, d.eqs[:0], obs, hops); !ok || !d.sweep.run(d, hops) || !d.prune(hops) {
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
func (d *walkSolver) bits() float64 {
	walks := 0.0
	for i, n := range d.ahead[1] {
		walks += n * d.behind[1][i]
	}
	return math.Log2(walks)
}

// PathBits implements Solver.
func (d *walkSolver) PathBits(hops int) float64 {
	if hops == 1 {
		return math.Log2(float64(len(d.t.values))) - walkSlack
	}
	if d.eqs = d.eqs[:0]; !d.sweep.run(d, hops) || !d.prune(hops) {
		return 0
	}
	return d.bits() - walkSlack
}

// walkSlack is how many bits earlier attempts begin: where digests distinguish some walks better than others, fewer suffice.
const walkSlack = 8

// Resumes implements Solver.
func (d *walkSolver) Resumes() bool { return false }

// prune lists the links on walks, and reports whether there is a walk.
func (d *walkSolver) prune(hops int) bool {
	for len(d.alive) < hops {
		d.alive, d.ahead, d.behind = append(d.alive, nil), append(d.ahead, nil), append(d.behind, nil)
	}
	d.begin()
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

// begin lists the links from hop 1 to hop 2.
func (d *walkSolver) begin() {
	t := d.t
	list, ahead := d.alive[1][:0], d.ahead[1][:0]
	d.sweep.only(1)
	for _, n := range d.sweep.nodes[0] {
		for l, end := t.out(n); l < end; l++ {
			if d.sweep.has(t.to[l]) {
				list, ahead = append(list, l), append(ahead, 1)
			}
		}
	}
	d.alive[1], d.ahead[1] = list, ahead
}

// forward lists the links to the candidates of hop i+1 that continue a link of
// alive[i-1], and counts the walks that end in them.
func (d *walkSolver) forward(i int) {
	t := d.t
	for k, l := range d.alive[i-1] {
		d.load(t.to[l], t.back[l], d.ahead[i-1][k])
	}
	list, ahead := d.alive[i][:0], d.ahead[i][:0]
	for _, n := range d.sweep.nodes[i] {
		for out, end := t.out(n); out < end; out++ {
			// The links into a node are the reverse ones of those out of it.
			if walks := d.othersOf(t.to[out], t.back[out]); walks > 0 {
				list, ahead = append(list, t.back[out]), append(ahead, walks)
			}
		}
	}
	for _, l := range d.alive[i-1] {
		d.unload(t.to[l], t.back[l])
	}
	d.alive[i], d.ahead[i] = list, ahead
}

// backward drops the links of alive[i] that no link of alive[i+1] continues, and
// counts the walks that begin with the others.
func (d *walkSolver) backward(i int) {
	t := d.t
	for k, l := range d.alive[i+1] {
		d.load(t.from[l], l, d.behind[i+1][k])
	}
	list, ahead, behind := d.alive[i][:0], d.ahead[i][:0], resize(d.behind[i], len(d.alive[i]))[:0]
	for k, l := range d.alive[i] {
		if walks := d.othersOf(t.to[l], t.back[l]); walks > 0 {
			list, ahead, behind = append(list, l), append(ahead, d.ahead[i][k]), append(behind, walks)
		}
	}
	for _, l := range d.alive[i+1] {
		d.unload(t.from[l], l)
	}
	d.alive[i], d.ahead[i], d.behind[i] = list, ahead, behind
}

// load notes the walks by a link out of the node.
func (d *walkSolver) load(node, link int32, walks float64) {
	d.walks[link] = walks
	d.sums[node] += walks
}

func (d *walkSolver) unload(node, link int32) { d.walks[link], d.sums[node] = 0, 0 }

// othersOf sums the walks by the links out of a node but for one: that one would be
// the way back.
func (d *walkSolver) othersOf(node, except int32) float64 {
	if sum := d.sums[node]; sum <= 1<<53 {
		return sum - d.walks[except] // all of them integers, and so exact
	}
	return d.othersOneByOne(node, except)
}

// othersOneByOne is othersOf for numbers so large that a difference may not be exact, and
// be 0 where it should not.
func (d *walkSolver) othersOneByOne(node, except int32) (sum float64) {
	first, end := d.t.out(node)
	for i, n := range d.walks[first:end] {
		if first+int32(i) != except {
			sum += n
		}
	}
	return sum
}

func (d *walkSolver) unplace(list []int32) {
	for _, l := range list {
		d.place[l] = 0
	}
}

// count sets the candidates left of each hop, and leaves no others in the sweep.
func (d *walkSolver) count(hops int, sol *Solution) {
	for hop := 1; hop <= hops; hop++ {
		ends := d.t.to
		if hop == 1 {
			ends = d.t.from
		}
		nodes := d.sweep.ends(hop, d.alive[max(hop-1, 1)], ends)
		sol.Left[hop-1] = len(nodes)
		sol.Path[hop-1] = d.t.values[nodes[0]]
	}
}

// walkCap bounds the half walks before and behind the cut: a bitmap of at most 64 bits for
// each, and fewer pieces of 24 bytes, which the decoder keeps for all flows.
const walkCap = 1 << 17

// choose finds the walks that explain the digests of several writers. Joining at a cut
// takes the sums before it twice, and those behind it once.
func (d *walkSolver) choose(hops int, sol *Solution) {
	cut, cheapest, least := 0, math.Inf(1), math.Inf(1)
	for i := 1; i < hops; i++ {
		a, b := total(d.ahead[i]), total(d.behind[i])
		least = min(least, max(a, b))
		if n := 2*a + b; n < cheapest {
			cut, cheapest = i, n
		}
	}
	if least > walkCap {
		sol.Missing = max(1, sol.Missing)
		return
	}
	d.join.run(d, hops, cut, sol)
}
