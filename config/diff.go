package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirswitch/weir/internal/tomlfile"
)

// Change is one difference between two configurations.
type Change struct {
	Key string // full, as in stages.acl.rule[3]; elements are counted in the list that has them
	Old string // the value as TOML; empty if the key or the element is new
	New string // the value as TOML; empty if the key or the element is gone
}

// String writes the change as a line of "weir ctl reload".
func (c Change) String() string {
	switch {
	case c.Old == "":
		return fmt.Sprintf("+ %s = %s", c.Key, c.New)
	case c.New == "":
		return fmt.Sprintf("- %s = %s", c.Key, c.Old)
	}
	return fmt.Sprintf("~ %s = %s, was %s", c.Key, c.New, c.Old)
}

// Diff lists what differs between two valid configurations, in the order of the
// file. An element of a list of tables is new, gone, or moved as a whole; a port is
// known again by its name.
func Diff(old, new *Config) []Change {
	var d differ
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	for i := range a.NumField() {
		key := tomlfile.Key(a.Type().Field(i))
		if key == "" { // no part of the file
			continue
		}
		if key == "port" {
			d.ports(old, new)
			continue
		}
		if key != "stages" {
			d.value(key, a.Field(i), b.Field(i))
			continue
		}
		names := slices.Sorted(maps.Keys(old.Stages))
		for _, name := range slices.Sorted(maps.Keys(new.Stages)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		for _, name := range names {
			key, x, y := "stages."+name, old.Stages[name], new.Stages[name]
			switch {
			case x == nil:
				d.add(key, "", literal(reflect.ValueOf(y).Elem()))
			case y == nil:
				d.add(key, literal(reflect.ValueOf(x).Elem()), "")
			default:
				d.value(key, reflect.ValueOf(x).Elem(), reflect.ValueOf(y).Elem())
			}
		}
	}
	return d.changes
}

// ports compares ports by their names: their order says nothing to a switch that runs.
func (d *differ) ports(old, new *Config) {
	for i := range old.Ports {
		if p := &old.Ports[i]; new.PortNamed(p.Name) == nil {
			d.add(fmt.Sprintf("port[%d]", i), literal(reflect.ValueOf(p).Elem()), "")
		}
	}
	for i := range new.Ports {
		p, key := &new.Ports[i], fmt.Sprintf("port[%d]", i)
		if before := old.PortNamed(p.Name); before != nil {
			d.value(key, reflect.ValueOf(before).Elem(), reflect.ValueOf(p).Elem())
		} else {
			d.add(key, "", literal(reflect.ValueOf(p).Elem()))
		}
	}
}

type differ struct{ changes []Change }

func (d *differ) add(key, old, new string) { d.changes = append(d.changes, Change{key, old, new}) }

func (d *differ) value(key string, a, b reflect.Value) {
	switch {
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if name := tomlfile.Key(a.Type().Field(i)); name != "" {
				d.value(key+"."+name, a.Field(i), b.Field(i))
			}
		}
	case a.Kind() == reflect.Slice && !scalar(a.Type().Elem()):
		d.list(key, a, b)
	default:
		if x, y := literal(a), literal(b); x != y {
			d.add(key, x, y)
		}
	}
}

func scalar(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Array && t.Kind() != reflect.Slice
}

// list compares lists of tables, or of pairs: a common prefix and
// suffix are skipped, and between them elements are matched by their whole value, so
// that 10,000 rules take little time.
func (d *differ) list(key string, a, b reflect.Value) {
	x, y := literals(a), literals(b)
	first := 0
	for first < min(len(x), len(y)) && x[first] == y[first] {
		first++
	}
	m, n := len(x), len(y)
	for m > first && n > first && x[m-1] == y[n-1] {
		m, n = m-1, n-1
	}
	if m-first == 1 && n-first == 1 {
		if a.Type().Elem().Kind() == reflect.Struct {
			d.value(fmt.Sprintf("%s[%d]", key, first), a.Index(first), b.Index(first))
			return
		}
		d.add(fmt.Sprintf("%s[%d]", key, first), x[first], y[first])
		return
	}
	left := map[string][]int{} // positions of the old elements between
	for i := first; i < m; i++ {
		left[x[i]] = append(left[x[i]], i)
	}
	last := -1
	var added []Change
	for j := first; j < n; j++ {
		at := left[y[j]]
		if len(at) == 0 {
			added = append(added, Change{Key: fmt.Sprintf("%s[%d]", key, j), New: y[j]})
			continue
		}
		left[y[j]] = at[1:]
		if at[0] < last {
			added = append(added, Change{fmt.Sprintf("%s[%d]", key, j), fmt.Sprintf("%s[%d]", key, at[0]), y[j]})
			continue
		}
		last = at[0]
	}
	for i := first; i < m; i++ {
		if slices.Contains(left[x[i]], i) {
			d.add(fmt.Sprintf("%s[%d]", key, i), x[i], "")
		}
	}
	d.changes = append(d.changes, added...)
}

func literals(list reflect.Value) []string {
	all := make([]string, list.Len())
	for i := range all {
		all[i] = literal(list.Index(i))
	}
	return all
}

// quoted writes a string as TOML does, which has fewer escapes than Go.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// absent reports whether a value is the zero value of its key. A list that is empty is the same as one that is missing.
func absent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !absent(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}

// literal writes a value as TOML on one line. Of tables, keys with the zero
// value are left out.
func literal(v reflect.Value) string {
	switch word := v.Interface().(type) {
	case encoding.TextMarshaler:
		if text, err := word.MarshalText(); err == nil {
			return quoted(string(text))
		}
	case time.Duration:
		return quoted(word.String())
	}
	switch v.Kind() {
	case reflect.String:
		return quoted(v.String())
	case reflect.Slice, reflect.Array:
		return "[" + strings.Join(literals(v), ", ") + "]"
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			if name := tomlfile.Key(v.Type().Field(i)); name != "" && !absent(v.Field(i)) {
				parts = append(parts, name+" = "+literal(v.Field(i)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}
