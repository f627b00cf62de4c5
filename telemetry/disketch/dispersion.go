package disketch

import (
	"math"
	"slices"
)

// looksBack is within how many epochs before a divided one, and looksAhead after it, the epochs in slices say how flows send: a switch looks at
// each 16th.
const looksBack, looksAhead = 64, 16

// idEpoch is a fragment in an epoch.
type idEpoch struct {
	ID
	epoch uint64
}

// dispersion is the variance over the mean of what a flow sends in a part of an epoch, over the flows that pass the switches of the flow's
// path whose fragments divide it: the largest of what they saw in the epochs in slices around. 1 where none was looked at, as of flows whose packets come independently.
func (a *Asker) dispersion(sketch uint16, epoch uint64) float64 {
	most := 1.0
	for i := range a.path {
		for _, sw := range a.path[i].Switches {
			most = max(most, a.dispersionAt(ID{sw, sketch}, epoch))
		}
	}
	return most
}

func (a *Asker) dispersionAt(id ID, epoch uint64) float64 {
	f := a.records.epochs[epoch][id]
	if f == nil || len(f.records) == 1 {
		return 1
	}
	at := idEpoch{id, epoch}
	if known, ok := a.dispersions[at]; ok {
		return known
	}
	most, shape := 1.0, a.records.shapes[sketchEpoch{epoch, id.Sketch}]
	i, _ := slices.BinarySearch(a.epochs, epoch-min(epoch, looksBack))
	for ; i < len(a.epochs) && a.epochs[i] <= epoch+looksAhead; i++ {
		look := a.records.epochs[a.epochs[i]][id]
		// Of another unit, or length of epochs, it says nothing.
		if look != nil && look.looked() && a.records.shapes[sketchEpoch{a.epochs[i], id.Sketch}] == shape {
			most = max(most, look.records[0].dispersion(f.schedule.Log))
		}
	}
	if a.dispersions == nil {
		a.dispersions = map[idEpoch]float64{}
	}
	a.dispersions[at] = most
	return most
}

// dispersion is the mean over the flows of a record with Squares, each as often as it sent, with n = 2^log subepochs or as many as there were slices: the
// sum of the squared errors of n times what one slice has, over n-1 times what was sent. Both second moments are of the same
// cells, so that flows that send evenly cancel out. A flow that has all in one slice has what it sent, so it is at most Value.
func (x *Prepared) dispersion(log uint8) float64 {
	log = min(log, uint8(len(x.Squares)-1))
	if x.Value == 0 || log == 0 {
		return 1
	}
	n, value := math.Ldexp(1, int(log)), float64(x.Value)
	return min(max((n*x.Squares[log]-x.Squares[0])/((n-1)*value), 1), value)
}
