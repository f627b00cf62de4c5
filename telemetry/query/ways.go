package query

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/store"
)

// tried is of how many intervals the cells are compared to know which points have packets in common, and triedAgain if they have none in these.
const (
	tried      = 8
	triedAgain = 64
)

// waysOfPorts are the ways from ports of one switch to ports of another: pairs that a link joins, and others that have packets in common. Pairs
// of the latter with a point in common are one way, whose points are added up: packets spread, or come together, in between.
func (e *Engine) waysOfPorts(w store.Window, matched map[pair][]interval, unlike map[pair]int, from, to Place) ([]*stretch, error) {
	joined, certain, err := e.joinedPairs(w, matched, from, to, tried)
	if err == nil && len(joined) == 0 {
		joined, certain, err = e.joinedPairs(w, matched, from, to, triedAgain)
	}
	if err != nil {
		return nil, err
	}
	if len(joined) == 0 {
		return nil, e.nothingCommon(matched, from, to)
	}
	var ways []*stretch
	for _, pairs := range components(joined) {
		if len(pairs) == 1 {
			p := pairs[0]
			ways = append(ways, &stretch{
				ports: [2][]int{{int(p.from / 2)}, {int(p.to / 2)}}, certain: certain[p], intervals: matched[p], unlike: unlike[p],
			})
			continue
		}
		if w := together(pairs, matched); len(w.intervals) > 0 {
			ways = append(ways, w)
		}
	}
	if len(ways) == 0 {
		return nil, fmt.Errorf("%w: the points have no interval in common", ErrNoRecords)
	}
	return ways, nil
}

// joinedPairs lists the pairs that a link joins, which are certain, or that have packets in common in some of their intervals.
func (e *Engine) joinedPairs(w store.Window, matched map[pair][]interval, from, to Place, intervals int) (joined []pair, certain map[pair]bool, err error) {
	wires := e.wired()
	certain = map[pair]bool{}
	for _, p := range slices.SortedFunc(maps.Keys(matched), pair.compare) {
		switch wires.relation(portAt{from.Switch, int(p.from / 2)}, portAt{to.Switch, int(p.to / 2)}) {
		case linked:
			certain[p] = true
			joined = append(joined, p)
		case unlinked:
			o, mean := e.overlap(some(matched[p], intervals))
			if o.Joined() && !(mean < 0 && e.reversed(w, p, mean, from, to)) {
				joined = append(joined, p)
			}
		}
		if err := e.stopped(); err != nil {
			return nil, nil, err
		}
	}
	return joined, certain, nil
}

// overlap is what points have in common in intervals, and the mean delay of that; NaN: no cell survived.
func (e *Engine) overlap(list []interval) (o lds.Overlap, mean float64) {
	sum, count := 0.0, 0.0
	for d := range e.differences(list) {
		o.Add(d.Overlap())
		if ns, ok := d.MeanNs(); ok {
			sum, count = sum+ns*d.Counted(), count+d.Counted()
		}
	}
	if count == 0 {
		return o, math.NaN()
	}
	return o, sum / count
}

// reversed reports whether the packets that a pair has in common go from the receiver's switch to the sender's, past points outside of what lies
// between: they arrive at the former, and leave the latter. Then they are also in a pair of points for that direction, and that one is
// a link's, or has a delay above the pair's mean.
func (e *Engine) reversed(w store.Window, p pair, mean float64, from, to Place) bool {
	if from.Switch == to.Switch {
		return false
	}
	wires := e.wired()
	back := match(e.points(w, Place{Switch: to.Switch, Port: -1, ports: true}, true), e.points(w, Place{Switch: from.Switch, Port: -1, ports: true}, false))
	leaves := e.points(w, Place{Switch: from.Switch, Port: int(p.from / 2), ports: true}, true)
	for _, q := range slices.SortedFunc(maps.Keys(back), pair.compare) {
		r := wires.relation(portAt{to.Switch, int(q.from / 2)}, portAt{from.Switch, int(q.to / 2)})
		if r == apart {
			continue
		}
		same := false
		for _, list := range match(e.points(w, Place{Switch: from.Switch, Port: int(q.to / 2), ports: true}, false), leaves) {
			o, _ := e.overlap(some(list, tried))
			same = same || o.SameCells > 0
		}
		if !same {
			continue
		}
		if r == linked {
			return true
		}
		if o, other := e.overlap(some(back[q], tried)); o.Joined() && other > mean {
			return true
		}
	}
	return false
}

// components puts pairs together that have a point in common.
func components(pairs []pair) (sets [][]pair) {
	for _, p := range pairs {
		set := []pair{p}
		sets = slices.DeleteFunc(sets, func(other []pair) bool {
			if !slices.ContainsFunc(other, func(q pair) bool { return p.from == q.from || p.to == q.to }) {
				return false
			}
			set = append(set, other...)
			return true
		})
		slices.SortFunc(set, pair.compare)
		sets = append(sets, set)
	}
	return sets
}

// together makes one way of pairs, of the intervals in which all their points have a record.
func together(pairs []pair, matched map[pair][]interval) *stretch {
	type point struct {
		at     uint16
		egress bool // of the pair
	}
	type members map[point][]*store.Point
	all, windows := map[point]bool{}, map[store.Window]members{}
	for _, p := range pairs {
		ends := [2]point{{p.from, true}, {p.to, false}}
		all[ends[0]], all[ends[1]] = true, true
		for _, i := range matched[p] {
			at := windows[i.from[0].Window]
			if at == nil {
				at = members{}
				windows[i.from[0].Window] = at
			}
			at[ends[0]], at[ends[1]] = i.from, i.to
		}
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b point) int { return cmp.Compare(a.at, b.at) })
	w := &stretch{}
	for _, p := range order {
		side := 1
		if p.egress {
			side = 0
		}
		w.ports[side] = append(w.ports[side], int(p.at/2))
	}
	for _, window := range slices.SortedFunc(maps.Keys(windows), func(a, b store.Window) int { return cmp.Compare(a.From, b.From) }) {
		at := windows[window]
		if len(at) < len(all) {
			continue
		}
		var i interval
		for _, p := range order {
			if p.egress {
				i.from = append(i.from, at[p]...)
			} else {
				i.to = append(i.to, at[p]...)
			}
		}
		first := i.from[0]
		if slices.ContainsFunc(slices.Concat(i.from, i.to), func(p *store.Point) bool { return !p.Config.Equal(first.Config) }) {
			w.unlike++
			continue
		}
		w.intervals = append(w.intervals, i)
	}
	return w
}

// nothingCommon says why there is no way between two places.
func (e *Engine) nothingCommon(matched map[pair][]interval, from, to Place) error {
	sent, arrived := map[*store.Point]bool{}, map[*store.Point]bool{}
	left, came := uint64(0), uint64(0)
	for _, list := range matched {
		for _, i := range list {
			for _, p := range i.from {
				if !sent[p] {
					sent[p] = true
					left += p.Packets
				}
			}
			for _, p := range i.to {
				if !arrived[p] {
					arrived[p] = true
					came += p.Packets
				}
			}
		}
	}
	if left == 0 && came == 0 {
		return fmt.Errorf("%w of packets in the window: none left %s, none arrived at %s", ErrNoRecords, e.Store.Name(from.Switch), e.Store.Name(to.Switch))
	}
	leave, arrive := "left", "arrived at"
	if from.Switch == to.Switch {
		leave, arrive = "arrived at", "left"
	}
	return fmt.Errorf("%w of packets that passed both %s and %s: no link joins their points, and of %d packets that %s the former and %d that %s the latter none are the same, or nearly all were lost: "+
		"weir query path says which way flows go", ErrNoRecords, e.Store.Name(from.Switch), e.Store.Name(to.Switch), left, leave, came, arrive)
}
