// Package tomlfile decodes TOML files strictly: the files of switches, collectors and labs, and PINT's plans.
// Unknown keys and values of the wrong type are faults. All faults of a file are reported at once, each with its
// line, its full key and the remedy.
package tomlfile

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Decode reads text into the struct that into points to. Keys that the text leaves out keep their value. Do
// not use the struct if there are faults; the caller may add more, of values.
func Decode(text []byte, into any, hook Hook) *Faults {
	d := Decoder{Faults: &Faults{}, Hook: hook, root: reflect.TypeOf(into).Elem()}
	if fault := bounds(text); fault != nil {
		d.list = append(d.list, *fault)
		d.malformed = 1
		return d.Faults
	}
	var root map[string]any
	if err := toml.Unmarshal(text, &root); err != nil {
		d.list = append(d.list, syntaxFault(text, err, reflect.TypeOf(into).Elem()))
		d.malformed = 1
		return d.Faults
	}
	d.lines, _ = locate(text)
	d.Value("", root, reflect.ValueOf(into).Elem())
	d.malformed = len(d.list)
	return d.Faults
}

// assigned is the key of a line that assigns a value.
var assigned = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+)\s*=`)

// syntaxFault adds the key to the library's error: the table in front of the line, and the line's own key.
func syntaxFault(text []byte, err error, root reflect.Type) Fault {
	fault := Fault{Text: "not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		fault.Line, _ = syntax.Position()
		lines := bytes.SplitAfter(text, []byte("\n"))
		if key := assigned.FindSubmatch(lines[fault.Line-1]); key != nil {
			_, table := locate(bytes.Join(lines[:fault.Line-1], nil))
			fault.Key = join(table, string(key[1]))
		}
		fault.Text += syntaxRemedy(fault.Text, string(lines[fault.Line-1]), root)
	}
	return fault
}

// syntaxRemedy says what a line that is not TOML should be, where that is known.
func syntaxRemedy(fault, line string, root reflect.Type) string {
	header := tableHeader.FindStringSubmatch(line)
	switch {
	case strings.Contains(fault, "already exists") && header != nil:
		const merge, list = "merge the two into one [%s]", "write a list of tables in double brackets, each [[%s]]"
		remedy := merge + ", or, if it is a list, " + list
		switch kindAt(root, strings.Split(header[1], ".")) {
		case reflect.Slice:
			remedy = list
		case reflect.Struct:
			remedy = merge
		}
		return ": " + strings.ReplaceAll(remedy, "%s", header[1])
	case strings.Contains(fault, "already defined"):
		return ": remove one of the two"
	case strings.Contains(fault, "start of key") && strings.HasPrefix(strings.TrimSpace(line), "//"):
		return ": a comment begins with #"
	case strings.Contains(fault, "start of key"), strings.Contains(fault, "expected '=' after key"):
		return ": write key = value, or [table]"
	case strings.Contains(fault, "start of value") && strings.ContainsAny(line, "\u201c\u201d\u201e\u2018\u2019"):
		return `: write straight quotes, as in "s1"`
	case strings.Contains(fault, "start of value") && truth.MatchString(line):
		return ": write true or false, in small letters"
	case strings.Contains(fault, "start of value"):
		return `: write text in quotes, as in "s1"`
	case strings.Contains(fault, "after array value"):
		return ": put a comma between two values, and ] at the end of the list"
	case strings.Contains(fault, "expected newline"):
		return ": a line ends with its value, or with # and a comment"
	case strings.Contains(fault, "strings cannot have new lines"):
		return ": close the quotes"
	}
	return ""
}

// truth is a line with a truth value that TOML does not have.
var truth = regexp.MustCompile(`=\s*(?i:true|false|yes|no|on|off)\b`)

// tableHeader is a line that begins a table.
var tableHeader = regexp.MustCompile(`^\s*\[\s*([A-Za-z0-9_.-]+)\s*\]`)

// kindAt is the kind of what holds a key of a struct type: a Struct or a Slice; another one where the type does not say.
func kindAt(t reflect.Type, key []string) reflect.Kind {
	for _, name := range key {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return reflect.Invalid
		}
		f := Field(reflect.New(t).Elem(), name)
		if !f.IsValid() {
			return reflect.Invalid
		}
		t = f.Type()
	}
	return t.Kind()
}

// Hook sees each value before it is decoded: the key, what the file has, and where it goes. It may set
// defaults, or decode the value itself and return true.
type Hook func(d *Decoder, key string, data any, v reflect.Value) (done bool)

// Decoder sets values to what the TOML library read. The library can decode into a struct, but it stops at
// the first wrong type, ignores the case of keys, and does not distinguish the elements of a list of tables.
type Decoder struct {
	*Faults
	Hook Hook
	// Words accepts values that are written without quotes and brackets, as strings.
	Words bool

	root reflect.Type // of the file; nil: a single value is decoded
}

// Value decodes data, found at key, into v.
func (d *Decoder) Value(key string, data any, v reflect.Value) {
	if d.Hook != nil && d.Hook(d, key, data, v) {
		return
	}
	word, isString := data.(string)
	if d.Words && isString {
		data = parseWord(word, v.Kind())
	}
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		if !isString {
			d.Mistyped(key, data, `a time with its unit in quotes, as in "300s"`)
		} else if t, err := time.ParseDuration(word); err != nil {
			d.Add(key, "%q is not a time: write a number and its unit, as in \"300s\", \"5m\" or \"20ms\"", word)
		} else {
			*target = t
		}
		return
	case encoding.TextUnmarshaler:
		if !isString {
			d.Mistyped(key, data, "a word in quotes")
		} else {
			d.AddAll(key, target.UnmarshalText([]byte(word)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.Value(key, data, v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf(data))
	case reflect.Struct, reflect.Map:
		d.table(key, data, v)
	case reflect.Slice, reflect.Array:
		d.elements(key, data, v)
	case reflect.String:
		if !isString {
			d.Mistyped(key, data, "a string in quotes")
			return
		}
		v.SetString(word)
	case reflect.Bool:
		if set, ok := data.(bool); ok {
			v.SetBool(set)
			return
		}
		d.Mistyped(key, data, "true or false")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := data.(int64); !ok {
			d.Mistyped(key, data, "an integer")
		} else if v.OverflowInt(n) {
			d.Add(key, "%d is out of range: write a number of at most %d bits", n, v.Type().Bits())
		} else {
			v.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n, ok := data.(int64); !ok {
			d.Mistyped(key, data, "an integer")
		} else if n < 0 || v.OverflowUint(uint64(n)) {
			most := min(uint64(1)<<v.Type().Bits()-1, math.MaxInt64) // TOML's integers end there
			d.Add(key, "%d is out of range: choose 0 to %d", n, most)
		} else {
			v.SetUint(uint64(n))
		}
	case reflect.Float64:
		switch n := data.(type) {
		case float64:
			v.SetFloat(n)
		case int64:
			v.SetFloat(float64(n))
		default:
			d.Mistyped(key, data, "a number")
		}
	default:
		// Our own mistake: a struct has a field that no file can hold.
		panic(fmt.Sprintf("tomlfile: %s has the type %s", key, v.Type()))
	}
}

// Mistyped reports a value of the wrong type, and what to write instead.
func (d *Decoder) Mistyped(key string, data any, want string) {
	d.Add(key, "is %s: write %s", kindOf(data), want)
}

// table decodes a table into a struct, or into a map from strings.
func (d *Decoder) table(key string, data any, v reflect.Value) {
	table, ok := data.(map[string]any)
	if !ok {
		d.Mistyped(key, data, "a table")
		return
	}
	if v.Kind() == reflect.Map && v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		inner := join(key, name)
		if now := renamed(v.Type(), name); now != "" {
			if _, both := table[now]; both {
				d.Add(inner, "is the former name of %s, which is there too: remove it", now)
				continue
			}
			d.warnings = append(d.warnings, Fault{Line: d.Line(inner), Key: inner, Text: "is called " + now + " now: rename it, a later release will not know the former name"})
			d.Value(join(key, now), table[name], Field(v, now))
			continue
		}
		if v.Kind() == reflect.Map {
			element := reflect.New(v.Type().Elem()).Elem()
			d.Value(inner, table[name], element)
			v.SetMapIndex(reflect.ValueOf(name), element)
		} else if field := Field(v, name); field.IsValid() {
			d.Value(inner, table[name], field)
		} else {
			d.Add(inner, "there is no such key%s", d.suggest(key, name, v.Type()))
		}
	}
}

// suggest is the remedy for a key that a table does not have: the nearest one that it has, the table where one of that name belongs, or all keys.
func (d *Decoder) suggest(table, name string, of reflect.Type) string {
	if _, near := Nearest(name, Keys(of)); !near && d.root != nil {
		if place := d.belongs(table, name); place != "" {
			return " here: write " + place
		}
	}
	return ": " + Suggest(name, Keys(of))
}

// belongs says where in the file a key of a name may be: it is a table, or a key of one; "" if it is neither, or a key of several.
func (d *Decoder) belongs(table, name string) (place string) {
	header := func(f reflect.StructField) string {
		if f.Type.Kind() == reflect.Slice {
			return "[[" + Key(f) + "]]"
		}
		return "[" + Key(f) + "]"
	}
	places := 0
	for _, f := range reflect.VisibleFields(d.root) {
		of := f.Type
		if of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || Key(f) == "" {
			continue
		}
		if table != "" && Key(f) == name {
			return "the table " + header(f)
		}
		if Key(f) != table && slices.Contains(Keys(of), name) {
			place = "it below " + header(f)
			places++
		}
	}
	if places != 1 {
		return ""
	}
	return place
}

// index is an element's number in a key.
var index = regexp.MustCompile(`\[\d+\]`)

func (d *Decoder) elements(key string, data any, v reflect.Value) {
	list, ok := data.([]any)
	switch {
	case !ok && v.Type().Elem().Kind() == reflect.Struct:
		d.Mistyped(key, data, fmt.Sprintf("[[%s]], with two brackets on either side", index.ReplaceAllString(key, "")))
		return
	case !ok:
		d.Mistyped(key, data, "a list in [ ]")
		return
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	case len(list) != v.Len():
		d.Add(key, "has %d elements: write %d", len(list), v.Len())
		return
	}
	for i := range list {
		d.Value(fmt.Sprintf("%s[%d]", key, i), list[i], v.Index(i))
	}
}

// parseWord gives a word the type in which the TOML library would have read it; one that cannot have it
// stays a string, which the decoder rejects.
func parseWord(word string, kind reflect.Kind) any {
	var value any
	var err error
	switch kind {
	case reflect.Slice:
		list := []any{}
		for w := range strings.SplitSeq(word, ",") {
			list = append(list, strings.TrimSpace(w))
		}
		return list
	case reflect.Bool:
		value, err = strconv.ParseBool(word)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		value, err = strconv.ParseInt(word, 0, 64)
	case reflect.Float64:
		value, err = strconv.ParseFloat(word, 64)
	default:
		return word
	}
	if err != nil {
		return word
	}
	return value
}

// kindOf describes the type of a TOML value.
func kindOf(data any) string {
	switch data := data.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case map[string]any:
		return "a table"
	case []any:
		if len(data) > 0 {
			if _, ok := data[0].(map[string]any); ok {
				return "a list of tables"
			}
		}
		return "a list"
	default:
		return "a date"
	}
}

// Field finds the field of a struct that a key sets; the zero Value if there is none.
func Field(v reflect.Value, key string) reflect.Value {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if Key(f) == key && key != "" {
			return v.FieldByIndex(f.Index)
		}
	}
	return reflect.Value{}
}

// renamed is the present name of a key of a struct type that a field's tag "was" has as its former one.
func renamed(t reflect.Type, key string) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	for _, f := range reflect.VisibleFields(t) {
		if former := f.Tag.Get("was"); former != "" && former == key {
			return Key(f)
		}
	}
	return ""
}

// Present gives the keys of a table that a struct type holds their present names.
func Present(t reflect.Type, fields map[string]string) map[string]string {
	present := make(map[string]string, len(fields))
	for key, value := range fields {
		present[cmp.Or(renamed(t, key), key)] = value
	}
	return present
}

// Keys lists the keys of a table that a struct type holds.
func Keys(t reflect.Type) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		if key := Key(f); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Key returns the key of a field, empty if no file sets it.
func Key(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	if key == "-" {
		return ""
	}
	return key
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}
