package port

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/pipeline/packet"
)

// PcapOutput is a capture file that packets leave to: of one pcap port, or of
// several ports of one PcapSet, whose packets it brings back into the order of
// their batch. (A worker sends a batch port by port.) In pcapng, interface n is
// the n-th port added.
type PcapOutput struct {
	file    *pcapfile.Out
	ports   uint32       // that write here
	open    atomic.Int32 // of these, not closed yet; ports may close at once
	pending []outgoing
	mixed   bool // pending is of several ports
	err     error
}

// outgoing is a packet of the present batch: idx was its index there.
type outgoing struct {
	packet packet.Packet
	pool   *packet.Pool
	mem    []byte
	frames *packet.Cache
	iface  uint32
	idx    uint16
}

// NewPcapOutput returns an output that writes to, and closes, the file.
func NewPcapOutput(file *pcapfile.Out) *PcapOutput { return &PcapOutput{file: file} }

// push takes packets of a batch. Their frames are kept until flush.
func (o *PcapOutput) push(b *packet.Batch, q *pcapQueue, idx []uint16) {
	o.mixed = o.mixed || len(o.pending) != 0
	for _, i := range idx {
		o.pending = append(o.pending, outgoing{
			packet: b.Pkts[i], pool: b.Pool(), mem: b.Mem, frames: q.frames, iface: q.port.iface, idx: i,
		})
	}
}

// flush writes the packets of a batch in its order and frees their frames.
func (o *PcapOutput) flush() {
	if len(o.pending) == 0 {
		return
	}
	if o.mixed {
		slices.SortFunc(o.pending, func(a, b outgoing) int { return cmp.Compare(a.idx, b.idx) })
	}
	for i := range o.pending {
		out := &o.pending[i]
		if o.err == nil {
			o.err = o.write(out)
		}
		out.frames.FreePacket(&out.packet)
	}
	o.pending, o.mixed = o.pending[:0], false
}

func (o *PcapOutput) write(out *outgoing) error {
	p := &out.packet
	length := p.Len
	for link := p.Next; link != 0; {
		_, n, next := out.pool.Next(link)
		length += n
		link = next
	}
	h := pcapfile.Header{Time: p.Arrival, CapLen: length, WireLen: p.WireLen, Interface: out.iface, LinkType: pcapfile.Ethernet}
	if err := o.file.WriteHeader(h); err != nil {
		return err
	}
	if _, err := o.file.Write(out.mem[p.Addr : p.Addr+uint64(p.Len)]); err != nil {
		return err
	}
	for link := p.Next; link != 0; {
		addr, n, next := out.pool.Next(link)
		if _, err := o.file.Write(out.mem[addr : addr+uint64(n)]); err != nil {
			return err
		}
		link = next
	}
	return nil
}

// release closes the file with its last port.
func (o *PcapOutput) release() error {
	if o.open.Add(-1) != 0 {
		return nil
	}
	// A failed write fails the close once more, with the file's name.
	return o.file.Close()
}
