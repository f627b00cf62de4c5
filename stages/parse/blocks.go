package parse

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// plainIP is what of a plain packet has fixed offsets behind the link header, in bytes.
const plainIP = header.IPv4Len + header.TCPLen

// unchanging are the flags that say nothing about the IP packet.
const unchanging = packet.FlagShim | packet.FlagVLAN | packet.FlagQinQ | packet.FlagMulticast | packet.FlagBroadcast | packet.FlagCopy

// plainBlocks are packet.IDBlocks of TCP and UDP over IPv4 without options, word
// by word, so that their hashes are computed side by side. a and key are the words of the flow key.
type plainBlocks struct {
	at                      [packet.BatchSize]int32 // index in the batch
	a, f, t1, t2, rest, key [packet.BatchSize]uint64
	ids, flows              [packet.BatchSize]uint64
}

// hash stores the ids of the first n packets, their flow hashes if flows says so, and in names, if it is not nil, the names of their
// flows: all 64 bits of the flow hashes, so the parser's seed has to be 0.
func (q *plainBlocks) hash(pkts []packet.Packet, m *hash.Member, n int, flows bool, names []packet.FlowName) {
	m.Uint64x5s(q.ids[:n], q.a[:], q.f[:], q.t1[:], q.t2[:], q.rest[:])
	if !flows && names == nil {
		for i, at := range q.at[:n] {
			pkts[at].ID = q.ids[i]
		}
		return
	}
	m.Uint64x2s(q.flows[:n], q.a[:], q.key[:])
	for i, at := range q.at[:n] {
		p := &pkts[at]
		p.ID = q.ids[i]
		if flows {
			p.FlowHash = uint32(q.flows[i])
		}
		if names != nil {
			names[at] = packet.FlowName{ID: q.ids[i], Name: q.flows[i]}
		}
	}
}

// hashFlows stores the flow hashes of the first n packets.
func (q *plainBlocks) hashFlows(pkts []packet.Packet, m *hash.Member, n int) {
	m.Uint64x2s(q.flows[:n], q.a[:], q.key[:])
	for i, at := range q.at[:n] {
		pkts[at].FlowHash = uint32(q.flows[i])
	}
}
