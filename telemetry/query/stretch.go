package query

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/store"
)

// stretch is what lies from one measurement point to another, or from several to several where packets spread in between. It holds their records,
// and makes cells of one interval at a time: those of an hour may not fit into memory.
type stretch struct {
	names     [2]string
	class     lds.Class
	ports     [2][]int // the points' ports; nil: of a class
	certain   bool     // all that leaves for the receivers passes them unless it is lost: the ends of a link, or a class
	intervals []interval
	unlike    int // intervals whose points have different configs
}

// interval is the records of two points about one interval: one each, or the pieces
// that a switch made which restarted within it, or the records of several points that are added up.
type interval struct{ from, to []*store.Point }

// pair is a sender's and a receiver's point: of ports, by their instances, or of a class.
type pair struct {
	from, to uint16
	class    lds.Class
}

func (p pair) compare(q pair) int {
	return cmp.Or(cmp.Compare(p.from, q.from), cmp.Compare(p.to, q.to), strings.Compare(p.class.String(), q.class.String()))
}

// stretches finds the ways between two places in the window: where both have points of classes, these, sorted; else all pairs of ports that a link joins,
// or that have packets in common, and of these the ones that a flow (nil: all flows) took.
func (e *Engine) stretches(basis *Basis, from, to Place, flow *Key) ([]*stretch, error) {
	fromEgress, toEgress := true, false
	if from.Switch == to.Switch {
		fromEgress, toEgress = false, true
	}
	senders := e.points(basis.Window, from, fromEgress)
	receivers := e.points(basis.Window, to, toEgress)
	if len(senders) == 0 || len(receivers) == 0 {
		have := windowOf(e.points(e.Store.All(), from, fromEgress))
		if len(senders) != 0 || have != (store.Window{}) && len(receivers) == 0 {
			have = windowOf(e.points(e.Store.All(), to, toEgress))
		}
		return nil, e.none("measurement points for this way", fmt.Sprintf("the stage %s belongs to %s, %s to %s",
			stageName(fromEgress), e.Store.Name(from.Switch), stageName(toEgress), e.Store.Name(to.Switch)), have)
	}
	matched := match(senders, receivers)
	unlike, err := deleteUnlike(matched)
	if err != nil {
		return nil, err
	}
	var ways []*stretch
	for p, list := range matched {
		if !p.class.IsZero() {
			ways = append(ways, &stretch{class: p.class, certain: true, intervals: list, unlike: unlike[p]})
		}
	}
	if len(ways) == 0 {
		if ways, err = e.waysOfPorts(basis.Window, matched, unlike, from, to); err != nil {
			return nil, err
		}
		if ways, err = e.waysOf(ways, flow); err != nil {
			return nil, err
		}
	}
	switches := map[uint32]bool{}
	for _, w := range ways {
		for _, i := range w.intervals {
			for _, p := range slices.Concat(i.from, i.to) {
				basis.rest(switches, &p.Origin)
			}
		}
		w.names = [2]string{namesOf(e.Store.Name(from.Switch), w.intervals[0].from), namesOf(e.Store.Name(to.Switch), w.intervals[0].to)}
	}
	slices.SortFunc(ways, func(a, b *stretch) int {
		return cmp.Or(strings.Compare(a.names[0], b.names[0]), strings.Compare(a.names[1], b.names[1]))
	})
	return ways, nil
}

// namesOf names the points of an interval, each once.
func namesOf(sw string, points []*store.Point) string {
	var names []string
	for _, p := range points {
		if name := pointName(sw, p); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

func (e *Engine) points(w store.Window, at Place, egress bool) (list []*store.Point) {
	found, _ := e.Store.Remember(pointsKey{}, func() (any, int64, error) { // which never fails
		of := map[uint32][]*store.Point{}
		for _, p := range e.Store.Points {
			of[p.Switch] = append(of[p.Switch], p)
		}
		return of, int64(len(e.Store.Points)) * 16, nil
	})
	for _, p := range found.(map[uint32][]*store.Point)[at.Switch] {
		if at.has(p) && p.Egress() == egress && p.Overlaps(w) {
			list = append(list, p)
		}
	}
	return list
}

// pointsKey is the points by switch.
type pointsKey struct{}

// windowOf is the window of points' records; empty without any.
func windowOf(list []*store.Point) (w store.Window) {
	for _, p := range list {
		w = w.Join(p.Window)
	}
	return w
}

// match puts the records of the same intervals together, in the order of the
// senders'.
func match(senders, receivers []*store.Point) map[pair][]interval {
	at := map[store.Window][][]*store.Point{}
	for _, pieces := range byInterval(receivers) {
		at[pieces[0].Window] = append(at[pieces[0].Window], pieces)
	}
	matched := map[pair][]interval{}
	for _, from := range byInterval(senders) {
		for _, to := range at[from[0].Window] {
			p := pair{from[0].Instance, to[0].Instance, lds.Class{}}
			if !from[0].Class.Same(&to[0].Class) {
				continue
			}
			if c := from[0].Class; !c.IsZero() {
				p = pair{class: c}
				p.class.Name = "" // of one end
			}
			matched[p] = append(matched[p], interval{from, to})
		}
	}
	return matched
}

// byInterval puts the pieces of one interval at one point together, if they can be
// added up.
func byInterval(points []*store.Point) (list [][]*store.Point) {
	type place struct {
		store.Window
		instance uint16
		class    lds.Class
	}
	at := map[place]int{}
	for _, p := range points {
		where := place{p.Window, p.Instance, lds.Class{}}
		if !p.Class.IsZero() {
			where = place{p.Window, p.Instance & 1, p.Class} // its number may have changed
		}
		i, known := at[where]
		if known && list[i][0].Config.Equal(p.Config) {
			list[i] = append(list[i], p)
			continue
		}
		at[where] = len(list)
		list = append(list, []*store.Point{p})
	}
	return list
}

// deleteUnlike takes intervals away that cannot be compared, and counts them by their points.
func deleteUnlike(matched map[pair][]interval) (unlike map[pair]int, err error) {
	unlike = map[pair]int{}
	for p, list := range matched {
		all := len(list)
		list = slices.DeleteFunc(list, func(i interval) bool {
			a, b := i.from[0].Config, i.to[0].Config
			if a.Equal(b) {
				return false
			}
			err = fmt.Errorf("their configs differ: %+v and %+v", a, b)
			return true
		})
		unlike[p] = all - len(list)
		if matched[p] = list; len(list) == 0 {
			delete(matched, p)
		}
	}
	switch {
	case len(matched) > 0:
		return unlike, nil
	case err != nil:
		return nil, fmt.Errorf("the points cannot be compared: %w", err)
	}
	return nil, fmt.Errorf("%w: the points have no interval in common", ErrNoRecords)
}

// waysOf leaves of several ways those that a flow took, as far as some of their intervals show it; all, if none of these do, or without a flow.
func (e *Engine) waysOf(ways []*stretch, flow *Key) ([]*stretch, error) {
	if flow == nil || len(ways) < 2 {
		return ways, nil
	}
	own, most := make([]float64, len(ways)), 0.0
	for i, w := range ways {
		var sum flowSum
		for d := range e.differences(some(w.intervals, tried)) {
			x := d.Flow(Hash(d.Family(), *flow, 0), e.Weight, lds.Balanced)
			sum.add(d, &x)
		}
		if err := e.stopped(); err != nil {
			return nil, err
		}
		own[i] = sum.own()
		most = max(most, own[i])
	}
	var took []*stretch
	for i, w := range ways {
		if own[i] > 0 && own[i] >= leastOwn*most {
			took = append(took, w)
		}
	}
	if took == nil {
		return ways, nil
	}
	return took, nil
}

// leastOwn is the share of a flow's packets from which on it is taken to have used a way, and not others that share its cells there.
const leastOwn = 0.1

// some are at most n of the intervals, the first and the last among them, evenly spread.
func some(all []interval, n int) []interval {
	if len(all) <= n {
		return all
	}
	list := make([]interval, n)
	for i := range list {
		list[i] = all[i*(len(all)-1)/(n-1)]
	}
	return list
}

// differences subtracts the points, one interval after the other, until the question is given up. Who ranges over
// it asks stopped afterwards.
func (e *Engine) differences(list []interval) iter.Seq[*lds.Difference] {
	return func(yield func(*lds.Difference) bool) {
		for _, i := range list {
			if e.stopped() != nil {
				return
			}
			if d, err := i.subtract(); err == nil && !yield(d) {
				return
			}
		}
	}
}

// paced ends with an error as soon as so many intervals of a question cannot be read before its deadline, by what the
// first ones took: a question that cannot be answered in time takes no more of it.
func (e *Engine) paced(list []interval) iter.Seq2[*lds.Difference, error] {
	return func(yield func(*lds.Difference, error) bool) {
		began, n := time.Now(), 0
		for d := range e.differences(list) {
			if !yield(d, nil) {
				return
			}
			if n++; n == pacedAt {
				if err := e.inTime(time.Since(began), n, len(list)); err != nil {
					yield(nil, err)
					return
				}
			}
		}
		if err := e.stopped(); err != nil {
			yield(nil, err)
		}
	}
}

// pacedAt is behind how many intervals it is estimated what all of them take.
const pacedAt = 16

// paceSlack is how many times too high the estimate may be: other questions may have slowed the first ones down.
const paceSlack = 4

// inTime says that a question which took some time for n of all intervals will not be answered by its deadline.
func (e *Engine) inTime(took time.Duration, n, all int) error {
	if e.ctx == nil {
		return nil
	}
	end, bounded := e.ctx.Deadline()
	rest := took / time.Duration(n) * time.Duration(all-n)
	if !bounded || time.Until(end) > rest/paceSlack {
		return nil
	}
	return fmt.Errorf("%w: it is about %d intervals, which take about %v: ask about a %d times shorter window, or name the ports",
		ErrTooCostly, all, (took + rest).Round(time.Second), 1+int((took+rest)/max(time.Until(end)+took, time.Millisecond)))
}

func (i interval) subtract() (*lds.Difference, error) {
	from, err := whole(i.from)
	to, err2 := whole(i.to)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	// Points take no timestamp from farther away than half an interval.
	farthest := 2 * from.Config().IntervalNs
	return lds.Subtract(from, to, lds.Limits{MinNs: -farthest, MaxNs: farthest})
}

// whole adds up the pieces of a point's interval.
func whole(pieces []*store.Point) (*lds.Point, error) {
	points := make([]*lds.Point, len(pieces))
	for i, p := range pieces {
		var err error
		if points[i], err = p.Decode(); err != nil {
			return nil, err
		}
	}
	points = lds.Alike(points...)
	for _, p := range points[1:] {
		if err := points[0].Merge(p); err != nil {
			return nil, err
		}
	}
	return points[0], nil
}
