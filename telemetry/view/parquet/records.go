package parquet

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// recordKind is a kind of records: how to make its table of a window, what the store calls its measurements, and which stages make them.
type recordKind struct {
	table        func(*store.Store, store.Window) *table
	measurements []string
	remedy       string
}

// recordKinds are the kinds by their names.
var recordKinds = map[string]recordKind{
	"samples":   {samples, []string{store.OfSamples, store.OfFlowSamples}, "add the stage oblivious to the switches' graphs"},
	"points":    {points, []string{store.OfPoints}, "add the stages lds_egress and lds_ingress to the switches' graphs"},
	"fragments": {fragments, []string{store.OfFragments}, "add the stage disketch to the switches' graphs"},
	"digests":   {digests, []string{store.OfDigests}, "add the stage pint to the switches' graphs with a role of sink"},
}

// RecordKinds names the kinds of records of which there are tables, sorted.
func RecordKinds() []string { return slices.Sorted(maps.Keys(recordKinds)) }

// WriteRecords writes a store's records of one of RecordKinds that overlap a window, the zero window: all; in the
// order of time: a row for each entry of a sample, each interval of a measurement point, each subepoch of a
// fragment (without cells), each digest. Rows are made as they are written. Without a row nothing is written: the error wraps
// query.ErrNoRecords, and says when such records were made, or what makes them. now is as query.Engine has it.
func WriteRecords(w io.Writer, s *store.Store, kind string, in store.Window, now int64) error {
	of, ok := recordKinds[kind]
	if !ok {
		return fmt.Errorf("%w: records of kind %q: choose one of %q", ErrNoTable, kind, RecordKinds())
	}
	if in == (store.Window{}) {
		in = s.All()
	}
	t := of.table(s, in)
	if t.empty() {
		return query.Lacking{What: kind, Remedy: of.remedy, Window: in, Have: s.Of(of.measurements...), Newest: s.All().To, Now: now}.Err()
	}
	t.metadata["weir.from_ns"] = strconv.FormatInt(in.From, 10)
	t.metadata["weir.to_ns"] = strconv.FormatInt(in.To, 10)
	if err := t.summary(s.Counts()); err != nil {
		return err
	}
	return t.to(w)
}

// WriteRecordsFile writes as WriteRecords does, to a file that is there only once it is whole.
func WriteRecordsFile(file string, s *store.Store, kind string, in store.Window, now int64) error {
	return Atomically(file, func(w io.Writer) error { return WriteRecords(w, s, kind, in, now) })
}

// originColumns are where and when a record was made.
type originColumns struct {
	Switch   uint32 `parquet:"switch_number"`
	Name     string `parquet:"switch,dict"`
	Instance int32  `parquet:"instance"`
	From     int64  `parquet:"from_time,delta,timestamp(nanosecond)"`
	To       int64  `parquet:"to_time,delta,timestamp(nanosecond)"`
	Missed   uint64 `parquet:"missed_packets" unit:"packets"`
	Partial  bool   `parquet:"partial"`
}

func columnsOfOrigin(o *store.Origin) originColumns {
	return originColumns{o.Switch, o.Name, int32(o.Instance), utc(o.From), utc(o.To), o.Missed, o.Partial}
}

// overlapping yields the records of a list that overlap a window.
func overlapping[T interface{ Overlaps(store.Window) bool }](list []T, in store.Window) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, r := range list {
			if r.Overlaps(in) && !yield(r) {
				return
			}
		}
	}
}

// sampleRow is an entry of a sample; a sample without entries has one row without.
type sampleRow struct {
	originColumns
	Kind      string  `parquet:"kind,dict"`
	SampledBy string  `parquet:"sampled_by,dict"`
	Packets   uint64  `parquet:"switch_packets" unit:"packets"`
	Bytes     uint64  `parquet:"switch_bytes" unit:"bytes"`
	Rank      *uint64 `parquet:"rank,optional"`
	Packet    *uint64 `parquet:"packet_id,optional"`
	Flow      *string `parquet:"flow,optional"`
	Length    *uint32 `parquet:"packet_bytes,optional" unit:"bytes"`
}

func samples(s *store.Store, in store.Window) *table {
	return tableOf("records.samples", func(yield func(sampleRow) bool) {
		for r := range overlapping(s.Samples, in) {
			row := sampleRow{originColumns: columnsOfOrigin(&r.Origin), Kind: r.Kind.String(), SampledBy: r.Unit.String(), Packets: r.Packets, Bytes: r.Bytes}
			if len(r.Entries) == 0 && !yield(row) {
				return
			}
			for i := range r.Entries {
				e := &r.Entries[i]
				flow := query.FormatKey(e.Key)
				row.Rank, row.Packet, row.Flow, row.Length = &e.Rank.Value, &e.Rank.ID, &flow, &e.Bytes
				if !yield(row) {
					return
				}
			}
		}
	})
}

// intervalRow is an interval of a measurement point.
type intervalRow struct {
	originColumns
	Port      int32  `parquet:"port_number"`
	Direction string `parquet:"direction,dict"`
	Interval  int64  `parquet:"interval"`
	Packets   uint64 `parquet:"packets" unit:"packets"`
	Rows      int32  `parquet:"rows"`
	Columns   int32  `parquet:"columns"`
}

func points(s *store.Store, in store.Window) *table {
	return tableOf("records.points", func(yield func(intervalRow) bool) {
		for r := range overlapping(s.Points, in) {
			direction := "in"
			if r.Egress() {
				direction = "out"
			}
			if !yield(intervalRow{columnsOfOrigin(&r.Origin), int32(r.Port()), direction, r.Interval, r.Packets, int32(r.Config.Rows), int32(r.Config.Columns)}) {
				return
			}
		}
	})
}

// fragmentRow is a subepoch of a fragment, without its cells.
type fragmentRow struct {
	originColumns
	Kind    string `parquet:"kind,dict"`
	Unit    string `parquet:"unit,dict"`
	Epoch   uint64 `parquet:"epoch"`
	EpochNs uint64 `parquet:"epoch_ns" unit:"ns"`
	Packets uint64 `parquet:"packets" unit:"packets"`
	Seen    uint64 `parquet:"seen_packets" unit:"packets"`
}

func fragments(s *store.Store, in store.Window) *table {
	return tableOf("records.fragments", func(yield func(fragmentRow) bool) {
		for r := range overlapping(s.Fragments, in) {
			unit := "packets"
			if r.Unit != 0 {
				unit = "bytes"
			}
			if !yield(fragmentRow{columnsOfOrigin(&r.Origin), r.Kind.String(), unit, r.Epoch, uint64(r.Epochs.Nanoseconds()), r.Packets, r.Seen}) {
				return
			}
		}
	})
}

// digestRow is a packet's digest, as a sink took it off, or, of a packet that loops, as a switch saw it.
type digestRow struct {
	originColumns
	Plan   uint16 `parquet:"plan"`
	Loop   bool   `parquet:"loop"`
	Flow   string `parquet:"flow,dict"`
	Packet uint64 `parquet:"packet_id"`
	Digest uint64 `parquet:"digest"`
	Time   int64  `parquet:"time,delta,timestamp(nanosecond)"`
	Hops   int32  `parquet:"hops" unit:"hops"`
}

func digests(s *store.Store, in store.Window) *table {
	return tableOf("records.digests", func(yield func(digestRow) bool) {
		for _, b := range s.Batches {
			if !b.Overlaps(in) {
				continue
			}
			row := digestRow{originColumns: columnsOfOrigin(&b.Origin), Plan: b.Plan, Loop: b.Loop}
			for _, run := range b.All() {
				for i := range run {
					r := &run[i]
					if i == 0 {
						row.Flow = query.FormatKey(query.Key(r.Flow))
					}
					row.Packet, row.Digest, row.Time, row.Hops = r.ID, r.Digest, utc(int64(r.TimeNs)), int32(r.Hops)
					if !yield(row) {
						return
					}
				}
			}
		}
	})
}
