package parquet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/telemetry/query"
)

// ErrNoTable says that there is no table of such answers or records.
var ErrNoTable = errors.New("there is no table of it")

// table is rows with what a file says beside them.
type table struct {
	metadata map[string]string
	empty    func() bool // without a row
	write    func(w io.Writer, options ...parquet.WriterOption) error
}

// The sizes that bound memory: rows are gathered into groups of so many, and given to the
// encoder in parts.
const (
	groupRows = 1 << 16
	partRows  = 1 << 10
)

// tableOf makes a table of rows of type R, whose fields are its columns.
func tableOf[R any](name string, rows iter.Seq[R]) *table {
	t := &table{metadata: map[string]string{"weir.table": name}}
	for column, unit := range units(reflect.TypeFor[R]()) {
		t.metadata["weir.unit."+column] = unit
	}
	t.empty = func() bool {
		for range rows {
			return false
		}
		return true
	}
	t.write = func(out io.Writer, options ...parquet.WriterOption) error {
		w := parquet.NewGenericWriter[R](out, options...)
		part := make([]R, 0, partRows)
		for row := range rows {
			if part = append(part, row); len(part) == partRows {
				if _, err := w.Write(part); err != nil {
					return err
				}
				part = part[:0]
			}
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		return w.Close()
	}
	return t
}

// units are those of a row's columns, by name: the tags "unit".
func units(row reflect.Type) map[string]string {
	all := map[string]string{}
	for i := range row.NumField() {
		f := row.Field(i)
		if f.Anonymous {
			for name, unit := range units(f.Type) {
				all[name] = unit
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if unit := f.Tag.Get("unit"); unit != "" {
			all[name] = unit
		}
	}
	return all
}

// basis notes what an answer rests on.
func (t *table) basis(b *query.Basis) error {
	missing, err := json.Marshal(b.Missing)
	if err != nil {
		return err
	}
	t.metadata["weir.from_ns"] = strconv.FormatInt(b.From, 10)
	t.metadata["weir.to_ns"] = strconv.FormatInt(b.To, 10)
	t.metadata["weir.confidence"] = strconv.FormatFloat(b.Confidence, 'g', -1, 64)
	t.metadata["weir.records"] = strconv.Itoa(b.Records)
	t.metadata["weir.switches"] = strconv.Itoa(b.Switches)
	t.metadata["weir.missing"] = string(missing)
	return nil
}

// summary notes an answer without its rows.
func (t *table) summary(rest any) error {
	text, err := json.Marshal(rest)
	t.metadata["weir.summary"] = string(text)
	return err
}

func (t *table) to(w io.Writer) error {
	options := []parquet.WriterOption{
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("weir", "", ""),
	}
	keys := make([]string, 0, len(t.metadata))
	for key := range t.metadata {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		options = append(options, parquet.KeyValueMetadata(key, t.metadata[key]))
	}
	if err := t.write(w, options...); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// Write writes an answer, which is what query.Engine.Ask or Series gives. It wraps ErrNoTable if
// there is no table of such answers.
func Write(w io.Writer, answer any) error {
	t, err := answerTable(answer)
	if err != nil {
		return err
	}
	return t.to(w)
}

// WriteFile writes an answer to a file, which is there only once it is whole.
func WriteFile(file string, answer any) error {
	t, err := answerTable(answer)
	if err != nil {
		return err
	}
	return Atomically(file, t.to)
}

// Atomically has a file written by a function: into another one beside it, which takes its place once it is whole
// and on the disk. On error the file is as it was.
func Atomically(file string, write func(io.Writer) error) error {
	f, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o644), renameio.IgnoreUmask())
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if err := write(f); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
