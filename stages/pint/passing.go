package pint

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
)

// passing are the packets of a batch, of one plan, whose digests transit is to
// write: together, so that the hashes of all are computed side by side.
type passing struct {
	block *pint.Block
	at    [pint.BlockSize]uint64 // of the shim, in the batch's memory
}

// newPassing makes the block, in which the switch's id stands once and for all.
func newPassing(id uint64) passing {
	b := new(pint.Block)
	for i := range b.Values[pint.SwitchID] {
		b.Values[pint.SwitchID][i] = id
	}
	return passing{block: b}
}

// add takes in a packet whose shim, with the hop number of this switch, stands at
// the given place.
func (t *passing) add(b *packet.Batch, p *packet.Packet, pl *livePlan, shim header.Shim, at uint64, seen *pint.Observed) {
	d := t.block
	if d.N == pint.BlockSize {
		t.write(b, pl)
	}
	i := d.N & (pint.BlockSize - 1) // BCE
	d.N++
	t.at[i] = at
	d.ID[i], d.Hop[i], d.Digest[i] = p.ID, uint64(shim.Hop()), shim.Digest()
	for _, v := range pl.values {
		d.Values[v&7][i] = seen[v&7]
	}
}

// write writes the digests of the packets taken in, and forgets these.
func (t *passing) write(b *packet.Batch, pl *livePlan) {
	d := t.block
	if d.N == 0 {
		return
	}
	pl.encoder.EncodeBlock(d)
	n := uint64(header.ShimLen(pl.bytes))
	for i := range d.N {
		at := t.at[i&(pint.BlockSize-1)]
		header.Shim(b.Mem[at : at+n]).SetDigest(d.Digest[i&(pint.BlockSize-1)])
	}
	d.N = 0
}
