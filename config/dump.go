package config

import (
	"fmt"
	"io"
	"reflect"

	"github.com/BurntSushi/toml"
)

// Dump writes the complete configuration, defaults included, as TOML that
// loads again to the same.
func (c *Config) Dump(w io.Writer) error {
	full := *c
	full.Stages = map[string]any{}
	for name, config := range c.Stages {
		full.Stages[name] = showLists(reflect.ValueOf(config)).Interface()
	}
	return dump(w, full)
}

func dump(w io.Writer, config any) error {
	e := toml.NewEncoder(w)
	e.Indent = ""
	if err := e.Encode(showLists(reflect.ValueOf(config)).Interface()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// showLists returns a copy of a configuration in which empty lists are empty,
// not nil: the encoder leaves nil out, and a complete configuration shows
// every key. Lists of tables stay nil: after "port = []" a file cannot
// have a [[port]].
func showLists(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	if v.Kind() != reflect.Struct {
		return copied
	}
	for i := range copied.NumField() {
		field := copied.Field(i)
		switch {
		case field.Kind() == reflect.Struct:
			field.Set(showLists(field))
		case field.Kind() != reflect.Slice:
		case field.Type().Elem().Kind() == reflect.Struct:
			if field.Len() == 0 {
				field.SetZero()
				continue
			}
			elements := reflect.MakeSlice(field.Type(), field.Len(), field.Len())
			for j := range field.Len() {
				elements.Index(j).Set(showLists(field.Index(j)))
			}
			field.Set(elements)
		case field.IsNil():
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		}
	}
	return copied
}
