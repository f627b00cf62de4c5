package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/stages"
)

// Edit adds an element to a stage's list of tables or to the ports, removes one, or
// changes one.
type Edit struct {
	Stage string // "acl"; empty for the ports
	List  string // the key of the list: "rule", "port"
	// Remove removes the elements that have all of Fields, and are At, if that
	// is set; there must be one.
	Remove bool
	// Match, if there is any, makes it a change: the one element that has all of these
	// gets Fields.
	Match map[string]string
	// At is the element's position, from 1; 0: after the last.
	At int
	// Fields are the element's keys, with values as in the file but without
	// quotes and brackets; elements of lists are separated by commas.
	Fields map[string]string
}

// Edited returns a copy of a configuration with a change made to it, checked
// whole. The error joins a Fault for all that is wrong.
func (c *Config) Edited(e Edit) (*Config, error) {
	f := &tomlfile.Faults{}
	next := c.clone()
	if next.edit(e, f); f.Empty() {
		next.complete(f)
		next.validate(f)
	}
	if !f.Empty() {
		return nil, f.Err("")
	}
	return next, nil
}

// clone copies a configuration as deep as an edit changes it: the lists of
// stages' tables.
func (c *Config) clone() *Config {
	next := *c
	next.Ports = slices.Clone(c.Ports)
	next.Stages = make(map[string]any, len(c.Stages))
	for name, config := range c.Stages {
		v := reflect.New(reflect.TypeOf(config).Elem())
		v.Elem().Set(reflect.ValueOf(config).Elem())
		next.Stages[name] = v.Interface()
	}
	return &next
}

func (c *Config) edit(e Edit, f *tomlfile.Faults) {
	key, list, ok := c.listOf(e, f)
	if !ok {
		return
	}
	e.Fields, e.Match = tomlfile.Present(list.Type().Elem(), e.Fields), tomlfile.Present(list.Type().Elem(), e.Match)
	element := reflect.New(list.Type().Elem()).Elem()
	if e.Stage == "" && !e.Remove && len(e.Match) == 0 {
		element.Set(reflect.ValueOf(port.DefaultConfig()))
	}
	like := reflect.New(list.Type().Elem()).Elem()
	words := tomlfile.Decoder{Faults: f, Words: true}
	words.Value(key, anyValues(e.Match), like)
	words.Value(key, anyValues(e.Fields), element)
	switch {
	case !f.Empty():
	case e.At < 0 || e.At > list.Len()+1 || (e.Remove || len(e.Match) != 0) && e.At > list.Len():
		last := list.Len() // an element may be added after the last one
		if !e.Remove && len(e.Match) == 0 {
			last++
		}
		if last == 0 {
			f.Add(key, "there is no element %d: the list is empty", e.At)
		} else {
			f.Add(key, "there is no element %d: choose 1 to %d, or give no position", e.At, last)
		}
	case len(e.Match) != 0:
		if i, ok := find(key, list, e.At, e.Match, like, f); ok {
			longer := reflect.MakeSlice(list.Type(), 0, list.Len())
			list.Set(reflect.AppendSlice(longer, list)) // a copy: the present configuration stays
			words.Value(fmt.Sprintf("%s[%d]", key, i), anyValues(e.Fields), list.Index(i))
		}
	case e.Remove:
		if i, ok := find(key, list, e.At, e.Fields, element, f); ok {
			shorter := reflect.MakeSlice(list.Type(), 0, list.Len())
			shorter = reflect.AppendSlice(shorter, list.Slice(0, i))
			list.Set(reflect.AppendSlice(shorter, list.Slice(i+1, list.Len())))
		}
	default:
		at := e.At - 1
		if e.At == 0 {
			at = list.Len()
		}
		longer := reflect.MakeSlice(list.Type(), 0, list.Len()+1)
		longer = reflect.AppendSlice(longer, list.Slice(0, at))
		longer = reflect.Append(longer, element)
		list.Set(reflect.AppendSlice(longer, list.Slice(at, list.Len())))
	}
}

// listOf finds the list that an edit is of, and its key.
func (c *Config) listOf(e Edit, f *tomlfile.Faults) (key string, list reflect.Value, ok bool) {
	if e.Stage == "" && e.List == "port" {
		return "port", reflect.ValueOf(c).Elem().FieldByName("Ports"), true
	}
	key = "stages." + e.Stage
	config := c.Stages[e.Stage]
	if config == nil {
		f.Add(key, "the graph has no such stage: there are %s", strings.Join(c.Switch.Graph, ", "))
		return key, list, false
	}
	list = tomlfile.Field(reflect.ValueOf(config).Elem(), e.List)
	if ok = list.IsValid() && isTables(list.Type()); !ok {
		f.Add(key+"."+e.List, "there is no such list of tables")
	}
	return key + "." + e.List, list, ok
}

func isTables(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// find finds the one element that an edit means: it has the fields of like, and is
// at a position, if that is set.
func find(key string, list reflect.Value, at int, fields map[string]string, like reflect.Value, f *tomlfile.Faults) (int, bool) {
	if len(fields) == 0 && at == 0 {
		f.Add(key, "nothing says which element is meant: give keys that it has, or its position")
		return 0, false
	}
	var found []int
	for i := range list.Len() {
		if (at == 0 || at == i+1) && has(list.Index(i), like, fields) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		f.Add(key, "%s", noneLike(key, list, fields))
		return 0, false
	}
	if len(found) != 1 {
		f.Add(key, "%d elements are like that: give keys that one element has, or its position", len(found))
		return 0, false
	}
	return found[0], true
}

// noneLike says that no element is like that, and by which names there are some.
func noneLike(key string, list reflect.Value, fields map[string]string) string {
	const none = "no element is like that: give keys that one element has, or its position"
	name, asked := fields["name"]
	if !asked || len(fields) > 1 {
		return none
	}
	var names []string
	for i := range list.Len() {
		for field, value := range list.Index(i).Fields() {
			if tomlfile.Key(field) == "name" && value.Kind() == reflect.String && value.String() != "" {
				names = append(names, value.String())
			}
		}
	}
	switch {
	case len(names) == 0:
		return none
	case key == "port":
		return fmt.Sprintf("the switch has no port %q: choose from %s", name, strings.Join(names, ", "))
	}
	return fmt.Sprintf("no element has the name %q: choose from %s", name, strings.Join(names, ", "))
}

// has reports whether an element has the fields of another one.
func has(element, like reflect.Value, fields map[string]string) bool {
	for i := range element.NumField() {
		if _, asked := fields[tomlfile.Key(element.Type().Field(i))]; asked && literal(element.Field(i)) != literal(like.Field(i)) {
			return false
		}
	}
	return true
}

// anyValues returns fields as a table of a file.
func anyValues(fields map[string]string) map[string]any {
	table := map[string]any{}
	for name, word := range fields {
		table[name] = word
	}
	return table
}

// Lists names the lists of tables that an Edit can change, as "STAGE.LIST" and
// ".port", with the keys of their elements.
func Lists() map[string][]string {
	lists := map[string][]string{".port": tomlfile.Keys(reflect.TypeFor[port.Config]())}
	for name, kind := range stages.Kinds {
		t := reflect.TypeOf(kind.Default()).Elem()
		for i := range t.NumField() {
			f := t.Field(i).Type
			if tag := tomlfile.Key(t.Field(i)); tag != "" && kind.Prepare != nil && isTables(f) {
				lists[name+"."+tag] = tomlfile.Keys(f.Elem())
			}
		}
	}
	return lists
}
