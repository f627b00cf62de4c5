package store

import (
	"sort"

	"github.com/weirswitch/weir/telemetry/record"
)

// extent is when the records of a measurement are; of digests, those of a partition. A view has one for each second, so that what is asked
// about times need not look at each record.
type extent struct {
	of        string
	partition uint16 // of digests
	Window
	longest int64 // of their slices, ns
}

// extentsOf are the extents of a second's records.
func extentsOf(s *Store) (list []extent) {
	s.each(func(of string, o *Origin) {
		partition := uint16(0)
		if of == OfDigests {
			partition = o.Instance
		}
		for i := range list {
			if x := &list[i]; x.of == of && x.partition == partition {
				x.Window, x.longest = x.Join(o.Window), max(x.longest, o.To-o.From)
				return
			}
		}
		list = append(list, extent{of, partition, o.Window, o.To - o.From})
	})
	return list
}

// batchExtents are those of batches.
func batchExtents(list []*Batch) []extent { return extentsOf(&Store{Batches: list}) }

// partitions are batches by partition, in order.
type partitions [record.Partitions][]*Batch

func byPartition(list []*Batch) *partitions {
	by := new(partitions)
	for _, b := range list {
		if int(b.Instance) < len(by) {
			by[b.Instance] = append(by[b.Instance], b)
		}
	}
	return by
}

type partitionsKey struct{}

// partitionKey is a partition whose batches are remembered.
type partitionKey struct{ partition int }

// partition has the batches of a partition, in order.
func (s *Store) partition(partition int) []*Batch {
	if s.base != nil && !s.theirs[partition] {
		return s.base.partition(partition)
	}
	if s.base != nil || s.seconds == nil {
		by, _ := s.Remember(partitionsKey{}, func() (any, int64, error) { // which never fails
			list := s.Batches
			if s.base != nil {
				list = s.fetched
			}
			return byPartition(list), int64(8 * len(list)), nil
		})
		return by.(*partitions)[partition]
	}
	list, _ := s.Remember(partitionKey{partition}, func() (any, int64, error) { // which never fails
		var list []*Batch
		for _, v := range s.seconds {
			list = append(list, v.batches[partition]...)
		}
		return list, int64(8 * len(list)), nil
	})
	return list.([]*Batch)
}

// AllPartitions stands for all of them.
const AllPartitions = -1

// DigestsWithin returns the batches of a partition, in order, among which are all that overlap a window. The caller must not change the list.
func (s *Store) DigestsWithin(partition int, w Window) []*Batch {
	list, longest := s.Batches, int64(-1)
	if partition != AllPartitions {
		list = s.partition(partition)
	}
	for i := range s.extents {
		if x := &s.extents[i]; x.of == OfDigests && (partition == AllPartitions || int(x.partition) == partition) {
			longest = max(longest, x.longest)
		}
	}
	if s.extents == nil { // no view: the order and the longest slice are not known
		return list
	}
	from := sort.Search(len(list), func(i int) bool { return list[i].From > w.From-longest })
	to := sort.Search(len(list), func(i int) bool { return list[i].From >= w.To })
	return list[min(from, to):to]
}
