package port

import (
	"errors"
	"reflect"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	asavie "github.com/asavie/xdp"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/pipeline/packet"
)

type asavieQueue struct {
	socket *asavie.Socket
	frames *packet.Cache
	port   uint16
	number uint8
	down   bool // the interface refused to send
	addrs  [packet.BatchSize]uint64
	sums   *completer // nil: the device delivers complete checksums

	mu     sync.Mutex // guards what follows, which control reads
	closed bool
	stats  asavie.Stats
}

// readStats reads what the socket counts, as long as it is open; mu is held.
func (q *asavieQueue) readStats() asavie.Stats {
	if !q.closed {
		if s, err := q.socket.Stats(); err == nil {
			q.stats = s
		}
	}
	return q.stats
}

func (q *asavieQueue) fill() {
	if n := q.socket.NumFreeFillSlots(); n >= packet.BatchSize {
		q.socket.Fill(q.socket.GetDescs(n))
	}
}

// Receive implements Queue.
func (q *asavieQueue) Receive(b *packet.Batch) int {
	n := min(q.socket.NumReceived(), packet.BatchSize, cap(b.Pkts)-len(b.Pkts))
	if n == 0 {
		return 0
	}
	n = q.frames.Alloc(q.addrs[:n])
	first := len(b.Pkts)
	for i, d := range q.socket.Receive(n) {
		addr := q.addrs[i] + Headroom
		copy(b.Mem[addr:], q.socket.GetFrame(d))
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, d.Len, d.Len
		p.InPort, p.InQueue = q.port, q.number
	}
	if q.sums != nil {
		q.sums.complete(b.Mem, b.Pkts[first:])
	}
	q.fill()
	return n
}

// Transmit implements Queue.
func (q *asavieQueue) Transmit(b *packet.Batch, idx []uint16) int {
	if q.down {
		return 0
	}
	n := min(len(idx), q.socket.NumFreeTxSlots())
	descs := q.socket.GetDescs(n)
	n = len(descs)
	for k := range descs {
		p := &b.Pkts[idx[k]]
		descs[k].Len = p.Len
		copy(q.socket.GetFrame(descs[k]), b.Data(p))
		q.frames.FreePacket(p)
	}
	if n != 0 {
		q.send(descs)
	}
	return n
}

// send puts packets into the TX ring, where they stay if the interface is
// down, and has the kernel send.
func (q *asavieQueue) send(descs []asavie.Desc) {
	// It panics behind counting and queueing the packets. What the kernel sent
	// by then may be completed at once, so down is asked again in each Service.
	q.down = true
	defer func() {
		if fault, ok := recover().(runtime.Error); ok {
			panic(fault) // not the kernel's refusal, but a fault of the library or ours
		}
	}()
	q.socket.Transmit(descs)
	q.down = false
}

// Refusal implements Queue.
func (q *asavieQueue) Refusal() packet.Reason {
	if q.down {
		return packet.ReasonPortDown
	}
	return packet.ReasonTxFull
}

// Service implements Queue. The library sends at most the kernel's budget per
// call, so it is called again, with nothing new, while packets wait.
func (q *asavieQueue) Service() bool {
	if q.socket.NumTransmitted() == 0 && !q.down {
		return false
	}
	if n := q.socket.NumCompleted(); n != 0 {
		q.socket.Complete(n)
	}
	if q.socket.NumTransmitted() != 0 || q.down {
		q.send(nil)
		if n := q.socket.NumCompleted(); n != 0 {
			q.socket.Complete(n)
		}
	}
	return q.socket.NumTransmitted() != 0 || q.down
}

// Depth implements Queue.
func (q *asavieQueue) Depth() int { return q.socket.NumTransmitted() - q.socket.NumCompleted() }

// FD implements Queue.
func (q *asavieQueue) FD() int { return q.socket.FD() }

// Ended implements Queue: a network may always send something.
func (q *asavieQueue) Ended() bool { return false }

// Rehome implements Rehomer.
func (q *asavieQueue) Rehome(frames *packet.Cache) { q.frames = frames }

// Close implements Queue. The frames in its rings are the library's own.
func (q *asavieQueue) Close() (Rest, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readStats()
	rest := Rest{Unsent: q.socket.NumTransmitted()}
	q.closed = true
	rings := q.rings()
	err := q.socket.Close()
	for _, r := range rings {
		err = errors.Join(err, syscall.Munmap(r))
	}
	return rest, err
}

// rings finds the mappings of the socket's rings. The library leaves them when it
// closes a socket, and as long as they are there so is the socket, on its
// interface: no other one can take the queue. Each begins with a page's beginning, less
// than a page in front of the descriptors.
func (q *asavieQueue) rings() (maps [][]byte) {
	socket := reflect.ValueOf(q.socket).Elem()
	for _, name := range []string{"fillRing", "completionRing", "rxRing", "txRing"} {
		ring := socket.FieldByName(name)
		if !ring.IsValid() || !ring.FieldByName("Descs").IsValid() {
			continue // of another version of the library
		}
		descs := ring.FieldByName("Descs")
		if descs.Len() == 0 {
			continue
		}
		before := int(descs.Pointer()) % unix.Getpagesize()
		length := before + descs.Cap()*int(descs.Type().Elem().Size())
		maps = append(maps, unsafe.Slice((*byte)(unsafe.Add(descs.UnsafePointer(), -before)), length))
	}
	return maps
}
