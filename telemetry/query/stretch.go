package query

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/store"
)

// stretch is what lies from one measurement point to another. It holds their records,
// and makes cells of one interval at a time: those of an hour may not fit into memory.
type stretch struct {
	names     [2]string
	class     lds.Class
	intervals []interval
	unlike    int // intervals whose points have different configs
}

// interval is the records of two points about one interval: one each, or the pieces
// that a switch made which restarted within it.
type interval struct{ from, to []*store.Point }

// pair is a sender's and a receiver's point: of ports, by their instances, or of a class.
type pair struct {
	from, to uint16
	class    lds.Class
}

// stretches finds the measurement points between two places in the window. Of several ports
// that the places may mean, those two are taken which have most packets of a flow in common, or without one (nil), or where none has any, most cells; where both have points of classes, all of these
// are taken, sorted.
func (e *Engine) stretches(basis *Basis, from, to Place, flow *Key) ([]*stretch, error) {
	fromEgress, toEgress := true, false
	if from.Switch == to.Switch {
		fromEgress, toEgress = false, true
	}
	senders := e.points(basis.Window, from, fromEgress)
	receivers := e.points(basis.Window, to, toEgress)
	if len(senders) == 0 || len(receivers) == 0 {
		return nil, fmt.Errorf("%w of measurement points for this way in the window: the stage %s belongs to %s, %s to %s", ErrNoRecords,
			stageName(fromEgress), e.Store.Name(from.Switch), stageName(toEgress), e.Store.Name(to.Switch))
	}
	chosen, unlike, err := e.choose(match(senders, receivers), flow)
	if err != nil {
		return nil, err
	}
	switches := map[uint32]bool{}
	var ways []*stretch
	for best, found := range chosen {
		for _, i := range found {
			for _, p := range slices.Concat(i.from, i.to) {
				basis.rest(switches, &p.Origin)
			}
		}
		first := found[0]
		ways = append(ways, &stretch{
			names:     [2]string{pointName(e.Store.Name(from.Switch), first.from[0]), pointName(e.Store.Name(to.Switch), first.to[0])},
			class:     best.class,
			intervals: found,
			unlike:    unlike[best],
		})
	}
	slices.SortFunc(ways, func(a, b *stretch) int { return strings.Compare(a.names[0], b.names[0]) })
	return ways, nil
}

func (e *Engine) points(w store.Window, at Place, egress bool) (list []*store.Point) {
	for i := range e.Store.Points {
		p := &e.Store.Points[i]
		if at.has(p) && p.Egress() == egress && p.Overlaps(w) {
			list = append(list, p)
		}
	}
	return list
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

// tried is of how many intervals the cells are compared to choose a pair of points.
const tried = 8

// choose takes the pair of ports with most of the flow's packets, if there is a flow, and else most cells that can be used in some of their intervals, spread over the
// window, or all pairs of a class, and those of their intervals that can be compared; of all pairs it counts those that cannot. To decode all intervals of all pairs
// would take minutes.
func (e *Engine) choose(matched map[pair][]interval, flow *Key) (chosen map[pair][]interval, unlike map[pair]int, err error) {
	var refusal error
	unlike = map[pair]int{}
	for p, list := range matched {
		all := len(list)
		list = slices.DeleteFunc(list, func(i interval) bool {
			a, b := i.from[0].Config, i.to[0].Config
			if a.Equal(b) {
				return false
			}
			refusal = fmt.Errorf("their configs differ: %+v and %+v", a, b)
			return true
		})
		unlike[p] = all - len(list)
		if matched[p] = list; len(list) == 0 {
			delete(matched, p)
		}
	}
	switch {
	case len(matched) == 0 && refusal != nil:
		return nil, nil, fmt.Errorf("the points cannot be compared: %w", refusal)
	case len(matched) == 0:
		return nil, nil, fmt.Errorf("%w: the points have no interval in common", ErrNoRecords)
	}
	classes := maps.Clone(matched)
	maps.DeleteFunc(classes, func(p pair, _ []interval) bool { return p.class.IsZero() })
	if len(classes) > 0 {
		return classes, unlike, nil
	}
	best, most, mostOwn := pair{}, -1, 0.0
	for p, list := range matched {
		common, own := 0, 0.0
		if len(matched) > 1 {
			for d := range e.differences(some(list, tried)) {
				common += d.Cells(lds.Usable)
				if flow != nil {
					if x := d.Flow(Hash(d.Family(), *flow, 0), e.Weight, lds.Balanced); x.HasDelay {
						own += x.Packets
					}
				}
			}
			if err := e.stopped(); err != nil {
				return nil, nil, err
			}
		}
		if cmp.Or(cmp.Compare(own, mostOwn), cmp.Compare(common, most), cmp.Compare(best.from, p.from), cmp.Compare(best.to, p.to)) > 0 {
			best, most, mostOwn = p, common, own
		}
	}
	return map[pair][]interval{best: matched[best]}, unlike, nil
}

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
	sum, err := pieces[0].Decode()
	for _, p := range pieces[1:] {
		if err != nil {
			return nil, err
		}
		var piece *lds.Point
		if piece, err = p.Decode(); err == nil {
			err = sum.Merge(piece)
		}
	}
	return sum, err
}
