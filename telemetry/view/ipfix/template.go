package ipfix

import (
	"encoding/binary"
	"math"

	"github.com/weirswitch/weir/telemetry/query"
)

// Flow is a flow in a window.
type Flow struct {
	Key query.Key
	// Packets and Bytes are estimates with their bounds; nil: not known. At least one is.
	Packets, Bytes *query.Bounded
}

// Window is the time in which flows were measured, in ns of UTC since 1970, and the confidence of their bounds.
type Window struct {
	Start, End int64
	Confidence float64
}

// field is an information element of a template.
type field struct{ element, length uint16 }

// Information elements, by their numbers at IANA.
const (
	octetDeltaCount        = 1
	packetDeltaCount       = 2
	protocolIdentifier     = 4
	sourceTransportPort    = 7
	sourceIPv4Address      = 8
	destinationPort        = 11
	destinationIPv4Address = 12
	sourceIPv6Address      = 27
	destinationIPv6Address = 28
	ipVersion              = 60
	flowStartMilliseconds  = 152
	flowEndMilliseconds    = 153
	upperCILimit           = 336
	lowerCILimit           = 337
	confidenceLevel        = 338
)

// template is the number of a template less firstTemplate: a sum of what its records have.
type template uint16

const (
	hasIPv6 template = 1 << iota
	hasTuple
	hasPackets
	hasBytes
	templates // how many numbers there are

	firstTemplate = 256
)

func (t template) id() uint16 { return firstTemplate + uint16(t) }

// used reports whether records can be of the template: they count something.
func (t template) used() bool { return t&(hasPackets|hasBytes) != 0 }

// templateOf returns which template a flow's record is of; false: none, since it is not IP or of
// no known size.
func templateOf(f *Flow) (t template, ok bool) {
	if f.Key.Version == 6 {
		t |= hasIPv6
	}
	if f.Key.Proto != 0 || f.Key.SrcPort != 0 || f.Key.DstPort != 0 {
		t |= hasTuple
	}
	if f.Packets != nil {
		t |= hasPackets
	}
	if f.Bytes != nil {
		t |= hasBytes
	}
	return t, t.used() && (f.Key.Version == 4 || f.Key.Version == 6)
}

// fields of a template's records, in their order; append writes records in the same one.
func (t template) fields() []field {
	list := []field{{sourceIPv4Address, 4}, {destinationIPv4Address, 4}}
	if t&hasIPv6 != 0 {
		list = []field{{sourceIPv6Address, 16}, {destinationIPv6Address, 16}}
	}
	if t&hasTuple != 0 {
		list = append(list, field{sourceTransportPort, 2}, field{destinationPort, 2}, field{protocolIdentifier, 1})
	}
	list = append(list, field{ipVersion, 1}, field{flowStartMilliseconds, 8}, field{flowEndMilliseconds, 8})
	if t&hasPackets != 0 {
		list = append(list, field{packetDeltaCount, 8}, field{upperCILimit, 8}, field{lowerCILimit, 8})
	}
	if t&hasBytes != 0 {
		list = append(list, field{octetDeltaCount, 8}, field{upperCILimit, 8}, field{lowerCILimit, 8})
	}
	return append(list, field{confidenceLevel, 8})
}

// appendTemplate appends the template record (RFC 7011, 3.4.1).
func (t template) appendTemplate(b []byte) []byte {
	list := t.fields()
	b = binary.BigEndian.AppendUint16(b, t.id())
	b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
	for _, f := range list {
		b = binary.BigEndian.AppendUint16(b, f.element)
		b = binary.BigEndian.AppendUint16(b, f.length)
	}
	return b
}

// append appends a flow's data record.
func (t template) append(b []byte, f *Flow, w *Window) []byte {
	address := 4
	if t&hasIPv6 != 0 {
		address = 16
	}
	b = append(b, f.Key.Src[:address]...)
	b = append(b, f.Key.Dst[:address]...)
	if t&hasTuple != 0 {
		b = binary.BigEndian.AppendUint16(b, f.Key.SrcPort)
		b = binary.BigEndian.AppendUint16(b, f.Key.DstPort)
		b = append(b, f.Key.Proto)
	}
	b = append(b, f.Key.Version)
	// The window's milliseconds hold all of it.
	const ms = 1_000_000
	b = binary.BigEndian.AppendUint64(b, uint64(max(w.Start, 0)/ms))
	b = binary.BigEndian.AppendUint64(b, uint64((max(w.End, 0)+ms-1)/ms))
	if t&hasPackets != 0 {
		b = appendCount(b, f.Packets)
	}
	if t&hasBytes != 0 {
		b = appendCount(b, f.Bytes)
	}
	return appendFloat(b, w.Confidence)
}

func appendCount(b []byte, x *query.Bounded) []byte {
	count := uint64(0)
	if v := math.Round(x.Value); v > 0 { // NaN is not
		count = math.MaxUint64
		if v < 1<<64 {
			count = uint64(v)
		}
	}
	b = binary.BigEndian.AppendUint64(b, count)
	return appendFloat(appendFloat(b, x.High), x.Low)
}

func appendFloat(b []byte, x float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(x))
}
