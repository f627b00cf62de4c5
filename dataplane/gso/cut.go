package gso

import (
	"encoding/binary"

	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/pipeline/header"
)

// Cut is a large packet on its way: Next returns its segments one by one. It reads each byte of the packet once, so the memory
// may be another process's, and the headers that it repeats are a private copy. The zero value has no packet.
type Cut struct {
	layout Layout
	pieces [][]byte
	piece  int // where reading goes on: in pieces[piece] at offset
	offset int
	have   int // bytes of the private copy, of which those in front of at are copied
	at     int
	size   int // payload of a segment, bytes
	left   int // bytes to come: of payload, or behind Whole of the packet
	index  int // of the next segment
	on     bool
	bytes  [MaxHeaders]byte
}

// On reports whether there are segments to come.
func (c *Cut) On() bool { return c.on }

// Source has the packet read from memory in pieces, which are the caller's, until it is cut.
func (c *Cut) Source(pieces [][]byte) {
	c.pieces, c.piece, c.offset = pieces, 0, 0
	c.on = false
}

// Read copies the next bytes of the source.
func (c *Cut) Read(dst []byte) (n int) {
	for n < len(dst) && c.piece < len(c.pieces) {
		s := c.pieces[c.piece][c.offset:]
		k := shmem.CopyFrom(dst[n:], s)
		n += k
		if c.offset += k; k == len(s) {
			c.piece, c.offset = c.piece+1, 0
		}
	}
	return n
}

// Begin reads the headers of a packet of total bytes, which are what is left of the source, and whose segments must fit into room bytes.
// What the header h of virtio-net says about them must be what they say.
func (c *Cut) Begin(h []byte, total, room int) Fault {
	if h[0]&NeedsChecksum == 0 {
		return Checksum
	}
	if f := c.BeginKind(h[1], int(binary.LittleEndian.Uint16(h[4:])), total, room); f != OK {
		return f
	}
	if int(binary.LittleEndian.Uint16(h[6:])) != c.layout.L4 || int(binary.LittleEndian.Uint16(h[8:])) != c.layout.Field {
		c.on = false
		return Checksum
	}
	return OK
}

// BeginKind is Begin for a packet of our own, with segments of size bytes of payload.
func (c *Cut) BeginKind(kind uint8, size, total, room int) Fault {
	if total > MaxLarge {
		return Long
	}
	c.have = c.Read(c.bytes[:min(total, MaxHeaders)])
	l, ok := Parse(c.bytes[:c.have])
	if !ok || l.Kind != kind&^ECN || size < MinSegment || l.Headers+size > room {
		return Segment
	}
	c.layout, c.size, c.index = l, size, 0
	c.left, c.at = total-l.Headers, l.Headers
	c.on = true
	return OK
}

// Total is the whole packet, in bytes; behind Begin.
func (c *Cut) Total() int { return c.layout.Headers + c.left }

// Size is the payload of a segment, in bytes.
func (c *Cut) Size() int { return c.size }

// Kind is what BeginKind was given, without ECN.
func (c *Cut) Kind() uint8 { return c.layout.Kind }

// Taken is how many segments Next has returned.
func (c *Cut) Taken() int { return c.index }

// Frame is the longest segment, in bytes.
func (c *Cut) Frame() int { return c.layout.Headers + c.size }

// Whole begins to copy the packet as it is, instead of its segments: the first bytes of it, and Rest those behind. It follows Begin.
func (c *Cut) Whole(dst []byte) int {
	c.left, c.at = c.left+c.layout.Headers, 0
	return c.Rest(dst)
}

// Rest copies the next bytes of a packet that is copied whole.
func (c *Cut) Rest(dst []byte) int {
	n := c.payload(dst[:min(c.left, len(dst))])
	c.left -= n
	c.on = c.left > 0
	return n
}

// payload copies the next bytes, of which the first ones are in the private copy.
func (c *Cut) payload(dst []byte) int {
	n := copy(dst, c.bytes[c.at:c.have])
	c.at += n
	return n + c.Read(dst[n:])
}

// Next copies the next segment, with its own headers and checksums; 0 if dst has less room than Begin was given.
func (c *Cut) Next(dst []byte) int {
	l := &c.layout
	n := min(c.left, c.size)
	total := l.Headers + n
	if total > len(dst) {
		c.on = false
		return 0
	}
	dst = dst[:total]
	copy(dst, c.bytes[:l.Headers])
	c.payload(dst[l.Headers:])
	c.left -= n
	c.finish(dst)
	c.index++
	c.on = c.left > 0
	return total
}

// finish makes the headers those of segment index, of which left bytes of payload are behind.
func (c *Cut) finish(dst []byte) {
	l := &c.layout
	ip, l4 := dst[l.L3:], dst[l.L4:]
	var sum uint16
	if l.V6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40))
		sum = header.Sum(ip[8:40], 0)
	} else {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+uint16(c.index))
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:l.L4-l.L3]))
		sum = header.Sum(ip[12:20], 0)
	}
	pseudo := [4]byte{1: header.ProtoTCP, 2: byte(len(l4) >> 8), 3: byte(len(l4))}
	if l.Kind == UDP {
		pseudo[1] = header.ProtoUDP
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
		binary.BigEndian.PutUint16(l4[6:], 0)
		putChecksum(l4[6:], header.Sum(l4, header.Sum(pseudo[:], sum)))
		return
	}
	const fin, push, cwr = 1 << 0, 1 << 3, 1 << 7
	binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(c.index*c.size))
	if c.left != 0 {
		l4[13] &^= fin | push // of the last one
	}
	if c.index != 0 {
		l4[13] &^= cwr // of the first one
	}
	binary.BigEndian.PutUint16(l4[16:], 0)
	binary.BigEndian.PutUint16(l4[16:], ^header.Sum(l4, header.Sum(pseudo[:], sum)))
}
