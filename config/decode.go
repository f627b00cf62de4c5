package config

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/stages"
)

// decoder moves what the TOML library read into the Config types. The library
// could do it, but it stops at the first wrong type, matches keys whatever
// their case, and does not tell the elements of a list of tables apart.
type decoder struct{ *faults }

// config decodes the whole file.
func (d decoder) config(root map[string]any, c *Config) {
	v := reflect.ValueOf(c).Elem()
	known := keysOf(v.Type())
	for _, key := range slices.Sorted(maps.Keys(root)) {
		data := root[key]
		switch key {
		case "port":
			d.ports(data, c)
		case "stages":
			d.stages(data, c)
		default:
			d.field(key, key, data, v, known)
		}
	}
}

func (d decoder) ports(data any, c *Config) {
	list, ok := listOf(data)
	if !ok {
		d.mistyped("port", data, "[[port]], with two brackets on either side")
		return
	}
	c.Ports = make([]port.Config, len(list))
	for i := range list {
		c.Ports[i] = port.DefaultConfig()
		d.value(fmt.Sprintf("port[%d]", i), list[i], reflect.ValueOf(&c.Ports[i]).Elem())
	}
}

func (d decoder) stages(data any, c *Config) {
	tables, ok := data.(map[string]any)
	if !ok {
		d.mistyped("stages", data, "a table [stages.NAME] for each stage")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		key := "stages." + name
		kind, ok := stages.Kinds[name]
		if !ok {
			d.add(key, "there is no such stage: %s", suggest(name, stages.Names()))
			continue
		}
		config := kind.Default()
		d.value(key, tables[name], reflect.ValueOf(config).Elem())
		c.Stages[name] = config
	}
}

// value decodes data, found at key, into v.
func (d decoder) value(key string, data any, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d.duration(key, data, v)
		return
	}
	if w, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.word(key, data, w)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.table(key, data, v)
	case reflect.Slice, reflect.Array:
		d.list(key, data, v)
	case reflect.String:
		if s, ok := data.(string); ok {
			v.SetString(s)
			return
		}
		d.mistyped(key, data, "a string in quotes")
	case reflect.Bool:
		if b, ok := data.(bool); ok {
			v.SetBool(b)
			return
		}
		d.mistyped(key, data, "true or false")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(key, data, v)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.natural(key, data, v)
	case reflect.Float64:
		d.float(key, data, v)
	default:
		// Our own mistake: a Config type has a field that no file can hold.
		panic(fmt.Sprintf("config: %s has the type %s", key, v.Type()))
	}
}

// word decodes one of a type's words.
func (d decoder) word(key string, data any, w encoding.TextUnmarshaler) {
	text, ok := data.(string)
	if !ok {
		d.mistyped(key, data, "a word in quotes")
		return
	}
	if err := w.UnmarshalText([]byte(text)); err != nil {
		d.addAll(key, err)
	}
}

func (d decoder) mistyped(key string, data any, want string) {
	d.add(key, "is %s: write %s", kindOf(data), want)
}

func (d decoder) table(key string, data any, v reflect.Value) {
	table, ok := data.(map[string]any)
	if !ok {
		d.mistyped(key, data, "a table")
		return
	}
	d.fieldsOf(key+".", table, v)
}

// fields decodes a file whose tables are the fields of v.
func (d decoder) fields(root map[string]any, v reflect.Value) { d.fieldsOf("", root, v) }

func (d decoder) fieldsOf(prefix string, table map[string]any, v reflect.Value) {
	known := keysOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(table)) {
		d.field(prefix+name, name, table[name], v, known)
	}
}

// field decodes one key of a table into the field of v that has its name.
func (d decoder) field(key, name string, data any, v reflect.Value, known []string) {
	for i := range v.NumField() {
		if tagOf(v.Type().Field(i)) == name {
			d.value(key, data, v.Field(i))
			return
		}
	}
	d.add(key, "there is no such key: %s", suggest(name, known))
}

func (d decoder) list(key string, data any, v reflect.Value) {
	list, ok := listOf(data)
	if !ok {
		d.mistyped(key, data, "a list in [ ]")
		return
	}
	if v.Kind() == reflect.Array {
		if len(list) != v.Len() {
			d.add(key, "has %d elements: write %d", len(list), v.Len())
			return
		}
	} else {
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	}
	for i := range list {
		d.value(fmt.Sprintf("%s[%d]", key, i), list[i], v.Index(i))
	}
}

func (d decoder) integer(key string, data any, v reflect.Value) {
	n, ok := data.(int64)
	switch {
	case !ok:
		d.mistyped(key, data, "an integer")
	case v.OverflowInt(n):
		d.add(key, "%d is out of range: write a number of at most %d bits", n, v.Type().Bits())
	default:
		v.SetInt(n)
	}
}

func (d decoder) natural(key string, data any, v reflect.Value) {
	n, ok := data.(int64)
	switch {
	case !ok:
		d.mistyped(key, data, "an integer")
	case n < 0 || v.OverflowUint(uint64(n)):
		most := min(uint64(1)<<v.Type().Bits()-1, math.MaxInt64) // TOML's integers end there
		d.add(key, "%d is out of range: choose 0 to %d", n, most)
	default:
		v.SetUint(uint64(n))
	}
}

func (d decoder) float(key string, data any, v reflect.Value) {
	switch n := data.(type) {
	case float64:
		v.SetFloat(n)
	case int64:
		v.SetFloat(float64(n))
	default:
		d.mistyped(key, data, "a number")
	}
}

func (d decoder) duration(key string, data any, v reflect.Value) {
	text, ok := data.(string)
	if !ok {
		d.mistyped(key, data, `a time with its unit in quotes, as in "300s"`)
		return
	}
	t, err := time.ParseDuration(text)
	if err != nil {
		d.add(key, "%q is not a time: write a number and its unit, as in \"300s\", \"5m\" or \"20ms\"", text)
		return
	}
	v.SetInt(int64(t))
}

// listOf returns a TOML array's elements, of whichever of the library's types.
func listOf(data any) ([]any, bool) {
	switch list := data.(type) {
	case []any:
		return list, true
	case []map[string]any:
		all := make([]any, len(list))
		for i := range list {
			all[i] = list[i]
		}
		return all, true
	}
	return nil, false
}

// kindOf says what a TOML value is.
func kindOf(data any) string {
	switch data.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	default:
		return "a list"
	}
}

// keysOf lists the keys of a table with the given Config type.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if tag := tagOf(t.Field(i)); tag != "" {
			keys = append(keys, tag)
		}
	}
	return keys
}

// tagOf returns the key of a field, empty if no file sets it.
func tagOf(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	if tag == "-" {
		return ""
	}
	return tag
}
