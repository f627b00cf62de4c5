package plainjson

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Every writes every field, those that have no value as empty. NaN and infinity have no form
// in JSON, and are an error; a kind of field that no report has is a fault of the schema, and
// panics. A message must not hold its own type.
func Every(m proto.Message) (json.RawMessage, error) {
	return writer{every: true}.message(nil, m.ProtoReflect())
}

// Present is Every without the fields with explicit presence that are not set.
func Present(m proto.Message) (json.RawMessage, error) {
	return writer{}.message(nil, m.ProtoReflect())
}

// writer appends to a text, and says by every which fields.
type writer struct{ every bool }

func (w writer) message(b []byte, m protoreflect.Message) (_ []byte, err error) {
	fields := m.Descriptor().Fields()
	b = append(b, '{')
	first := true
	for i := range fields.Len() {
		f := fields.Get(i)
		if !w.every && f.HasPresence() && !m.Has(f) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendQuote(b, string(f.Name()))
		b = append(b, ':')
		switch {
		case f.IsMap():
			b, err = w.mapOf(b, f, m.Get(f).Map())
		case f.IsList():
			b, err = w.list(b, f, m.Get(f).List())
		default:
			b, err = w.value(b, f, m.Get(f))
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (w writer) list(b []byte, f protoreflect.FieldDescriptor, list protoreflect.List) (_ []byte, err error) {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = w.value(b, f, list.Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// mapOf leaves the order of the keys to package json, which sorts them.
func (w writer) mapOf(b []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) (_ []byte, err error) {
	values := map[string]json.RawMessage{}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values[k.String()], err = w.value(nil, f.MapValue(), v)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(values)
	return append(b, text...), err
}

func (w writer) value(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return w.message(b, v.Message())
	case protoreflect.DoubleKind:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s: %v is no number: write a finite one", f.Name(), x)
		}
	case protoreflect.BytesKind, protoreflect.EnumKind, protoreflect.GroupKind, protoreflect.FloatKind:
		panic(fmt.Sprintf("plainjson: the schema's %s has a kind that JSON does not write", f.FullName()))
	}
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}
