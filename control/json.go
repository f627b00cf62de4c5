package control

import (
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSON writes a message of the API as the reports of the command line are
// written: the schema's field names, every field, and numbers as numbers.
// (protojson writes 64-bit integers as strings, which no tool sums up.)
func JSON(m proto.Message) json.RawMessage { return appendMessage(nil, m.ProtoReflect()) }

func appendMessage(b []byte, m protoreflect.Message) []byte {
	fields := m.Descriptor().Fields()
	b = append(b, '{')
	for i := range fields.Len() {
		f := fields.Get(i)
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, string(f.Name()))
		b = append(b, ':')
		switch {
		case f.IsMap():
			b = appendMap(b, f, m.Get(f).Map())
		case f.IsList():
			b = appendList(b, f, m.Get(f).List())
		default:
			b = appendValue(b, f, m.Get(f))
		}
	}
	return append(b, '}')
}

func appendList(b []byte, f protoreflect.FieldDescriptor, list protoreflect.List) []byte {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, f, list.Get(i))
	}
	return append(b, ']')
}

// appendMap leaves the order of the keys to package json, which sorts them.
func appendMap(b []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	values := map[string]json.RawMessage{}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values[k.String()] = appendValue(nil, f.MapValue(), v)
		return true
	})
	return append(b, mustJSON(values)...)
}

func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(b, v.Message())
	case protoreflect.StringKind, protoreflect.BoolKind, protoreflect.DoubleKind,
		protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return append(b, mustJSON(v.Interface())...)
	}
	panic(fmt.Sprintf("control: the schema's %s has a kind that JSON does not write", f.FullName()))
}

// mustJSON writes what has a JSON form; only NaN and infinity have none, and
// no counter is either.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("control: " + err.Error())
	}
	return b
}
