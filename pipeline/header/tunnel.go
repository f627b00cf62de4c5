package header

import "encoding/binary"

// The UDP ports of tunnels (IANA).
const (
	PortVXLAN  = 4789
	PortGeneve = 6081
)

// TunnelLen is the length of a VXLAN header (RFC 7348, 5), and of a Geneve header without options (RFC 8926, 3.4), in bytes.
//
//	VXLAN   0        1          4     7      8
//	       | flags  | reserved | VNI | rsvd |
//	Geneve  0                    1      2              4     7      8
//	       | version, opt length | O, C | protocol    | VNI | rsvd | options
const TunnelLen = 8

// Tunnel is a VXLAN or Geneve header.
type Tunnel [TunnelLen]byte

// TunnelAt returns the header at off, or nil if data ends before its end.
func TunnelAt(data []byte, off int) *Tunnel {
	if uint(off)+TunnelLen > uint(len(data)) {
		return nil
	}
	return (*Tunnel)(data[off:])
}

// VNI returns the network identifier, which both have in the same place.
func (h *Tunnel) VNI() uint32 { return binary.BigEndian.Uint32(h[4:8]) >> 8 }

// HasVNI reports VXLAN's flag I, without which the VNI means nothing.
func (h *Tunnel) HasVNI() bool { return h[0]&0x08 != 0 }

// GeneveVersion returns the version, 0 in a header that can be read.
func (h *Tunnel) GeneveVersion() uint8 { return h[0] >> 6 }

// GeneveOptionsLen returns the length of the options, 0 to 252 bytes.
func (h *Tunnel) GeneveOptionsLen() int { return int(h[0]&0x3f) * 4 }

// GeneveControl reports the flag O: a packet for the endpoint itself, without a frame for others.
func (h *Tunnel) GeneveControl() bool { return h[1]&0x80 != 0 }

// GeneveCritical reports the flag C: there are options that the endpoint must know or drop the packet.
func (h *Tunnel) GeneveCritical() bool { return h[1]&0x40 != 0 }

// GeneveProtocol returns the EtherType of the payload: TypeBridging for Ethernet.
func (h *Tunnel) GeneveProtocol() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// InitVXLAN writes a VXLAN header.
func (h *Tunnel) InitVXLAN(vni uint32) {
	*h = Tunnel{0: 0x08}
	binary.BigEndian.PutUint32(h[4:8], vni<<8)
}

// InitGeneve writes a Geneve header without options around Ethernet.
func (h *Tunnel) InitGeneve(vni uint32) {
	*h = Tunnel{2: TypeBridging >> 8, 3: TypeBridging & 0xff}
	binary.BigEndian.PutUint32(h[4:8], vni<<8)
}
