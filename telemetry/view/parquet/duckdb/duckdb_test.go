//go:build duckdb

package duckdb

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// ask writes an answer and asks DuckDB a question about it, whose rows are returned as text.
func ask(t *testing.T, answer any, question string) (rows [][]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "answer.parquet")
	if err := parquet.WriteFile(file, answer); err != nil {
		t.Fatal(err)
	}
	all, err := Rows(fmt.Sprintf(question, "'"+file+"'"))
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range all {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = fmt.Sprint(v)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestHeavyHitters: the parts of each flow are columns, and numbers are numbers.
func TestHeavyHitters(t *testing.T) {
	answer := &query.HeavyHitters{Unit: "packets", Flows: []query.HeavyFlow{
		{Flow: "10.0.0.1:1024 > 10.0.0.2:80 tcp", Share: 0.5, Bounded: query.Bounded{Value: 100, Low: 90, High: 110}},
		{Flow: "[fd00::1]:53 > [fd00::2]:5353 udp", Share: 0.25},
		{Flow: "10.0.0.1 > 10.0.0.9", Share: 0.1},
		{Flow: "not IP", Share: 0.05},
	}}
	got := ask(t, answer, "select flow, ip_version, src, src_port, dst, dst_port, proto, share, value from read_parquet(%s) order by share desc")
	want := [][]string{
		{"10.0.0.1:1024 > 10.0.0.2:80 tcp", "4", "10.0.0.1", "1024", "10.0.0.2", "80", "6", "0.5", "100"},
		{"[fd00::1]:53 > [fd00::2]:5353 udp", "6", "fd00::1", "53", "fd00::2", "5353", "17", "0.25", "0"},
		{"10.0.0.1 > 10.0.0.9", "4", "10.0.0.1", "<nil>", "10.0.0.9", "<nil>", "<nil>", "0.1", "0"},
		{"not IP", "<nil>", "<nil>", "<nil>", "<nil>", "<nil>", "<nil>", "0.05", "0"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTimes: moments are timestamps in UTC, as DuckDB reads them.
func TestTimes(t *testing.T) {
	var tai unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &tai); err != nil {
		t.Fatal(err)
	}
	offset := time.Duration(tai.Nano() - time.Now().UnixNano()).Round(time.Second)
	at := time.Date(2026, 11, 22, 17, 3, 4, 0, time.UTC)
	answer := &query.Network{Switches: []query.NetworkSwitch{{Name: "s1", LastHeardNs: at.UnixNano() + int64(offset)}}}
	got := ask(t, answer, "select switch, typeof(last_heard_time), epoch_us(last_heard_time) from read_parquet(%s)")
	if want := [][]string{{"s1", "TIMESTAMP WITH TIME ZONE", fmt.Sprint(at.UnixMicro())}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
