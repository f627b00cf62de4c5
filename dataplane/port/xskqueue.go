package port

import (
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/xsk"
	"github.com/weirswitch/weir/pipeline/packet"
)

// xskQueue drives the four rings of one socket. In packet order: Receive takes
// packets from RX; Transmit puts them into TX; Service kicks TX, takes frames
// from completion, and gives fresh ones to fill.
type xskQueue struct {
	socket *xsk.Socket
	frames *packet.Cache
	pool   *packet.Pool
	port   uint16
	number uint8
	down   bool        // the interface refused to send
	doubt  bool        // the interface was down when it was last heard of
	shared atomic.Bool // another process has had its socket (XSK.Share): one that was opened since is not what it took
	stats  xsk.Stats
	base   xsk.Stats // what the socket had counted when the queue was taken over
	// busyPoll is set if the worker runs the receive work itself.
	busyPoll bool
	// zeroCopy: the device itself takes frames from the fill ring, and may
	// have to be told even of frames that it was given long ago.
	zeroCopy bool
	stamps   stamps
	sums     *completer // nil: the device delivers complete checksums

	debt     int // frames that fill lacks
	inFlight int // frames in TX, with the kernel, or in completion

	// given is, by frame, whether the kernel has it: in a ring of this socket or
	// behind it. It is how frames are found again that the kernel kept when the socket
	// closed. One byte each, so that a change needs no reading.
	given []bool

	descs [2 * packet.BatchSize]xsk.Desc
	addrs [packet.BatchSize]uint64
}

func newXSKQueue(s *xsk.Socket, port uint16, number uint8, frames *packet.Cache) *xskQueue {
	q := makeXSKQueue(s, port, number, frames)
	q.debt = s.Fill.Size()
	q.refill()
	return q
}

// makeXSKQueue is newXSKQueue without a frame.
func makeXSKQueue(s *xsk.Socket, port uint16, number uint8, frames *packet.Cache) *xskQueue {
	q := &xskQueue{socket: s, frames: frames, pool: frames.Pool(), port: port, number: number}
	q.busyPoll, q.zeroCopy = s.Granted().BusyPoll, s.Granted().ZeroCopy
	q.given = make([]bool, q.pool.Frames())
	return q
}

// refill gives the kernel as many frames as it got rid of, the warmest first.
func (q *xskQueue) refill() {
	for q.debt > 0 {
		addrs := q.addrs[:min(q.debt, len(q.addrs))]
		n := q.frames.Alloc(addrs)
		if n == 0 {
			return
		}
		if q.pool.Audited() {
			q.move(addrs[:n], packet.OwnerWorker, packet.OwnerFill)
		}
		// The kernel shows a received packet shortly before it shows that the
		// fill ring's slot is free again (xsk_flush in net/xdp/xsk.c), so the
		// ring may look full for a moment.
		pushed := q.socket.Fill.Push(addrs[:n])
		q.debt -= pushed
		for _, a := range addrs[:pushed] {
			q.given[q.pool.Index(a)] = true
		}
		if pushed < n {
			q.giveBack(addrs[pushed:n])
			return
		}
	}
}

// giveBack frees what found no room in the fill ring.
func (q *xskQueue) giveBack(addrs []uint64) {
	if q.pool.Audited() {
		q.move(addrs, packet.OwnerFill, packet.OwnerWorker)
	}
	for _, a := range addrs {
		q.frames.Free(a)
	}
}

func (q *xskQueue) move(addrs []uint64, from, to packet.Owner) {
	for _, a := range addrs {
		q.pool.Move(a, from, to)
	}
}

// Receive implements Queue.
func (q *xskQueue) Receive(b *packet.Batch) int {
	descs := q.descs[:min(packet.BatchSize, cap(b.Pkts)-len(b.Pkts))]
	n := q.socket.RX.Pop(descs)
	if n == 0 && q.busyPoll {
		// The interface's receive work runs inside this call.
		q.socket.WakeRX()
		n = q.socket.RX.Pop(descs)
	}
	if n == 0 {
		return 0
	}
	descs = descs[:n]
	q.debt += n
	if q.pool.Audited() {
		for i := range descs {
			q.pool.Move(descs[i].Addr, packet.OwnerFill, packet.OwnerWorker)
		}
	}
	packets, first := 0, len(b.Pkts)
	for i := 0; i < len(descs); {
		d := &descs[i]
		q.given[q.pool.Index(d.Addr)] = false
		p := b.Append()
		p.Addr, p.Len, p.WireLen = d.Addr, d.Len, d.Len
		p.InPort, p.InQueue = q.port, q.number
		i++
		if d.Options&xsk.Continued != 0 {
			i += q.chain(p, descs[i:])
		}
		packets++
	}
	if q.stamps.tag != 0 {
		q.stamps.read(b.Mem, b.Pkts[first:])
	}
	if q.sums != nil {
		q.sums.complete(b.Mem, b.Pkts[first:])
	}
	return packets
}

// chain links the frames that continue a packet, and returns how many.
func (q *xskQueue) chain(p *packet.Packet, rest []xsk.Desc) int {
	n := 0
	for n < len(rest) {
		n++
		if rest[n-1].Options&xsk.Continued == 0 {
			break
		}
	}
	for i := n - 1; i >= 0; i-- {
		q.given[q.pool.Index(rest[i].Addr)] = false
		p.Next = q.pool.Link(rest[i].Addr, rest[i].Len, p.Next)
		p.WireLen += rest[i].Len
	}
	return n
}

// Transmit implements Queue.
func (q *xskQueue) Transmit(b *packet.Batch, idx []uint16) int {
	if q.doubt {
		q.ask()
	}
	taken := 0
	for taken < len(idx) && !q.down {
		n, packets := 0, 0
		for _, i := range idx[taken:] {
			p := &b.Pkts[i]
			if n == len(q.descs) || p.Next != 0 && !q.fits(p, len(q.descs)-n) {
				break
			}
			q.descs[n] = xsk.Desc{Addr: p.Addr, Len: p.Len}
			n++
			if p.Next != 0 {
				n = q.unchain(p.Next, n)
			}
			packets++
		}
		pushed := q.socket.TX.Push(q.descs[:n])
		q.inFlight += pushed
		for k := range pushed {
			q.given[q.pool.Index(q.descs[k].Addr)] = true
		}
		if q.pool.Audited() {
			for k := range pushed {
				q.pool.Move(q.descs[k].Addr, packet.OwnerWorker, packet.OwnerTx)
			}
		}
		if pushed < n {
			return taken + q.countPackets(pushed)
		}
		taken += packets
	}
	return taken
}

// LinkDown implements Doubter.
func (q *xskQueue) LinkDown() { q.doubt = true }

// ask asks the kernel to send, whether or not there is something in the TX ring: what is put there while the interface is down would wait,
// and leave when it is up again.
func (q *xskQueue) ask() {
	result := q.socket.TX.Kick()
	q.down = result == xsk.KickDown || result == xsk.KickGone
	q.doubt = q.down
}

// fits reports whether all pieces of a chained packet fit into room slots.
func (q *xskQueue) fits(p *packet.Packet, room int) bool {
	return q.pool.FramesOf(p) <= room
}

// unchain adds the descriptors of a packet's further frames behind n.
func (q *xskQueue) unchain(link uint32, n int) int {
	for link != 0 {
		addr, length, next := q.pool.Next(link)
		q.descs[n-1].Options = xsk.Continued
		q.descs[n] = xsk.Desc{Addr: addr, Len: length}
		n++
		link = next
	}
	return n
}

// countPackets counts the packets in the first n descriptors.
func (q *xskQueue) countPackets(n int) int {
	packets := 0
	for _, d := range q.descs[:n] {
		if d.Options&xsk.Continued == 0 {
			packets++
		}
	}
	return packets
}

// Refusal implements Queue.
func (q *xskQueue) Refusal() packet.Reason {
	if q.down {
		return packet.ReasonPortDown
	}
	return packet.ReasonTxFull
}

// Service implements Queue.
func (q *xskQueue) Service() bool {
	// An interface that was down is looked at even with nothing in flight: when it
	// came up, the worker's poll may have sent what was left.
	if q.inFlight != 0 || q.down {
		q.kick()
		q.complete()
	}
	if q.debt != 0 {
		q.refill()
	}
	// A driver that found the ring empty once, at its start or behind a reset, asks to be
	// woken even if the ring is full by now.
	if q.zeroCopy && q.socket.Fill.NeedsWakeup() {
		q.socket.WakeRX()
	}
	return q.inFlight != 0
}

// kick has the kernel send what is in the TX ring. In copy mode each call sends
// a bounded number of packets, so it is repeated while that makes progress.
func (q *xskQueue) kick() {
	tx := &q.socket.TX
	q.down = false
	if !tx.NeedsWakeup() {
		return
	}
	for unsent := tx.Unsent(); unsent > 0; {
		result := tx.Kick()
		q.down = result == xsk.KickDown || result == xsk.KickGone
		left := tx.Unsent()
		if left == 0 || q.down {
			return
		}
		if left == unsent {
			// The completion ring may be full, or the device busy.
			if q.complete() == 0 {
				return
			}
		}
		unsent = left
	}
}

// complete frees the frames of transmitted packets and returns how many.
func (q *xskQueue) complete() int {
	total := 0
	for q.inFlight > 0 {
		n := q.socket.Completion.Pop(q.addrs[:])
		if q.pool.Audited() {
			for _, a := range q.addrs[:n] {
				q.pool.Move(a, packet.OwnerTx, packet.OwnerWorker)
			}
		}
		for _, a := range q.addrs[:n] {
			q.given[q.pool.Index(a)] = false
			q.frames.Free(a)
		}
		q.inFlight -= n
		total += n
		if n < len(q.addrs) {
			break
		}
	}
	return total
}

// Depth implements Queue. What the kernel sent but we have not freed yet waits no more.
func (q *xskQueue) Depth() int { return q.inFlight - q.socket.Completion.Available() }

// FD implements Queue.
func (q *xskQueue) FD() int { return q.socket.FD() }

// Ended implements Queue: a network may always send something.
func (q *xskQueue) Ended() bool { return false }

// readStats reads what the kernel counts, while the socket is open and this process's.
func (q *xskQueue) readStats() {
	if s, err := q.socket.Stats(); err == nil {
		q.stats = s.Since(q.base)
	}
}

// Rehome implements Rehomer.
func (q *xskQueue) Rehome(frames *packet.Cache) { q.frames = frames }

// Close implements Queue. The port receives nothing more by then. The kernel
// does not say which frames it keeps, but they are those given and not come back.
func (q *xskQueue) Close() (Rest, error) {
	var rest Rest
	var held xsk.Held
	if !q.socket.Left() {
		rest.Unsent = q.socket.TX.Unsent()
		q.readStats()
		_, held = q.socket.Reclaim(nil)
	}
	err := q.socket.Close()
	for i, kernel := range q.given {
		if !kernel {
			continue
		}
		a := uint64(i * q.pool.FrameSize())
		q.pool.Move(a, q.pool.KernelOwner(a), packet.OwnerWorker)
		q.frames.Free(a)
	}
	clear(q.given)
	rest.HeldRx, rest.HeldTx = held.RX, held.TX
	return rest, err
}
