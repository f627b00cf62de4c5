//go:build duckdb

package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/view/parquet/duckdb"
)

// TestDuckDBRollups: DuckDB, which has nothing in common with the writer, reads in the roll-ups what the collector answers about the same intervals.
func TestDuckDBRollups(t *testing.T) {
	b, folder, send := rollupBed(t)
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range withStatus(t, base) {
		send(r)
	}
	table := func(all rows, every, kind, columns string, text func(values []any) []any) {
		t.Helper()
		files := fmt.Sprintf("%s/rollups/kind=%s/every=%s/*/*.parquet", folder, kind, every)
		got, err := duckdb.Rows(fmt.Sprintf("select from_ns, %s from read_parquet('%s', hive_partitioning = true) where kind = '%s' and typeof(from_time) = 'TIMESTAMP WITH TIME ZONE' and epoch_ns(from_time) = from_ns - %d",
			columns, files, kind, clock.UTCOffset()))
		if err != nil && strings.Contains(err.Error(), "No files found") {
			return // yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, values := range got {
			all.add(values[0].(int64), kind, text(values[1:])...)
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
