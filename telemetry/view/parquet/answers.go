package parquet

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// The columns of an answer follow from its type in package query:
//
//	rows:""           each element of the list is a row, or several if it has such a list, too; what is above repeats in each
//	column:"name"     another name than in JSON; of an answer itself, only fields with this tag are columns
//	columns:"prefix_" the fields of the struct are columns, with the prefix
//	unit:"ns"         the unit, in the file's metadata
//	null:"zero"       null where the value is zero
//	null:"name"       null where the field of that name, of the same struct or of one around it, is zero
//
// A field in ns of CLOCK_TAI is a column of timestamps in UTC: first_ns is first_time.
//
// A value with bounds is three columns: name, name_low, name_high; name is "value" if it is embedded. A flow has columns
// for the parts of its key. Lists of structs without the tag rows stay in the summary (see [Write]).

// names are those of the tables.
var names = map[reflect.Type]string{
	reflect.TypeFor[query.HeavyHitters](): "heavy-hitters", reflect.TypeFor[query.PathAnswer](): "path",
	reflect.TypeFor[query.LatencyAnswer](): "latency", reflect.TypeFor[query.CongestionAnswer](): "congestion",
	reflect.TypeFor[query.LoopsAnswer](): "loops", reflect.TypeFor[query.Volume](): "volume",
	reflect.TypeFor[query.Frequency](): "frequency", reflect.TypeFor[query.Entropy](): "entropy",
	reflect.TypeFor[query.Cardinality](): "cardinality", reflect.TypeFor[query.Between](): "delay",
	reflect.TypeFor[query.Target](): "target", reflect.TypeFor[query.Network](): "network", reflect.TypeFor[query.Series](): "series",
}

// answerTable is the table of an answer.
func answerTable(answer any) (*table, error) {
	value := reflect.ValueOf(answer)
	if value.Kind() != reflect.Pointer || names[value.Type().Elem()] == "" {
		return nil, fmt.Errorf("%w: an answer of type %T", ErrNoTable, answer)
	}
	value = value.Elem()
	rows := value
	switch a := answer.(type) {
	case *query.Volume, *query.Entropy, *query.Cardinality: // without a list: a row for each value
		rows = reflect.ValueOf(values{Values: query.Numbers(answer)})
	case *query.Frequency:
		rows = reflect.ValueOf(values{Flow: a.Flow, Values: query.Numbers(answer)})
	case *query.Between:
		rows = reflect.ValueOf(losses(a))
		rest := *a
		rest.LostFlows, rest.Flows = nil, nil // rows of their own
		value = reflect.ValueOf(rest)
	}
	t := &table{metadata: map[string]string{"weir.table": names[value.Type()]}}
	if err := t.basis(basisOf(answer)); err != nil {
		return nil, err
	}
	l := new(layout)
	root := l.node(rows.Type(), true)
	for _, c := range l.columns {
		if c.unit != "" {
			t.metadata["weir.unit."+c.name] = c.unit
		}
	}
	t.write = func(out io.Writer, options ...parquet.WriterOption) error { return l.write(out, root, rows, options) }
	return t, t.summary(root.without(value))
}

// values is the table of an answer without a list.
type values struct {
	Flow   string              `json:"flow" column:"flow" null:"zero"`
	Values []query.SeriesValue `rows:""`
}

// between is the table of a delay or a loss: a row of the whole, one for each flow that lost packets, and one for each that the question names.
type between struct {
	Whole query.Between `rows:""`
	Lost  []lostFlow    `rows:""`
	Named []namedFlow   `rows:""`
}

// namedFlow is a flow that the question names; what is not known of it is nil.
type namedFlow struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Flow    string   `json:"flow"`
	Delay   *float64 `json:"delay_ns"`
	Low     *float64 `json:"delay_ns_low"`
	High    *float64 `json:"delay_ns_high"`
	Packets float64  `json:"packets"`
	Lost    *float64 `json:"lost"`
}

type lostFlow struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	Flow string  `json:"flow"`
	Lost float64 `json:"lost"`
}

func losses(b *query.Between) between {
	t := between{Whole: *b}
	for _, f := range b.LostFlows {
		t.Lost = append(t.Lost, lostFlow{b.From, b.To, f.Flow, float64(f.Lost)})
	}
	for i := range b.Flows {
		f := &b.Flows[i]
		n := namedFlow{From: b.From, To: b.To, Flow: f.Flow, Packets: f.Packets}
		if f.HasDelay {
			n.Delay, n.Low, n.High = &f.Delay.Value, &f.Delay.Low, &f.Delay.High
		}
		if f.HasLoss {
			n.Lost = &f.Lost
		}
		t.Named = append(t.Named, n)
	}
	return t
}

// basisOf is what an answer rests on; a frequency has one for each system.
func basisOf(answer any) *query.Basis {
	f, ok := answer.(*query.Frequency)
	switch {
	case !ok:
		return reflect.ValueOf(answer).Elem().FieldByName("Basis").Addr().Interface().(*query.Basis)
	case f.Sample != nil && f.Sketch != nil: // one question has one window
		both := f.Sample.Basis
		both.Records += f.Sketch.Records
		both.Switches = max(both.Switches, f.Sketch.Switches)
		both.Missing = slices.Concat(f.Sketch.Missing, both.Missing)
		return &both
	case f.Sample != nil:
		return &f.Sample.Basis
	case f.Sketch != nil:
		return &f.Sketch.Basis
	}
	return &query.Basis{Missing: []store.Missing{}}
}

// layout is the columns of a table.
type layout struct{ columns []column }

// column can be null in each row, as a row need not have an element of each list.
type column struct {
	name, unit string
	of         reflect.Type // string, bool, int64, uint32, uint64, float64 or []string
	time       bool         // a timestamp
}

// taiUnit is the unit of fields that are moments.
const taiUnit = "ns of CLOCK_TAI"

// timed makes a column of moments one of timestamps.
func (c column) timed() column {
	if c.unit == taiUnit {
		c.name, c.unit, c.time = strings.TrimSuffix(c.name, "_ns")+"_time", "", true
	}
	return c
}

// node is a struct that makes rows.
type node struct {
	fields   []access
	children []child // lists whose elements are rows
}

// access is the way from a node's struct to a column's value.
type access struct {
	column int
	path   []int
	flow   bool    // the column is the first one of a flow's
	nulls  [][]int // paths to fields: null where one of them is zero
}

type child struct {
	path []int
	node *node
}

// node lays out the columns of a struct, and of its lists of rows. top: it is an answer, of which not all fields are columns.
func (l *layout) node(of reflect.Type, top bool) *node {
	n := new(node)
	l.walk(n, of, of, nil, "", nil, top)
	return n
}

// walk adds the fields of the struct "of", which is at a path of the node's own struct.
func (l *layout) walk(n *node, own, of reflect.Type, at []int, prefix string, nulls [][]int, top bool) {
	for i := range of.NumField() {
		f := of.Field(i)
		path := append(slices.Clone(at), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		renamed, isColumn := f.Tag.Lookup("column")
		if isColumn {
			name = renamed
		}
		unit := f.Tag.Get("unit")
		if of == reflect.TypeFor[store.Window]() {
			unit = taiUnit
		}
		nulls := nulls
		if null := f.Tag.Get("null"); null == "zero" {
			nulls = append(slices.Clone(nulls), path)
		} else if null != "" {
			nulls = append(slices.Clone(nulls), find(own, at, null))
		}
		if _, isRows := f.Tag.Lookup("rows"); isRows {
			element := f.Type
			if element.Kind() == reflect.Slice {
				element = element.Elem()
			}
			n.children = append(n.children, child{path, l.node(element, names[element] != "")})
			continue
		}
		embedded := f.Anonymous && name == ""
		if f.Type == reflect.TypeFor[query.Basis]() || f.Type == reflect.TypeFor[query.DigestBasis]() || name == "-" || top && !isColumn && !embedded {
			continue
		}
		if embedded {
			name = "value"
		}
		columns, hasPrefix := f.Tag.Lookup("columns")
		switch of := f.Type; {
		case of == reflect.TypeFor[query.Bounded]():
			for k, suffix := range []string{"", "_low", "_high"} { // the order of its fields
				l.add(n, column{name: prefix + name + suffix, unit: unit, of: reflect.TypeFor[float64]()}, append(slices.Clone(path), k), nulls)
			}
		case of.Kind() == reflect.Struct && (embedded || hasPrefix):
			l.walk(n, own, of, path, prefix+columns, nulls, top)
		case name == "flow":
			l.add(n, column{name: "flow", of: of}, path, nulls)
			n.fields[len(n.fields)-1].flow = true
			for _, part := range []column{{name: "ip_version", of: reflect.TypeFor[uint32]()}, {name: "src", of: of}, {name: "dst", of: of},
				{name: "src_port", of: reflect.TypeFor[uint32]()}, {name: "dst_port", of: reflect.TypeFor[uint32]()}, {name: "proto", of: reflect.TypeFor[uint32]()}} {
				l.index(part)
			}
		default:
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if leaf := leafOf(of); leaf != nil {
				l.add(n, column{name: prefix + name, unit: unit, of: leaf}.timed(), path, nulls)
			}
		}
	}
}

// find is the path to the field of a name, of the struct at a path or of one around it.
func find(own reflect.Type, at []int, name string) []int {
	for ; ; at = at[:len(at)-1] {
		of := own
		if len(at) > 0 {
			of = own.FieldByIndex(at).Type
		}
		for i := range of.NumField() {
			if tag, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); tag == name {
				return append(slices.Clone(at), i)
			}
		}
		if len(at) == 0 {
			panic(fmt.Sprintf("parquet: %s has no field %q, which a tag null names", own, name))
		}
	}
}

// leafOf is a column's type for values of a type; nil: it is no column.
func leafOf(of reflect.Type) reflect.Type {
	switch of.Kind() {
	case reflect.String:
		return reflect.TypeFor[string]()
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	case reflect.Float64:
		return reflect.TypeFor[float64]()
	case reflect.Int, reflect.Int64:
		return reflect.TypeFor[int64]()
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return reflect.TypeFor[uint32]()
	case reflect.Uint64:
		return reflect.TypeFor[uint64]()
	case reflect.Slice:
		if of.Elem().Kind() == reflect.String {
			return reflect.TypeFor[[]string]()
		}
	}
	return nil
}

// index is a column's number; lists next to each other share the columns of one name.
func (l *layout) index(c column) int {
	if i := slices.IndexFunc(l.columns, func(o column) bool { return o.name == c.name }); i >= 0 {
		return i
	}
	l.columns = append(l.columns, c)
	return len(l.columns) - 1
}

func (l *layout) add(n *node, c column, path []int, nulls [][]int) {
	n.fields = append(n.fields, access{column: l.index(c), path: path, nulls: nulls})
}

// utc is a moment of CLOCK_TAI in ns since 1970, UTC, by this machine's offset of the two.
func utc(tai int64) int64 { return tai - clock.UTCOffset() }

// rowType is a struct with a field for each column.
func (l *layout) rowType() reflect.Type {
	fields := make([]reflect.StructField, len(l.columns))
	for i, c := range l.columns {
		of, options := reflect.PointerTo(c.of), ",optional"
		switch c.of.Kind() {
		case reflect.Slice:
			of, options = c.of, ",list"
		case reflect.String:
			options = ",optional,dict"
		}
		if c.time {
			options = ",optional,timestamp(nanosecond)"
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("C%d", i), Type: of, Tag: reflect.StructTag(fmt.Sprintf(`parquet:"%s%s"`, c.name, options))}
	}
	return reflect.StructOf(fields)
}

// write writes the rows of an answer.
func (l *layout) write(out io.Writer, root *node, answer reflect.Value, options []parquet.WriterOption) error {
	row := reflect.New(l.rowType())
	w := parquet.NewWriter(out, append(options, parquet.SchemaOf(row.Interface()))...)
	emit := func(row reflect.Value) error { return w.Write(row.Addr().Interface()) }
	if err := l.rows(root, answer, row.Elem(), len(root.children) == 0, emit); err != nil {
		return err
	}
	return w.Close()
}

// rows sets the columns of a struct, and emits its rows: one for each element of its lists, or itself if it has none and alone
// is set.
func (l *layout) rows(n *node, from, row reflect.Value, alone bool, emit func(reflect.Value) error) error {
	for _, f := range n.fields {
		null := slices.ContainsFunc(f.nulls, func(path []int) bool { return from.FieldByIndex(path).IsZero() })
		value := from.FieldByIndex(f.path)
		if value.Kind() == reflect.Pointer {
			null = null || value.IsNil()
			value = value.Elem()
		}
		if f.flow {
			c := flowColumns{}
			if !null {
				c = columnsOfText(value.String())
			}
			for k, part := range []any{c.IPVersion, c.Src, c.Dst, c.SrcPort, c.DstPort, c.Proto} {
				row.Field(f.column + 1 + k).Set(reflect.ValueOf(part))
			}
		}
		field := row.Field(f.column)
		switch {
		case null:
			field.SetZero()
		case field.Kind() == reflect.Slice:
			field.Set(value)
		default:
			field.Set(reflect.New(field.Type().Elem()))
			field.Elem().Set(value.Convert(field.Type().Elem()))
			if l.columns[f.column].time {
				field.Elem().SetInt(utc(field.Elem().Int()))
			}
		}
	}
	some := false
	for _, c := range n.children {
		list := from.FieldByIndex(c.path)
		for i := range max(1, length(list)) {
			element := list
			if list.Kind() == reflect.Slice {
				if list.Len() == 0 {
					break
				}
				element = list.Index(i)
			}
			some = true
			own := reflect.New(row.Type()).Elem()
			own.Set(row)
			if err := l.rows(c.node, element, own, true, emit); err != nil {
				return err
			}
		}
	}
	if !some && alone {
		return emit(row)
	}
	return nil
}

// length is how many elements a list has; a struct is one.
func length(list reflect.Value) int {
	if list.Kind() == reflect.Slice {
		return list.Len()
	}
	return 1
}

// without is an answer without what its rows have. An answer of which the rows are another form stays whole.
func (n *node) without(answer reflect.Value) any {
	rest := reflect.New(answer.Type()).Elem()
	rest.Set(answer)
	if _, ok := answer.Interface().(query.Frequency); ok {
		return rest.Interface()
	}
	for i := range rest.NumField() {
		if _, isRows := rest.Type().Field(i).Tag.Lookup("rows"); isRows {
			rest.Field(i).SetZero()
		}
	}
	return rest.Interface()
}
