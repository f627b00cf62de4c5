//go:build duckdb

package service_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/marcboeker/go-duckdb"

	"github.com/weirswitch/weir/pipeline/clock"
)

// TestDuckDBRollups: DuckDB, which has nothing in common with the writer, reads in the roll-ups what the collector answers about the same intervals.
func TestDuckDBRollups(t *testing.T) {
	b, folder, send := rollupBed(t)
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range withStatus(t, base) {
		send(r)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	table := func(all rows, every, kind, columns string, text func(values []any) []any) {
		t.Helper()
		files := fmt.Sprintf("%s/rollups/kind=%s/every=%s/*/*.parquet", folder, kind, every)
		got, err := db.Query(fmt.Sprintf("select from_ns, %s from read_parquet('%s', hive_partitioning = true) where kind = '%s' and typeof(from_time) = 'TIMESTAMP WITH TIME ZONE' and epoch_ns(from_time) = from_ns - %d",
			columns, files, kind, clock.UTCOffset()))
		if err != nil {
			return // there is no such file yet
		}
		defer got.Close()
		names, err := got.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for got.Next() {
			values, into := make([]any, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := got.Scan(into...); err != nil {
				t.Fatal(err)
			}
			all.add(values[0].(int64), kind, text(values[1:])...)
		}
		if err := got.Err(); err != nil {
			t.Fatal(err)
		}
	}
	same := func(values []any) []any { return values }
	floats := func(list any) (all []float64) {
		for _, x := range list.([]any) {
			all = append(all, x.(float64))
		}
		return all
	}
	read := func(every string) rows {
		all := rows{}
		table(all, every, "intervals", "records > 0", same)
		table(all, every, "volume", "prefix, name, value, value_low, value_high", same)
		table(all, every, "heavy-hitters", "flow, value, share", same)
		table(all, every, "latency", `switch, samples, "values"`, func(v []any) []any { return []any{v[0], " ", v[1], floats(v[2])} })
		table(all, every, "links", `"from", "to", coalesce(delay_ns, 0), coalesce(packets, 0), coalesce(lost, 0)`, same)
		table(all, every, "paths", "path, flows, certain_flows, packets", func(v []any) []any { return []any{v[0], " ", v[1], v[2], v[3]} })
		table(all, every, "ports", "switch, port, coalesce(received_packets_per_second, 0), coalesce(sent_packets_per_second, 0)", same)
		return all.sort()
	}
	awaitRollups(t, read, b, base, base+setEpochs*setEpoch)
	b.stop(t)
}
