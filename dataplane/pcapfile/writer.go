package pcapfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Writer writes a capture of Ethernet packets. Each packet is one WriteHeader
// and Writes of CapLen bytes in all. It buffers nothing: give it a buffered
// writer. Not safe for concurrent use.
type Writer struct {
	w       io.Writer
	f       Format
	order   binary.ByteOrder
	left    uint32 // bytes of the packet still to come
	tail    int    // then: padding, and the block's length
	block   uint32
	scratch [64]byte
}

// NewWriter writes the head of a capture in the format: a pcap of version 2.4,
// or a pcapng section in nanoseconds with an interface for each name.
func NewWriter(w io.Writer, f Format, interfaces ...string) (*Writer, error) {
	wr := &Writer{w: w, f: f, order: f.order()}
	if f.NG {
		return wr, wr.headNG(interfaces)
	}
	magic := uint32(magicMicro)
	if f.Nano {
		magic = magicNano
	}
	b := wr.order.(binary.AppendByteOrder).AppendUint32(wr.scratch[:0], magic)
	b = wr.words16(b, 2, 4)
	b = wr.words(b, f.Zone, f.SigFigs, f.SnapLen, f.LinkField)
	_, err := w.Write(b)
	return wr, err
}

// snapLenAt is the offset of the snap length in a pcap header.
const snapLenAt = 16

func (w *Writer) words(b []byte, words ...uint32) []byte {
	for _, v := range words {
		b = w.order.(binary.AppendByteOrder).AppendUint32(b, v)
	}
	return b
}

func (w *Writer) words16(b []byte, words ...uint16) []byte {
	for _, v := range words {
		b = w.order.(binary.AppendByteOrder).AppendUint16(b, v)
	}
	return b
}

func (w *Writer) headNG(interfaces []string) error {
	b := w.words(nil, magicNG, 28, magicOrder)
	b = w.words16(b, 1, 0)
	b = w.words(b, math.MaxUint32, math.MaxUint32, 28) // the section's length is not known
	for _, name := range interfaces {
		const optName = 2
		name = name[:min(len(name), 255)]
		pad := -len(name) & 3
		length := uint32(20 + 4 + len(name) + pad + 8 + 4)
		b = w.words(b, blockInterface, length)
		b = w.words16(b, uint16(Ethernet), 0)
		b = w.words(b, w.f.SnapLen)
		b = w.words16(b, optName, uint16(len(name)))
		b = append(append(b, name...), make([]byte, pad)...)
		b = w.words16(b, optResolution, 1)
		b = append(b, 9, 0, 0, 0) // 10^-9 s
		b = w.words16(b, optEnd, 0)
		b = w.words(b, length)
	}
	_, err := w.w.Write(b)
	return err
}

// WriteHeader begins a packet. A pcap holds times from 1970 to 2106 and a
// pcapng from 1970; what lies outside is written as the nearest time inside.
func (w *Writer) WriteHeader(h Header) error {
	if w.left != 0 {
		return fmt.Errorf("%d bytes of the packet before are missing", w.left)
	}
	w.left = h.CapLen
	t := uint64(max(h.Time, 0))
	b := w.scratch[:0]
	if w.f.NG {
		pad := -h.CapLen & 3
		w.tail, w.block = int(pad), 32+h.CapLen+pad
		b = w.words(b, blockEnhanced, w.block, h.Interface, uint32(t>>32), uint32(t), h.CapLen, h.WireLen)
	} else {
		seconds, fraction := t/1e9, t%1e9
		if seconds > math.MaxUint32 {
			seconds, fraction = math.MaxUint32, 1e9-1
		}
		if !w.f.Nano {
			fraction /= 1000
		}
		b = w.words(b, uint32(seconds), uint32(fraction), h.CapLen, h.WireLen)
	}
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	return w.end()
}

// Write writes a piece of the packet.
func (w *Writer) Write(p []byte) (int, error) {
	if len(p) > int(w.left) {
		return 0, fmt.Errorf("%d bytes for a packet that lacks %d", len(p), w.left)
	}
	n, err := w.w.Write(p)
	w.left -= uint32(n)
	if err != nil || n == 0 {
		return n, err
	}
	return n, w.end()
}

// end closes the block of a complete packet.
func (w *Writer) end() error {
	if w.left != 0 || !w.f.NG {
		return nil
	}
	b := append(w.scratch[:0], 0, 0, 0)[:w.tail]
	_, err := w.w.Write(w.words(b, w.block))
	return err
}
