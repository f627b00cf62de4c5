package fabric

import (
	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/intmd"
)

// Kind says what a packet is.
type Kind uint8

// The kinds of packets. Only data carries telemetry; an acknowledgement brings what its
// packet collected back.
const (
	Data Kind = iota
	Ack
	pause // of PFC
	resume
)

// Packet is a packet in flight. Seq, Acked, Flow and Sent are the hosts' alone.
type Packet struct {
	ID     uint64 // the same at every hop
	Digest uint64 // PINT's
	Seq    int64
	Acked  int64
	Sent   event.Time
	Route  uint32 // Network.Route's
	Flow   uint32 // the hosts'
	Bytes  uint32 // on the wire, with all headers
	Kind   Kind
	// Hops is how many switches wrote into the packet's telemetry.
	Hops uint8

	grown uint32 // bytes of INT-MD, of Bytes

	hop  uint8      // links of the route behind it
	in   uint32     // the link by which it came to where it is
	next uint32     // in the queue or on the link
	at   event.Time // when it arrives, or did
}

// none ends a list of packets.
const none = ^uint32(0)

// MaxRoute is how many links a route has at most.
const MaxRoute = 8

// HopRecord is what INT adds at a switch: table 1 of the paper, with what HPCC needs.
type HopRecord struct {
	At    event.Time // when the packet left
	Sent  uint64     // bytes that the link has sent, the packet included
	Queue uint32     // bytes that waited behind the packet
	Link  uint32
}

// pool is the memory of all packets: they are numbers, and the free ones form a list.
type pool struct {
	packets []Packet
	hops    [][MaxRoute]HopRecord // of INT, by packet
	stacks  []byte                // of INT-MD, stackLen for each packet
	free    uint32
	inUse   int
	int     bool

	stackLen int // bytes of a packet's stack with all hops; 0: none
}

func newPool(t *Telemetry) pool {
	p := pool{free: none, int: t.INT}
	if t.INTMD != nil {
		p.stackLen = intmd.FixedLen + MaxRoute*t.INTMD.HopLen()
	}
	return p
}

func (p *pool) take() uint32 {
	p.inUse++
	if p.free != none {
		i := p.free
		p.free = p.packets[i].next
		return i
	}
	p.packets = append(p.packets, Packet{})
	if p.int {
		p.hops = append(p.hops, [MaxRoute]HopRecord{})
	}
	p.stacks = append(p.stacks, make([]byte, p.stackLen)...)
	return uint32(len(p.packets) - 1)
}

// stack is a packet's, of FixedLen bytes and as many as have grown, with room for the others.
func (p *pool) stack(i uint32, length int) intmd.Stack {
	from := int(i) * p.stackLen
	return intmd.Stack(p.stacks[from : from+length : from+p.stackLen])
}

func (p *pool) give(i uint32) {
	p.inUse--
	p.packets[i].next = p.free
	p.free = i
}

// fifo is a list of packets in their order.
type fifo struct{ head, tail uint32 }

func (f *fifo) empty() bool { return f.head == none }

func (f *fifo) push(packets []Packet, i uint32) {
	packets[i].next = none
	if f.head == none {
		f.head = i
	} else {
		packets[f.tail].next = i
	}
	f.tail = i
}

func (f *fifo) pop(packets []Packet) uint32 {
	i := f.head
	f.head = packets[i].next
	return i
}
