package header

import "encoding/binary"

// ARP operations (RFC 826).
const (
	ARPRequest = 1
	ARPReply   = 2
)

// ARP is an ARP packet for IPv4 over Ethernet (RFC 826).
//
//	0          2          4      5      6    8       14      18      24      28
//	| hw type | protocol | hlen | plen | op | sender hw, ip | target hw, ip |
type ARP [ARPLen]byte

// ARPLen is the length of such a packet, in bytes.
const ARPLen = 28

// ARPAt returns the packet at off, or nil if data ends before its end.
func ARPAt(data []byte, off int) *ARP {
	if uint(off)+ARPLen > uint(len(data)) {
		return nil
	}
	return (*ARP)(data[off:])
}

// EthernetIPv4 reports whether the types and lengths are those of IPv4 over
// Ethernet. The other accessors are only meaningful if so.
func (h *ARP) EthernetIPv4() bool {
	return binary.BigEndian.Uint64(h[0:8])>>16 == 0x0001_0800_06_04
}

// Op returns the operation.
func (h *ARP) Op() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// SenderHW returns the sender's Ethernet address.
func (h *ARP) SenderHW() [6]byte { return [6]byte(h[8:14]) }

// SenderIP returns the sender's IPv4 address.
func (h *ARP) SenderIP() [4]byte { return [4]byte(h[14:18]) }

// TargetHW returns the target's Ethernet address.
func (h *ARP) TargetHW() [6]byte { return [6]byte(h[18:24]) }

// TargetIP returns the target's IPv4 address.
func (h *ARP) TargetIP() [4]byte { return [4]byte(h[24:28]) }
