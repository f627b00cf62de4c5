package api

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSON writes a message as package query writes its answers: the schema's field names in
// the schema's order, numbers as numbers, empty lists, and no field that has no value.
// (protojson writes 64-bit integers as strings and leaves zeros out.) NaN and infinity
// have no such form, and are an error.
func JSON(m proto.Message) (json.RawMessage, error) {
	return appendMessage(nil, m.ProtoReflect())
}

func appendMessage(b []byte, m protoreflect.Message) (_ []byte, err error) {
	fields := m.Descriptor().Fields()
	b = append(b, '{')
	first := true
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendQuote(b, string(f.Name()))
		b = append(b, ':')
		if f.IsList() {
			b, err = appendList(b, f, m.Get(f).List())
		} else {
			b, err = appendValue(b, f, m.Get(f))
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendList(b []byte, f protoreflect.FieldDescriptor, list protoreflect.List) (_ []byte, err error) {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, f, list.Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(b, v.Message())
	case protoreflect.DoubleKind:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s: %v is no number: write a finite one", f.Name(), x)
		}
	case protoreflect.BytesKind, protoreflect.EnumKind, protoreflect.GroupKind, protoreflect.FloatKind:
		panic(fmt.Sprintf("api: the schema's %s has a kind that JSON does not write", f.FullName()))
	}
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}

// codec is the JSON of the API over HTTP: it is written by JSON, so that a client reads the
// same fields as from `weir query --json`, and read strictly. connect takes a codec for each
// spelling of the content type.
type codec struct{ name string }

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// IsBinary tells connect that the JSON may stand in texts.
func (codec) IsBinary() bool { return false }

// Marshal implements connect.Codec.
func (codec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message of the API", message)
	}
	if m.ProtoReflect().Descriptor().ParentFile() != File_query_proto {
		return protojson.Marshal(m) // connect's own, the end of a stream
	}
	return JSON(m)
}

// Unmarshal implements connect.Codec.
func (codec) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message of the API", message)
	}
	if len(text) == 0 {
		return fmt.Errorf("there is nothing: send an object, {} at least")
	}
	return decode(text, m)
}
