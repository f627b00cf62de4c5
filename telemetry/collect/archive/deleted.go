package archive

import (
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/pipeline/clock"
)

// span is a window of which files were deleted, ns of CLOCK_TAI.
type span struct{ from, to int64 }

// maxSpans bounds those that are remembered: beyond, the oldest are not.
const maxSpans = 1 << 12

// withSpan adds one to others that are in order and have no common part.
func withSpan(all []span, s span) []span {
	first, _ := slices.BinarySearchFunc(all, s.from, func(o span, from int64) int { return cmp.Compare(o.to, from) })
	last := first
	for ; last < len(all) && all[last].from <= s.to; last++ {
		s = span{min(s.from, all[last].from), max(s.to, all[last].to)}
	}
	all = slices.Replace(all, first, last, s)
	return all[max(len(all)-maxSpans, 0):]
}

func (a *Archive) rollsUp() bool { return a.config.RollUp != nil && a.config.Rollups.On() }

// Deleted reports whether files were deleted, since the collector began, that may have had records of a window, in ns of CLOCK_TAI.
func (a *Archive) Deleted(from, to int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.deleted, func(s span) bool { return s.from < to && from < s.to })
}

// takeDeleted is of what files were deleted since it was called last.
func (a *Archive) takeDeleted() (list []span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, a.fresh = a.fresh, nil
	return list
}

// noteCut counts the intervals of which records were deleted before there was a roll-up of them, and names each once.
func (a *Archive) noteCut(all *rollups, now time.Time) {
	c, offset := &a.config.Rollups, clock.UTCOffset()
	unwanted := all.unwanted(c)
	for _, s := range a.takeDeleted() {
		for _, r := range intervals(max(s.from-offset, now.Add(-c.Age).UnixNano()), s.to-offset, int64(c.Coarse)) {
			of := all.known[r]
			if of != nil && (of.marked || of.empty || of.cut) || unwanted(r) {
				continue
			}
			if of == nil {
				of = &rollup{}
				all.known[r] = of
			}
			of.cut = true
			a.counts.rollupsCut.Add(1)
			a.config.Log.Warn("retention deleted records before they were rolled up: raise archive.bytes or archive.age, or lower archive.rollups.coarse and after",
				zap.Time("from", time.Unix(0, r.From).UTC()), zap.Time("to", time.Unix(0, r.To).UTC()))
		}
	}
}
