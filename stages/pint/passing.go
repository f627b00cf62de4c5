package pint

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
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

// straight takes packets of the batch from i on that just pass from one port to
// another with a shim of the newest plan, which are most of what a switch in the
// middle of a network sees, and returns how many it took. It does what observe and
// transit do; whatever is out of the ordinary it leaves to them.
func (s *stage) straight(b *packet.Batch, i int) (taken int) {
	first := &b.Pkts[i]
	if int(first.OutPort) >= len(s.ports) {
		return 0
	}
	in, out := &s.ports[first.InPort], &s.ports[first.OutPort]
	if in.edge || out.edge {
		return 0
	}
	const kind, usual = packet.FlagShim | packet.FlagVLAN | packet.FlagCopy, packet.FlagShim
	const least = header.EthernetLen + digestAt + 8
	t, d, used := &s.passing[0], s.passing[0].block, out.used
	latency, same := uint64(0), uint64(0) // packets of a batch often waited equally long
	for i < len(b.Pkts) {
		p := &b.Pkts[i]
		if p.Reason != 0 || p.InPort != first.InPort || p.OutPort != first.OutPort || p.Flags&kind != usual ||
			p.ID == 0 || p.WireLen > out.maxFrame || p.Len < least {
			break
		}
		shim := b.Mem[p.Addr+header.EthernetLen:][:digestAt+8]
		head := binary.BigEndian.Uint32(shim)
		hop := uint64(head>>16&0xff) + 1
		if head&headMask != t.head || hop > pint.MaxHops {
			break
		}
		if d.N == pint.BlockSize {
			t.write(b)
		}
		k := d.N & (pint.BlockSize - 1) // BCE
		d.N++
		t.at[k] = p.Addr + header.EthernetLen
		d.ID[k], d.Hop[k], d.Digest[k] = p.ID, hop, binary.BigEndian.Uint64(shim[digestAt:])>>(t.shift&63)
		if s.needLatency {
			// Arrival may be a clock's of another core, or a capture's.
			waited := uint64(max(0, s.now-p.Arrival))
			d.Values[pint.HopLatency][k] = waited
			if waited != latency {
				out.latency.addMany(latency, same)
				latency, same = waited, 0
			}
			same++
		}
		d.Values[pint.EgressUtilisation][k] = used
		i++
		taken++
	}
	out.latency.addMany(latency, same)
	s.counters.now[transited] += uint64(taken)
	return taken
}
