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
// pint.MaxHops.
func (s *stage) end(b *packet.Batch, p *packet.Packet, i, hop int, digest uint64) {
	t := &s.endings[i]
	d := t.block
	if s.open != i || d.N == encode.BlockSize {
		s.record()
		s.open = i
	}
	r := s.ahead(d.N)
	if r == nil {
		s.counters.now[ringFull]++
		return
	}
	r.describe(b, p, t.plan.id, hop, 0, false)
	k := d.N & (encode.BlockSize - 1) // BCE
	d.N++
	d.ID[k], d.Hop[k], d.Digest[k] = p.ID, uint64(hop), digest
	t.set(d, k, &s.seen)
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
