package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
)

// Rollup is a coarse interval of time, in ns since 1970: the tables about it, and about the fine intervals in it, are made together.
type Rollup struct{ From, To int64 }

// Put keeps a table of a kind, of intervals of a length.
type Put func(kind string, every time.Duration, write func(io.Writer) error) error

// RollUp makes the tables of a roll-up, each with the metadata. The table of Mark, of the coarse interval, is put last. ErrNoRecords: there is
// nothing to be rolled up.
type RollUp func(ctx context.Context, r Rollup, metadata map[string]string, put Put) error

const (
	// Mark is the kind of the table with which a roll-up is whole: one without it is made again.
	Mark = "intervals"
	// asOfKey and sinceKey are under which the metadata of a table say when the newest and the oldest of the files came that it is made of.
	asOfKey, sinceKey = "weir.as_of_ns", "weir.since_ns"
)

// ErrNoRecords says that a roll-up would have no records.
var ErrNoRecords = errors.New("no records")

// errExpired says that some of the records of a roll-up are deleted, so that another one would have less.
var errExpired = errors.New("its records are not archived any more")

// rollups are those of the bucket, as far as this collector knows: it lists them when it begins to make some. They belong to one goroutine, but
// for what Status reads.
type rollups struct {
	known  map[Rollup]*rollup
	tables map[string]bool // "kind=KIND/every=EVERY/"
	bytes  int64
	wide   map[File][]Rollup // coarse intervals of which wide files have records
}

// rollup is what is known of one.
type rollup struct {
	bytes  int64
	marked bool  // it is whole
	empty  bool  // there were no records
	cut    bool  // some of its records were deleted before it was made
	asOf   int64 // when the newest file of its records came; 0: not known
	since  int64 // the same of the oldest one
}

const rollupPrefix, rollupForm = "rollups/", "20060102T150405Z"

// lengthName is a length of time without zeros: 1m, and not 1m0s.
func lengthName(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

func rollupTable(kind string, every time.Duration) string {
	return fmt.Sprintf("kind=%s/every=%s/", kind, lengthName(every))
}

// name is that of a table's file.
func (r Rollup) name(table string) string {
	from, to := time.Unix(0, r.From).UTC(), time.Unix(0, r.To).UTC()
	return rollupPrefix + table + "day=" + from.Format(dayForm) + "/" + from.Format(rollupForm) + "-" + to.Format(rollupForm) + suffix
}

// parseRollup reads the name of a roll-up's file. mark: with it the roll-up is whole.
func parseRollup(name string) (r Rollup, table string, mark bool, err error) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(name, rollupPrefix), suffix), "/")
	if len(parts) != 4 {
		return r, "", false, errName
	}
	first, last, _ := strings.Cut(parts[3], "-")
	from, err1 := time.Parse(rollupForm, first)
	to, err2 := time.Parse(rollupForm, last)
	every, err3 := time.ParseDuration(strings.TrimPrefix(parts[1], "every="))
	r, table = Rollup{from.UnixNano(), to.UnixNano()}, parts[0]+"/"+parts[1]+"/"
	if err := errors.Join(err1, err2, err3); err != nil || r.From >= r.To || r.name(table) != name {
		return Rollup{}, "", false, errName
	}
	return r, table, table == rollupTable(Mark, every) && int64(every) == r.To-r.From, nil
}

// listRollups finds the roll-ups that are there.
func (a *Archive) listRollups(ctx context.Context) (*rollups, error) {
	all := &rollups{known: map[Rollup]*rollup{}, tables: map[string]bool{}, wide: map[File][]Rollup{}}
	err := a.bucket.list(ctx, rollupPrefix, func(name string, size int64) {
		if r, table, mark, err := parseRollup(name); err == nil {
			all.add(r, table, size, mark)
		}
	})
	return all, err
}

func (all *rollups) add(r Rollup, table string, bytes int64, mark bool) {
	if all.known[r] == nil {
		all.known[r] = &rollup{}
	}
	of := all.known[r]
	of.bytes, of.marked, of.empty = of.bytes+bytes, of.marked || mark, false
	all.bytes += bytes
	all.tables[table] = true
}

// rollUp makes what is due until ctx ends.
func (a *Archive) rollUp(ctx context.Context) {
	tick := time.NewTicker(min(a.config.Flush, time.Minute))
	defer tick.Stop()
	var all *rollups // nil: to be listed
	for {
		if !a.Owns().Has(0) {
			all = nil // another collector may make some
			a.takeDeleted()
		} else {
			err := a.rollUpDue(ctx, &all)
			if ctx.Err() != nil {
				return
			}
			a.report("rollups", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// perLook is how many intervals are made between two looks for newer ones, which are made first.
const perLook = 16

// rollUpDue makes what is due now, and deletes what is too old or too much.
func (a *Archive) rollUpDue(ctx context.Context, all **rollups) (err error) {
	if *all == nil {
		if *all, err = a.listRollups(ctx); err != nil {
			return err
		}
	}
	var errs []error
	tried := map[Rollup]bool{}
	for {
		a.noteCut(*all, time.Now())
		due := slices.DeleteFunc(a.due(ctx, *all, time.Now()), func(r Rollup) bool { return tried[r] })
		if len(due) == 0 {
			break
		}
		for i, r := range due[:min(len(due), perLook)] {
			tried[r] = true
			a.noteRollups(*all, len(due)-i)
			if !a.Owns().Has(0) {
				return nil
			}
			if err := a.rollUpOne(ctx, *all, r); err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := a.expireRollups(ctx, *all, time.Now()); err != nil {
				errs = append(errs, err)
			}
		}
	}
	a.noteRollups(*all, 0)
	return errors.Join(append(errs, a.expireRollups(ctx, *all, time.Now()))...)
}

func (a *Archive) noteRollups(all *rollups, due int) {
	whole := 0
	for _, r := range all.known {
		if r.marked {
			whole++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rolled.there, a.rolled.bytes, a.rolled.due = whole, all.bytes, due
}

// unwanted reports of an interval without a roll-up whether none is made: those of a configuration before cover it, or it would be the first to be deleted.
func (all *rollups) unwanted(c *collect.Rollups) func(Rollup) bool {
	oldest := int64(1<<63 - 1)
	var covered []Rollup // by roll-ups of other lengths
	for r, of := range all.known {
		if of.marked {
			oldest = min(oldest, r.From)
			if r.To-r.From != int64(c.Coarse) {
				covered = append(covered, r)
			}
		}
	}
	average := all.bytes / int64(max(len(all.known), 1))
	return func(r Rollup) bool {
		return r.From < oldest && all.bytes+average > c.Bytes || slices.ContainsFunc(covered, func(o Rollup) bool { return o.From < r.To && r.From < o.To })
	}
}

// due lists the coarse intervals of which records are archived and which have no roll-ups, or some from before records came late; the newest first.
func (a *Archive) due(ctx context.Context, all *rollups, now time.Time) (list []Rollup) {
	c := &a.config.Rollups
	a.readWide(ctx, all)
	newest := a.index.newestIn(int64(c.Coarse), now.Add(-c.Age).UnixNano(), now.Add(-c.After).UnixNano(), clock.UTCOffset(), all.wide)
	unwanted := all.unwanted(c)
	for r, arrived := range newest {
		of := all.known[r]
		switch {
		case of == nil || !of.marked && !of.empty:
			if unwanted(r) {
				continue
			}
		case arrived+int64(c.After) > now.UnixNano():
			continue // more may come
		case of.marked && of.asOf == 0 && arrived > r.To+int64(c.After):
			asOf, since, err := a.madeOf(ctx, r)
			if err != nil {
				continue // the next look finds it
			}
			if of.asOf, of.since = asOf, since; asOf >= arrived {
				continue
			}
		case of.marked && of.asOf == 0, of.asOf >= arrived: // it was made later than all of them came
			continue
		}
		if of != nil && of.marked && a.expired(r, of) {
			continue // what there is says more
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Rollup) int { return cmp.Compare(b.From, a.From) })
	return list
}

// readWide finds of which intervals the wide files have records: a file with a record of long ago and another one of now has none of most hours between. A file that
// cannot be read has none for now.
func (a *Archive) readWide(ctx context.Context, all *rollups) {
	length, offset := int64(a.config.Rollups.Coarse), clock.UTCOffset()
	known := all.wide
	all.wide = map[File][]Rollup{}
	for _, f := range a.index.wide() {
		if list, ok := known[f]; ok {
			all.wide[f] = list
			continue
		}
		has := map[Rollup]bool{}
		err := a.loadFile(ctx, f, wanted{note: func(h *head) {
			if h.to-h.from <= maxSpan {
				for _, r := range intervals(max(h.from-offset, 0), h.to-offset, length) {
					has[r] = true
				}
			}
		}}, nil)
		if err == nil {
			all.wide[f] = slices.Collect(maps.Keys(has))
		}
	}
}

// madeOf reads from the bucket when the newest and the oldest of the files came that a roll-up is made of; 0: the tables do not say it.
func (a *Archive) madeOf(ctx context.Context, r Rollup) (asOf, since int64, err error) {
	o, err := a.bucket.open(ctx, r.name(rollupTable(Mark, time.Duration(r.To-r.From))))
	if err != nil {
		return 0, 0, err
	}
	defer o.Close()
	f, err := parquet.OpenFile(o, o.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return 1, 0, nil // not what was written: it is made again
	}
	number := func(key string) (at int64) {
		if text, ok := f.Lookup(key); ok {
			at, _ = strconv.ParseInt(text, 10, 64)
		}
		return at
	}
	return max(number(asOfKey), 1), number(sinceKey), nil
}

// expired reports whether some of the records are deleted that a roll-up was made of. Files are deleted in the order of arrival.
func (a *Archive) expired(r Rollup, of *rollup) bool {
	if of.since == 0 { // it was made by a version that did not note it
		oldest := a.index.oldest()
		return oldest == 0 || oldest > r.From
	}
	offset := clock.UTCOffset()
	first, _ := a.index.arrivals(r.From+offset, r.To+offset)
	return first == 0 || first > of.since
}

// rollUpOne makes one.
func (a *Archive) rollUpOne(ctx context.Context, all *rollups, r Rollup) error {
	offset := clock.UTCOffset()
	since, asOf := a.index.arrivals(r.From+offset, r.To+offset)
	metadata := map[string]string{asOfKey: strconv.FormatInt(asOf, 10), sinceKey: strconv.FormatInt(since, 10)}
	before := all.known[r]
	again := before != nil && before.marked
	made := &rollups{known: map[Rollup]*rollup{}, tables: all.tables}
	err := a.config.RollUp(ctx, r, metadata, func(kind string, every time.Duration, write func(io.Writer) error) error {
		if again && a.expired(r, before) { // meanwhile
			return errExpired
		}
		a.noteCut(all, time.Now()) // what the tables may lack
		size, err := a.putRollup(ctx, r.name(rollupTable(kind, every)), write)
		if err == nil {
			made.add(r, rollupTable(kind, every), size, kind == Mark && int64(every) == r.To-r.From)
		}
		return err
	})
	switch {
	case errors.Is(err, errExpired):
		return nil
	case errors.Is(err, ErrNoRecords) || err == nil && made.known[r] == nil:
		if before == nil {
			before = &rollup{}
			all.known[r] = before
		}
		before.empty, before.asOf = !before.marked, asOf
		return nil
	case err != nil:
		return fmt.Errorf("roll up %s: %w", time.Unix(0, r.From).UTC().Format(time.RFC3339), err)
	}
	if before != nil {
		all.bytes -= before.bytes
	}
	all.known[r] = made.known[r]
	all.known[r].asOf, all.known[r].since = asOf, since
	all.bytes += made.bytes
	if again {
		a.counts.rolledAgain.Add(1)
	} else {
		a.counts.rolled.Add(1)
	}
	return nil
}

// putRollup stages a table, and puts it in the place of one of the same name.
func (a *Archive) putRollup(ctx context.Context, name string, write func(io.Writer) error) (size int64, err error) {
	f, err := a.bucket.create("rollup-*")
	if err != nil {
		return 0, err
	}
	s := &staged{file: f}
	defer s.drop()
	if err := write(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !a.confirm() {
		return 0, errUnconfirmed
	}
	return info.Size(), a.bucket.put(ctx, name, f)
}

// expireRollups deletes what is too old, and then the oldest until the rest is as the configuration has it.
func (a *Archive) expireRollups(ctx context.Context, all *rollups, now time.Time) error {
	c := &a.config.Rollups
	var old []Rollup
	for r := range all.known {
		old = append(old, r)
	}
	slices.SortFunc(old, func(a, b Rollup) int { return cmp.Compare(a.From, b.From) })
	for _, r := range old {
		if r.To >= now.Add(-c.Age).UnixNano() && all.bytes <= c.Bytes {
			return nil
		}
		if all.known[r].bytes > 0 {
			if err := a.removeRollup(ctx, all, r); err != nil {
				return err
			}
		}
		all.bytes -= all.known[r].bytes
		delete(all.known, r)
	}
	return nil
}

// removeRollup deletes all tables of one: the mark last, so that what a crash leaves is found again.
func (a *Archive) removeRollup(ctx context.Context, all *rollups, r Rollup) error {
	mark := rollupTable(Mark, time.Duration(r.To-r.From))
	for _, table := range append(slices.DeleteFunc(slices.Collect(maps.Keys(all.tables)), func(table string) bool { return table == mark }), mark) {
		if err := a.bucket.remove(ctx, r.name(table)); err != nil {
			return fmt.Errorf("delete %s: %w", r.name(table), err)
		}
	}
	a.counts.rollupsDeleted.Add(1)
	a.config.Log.Info("roll-ups are deleted", zap.Time("from", time.Unix(0, r.From).UTC()), zap.Time("to", time.Unix(0, r.To).UTC()))
	return nil
}
