package archive

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
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
	// listed is how many names a bucket has listed in the attempt that came furthest.
	listed atomic.Uint64
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
	list := x.files[f.Kind]
	at, _ := slices.BinarySearchFunc(list, f.Arrived, func(o File, arrived int64) int { return cmp.Compare(o.Arrived, arrived) })
	for at < len(list) && list[at] != f {
		at++
	}
	if at == len(list) {
		return
	}
	delete(x.known, name)
	if at == 0 { // mostly the oldest one goes
		x.files[f.Kind] = list[1:]
	} else {
		x.files[f.Kind] = slices.Delete(list, at, at+1)
	}
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
		if f.Stream != stream || f.Late != 0 {
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

// lateCursors are the sequence numbers up to which the late records of each class are archived, by partition: a writer that ended between two files of
// a range left them beyond the cursor.
func (x *index) lateCursors(kind record.Kind, stream int64) (last [lateClasses][record.Partitions]uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files[kind] {
		if f.Stream != stream || f.Late == 0 {
			continue
		}
		for p := range last[f.Late] {
			if f.Partitions>>p&1 != 0 {
				last[f.Late][p] = max(last[f.Late][p], f.Last)
			}
		}
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

// arrivals are when the oldest and the newest of the files came that may have records of a window, ns since 1970; 0: there are none.
func (x *index) arrivals(from, to int64) (first, last int64) {
	for _, k := range collect.Kinds {
		if files := x.overlapping(k, from, to); len(files) != 0 { // in the order of arrival
			last = max(last, files[len(files)-1].Arrived)
			if at := files[0].Arrived; first == 0 || at < first {
				first = at
			}
		}
	}
	return first, last
}

// oldest is when the oldest file came, ns since 1970; 0: there is none.
func (x *index) oldest() (at int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, files := range x.files {
		if len(files) != 0 && (at == 0 || files[0].Arrived < at) {
			at = files[0].Arrived
		}
	}
	return at
}

// newestIn is when the newest of the files came for each interval of a length that begins and ends between two times, in ns since 1970, and of which there may be records; offset
// is that of CLOCK_TAI. Of the files that are wide, the intervals are known.
func (x *index) newestIn(length, since, until, offset int64, wide map[File][]Rollup) map[Rollup]int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[Rollup]int64{}
	for _, files := range x.files {
		for _, f := range files {
			if f.wide() {
				for _, r := range wide[f] {
					if r.From >= since && r.To <= until {
						all[r] = max(all[r], f.Arrived)
					}
				}
				continue
			}
			for _, r := range intervals(max(f.From-offset, since), f.To-offset, length) {
				if r.From >= since && r.To <= until {
					all[r] = max(all[r], f.Arrived)
				}
			}
		}
	}
	return all
}

// intervals are those of a length that have a part of a window, in ns since 1970.
func intervals(from, to, length int64) (list []Rollup) {
	for from -= from % length; from < to; from += length {
		list = append(list, Rollup{from, from + length})
	}
	return list
}

// wide lists the files of which the window says little about their records.
func (x *index) wide() (list []File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, files := range x.files {
		for _, f := range files {
			if f.wide() {
				list = append(list, f)
			}
		}
	}
	return list
}

// arrived is when the last record of a kind came up to which a partition is archived, ns since 1970; 0: nothing is.
func (x *index) arrived(kind record.Kind, partition int) (at int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files[kind] {
		if f.Late == 0 && f.Partitions>>partition&1 != 0 {
			at = max(at, f.Arrived)
		}
	}
	return at
}

// surplus lists the files that are older than an age, and then the oldest ones until the rest has no more than bytes.
func (x *index) surplus(before, bytes int64) (list []File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next, left := map[record.Kind]int{}, x.bytes
	for {
		var oldest *File
		for k, files := range x.files {
			if i := next[k]; i < len(files) && (oldest == nil || files[i].Arrived < oldest.Arrived) {
				oldest = &files[i]
			}
		}
		if oldest == nil || oldest.Arrived >= before && left <= bytes {
			return list
		}
		next[oldest.Kind]++
		left -= oldest.Bytes
		list = append(list, *oldest)
	}
}

// read lists the files of a bucket: all, or those of some days.
func (x *index) read(ctx context.Context, b bucket, folders ...string) error {
	names := uint64(0)
	for _, folder := range folders {
		var found []File
		err := b.list(ctx, folder, func(name string, size int64) {
			names++
			x.listed.Store(max(x.listed.Load(), names))
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

// maxDays is how many folders of days are listed; beyond, that of all days is.
const maxDays = 31

// newer are the folders in which other collectors may have put files that are not known. The files of a partition come in the order of arrival, so
// they are in no day before the last known one.
func (x *index) newer() (list []string) {
	for _, k := range collect.Kinds {
		partitions := 1
		if k == record.PINT {
			partitions = record.Partitions
		}
		since := time.Unix(0, x.arrived(k, 0))
		for p := range partitions {
			if at := time.Unix(0, x.arrived(k, p)); at.Before(since) {
				since = at
			}
		}
		today := time.Now().UTC().Truncate(24 * time.Hour)
		from := since.UTC().Truncate(24 * time.Hour)
		if today.Sub(from) > maxDays*24*time.Hour {
			list = append(list, kindFolder(k))
			continue
		}
		for at := from; !at.After(today.Add(24 * time.Hour)); at = at.Add(24 * time.Hour) { // the servers' clock may be ahead
			list = append(list, day(k, at.UnixNano()))
		}
	}
	return list
}
