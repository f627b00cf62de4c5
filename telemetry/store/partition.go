package store

import (
	"math"
	"sort"

	"github.com/weirswitch/weir/telemetry/record"
)

// extent is when the records of a measurement are in a second: what is asked about times need not look at each record.
type extent struct {
	of string
	Window
	longest int64 // of the slices, ns
}

// partitionDigests are the batches of a partition in a second, in order, and when they are.
type partitionDigests struct {
	extent
	partition int
	batches   []*Batch
}

// partitionSet are some of the partitions.
type partitionSet [record.Partitions]bool

// index finds out what is asked about the second again and again.
func (v *secondView) index() {
	for _, of := range measurements {
		x := extent{of: of}
		if of != OfDigests {
			v.lists.eachOf(of, x.add)
		}
		if x.Window != (Window{}) {
			v.extents = append(v.extents, x)
		}
	}
	v.digests = digestsOf(v.lists.Batches)
}

func (x *extent) add(o *Origin) { x.Window, x.longest = x.Join(o.Window), max(x.longest, o.To-o.From) }

// digestsOf divides the batches of a second.
func digestsOf(list []*Batch) (all []partitionDigests) {
	var at [record.Partitions]int // one more than the place in all
	for _, b := range list {
		p := int(b.Instance)
		if at[p] == 0 {
			all = append(all, partitionDigests{extent: extent{of: OfDigests}, partition: p})
			at[p] = len(all)
		}
		d := &all[at[p]-1]
		d.add(&b.Origin)
		d.batches = append(d.batches, b)
	}
	return all
}

// fetchedSeconds divides sorted batches by the second in which they begin.
func fetchedSeconds(list []*Batch) (all []*secondView) {
	for len(list) > 0 {
		n := sort.Search(len(list), func(i int) bool { return list[i].From>>bucketBits > list[0].From>>bucketBits })
		all = append(all, &secondView{digests: digestsOf(list[:n])})
		list = list[n:]
	}
	return all
}

// indexed reports whether seconds are known, of all partitions.
func (s *Store) indexed() bool {
	if s.base != nil {
		return s.base.indexed()
	}
	return s.seconds != nil
}

// eachExtent calls f for the extents of all seconds of an indexed store.
func (s *Store) eachExtent(f func(x *extent)) {
	of := s
	for of.base != nil {
		of = of.base
	}
	for _, v := range of.seconds {
		for i := range v.extents {
			f(&v.extents[i])
		}
	}
	s.eachDigests(func(d *partitionDigests) { f(&d.extent) })
}

func (s *Store) eachDigests(f func(d *partitionDigests)) {
	if s.base != nil {
		s.base.eachDigests(func(d *partitionDigests) {
			if !s.theirs[d.partition] {
				f(d)
			}
		})
	}
	for _, v := range s.seconds {
		for i := range v.digests {
			f(&v.digests[i])
		}
	}
}

// holder is the store that has a partition itself.
func (s *Store) holder(partition int) *Store {
	for s.base != nil && !s.theirs[partition] {
		s = s.base
	}
	return s
}

type partitionsKey struct{}

// partitionKey is a partition whose batches are remembered.
type partitionKey struct{ partition int }

// partition has the batches of a partition, in their order in the store.
func (s *Store) partition(partition int) []*Batch {
	of := s.holder(partition)
	if of.base == nil && of.seconds == nil {
		by, _ := of.Remember(partitionsKey{}, func() (any, int64, error) { // which never fails
			by := new([record.Partitions][]*Batch)
			for _, b := range of.Batches {
				by[b.Instance] = append(by[b.Instance], b)
			}
			return by, int64(8 * len(of.Batches)), nil
		})
		return by.(*[record.Partitions][]*Batch)[partition]
	}
	list, _ := of.Remember(partitionKey{partition}, func() (any, int64, error) { // which never fails
		list := of.inSeconds(partition, Window{math.MinInt64, math.MaxInt64})
		return list, int64(8 * len(list)), nil
	})
	return list.([]*Batch)
}

// inSeconds are the batches of a partition of the seconds of which some overlap a window.
func (s *Store) inSeconds(partition int, w Window) (list []*Batch) {
	for _, v := range s.seconds {
		for i := range v.digests {
			if d := &v.digests[i]; d.partition == partition && d.Overlaps(w) {
				list = append(list, d.batches...)
			}
		}
	}
	return list
}

// AllPartitions stands for all of them.
const AllPartitions = -1

// DigestsWithin returns the batches of a partition, or of AllPartitions, that overlap a window, in order, and among them some that do not. The
// caller must not change the list.
func (s *Store) DigestsWithin(partition int, w Window) []*Batch {
	if partition != AllPartitions {
		if of := s.holder(partition); of.base != nil || of.seconds != nil {
			return of.inSeconds(partition, w)
		}
		return s.partition(partition)
	}
	if !s.indexed() {
		return s.Batches
	}
	first := int64(math.MaxInt64)
	s.eachDigests(func(d *partitionDigests) {
		if d.Overlaps(w) {
			first = min(first, d.From)
		}
	})
	at := func(ns int64) int {
		return sort.Search(len(s.Batches), func(i int) bool { return s.Batches[i].From >= ns })
	}
	from, to := at(first), at(w.To)
	return s.Batches[min(from, to):to:to]
}
