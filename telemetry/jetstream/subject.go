package jetstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/weirswitch/weir/telemetry/record"
)

// Stream is the stream's name.
const Stream = "WEIR"

// prefix begins all subjects.
const prefix = "weir.records."

// Subjects is what the stream keeps: records of all kinds, from all switches.
const Subjects = prefix + ">"

// Subject is where the record of a header is published,
//
//	weir.records.KIND.PARTITION.EPOCH.SWITCH
//
// The partition of a PINT record is its instance, so that all digests of a flow
// are in one; other kinds have the partition 0.
func Subject(h *record.Header) string {
	b := make([]byte, 0, 80)
	b = append(b, prefix...)
	b = append(b, h.Kind.String()...)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(partition(h)), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, Epoch(h), 10)
	b = append(b, '.')
	return string(strconv.AppendUint(b, uint64(h.Switch), 10))
}

// Filter is the subject of all records of a kind in a partition.
func Filter(k record.Kind, partition int) string {
	return prefix + k.String() + "." + strconv.Itoa(partition) + ".>"
}

// FilterKind is the subject of all records of a kind.
func FilterKind(k record.Kind) string { return prefix + k.String() + ".>" }

func partition(h *record.Header) uint16 {
	if h.Kind == record.PINT {
		return h.Instance
	}
	return 0
}

// Epoch is the number of the slice of the clock that a record is of: its start
// over its span, rounded down; 0 for a record without a span.
func Epoch(h *record.Header) int64 {
	if h.Span <= 0 {
		return 0
	}
	epoch := h.Start / h.Span
	if h.Start%h.Span < 0 {
		epoch--
	}
	return epoch
}

// Secret makes the message ids of a publisher unpredictable. JetStream discards a message with the id of one that it has, also of another sender:
// a switch that knows what another one will send, such as the records of a switch without traffic, could have them discarded.
type Secret [16]byte

// ID is the message id of a record: the switch, and 96 bits of HMAC-SHA256 of the encoded record under the publisher's secret.
func ID(secret Secret, encoded []byte, sw uint32) string {
	b := strconv.AppendUint(make([]byte, 0, 40), uint64(sw), 10)
	b = append(b, '-')
	mac := hmac.New(sha256.New, secret[:])
	mac.Write(encoded)
	return string(hex.AppendEncode(b, mac.Sum(nil)[:12]))
}
