package pint

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// passing are the packets of a batch, of one plan, whose digests transit is to
// write: together, so that the hashes of all are computed side by side. A shim with a
// digest of up to four bytes begins with a word of
//
//	63      55    47       31                    0
//	| version | hop | plan | digest | what follows |
//
// and is read and written by it alone.
type passing struct {
	// In front, so that they begin with a line of the cache.
	at    [encode.BlockSize]uint64 // of the shim, in the batch's memory
	words [encode.BlockSize]uint64 // that the shims began with

	plan  *livePlan
	head  uint32 // of the plan's shims, under headMask
	shift uint   // of a digest, in the word that it ends in
	long  bool   // digests of more than four bytes
	block *encode.Block

	// A source's shim: the word that it begins with, of hop 0 and digest 0, and what of that word is behind it.
	fresh, behind uint64

	asked
}

// asked are the values that a plan asks for: those of usual plans, and others that differ between packets. The switch's id is none of
// them, as it stays.
type asked struct {
	latency, use bool
	others       []pint.Value
}

func askedBy(pl *livePlan) (a asked) {
	for _, v := range pl.encoder.Values() {
		switch v {
		case pint.SwitchID:
		case pint.HopLatency:
			a.latency = true
		case pint.EgressUtilisation:
			a.use = true
		default:
			a.others = append(a.others, v)
		}
	}
	return a
}

// set gives packet i of a block what the stage has seen of it.
func (a *asked) set(d *encode.Block, i int, seen *pint.Observed) {
	i &= encode.BlockSize - 1 // BCE
	if a.latency {
		d.Values[pint.HopLatency][i] = seen[pint.HopLatency]
	}
	if a.use {
		d.Values[pint.EgressUtilisation][i] = seen[pint.EgressUtilisation]
	}
	for _, v := range a.others {
		d.Values[v&7][i] = seen[v&7]
	}
}

// newBlock makes a block in which the switch's id is constant.
func newBlock(id uint64) *encode.Block {
	b := &encode.Block{Same: 1 << pint.SwitchID}
	for i := range b.Values[pint.SwitchID] {
		b.Values[pint.SwitchID][i] = id
	}
	return b
}

// headMask leaves the digest's length and the plan in the first word of a shim:
// without version, interval and hop.
const headMask = 0x0700ffff

// Where hop number and digest are in a shim, and where the hop number is in its first word.
const hopAt, digestAt, hopShift = 1, 4, 48

func newPassing(pl *livePlan, id uint64) passing {
	n := pl.bytes + pl.edge
	t := passing{plan: pl, head: uint32(n-1)<<24 | uint32(pl.id), shift: uint(32 - 8*pl.bytes), block: newBlock(id), asked: askedBy(pl)}
	if pl.bytes > 4 {
		t.long, t.shift = true, uint(64-8*pl.bytes)
	}
	if n <= 4 {
		t.fresh, t.behind = (header.ShimVersion<<28|uint64(t.head))<<32, uint64(1)<<(32-8*n)-1
		if pl.edge > 0 {
			t.fresh |= id << (32 - 8*n) // it fits, as New has checked
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
	word := binary.BigEndian.Uint64(data)
	digest := word & (1<<32 - 1) >> (t.shift & 63)
	if t.long {
		digest = binary.BigEndian.Uint64(data[digestAt:]) >> (t.shift & 63)
	}
	t.put(b, p, p.Addr+uint64(p.Len)-uint64(len(data)), word, hop, digest, seen)
	return true
}

// put takes in a packet whose shim is at an offset of the batch's memory, or is to be, and begins with word.
func (t *passing) put(b *packet.Batch, p *packet.Packet, at, word, hop, digest uint64, seen *pint.Observed) {
	d := t.block
	if d.N == encode.BlockSize {
		t.write(b)
	}
	d.Spread(pint.HopLatency, d.N)
	d.Spread(pint.EgressUtilisation, d.N)
	i := d.N & (encode.BlockSize - 1) // BCE
	d.N++
	t.at[i], t.words[i] = at, word
	d.ID[i], d.Hop[i], d.Digest[i] = p.ID, hop, digest
	t.set(d, i, seen)
}

// write writes hop numbers and digests of the packets taken in, and forgets these.
// The batch's headers can be more than the first-level cache keeps, so both are
// written here, in one store, and each packet's line becomes dirty once.
func (t *passing) write(b *packet.Batch) {
	d := t.block
	n := d.N
	if n == 0 {
		return
	}
	t.plan.encoder.EncodeBlock(d)
	d.N, d.Same = 0, 1<<pint.SwitchID
	if t.long {
		t.writeLong(b, n)
		return
	}
	mem, shift := b.Mem, t.shift&63
	keep := ^(uint64(1)<<32 - 1<<shift) // all but the digest
	if wide {
		scatter(&mem[0], &t.at, &t.words, &d.Digest, keep, uint64(shift), n)
		return
	}
	for i, word := range t.words[:n] {
		binary.BigEndian.PutUint64(mem[t.at[i]:], word&keep+1<<hopShift|d.Digest[i]<<shift)
	}
}

// writeLong is for digests that do not fit a shim's first word.
func (t *passing) writeLong(b *packet.Batch, n int) {
	behind := uint64(1)<<(t.shift&63) - 1 // what follows the digest in its word
	for i, digest := range t.block.Digest[:n] {
		shim := b.Mem[t.at[i]:][:digestAt+8]
		shim[hopAt] = uint8(t.block.Hop[i])
		word := shim[digestAt:]
		binary.BigEndian.PutUint64(word, binary.BigEndian.Uint64(word)&behind|digest<<(t.shift&63))
	}
}
