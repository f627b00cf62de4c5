package pint

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// run is a row of packets that pass from one port to another with a shim of the newest plan, which are most of what a
// switch in the middle of a network sees. It goes through three steps:
//
//	straight (gather, or plain)   takes the packets into the block, and adds them up
//	beginBatch                    learns by that how much the link is used
//	settle                        gives the packets this value, and counts them
//
// What any of them does is what observe and transit do to each packet.
type run struct {
	from, taken int // the first in the block, and how many
	bytes       uint64
	differ      uint64 // 0: all waited equally long
	out         *port
}

// gathering is what takes a run into the block, beside the packets: how they look, and where their fields go. A packet
// belongs to the run if, under mask, each 32 bits of its metadata are between those of least and most, it has an id, and its shim begins
// with head.
type gathering struct {
	mask, least, most packet.Packet // in front, each in a line

	head uint64
	now  int64
	// first is what the first packet waited.
	first uint64
	shift uint64 // of a digest in the word that a shim begins with

	// Pointers to the first free entry of each.
	at, words, ids, hops, digests, waits *uint64

	bytes, differ uint64 // of the run
}

// The flags that matter, of these the one that is set, and the least that the first frame has of a packet.
const (
	runFlags, runFlag = packet.FlagShim | packet.FlagVLAN | packet.FlagCopy, packet.FlagShim
	runBytes          = header.EthernetLen + digestAt + 8
)

// passes reports whether a run may begin with a packet, by its ports. Where packets wait by class, each is looked at.
func (s *stage) passes(p *packet.Packet) bool {
	return s.usual && int(p.OutPort) < len(s.ports) && !s.ports[p.InPort].edge && !s.ports[p.OutPort].edge && s.ports[p.OutPort].lines == nil
}

// straight takes the run that begins with packet i, which passes, as far as the block has room. Its length may be 0. Whatever is out of the
// ordinary is left to the others.
func (s *stage) straight(b *packet.Batch, i int) (r run) {
	pkts := b.Pkts[i:]
	inPort, outPort := pkts[0].InPort, pkts[0].OutPort
	out := &s.ports[outPort]
	t, d := &s.passing[0], s.passing[0].block
	if d.N == encode.BlockSize {
		t.write(b)
	}
	r.from, r.out = d.N, out
	pkts = pkts[:min(len(pkts), encode.BlockSize-d.N)]
	g := &s.gathering
	g.mask.OutPort, g.mask.InPort, g.mask.Reason, g.mask.Flags = 0xffff, 0xffff, 0xff, runFlags
	g.mask.Len, g.mask.WireLen = ^uint32(0), ^uint32(0)
	g.least.OutPort, g.least.InPort, g.least.Flags, g.least.Len = outPort, inPort, runFlag, runBytes
	g.most.OutPort, g.most.InPort, g.most.Flags, g.most.Len, g.most.WireLen = outPort, inPort, runFlag, ^uint32(0), out.maxFrame
	g.head, g.now, g.first, g.shift = uint64(t.head), s.now+out.wait.First, uint64(max(0, s.now+out.wait.First-pkts[0].Arrival)), uint64(t.shift)
	g.bytes, g.differ = 0, 0
	if wide && len(b.Mem) >= 8 {
		k := d.N & (encode.BlockSize - 1) // BCE
		g.at, g.words = &t.at[k], &t.words[k]
		g.ids, g.hops, g.digests, g.waits = &d.ID[k], &d.Hop[k], &d.Digest[k], &d.Values[pint.HopLatency][k]
		r.taken = gather(g, &pkts[0], len(pkts), &b.Mem[0], len(b.Mem)-8)
	} else {
		r.taken = t.plain(g, pkts, b.Mem)
	}
	r.bytes, r.differ = g.bytes, g.differ
	if out.wait.Each != 0 && s.needLatency {
		r.differ = inLine(d.Values[pint.HopLatency][d.N:d.N+r.taken], pkts, g.now, out.wait.Each)
		out.wait.First += out.wait.Each * int64(r.taken)
	}
	d.N += r.taken
	return r
}

// inLine writes how long packets that leave one after another take, the first at a time and each one so much after the one in front,
// and how these differ.
func inLine(waits []uint64, pkts []packet.Packet, leaves, each int64) (differ uint64) {
	for i := range waits {
		waits[i] = uint64(max(0, leaves-pkts[i].Arrival))
		leaves += each
		differ |= waits[i] ^ waits[0]
	}
	return differ
}

// plain is gather for all processors.
func (t *passing) plain(g *gathering, pkts []packet.Packet, mem []byte) (taken int) {
	d := t.block
	// Whatever stays the same is kept in variables: the compiler has to think that
	// each store may change what lies in memory.
	inPort, outPort, maxFrame := g.least.InPort, g.least.OutPort, g.most.WireLen
	head, shift, now, first := g.head, g.shift&63, g.now, g.first
	waits := &d.Values[pint.HopLatency]
	bytes, differ, k := uint64(0), uint64(0), d.N
	for j := range pkts {
		p := &pkts[j]
		if p.Reason != 0 || p.InPort != inPort || p.OutPort != outPort || p.Flags&runFlags != runFlag ||
			p.ID == 0 || p.WireLen > maxFrame || p.Len < runBytes {
			break
		}
		at := p.Addr + header.EthernetLen
		word := binary.BigEndian.Uint64(mem[at:])
		hop := word>>hopShift&0xff + 1
		if word>>32&headMask != head || hop > pint.MaxHops {
			break
		}
		// Arrival may be a clock's of another core, or a capture's.
		waited := uint64(max(0, now-p.Arrival))
		k &= encode.BlockSize - 1 // BCE
		t.at[k], t.words[k], waits[k] = at, word, waited
		d.ID[k], d.Hop[k], d.Digest[k] = p.ID, hop, word&(1<<32-1)>>shift
		bytes += uint64(p.WireLen)
		differ |= waited ^ first
		k++
		taken++
	}
	g.bytes, g.differ = bytes, differ
	return taken
}

// settle does for a run what straight left: it counts the packets, and gives them the use of the link.
func (s *stage) settle(r *run) {
	if r.taken == 0 {
		return
	}
	d := s.passing[0].block
	s.counters.now[transited] += uint64(r.taken)
	if r.from == 0 {
		d.Values[pint.EgressUtilisation][0] = r.out.used
		d.Same |= 1 << pint.EgressUtilisation
	} else {
		d.Spread(pint.EgressUtilisation, r.from)
		used := d.Values[pint.EgressUtilisation][r.from:d.N]
		for i := range used {
			used[i] = r.out.used
		}
	}
	if !s.needLatency {
		return
	}
	waits := d.Values[pint.HopLatency][r.from:d.N]
	if r.from == 0 && r.differ == 0 {
		d.Same |= 1 << pint.HopLatency
	} else {
		d.Same &^= 1 << pint.HopLatency // straight has written each
	}
	latencies := r.out.latency
	latencies.total += uint64(r.taken)
	if r.differ == 0 {
		latencies.counts[bucketOf(waits[0])] += uint64(r.taken)
		latencies.highest = max(latencies.highest, waits[0])
		return
	}
	for _, waited := range waits {
		latencies.counts[bucketOf(waited)]++
		latencies.highest = max(latencies.highest, waited)
	}
}
