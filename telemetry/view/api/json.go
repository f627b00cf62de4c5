package api

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weirswitch/weir/internal/plainjson"
)

// JSON writes a message as package query writes its answers: the schema's field names in
// the schema's order, numbers as numbers, empty lists, and no field that has no value.
// NaN and infinity have no such form, and are an error.
func JSON(m proto.Message) (json.RawMessage, error) { return plainjson.Present(m) }

// codec is the JSON of the API over HTTP: it is written by JSON, so that a client reads the
// same fields as from `weir query --json`, and read strictly. connect takes a codec for each
// spelling of the content type.
type codec struct{ name string }

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// IsBinary tells connect that the JSON may be text.
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
