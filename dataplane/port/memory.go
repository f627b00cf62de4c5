package port

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Memory is a port without I/O. Each of its queues receives the same packets
// over and over, and takes packets in at no cost, so what is left to measure
// is the pipeline and one copy of each packet into its frame.
type Memory struct {
	name    string
	packets [][]byte
	queues  int
	limit   uint64
	stamp   int
	own     map[int][][]byte // packets of single queues
	stopped atomic.Bool
}

// NewMemory returns a port whose queues receive packets in turn, limit packets
// per queue in all, or without end if limit is 0. Each packet must fit a frame
// behind Headroom.
func NewMemory(name string, queues int, packets [][]byte, limit uint64) *Memory {
	return &Memory{name: name, packets: packets, queues: queues, limit: limit}
}

// Stamp makes the packets of each queue differ: their numbers are written at an offset, in bytes, of which each packet has
// eight; 0 leaves them alone. To be called before Open.
func (m *Memory) Stamp(offset int) { m.stamp = offset }

// Give makes a queue receive other packets than the port's, which are no longer than these. To be called before Open.
func (m *Memory) Give(queue int, packets [][]byte) {
	if m.own == nil {
		m.own = map[int][][]byte{}
	}
	m.own[queue] = packets
}

// Headroom is the free space that drivers leave in front of a packet, for
// headers that stages add. It equals the kernel's XDP_PACKET_HEADROOM.
const Headroom = 256

// Open implements Port.
func (m *Memory) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	for _, p := range m.packets {
		if room := frames.Pool().FrameSize() - Headroom; len(p) > room {
			return nil, fmt.Errorf("open %s: a packet of %d bytes exceeds a frame's %d", m.name, len(p), room)
		}
		if len(p) < m.stamp+8 {
			return nil, fmt.Errorf("open %s: a packet of %d bytes has no room for its number at %d", m.name, len(p), m.stamp)
		}
	}
	packets, ok := m.own[queue]
	if !ok {
		packets = m.packets
	}
	return &memoryQueue{port: m, packets: packets, number: number, queue: uint8(queue), frames: frames}, nil
}

// Info implements Port.
func (m *Memory) Info() Info {
	return Info{Name: m.name, Driver: "memory", Mode: "memory", Queues: m.queues, Up: true, State: StateUp}
}

// Counters implements Port; nothing is lost in memory.
func (m *Memory) Counters() Counters { return Counters{} }

// StopReceive implements Port.
func (m *Memory) StopReceive() error {
	m.stopped.Store(true)
	return nil
}

// Close implements Port.
func (m *Memory) Close() error { return nil }

type memoryQueue struct {
	port     *Memory
	packets  [][]byte
	number   uint16
	queue    uint8
	frames   *packet.Cache
	next     int
	received uint64
	_        [64]byte // neighbours in memory are other workers' queues, which write theirs
}

func (q *memoryQueue) Receive(b *packet.Batch) int {
	packets := q.packets
	want := min(packet.BatchSize, cap(b.Pkts)-len(b.Pkts))
	if q.port.limit != 0 {
		want = int(min(uint64(want), q.port.limit-q.received))
	}
	if want == 0 || len(packets) == 0 || q.port.stopped.Load() {
		return 0
	}
	var addrs [packet.BatchSize]uint64
	n := q.frames.Alloc(addrs[:want])
	stamp := uint64(q.port.stamp)
	for i, addr := range addrs[:n] {
		src := packets[q.next]
		if q.next++; q.next == len(packets) {
			q.next = 0
		}
		copy(b.Mem[addr+Headroom:], src)
		if stamp != 0 {
			binary.LittleEndian.PutUint64(b.Mem[addr+Headroom+stamp:], q.received+uint64(i))
		}
		p := b.Append()
		p.Addr = addr + Headroom
		p.Len, p.WireLen = uint32(len(src)), uint32(len(src))
		p.InPort, p.InQueue = q.number, q.queue
	}
	q.received += uint64(n)
	return n
}

func (q *memoryQueue) Transmit(b *packet.Batch, idx []uint16) int {
	for _, i := range idx {
		q.frames.FreePacket(&b.Pkts[i])
	}
	return len(idx)
}

func (q *memoryQueue) Service() bool { return false }
func (q *memoryQueue) Depth() int    { return 0 }
func (q *memoryQueue) FD() int       { return -1 }
func (q *memoryQueue) Ended() bool {
	return len(q.packets) == 0 || q.port.limit != 0 && q.received == q.port.limit
}
func (q *memoryQueue) Refusal() packet.Reason { return packet.ReasonTxFull }
func (q *memoryQueue) Close() (Rest, error)   { return Rest{}, nil }
