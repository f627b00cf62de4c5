package set

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// version of requests and answers.
const version = 2

// The bounds of messages, in bytes.
const (
	maxRequest = 4 << 10
	maxHead    = 4 << 20
	pageBytes  = 1 << 20 // of records in an answer, but for one record
)

// request asks for a partition's digests.
type request struct {
	Version int             `json:"v"`
	Window  store.Window    `json:"window"`
	After   store.Mark      `json:"after"`
	Batches bool            `json:"batches"` // else how they stand alone
	Sinks   bool            `json:"sinks"`
	Flows   *query.Question `json:"flows,omitempty"` // fields of flows alone
	Only    bool            `json:"only,omitempty"`
}

// head begins an answer, with its length before it and the records behind it.
type head struct {
	Version   int         `json:"v"`
	Collector string      `json:"collector"`
	Part      *store.Part `json:"part,omitempty"` // of the first page
	After     store.Mark  `json:"after"`
	More      bool        `json:"more"`
	// KeptFrom is from when on the collector has all records in memory, in ns of CLOCK_TAI.
	KeptFrom int64 `json:"kept_from_ns,omitempty"`
	// Refused is why there are no records, a word.
	Refused string `json:"refused,omitempty"`
}

// The words of refusals.
const (
	refusedInvalid = "invalid"
	refusedMoved   = "moved"
	refusedLarge   = "too large"
)

var errRequest = errors.New("not a request for digests")

// parseRequest reads a request, strictly.
func parseRequest(data []byte) (*request, error) {
	if len(data) > maxRequest {
		return nil, fmt.Errorf("%w: %d bytes", errRequest, len(data))
	}
	r := new(request)
	if err := strict(data, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	if r.Version != version || r.Window.From > r.Window.To {
		return nil, fmt.Errorf("%w: version %d, window %v", errRequest, r.Version, r.Window)
	}
	if f := r.Flows; f != nil {
		of := query.Question{Flow: f.Flow, Prefix: f.Prefix, Src: f.Src, Dst: f.Dst, Proto: f.Proto, Port: f.Port}
		for _, text := range []string{of.Flow, of.Prefix, of.Src, of.Dst, of.Proto, of.Port} {
			if len(text) > query.MaxText {
				return nil, fmt.Errorf("%w: a text of %d bytes", errRequest, len(text))
			}
		}
		r.Flows = &of
	}
	return r, nil
}

func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more behind it")
	}
	return nil
}

// appendHead appends a head and its length.
func appendHead(dst []byte, h *head) ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return dst, err
	}
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...), nil
}

// parseAnswer reads an answer about a partition. records alias data.
func parseAnswer(data []byte, partition int) (h *head, records []byte, err error) {
	length, n := binary.Uvarint(data)
	if n <= 0 || length > maxHead || length > uint64(len(data)-n) {
		return nil, nil, errors.New("the answer is cut off")
	}
	h = new(head)
	if err := strict(data[n:n+int(length)], h); err != nil {
		return nil, nil, err
	}
	if h.Version != version || len(h.Collector) > 255 {
		return nil, nil, fmt.Errorf("the answer is of version %d", h.Version)
	}
	if h.Part != nil {
		if err := h.Part.Validate(); err != nil {
			return nil, nil, err
		}
		if h.Part.Partition != partition {
			return nil, nil, fmt.Errorf("the answer is of partition %d", h.Part.Partition)
		}
	}
	return h, data[n+int(length):], nil
}
