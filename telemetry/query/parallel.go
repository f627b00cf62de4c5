package query

import (
	"cmp"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
)

// maxParallel bounds the paths of a flow that are told apart; the digests of others are strays.
const maxParallel = 64

// mark is what digests of one path have in common: the checksum and the number of hops.
func (t *tracer) mark(o *pint.Record) (mark uint64, ok bool) {
	r, ok := t.reader.Read(t.checksum, o)
	return r.Digest<<8 | uint64(o.Hops), ok
}

// byChecksum decodes each path of a flow from the digests with its checksum, and joins them.
func (t *tracer) byChecksum(records []pint.Record, every int) *traced {
	by := map[uint64]*traced{}
	var all []*traced
	strays := uint64(0)
	for i := 0; i < len(records); i += every {
		mark, ok := t.mark(&records[i])
		if !ok {
			continue
		}
		f := by[mark]
		if f == nil {
			if len(all) == maxParallel {
				strays++
				continue
			}
			f = &traced{mark: mark}
			by[mark], all = f, append(all, f)
		}
		t.add(f, &records[i])
	}
	f := join(all)
	f.Strays += strays
	return f
}

// join makes one answer of a flow's paths. Paths of which each ended before the next began are those of a flow whose path changed; others it
// took at once. A path that is not certain is taken for damaged checksums if another one is certain, unless it is the newest.
func join(all []*traced) *traced {
	switch len(all) {
	case 0:
		return &traced{}
	case 1:
		return all[0]
	}
	byTime := func(a, b *traced) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.mark, b.mark)) }
	slices.SortFunc(all, byTime)
	var sure []*traced
	for _, f := range all {
		if f.Certain() {
			sure = append(sure, f)
		}
	}
	for i := range sure[min(1, len(sure)):] {
		if sure[i].last >= sure[i+1].first {
			return parallel(all)
		}
	}
	if len(sure) == 0 {
		return parallel(all)
	}
	end := sure[len(sure)-1]
	if newest := all[len(all)-1]; newest.first > end.last {
		sure = append(sure, newest)
	}
	return inTurn(all, sure)
}

// parallel joins paths that were taken at once.
func parallel(all []*traced) *traced {
	slices.SortStableFunc(all, func(a, b *traced) int { return cmp.Compare(b.Packets, a.Packets) })
	f := *all[0]
	f.parallel, f.ways = all, nil
	for _, x := range all[1:] {
		f.add(x)
	}
	return &f
}

// inTurn joins paths that were taken one after the other; packets of others are strays.
func inTurn(all, turns []*traced) *traced {
	f := *turns[len(turns)-1]
	f.ways = nil
	for i, x := range turns {
		switch {
		case len(x.ways) > 0:
			f.ways = append(f.ways, x.ways...)
		case i > 0:
			f.ways = append(f.ways, tracedWay{from: x.first})
		}
	}
	f.bound()
	for _, x := range all {
		if x.mark == f.mark {
			continue
		}
		f.add(x)
		if slices.Contains(turns, x) {
			f.Changes++
		} else {
			f.Strays += x.Packets
		}
	}
	return &f
}

// add adds another path's counts.
func (f *traced) add(x *traced) {
	f.Packets, f.Changes, f.Strays = f.Packets+x.Packets, f.Changes+x.Changes, f.Strays+x.Strays
	f.first, f.last = min(f.first, x.first), max(f.last, x.last)
}

// at is the path of a packet, nil if it is not known.
func (t *tracer) at(f *traced, o *pint.Record) []uint64 {
	if f.parallel == nil {
		return f.at(int64(o.TimeNs))
	}
	mark, ok := t.mark(o)
	if !ok {
		return nil
	}
	for _, x := range f.parallel {
		if x.mark == mark {
			return x.at(int64(o.TimeNs))
		}
	}
	return nil
}
