package pcapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Header is what a capture says of one packet beside its bytes.
type Header struct {
	// Time is the capture time in nanoseconds since 1970 (UTC). Zero where the
	// record has none; clamped to what 64 bits hold.
	Time int64
	// CapLen counts the bytes in the file, WireLen those the packet had on the
	// wire. Nothing makes a file keep CapLen <= WireLen.
	CapLen, WireLen uint32
	// Interface is the index of the pcapng section's interface; 0 in pcap.
	Interface uint32
	// LinkType is the link type of the interface.
	LinkType LinkType
}

// Format describes how a capture file is written down.
type Format struct {
	NG        bool // pcapng; the fields below are then unused
	BigEndian bool
	Nano      bool   // nanoseconds, not microseconds (pcap)
	SnapLen   uint32 // longest record; 0: no limit known
	// LinkField is the last word of a pcap header: the link type and, in the
	// upper bits, the length of a frame check sequence at the packets' ends.
	LinkField uint32
	Zone      uint32 // the pcap header's third word: historic, kept
	SigFigs   uint32 // the pcap header's fourth word: historic, kept
}

func (f Format) order() binary.ByteOrder {
	if f.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Errors that a caller branches on; both come wrapped with where and what.
var (
	// ErrTruncated: the file ends inside a record.
	ErrTruncated = errors.New("the capture is cut off")
	// ErrCorrupt: the file contradicts itself.
	ErrCorrupt = errors.New("the capture is corrupt")
	// ErrFormat: not a capture, or of an undefined version.
	ErrFormat = errors.New("not a readable capture")
)

// LinkType is the number that says what the packets of a capture begin with.
type LinkType uint32

// Ethernet is the link type of Ethernet frames, the only one that Weir takes.
const Ethernet LinkType = 1

// linkNames are the types that captures of networks commonly have.
var linkNames = map[LinkType]string{
	0: "BSD loopback", 1: "Ethernet", 6: "token ring", 7: "ARCNET", 8: "SLIP", 9: "PPP", 10: "FDDI",
	50: "PPP over serial", 51: "PPPoE", 100: "ATM", 101: "raw IP", 104: "Cisco HDLC", 105: "802.11",
	107: "frame relay", 108: "OpenBSD loopback", 113: "Linux cooked", 117: "OpenBSD pflog", 119: "Prism 802.11",
	127: "802.11 radiotap", 129: "Linux ARCNET", 140: "MTP2", 141: "MTP3", 187: "Bluetooth HCI",
	189: "Linux USB", 192: "PPI", 195: "802.15.4", 201: "Bluetooth HCI", 220: "Linux USB, mmapped", 228: "raw IPv4", 229: "raw IPv6",
	239: "NFLOG", 249: "USBPcap", 272: "Nordic BLE", 276: "Linux cooked v2", 280: "Linux vsock",
}

func (l LinkType) String() string {
	if name, ok := linkNames[l]; ok {
		return fmt.Sprintf("%d (%s)", uint32(l), name)
	}
	return fmt.Sprint(uint32(l))
}

// linkOf takes the link type out of a pcap header's last word. The top nibble
// and bit 26 speak of the frame check sequence; the other upper bits must be
// zero, so a file that sets them gets a type that does not exist.
func linkOf(field uint32) LinkType { return LinkType(field & 0x03ffffff) }

const (
	magicMicro    = 0xa1b2c3d4
	magicNano     = 0xa1b23c4d
	magicModified = 0xa1b2cd34 // record headers of 24 bytes
	magicNG       = 0x0a0d0d0a // a section header block, in either byte order
	magicOrder    = 0x1a2b3c4d // inside it

	// maxRecord is the longest record that libpcap and Wireshark take for
	// real where the file's own limit is lower.
	maxRecord = 256 << 10
)

func (f Format) String() string {
	if f.NG {
		return "pcapng"
	}
	if f.Nano {
		return "pcap, nanoseconds"
	}
	return "pcap, microseconds"
}
