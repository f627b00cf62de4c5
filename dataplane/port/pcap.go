package port

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonNotEthernet is the drop reason of packets that an interface of another
// link type captured, in a capture of several interfaces.
var reasonNotEthernet = packet.Register("not_ethernet", "the packet was not captured on Ethernet")

// PcapConfig says what a pcap port receives and where its packets go. The port
// owns the files from PcapSet.Add on.
type PcapConfig struct {
	Name string
	In   *pcapfile.In // nil: receives nothing
	Out  *PcapOutput  // nil: transmitted packets go nowhere
}

// PcapSet is the pcap ports that one worker plays together: packets arrive in
// the order of their capture times over all ports (ties: of port numbers),
// packets of one file always in the file's order, and all reception ends when
// an output cannot be written. The zero value is an empty set.
type PcapSet struct {
	queues  []*pcapQueue
	outputs []*PcapOutput
	failed  bool
}

// Pcap is a port whose wire is a capture file in each direction. A packet's
// Arrival is its capture time. A packet longer than a frame is received without
// its bytes, dropped as packet.ReasonTooLong; one of an interface that is not
// Ethernet as reasonNotEthernet.
type Pcap struct {
	name   string
	set    *PcapSet
	in     *pcapfile.In
	out    *PcapOutput
	iface  uint32 // of this port in out
	stop   atomic.Bool
	err    error // why the capture ended early; the worker's until it has ended
	opened bool
}

// Add makes a port of the set. The set's queues must belong to one worker.
func (s *PcapSet) Add(c PcapConfig) *Pcap {
	p := &Pcap{name: c.Name, set: s, in: c.In, out: c.Out}
	if c.Out != nil {
		p.iface = c.Out.ports
		if c.Out.ports++; p.iface == 0 {
			s.outputs = append(s.outputs, c.Out)
		}
		c.Out.open.Add(1)
	}
	return p
}

// Open implements Port.
func (p *Pcap) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	if queue != 0 || p.opened {
		return nil, errors.New("open " + p.name + ": a pcap port has one queue")
	}
	p.opened = true
	q := &pcapQueue{port: p, number: number, frames: frames, ended: p.in == nil}
	p.set.queues = append(p.set.queues, q)
	return q, nil
}

// Info implements Port.
func (p *Pcap) Info() Info {
	info := Info{Name: p.name, Driver: "pcap", Mode: "capture file", Queues: 1, Up: true, State: StateUp}
	if p.in != nil {
		info.Interface = p.in.Path()
		info.Mode = p.in.Format().String()
	}
	return info
}

// Counters implements Port: the worker sees every packet there is.
func (p *Pcap) Counters() Counters { return Counters{} }

// StopReceive implements Port.
func (p *Pcap) StopReceive() error {
	p.stop.Store(true)
	return nil
}

// ReadError returns why the capture could not be read to its end, nil if it
// could. Valid once the worker has ended.
func (p *Pcap) ReadError() error { return p.err }

// Close implements Port. The last port of an output closes it and reports what
// could not be written.
func (p *Pcap) Close() error {
	var errs []error
	if p.in != nil {
		errs = append(errs, p.in.Close())
	}
	if p.out != nil {
		errs = append(errs, p.out.release())
	}
	return errors.Join(errs...)
}

type pcapQueue struct {
	port   *Pcap
	number uint16
	frames *packet.Cache
	head   pcapfile.Header // of the next packet, if loaded
	loaded bool
	ended  bool
}

// Packets at the same offset of frames as large as those of a replay would all
// fall into one set of the second-level cache, and stages would seem slower
// than they are: l2 took 25 ns per packet, and takes 18. So packets in frames
// of stagger bytes or more begin at different lines: staggerStep is an odd
// number of lines of 64 bytes.
const (
	stagger     = 256 << 10
	staggerStep = 17 * 64
)

// PcapRoom returns the longest packet that a pcap port receives into a frame.
func PcapRoom(frameSize int) int {
	if frameSize < stagger {
		return frameSize - Headroom
	}
	return frameSize - Headroom - (packet.BatchSize-1)*staggerStep
}

// peek loads the head of the next packet, and reports whether there is one.
func (q *pcapQueue) peek() bool {
	if q.ended || q.port.stop.Load() {
		return false
	}
	if q.loaded {
		return true
	}
	h, err := q.port.in.Next()
	if err != nil {
		q.fail(err)
		return false
	}
	q.head, q.loaded = h, true
	return true
}

func (q *pcapQueue) fail(err error) {
	q.ended = true
	if err != io.EOF {
		q.port.err = err
	}
}

// first reports whether no other port's next packet comes before this one's.
func (s *PcapSet) first(q *pcapQueue) bool {
	for _, o := range s.queues {
		if o == q || !o.peek() {
			continue
		}
		if o.head.Time < q.head.Time || o.head.Time == q.head.Time && o.number < q.number {
			return false
		}
	}
	return true
}

// flush writes what the batch before sent.
func (s *PcapSet) flush() {
	for _, o := range s.outputs {
		if o.flush(); o.err != nil {
			s.failed = true
		}
	}
}

func (q *pcapQueue) Receive(b *packet.Batch) int {
	q.port.set.flush()
	if q.port.set.failed {
		q.ended = true
	}
	if !q.peek() {
		return 0
	}
	var addrs [packet.BatchSize]uint64
	want := q.frames.Alloc(addrs[:min(packet.BatchSize, cap(b.Pkts)-len(b.Pkts))])
	n := 0
	for n < want && q.peek() && q.port.set.first(q) && q.take(b, addrs[n]) {
		n++
	}
	for _, addr := range addrs[n:want] {
		q.frames.Free(addr)
	}
	return n
}

// take reads the packet whose head is loaded into a frame and the batch. It
// reports false, and takes neither, if the file does not hold it.
func (q *pcapQueue) take(b *packet.Batch, addr uint64) bool {
	h, reason := &q.head, packet.Reason(0)
	q.loaded = false
	pool := q.frames.Pool()
	switch {
	case h.LinkType != pcapfile.Ethernet:
		reason = reasonNotEthernet
	case int64(h.CapLen) > int64(PcapRoom(pool.FrameSize())):
		reason = packet.ReasonTooLong
	}
	addr += Headroom
	if pool.FrameSize() >= stagger {
		addr += uint64(pool.Index(addr)%packet.BatchSize) * staggerStep
	}
	length := h.CapLen
	var err error
	if reason != 0 {
		length = 0
		err = q.port.in.Skip()
	} else {
		err = q.port.in.Read(b.Mem[addr : addr+uint64(length)])
	}
	if err != nil {
		q.fail(err)
		return false
	}
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr, length, h.WireLen
	p.Arrival = h.Time
	p.InPort = q.number
	if reason != 0 {
		b.Drop(p, reason)
	}
	return true
}

func (q *pcapQueue) Transmit(b *packet.Batch, idx []uint16) int {
	o := q.port.out
	if o == nil {
		for _, i := range idx {
			q.frames.FreePacket(&b.Pkts[i])
		}
		return len(idx)
	}
	if o.err != nil {
		return 0
	}
	o.push(b, q, idx)
	return len(idx)
}

func (q *pcapQueue) Service() bool {
	q.port.set.flush()
	return false
}

// Depth implements Queue: a file takes all at once.
func (q *pcapQueue) Depth() int { return 0 }

func (q *pcapQueue) FD() int { return -1 }

func (q *pcapQueue) Ended() bool { return q.ended || q.port.stop.Load() }

// Refusal implements Queue: an output refuses only after an error of writing.
func (q *pcapQueue) Refusal() packet.Reason { return packet.ReasonPortDown }

func (q *pcapQueue) Close() (Rest, error) {
	q.port.set.flush()
	return Rest{}, nil
}
