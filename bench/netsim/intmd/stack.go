package intmd

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Instructions are the instruction bitmap: what each hop writes, in the order of the bits, the highest first.
type Instructions uint16

// The instructions of version 2.1. Bits 9 to 14 are reserved.
const (
	NodeID             Instructions = 1 << (15 - iota)
	Ports                           // level 1 ingress and egress interface, 16 bits each
	HopLatency                      // ns here
	Queue                           // queue id, 8 bits, and its occupancy, 24 bits: packets here
	IngressTime                     // 64 bits, ns
	EgressTime                      // 64 bits, ns
	Level2Ports                     // level 2 ingress and egress interface, 32 bits each
	Utilisation                     // of the egress interface: 65536 is all of it here, as for PINT
	Buffer                          // buffer id, 8 bits, and its occupancy, 24 bits
	ChecksumComplement Instructions = 1

	longs    = IngressTime | EgressTime | Level2Ports // 8 bytes each
	reserved = Buffer - 2                             // bits 9 to 14
	known    = ^reserved
)

// names are those of the values that this package fills in, as PINT's plans call them.
var names = []struct {
	name string
	bit  Instructions
}{
	{"switch_id", NodeID}, {"ports", Ports}, {"hop_latency", HopLatency}, {"queue_occupancy", Queue},
	{"ingress_time", IngressTime}, {"egress_time", EgressTime}, {"egress_utilisation", Utilisation},
}

// ParseInstructions reads a list of names: "switch_id,hop_latency".
func ParseInstructions(list string) (Instructions, error) {
	var i Instructions
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		bit := Instructions(0)
		var all []string
		for _, n := range names {
			if all = append(all, n.name); n.name == word {
				bit = n.bit
			}
		}
		if bit == 0 {
			return 0, fmt.Errorf("INT has no metadata %q: choose of %s", word, strings.Join(all, ", "))
		}
		i |= bit
	}
	if i == 0 {
		return 0, fmt.Errorf("INT needs metadata, as switch_id")
	}
	return i, nil
}

// String is the list of names.
func (i Instructions) String() string {
	var list []string
	for _, n := range names {
		if i&n.bit != 0 {
			list, i = append(list, n.name), i&^n.bit
		}
	}
	if i != 0 {
		list = append(list, fmt.Sprintf("0x%04x", uint16(i)))
	}
	return strings.Join(list, ",")
}

// Words is how many words of 4 bytes a hop writes.
func (i Instructions) Words() (words int) {
	for bit := NodeID; bit != 0; bit >>= 1 {
		if i&bit != 0 {
			words++
			if bit&longs != 0 {
				words++
			}
		}
	}
	return words
}

// Lengths in bytes.
const (
	shimLen   = 4
	headerLen = 12
	// FixedLen is what a packet grows by beside the hops' metadata.
	FixedLen = shimLen + headerLen
	word     = 4

	typeMD     = 1
	version    = 2
	maxWords   = 255 // of the shim's length: the header and the metadata
	maxHopML   = 31
	noValue    = 1<<32 - 1
	noLong     = 1<<64 - 1
	most24     = 1<<24 - 1
	headerML   = headerLen / word
	flagsAt    = shimLen // of the header: version, D, E and M
	hopMLAt    = shimLen + 2
	remainAt   = shimLen + 3
	bitmapAt   = shimLen + 4
	domainAt   = shimLen + 6
	dsAt       = shimLen + 8
	dsFlagsAt  = shimLen + 10
	discardBit = 0x08
	hopsBit    = 0x04
	mtuBit     = 0x02
)

// Config is what sources ask for.
type Config struct {
	Instructions Instructions
	// MaxHops is the remaining hop count that a source begins with: how many hops write at most.
	MaxHops uint8
}

// Validate reports what is wrong with a configuration.
func (c *Config) Validate() error {
	switch words := c.Instructions.Words(); {
	case c.Instructions&^known != 0:
		return fmt.Errorf("instructions 0x%04x: bits 9 to 14 are reserved", uint16(c.Instructions))
	case words < 1 || words > maxHopML:
		return fmt.Errorf("instructions %s: a hop would write %d words: choose 1 to %d", c.Instructions, words, maxHopML)
	case c.MaxHops < 1:
		return fmt.Errorf("no hop may write: allow at least 1")
	}
	return nil
}

// HopLen is what a packet grows by at each hop, in bytes.
func (c *Config) HopLen() int { return c.Instructions.Words() * word }

// Hop is the metadata of a hop.
type Hop struct {
	// Known are the values that there are; a hop writes all ones for others that the source asks for.
	Known               Instructions
	Node                uint32
	Ingress, Egress     uint16
	Latency             uint32
	QueueID             uint8
	Queued              uint32 // up to 2^24-2
	IngressNs, EgressNs uint64
	Ingress2, Egress2   uint32
	Utilisation         uint32
	BufferID            uint8
	Buffered            uint32 // up to 2^24-2
}

// Stack is a shim, an INT-MD header and the metadata behind it. It is a view, whose length is the shim's; StackAt has
// checked what the accessors rely on.
type Stack []byte

// newStack writes a shim and a header without metadata into data, of FixedLen bytes.
func newStack(data []byte, c *Config, dscp uint8) Stack {
	s := Stack(data[:FixedLen])
	clear(s)
	s[0], s[1], s[3] = typeMD<<4, headerML, dscp<<2
	s[flagsAt], s[hopMLAt], s[remainAt] = version<<4, byte(c.Instructions.Words()), c.MaxHops
	binary.BigEndian.PutUint16(s[bitmapAt:], uint16(c.Instructions))
	return s
}

// NewStack writes a shim and a header without metadata to the beginning of data, whose capacity may have room for hops.
func NewStack(data []byte, c *Config) Stack { return newStack(data, c, 0) }

// Push puts a hop's metadata in front of that of the hops before, within the stack's capacity. It is as the function Push, for a stack
// alone.
func (s Stack) Push(h *Hop) (Stack, Outcome) {
	n := s.HopWords() * word
	switch {
	case s.Remaining() == 0:
		s[flagsAt] |= hopsBit
		return s, HopsExceeded
	case int(s[1])+s.HopWords() > maxWords || len(s)+n > cap(s):
		return s, Full
	}
	s = s[:len(s)+n]
	copy(s[FixedLen+n:], s[FixedLen:])
	s.put(h, n)
	return s, Done
}

// put writes a hop's n bytes, for which there is room behind the header.
func (s Stack) put(h *Hop, n int) {
	s[1] += byte(n / word)
	s[remainAt]--
	h.write(s.Instructions(), s[FixedLen:FixedLen+n])
}

// StackAt returns the stack at the beginning of data, or nil if there is none that can be walked: another type or version, or
// lengths that contradict each other or the data's.
func StackAt(data []byte) Stack {
	if len(data) < FixedLen || data[0]>>4 != typeMD || data[flagsAt]>>4 != version {
		return nil
	}
	words := int(data[1])
	if words < headerML || shimLen+words*word > len(data) {
		return nil
	}
	s := Stack(data[: shimLen+words*word : shimLen+words*word])
	metadata := words - headerML
	switch hop := s.HopWords(); {
	case hop == 0: // a domain may have metadata of the source alone
		if s.Instructions() != 0 || s.Domain() == 0 && metadata != 0 {
			return nil
		}
	case s.Domain() == 0 && (metadata%hop != 0 || hop != s.Instructions().Words()):
		return nil // without a domain, a hop has what the bitmap says, and the source no more
	case hop < s.Instructions().Words():
		return nil
	}
	return s
}

// NextProtocol returns NPT: 0 if the stack is announced by a DSCP.
func (s Stack) NextProtocol() int { return int(s[0] >> 2 & 3) }

// DSCP returns the packet's own.
func (s Stack) DSCP() uint8 { return s[3] >> 2 }

// Discard reports the D bit: the sink drops the packet.
func (s Stack) Discard() bool { return s[flagsAt]&discardBit != 0 }

// HopsExceeded reports the E bit: a hop did not write since the remaining hop count was 0.
func (s Stack) HopsExceeded() bool { return s[flagsAt]&hopsBit != 0 }

// MTUExceeded reports the M bit: a hop did not write since the packet would have become too long.
func (s Stack) MTUExceeded() bool { return s[flagsAt]&mtuBit != 0 }

// HopWords returns Hop ML: how many words of 4 bytes each hop writes.
func (s Stack) HopWords() int { return int(s[hopMLAt] & maxHopML) }

// Remaining returns how many hops may still write.
func (s Stack) Remaining() uint8 { return s[remainAt] }

// Instructions returns the bitmap.
func (s Stack) Instructions() Instructions {
	return Instructions(binary.BigEndian.Uint16(s[bitmapAt:]))
}

// Domain returns the domain specific id; 0: none.
func (s Stack) Domain() uint16 { return binary.BigEndian.Uint16(s[domainAt:]) }

// DomainInstructions and DomainFlags are those of the domain.
func (s Stack) DomainInstructions() uint16 { return binary.BigEndian.Uint16(s[dsAt:]) }

// DomainFlags are the domain's flags.
func (s Stack) DomainFlags() uint16 { return binary.BigEndian.Uint16(s[dsFlagsAt:]) }

// Metadata is what the hops wrote, the last one's first.
func (s Stack) Metadata() []byte { return s[FixedLen:] }

// Hops appends the hops to dst, the first one first. sourceOnly is how many bytes the source wrote beyond a hop's, which
// only a domain knows: 0 without one. It reports false if the metadata is not a whole number of hops.
func (s Stack) Hops(dst []Hop, sourceOnly int) ([]Hop, bool) {
	metadata := s.Metadata()
	if sourceOnly < 0 || sourceOnly > len(metadata) {
		return dst, false
	}
	metadata = metadata[:len(metadata)-sourceOnly]
	each := s.HopWords() * word
	if each == 0 {
		return dst, len(metadata) == 0
	}
	if len(metadata)%each != 0 {
		return dst, false
	}
	for end := len(metadata); end > 0; end -= each {
		dst = append(dst, Hop{})
		dst[len(dst)-1].read(s.Instructions(), metadata[end-each:end])
	}
	return dst, true
}

// write puts a hop's metadata into data, of Hop ML words: all ones for what is not known, reserved and of a domain.
func (h *Hop) write(i Instructions, data []byte) {
	for bit := NodeID; bit != 0; bit >>= 1 {
		if i&bit == 0 || bit == ChecksumComplement {
			continue // which is last
		}
		if bit&longs != 0 {
			v := uint64(noLong)
			if h.Known&bit != 0 {
				switch bit {
				case IngressTime:
					v = h.IngressNs
				case EgressTime:
					v = h.EgressNs
				case Level2Ports:
					v = uint64(h.Ingress2)<<32 | uint64(h.Egress2)
				}
			}
			binary.BigEndian.PutUint64(data, v)
			data = data[8:]
			continue
		}
		v := uint32(noValue)
		if h.Known&bit != 0 {
			switch bit {
			case NodeID:
				v = h.Node
			case Ports:
				v = uint32(h.Ingress)<<16 | uint32(h.Egress)
			case HopLatency:
				v = h.Latency
			case Queue:
				v = uint32(h.QueueID)<<24 | min(h.Queued, most24-1)
			case Utilisation:
				v = h.Utilisation
			case Buffer:
				v = uint32(h.BufferID)<<24 | min(h.Buffered, most24-1)
			}
		}
		binary.BigEndian.PutUint32(data, v)
		data = data[4:]
	}
	// Metadata of a domain that is not known, and the complement of a checksum that is updated itself.
	for i := range data {
		data[i] = 0xff
	}
}

// read is the reverse of write.
func (h *Hop) read(i Instructions, data []byte) {
	for bit := NodeID; bit != 0; bit >>= 1 {
		if i&bit == 0 || bit == ChecksumComplement {
			continue
		}
		if bit&longs != 0 {
			v := binary.BigEndian.Uint64(data)
			data = data[8:]
			if v == noLong {
				continue
			}
			h.Known |= bit
			switch bit {
			case IngressTime:
				h.IngressNs = v
			case EgressTime:
				h.EgressNs = v
			case Level2Ports:
				h.Ingress2, h.Egress2 = uint32(v>>32), uint32(v)
			}
			continue
		}
		v := binary.BigEndian.Uint32(data)
		data = data[4:]
		if v == noValue || bit&reserved != 0 {
			continue
		}
		h.Known |= bit
		switch bit {
		case NodeID:
			h.Node = v
		case Ports:
			h.Ingress, h.Egress = uint16(v>>16), uint16(v)
		case HopLatency:
			h.Latency = v
		case Queue:
			h.QueueID, h.Queued = uint8(v>>24), v&most24
		case Utilisation:
			h.Utilisation = v
		case Buffer:
			h.BufferID, h.Buffered = uint8(v>>24), v&most24
		}
	}
}
