package service

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/parquet-go/parquet-go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/archive"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
	view "github.com/weirswitch/weir/telemetry/view/parquet"
)

// TestRollupsOfDeleted: an interval of which files were deleted before it was rolled up has that among what is missing.
func TestRollupsOfDeleted(t *testing.T) {
	folder := t.TempDir()
	c := config.DefaultCollect()
	c.Archive.URL = "file://" + folder
	hour := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	from := hour.Add(10*time.Minute).UnixNano() + clock.UTCOffset()
	file := archive.File{
		Kind: record.LDS, Arrived: hour.Add(12 * time.Minute).UnixNano(), From: from, To: from + int64(time.Minute), Stream: 1, Partitions: 1, First: 1, Last: 1, Rows: 1,
	}
	path := filepath.Join(folder, file.Name())
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	s := &Collector{config: c}
	var err error
	if s.store, err = store.NewLive(store.LiveConfig{Bytes: store.MinBytes, Now: clock.Kernel.TAI}); err != nil {
		t.Fatal(err)
	}
	if s.asker, err = newAsker(c, s.store); err != nil {
		t.Fatal(err)
	}
	if s.archive, err = archive.Open(archive.Config{
		Archive: c.Archive, Owner: "c1", Partitions: c.Partitions, RollUp: s.rollUp, Log: zap.NewNop(),
		Connect: func(context.Context) (*nats.Conn, error) { return nil, errors.New("there is no server") },
	}); err != nil {
		t.Fatal(err)
	}
	s.reader = collect.New(collect.Config{}, nil)
	s.asker.history(s)
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); s.archive.Run(ctx) }()
	defer func() { end(); <-ran }()
	if err := s.archive.Refresh(t.Context()); err != nil { // it knows the file by then
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	load := func(record.Header, []byte, int64) error { return nil }
	if err := s.archive.Load(t.Context(), archive.Wanted{From: from, To: from + 1, Kinds: collect.Kinds, Partition: -1}, load); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		at   time.Duration
		want bool
	}{{9 * time.Minute, false}, {10 * time.Minute, true}, {11 * time.Minute, false}} {
		tables := &view.Rollups{}
		w := store.Window{From: hour.Add(x.at).UnixNano() + clock.UTCOffset()}
		w.To = w.From + int64(time.Minute)
		if _, err := s.rollUpInterval(t.Context(), tables, w); err != nil {
			t.Fatal(err)
		}
		var table bytes.Buffer
		if err := tables.Write(&table, archive.Mark, nil); err != nil {
			t.Fatal(err)
		}
		rows, err := parquet.Read[struct {
			Missing string `parquet:"missing"`
		}](bytes.NewReader(table.Bytes()), int64(table.Len()))
		if err != nil || len(rows) != 1 || strings.Contains(rows[0].Missing, `"of":"records"`) != x.want {
			t.Errorf("%v behind the hour: %+v, %v, want %v", x.at, rows, err, x.want)
		}
	}
}
