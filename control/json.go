package control

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"github.com/weirswitch/weir/internal/plainjson"
)

// JSON writes a message of the API as the reports of the command line are
// written: the schema's field names, every field, and numbers as numbers.
func JSON(m proto.Message) json.RawMessage {
	b, err := plainjson.Every(m)
	if err != nil { // only NaN and infinity have no form, and no counter is either
		panic("control: " + err.Error())
	}
	return b
}
