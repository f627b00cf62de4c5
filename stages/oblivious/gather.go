package oblivious

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// block is what the sampler is asked about at once.
type block struct {
	ids     [oblivious.Block]uint64
	lengths [oblivious.Block]uint32 // 0 if ranks do not depend on them
	protos  [oblivious.Block]uint8  // as keys of 5-tuples have them
	bytes   uint64                  // on the wire, of all packets so far
}

// reads is how many bytes of an IP header gather reads.
const reads = 6

// fill takes the packets that count, at most oblivious.Block, and returns a bit for each of them.
func (to *block) fill(pkts []packet.Packet, mem []byte, weighs bool) (living uint64) {
	for i := 0; i < len(pkts); i++ {
		if gathers && len(mem) >= reads {
			from := i
			i = gather(to, &pkts[0], from, len(pkts), &mem[0], len(mem)-reads, weighs)
			if living |= 1<<i - 1<<from; i >= len(pkts) {
				break
			}
		}
		if p := &pkts[i]; counts(p) {
			living |= 1 << i
			to.one(i&(oblivious.Block-1), p, mem, weighs)
		}
	}
	return living
}

// one takes packet i.
func (to *block) one(i int, p *packet.Packet, mem []byte, weighs bool) {
	i &= oblivious.Block - 1 // BCE
	to.bytes += uint64(p.WireLen)
	to.ids[i], to.protos[i] = p.ID, keyProto(p)
	if weighs {
		to.lengths[i] = length(mem, p)
	}
}

// noProtos are those of packets whose keys have none.
var noProtos [oblivious.Block]uint8

// keyProto is the protocol of a packet's 5-tuple, 0 if it has none.
func keyProto(p *packet.Packet) uint8 {
	if p.Flags&(packet.FlagFragment|packet.FlagIPv6) == packet.FlagFragment|packet.FlagIPv6 {
		return header.ProtoFragment
	}
	return p.Proto
}
