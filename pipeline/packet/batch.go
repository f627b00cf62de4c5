package packet

// BatchSize is the most packets that a worker receives at once. Larger batches
// spread fixed costs further but fall out of the first-level cache: 64 packets
// of metadata are 4 KiB.
const BatchSize = 64

// Batch is the vector of packets that runs through the stages of a worker. The
// packets are in order of arrival; dropped ones stay in place, marked with a
// Reason, until the end. Stages may append copies (flooding, mirroring) up to
// the batch's capacity. A batch belongs to one worker.
type Batch struct {
	// Pkts are the packets. Range over indexes: for i := range b.Pkts.
	Pkts []Packet
	// Mem is the pool's memory, which Packet.Addr points into.
	Mem []byte
	// Now is the batch's clock, nanoseconds of CLOCK_TAI, read once per batch.
	Now int64
	// Dropped counts the packets that got a Reason so far in this batch.
	Dropped int
	// Copied counts the copies that stages made in this batch; NoFrame and
	// NoRoom those that they could not make, because no frame was free or the
	// batch was full.
	Copied, NoFrame, NoRoom int
	// Entered counts the packets of this batch that a stage gave another InPort (Enter).
	Entered int
	// Depth is, by output port, how many frames waited when the batch began in
	// the queue that its packets would take: this worker's transmit queue of the port,
	// or the ring to the worker that owns one. Only if a stage needs it (NeedDepth), else
	// empty; and empty where no worker runs the graph.
	Depth []uint32
	// Wait is, by output port, how long packets that join such a queue now will wait there, as far as what left it of late says. It is
	// for stages that need it (NeedWait), as Depth is. For a port of another worker it is the wait in the ring to that worker, and in
	// that worker's transmit queue.
	Wait []Wait
	// Lines are, by output port, the queues of one with classes, nil for the others: its packets wait there by class, which Depth and Wait
	// of the port know nothing of. It is for stages that need these, and empty where no port has classes.
	Lines []*Lines
	// Flows are the names of the packets' flows, by index, as far as the parser has computed them on its way (NeedFlowName). It is
	// shorter than Pkts where packets came later, and empty after Rebuild; a stage that changes a flow key empties it.
	Flows []FlowName
	// Frames allocates frames for copies.
	Frames *Cache

	spare    []Packet // the second array for Rebuild
	pool     *Pool
	returned []returned

	_ [64]byte // what lies behind in memory is another worker's batch
}

// Wait is how long packets of a batch will wait in a queue: the first that joins it, and how much longer each one after it, ns. Both are 0 where
// nothing waits in the queue, and at most MaxWait.
type Wait struct{ First, Each int64 }

// MaxWait bounds Wait.First, and what 256 packets that join a queue wait longer: one minute, in ns.
const MaxWait = 60_000_000_000

// returned is a packet that a stage held back from an earlier batch, by its frame: stages move
// packets within these, and in the batch.
type returned struct {
	frame  uint64
	inPort uint16
}

// FlowName is a flow's name in 64 bits: the hash of a packet's flow key by the switch's family under seed 0, the same at every switch. ID is
// the packet's: the name is valid for no other, and of packets without a name it is another one.
type FlowName struct{ ID, Name uint64 }

// NewBatch returns an empty batch with room for capacity packets (at least
// BatchSize) whose copies take frames from the cache.
func NewBatch(frames *Cache, capacity int) *Batch {
	capacity = max(capacity, BatchSize)
	return &Batch{
		Pkts:   make([]Packet, 0, capacity),
		spare:  make([]Packet, 0, capacity),
		Flows:  make([]FlowName, 0, capacity),
		Mem:    frames.pool.mem,
		Frames: frames,
		pool:   frames.pool,

		returned: make([]returned, 0, capacity),
	}
}

// Data returns the packet's bytes in its first frame. It aliases the frame.
func (b *Batch) Data(p *Packet) []byte {
	return b.Mem[p.Addr : p.Addr+uint64(p.Len)]
}

// Drop marks a living packet as dropped, for a reason. A packet is dropped
// once: stages skip packets that have a Reason.
func (b *Batch) Drop(p *Packet, r Reason) {
	p.Reason = r
	b.Dropped++
}

// Reset empties the batch. The caller has handed over or freed all frames.
func (b *Batch) Reset() {
	b.Pkts = b.Pkts[:0]
	b.Dropped = 0
	b.Copied, b.NoFrame, b.NoRoom, b.Entered = 0, 0, 0, 0
	b.returned, b.Flows = b.returned[:0], b.Flows[:0]
}

// Append adds a packet of the caller's and returns it, zeroed but for OutPort,
// or nil if the batch is full.
func (b *Batch) Append() *Packet {
	n := len(b.Pkts)
	if n == cap(b.Pkts) {
		return nil
	}
	b.Pkts = b.Pkts[:n+1]
	p := &b.Pkts[n]
	*p = Packet{OutPort: NoPort}
	return p
}

// originHeadroom is what packets of the switch's own have in front of them in their frame, as those that a driver received.
const originHeadroom = 256

// Originate appends a packet of the switch's own, length zero bytes that leave by the port out, and returns it; nil if no frame is free,
// the frame is too short or the batch is full. In the books it is a copy at the port in: that of the batch's packets, or out if there are none.
func (b *Batch) Originate(in, out uint16, length int) *Packet {
	if len(b.Pkts) == cap(b.Pkts) || length+originHeadroom > b.pool.FrameSize() {
		return nil
	}
	addr, ok := b.Frames.AllocOne()
	if !ok {
		return nil
	}
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr+originHeadroom, uint32(length), uint32(length)
	p.InPort, p.OutPort, p.Arrival, p.Flags = in, out, b.Now, FlagCopy
	if len(b.Pkts) > 1 {
		p.InQueue = b.Pkts[0].InQueue
	}
	clear(b.Data(p))
	b.Copied++
	return p
}

// Rebuild begins a new order of the batch: it returns the present packets and
// leaves the batch empty, for the stage to append originals and copies in the
// order in which they shall leave. The returned slice is valid until the next
// Rebuild.
func (b *Batch) Rebuild() []Packet {
	old := b.Pkts
	b.Pkts, b.spare, b.Flows = b.spare[:0], old, b.Flows[:0]
	return old
}

// Keep removes the packets of other workers, which own them by now: of[i] is the worker of packet i, and those of self stay, in order.
func (b *Batch) Keep(of []uint8, self uint8) {
	kept, named := 0, 0
	for i, worker := range of {
		if worker != self {
			continue
		}
		b.Pkts[kept] = b.Pkts[i]
		if i < len(b.Flows) {
			b.Flows[kept] = b.Flows[i]
			named++
		}
		kept++
	}
	b.Pkts, b.Flows = b.Pkts[:kept], b.Flows[:named]
}

// Enter gives a packet another port of arrival, a tunnel's: the one before has consumed it, and the new one received it.
func (b *Batch) Enter(p *Packet, port uint16) {
	p.InPort = port
	b.Entered++
}

// Return notes of a packet of the batch, marked with FlagCopy, that it arrived earlier, by another
// port than its InPort, which is where the books of this batch count it.
func (b *Batch) Return(p *Packet, inPort uint16) {
	b.returned = append(b.returned, returned{b.pool.Base(p.Addr), inPort})
}

// ArrivalPort is the port by which a packet has come to the switch: InPort, but for packets that
// were held back, and for copies of these.
func (b *Batch) ArrivalPort(p *Packet) uint16 {
	if p.Flags.Has(FlagCopy) {
		frame := b.pool.Base(p.Addr)
		for _, r := range b.returned {
			if r.frame == frame {
				return r.inPort
			}
		}
	}
	return p.InPort
}

// FrameLen is the length in bytes of the longest packet on the wire that the packet becomes: WireLen, but for a large one (Large)
// that of its segments.
func (b *Batch) FrameLen(p *Packet) uint32 {
	if p.Next != 0 {
		if l := b.pool.Large(p.Next); l.Kind != 0 && p.Flags.Has(FlagL4) {
			return uint32(p.Payload) + uint32(l.Size)
		}
	}
	return p.WireLen
}

// Segments is the number of packets on the wire that the packet becomes: 1, but for a large one (Large).
func (b *Batch) Segments(p *Packet) uint64 {
	if p.Next != 0 {
		if l := b.pool.Large(p.Next); l.Kind != 0 && l.Size != 0 && p.Flags.Has(FlagL4) && p.WireLen > uint32(p.Payload) {
			return (uint64(p.WireLen) - uint64(p.Payload) + uint64(l.Size) - 1) / uint64(l.Size)
		}
	}
	return 1
}

// Pool returns the pool whose frames the packets live in.
func (b *Batch) Pool() *Pool { return b.pool }

// Copy makes dst a copy of src, bytes and metadata, in new frames with
// the same offset into the frame, marked with FlagCopy. It reports false, and
// dst owns no frame, if too few frames are free; that is counted.
func (b *Batch) Copy(dst, src *Packet) bool {
	addr, ok := b.copyPiece(src.Addr, src.Len)
	if !ok {
		b.NoFrame++
		return false
	}
	*dst = *src
	dst.Addr, dst.Next = addr, 0
	dst.Flags |= FlagCopy
	var last uint32
	for link := src.Next; link != 0; {
		piece, length, next := b.pool.Next(link)
		addr, ok := b.copyPiece(piece, length)
		if !ok {
			b.Frames.FreePacket(dst)
			b.NoFrame++
			return false
		}
		l := b.pool.Link(addr, length, 0)
		if last == 0 {
			dst.Next = l
		} else {
			b.pool.setNext(last, l)
		}
		last, link = l, next
	}
	if dst.Next != 0 {
		b.pool.SetLarge(dst.Next, b.pool.Large(src.Next))
	}
	b.Copied++
	if in := b.ArrivalPort(src); in != src.InPort {
		b.Return(dst, in)
	}
	return true
}

func (b *Batch) copyPiece(addr uint64, length uint32) (uint64, bool) {
	base, ok := b.Frames.AllocOne()
	if !ok {
		return 0, false
	}
	to := base + addr - b.pool.Base(addr)
	copy(b.Mem[to:to+uint64(length)], b.Mem[addr:addr+uint64(length)])
	return to, true
}

// Headroom returns the free bytes in front of the packet in its frame.
func (b *Batch) Headroom(p *Packet) int { return int(p.Addr - b.pool.Base(p.Addr)) }

// AppendBytes appends the bytes of all frames of the packet to dst. Not for
// the hot path.
func (b *Batch) AppendBytes(dst []byte, p *Packet) []byte {
	dst = append(dst, b.Data(p)...)
	for link := p.Next; link != 0; {
		addr, length, next := b.pool.Next(link)
		dst = append(dst, b.Mem[addr:addr+uint64(length)]...)
		link = next
	}
	return dst
}
