package pint

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The second word of an IPv4 header, of identification, flags and fragment
// offset. mark is the reserved flag: between source and sink it says that the
// identification is a digest, so that switches distinguish it from a host's number.
const (
	wordAtomic     = 0x4000
	wordMark       = 0x8000
	wordFragmented = 0x3fff // MF and the offset
)

// identification is the whole work of carrier ipid.
func (s *stage) identification(b *packet.Batch, p *packet.Packet, in, out bool) count {
	if !p.Flags.Has(packet.FlagIPv4) {
		return leftOther
	}
	data := b.Data(p)
	ip := (*header.IPv4)(data[p.L3:])
	word := binary.BigEndian.Uint32(ip[4:8])
	marked, atomic := word&wordMark != 0, word&(wordAtomic|wordFragmented) == wordAtomic
	if in {
		return s.begin(b, p, data, ip, word, marked, atomic)
	}
	if !marked || !atomic {
		return leftBare
	}
	pl := &s.plans[0]
	digest := uint64(word >> 16)
	hop := s.hop(pl, p, data, 0)
	if pl.loops && s.loops(b, p, pl, hop, digest) {
		return leftLooping
	}
	if out && hop > 0 {
		s.end(b, p, 0, hop, digest, 0)
		setWord(ip, word, wordAtomic)
		return sunk
	}
	digest = pl.encoder.Encode(p.ID, hop, digest, &s.seen)
	if out {
		s.report(b, p, pl.id, hop, digest, false)
		setWord(ip, word, wordAtomic)
		return sunk
	}
	setWord(ip, word, uint32(digest)<<16|wordMark|wordAtomic)
	return transited
}

// begin is the source.
func (s *stage) begin(b *packet.Batch, p *packet.Packet, data []byte, ip *header.IPv4, word uint32, marked, atomic bool) count {
	switch {
	case !atomic:
		return leftOther
	case marked:
		b.Drop(p, ReasonHostShim)
		return leftForged
	case word>>16 != 0 && !s.anyID:
		return leftNonzero
	}
	pl := &s.plans[0]
	digest := pl.encoder.Encode(p.ID, s.hop(pl, p, data, 0), 0, &s.seen)
	setWord(ip, word, uint32(digest)<<16|wordMark|wordAtomic)
	return sourced
}

// setWord replaces identification, flags and offset, and updates the checksum.
func setWord(ip *header.IPv4, old, word uint32) {
	binary.BigEndian.PutUint32(ip[4:8], word)
	binary.BigEndian.PutUint16(ip[10:12], header.ChecksumUpdate32(ip.Checksum(), old, word))
}
