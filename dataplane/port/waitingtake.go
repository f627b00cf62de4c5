package port

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/pipeline/packet"
)

// A queue in which packets wait for a rate, or in classes, is taken over with them. They stay in their frames, which both processes have; their places,
// in the order in which they wait, are in the queue's state, with what the scheduler knows:
//
//	| Q | length | state of the device's queue | the rate's level | lines | line... | the line whose turn it is, or 255 | it has its quantum |
//	line   | length | name of the class | its rate's level | deficit | packets | packet... |
//	packet | address | length | of all frames | flags | L3 | VLAN | more frames | address, length... |
//
// in network byte order. A queue without classes has one line without a name. The new process puts the packets into its own classes, as it would if they
// came now: those of its configuration, which may be others. All find room, as they have their frames already; a class that has more than
// its room takes the next packet when it has less.

// backlog is what waits in front of a queue in another process.
type backlog struct {
	level int64 // limiter.Bucket.Level
	lines []backlogLine
	turn  int // of lines; -1: of none
	begun bool
}

type backlogLine struct {
	name           string
	level, deficit int64
	packets        []heldPacket
}

// heldPacket is a packet without the links between its frames: before Begin, another process may be wrong about these.
type heldPacket struct {
	packet.Packet
	more []piece
}

type piece struct {
	addr   uint64
	length uint32
}

const (
	waitingState = 'Q'
	noTurn       = 255
	// longestPacket bounds what a packet and its frames say of its length: a large one has 64 KiB and its headers.
	longestPacket = 1 << 17
	// maxDeficit bounds the deficit of a class: its quantum, which is at most maxWeight longest packets, and one packet.
	maxDeficit = maxWeight*longestPacket + longestPacket
)

// Unmovable says why a queue is not Movable; empty if it is.
func Unmovable(q Queue) string {
	switch q := q.(type) {
	case *shapedQueue:
		return Unmovable(q.Queue)
	case *classQueue:
		return Unmovable(q.Queue)
	case Movable:
		return ""
	}
	return "its driver has no such hand-over"
}

// appendWaiting appends the state of a queue up to its lines.
func appendWaiting(dst []byte, device Queue, level int64, lines int) ([]byte, error) {
	m, ok := device.(Movable)
	if !ok {
		return nil, errors.New(Unmovable(device))
	}
	state, err := m.AppendState(nil)
	if err != nil {
		return nil, err
	}
	dst = binary.BigEndian.AppendUint32(append(dst, waitingState), uint32(len(state)))
	dst = binary.BigEndian.AppendUint64(append(dst, state...), uint64(level))
	return append(dst, uint8(lines)), nil
}

func appendLine(dst []byte, name string, level, deficit int64, packets int) []byte {
	dst = append(append(dst, uint8(len(name))), name...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(level))
	dst = binary.BigEndian.AppendUint64(dst, uint64(deficit))
	return binary.BigEndian.AppendUint32(dst, uint32(packets))
}

func appendPacket(dst []byte, pool *packet.Pool, p *packet.Packet) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.Addr)
	dst = binary.BigEndian.AppendUint32(dst, p.Len)
	dst = binary.BigEndian.AppendUint32(dst, p.WireLen)
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.Flags))
	dst = binary.BigEndian.AppendUint16(dst, p.L3)
	dst = binary.BigEndian.AppendUint16(dst, p.VLAN)
	dst = append(dst, uint8(pool.FramesOf(p)-1))
	for link := p.Next; link != 0; {
		addr, length, next := pool.Next(link)
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, addr), length)
		link = next
	}
	return dst
}

// appendFrames appends the numbers of a packet's frames.
func appendFrames(dst []uint32, pool *packet.Pool, p *packet.Packet) []uint32 {
	dst = append(dst, pool.Index(p.Addr))
	for link := p.Next; link != 0; {
		dst = append(dst, link-1)
		_, _, link = pool.Next(link)
	}
	return dst
}

// enterWaiting reads the state of a queue, of which the device's queue takes its part, and returns what waits and all frames. Each frame of packets
// is in the pool and in one packet alone.
func enterWaiting(state []byte, device Queue, pool *packet.Pool) (*backlog, []uint32, error) {
	m, ok := device.(Movable)
	if !ok {
		return nil, nil, errors.New(Unmovable(device))
	}
	r := stateReader{rest: state}
	if len(state) != 0 && r.uint(1) != waitingState {
		return nil, nil, errors.New("a state of a queue without a rate or classes")
	}
	var own []byte
	if len(state) != 0 { // else the device's queue says why it has none
		own = r.bytes(r.uint(4))
		if r.short {
			return nil, nil, errShortState
		}
	}
	frames, err := m.Enter(own)
	if err != nil {
		return nil, nil, err
	}
	w, waiting, err := readBacklog(&r, pool)
	if err != nil {
		return nil, nil, fmt.Errorf("packets that wait: %w", err)
	}
	for _, f := range waiting {
		pool.Adopt(uint64(f)*uint64(pool.FrameSize()), packet.OwnerWorker)
	}
	return w, append(frames, waiting...), nil
}

func readBacklog(r *stateReader, pool *packet.Pool) (w *backlog, frames []uint32, err error) {
	w = &backlog{level: int64(r.uint(8)), turn: -1}
	taken := make([]bool, pool.Frames())
	lines := int(r.uint(1))
	if lines == 0 || lines > packet.MaxClasses {
		return nil, nil, fmt.Errorf("%d classes", lines)
	}
	for range lines {
		l := backlogLine{name: string(r.bytes(r.uint(1))), level: int64(r.uint(8)), deficit: int64(r.uint(8))}
		packets := int(r.uint(4))
		if l.deficit < 0 || l.deficit > maxDeficit {
			return nil, nil, fmt.Errorf("class %q: a deficit of %d bytes", l.name, l.deficit)
		}
		if packets > pool.Frames() {
			return nil, nil, fmt.Errorf("class %q: %d packets in %d frames", l.name, packets, pool.Frames())
		}
		for range packets {
			p, err := r.packet(pool, taken)
			if err != nil {
				return nil, nil, fmt.Errorf("class %q: %w", l.name, err)
			}
			frames = append(frames, pool.Index(p.Addr))
			for _, m := range p.more {
				frames = append(frames, pool.Index(m.addr))
			}
			l.packets = append(l.packets, p)
		}
		w.lines = append(w.lines, l)
	}
	if turn := int(r.uint(1)); turn < lines {
		w.turn = turn
	} else if turn != noTurn {
		return nil, nil, fmt.Errorf("the turn of class %d of %d", turn, lines)
	}
	w.begun = r.uint(1) == 1
	if r.short || len(r.rest) != 0 {
		return nil, nil, errShortState
	}
	return w, frames, nil
}

var errShortState = errors.New("its state is longer or shorter than it says")

// stateReader reads what another process has written. Behind the end it reads zeros.
type stateReader struct {
	rest  []byte
	short bool
}

func (r *stateReader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *stateReader) uint(size uint64) (n uint64) {
	for _, b := range r.bytes(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (r *stateReader) packet(pool *packet.Pool, taken []bool) (p heldPacket, err error) {
	first := r.piece()
	p.Addr, p.Len, p.WireLen = first.addr, first.length, uint32(r.uint(4))
	p.Flags, p.L3, p.VLAN = packet.Flags(r.uint(2)), uint16(r.uint(2)), uint16(r.uint(2))
	sum := uint64(first.length)
	for range r.uint(1) {
		m := r.piece()
		sum += uint64(m.length)
		p.more = append(p.more, m)
	}
	if r.short {
		return p, errShortState
	}
	size := uint64(pool.FrameSize())
	for _, m := range append([]piece{first}, p.more...) {
		if m.addr >= uint64(pool.Frames())*size || m.addr%size+uint64(m.length) > size {
			return p, fmt.Errorf("%d bytes at %d are in no frame", m.length, m.addr)
		}
		f := pool.Index(m.addr)
		if taken[f] {
			return p, fmt.Errorf("frame %d is in two packets", f)
		}
		taken[f] = true
	}
	if p.Len == 0 || len(p.more) >= maxPieces || uint64(p.WireLen) < sum || p.WireLen > longestPacket {
		return p, fmt.Errorf("a packet of %d bytes, in %d frames with %d", p.WireLen, 1+len(p.more), sum)
	}
	// A copy that mirror cut may end before its IP header, whose first bytes classes read all the same: they are in the frame.
	if p.Flags&packet.FlagIP != 0 && first.addr%size+uint64(p.L3)+2 > size {
		return p, fmt.Errorf("a packet whose IP header is %d bytes behind %d, in another frame", p.L3, first.addr)
	}
	return p, nil
}

func (r *stateReader) piece() piece {
	addr := r.uint(8)
	return piece{addr, uint32(r.uint(4))}
}

// link joins the frames of a packet in this process's pool.
func (p *heldPacket) link(pool *packet.Pool) *packet.Packet {
	p.Next = 0
	for i := len(p.more) - 1; i >= 0; i-- {
		p.Next = pool.Link(p.more[i].addr, p.more[i].length, p.Next)
	}
	return &p.Packet
}

// slotsFor is a number of slots, a power of two, that has room for so many packets, and is no smaller than at first.
func slotsFor(packets, slots int) int {
	return max(slots, 1<<bits.Len(uint(max(packets, 1)-1)))
}

// AppendState implements Movable.
func (q *shapedQueue) AppendState(dst []byte) ([]byte, error) {
	dst, err := appendWaiting(dst, q.Queue, q.limit.Level(), 1)
	if err != nil {
		return nil, err
	}
	dst = appendLine(dst, "", math.MinInt64, 0, int(q.tail-q.head))
	for at := q.head; at != q.tail; at++ {
		dst = appendPacket(dst, q.frames.Pool(), &q.fifo[at&q.mask])
	}
	return append(dst, noTurn, 0), nil
}

// Enter implements Movable.
func (q *shapedQueue) Enter(state []byte) (frames []uint32, err error) {
	q.entering, frames, err = enterWaiting(state, q.Queue, q.frames.Pool())
	return frames, err
}

// Frames implements Movable.
func (q *shapedQueue) Frames(dst []uint32) []uint32 {
	if m, ok := q.Queue.(Movable); ok {
		dst = m.Frames(dst)
	}
	for at := q.head; at != q.tail; at++ {
		dst = appendFrames(dst, q.frames.Pool(), &q.fifo[at&q.mask])
	}
	return dst
}

// Begin implements Movable.
func (q *shapedQueue) Begin() {
	q.Queue.(Movable).Begin()
	q.limit.Resume(q.entering.level)
	packets := 0
	for i := range q.entering.lines {
		packets += len(q.entering.lines[i].packets)
	}
	q.fifo = make([]packet.Packet, slotsFor(packets, q.slots))
	q.mask = uint32(len(q.fifo) - 1)
	for i := range q.entering.lines {
		for k := range q.entering.lines[i].packets {
			p := q.entering.lines[i].packets[k].link(q.frames.Pool())
			q.fifo[q.tail] = *p
			q.tail++
			q.waiting += q.frames.Pool().FramesOf(p)
		}
	}
	q.entering = nil
}

// Leave implements Movable. The frames of what waits are free here, and the other process's.
func (q *shapedQueue) Leave() {
	q.Queue.(Movable).Leave()
	for ; q.head != q.tail; q.head++ {
		q.frames.FreePacket(&q.fifo[q.head&q.mask])
	}
	q.waiting = 0
}

// AppendState implements Movable.
func (q *classQueue) AppendState(dst []byte) ([]byte, error) {
	dst, err := appendWaiting(dst, q.Queue, q.limit.Level(), len(q.classes.of))
	if err != nil {
		return nil, err
	}
	for c := range q.classes.of {
		k, l := &q.classes.of[c], &q.lines[c]
		dst = appendLine(dst, k.name, k.rate.Level(), q.turn.deficit[c], int(l.tail-q.turn.head[c]))
		for at := q.turn.head[c]; at != l.tail; at++ {
			dst = appendPacket(dst, q.frames.Pool(), &l.fifo[at&uint32(len(l.fifo)-1)])
		}
	}
	turn, begun := uint8(noTurn), uint8(0)
	if q.turn.at < len(q.classes.of) {
		turn = uint8(q.turn.at)
	}
	if q.turn.begun {
		begun = 1
	}
	return append(dst, turn, begun), nil
}

// Enter implements Movable.
func (q *classQueue) Enter(state []byte) (frames []uint32, err error) {
	q.entering, frames, err = enterWaiting(state, q.Queue, q.frames.Pool())
	return frames, err
}

// Frames implements Movable.
func (q *classQueue) Frames(dst []uint32) []uint32 {
	if m, ok := q.Queue.(Movable); ok {
		dst = m.Frames(dst)
	}
	for c := range q.classes.of {
		l := &q.lines[c]
		for at := q.turn.head[c]; at != l.tail; at++ {
			dst = appendFrames(dst, q.frames.Pool(), &l.fifo[at&uint32(len(l.fifo)-1)])
		}
	}
	return dst
}

// Begin implements Movable. What waited counts as come to its class here, and not in the process before (Leave).
func (q *classQueue) Begin() {
	q.Queue.(Movable).Begin()
	w, pool := q.entering, q.frames.Pool()
	q.entering = nil
	q.limit.Resume(w.level)
	class := func(p *packet.Packet) uint8 {
		return q.classes.classifier.Class(pool.Memory(), p) & (packet.MaxClasses - 1)
	}
	var come [packet.MaxClasses]int
	for i := range w.lines {
		for k := range w.lines[i].packets {
			come[class(&w.lines[i].packets[k].Packet)]++
		}
	}
	for c := range q.classes.of {
		if l := &q.lines[c]; come[c] > len(l.fifo) {
			l.fifo = make([]packet.Packet, slotsFor(come[c], len(l.fifo)))
		}
	}
	for i := range w.lines {
		for k := range w.lines[i].packets {
			p := w.lines[i].packets[k].link(pool)
			q.join(class(p), uint32(pool.FramesOf(p)), p)
		}
	}
	// What the scheduler knows of a class goes to that of its name.
	for c := range q.classes.of {
		k := &q.classes.of[c]
		for i := range w.lines {
			if w.lines[i].name != k.name {
				continue
			}
			k.rate.Resume(w.lines[i].level)
			if c < q.classes.strict {
				continue
			}
			if come[c] != 0 {
				q.turn.deficit[c] = min(w.lines[i].deficit, k.quantum+longestPacket)
			}
			if i == w.turn {
				q.turn.at, q.turn.begun = c, w.begun
			}
		}
	}
}

// Leave implements Movable. The frames of what waits are free here, and the other process's, which counts the packets.
func (q *classQueue) Leave() {
	q.Queue.(Movable).Leave()
	for c := range q.classes.of {
		l := &q.lines[c]
		l.counts.Packets -= uint64(l.tail - q.turn.head[c])
		l.counts.Bytes -= uint64(q.turn.bytes[c])
	}
	q.freeWaiting()
}
