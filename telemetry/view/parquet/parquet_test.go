package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// fill sets all that an answer has to values that differ, its lists to n elements.
func fill(r *rand.Rand, v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), n)
	case reflect.Struct:
		if k, ok := v.Addr().Interface().(*query.Key); ok {
			*k = aKey(r)
			return
		}
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case f.Name == "Flow" && f.Type.Kind() == reflect.String: // not of all answers: some are not IP
				if v.Field(i).SetString(query.FormatKey(aKey(r))); r.IntN(4) == 0 {
					v.Field(i).SetString("not IP")
				}
			case f.IsExported():
				fill(r, v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", r.Uint32()))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(r.NormFloat64() * 1e9)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(r.Int32()))
	case reflect.Int32:
		v.SetInt(int64(r.Int32()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(uint64(r.Uint32()) & (1<<v.Type().Bits() - 1))
	}
}

func aKey(r *rand.Rand) query.Key {
	texts := []string{"10.0.0.%d:%d > 10.9.0.1:80 tcp", "[fd00::%x]:%d > [fd01::2]:53 udp", "10.0.0.%d > 10.1.1.1"}
	text := texts[r.IntN(len(texts))]
	arguments := []any{r.IntN(200), 1 + r.IntN(60000)}[:strings.Count(text, "%")]
	k, err := query.ParseKey(fmt.Sprintf(text, arguments...))
	if err != nil {
		panic(err)
	}
	return k
}

// file is what a Parquet file says.
type file struct {
	metadata map[string]string
	rows     []map[string]any // as the JSON of a row would have it, without nulls
}

func read(t *testing.T, b []byte) file {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	got := file{metadata: map[string]string{}}
	for _, kv := range f.Metadata().KeyValueMetadata {
		got.metadata[kv.Key] = kv.Value
	}
	r := parquet.NewGenericReader[map[string]any](f, f.Schema())
	defer r.Close()
	for {
		row := []map[string]any{{}}
		n, err := r.Read(row)
		if n == 1 {
			for _, c := range f.Schema().Fields() { // the library reads all integers into maps as signed
				if v, ok := row[0][c.Name()].(time.Time); ok {
					row[0][c.Name()] = v.UnixNano()
				}
				if v, ok := row[0][c.Name()].(int64); ok && c.Type().String() == "INT(64,false)" {
					row[0][c.Name()] = uint64(v)
				}
			}
			text, err := json.Marshal(row[0])
			if err != nil {
				t.Fatal(err)
			}
			got.rows = append(got.rows, decode(t, text))
		}
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func decode(t *testing.T, text []byte) (row map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &row); err != nil {
		t.Fatal(err)
	}
	return row
}

// withoutEmpty leaves out what is null, or as good as that.
func withoutEmpty(rows []map[string]any) []map[string]any {
	for _, row := range rows {
		maps.DeleteFunc(row, func(_ string, v any) bool {
			l, isList := v.([]any)
			return v == nil || v == "" || isList && len(l) == 0
		})
	}
	return rows
}

func written(t *testing.T, answer any) file {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, answer); err != nil {
		t.Fatal(err)
	}
	return read(t, b.Bytes())
}

// jsonOf is an answer as its JSON has it.
func jsonOf(t *testing.T, answer any) map[string]any {
	t.Helper()
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

type object = map[string]any

// sameNames copies the fields of a JSON object whose names columns have too.
func sameNames(row object, from object, names ...string) object {
	for _, name := range names {
		if v := from[name]; v != nil && v != "" {
			if slices.Contains([]string{"first_ns", "last_ns", "last_heard_ns", "boot_ns", "from_ns", "to_ns"}, name) {
				row[strings.TrimSuffix(name, "_ns")+"_time"] = v.(float64) - float64(clock.UTCOffset())
				continue
			}
			row[name] = v
		}
	}
	return row
}

// bounded copies a value with its bounds.
func bounded(row object, column string, from any) object {
	o := from.(object)
	row[column], row[column+"_low"], row[column+"_high"] = o["value"], o["low"], o["high"]
	return row
}

// keyed adds the columns of a flow's key, by another way than the package: its text.
func keyed(row object, text string) object {
	row["flow"] = text
	k, err := query.ParseKey(text)
	if err != nil {
		return row
	}
	row["src"], row["dst"], row["ip_version"] = k.SrcAddr().String(), k.DstAddr().String(), float64(k.Version)
	if fields := strings.Fields(text); len(fields) == 4 {
		port := func(s string) float64 { n, _ := strconv.Atoi(s[strings.LastIndex(s, ":")+1:]); return float64(n) }
		row["src_port"], row["dst_port"], row["proto"] = port(fields[0]), port(fields[2]), float64(k.Proto)
	}
	return row
}

func list(a object, name string) (all []object) {
	l, _ := a[name].([]any)
	for _, x := range l {
		all = append(all, x.(object))
	}
	return all
}

// quantileRows are those of samples with quantiles.
func quantileRows(base, stats object) (rows []object) {
	for _, q := range list(stats, "quantiles") {
		row := sameNames(bounded(maps.Clone(base), "value", q), q, "rank", "rank_low", "rank_high", "open")
		row["samples"] = stats["samples"]
		rows = append(rows, row)
	}
	if rows == nil {
		row := maps.Clone(base)
		row["samples"] = stats["samples"]
		rows = []object{row}
	}
	return rows
}

// wants make the rows that an answer's JSON asks for.
var wants = []struct {
	answer func() any
	rows   func(a object) []object
}{
	{func() any { return new(query.HeavyHitters) }, func(a object) (rows []object) {
		for _, f := range list(a, "flows") {
			row := sameNames(bounded(keyed(object{}, f["flow"].(string)), "value", f), f, "share", "trust")
			row["unit"] = a["unit"]
			rows = append(rows, row)
		}
		return rows
	}},
	{func() any { return new(query.PathAnswer) }, func(a object) (rows []object) {
		for _, f := range list(a, "flows") {
			hops := list(f, "hops")
			base := sameNames(keyed(object{}, f["flow"].(string)), f, "packets", "first_ns", "last_ns", "known", "certain", "doubt", "changes", "strays", "undecoded")
			if len(hops) == 0 {
				rows = append(rows, base)
			}
			for _, h := range hops {
				row := sameNames(maps.Clone(base), h, "hop", "switch", "candidates", "number")
				rows = append(rows, row)
			}
		}
		return rows
	}},
	{func() any { return new(query.LatencyAnswer) }, func(a object) (rows []object) {
		for _, h := range list(a, "hops") {
			base := sameNames(object{"unit": a["unit"]}, h, "hop", "switch", "flows")
			if h["hop"] == 0. {
				delete(base, "hop")
			}
			of := quantileRows(base, h)
			for _, f := range list(h, "frequent") {
				row := bounded(maps.Clone(base), "share", f["share"])
				row["value"], row["samples"] = f["value"], h["samples"]
				of = append(of, row)
			}
			rows = append(rows, of...)
		}
		for _, f := range list(a, "flows") {
			rows = append(rows, quantileRows(object{"unit": a["unit"], "flow": f["flow"]}, f)...)
		}
		return rows
	}},
	{func() any { return new(query.CongestionAnswer) }, func(a object) (rows []object) {
		rows = quantileRows(object{"unit": a["unit"]}, a["packets"].(object))
		for _, f := range list(a, "flows") {
			rows = append(rows, quantileRows(object{"unit": a["unit"], "flow": f["flow"]}, f)...)
		}
		return rows
	}},
	{func() any { return new(query.LoopsAnswer) }, func(a object) (rows []object) {
		for _, f := range list(a, "flows") {
			row := sameNames(keyed(object{}, f["flow"].(string)), f, "reported", "by", "packets", "marked", "doubt", "first_ns", "last_ns", "path", "repeated")
			rows = append(rows, row)
		}
		return rows
	}},
	{func() any { return new(query.Volume) }, func(a object) []object {
		return []object{
			bounded(object{"name": "packets", "unit": "packets"}, "value", a["packets"]),
			bounded(object{"name": "bytes", "unit": "bytes"}, "value", a["bytes"]),
		}
	}},
	{func() any { return new(query.Frequency) }, func(a object) (rows []object) {
		named := func(name string, unit, value any) {
			rows = append(rows, bounded(keyed(object{"name": name, "unit": unit}, a["flow"].(string)), "value", value))
		}
		if s, ok := a["sample"].(object); ok {
			named("packets", "packets", s["packets"])
			named("bytes", "bytes", s["bytes"])
		}
		if s, ok := a["sketch"].(object); ok {
			named("sketch", s["unit"], s)
		}
		return rows
	}},
	{func() any { return new(query.Entropy) }, func(a object) []object {
		return []object{
			bounded(object{"name": "entropy", "unit": "bits"}, "value", a["bits"]),
			bounded(object{"name": "flows", "unit": "flows"}, "value", a["flows"]),
			bounded(object{"name": "f2", "unit": a["unit"].(string) + "^2"}, "value", a["f2"]),
		}
	}},
	{func() any { return new(query.Cardinality) }, func(a object) []object {
		return []object{bounded(object{"name": "flows", "unit": "flows"}, "value", a["flows"])}
	}},
	{func() any { return new(query.Between) }, func(a object) (rows []object) {
		row := sameNames(object{}, a, "from", "to", "flow", "intervals", "whole_intervals", "idle_intervals", "unlike_intervals", "cells", "refused_cells", "kept", "unsent_intervals")
		if a["has_packets"] == true {
			row["packets"] = a["packets"]
		}
		if a["has_bytes"] == true {
			sameNames(row, a, "bytes", "count_trust")
		}
		if a["has_delay"] == true {
			sameNames(bounded(row, "delay_ns", a["delay_ns"]), a, "std_ns", "measured", "trust")
		}
		if a["has_loss"] == true {
			row["lost"] = a["lost"]
		}
		rows = append(rows, row)
		for _, f := range list(a, "lost_flows") {
			rows = append(rows, sameNames(object{}, a, "from", "to"))
			sameNames(rows[len(rows)-1], f, "flow", "lost")
		}
		for _, f := range list(a, "flows") {
			row := sameNames(sameNames(object{}, a, "from", "to"), f, "flow", "packets")
			if f["has_delay"] == true {
				bounded(row, "delay_ns", f["delay_ns"])
			}
			if f["has_loss"] == true {
				row["lost"] = f["lost"]
			}
			rows = append(rows, row)
		}
		return rows
	}},
	{func() any { return new(query.Target) }, func(a object) (rows []object) {
		for _, f := range list(a, "fragments") {
			rows = append(rows, sameNames(object{"unit": a["unit"]}, f, "switch", "subepochs", "error"))
		}
		return rows
	}},
	{func() any { return new(query.Network) }, func(a object) (rows []object) {
		for _, s := range list(a, "switches") {
			base := sameNames(object{"switch": s["name"], "switch_number": s["switch"]}, s, "health", "last_heard_ns", "age_ns", "has_status", "statuses",
				"span_ns", "boot_ns", "restarts", "program", "epochs", "overruns", "missed_packets", "faults")
			if len(list(s, "ports")) == 0 {
				rows = append(rows, base)
			}
			for _, p := range list(s, "ports") {
				row := sameNames(maps.Clone(base), p, "up", "backlog", "most_backlog", "interface", "mode", "has_rates")
				row["port"], row["port_number"] = p["name"], p["number"]
				if p["speed_bps"] != 0. {
					row["speed_bps"] = p["speed_bps"]
				}
				if p["has_rates"] == true {
					for _, way := range []string{"received", "sent"} {
						for _, name := range []string{"packets_per_second", "bits_per_second", "utilisation"} {
							if name != "utilisation" || p["speed_bps"] != 0. {
								row[way+"_"+name] = p[way].(object)[name]
							}
						}
					}
					row["drops_per_second"] = p["drops_per_second"]
				}
				rows = append(rows, row)
			}
		}
		return rows
	}},
	{func() any { return new(query.Series) }, func(a object) (rows []object) {
		for _, p := range list(a, "points") {
			base := sameNames(object{}, p, "from_ns", "to_ns", "fault")
			if len(list(p, "values")) == 0 {
				rows = append(rows, base)
			}
			for _, v := range list(p, "values") {
				rows = append(rows, sameNames(bounded(maps.Clone(base), "value", v), v, "name", "unit"))
			}
		}
		return rows
	}},
}

// flowTexts gives flows of answers texts that are flows, and keys that are of these.
func flowTexts(r *rand.Rand, answer any) {
	switch a := answer.(type) {
	case *query.HeavyHitters:
		for i := range a.Flows {
			a.Flows[i].Flow = query.FormatKey(a.Flows[i].Key)
		}
	case *query.PathAnswer:
		for i := range a.Flows {
			a.Flows[i].Flow = query.FormatKey(aKey(r))
			for j := range a.Flows[i].Hops {
				a.Flows[i].Hops[j].Candidates = r.IntN(3)
			}
		}
	case *query.LoopsAnswer:
		for i := range a.Flows {
			a.Flows[i].Flow = query.FormatKey(aKey(r))
		}
	case *query.Frequency:
		a.Flow = query.FormatKey(aKey(r))
	case *query.Between:
		for i := range a.LostFlows {
			a.LostFlows[i].Flow = query.FormatKey(aKey(r))
		}
		for i := range a.Flows {
			a.Flows[i].Flow = query.FormatKey(aKey(r))
		}
	case *query.LatencyAnswer:
		for i := range a.Hops {
			a.Hops[i].Hop %= 3
		}
	case *query.Network:
		for i := range a.Switches {
			for j := range a.Switches[i].Ports {
				a.Switches[i].Ports[j].Speed %= 2
			}
		}
	}
}

// TestAnswers: each answer, filled and empty, comes back row by row as its JSON has it, and with what it rests on.
func TestAnswers(t *testing.T) {
	for _, w := range wants {
		for n := range 4 {
			a := w.answer()
			name := fmt.Sprintf("%T of %d", a, n)
			r := rand.New(rand.NewPCG(uint64(n), 7))
			if n > 0 {
				fill(r, reflect.ValueOf(a).Elem(), n)
				flowTexts(r, a)
			} else if f, ok := a.(*query.Frequency); ok {
				f.Flow = "10.0.0.1:1 > 10.0.0.2:2 udp"
			}
			got, answer := written(t, a), jsonOf(t, a)
			want := w.rows(answer)
			for _, row := range want { // a flow has its parts wherever it is
				if flow, ok := row["flow"].(string); ok {
					keyed(row, flow)
				}
			}
			if diff := cmp.Diff(withoutEmpty(want), withoutEmpty(got.rows)); diff != "" {
				t.Errorf("%s: (-JSON +Parquet)\n%s", name, diff)
			}
			if n == 0 {
				continue
			}
			basis := answer
			if s, ok := answer["sample"].(object); ok {
				basis = s
			}
			for _, key := range []string{"from_ns", "to_ns", "confidence"} {
				if value, err := strconv.ParseFloat(got.metadata["weir."+key], 64); err != nil || value != basis[key] {
					t.Errorf("%s: %s is %q, want %v", name, key, got.metadata["weir."+key], basis[key])
				}
			}
			var missing []any
			if err := json.Unmarshal([]byte(got.metadata["weir.missing"]), &missing); err != nil || len(missing) < n {
				t.Errorf("%s: missing %q", name, got.metadata["weir.missing"])
			}
			var summary object
			if err := json.Unmarshal([]byte(got.metadata["weir.summary"]), &summary); err != nil {
				t.Errorf("%s: summary: %v", name, err)
			}
			for key, value := range summary {
				if _, isList := value.([]any); !isList && value != nil && key != "packets" && !cmp.Equal(value, answer[key]) {
					t.Errorf("%s: the summary says %s = %v, not %v", name, key, value, answer[key])
				}
			}
		}
	}
	if err := Write(io.Discard, 3); !errors.Is(err, ErrNoTable) {
		t.Errorf("got %v", err)
	}
}

// TestAllKinds: no answer that the engine gives lacks a table.
func TestAllKinds(t *testing.T) {
	if len(wants) < len(query.Kinds())-1+1 { // delay and loss share one; a series is one more
		t.Errorf("%d tables for %d kinds", len(wants), len(query.Kinds()))
	}
}

// TestUnits: a column with a number has a unit, in the file or in its rows, unless it is a name or says itself.
func TestUnits(t *testing.T) {
	without := []string{"ip_version", "src_port", "dst_port", "proto", "switch_number", "port_number", "number", "hop", "instance", "interval", "epoch", "rank", "packet_id", "rows", "columns", "plan", "digest",
		"time", "from_time", "to_time", "first_time", "last_time", "last_heard_time", "boot_time"} // timestamps say what they are
	check := func(name string, b []byte) {
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		inRows := slices.ContainsFunc(f.Schema().Fields(), func(c parquet.Field) bool { return c.Name() == "unit" })
		for _, c := range f.Schema().Fields() {
			if !c.Leaf() || c.Type().Kind() == parquet.ByteArray || c.Type().Kind() == parquet.Boolean || slices.Contains(without, c.Name()) {
				continue
			}
			_, has := f.Lookup("weir.unit." + c.Name())
			if value := strings.HasPrefix(c.Name(), "value") || c.Name() == "error"; has == (value && inRows) {
				t.Errorf("%s: column %s: unit in the file: %v, in rows: %v", name, c.Name(), has, inRows)
			}
		}
	}
	for _, w := range wants {
		var b bytes.Buffer
		if err := Write(&b, w.answer()); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%T", w.answer()), b.Bytes())
	}
	for _, kind := range RecordKinds() {
		var b bytes.Buffer
		if err := WriteRecords(&b, recorded(t, 3), kind, store.Window{}, 0); err != nil {
			t.Fatal(err)
		}
		check(kind, b.Bytes())
	}
}

// TestAtomically: a file that cannot be finished leaves the old one, and nothing beside it.
func TestAtomically(t *testing.T) {
	name := filepath.Join(t.TempDir(), "answer.parquet")
	h := &query.HeavyHitters{Unit: "packets"}
	if err := WriteFile(name, h); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(name)
	if err != nil || len(read(t, old).rows) != 0 {
		t.Fatal(err)
	}
	fault := errors.New("the disk is full")
	if err := Atomically(name, func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return fault
	}); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, old) {
		t.Errorf("the old file is gone: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := WriteFile(filepath.Join(name, "x"), h); err == nil {
		t.Error("a file in a file was written")
	}
	if err := WriteFile(name, "no answer"); !errors.Is(err, ErrNoTable) {
		t.Errorf("got %v", err)
	}
}

// failing takes so many bytes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// TestWriterFails: wherever the writer fails, the error is told.
func TestWriterFails(t *testing.T) {
	h := &query.HeavyHitters{Unit: "packets", Flows: make([]query.HeavyFlow, 3*partRows)}
	var whole bytes.Buffer
	if err := Write(&whole, h); err != nil {
		t.Fatal(err)
	}
	cuts := 50
	if testing.Short() {
		cuts = 10
	}
	for left := 0; left < whole.Len(); left += 1 + whole.Len()/cuts {
		if err := Write(&failing{left}, h); err == nil {
			t.Errorf("no error behind %d of %d bytes", left, whole.Len())
		}
	}
}
