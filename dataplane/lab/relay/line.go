package relay

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/weirswitch/weir/telemetry/hash"
)

// line is one direction without its sockets: it decides about packets, keeps
// them until they are due, and counts.
type line struct {
	config  *Config
	classes []Class   // the configuration's, and that of the rest
	rest    flowCount // of frames that are of no flow
	free    [][]byte
	clear   time.Duration // when the rate has let out all that is queued
	seed    uint64        // of this direction
	number  uint64        // of the next packet
	queue   queue
	flows   map[flowKey]*flowCount

	received, sent, dropped uint64
}

// flowKey is a flow of IPv4.
type flowKey struct {
	src, dst         [4]byte
	srcPort, dstPort uint16
	proto            uint8
}

func (k *flowKey) String() string {
	protocol := fmt.Sprint(k.proto)
	switch k.proto {
	case protoTCP:
		protocol = "tcp"
	case protoUDP:
		protocol = "udp"
	}
	return fmt.Sprintf("%s > %s %s", netip.AddrPortFrom(netip.AddrFrom4(k.src), k.srcPort),
		netip.AddrPortFrom(netip.AddrFrom4(k.dst), k.dstPort), protocol)
}

const (
	protoTCP = 6
	protoUDP = 17
)

// flowCount is what was done to a flow.
type flowCount struct {
	class                   int
	received, sent, dropped uint64
	delays                  float64 // sum of the achieved ones, ns
	arrivals, departures    uint64  // sums of times, ns, modulo 2^64
}

func newLine(c *Config, direction int) *line {
	return &line{config: c, classes: c.all(), rest: flowCount{class: len(c.Classes)}, seed: hash.Uint64(c.Seed, uint64(direction)), flows: map[flowKey]*flowCount{}}
}

// portVXLAN is the UDP port of VXLAN (RFC 7348), behind whose 8 bytes is an Ethernet frame.
const (
	portVXLAN   = 4789
	vxlanHeader = 8
	udpHeader   = 8
)

// parseFlow reads the flow of an Ethernet frame, which may have a shim of PINT's; of a packet in VXLAN the inner one.
// False: it is no TCP or UDP over IPv4, or a later fragment.
func parseFlow(frame []byte) (k flowKey, ok bool) {
	k, transport, ok := parsePlain(frame)
	if ok && k.proto == protoUDP && k.dstPort == portVXLAN {
		k, _, ok = parsePlain(transport[min(len(transport), udpHeader+vxlanHeader):])
	}
	return k, ok
}

// parsePlain reads the flow of an Ethernet frame, and what is behind its IP header.
func parsePlain(frame []byte) (k flowKey, transport []byte, ok bool) {
	const ethernet = 14
	if len(frame) < ethernet+20 {
		return k, nil, false
	}
	end := ethernet // of the type
	if frame[12] == 0x88 && frame[13] == 0xb5 {
		// Head, hop and plan, a digest as long as the head's three lowest bits say and
		// one byte more, and the type.
		end += 4 + int(frame[ethernet]&7) + 1 + 2
	}
	if len(frame) < end+20 || frame[end-2] != 8 || frame[end-1] != 0 {
		return k, nil, false
	}
	ip := frame[end:]
	header := int(ip[0]&15) * 4
	if ip[0]>>4 != 4 || header < 20 || len(ip) < header+4 || binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 {
		return k, nil, false
	}
	k.proto = ip[9]
	if k.proto != protoTCP && k.proto != protoUDP {
		return k, nil, false
	}
	copy(k.src[:], ip[12:])
	copy(k.dst[:], ip[16:])
	k.srcPort, k.dstPort = binary.BigEndian.Uint16(ip[header:]), binary.BigEndian.Uint16(ip[header+2:])
	return k, ip[header:], true
}

// arrive takes a frame that came at a time: it is dropped, or queued until it is
// due.
func (l *line) arrive(frame []byte, at time.Duration) {
	l.received++
	l.number++
	var f *flowCount
	due := at
	if k, ok := parseFlow(frame); ok {
		if class := l.config.class(k.dstPort); class >= 0 {
			f = l.flows[k]
			if f == nil {
				f = &flowCount{class: class}
				l.flows[k] = f
			}
		}
	} else if l.config.Rest != nil {
		f = &l.rest
	}
	if f != nil {
		f.received++
		f.arrivals += uint64(at)
	}
	if rate := l.config.RateBits; rate != 0 {
		// The wire has one frame at a time; its delay begins behind that.
		on := time.Duration(float64(len(frame)) * 8e9 / float64(rate))
		l.clear = max(l.clear, at)
		if l.clear-at > on*maxQueue {
			l.drop(f)
			return
		}
		l.clear += on
		due = l.clear
	}
	if f != nil {
		c := &l.classes[f.class]
		if l.draw(0) < c.Drop {
			l.drop(f)
			return
		}
		due += c.Delay + time.Duration((2*l.draw(1)-1)*float64(c.Jitter))
	}
	l.queue.push(parcel{due: due, number: l.number, at: at, frame: append(l.buffer(), frame...), flow: f})
}

// drop counts a frame that goes no further.
func (l *line) drop(f *flowCount) {
	l.dropped++
	if f != nil {
		f.dropped++
	}
}

// draw is a number from 0 to 1 that hangs on the packet's number only.
func (l *line) draw(purpose uint64) float64 {
	return float64(hash.Uint64x2(l.seed, l.number, purpose)>>11) / (1 << 53)
}

// buffer is an empty slice with room for a frame.
func (l *line) buffer() []byte {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b[:0]
	}
	return make([]byte, 0, 2048)
}

// leave counts a parcel that was sent at a time.
func (l *line) leave(p *parcel, at time.Duration) {
	l.sent++
	if p.flow != nil {
		p.flow.sent++
		p.flow.delays += float64(at - p.at)
		p.flow.departures += uint64(at)
	}
	l.free = append(l.free, p.frame)
}
