package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// recorded is a store with records of each kind, of two switches in three epochs, made by the codecs of the
// systems; samples are of so many entries.
func recorded(t *testing.T, entries int) *store.Store {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	s := &store.Store{}
	add := func(h record.Header, body []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s.Add(h, body)
	}
	for epoch := range int64(3) {
		for sw := uint32(1); sw <= 2; sw++ {
			h := record.Header{Switch: sw, Name: fmt.Sprint("s", sw), Start: (100 + epoch) << 30, Span: 1 << 30, Missed: uint64(epoch), Partial: epoch == 2}

			sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: max(entries, 256), Gamma: oblivious.DefaultGamma})
			if err != nil {
				t.Fatal(err)
			}
			for range entries {
				k := oblivious.Key(aKey(r))
				sampler.Add(r.Uint64(), 64+r.Uint32N(1400), &k)
			}
			body, err := sampler.Sample().AppendBinary(nil)
			h.Kind = record.Oblivious
			add(h, body, err)

			f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.CountSketch, Memory: 4096, Epochs: 30})
			if err != nil {
				t.Fatal(err)
			}
			counter, err := f.NewCounter()
			if err != nil {
				t.Fatal(err)
			}
			counter.Begin(f.Begin(uint64(100+epoch)), 0)
			for range entries {
				counter.Add(r.Uint64(), 1, false)
			}
			body, err = counter.Record().AppendBinary(nil)
			h.Kind = record.DiSketch
			add(h, body, err)

			c := lds.DefaultConfig()
			c.Columns, c.IntervalNs = 100, 1<<30
			p, err := lds.NewPoint(c)
			if err != nil {
				t.Fatal(err)
			}
			p.Begin(100 + epoch)
			for range 20 {
				p.Add(r.Uint64(), r.Uint64(), h.Start+r.Int64N(1<<30), 100)
			}
			h.Kind, h.Instance = record.LDS, 3
			body, err = p.AppendBinary(nil)
			add(h, body, err)

			batch := pint.DigestBatch{Boot: 1, Sequence: uint64(epoch), Plan: 1}
			for range 50 {
				k := pint.FlowKey(aKey(r))
				if k.Partition(record.Partitions) == 3 {
					batch.Records = append(batch.Records, pint.Record{Flow: k, ID: r.Uint64(), Digest: r.Uint64N(1 << 16), TimeNs: uint64(h.Start) + r.Uint64N(1<<30), Plan: 1, Hops: 3})
				}
			}
			h.Kind, h.Plan, h.Partial = record.PINT, 1, false
			add(h, pint.AppendDigests(nil, &batch), nil)
		}
	}
	s.Sort()
	if c := s.Counts(); c.Unreadable+c.Conflicts+c.Unknown != 0 {
		t.Fatalf("%+v", c)
	}
	return s
}

// rowsOf are the rows of a table of records, as they should be: made of the store's own lists.
func rowsOf(s *store.Store, kind string, in store.Window) (rows []object) {
	origin := func(o *store.Origin, more object) {
		if !o.Overlaps(in) {
			return
		}
		row := object{"switch_number": float64(o.Switch), "switch": o.Name, "instance": float64(o.Instance), "from_time": float64(o.From - clock.UTCOffset()),
			"to_time": float64(o.To - clock.UTCOffset()), "missed_packets": float64(o.Missed), "partial": o.Partial}
		for k, v := range more {
			row[k] = v
		}
		rows = append(rows, row)
	}
	switch kind {
	case "samples":
		for _, r := range s.Samples {
			for _, e := range r.Entries {
				origin(&r.Origin, object{"kind": "nwps", "sampled_by": "bytes", "switch_packets": float64(r.Packets), "switch_bytes": float64(r.Bytes),
					"rank": float64(e.Rank.Value), "packet_id": float64(e.Rank.ID), "flow": query.FormatKey(e.Key), "packet_bytes": float64(e.Bytes)})
			}
		}
	case "points":
		for _, r := range s.Points {
			origin(&r.Origin, object{"port_number": 1., "direction": "out", "interval": float64(r.From >> 30), "packets": float64(r.Packets), "rows": 4., "columns": 100.})
		}
	case "fragments":
		for _, r := range s.Fragments {
			origin(&r.Origin, object{"kind": "countsketch", "unit": "packets", "epoch": float64(r.From >> 30), "epoch_ns": float64(1 << 30), "packets": float64(r.Packets), "seen_packets": float64(r.Seen)})
		}
	case "digests":
		for i := range s.Batches {
			b := s.Batches[i]
			for k := range b.Digests.Flows() {
				for _, d := range b.AppendFlow(nil, k) {
					origin(&b.Origin, object{"plan": 1., "loop": false, "flow": query.FormatKey(query.Key(d.Flow)), "packet_id": float64(d.ID),
						"digest": float64(d.Digest), "time": float64(int64(d.TimeNs) - clock.UTCOffset()), "hops": 3.})
				}
			}
		}
	}
	return rows
}

// TestRecords: each kind of records comes back row by row, all of them and those of a window.
func TestRecords(t *testing.T) {
	s := recorded(t, 300)
	for _, in := range []store.Window{{}, {From: 101 << 30, To: 102 << 30}} {
		window := in
		if in == (store.Window{}) {
			window = s.All()
		}
		for _, kind := range RecordKinds() {
			var b bytes.Buffer
			if err := WriteRecords(&b, s, kind, in, 0); err != nil {
				t.Fatal(err)
			}
			got, want := read(t, b.Bytes()), rowsOf(s, kind, window)
			if diff := cmp.Diff(want, got.rows); diff != "" {
				t.Errorf("%s in %v: %s", kind, in, diff)
			}
			if len(want) == 0 {
				t.Errorf("%s in %v: no rows", kind, in)
			}
			if got.metadata["weir.from_ns"] != fmt.Sprint(window.From) || got.metadata["weir.to_ns"] != fmt.Sprint(window.To) || got.metadata["weir.table"] != "records."+kind {
				t.Errorf("%s: %v", kind, got.metadata)
			}
		}
	}
	if err := WriteRecords(io.Discard, s, "packets", store.Window{}, 0); !errors.Is(err, ErrNoTable) {
		t.Errorf("got %v", err)
	}
	if err := WriteRecordsFile(filepath.Join(t.TempDir(), "none", "x"), s, "points", store.Window{}, 0); err == nil {
		t.Error("a file in no folder was written")
	}
}

// TestNoRecords: without a row nothing is written, and the error says which records there are, or what makes some.
func TestNoRecords(t *testing.T) {
	s := recorded(t, 3)
	at := func(seconds int64) string { return time.Unix(seconds, -clock.UTCOffset()).UTC().Format(time.RFC3339) }
	for _, c := range []struct {
		s    *store.Store
		in   store.Window
		now  int64
		says string
	}{
		{s, store.Window{From: 1, To: 2}, 0, " from " + at(0) + " to " + at(1) + ": there are some from " + at(107) + " to " + at(111) + ": ask about their time (--start " + at(107) + " --end " + at(111) + ")"},
		{s, store.Window{From: 7200e9, To: 7201e9}, 7201e9, " in the window: the newest is of " + at(111) + ", 1h58m10s ago: ask about a longer one (--last 2h0m0s), or ask about their time (--start"},
		{&store.Store{}, store.Window{}, 0, " in the window: add the stage"},
	} {
		for _, kind := range RecordKinds() {
			var b bytes.Buffer
			err := WriteRecords(&b, c.s, kind, c.in, c.now)
			if !errors.Is(err, query.ErrNoRecords) || !strings.Contains(err.Error(), "no records of "+kind+c.says) || b.Len() != 0 {
				t.Errorf("%s in %v: %v, %d bytes", kind, c.in, err, b.Len())
			}
		}
	}
	name := filepath.Join(t.TempDir(), "none.parquet")
	if err := WriteRecordsFile(name, s, "points", store.Window{From: 1, To: 2}, 0); !errors.Is(err, query.ErrNoRecords) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
}

// TestGroups: a table of any length is written in groups of rows that are bounded.
func TestGroups(t *testing.T) {
	s := recorded(t, 30_000)
	var b bytes.Buffer
	if err := WriteRecords(&b, s, "samples", store.Window{}, 0); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, g := range f.RowGroups() {
		if g.NumRows() > groupRows {
			t.Errorf("a group of %d rows", g.NumRows())
		}
		total += g.NumRows()
	}
	if want := int64(6 * 30_000); total != want || len(f.RowGroups()) < 3 {
		t.Errorf("%d rows in %d groups, want %d rows", total, len(f.RowGroups()), want)
	}
}
