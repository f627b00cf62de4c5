package export

import (
	"slices"

	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// Tally is how many records of a kind there are, and of which slices of the clock.
type Tally struct {
	Kind    record.Kind `json:"kind"`
	Records uint64      `json:"records"`
	Bytes   uint64      `json:"bytes"`
	// FirstEpoch and LastEpoch are the smallest and the greatest number, as in subjects.
	FirstEpoch int64 `json:"first_epoch"`
	LastEpoch  int64 `json:"last_epoch"`
	// First and Last are the earliest beginning and the latest end, in ns of CLOCK_TAI.
	First int64 `json:"first_ns"`
	Last  int64 `json:"last_ns"`
}

// merge adds a tally of the same kind.
func (t *Tally) merge(o Tally) {
	if o.Records == 0 {
		return
	}
	if t.Records == 0 {
		*t = o
		return
	}
	t.Records += o.Records
	t.Bytes += o.Bytes
	t.FirstEpoch, t.LastEpoch = min(t.FirstEpoch, o.FirstEpoch), max(t.LastEpoch, o.LastEpoch)
	t.First, t.Last = min(t.First, o.First), max(t.Last, o.Last)
}

// tallyOf is the tally of one record.
func tallyOf(h *record.Header, length int) Tally {
	epoch := jetstream.Epoch(h)
	return Tally{h.Kind, 1, uint64(length), epoch, epoch, h.Start, h.Start + max(h.Span, 0)}
}

// tallies has at most one for each kind, in no order.
type tallies []Tally

func (t *tallies) add(o Tally) {
	for i := range *t {
		if (*t)[i].Kind == o.Kind {
			(*t)[i].merge(o)
			return
		}
	}
	*t = append(*t, o)
}

func (t *tallies) addAll(o tallies) {
	for _, x := range o {
		t.add(x)
	}
}

// take takes records away, which were added before; epochs stay.
func (t tallies) take(o Tally) {
	for i := range t {
		if t[i].Kind == o.Kind {
			t[i].Records -= o.Records
			t[i].Bytes -= o.Bytes
		}
	}
}

func (t tallies) of(k record.Kind) Tally {
	for _, x := range t {
		if x.Kind == k {
			return x
		}
	}
	return Tally{Kind: k}
}

// kindsOf are the kinds in some tallies, sorted.
func kindsOf(all ...tallies) []record.Kind {
	var kinds []record.Kind
	for _, t := range all {
		for _, x := range t {
			if !slices.Contains(kinds, x.Kind) {
				kinds = append(kinds, x.Kind)
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}
