package packet

// Packet is the metadata of one packet: one cache line. It holds no pointer,
// so a batch costs the garbage collector nothing, and a packet is handed to
// another worker by copying the line. The zero value is an empty packet.
type Packet struct {
	// Addr is the offset of the packet's first byte in the pool's memory.
	Addr uint64
	// ID is the packet id, equal at every switch of the path, if a stage of
	// the graph needs it (NeedID), else zero.
	ID uint64
	// Arrival is nanoseconds of CLOCK_TAI, if a stage needs it (NeedArrival):
	// from the XDP program where that was granted, else the batch's clock.
	Arrival int64

	// Len counts the bytes in the first frame; the headers are always there.
	Len uint32
	// WireLen is the packet's length on the wire, in bytes without FCS. It
	// exceeds Len for packets of several frames and for cut captures.
	WireLen uint32
	// Next links to the frame that continues this packet in a chain of frames
	// (see Pool.Next); zero for a packet in one frame.
	Next uint32
	// FlowHash is the hash of the 5-tuple, equal for all packets of a flow,
	// if a stage of the graph needs it (NeedFlowHash), else zero.
	FlowHash uint32

	// OutPort is where the packet leaves; NoPort until a stage has decided.
	OutPort uint16
	// InPort and InQueue say where it arrived.
	InPort  uint16
	InQueue uint8
	// Reason is why the packet is dropped; zero while it lives.
	Reason Reason
	// Proto is the transport protocol behind all extension headers, with FlagIP.
	Proto uint8
	// TTL is the time to live or hop limit, with FlagIP.
	TTL uint8

	// Flags say what the parser found.
	Flags Flags
	// The offsets of headers from the packet's first byte: L3 behind the link
	// header (always), L4 and Payload with FlagL4. Payload is L4 for protocols
	// without a header that the parser knows, and Len where a capture cut the
	// transport header's options.
	L3      uint16
	L4      uint16
	Payload uint16
	// EtherType is the type behind all VLAN tags and shims, host byte order.
	EtherType uint16
	// VLAN is the outer tag's TCI, host byte order, with FlagVLAN.
	VLAN uint16
	// SrcPort and DstPort are valid with FlagPorts, host byte order.
	SrcPort uint16
	DstPort uint16
}

// NoPort is the value of OutPort before a stage has chosen a port.
const NoPort = ^uint16(0)

// Flags say what the parser found in a packet.
type Flags uint16

// What the parser found. A malformed or unknown header ends the parse: the
// flags of what lies behind stay clear and the packet passes as opaque.
const (
	FlagVLAN          Flags = 1 << iota // one 802.1Q or 802.1ad tag or more
	FlagQinQ                            // two tags or more
	FlagIPv4                            // a valid IPv4 header
	FlagIPv6                            // a valid IPv6 header
	FlagIPOptions                       // IPv4 options or IPv6 extension headers
	FlagFragment                        // a fragment of a datagram, the first included
	FlagLaterFragment                   // a fragment that does not begin with the transport header
	FlagL4                              // L4 is valid: the transport header begins there
	FlagPorts                           // SrcPort and DstPort are valid (TCP, UDP, UDP-Lite, SCTP, DCCP)
	FlagMulticast                       // the destination MAC address has the group bit
	FlagBroadcast                       // the destination MAC address is all ones
	FlagMalformed                       // a header contradicts itself or the packet's length
	FlagMPLS                            // an MPLS label stack follows the link header
	FlagARP                             // an ARP packet for IPv4 over Ethernet
	FlagCopy                            // a copy that a stage made: flooded or mirrored
	FlagShim                            // a telemetry shim, or two, in front of EtherType; L3 is behind

	FlagIP = FlagIPv4 | FlagIPv6
)

// Has reports whether any of the flags in f is set.
func (f Flags) Has(any Flags) bool { return f&any != 0 }

// Needs names what the stages of a graph want computed for each packet, so
// that nothing is computed in vain.
type Needs uint8

// What a stage can need beyond the parser's offsets and flags.
const (
	NeedFlowHash    Needs = 1 << iota // Packet.FlowHash
	NeedID                            // Packet.ID
	NeedArrival                       // Packet.Arrival
	NeedDepth                         // Batch.Depth
	NeedFlowName                      // Batch.Flows, with NeedID, as far as that costs little
	NeedWait                          // Batch.Wait
	NeedIPIDCarrier                   // Packet.ID without the identification of atomic datagrams: digests travel there
)
