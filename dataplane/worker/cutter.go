package worker

import (
	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// cutter cuts large packets for queues whose other end does not take them.
type cutter struct {
	cut    gso.Cut
	batch  *packet.Batch // of segments
	idx    [packet.BatchSize]uint16
	pieces [2 + gso.MaxLarge/2048][]byte
}

func newCutter(frames *packet.Cache) *cutter {
	return &cutter{batch: packet.NewBatch(frames, packet.BatchSize)}
}

// sendLarge is transmit where large packets may be among the others. Order is kept.
func (w *Worker) sendLarge(b *packet.Batch, o *outlet, idx []uint16, mixed bool) {
	taker, _ := o.queue.(port.LargeTaker)
	from, bytes := 0, uint64(0)
	for k, i := range idx {
		p := &b.Pkts[i]
		if p.Next != 0 {
			if l := b.Pool().Large(p.Next); l.Kind != 0 && (taker == nil || !taker.TakesLarge(l)) {
				if from != k {
					w.transmit(b, o, idx[from:k], bytes, mixed)
				}
				w.sendSegments(b, o, p, l)
				from, bytes = k+1, 0
				continue
			}
		}
		bytes += uint64(p.WireLen)
	}
	if from != len(idx) {
		w.transmit(b, o, idx[from:], bytes, mixed)
	}
}

// sendSegments sends a large packet as its segments. The first of them has the packet's fate, the others are copies.
func (w *Worker) sendSegments(b *packet.Batch, o *outlet, p *packet.Packet, l packet.Large) {
	c := w.cutter
	room := min(int(o.maxFrame), b.Pool().FrameSize()-port.Headroom)
	if !c.begin(b, p, l, room) {
		w.drop(b, p, packet.ReasonTooLong)
		return
	}
	count := &w.counters[p.InPort]
	segment := *p
	segment.Next = 0
	for sent := 0; c.cut.On(); sent += len(c.batch.Pkts) {
		c.batch.Reset()
		bytes := uint64(0)
		for len(c.batch.Pkts) < packet.BatchSize && c.cut.On() {
			base, ok := w.cache.AllocOne()
			if !ok {
				break
			}
			c.idx[len(c.batch.Pkts)] = uint16(len(c.batch.Pkts)) // queues with classes change their order
			s := c.batch.Append()
			*s = segment
			s.Addr = base + port.Headroom
			s.Len = uint32(c.cut.Next(b.Mem[s.Addr:][:room]))
			s.WireLen = s.Len
			if sent+len(c.batch.Pkts) > 1 {
				s.Flags |= packet.FlagCopy
				count.copied++
			}
			bytes += uint64(s.WireLen)
		}
		n := len(c.batch.Pkts)
		if n == 0 { // no frame is free: the rest ends here
			if sent != 0 {
				segment.Flags |= packet.FlagCopy
				count.copied++
			}
			count.fate[fateOf(&segment)].reasons[packet.ReasonNoFrame]++
			break
		}
		w.transmit(c.batch, o, c.idx[:n], bytes, true)
	}
	w.cache.FreePacket(p)
}

// begin reads the headers of a large packet.
func (c *cutter) begin(b *packet.Batch, p *packet.Packet, l packet.Large, room int) bool {
	n := 1
	c.pieces[0] = b.Data(p)
	for link := p.Next; link != 0; n++ {
		if n == len(c.pieces) {
			return false
		}
		addr, size, next := b.Pool().Next(link)
		c.pieces[n] = b.Mem[addr:][:size]
		link = next
	}
	c.cut.Source(c.pieces[:n])
	return c.cut.BeginKind(l.Kind, int(l.Size), int(p.WireLen), room) == gso.OK
}
