package lds

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
)

// maxTags bounds the VLAN tags that are looked behind, as the parser does.
const maxTags = 8

// intervalBit reads the interval bit of a packet's outermost shim. It reports
// false for a packet without a shim of a version that it knows.
func intervalBit(data []byte) (odd, marked bool) {
	end := header.EthernetLen
	for range maxTags {
		if len(data) < end || !header.IsVLAN(binary.BigEndian.Uint16(data[end-2:])) {
			break
		}
		end += header.VLANLen
	}
	if len(data) < end || binary.BigEndian.Uint16(data[end-2:]) != header.TypeShim {
		return false, false
	}
	s := header.ShimAt(data, end)
	if s == nil || s.Version() != header.ShimVersion {
		return false, false
	}
	return s.Interval(), true
}
