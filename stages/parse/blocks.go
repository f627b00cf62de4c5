package parse

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// plainIP is what of a plain packet has fixed places behind the link header, in bytes.
const plainIP = header.IPv4Len + header.TCPLen

// unchanging are the flags that say nothing about the IP packet.
const unchanging = packet.FlagShim | packet.FlagVLAN | packet.FlagQinQ | packet.FlagMulticast | packet.FlagBroadcast | packet.FlagCopy

// plainBlocks are packet.IDBlocks of TCP and UDP over IPv4 without options, word
// by word, so that their hashes are computed side by side.
type plainBlocks struct {
	n  int
	at [packet.BatchSize]int32 // index in the batch
	// The words of the block; until hash, w[1] and w[3] are as loaded, and end
	// is what w[3] misses.
	w   [5][packet.BatchSize]uint64
	end [packet.BatchSize]uint64
	ids [packet.BatchSize]uint64
}

// load sets all words but the last of block n.
func (b *plainBlocks) load(n int, ip *[plainIP]byte) {
	b.w[0][n] = binary.LittleEndian.Uint64(ip[12:20]) // both addresses
	b.w[1][n] = binary.LittleEndian.Uint64(ip[2:10])  // length, id, flags and offset, TTL, protocol
	b.w[2][n] = binary.LittleEndian.Uint64(ip[20:28])
	b.w[3][n] = binary.LittleEndian.Uint64(ip[28:36])
	b.end[n] = binary.LittleEndian.Uint64(ip[30:38])
}

// hash stores the ids of the packets taken in, and forgets these.
func (b *plainBlocks) hash(pkts []packet.Packet, seed uint64, ipidCarrier bool) {
	n := b.n
	b.n = 0
	for i := range b.w[1][:n] {
		w := b.w[1][i]
		proto := w >> 56
		id := w >> 16 & 0xffff
		if ipidCarrier && w>>32&0xff7f == 0x40 { // DF alone, whatever the reserved bit
			id = 0
		}
		b.w[1][i] = proto | id<<16 | w>>32&0xff1f<<32 | w<<48
		tcp := uint64(0)
		if proto == header.ProtoTCP {
			tcp = 1
		}
		b.w[3][i] = (b.w[3][i]&(1<<48-1) | b.end[i]>>48<<48) & -tcp
	}
	hash.Uint64x5s(b.ids[:n], seed, b.w[0][:], b.w[1][:], b.w[2][:], b.w[3][:], b.w[4][:])
	for i, at := range b.at[:n] {
		pkts[at].ID = b.ids[i]
	}
}
