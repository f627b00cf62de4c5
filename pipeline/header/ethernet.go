package header

import "encoding/binary"

// EtherTypes (IEEE 802 numbers, IANA).
const (
	TypeIPv4          = 0x0800
	TypeARP           = 0x0806
	TypeVLAN          = 0x8100 // 802.1Q customer tag
	TypeServiceVLAN   = 0x88a8 // 802.1ad service tag
	TypeLegacyQinQ    = 0x9100 // outer tag of equipment older than 802.1ad
	TypeBridging      = 0x6558 // an Ethernet frame within a tunnel
	TypeIPv6          = 0x86dd
	TypeMPLS          = 0x8847
	TypeMPLSMulticast = 0x8848

	// MinEtherType is the least value of the type field that is a type;
	// smaller ones are the length of an 802.3 frame with an LLC header.
	MinEtherType = 0x0600
)

// Ethernet is an Ethernet header.
//
//	0            6            12       14
//	| destination | source    | type   |
type Ethernet [EthernetLen]byte

// EthernetLen is the length of an Ethernet header, in bytes.
const EthernetLen = 14

// EthernetAt returns the header at off, or nil if data ends before its end.
func EthernetAt(data []byte, off int) *Ethernet {
	if uint(off)+EthernetLen > uint(len(data)) {
		return nil
	}
	return (*Ethernet)(data[off:])
}

// Dst returns the destination address.
func (h *Ethernet) Dst() [6]byte { return [6]byte(h[0:6]) }

// Src returns the source address.
func (h *Ethernet) Src() [6]byte { return [6]byte(h[6:12]) }

// Type returns the EtherType, or the length of an 802.3 frame.
func (h *Ethernet) Type() uint16 { return binary.BigEndian.Uint16(h[12:14]) }

// Multicast reports whether the destination has the group bit: multicast or
// broadcast.
func (h *Ethernet) Multicast() bool { return h[0]&1 != 0 }

// Broadcast reports whether the destination is all ones.
func (h *Ethernet) Broadcast() bool {
	return binary.BigEndian.Uint64(h[0:8])>>16 == 1<<48-1
}

// SetDst sets the destination address.
func (h *Ethernet) SetDst(a [6]byte) { copy(h[0:6], a[:]) }

// SetSrc sets the source address.
func (h *Ethernet) SetSrc(a [6]byte) { copy(h[6:12], a[:]) }

// SetType sets the EtherType.
func (h *Ethernet) SetType(t uint16) { binary.BigEndian.PutUint16(h[12:14], t) }

// VLAN is what follows the EtherType of a tag: the tag's control information
// and the next EtherType.
//
//	bits  3          1      12       16
//	    | priority | drop | VLAN id | next type |
type VLAN [VLANLen]byte

// VLANLen is the length of a VLAN tag, in bytes.
const VLANLen = 4

// VLANAt returns the tag at off, or nil if data ends before its end.
func VLANAt(data []byte, off int) *VLAN {
	if uint(off)+VLANLen > uint(len(data)) {
		return nil
	}
	return (*VLAN)(data[off:])
}

// TCI returns the tag control information.
func (h *VLAN) TCI() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// ID returns the VLAN id, 0 to 4095.
func (h *VLAN) ID() uint16 { return h.TCI() & 0x0fff }

// Priority returns the priority code point, 0 to 7.
func (h *VLAN) Priority() uint8 { return h[0] >> 5 }

// Type returns the EtherType behind the tag.
func (h *VLAN) Type() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// SetTCI sets the tag control information.
func (h *VLAN) SetTCI(tci uint16) { binary.BigEndian.PutUint16(h[0:2], tci) }

// SetType sets the EtherType behind the tag.
func (h *VLAN) SetType(t uint16) { binary.BigEndian.PutUint16(h[2:4], t) }

// IsVLAN reports whether an EtherType announces a VLAN tag.
func IsVLAN(etherType uint16) bool {
	return etherType == TypeVLAN || etherType == TypeServiceVLAN || etherType == TypeLegacyQinQ
}
