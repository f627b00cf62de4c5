package pint

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
)

// passing are the packets of a batch, of one plan, whose digests transit is to
// write: together, so that the hashes of all are computed side by side.
type passing struct {
	plan  *livePlan
	head  uint32 // of the plan's shims, under headMask
	shift uint   // of a digest, in the word that it begins
	block *pint.Block

	// The values that the plan asks for: those of usual plans, and others that
	// differ between packets.
	latency, use bool
	others       []pint.Value

	at [pint.BlockSize]uint64 // of the shim, in the batch's memory
}

// headMask leaves the digest's length and the plan in the first word of a shim:
// without version, interval and hop.
const headMask = 0x0700ffff

// Where hop number and digest stand in a shim.
const hopAt, digestAt = 1, 4

// newPassing makes the block, in which the switch's id stands once and for all.
func newPassing(pl *livePlan, id uint64) passing {
	b := new(pint.Block)
	for i := range b.Values[pint.SwitchID] {
		b.Values[pint.SwitchID][i] = id
	}
	t := passing{plan: pl, head: uint32(pl.bytes-1)<<24 | uint32(pl.id), shift: uint(64 - 8*pl.bytes), block: b}
	for _, v := range pl.encoder.Values() {
		switch v {
		case pint.SwitchID:
		case pint.HopLatency:
			t.latency = true
		case pint.EgressUtilisation:
			t.use = true
		default:
			t.others = append(t.others, v)
		}
	}
	return t
}

// add takes in the packet whose shim data begins with, the end of the packet in
// its frame. It reports whether it did: not packets of other plans, and not those
// that want a closer look.
func (t *passing) add(b *packet.Batch, p *packet.Packet, data []byte, seen *pint.Observed) bool {
	if len(data) < digestAt+8 {
		return false
	}
	head := binary.BigEndian.Uint32(data)
	hop := uint64(head>>16&0xff) + 1
	if head&headMask != t.head || hop > pint.MaxHops {
		return false
	}
	d := t.block
	if d.N == pint.BlockSize {
		t.write(b)
	}
	i := d.N & (pint.BlockSize - 1) // BCE
	d.N++
	t.at[i] = p.Addr + uint64(p.Len) - uint64(len(data))
	d.ID[i], d.Hop[i], d.Digest[i] = p.ID, hop, binary.BigEndian.Uint64(data[digestAt:])>>(t.shift&63)
	if t.latency {
		d.Values[pint.HopLatency][i] = seen[pint.HopLatency]
	}
	if t.use {
		d.Values[pint.EgressUtilisation][i] = seen[pint.EgressUtilisation]
	}
	for _, v := range t.others {
		d.Values[v&7][i] = seen[v&7]
	}
	return true
}

// write writes hop numbers and digests of the packets taken in, and forgets these.
// The batch's headers can be more than the first-level cache keeps, so both are
// written here, and each packet's line becomes dirty once.
func (t *passing) write(b *packet.Batch) {
	d := t.block
	if d.N == 0 {
		return
	}
	t.plan.encoder.EncodeBlock(d)
	behind := uint64(1)<<(t.shift&63) - 1 // what follows the digest in its word
	for i, digest := range d.Digest[:d.N] {
		shim := b.Mem[t.at[i]:][:digestAt+8]
		shim[hopAt] = uint8(d.Hop[i])
		word := shim[digestAt:]
		binary.BigEndian.PutUint64(word, binary.BigEndian.Uint64(word)&behind|digest<<(t.shift&63))
	}
	d.N = 0
}
