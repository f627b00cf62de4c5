package filter

import (
	"encoding/binary"
	"net/netip"
)

// fields are what a packet's headers say.
type fields struct {
	srcMAC, dstMAC   uint64
	vlan             int // the outer tag's; -1 without
	etherType        uint16
	proto            int // the transport protocol; -1: no IP
	src, dst         netip.Addr
	srcPort, dstPort int // -1 without
}

const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeIPv6 = 0x86dd
	typeVLAN = 0x8100
	typeQinQ = 0x88a8
)

// maxTags and maxExtensions bound what is followed.
const maxTags, maxExtensions = 4, 8

// read reads the headers of an Ethernet frame.
func read(frame []byte) (f fields, ok bool) {
	f = fields{vlan: -1, proto: -1, srcPort: -1, dstPort: -1}
	if len(frame) < 14 {
		return f, false
	}
	f.dstMAC = binary.BigEndian.Uint64(frame) >> 16
	f.srcMAC = binary.BigEndian.Uint64(frame[6:]) >> 16
	at := 12
	for range maxTags {
		f.etherType = binary.BigEndian.Uint16(frame[at:])
		if f.etherType != typeVLAN && f.etherType != typeQinQ || len(frame) < at+6 {
			break
		}
		if f.vlan < 0 {
			f.vlan = int(binary.BigEndian.Uint16(frame[at+2:]) & 0x0fff)
		}
		at += 4
	}
	data := frame[at+2:]
	switch f.etherType {
	case typeIPv4:
		f.ipv4(data)
	case typeIPv6:
		f.ipv6(data)
	}
	return f, true
}

func (f *fields) ipv4(data []byte) {
	if len(data) < 20 || data[0]>>4 != 4 {
		return
	}
	f.src, f.dst = netip.AddrFrom4([4]byte(data[12:16])), netip.AddrFrom4([4]byte(data[16:20]))
	f.proto = int(data[9])
	header := int(data[0]&15) * 4
	if later := binary.BigEndian.Uint16(data[6:])&0x1fff != 0; header < 20 || len(data) < header || later {
		return
	}
	f.ports(data[header:])
}

func (f *fields) ipv6(data []byte) {
	if len(data) < 40 || data[0]>>4 != 6 {
		return
	}
	f.src, f.dst = netip.AddrFrom16([16]byte(data[8:24])), netip.AddrFrom16([16]byte(data[24:40]))
	f.proto = int(data[6])
	data = data[40:]
	for range maxExtensions {
		length := 0
		switch f.proto {
		case 0, 43, 60: // hop by hop, routing, destination options
			if len(data) >= 2 {
				length = 8 + 8*int(data[1])
			}
		case 44: // fragment
			if length = 8; len(data) >= 8 && binary.BigEndian.Uint16(data[2:])&0xfff8 != 0 {
				f.proto = int(data[0])
				return // not the first: no ports
			}
		default:
			f.ports(data)
			return
		}
		if length == 0 || len(data) < length {
			return
		}
		f.proto, data = int(data[0]), data[length:]
	}
}

func (f *fields) ports(data []byte) {
	switch f.proto {
	case 6, 17, 33, 132, 136: // TCP, UDP, DCCP, SCTP, UDP-Lite
		if len(data) >= 4 {
			f.srcPort, f.dstPort = int(binary.BigEndian.Uint16(data)), int(binary.BigEndian.Uint16(data[2:]))
		}
	}
}
