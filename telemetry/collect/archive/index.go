package archive

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// index has the names of all files, so that a question need not list the bucket. It is safe for concurrent use.
type index struct {
	mu    sync.Mutex
	known map[string]bool
	files map[record.Kind][]File // in the order of arrival
	bytes int64
	count int
}

func newIndex() *index { return &index{known: map[string]bool{}, files: map[record.Kind][]File{}} }

// add notes files, those that are known already left out.
func (x *index) add(more ...File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range more {
		name := f.Name()
		if x.known[name] {
			continue
		}
		x.known[name] = true
		list := x.files[f.Kind]
		at, _ := slices.BinarySearchFunc(list, f, func(a, b File) int { return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), -1) })
		x.files[f.Kind] = slices.Insert(list, at, f)
		x.bytes += f.Bytes
		x.count++
	}
}

// remove forgets a file.
func (x *index) remove(f File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := f.Name()
	if !x.known[name] {
		return
	}
	delete(x.known, name)
	x.files[f.Kind] = slices.DeleteFunc(slices.Clone(x.files[f.Kind]), func(o File) bool { return o == f })
	x.bytes -= f.Bytes
	x.count--
}

// size is how many files there are, and their bytes.
func (x *index) size() (files int, bytes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count, x.bytes
}

// cursor is the sequence number up to which all records of a kind in some partitions of a stream are archived.
func (x *index) cursor(kind record.Kind, stream int64, partitions uint16) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var last [record.Partitions]uint64
	for _, f := range x.files[kind] {
		if f.Stream != stream {
			continue
		}
		for p := range last {
			if f.Partitions>>p&1 != 0 {
				last[p] = max(last[p], f.Last)
			}
		}
	}
	least := ^uint64(0)
	for p := range last {
		if partitions>>p&1 != 0 {
			least = min(least, last[p])
		}
	}
	if partitions == 0 {
		return 0
	}
	return least
}

// cursors is the same for each partition.
func (x *index) cursors(kind record.Kind, stream int64) (last [record.Partitions]uint64) {
	for p := range last {
		last[p] = x.cursor(kind, stream, 1<<p)
	}
	return last
}

// overlapping lists the files of a kind that may have records of a window.
func (x *index) overlapping(kind record.Kind, from, to int64) (list []File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files[kind] {
		if f.From < to && from < f.To {
			list = append(list, f)
		}
	}
	return list
}

// until is the end of the newest slice of a kind that is archived; 0: none is.
func (x *index) until(kind record.Kind) (to int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files[kind] {
		to = max(to, f.To)
	}
	return to
}

// surplus lists the files that are older than an age, and then the oldest ones until the rest has no more than bytes.
func (x *index) surplus(before, bytes int64) (list []File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []File
	for _, files := range x.files {
		all = append(all, files...)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Arrived, b.Arrived) })
	left := x.bytes
	for _, f := range all {
		if f.Arrived >= before && left <= bytes {
			break
		}
		left -= f.Bytes
		list = append(list, f)
	}
	return list
}

// read lists the files of a bucket: all, or those of some days.
func (x *index) read(ctx context.Context, b bucket, folders ...string) error {
	for _, folder := range folders {
		var found []File
		err := b.list(ctx, folder, func(name string, size int64) {
			if f, err := parseName(name); err == nil {
				f.Bytes = size
				found = append(found, f)
			}
		})
		if err != nil {
			return err
		}
		x.add(found...)
	}
	return nil
}

// recentFolders are those in which other collectors may have put files since a time.
func recentFolders(since time.Time) (list []string) {
	for at := since.UTC(); ; at = at.Add(24 * time.Hour) {
		for _, k := range collect.Kinds {
			list = append(list, day(k, at.UnixNano()))
		}
		if !at.Before(time.Now().UTC().Truncate(24 * time.Hour)) {
			return list
		}
	}
}
