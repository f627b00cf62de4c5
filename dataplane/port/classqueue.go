package port

import (
	"math"
	"math/bits"

	"github.com/weirswitch/weir/pipeline/limiter"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Classed is a Queue whose packets wait by class. Its Transmit moves what it does not take to the end of idx, where it keeps its
// order. Its methods are for its owner.
type Classed interface {
	Queue
	// Dropped counts packets that the last Transmit did not take, and that are dropped.
	Dropped(b *packet.Batch, idx []uint16)
	// Classify has its lines tell the class of a packet, and how many frames a class holds at most.
	Classify(l *packet.Lines)
	// Waiting reads what waits now.
	Waiting(w *Waiting)
	// AppendClasses appends what is counted by class.
	AppendClasses(counts []ClassCounters) []ClassCounters
}

// Waiting is how many frames wait in a queue with classes, and how many have joined the lines, which wraps.
type Waiting struct {
	Held, Joined [packet.MaxClasses]uint32
	// Ahead are those that are in front of all classes: the device's. Left have left the classes, and joined it.
	Ahead, Left uint32
}

// ClassCounters are what became of the packets of a class that were to leave by a port: Packets = Sent + Dropped + Unsent + those that wait.
// They count packets, and the bytes of these without FCS.
type ClassCounters struct {
	Name string `json:"name"`
	// Packets came to the class, and found room in it, or did not: Dropped. Those that wait when another process takes the switch over are counted there. Unsent were in it when the port closed, or was opened with other classes.
	Packets      uint64 `json:"packets"`
	Bytes        uint64 `json:"bytes"`
	Sent         uint64 `json:"sent"`
	SentBytes    uint64 `json:"sent_bytes"`
	Dropped      uint64 `json:"dropped"`
	DroppedBytes uint64 `json:"dropped_bytes"`
	Unsent       uint64 `json:"unsent"`
	// Depth packets wait now, of DepthBytes. Room is how many frames wait at most.
	Depth      uint64 `json:"depth"`
	DepthBytes uint64 `json:"depth_bytes"`
	Room       uint64 `json:"room"`
}

// Add sums the counters of another queue.
func (c *ClassCounters) Add(o *ClassCounters) {
	c.Packets += o.Packets
	c.Bytes += o.Bytes
	c.Sent += o.Sent
	c.SentBytes += o.SentBytes
	c.Dropped += o.Dropped
	c.DroppedBytes += o.DroppedBytes
	c.Unsent += o.Unsent
	c.Depth += o.Depth
	c.DepthBytes += o.DepthBytes
	c.Room += o.Room
}

// Close makes what waits unsent: the counters of a queue that closes.
func (c *ClassCounters) Close() {
	c.Unsent += c.Depth
	c.Depth, c.DepthBytes, c.Room = 0, 0, 0
}

// classes are the classes of a port, which its queues share: first the strict ones, then those with weights, each in the order of the
// configuration.
type classes struct {
	of         []class
	strict     int // the first so many are
	classifier *packet.Classifier
}

type class struct {
	name    string
	quantum int64 // bytes in each round of those with weights
	frames  uint32
	bytes   int64
	rate    limiter.Bucket
	burst   int64
}

// newClasses returns the classes of a configuration, nil without. The class with the smallest weight sends a longest packet in each round.
func newClasses(c *Config, maxFrame int) *classes {
	if len(c.Classes) == 0 {
		return nil
	}
	if maxFrame <= 0 {
		maxFrame = 1514
	}
	s := &classes{of: make([]class, 0, len(c.Classes))}
	least := maxWeight
	var order []int
	for i := range c.Classes {
		if w := c.Classes[i].Weight; w == 0 {
			order = append(order, i)
		} else {
			least = min(least, w)
		}
	}
	s.strict = len(order)
	for i := range c.Classes {
		if c.Classes[i].Weight != 0 {
			order = append(order, i)
		}
	}
	rest := len(c.Classes) - 1
	for i := range c.Classes {
		if c.Classes[i].Default {
			rest = i
		}
	}
	for at, i := range order {
		if i == rest {
			s.classifier = packet.NewClassifier(uint8(at))
		}
	}
	s.of = s.of[:len(order)]
	for at, i := range order {
		k, to := &c.Classes[i], &s.of[at]
		to.name, to.frames, to.bytes = k.Name, uint32(c.classPackets(i)), k.QueueBytes
		to.quantum = int64(maxFrame) * int64(k.Weight) / int64(least)
		to.burst = setRate(&to.rate, k.RateBits, maxFrame)
		for _, word := range k.DSCP {
			dscp, _ := parseDSCP(word) // Validate has seen it
			s.classifier.DSCP(dscp, uint8(at))
		}
		for _, pcp := range k.PCP {
			s.classifier.PCP(pcp, uint8(at))
		}
	}
	return s
}

// aheadFrames is how many frames the device has at most of a port with classes: a packet that is to go first waits for these.
const aheadFrames = 256

// classQueue holds packets by class until they may leave by the queue behind it. Packets wait in the frames in which they came, of
// which each class has a bounded number.
//
//	Transmit --> class 0 --> strict ---\
//	         --> class 1 --> strict ----+--(rate)--> Queue.Transmit
//	         --> class 2 --> weight --\ |
//	         --> class 3 --> weight --+-/ deficit round robin
//
// Deficit round robin is that of Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round-Robin" (1996).
type classQueue struct {
	Queue
	*shaper
	frames  *packet.Cache
	lines   [packet.MaxClasses]line
	turn    turn
	granted [packet.MaxClasses]int64 // bytes that each class may send now
	blocked packet.Reason
	batch   *packet.Batch
	chosen  [packet.BatchSize]uint8 // the classes of batch
	idx     [packet.BatchSize]uint16
	// entering is what another process has of the queue, between Enter and Begin.
	entering *backlog
}

// line is where the packets of a class wait.
type line struct {
	fifo   []packet.Packet
	tail   uint32 // behind the last; turn.head has the first
	joined uint32 // frames, which wraps
	counts ClassCounters
}

// turn is all that a choice of packets changes. It is put back if the device took fewer.
type turn struct {
	head    [packet.MaxClasses]uint32
	held    [packet.MaxClasses]uint32 // frames
	bytes   [packet.MaxClasses]int64
	deficit [packet.MaxClasses]int64
	all     int64 // bytes
	frames  uint32
	at      int  // the class whose turn it is, of those with weights
	begun   bool // it has its quantum of this round
}

func newClassQueue(s *shaper, q Queue, frames *packet.Cache) *classQueue {
	k := &classQueue{Queue: q, shaper: s, frames: frames, batch: packet.NewBatch(frames, packet.BatchSize)}
	k.turn.at = s.classes.strict
	for c := range s.classes.of {
		slots := uint(1) << bits.Len(uint(s.classes.of[c].frames-1))
		k.lines[c].fifo = make([]packet.Packet, slots)
		k.lines[c].counts.Name = s.classes.of[c].name
	}
	return k
}

// Transmit implements Queue.
func (q *classQueue) Transmit(b *packet.Batch, idx []uint16) (taken int) {
	full := uint8(0) // what comes later of a class that was full once stays behind what came first
	for k, i := range idx {
		p := &b.Pkts[i]
		c := q.classes.classifier.Class(b.Mem, p) & (packet.MaxClasses - 1) // BCE
		n := uint32(1)
		if p.Next != 0 {
			n = uint32(b.Pool().FramesOf(p))
		}
		if full>>c&1 != 0 || !q.admits(c, n, int64(p.WireLen)) {
			full |= 1 << c
			continue
		}
		q.join(c, n, p)
		if taken != k {
			copy(idx[taken+1:k+1], idx[taken:k])
			idx[taken] = i
		}
		taken++
	}
	q.drain()
	return taken
}

// admits reports whether a class has room.
func (q *classQueue) admits(c uint8, frames uint32, bytes int64) bool {
	k := &q.classes.of[c]
	return q.turn.held[c]+frames <= k.frames && (k.bytes == 0 || q.turn.bytes[c]+bytes <= k.bytes || q.turn.held[c] == 0)
}

// join puts a packet at the end of its class.
func (q *classQueue) join(c uint8, frames uint32, p *packet.Packet) {
	l, t := &q.lines[c], &q.turn
	l.fifo[l.tail&uint32(len(l.fifo)-1)] = *p
	l.tail++
	l.joined += frames
	l.counts.Packets++
	l.counts.Bytes += uint64(p.WireLen)
	t.held[c] += frames
	t.frames += frames
	t.bytes[c] += int64(p.WireLen)
	t.all += int64(p.WireLen)
}

// Dropped implements Classed.
func (q *classQueue) Dropped(b *packet.Batch, idx []uint16) {
	for _, i := range idx {
		p := &b.Pkts[i]
		n := &q.lines[q.classes.classifier.Class(b.Mem, p)&(packet.MaxClasses-1)].counts
		n.Packets++
		n.Bytes += uint64(p.WireLen)
		n.Dropped++
		n.DroppedBytes += uint64(p.WireLen)
	}
}

// drain sends what the rates allow and the device has room for.
func (q *classQueue) drain() {
	q.blocked = reasonQueueFull
	for q.turn.frames != 0 {
		room := min(aheadFrames-q.Queue.Depth(), packet.BatchSize)
		if room <= 0 {
			return
		}
		granted := q.grant()
		before := q.turn
		n := q.choose(room, granted)
		taken := 0
		if n != 0 {
			taken = q.Queue.Transmit(q.batch, q.idx[:n])
		}
		if taken != n {
			if r := q.Queue.Refusal(); r == packet.ReasonPortDown {
				q.blocked = r
			}
			q.turn = before
			q.choose(taken, granted)
		}
		q.settle(granted, taken)
		if taken < room {
			return
		}
	}
}

// grant takes tokens for all that waits: of the port, which it returns, and of each class with a rate.
func (q *classQueue) grant() (granted int64) {
	now := int64(0)
	granted = q.turn.all
	if q.burst != math.MaxInt64 {
		now = q.clock()
		granted = int64(q.limit.Take(now, uint64(granted)))
	}
	for c := range q.classes.of {
		k := &q.classes.of[c]
		q.granted[c] = q.turn.bytes[c]
		if k.burst == math.MaxInt64 || q.turn.bytes[c] == 0 {
			continue
		}
		if now == 0 {
			now = q.clock()
		}
		q.granted[c] = int64(k.rate.Take(now, uint64(q.turn.bytes[c])))
	}
	return granted
}

// settle gives back the tokens that the first packets of the batch did not need, and counts these.
func (q *classQueue) settle(granted int64, taken int) {
	var used [packet.MaxClasses]int64
	all := int64(0)
	for k := range taken {
		p, c := &q.batch.Pkts[k], q.chosen[k]&(packet.MaxClasses-1)
		used[c] += min(int64(p.WireLen), q.classes.of[c].burst)
		all += min(int64(p.WireLen), q.burst)
		n := &q.lines[c].counts
		n.Sent++
		n.SentBytes += uint64(p.WireLen)
	}
	if q.burst != math.MaxInt64 {
		q.limit.GiveBack(uint64(granted), uint64(granted-all))
	}
	for c := range q.classes.of {
		if k := &q.classes.of[c]; k.burst != math.MaxInt64 && q.granted[c] != 0 {
			k.rate.GiveBack(uint64(q.granted[c]), uint64(q.granted[c]-used[c]))
		}
	}
}

// choose takes up to most packets from their classes into batch, in the order in which they leave, of so many bytes in all. What it
// chooses follows from turn, granted and its arguments alone.
func (q *classQueue) choose(most int, bytes int64) (n int) {
	left := q.granted
	q.batch.Pkts = q.batch.Pkts[:0]
	for ; n < most; n++ {
		c, ok := q.next(&left)
		if !ok {
			break
		}
		l, t := &q.lines[c], &q.turn
		p := &l.fifo[t.head[c]&uint32(len(l.fifo)-1)]
		length := int64(p.WireLen)
		if bytes -= min(length, q.burst); bytes < 0 {
			break // it is the next one
		}
		left[c] -= min(length, q.classes.of[c].burst)
		q.batch.Pkts = append(q.batch.Pkts, *p)
		q.chosen[n], q.idx[n] = c, uint16(n)
		t.head[c]++
		frames := uint32(1)
		if p.Next != 0 {
			frames = uint32(q.batch.Pool().FramesOf(p))
		}
		t.held[c] -= frames
		t.frames -= frames
		t.bytes[c] -= length
		t.all -= length
		if int(c) < q.classes.strict {
			continue
		}
		if t.deficit[c] -= length; t.head[c] == l.tail {
			t.deficit[c] = 0
			t.pass(q.classes)
		}
	}
	return n
}

// next is the class whose first packet leaves next, if there is one that has a packet and may send it.
func (q *classQueue) next(left *[packet.MaxClasses]int64) (c uint8, ok bool) {
	for c := range q.classes.strict {
		if q.ready(uint8(c), left) {
			return uint8(c), true
		}
	}
	t := &q.turn
	for idle := len(q.classes.of) - q.classes.strict; idle > 0; t.pass(q.classes) {
		c := uint8(t.at) & (packet.MaxClasses - 1)
		if !q.ready(c, left) {
			// A class that its rate holds up keeps a round's worth at most.
			t.deficit[c] = min(t.deficit[c], q.classes.of[c].quantum)
			idle--
			continue
		}
		if !t.begun {
			t.deficit[c] += q.classes.of[c].quantum
			t.begun = true
		}
		if int64(q.first(c).WireLen) <= t.deficit[c] {
			return c, true
		}
		idle = len(q.classes.of) - q.classes.strict // it has more in the next round
	}
	return 0, false
}

// pass gives the turn to the next class with a weight.
func (t *turn) pass(of *classes) {
	t.begun = false
	if t.at++; t.at == len(of.of) {
		t.at = of.strict
	}
}

// first is the packet of a class that leaves first.
func (q *classQueue) first(c uint8) *packet.Packet {
	l := &q.lines[c]
	return &l.fifo[q.turn.head[c]&uint32(len(l.fifo)-1)]
}

// ready reports whether a class has a packet that its rate lets pass.
func (q *classQueue) ready(c uint8, left *[packet.MaxClasses]int64) bool {
	return q.turn.head[c] != q.lines[c].tail && min(int64(q.first(c).WireLen), q.classes.of[c].burst) <= left[c]
}

// Sleep implements Sleeper, for queues that do.
func (q *classQueue) Sleep() (ready bool) {
	s, ok := q.Queue.(Sleeper)
	return ok && s.Sleep()
}

// LinkDown implements Doubter, for queues that do.
func (q *classQueue) LinkDown() {
	if d, ok := q.Queue.(Doubter); ok {
		d.LinkDown()
	}
}

// Refusal implements Queue.
func (q *classQueue) Refusal() packet.Reason { return q.blocked }

// Service implements Queue.
func (q *classQueue) Service() bool {
	q.drain()
	return q.Queue.Service() || q.turn.frames != 0
}

// Depth implements Queue: what waits in all classes, and what waits behind them.
func (q *classQueue) Depth() int { return int(q.turn.frames) + q.Queue.Depth() }

// Classify implements Classed.
func (q *classQueue) Classify(l *packet.Lines) {
	l.Classifier = q.classes.classifier
	for c := range q.classes.of {
		l.Room[c] = q.classes.of[c].frames
	}
}

// Waiting implements Classed.
func (q *classQueue) Waiting(w *Waiting) {
	w.Held = q.turn.held
	w.Ahead, w.Left = uint32(max(q.Queue.Depth(), 0)), -q.turn.frames
	for c := range q.classes.of {
		w.Joined[c] = q.lines[c].joined
		w.Left += q.lines[c].joined
	}
}

// AppendClasses implements Classed.
func (q *classQueue) AppendClasses(counts []ClassCounters) []ClassCounters {
	for c := range q.classes.of {
		n := q.lines[c].counts
		n.Depth, n.DepthBytes = uint64(q.lines[c].tail-q.turn.head[c]), uint64(q.turn.bytes[c])
		n.Room = uint64(q.classes.of[c].frames)
		counts = append(counts, n)
	}
	return counts
}

// Rehome implements Rehomer.
func (q *classQueue) Rehome(frames *packet.Cache) {
	q.frames = frames
	if r, ok := q.Queue.(Rehomer); ok {
		r.Rehome(frames)
	}
}

// Close implements Queue.
func (q *classQueue) Close() (Rest, error) {
	waiting := q.freeWaiting()
	rest, err := q.Queue.Close()
	rest.Unsent += waiting
	return rest, err
}

// freeWaiting frees the packets that wait, and returns how many.
func (q *classQueue) freeWaiting() (packets int) {
	for c := range q.classes.of {
		for l := &q.lines[c]; q.turn.head[c] != l.tail; q.turn.head[c]++ {
			q.frames.FreePacket(q.first(uint8(c)))
			packets++
		}
	}
	q.turn.held, q.turn.bytes, q.turn.all, q.turn.frames = [packet.MaxClasses]uint32{}, [packet.MaxClasses]int64{}, 0, 0
	return packets
}
