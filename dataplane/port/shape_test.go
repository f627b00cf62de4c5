package port

import (
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// witness is a queue that takes packets as long as it has room, and remembers them.
type witness struct {
	Queue
	frames *packet.Cache
	room   int
	seen   []uint32 // lengths
}

func (w *witness) Transmit(b *packet.Batch, idx []uint16) int {
	n := min(len(idx), w.room)
	w.room -= n
	for _, i := range idx[:n] {
		w.seen = append(w.seen, b.Pkts[i].WireLen)
		w.frames.FreePacket(&b.Pkts[i])
	}
	return n
}

// shapedWitness is a shaped queue on a clock of the test's own.
type shapedWitness struct {
	*shapedQueue
	witness *witness
	pool    *packet.Pool
	cache   *packet.Cache
	b       *packet.Batch
	now     int64
	sent    uint32
}

func newShaped(t *testing.T, c Config, room int) *shapedWitness {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: 2048, Audit: true})
	check(t, err)
	t.Cleanup(func() { check(t, pool.Close()) })
	s := &shapedWitness{pool: pool, cache: pool.NewCache(), now: 1e18}
	s.b = packet.NewBatch(s.cache, packet.BatchSize)
	s.witness = &witness{Queue: Down(), frames: s.cache, room: room}
	shaper := newShaper(&c, 1518)
	shaper.clock = func() int64 { return s.now }
	s.shapedQueue = shaper.shape(s.witness, s.cache).(*shapedQueue)
	return s
}

// offer offers n packets of 1000 bytes and a running number, and frees what is
// not taken, as a worker does.
func (s *shapedWitness) offer(t *testing.T, n int) (taken int) {
	t.Helper()
	idx := make([]uint16, n)
	for i := range idx {
		addr, ok := s.cache.AllocOne()
		if !ok {
			t.Fatal("no free frame")
		}
		p := s.b.Append()
		p.Addr, p.WireLen = addr, 1000+s.sent+uint32(i)
		idx[i] = uint16(i)
	}
	taken = s.Transmit(s.b, idx)
	s.sent += uint32(taken)
	for _, i := range idx[taken:] {
		s.cache.FreePacket(&s.b.Pkts[i])
	}
	s.b.Reset()
	return taken
}

// TestShape: the burst passes, the rest waits in order and follows by the rate;
// what finds no room is refused.
func TestShape(t *testing.T) {
	c := DefaultConfig()
	c.RateBits, c.QueuePackets = 8_000_000, 64 // a megabyte per second: some 1 ms per packet
	s := newShaped(t, c, 1000)
	step := func(ms int64, offer, taken, passed, depth int) {
		t.Helper()
		s.now += ms * 1e6
		got := s.offer(t, offer)
		pending := s.Service()
		if got != taken || len(s.witness.seen) != passed || s.Depth() != depth || pending != (depth != 0) {
			t.Errorf("took %d, %d passed, %d wait (%v); want %d, %d, %d", got, len(s.witness.seen), s.Depth(), pending, taken, passed, depth)
		}
	}
	step(0, 1, 1, 1, 0)    // of 3036 bytes
	step(0, 20, 20, 3, 18) // 33 bytes are left
	step(1, 0, 0, 4, 17)
	step(5, 0, 0, 7, 14) // no more than a burst
	step(0, 60, 50, 7, 64)
	if s.Refusal() != reasonQueueFull {
		t.Errorf("refused for %v", s.Refusal())
	}
	for s.Service() {
		s.now += 1e6
	}
	if len(s.witness.seen) != 71 {
		t.Errorf("%d passed, want 71", len(s.witness.seen))
	}
	for i, n := range s.witness.seen {
		if n != 1000+uint32(i) {
			t.Fatalf("packet %d in the place of %d", n-1000, i)
		}
	}
	if rest, err := s.Close(); err != nil || rest != (Rest{}) {
		t.Errorf("%+v, %v", rest, err)
	}
	s.cache.Close()
	if census := s.pool.Census(); s.pool.Free() != 512 || census.Faults != 0 {
		t.Errorf("%+v", census)
	}
}

// TestMonotonic: rates have the kernel's clock, which another process that takes over has, too, and not one that begins with the process.
func TestMonotonic(t *testing.T) {
	before := clock.Kernel.Monotonic()
	now := monotonic()
	if after, far := clock.Kernel.Monotonic(), int64(10*time.Second); now < before-far || now > after+far {
		t.Errorf("%d ns, and the kernel has %d", now, before)
	}
}

// TestShapeBlocked: what the queue behind does not take waits without costing
// the rate, and is given back in the end.
func TestShapeBlocked(t *testing.T) {
	c := DefaultConfig()
	c.RateBits, c.QueuePackets = 8_000_000, 64
	s := newShaped(t, c, 2)
	s.offer(t, 3)
	if s.Depth() != 1 || s.Refusal() != packet.ReasonPortDown {
		t.Errorf("%d wait, for %v", s.Depth(), s.Refusal())
	}
	s.witness.room = 1
	if s.Service(); s.Depth() != 0 { // its tokens were kept for it
		t.Errorf("%d wait", s.Depth())
	}
	if taken := s.offer(t, 64); taken != 64 {
		t.Errorf("took %d", taken)
	}
	rest, err := s.Close()
	check(t, err)
	s.cache.Close()
	if census := s.pool.Census(); rest.Unsent != 64 || s.pool.Free() != 512 || census.Faults != 0 {
		t.Errorf("%+v, %+v", rest, census)
	}
}

func TestShapeDoesNotAllocate(t *testing.T) {
	c := DefaultConfig()
	c.RateBits, c.QueuePackets = 8_000_000, 64
	s := newShaped(t, c, 1<<30)
	s.witness.seen = make([]uint32, 0, 1<<16)
	idx := []uint16{0}
	if n := testing.AllocsPerRun(200, func() {
		s.now += 2e6
		addr, _ := s.cache.AllocOne()
		p := s.b.Append()
		p.Addr, p.WireLen = addr, 1000
		s.Transmit(s.b, idx)
		s.b.Reset()
		s.Service()
	}); n != 0 {
		t.Errorf("a packet allocates %v times", n)
	}
}

// TestShapeFrames: what waits for the rate is counted by its frames, as in all queues.
func TestShapeFrames(t *testing.T) {
	c := DefaultConfig()
	c.RateBits, c.QueuePackets = 8_000_000, 64
	s := newShaped(t, c, 0)
	s.offer(t, 2)
	p := s.b.Append()
	var addrs [3]uint64
	if n := s.cache.Alloc(addrs[:]); n != len(addrs) {
		t.Fatal("no free frame")
	}
	p.Addr, p.WireLen = addrs[0], 1000
	for _, a := range addrs[1:] {
		p.Next = s.pool.Link(a, 300, p.Next)
	}
	if taken := s.Transmit(s.b, []uint16{0}); taken != 1 || s.Depth() != 5 {
		t.Errorf("took %d, %d frames wait", taken, s.Depth())
	}
	s.b.Reset()
	for _, step := range []struct{ room, depth int }{{1, 4}, {1, 3}, {1, 0}} {
		s.now += 1e9
		s.witness.room = step.room
		if s.Service(); s.Depth() != step.depth {
			t.Errorf("%d frames wait, want %d", s.Depth(), step.depth)
		}
	}
	if rest, err := s.Close(); err != nil || rest != (Rest{}) {
		t.Errorf("%+v, %v", rest, err)
	}
	s.cache.Close()
	if census := s.pool.Census(); s.pool.Free() != 512 || census.Faults != 0 {
		t.Errorf("%+v", census)
	}
}
