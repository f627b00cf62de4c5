package vectors

import "github.com/weirswitch/weir/pipeline/packet"

// Packet is one that arrives, with what the clocks show meanwhile.
type Packet struct {
	Port    uint16
	Arrival int64 // ns of CLOCK_TAI
	Now     int64 // the batch's clock: when it departs
	Depth   uint16
	Data    []byte
}

// Output is a packet that leaves.
type Output struct {
	Port uint16
	Data []byte
}

// Message is a packet at the port to the control plane: p4/include/headers.p4's cpu_t.
type Message struct {
	Kind    uint8
	Hop     uint8
	Plan    uint16
	InPort  uint16
	OutPort uint16
	Digest  uint64
	ID      uint64
	Arrival int64
	Data    []byte // the packet behind it
}

// The kinds of messages; one can be of two.
const (
	MessageSample = 1 // oblivious: the sampler admits the packet
	MessageRecord = 2 // pint: its digest at the sink
	MessagePunt   = 4 // forward: for the switch itself, or a neighbour is not known
)

// Result is what came of one packet: by port in the order in which they left, ports
// ascending; messages by kind.
type Result struct {
	Out      []Output
	Messages []Message
}

// State is what a switch holds behind the last packet: cells by the name of P4's
// register, and counters likewise.
type State map[string][]uint64

// noPort is what messages say where no port was chosen.
const noPort = packet.NoPort
