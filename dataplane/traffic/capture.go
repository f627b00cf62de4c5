package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// maxCapture is what a capture may hold in memory, in bytes of packets.
const maxCapture = 2 << 30

// Capture is the packets of a capture file in memory, to be sent again. It does not change and may be shared.
//
// A replayed packet has the bytes of the capture, and nothing of a [Mark]: most packets have no room for one,
// and a changed payload would need other checksums and lengths, so it would not be that packet any more. A sink counts
// replayed packets as foreign. Where loss, order and latency are asked for, a Workload with the
// capture's sizes selects them.
type Capture struct {
	memory  []byte
	ends    []int    // of packet i in memory
	wire    []uint32 // bytes on the wire, without frame check sequence
	times   []uint64 // ns after the first packet; never falling
	longest int
	cut     int
	skipped int
}

// ReadCapture reads a pcap or pcapng file, plain or gzipped. What is not Ethernet is left out, and so is what is
// shorter than an Ethernet header. Times that fall are raised to the one before.
func ReadCapture(path string) (*Capture, error) {
	in, err := pcapfile.Open(path)
	if err != nil {
		return nil, err
	}
	c, err := readCapture(in.Reader)
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read the capture %s: %w", path, err)
	}
	return c, nil
}

func readCapture(in *pcapfile.Reader) (*Capture, error) {
	c := &Capture{}
	var first int64
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.LinkType != pcapfile.Ethernet || h.CapLen < ethLen {
			c.skipped++
			continue
		}
		if len(c.memory)+int(h.CapLen) > maxCapture {
			return nil, fmt.Errorf("it holds more than %d MiB of packets: cut it into parts", maxCapture>>20)
		}
		start := len(c.memory)
		c.memory = slices.Grow(c.memory, int(h.CapLen))[:start+int(h.CapLen)]
		if err := in.Read(c.memory[start:]); err != nil {
			return nil, err
		}
		if len(c.ends) == 0 {
			first = h.Time
		}
		at := uint64(max(0, h.Time-first))
		if n := len(c.times); n > 0 {
			at = max(at, c.times[n-1])
		}
		c.ends, c.times = append(c.ends, len(c.memory)), append(c.times, at)
		c.wire = append(c.wire, max(h.WireLen, h.CapLen))
		c.longest = max(c.longest, int(h.CapLen))
		if h.CapLen < h.WireLen {
			c.cut++
		}
	}
	if len(c.ends) == 0 {
		return nil, errors.New("it holds no Ethernet packet")
	}
	return c, nil
}

// Packets is the number of packets.
func (c *Capture) Packets() int { return len(c.ends) }

// Cut is how many packets the capture has less of than was on the wire: they are sent as short as they are.
func (c *Capture) Cut() int { return c.cut }

// Skipped is how many records are left out: not Ethernet, or shorter than its header.
func (c *Capture) Skipped() int { return c.skipped }

// packet i, in bytes without frame check sequence. It must not be changed.
func (c *Capture) packet(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.memory[start:c.ends[i]]
}

// period is the time from one pass over the capture to the next: its length and one mean gap more.
func (c *Capture) period() uint64 {
	n := uint64(len(c.times))
	last := c.times[n-1]
	if n == 1 || last == 0 {
		return n // all at once: a nanosecond each
	}
	return last + last/(n-1)
}

// Sizes are sixteen sizes, in bytes on the wire with frame check sequence, distributed as those of the capture:
// the middles of sixteenths, so the share of each size is right to a sixteenth. They are mixed, for packets
// take them in turn. No size is below least, a Workload's MinSize, or above 9018 bytes.
func (c *Capture) Sizes(least int) []int {
	sorted := slices.Sorted(slices.Values(c.wire))
	sizes := make([]int, maxSizes)
	for i := range sizes {
		at := (2*i + 1) * len(sorted) / (2 * maxSizes)
		// An odd factor permutes the residues of a power of two.
		sizes[i*7%maxSizes] = min(max(int(sorted[at])+FCS, least), 9018)
	}
	return sizes
}

// CaptureSource sends a capture, over and over.
type CaptureSource struct {
	sender  *sender
	capture *Capture
	speed   float64
	out     interface {
		send(write fill, seq uint64, n int, sent *Sent) error
		name() string
		close() error
	}
}

// NewCaptureSource opens a socket of a kind: "packet", or "xsk" on queue 0 for packets up to 4,096 bytes. It needs CAP_NET_RAW, and for
// AF_XDP CAP_NET_ADMIN. A run whose Load has a rate sends at that rate; one
// without, at the capture's own times divided by speed, above 0 to 1e6.
func NewCaptureSource(kind string, port Port, c *Capture, speed float64) (*CaptureSource, error) {
	if !(speed > 0 && speed <= 1e6) {
		return nil, fmt.Errorf("speed: %v is not above 0 and at most 1e6", speed)
	}
	sender, ifindex, err := newSender(port, DefaultWorkload()) // whose writer is not used
	if err != nil {
		return nil, err
	}
	s := &CaptureSource{sender: sender, capture: c, speed: speed}
	switch kind {
	case "xsk":
		s.out, err = newXSKOut(port, ifindex, 0, c.longest, xsk.Auto)
	case "packet":
		s.out, err = newPacketOut(port, ifindex, c.longest)
	default:
		err = fmt.Errorf("source %q: a capture is sent by xsk or packet", kind)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Name is "capture, af_packet" or "capture, af_xdp" with its mode.
func (s *CaptureSource) Name() string { return "capture, " + s.out.name() }

// Close closes the socket.
func (s *CaptureSource) Close() error { return s.out.close() }

// Run implements [Source]. Sequence number n is packet n modulo the capture's packets. Load's limits count; without
// any, the capture is sent once.
func (s *CaptureSource) Run(ctx context.Context, load Load) (Sent, error) {
	if load.Count == 0 && load.Duration == 0 {
		n := uint64(s.capture.Packets())
		load.Count = n - load.FirstSeq%n
	}
	if load.Rate > 0 {
		return s.sender.run(ctx, load, s.send)
	}
	p := newCapturePacer(s.capture, s.speed, load.FirstSeq)
	sent, err := s.sender.runPaced(ctx, load, p, s.send)
	if err != nil {
		return sent, err
	}
	// The rate asked for is that of the packets sent, at their own times.
	if ideal := p.at(load.FirstSeq + sent.Packets); ideal > 0 {
		sent.Offered = float64(sent.Packets) * 1e9 / float64(ideal)
		sent.SourceLimited = sent.Rate < sent.Offered*limitedBelow
	}
	return sent, nil
}

func (s *CaptureSource) send(seq uint64, n int, sent *Sent) error {
	return s.out.send(func(buf []byte, seq uint64) int {
		return copy(buf, s.capture.packet(int(seq%uint64(s.capture.Packets()))))
	}, seq, n, sent)
}

// capturePacer makes packets due at the capture's times.
type capturePacer struct {
	capture *Capture
	speed   float64
	first   uint64 // sequence number
	next    uint64
	late    uint64 // ns by which all was put off because the source was held up
}

func newCapturePacer(c *Capture, speed float64, first uint64) *capturePacer {
	return &capturePacer{capture: c, speed: speed, first: first, next: first}
}

// maxLate is how late, in ns, a packet may be sent in one go with others. What comes later puts off all behind
// it: no lump of packets that the capture has not.
const maxLate = 1_000_000

// at is when a packet is due, in ns after the first one.
func (p *capturePacer) at(seq uint64) uint64 {
	return uint64(math.Round(float64(p.offset(seq)-p.offset(p.first)) / p.speed))
}

func (p *capturePacer) offset(seq uint64) uint64 {
	n := uint64(len(p.capture.times))
	return seq/n*p.capture.period() + p.capture.times[seq%n]
}

// Due implements pace.
func (p *capturePacer) Due(elapsed uint64, limit int) (n int, wait uint64) {
	if at := p.at(p.next) + p.late; at > elapsed {
		return 0, at - elapsed
	} else if elapsed-at > maxLate {
		p.late += elapsed - at - maxLate
	}
	for n < limit && p.at(p.next)+p.late <= elapsed {
		p.next++
		n++
	}
	return n, 0
}

// gap implements pace.
func (p *capturePacer) gap() time.Duration {
	return time.Duration(float64(p.capture.period()) / float64(len(p.capture.times)) / p.speed)
}
