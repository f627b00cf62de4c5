//go:build duckdb

package archive

import (
	"database/sql"
	"fmt"
	"testing"

	_ "github.com/marcboeker/go-duckdb"

	"github.com/weirswitch/weir/telemetry/record"
)

// TestDuckDB: an engine of SQL that has nothing in common with the writer reads the archive by its folders, with times as times, and
// the records as they were published.
func TestDuckDB(t *testing.T) {
	path := t.TempDir()
	b, err := openFolder(path, "c1")
	if err != nil {
		t.Fatal(err)
	}
	s, all := stageRows(t, b, 160, 100)
	if err := b.put(t.Context(), s.Name(), s.file); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(fmt.Sprintf(`select kind, strftime(day, '%%Y-%%m-%%d'), switch, count(*), sum(record_bytes), typeof(any_value(from_time)), min(from_ns)
		from read_parquet('%s/records/*/*/*.parquet', hive_partitioning = true) group by all order by min(from_ns)`, path))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var kind, day, sw, times string
		var count, bytes, from int64
		if err := rows.Scan(&kind, &day, &sw, &count, &bytes, &times, &from); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(kind, day, sw, count, bytes, times, from)
		if want := fmt.Sprint(record.PINT, "1970-01-01", fmt.Sprint("s", n), 10, 10*len(all[n]), "TIMESTAMP WITH TIME ZONE", n*100); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if err := rows.Err(); err != nil || n != record.Partitions {
		t.Errorf("%d rows, %v", n, err)
	}
	var encoded []byte
	if err := db.QueryRow(fmt.Sprintf("select record from read_parquet('%s/records/*/*/*.parquet') where sequence = 18", path)).Scan(&encoded); err != nil {
		t.Fatal(err)
	}
	if string(encoded) != string(all[17]) {
		t.Error("the record is another one")
	}
}
