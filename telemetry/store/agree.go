package store

import (
	"maps"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// agreements are the shapes in which switches sent the fragments of each sketch, and the schedule of each
// fragment's epochs.
//
// Records of one sketch that differ in shape cannot be asked together, and which is right cannot be known of
// two. It is decided by how many switches send which, so that one switch cannot shut out the others; a switch
// votes once, by its latest record.
type agreements struct {
	shapes    map[sketchEpoch]map[disketch.Shape]map[uint32]int // records by switch
	schedules map[fragmentEpoch]*agreement[disketch.Schedule]
	latest    map[uint16]map[uint32]vote // by sketch and switch
}

type sketchEpoch struct {
	sketch uint16
	epoch  uint64
}

type fragmentEpoch struct {
	id    disketch.ID
	epoch uint64
}

type agreement[T comparable] struct {
	on      T
	records int
}

// vote is the shape of the latest record that a switch sent of a sketch, of those that are held.
type vote struct {
	shape   disketch.Shape
	start   uint64 // ns since the clock's beginning
	records int    // that are held
}

// add notes a record; false: it contradicts others of its own fragment.
func (a *agreements) add(sw uint32, r *disketch.Prepared) bool {
	if a.shapes == nil {
		a.shapes = map[sketchEpoch]map[disketch.Shape]map[uint32]int{}
		a.schedules = map[fragmentEpoch]*agreement[disketch.Schedule]{}
		a.latest = map[uint16]map[uint32]vote{}
	}
	sketch, fragment := sketchEpoch{r.Fragment.Sketch, r.Epoch}, fragmentEpoch{r.Fragment, r.Epoch}
	schedule := a.schedules[fragment]
	if schedule != nil && schedule.on != r.Schedule {
		return false
	}
	if schedule == nil {
		schedule = &agreement[disketch.Schedule]{on: r.Schedule}
		a.schedules[fragment] = schedule
	}
	schedule.records++
	shape := r.Shape()
	if a.shapes[sketch] == nil {
		a.shapes[sketch] = map[disketch.Shape]map[uint32]int{}
	}
	if a.shapes[sketch][shape] == nil {
		a.shapes[sketch][shape] = map[uint32]int{}
	}
	a.shapes[sketch][shape][sw]++
	votes := a.latest[r.Fragment.Sketch]
	if votes == nil {
		votes = map[uint32]vote{}
		a.latest[r.Fragment.Sketch] = votes
	}
	v, start := votes[sw], r.Epoch<<r.Epochs
	if v.records++; v.records == 1 || start >= v.start {
		v.shape, v.start = shape, start
	}
	votes[sw] = v
	return true
}

// remove forgets a record that was added.
func (a *agreements) remove(sw uint32, r *disketch.Prepared) {
	sketch, fragment := sketchEpoch{r.Fragment.Sketch, r.Epoch}, fragmentEpoch{r.Fragment, r.Epoch}
	if s := a.schedules[fragment]; s.records > 1 {
		s.records--
	} else {
		delete(a.schedules, fragment)
	}
	shape := r.Shape()
	if of := a.shapes[sketch][shape]; of[sw] > 1 {
		of[sw]--
	} else if delete(of, sw); len(of) == 0 {
		if delete(a.shapes[sketch], shape); len(a.shapes[sketch]) == 0 {
			delete(a.shapes, sketch)
		}
	}
	votes := a.latest[r.Fragment.Sketch]
	v := votes[sw]
	if v.records--; v.records > 0 {
		votes[sw] = v
	} else if delete(votes, sw); len(votes) == 0 {
		delete(a.latest, r.Fragment.Sketch)
	}
}

// verdict says which fragments' records are left out of a view. It does not change.
type verdict struct {
	epochs map[sketchEpoch]disketch.Shape // of epochs with several shapes: the one that counts
	leads  map[uint16]disketch.Shape      // of sketches about which switches disagree: that of most
	lone   map[uint16]map[uint32]bool     // switches whose latest shape is another one
}

// equal reports whether two verdicts leave out the same.
func (v *verdict) equal(o *verdict) bool {
	return maps.Equal(v.epochs, o.epochs) && maps.Equal(v.leads, o.leads) &&
		maps.EqualFunc(v.lone, o.lone, func(a, b map[uint32]bool) bool { return maps.Equal(a, b) })
}

// verdict counts the votes. Of as many the shape of the switch with the least number counts.
func (a *agreements) verdict() *verdict {
	v := &verdict{epochs: map[sketchEpoch]disketch.Shape{}, leads: map[uint16]disketch.Shape{}, lone: map[uint16]map[uint32]bool{}}
	for sketch, votes := range a.latest {
		by := map[disketch.Shape]map[uint32]int{}
		for sw, x := range votes {
			if by[x.shape] == nil {
				by[x.shape] = map[uint32]int{}
			}
			by[x.shape][sw]++
		}
		if len(by) < 2 {
			continue
		}
		lead := most(by, nil)
		v.leads[sketch], v.lone[sketch] = lead, map[uint32]bool{}
		for sw, x := range votes {
			if x.shape != lead {
				v.lone[sketch][sw] = true
			}
		}
	}
	for at, by := range a.shapes {
		if len(by) > 1 {
			lead, disputed := v.leads[at.sketch]
			if !disputed {
				for _, x := range a.latest[at.sketch] {
					lead = x.shape
				}
			}
			v.epochs[at] = most(by, &lead)
		}
	}
	return v
}

// most is the shape that most switches have; of as many, the preferred one, else that of the switch with the
// least number.
func most(by map[disketch.Shape]map[uint32]int, preferred *disketch.Shape) (lead disketch.Shape) {
	least := func(switches map[uint32]int) uint32 {
		m := ^uint32(0)
		for sw := range switches {
			m = min(m, sw)
		}
		return m
	}
	var leading map[uint32]int
	for shape, switches := range by {
		better := leading == nil || len(switches) > len(leading)
		if !better && len(switches) == len(leading) {
			switch {
			case preferred != nil && shape == *preferred:
				better = true
			case preferred != nil && lead == *preferred:
			default:
				better = least(switches) < least(leading)
			}
		}
		if better {
			lead, leading = shape, switches
		}
	}
	return lead
}

// refuses reports whether a record is of another shape than those that count.
func (v *verdict) refuses(sw uint32, r *disketch.Prepared) bool {
	sketch := r.Fragment.Sketch
	if shape, disputed := v.epochs[sketchEpoch{sketch, r.Epoch}]; disputed && shape != r.Shape() {
		return true
	}
	return v.lone[sketch][sw] && v.leads[sketch] != r.Shape()
}
