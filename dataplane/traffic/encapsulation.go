package traffic

import (
	"errors"
	"fmt"
	"net/netip"
)

// VXLAN is the tunnel of RFC 7348 around each frame, over IPv4. The outer frame has the flow's Ethernet addresses too, and its source
// port is by the flow, as the RFC's section 5 recommends.
type VXLAN struct {
	// VNI is the network's identifier, 0 to 2^24-1.
	VNI uint32
	// Source and Destination are the tunnel's ends, of IPv4.
	Source, Destination netip.Addr
}

const (
	etherVLAN  = 0x8100
	etherQinQ  = 0x88a8
	etherMPLS  = 0x8847
	portVXLAN  = 4789
	vxlanLen   = 8
	tcpLen     = 20
	protoTCP   = 6
	maxVLANs   = 2
	maxLabels  = 4
	vxlanExtra = ethLen + ip4Len + udpLen + vxlanLen
	// firstTunnelPort and tunnelPorts are the dynamic ports, among which a tunnel's source port is (RFC 7348, section 5).
	firstTunnelPort, tunnelPorts = 49152, 16384
)

// encapsulation is what a frame has beside Ethernet, IP and UDP or TCP. A frame is first written plain, offset bytes later than the
// beginning of the buffer; head then goes over it, from byte 12 on:
//
//	         0        12          12+4v                  offset
//	VLAN     | MACs   | v tags    | type, IP ...         the plain frame's type follows
//	MPLS     | MACs   | v tags    | type, labels | IP    head ends where the plain IP header begins
//	VXLAN    | MACs   | v tags    | type, IP, UDP, VXLAN | the plain frame with its own MACs
type encapsulation struct {
	offset  int
	head    []byte
	outerIP int // offset in the frame of VXLAN's IP header; 0: there is none
	outer   uint64
}

func newEncapsulation(w Workload) encapsulation {
	e := encapsulation{offset: w.extraLen()}
	for i, id := range w.VLANs {
		tpid := uint16(etherVLAN)
		if i+1 < len(w.VLANs) {
			tpid = etherQinQ
		}
		e.head = be.AppendUint16(be.AppendUint16(e.head, tpid), id)
	}
	if len(w.MPLS) > 0 {
		e.head = be.AppendUint16(e.head, etherMPLS)
		for i, label := range w.MPLS {
			entry := label<<12 | 64 // time to live
			if i+1 == len(w.MPLS) {
				entry |= 1 << 8 // bottom of the stack
			}
			e.head = be.AppendUint32(e.head, entry)
		}
	}
	if v := w.VXLAN; v != nil {
		e.outerIP = ethLen + 4*len(w.VLANs)
		from, to := v.Source.As4(), v.Destination.As4()
		if w.Reversed {
			from, to = to, from
		}
		e.head = be.AppendUint16(e.head, etherIPv4)
		e.head = append(e.head, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protoUDP, 0, 0)
		e.head = append(append(e.head, from[:]...), to[:]...)
		e.head = be.AppendUint16(be.AppendUint16(e.head, 0), portVXLAN)
		e.head = append(e.head, 0, 0, 0, 0) // no checksum, as section 4.1 recommends
		e.head = be.AppendUint32(be.AppendUint32(e.head, 1<<27), v.VNI<<8)
		e.outer = 0x4500 + 0x4000 + 64<<8 + protoUDP + words(uint64(be.Uint32(from[:]))) + words(uint64(be.Uint32(to[:])))
	}
	return e
}

// put encapsulates the plain frame of a flow, which begins at offset.
func (e *encapsulation) put(frame []byte, flow uint32) {
	copy(frame[12:], e.head)
	if e.outerIP == 0 {
		return
	}
	length := len(frame) - e.outerIP
	be.PutUint16(frame[e.outerIP+2:], uint16(length))
	be.PutUint16(frame[e.outerIP+10:], fold(e.outer+uint64(length)))
	udp := frame[e.outerIP+ip4Len:]
	be.PutUint16(udp, firstTunnelPort+uint16(flow*golden32>>16)%tunnelPorts)
	be.PutUint16(udp[4:], uint16(length-ip4Len))
}

// extraLen is what the encapsulation adds to a frame, in bytes.
func (w Workload) extraLen() int {
	n := 4*len(w.VLANs) + 4*len(w.MPLS)
	if w.VXLAN != nil {
		n += vxlanExtra
	}
	return n
}

// plain reports whether packets are of UDP over IP over Ethernet, with nothing else.
func (w Workload) plain() bool { return !w.TCP && w.extraLen() == 0 }

func (w Workload) validateEncapsulation() error {
	var faults []error
	if len(w.VLANs) > maxVLANs {
		faults = append(faults, fmt.Errorf("VLANs: %d tags, where at most %d are possible", len(w.VLANs), maxVLANs))
	}
	for _, id := range w.VLANs {
		if id < 1 || id > 4094 {
			faults = append(faults, fmt.Errorf("VLANs: %d is not between 1 and 4094", id))
		}
	}
	if len(w.MPLS) > maxLabels {
		faults = append(faults, fmt.Errorf("MPLS: %d labels, where at most %d are possible", len(w.MPLS), maxLabels))
	}
	for _, label := range w.MPLS {
		if label >= 1<<20 {
			faults = append(faults, fmt.Errorf("MPLS: label %d is not below 2^20", label))
		}
	}
	if v := w.VXLAN; v != nil {
		if len(w.MPLS) > 0 {
			faults = append(faults, errors.New("VXLAN and MPLS: choose one of them"))
		}
		if v.VNI >= 1<<24 {
			faults = append(faults, fmt.Errorf("VXLAN: network %d is not below 2^24", v.VNI))
		}
		if !v.Source.Is4() || !v.Destination.Is4() {
			faults = append(faults, fmt.Errorf("VXLAN: the tunnel's ends, %v and %v, are to be addresses of IPv4", v.Source, v.Destination))
		}
	}
	return errors.Join(faults...)
}
