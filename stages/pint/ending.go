package pint

import (
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// ending are packets of a batch, of one plan, whose digests end at this switch. Their records are written at once but for the last hop's
// part of the digests, which are computed for all of them side by side; then all are given to the exporter together.
type ending struct {
	plan  *livePlan
	block *encode.Block
	// plain: a packet's hop number is its shim's, and nothing but the digest is asked of it.
	plain bool
	asked
}

func newEnding(pl *livePlan, id uint64) ending {
	return ending{plan: pl, block: newBlock(id), plain: !pl.loops && !pl.ttlHops, asked: askedBy(pl)}
}

// end takes in a packet of the plan with number i, with the digest that it came with, and the hop number of this switch, 1 to
// pint.MaxHops. It is recorded for 2^weight packets.
func (s *stage) end(b *packet.Batch, p *packet.Packet, i, hop int, digest uint64, weight uint8) {
	t := &s.endings[i]
	d := t.block
	if s.open != i || d.N == encode.BlockSize {
		s.record()
		s.open = i
	}
	r := s.ahead(d.N)
	if r == nil {
		s.lose(weight)
		return
	}
	r.describe(b, p, t.plan.id, hop, 0, false)
	r.weight = weight
	k := d.N & (encode.BlockSize - 1) // BCE
	d.N++
	d.ID[k], d.Hop[k], d.Digest[k] = p.ID, uint64(hop), digest
	t.set(d, k, &s.seen)
}

// locals takes the run of packets from edge to edge that begins with packet i, and returns how many those are: most of what a switch
// sees that is alone with its hosts. What it does is what observe and local do to each.
func (s *stage) locals(b *packet.Batch, i int) (n int) {
	pkts := b.Pkts[i:min(len(b.Pkts), i+encode.BlockSize)]
	inPort, outPort := pkts[0].InPort, pkts[0].OutPort
	if int(outPort) >= len(s.ports) || !s.ports[inPort].edge || !s.ports[outPort].edge || s.ports[outPort].lines != nil {
		return 0
	}
	out, differ := &s.ports[outPort], uint64(0)
	leaves, each := s.now+out.wait.First, out.wait.Each // when the first and how much later each one after it
	now, first := leaves, uint64(max(0, leaves-pkts[0].Arrival))
	for n < len(pkts) {
		p := &pkts[n]
		if p.Reason != 0 || p.InPort != inPort || p.OutPort != outPort || p.Flags.Has(packet.FlagCopy) || p.ID == 0 {
			break
		}
		differ |= uint64(max(0, now-p.Arrival)) ^ first
		now += each
		s.ids[n&(encode.BlockSize-1)] = p.ID
		n++
	}
	if n == 0 {
		return 0
	}
	pkts = pkts[:n]
	s.counters.now[local] += uint64(n)
	if s.needLatency {
		out.latency.addEach(pkts, leaves, each, first, differ)
		out.wait.First += each * int64(n)
	}
	read := uint8(s.module.read.Load())
	if read > 0 {
		pint.ShareHashes(s.hashes[:n], s.ids[:n])
	}
	s.seen[pint.EgressUtilisation] = out.used
	for k := range pkts {
		p := &pkts[k]
		if read > 0 && !pint.InShare(s.hashes[k&(encode.BlockSize-1)], read) {
			s.counters.now[unread]++
			continue
		}
		s.seen[pint.HopLatency] = uint64(max(0, leaves+each*int64(k)-p.Arrival))
		s.end(b, p, 0, 1, 0, read)
	}
	return n
}

// record completes the records of the packets that were taken in.
func (s *stage) record() {
	t := &s.endings[s.open]
	d := t.block
	n := d.N
	if n == 0 {
		return
	}
	t.plan.encoder.EncodeBlock(d)
	d.N, d.Same = 0, 1<<pint.SwitchID
	for i, digest := range d.Digest[:n] {
		s.ahead(i).Digest = digest
	}
	s.commit(n)
}
