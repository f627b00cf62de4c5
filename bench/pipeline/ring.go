package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Frames of 2 KiB, as a switch has them by default.
const frameSize = 2048

// spareFrames are for the copies of packets that are flooded while addresses are learned.
const spareFrames = 8192

// ports of the graphs: batches arrive at the two in turn.
const ports = 2

// ring is the memory that packets arrive in, the same for all rows of a run, so that none has a luckier
// place in the caches.
type ring struct {
	pool   *packet.Pool
	frames []uint64 // addresses of the packets, in the order of arrival
	batch  *packet.Batch
}

func newRing(frames int, seed uint64) (*ring, error) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames + spareFrames, FrameSize: frameSize})
	if err != nil {
		return nil, err
	}
	cache := pool.NewCache()
	r := &ring{pool: pool, frames: make([]uint64, frames), batch: packet.NewBatch(cache, ports*packet.BatchSize)}
	if n := cache.Alloc(r.frames); n != frames {
		return nil, fmt.Errorf("%d of %d frames are free", n, frames)
	}
	for i := range r.frames {
		r.frames[i] += port.Headroom
	}
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(frames, func(i, k int) { r.frames[i], r.frames[k] = r.frames[k], r.frames[i] })
	return r, nil
}

func (r *ring) close() error { return r.pool.Close() }

// stream writes the packets of a workload: those of even batches go from port 0 to port 1, those
// of odd ones go in the other direction in flows of the same draw.
type stream struct {
	writers [ports]*traffic.Writer
	size    uint32        // bytes without frame check sequence, and without shim
	shims   *shims        // nil: packets have none
	arrive  [ports]uint16 // the ports by which even and odd batches arrive; if they are one, all batches are of the first direction
	next    uint64        // sequence number
	// answers has each odd batch answer the one before, packet by packet.
	answers bool
}

func newStream(w traffic.Workload) (*stream, error) {
	s := &stream{size: uint32(w.Sizes[0] - traffic.FCS), arrive: [ports]uint16{0, 1}}
	for i := range s.writers {
		w.Reversed = i == 1
		var err error
		if s.writers[i], err = traffic.NewWriter(w); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// write gives every frame of the ring a new packet.
func (s *stream) write(r *ring) {
	for i, addr := range r.frames {
		w := s.writers[i/packet.BatchSize%ports]
		if s.oneWay() {
			w = s.writers[0]
		}
		seq := s.next + uint64(i)
		if s.answers {
			seq = s.next + uint64(i/packet.BatchSize/ports*packet.BatchSize+i%packet.BatchSize)
		}
		if s.shims == nil {
			w.Write(r.batch.Mem[addr:addr+uint64(s.size)], seq, 0)
			continue
		}
		frame := r.batch.Mem[addr : addr+uint64(s.frameLen())]
		w.Write(frame[s.shims.room():], seq, 0)
		s.shims.wrap(frame)
	}
	s.next += uint64(len(r.frames))
	if s.answers {
		s.next -= uint64(len(r.frames) / ports)
	}
}

// oneWay reports whether all packets arrive by one port.
func (s *stream) oneWay() bool { return s.arrive[0] == s.arrive[1] }

// frameLen is the length of what the stream writes into a frame.
func (s *stream) frameLen() uint32 {
	if s.shims == nil {
		return s.size
	}
	return s.size + uint32(s.shims.room())
}

// pass takes each frame once, as descriptors of a driver, through a graph. It is what is timed.
func (r *ring) pass(g *pipeline.Graph, s *stream, now int64) {
	b, size := r.batch, s.frameLen()
	for at := 0; at < len(r.frames); at += packet.BatchSize {
		b.Reset()
		b.Now = now
		in := s.arrive[at/packet.BatchSize%ports]
		for _, addr := range r.frames[at:min(at+packet.BatchSize, len(r.frames))] {
			p := b.Append()
			p.Addr, p.Len, p.WireLen, p.InPort = addr, size, size, in
		}
		g.Run(b)
		if b.Copied != 0 {
			r.freeCopies()
		}
	}
}

// one takes a single packet through a graph, which arrives by a port. It is written into the first frame.
func (r *ring) one(g *pipeline.Graph, in uint16, now int64, write func([]byte) int) {
	b, addr := r.batch, r.frames[0]
	b.Reset()
	b.Now = now
	p := b.Append()
	n := uint32(write(b.Mem[addr : addr+frameSize-port.Headroom]))
	p.Addr, p.Len, p.WireLen, p.InPort = addr, n, n, in
	g.Run(b)
	r.freeCopies()
}

// freeCopies frees the frames of copies; the others are the ring's.
func (r *ring) freeCopies() {
	for i := range r.batch.Pkts {
		if p := &r.batch.Pkts[i]; p.Flags.Has(packet.FlagCopy) {
			r.batch.Frames.FreePacket(p)
		}
	}
}

// evictor pushes everything out of the caches by reading more than they hold.
type evictor struct {
	memory []byte
	sum    byte
}

func newEvictor() *evictor { return &evictor{memory: make([]byte, max(64<<20, 2*lastCache()))} }

func (e *evictor) evict() {
	for i := 0; i < len(e.memory); i += 64 {
		e.memory[i]++ // written, so that zero pages do not back all
		e.sum += e.memory[i]
	}
}

// lastCache is the size of the largest cache in bytes, 0 if unknown.
func lastCache() (size int) {
	for i := range 8 {
		text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu0/cache/index%d/size", i))
		if err != nil {
			break
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(string(text)), "K")); err == nil {
			size = max(size, n<<10)
		}
	}
	return size
}
