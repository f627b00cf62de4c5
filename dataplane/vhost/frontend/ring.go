package frontend

import (
	"encoding/binary"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// ring is a split virtqueue from the driver's side (virtio 1.3, 2.7). Descriptor i has buffer i, for as long as the ring is.
type ring struct {
	desc   []uint64
	avail  []uint16 // flags, index, entries
	head   *uint32  // flags and index of avail in one word
	used   []uint32 // flags and index, then id and length for each entry
	bytes  []byte   // the buffers
	buffer int      // bytes of each
	mask   uint16
	next   uint16 // the available index, of which the device sees what Flush has shown
	shown  uint16
	seen   uint16 // the used index as far as it was taken
	limit  uint16 // the used index as read last
	kick   int
}

const (
	noInterrupt = 1 // of available flags: the driver polls
	noNotify    = 1 // of used flags: the device polls
	deviceWrite = 2 // of descriptors
)

func newRing(memory []byte, avail, used, buffers, n, buffer, kick int) *ring {
	return &ring{
		desc:  shmem.Words[uint64](memory[:16*n]),
		avail: shmem.Words[uint16](memory[avail : avail+6+2*n]),
		head:  &shmem.Words[uint32](memory[avail : avail+4])[0],
		used:  shmem.Words[uint32](memory[used : used+4+8*n]),
		bytes: memory[buffers : buffers+n*buffer], buffer: buffer, mask: uint16(n - 1), kick: kick,
	}
}

func (r *ring) describe(guest uint64, flags uint64) {
	for i := range len(r.desc) / 2 {
		r.desc[2*i] = guest + uint64(i*r.buffer)
		r.desc[2*i+1] = uint64(r.buffer) | flags<<32
	}
}

func (r *ring) slot(id uint16) []byte {
	return r.bytes[int(id&r.mask)*r.buffer:][:r.buffer]
}

// offer makes a buffer available with the next flush.
func (r *ring) offer(id uint16) {
	r.avail[2+int(r.next&r.mask)] = id
	r.next++
}

// flush shows the device what was offered, and notifies it if it sleeps.
func (r *ring) flush() {
	if r.shown == r.next {
		return
	}
	r.shown = r.next
	atomic.StoreUint32(r.head, noInterrupt|uint32(r.next)<<16)
	if atomic.LoadUint32(&r.used[0])&noNotify == 0 {
		one := [8]byte{1}
		_, _ = unix.Write(r.kick, one[:]) // fails only if the device does not read it, which is its affair
	}
}

// take returns the next used buffer.
func (r *ring) take() (id uint16, n int, ok bool) {
	if r.seen == r.limit {
		if r.limit = uint16(atomic.LoadUint32(&r.used[0]) >> 16); r.seen == r.limit {
			return 0, 0, false
		}
	}
	e := 1 + 2*int(r.seen&r.mask)
	r.seen++
	return uint16(r.used[e]), int(r.used[e+1]), true
}

// Sender is the ring of packets to the device.
type Sender struct {
	*ring
	free  []uint16 // a queue: free[from] to free[to-1], modulo its length
	from  uint16
	to    uint16
	held  uint16 // the buffer that Next returned
	holds bool
}

func newSender(r *ring) *Sender {
	s := &Sender{ring: r, free: make([]uint16, len(r.desc)/2), to: uint16(len(r.desc) / 2)}
	for i := range s.free {
		s.free[i] = uint16(i)
	}
	return s
}

// Next returns the buffer of the next packet: HeaderSize bytes, and room for the packet. It has what was in it when it was used last, or zeros. There is none
// where the device has all.
func (s *Sender) Next() []byte {
	if !s.holds {
		if s.from == s.to && s.reclaim() == 0 {
			return nil
		}
		s.held, s.holds = s.free[s.from&s.mask], true
		s.from++
	}
	return s.slot(s.held)
}

// reclaim takes back what the device has done with.
func (s *Sender) reclaim() (n int) {
	for {
		id, _, ok := s.take()
		if !ok {
			return n
		}
		s.free[s.to&s.mask] = id & s.mask
		s.to++
		n++
	}
}

// Send sends n bytes of the buffer of Next, with the header, with the next Flush.
func (s *Sender) Send(n int) {
	s.desc[2*int(s.held)+1] = uint64(n)
	s.offer(s.held)
	s.holds = false
}

// Buffer is the memory of descriptor i, which Held names.
func (s *Sender) Buffer(i int) []byte { return s.slot(uint16(i)) }

// Held is the descriptor of the buffer that Next returned.
func (s *Sender) Held() int { return int(s.held) }

// Flush shows the device what was sent.
func (s *Sender) Flush() { s.flush() }

// Waiting returns how many packets the device has not taken yet.
func (s *Sender) Waiting() int {
	s.reclaim()
	n := len(s.free) - int(s.to-s.from)
	if s.holds {
		n--
	}
	return n
}

// Receiver is the ring of packets from the device.
type Receiver struct{ *ring }

func newReceiver(r *ring) *Receiver {
	for i := range len(r.desc) / 2 {
		r.offer(uint16(i))
	}
	return &Receiver{r}
}

// Next appends the pieces of the next packet, of which the first begins with its header; none if there is no packet. They are valid until Flush.
func (r *Receiver) Next(pieces [][]byte) [][]byte {
	id, n, ok := r.take()
	if !ok {
		return pieces
	}
	first := r.slot(id)[:min(n, r.buffer)]
	pieces = append(pieces, first)
	r.offer(id & r.mask)
	for more := int(binary.LittleEndian.Uint16(first[10:])); more > 1; more-- {
		if id, n, ok = r.take(); !ok {
			break // all of a packet is used at once
		}
		pieces = append(pieces, r.slot(id)[:min(n, r.buffer)])
		r.offer(id & r.mask)
	}
	return pieces
}

// Skip counts up to most packets of one buffer, and gives their buffers back with the next Flush.
func (r *Receiver) Skip(most int) (n int) {
	for n < most {
		id, _, ok := r.take()
		if !ok {
			break
		}
		r.offer(id & r.mask)
		n++
	}
	return n
}

// Flush gives the buffers of the packets back to the device.
func (r *Receiver) Flush() { r.flush() }
