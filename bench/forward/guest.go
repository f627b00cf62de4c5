package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/vhost/frontend"
	"github.com/weirswitch/weir/pipeline/header"
)

// guestSource is source and sink of vhost ports: both guests of the device, each of which sends to the other one. What it sends is in its buffers from
// the beginning, but for the flow, so that it costs the source's core a few stores for each packet.
type guestSource struct {
	ends  [2]*frontend.Frontend
	sizes [2][]int // bytes of each packet behind the header, by buffer
	draw  *rand.PCG
	flows uint64

	sent, received uint64 // since the beginning
}

// The ports of UDP of flow 0, and where they are behind the header of virtio-net.
const (
	guestFlowAt  = frontend.HeaderSize + header.EthernetLen + 20
	guestPort    = 1024
	guestPorts   = 1 << 15 // source ports, before the destination's port changes
	guestRing    = 1024
	guestBurst   = 64
	guestCatchUp = guestRing / 2 // packets that the source may be late: 100 µs at 5 million per second
)

// dialGuests starts both guests. Sizes are on the wire, with the frame check sequence; packets have them in turn.
func dialGuests(sockets [2]string, server bool, sizes []int, flows int, seed uint64) (*guestSource, error) {
	g := &guestSource{draw: rand.NewPCG(seed, 0), flows: uint64(max(flows, 1))}
	for i, socket := range sockets {
		c := frontend.DefaultConfig(socket)
		c.Descriptors, c.HugePages, c.Server = guestRing, true, server
		if sizes[0] > maxWire {
			c.Descriptors, c.Buffer = guestRing/4, largeBuffer
			c.Features = frontend.Checksum | frontend.TCP4 | frontend.GuestChecksum | frontend.GuestTCP4
		}
		f, err := frontend.Dial(c)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("guest %d: %w", i, err), g.close())
		}
		g.ends[i] = f
		for k := range c.Descriptors {
			n := sizes[k%len(sizes)] - 4
			g.sizes[i] = append(g.sizes[i], n)
			b := f.Senders[0].Buffer(k)
			if n > maxWire {
				writeLargePacket(b[:frontend.HeaderSize+n], i)
			} else {
				writeGuestPacket(b[frontend.HeaderSize:][:n], i)
			}
		}
	}
	return g, nil
}

// writeGuestPacket writes a packet of guest i to the other one.
func writeGuestPacket(p []byte, i int) {
	copy(p, []byte{2, 0, 0, 0, 0, byte(2 - i), 2, 0, 0, 0, 0, byte(1 + i), 8, 0})
	ip := p[header.EthernetLen:]
	copy(ip, []byte{0x45, 0, byte(len(ip) >> 8), byte(len(ip)), 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, byte(1 + i), 10, 0, 0, byte(2 - i)})
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:20]))
	binary.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20)) // the checksum is 0: none
}

// Large packets: what a guest's TCP leaves to its device at once, with segments of largeSegment bytes of payload.
const (
	maxWire      = 1518
	largePacket  = 65226 + 4
	largeSegment = 1448
	largeBuffer  = 66 << 10
)

// writeLargePacket writes one of TCP from guest i to the other one, behind its header of virtio-net.
func writeLargePacket(b []byte, i int) {
	p := b[frontend.HeaderSize:]
	writeGuestPacket(p, i)
	ip := p[header.EthernetLen:]
	ip[9] = 6
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:20]))
	tcp := ip[20:]
	binary.BigEndian.PutUint32(tcp[4:], 0)
	tcp[12], tcp[13] = 5<<4, 0x10
	binary.BigEndian.PutUint16(tcp[16:], header.Sum([]byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}, header.Sum(ip[12:20], 0)))
	gso.Header(b, p, gso.TCP4, largeSegment)
}

func (g *guestSource) close() error {
	var errs []error
	for _, f := range g.ends {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// guestTrial is what one run of the source brought.
type guestTrial struct {
	sent     uint64 // taken by the rings
	refused  uint64 // that the rings had no room for
	received uint64
	took     time.Duration // of sending
	late     uint64        // that the source gave up because it was held up
}

// loss counts what a ring had no room for as lost: a guest drops it.
func (t *guestTrial) loss() float64 {
	if t.sent+t.refused == 0 {
		return 0
	}
	return 1 - float64(min(t.received, t.sent))/float64(t.sent+t.refused)
}

// offered is the rate that the source really reached, in packets per second.
func (t *guestTrial) offered() float64 { return float64(t.sent+t.refused) / t.took.Seconds() }

// offer sends both ways together at a rate in packets per second, 0 as fast as possible, and waits for the last packet.
func (g *guestSource) offer(ctx context.Context, rate float64, duration time.Duration) (t guestTrial, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Now()
	due := [2]uint64{}
	for rounds := 0; ; rounds++ {
		at := time.Since(begin)
		if at >= duration {
			t.took = at
			break
		}
		if rounds%4096 == 0 && ctx.Err() != nil {
			return t, ctx.Err()
		}
		for i, f := range g.ends {
			t.received += uint64(f.Receivers[0].Skip(guestRing))
			f.Receivers[0].Flush()
			burst := uint64(guestBurst)
			if rate > 0 {
				now := uint64(at.Seconds() * rate / 2)
				if now-due[i] > guestCatchUp {
					t.late += now - due[i] - guestCatchUp
					due[i] = now - guestCatchUp
				}
				burst = min(now-due[i], guestBurst)
			}
			n := g.send(i, int(burst))
			t.sent += uint64(n)
			if rate > 0 {
				t.refused += burst - uint64(n)
				due[i] += burst
			}
		}
	}
	for last := time.Now(); time.Since(last) < settled; {
		n := 0
		for _, f := range g.ends {
			n += f.Receivers[0].Skip(guestRing)
			f.Receivers[0].Flush()
		}
		if n != 0 {
			last = time.Now()
		}
		t.received += uint64(n)
	}
	g.sent += t.sent
	g.received += t.received
	return t, nil
}

// send sends up to n packets of guest i.
func (g *guestSource) send(i, n int) (sent int) {
	s := g.ends[i].Senders[0]
	for ; sent < n; sent++ {
		b := s.Next()
		if b == nil {
			break
		}
		flow := uint32(g.draw.Uint64() >> 32 * g.flows >> 32)
		binary.BigEndian.PutUint32(b[guestFlowAt:], (guestPort+flow%guestPorts)<<16|(guestPort+flow/guestPorts))
		s.Send(frontend.HeaderSize + g.sizes[i][s.Held()])
	}
	s.Flush()
	return sent
}

// measureGuests is measureShared with guests of our own, for all figures.
func (r *sharedRig) measureGuests(ctx context.Context, d sharedRunning, s *Sample) (sent, received uint64, err error) {
	g, err := dialGuests([2]string{r.socket(0), r.socket(1)}, d.connects(), r.sizes, r.config.Flows, r.config.Seed)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	// The device forwards when packets come through; this is its warming up, and its learning, too.
	for deadline := time.Now().Add(startWait); g.received < 100_000; {
		if time.Now().After(deadline) {
			return 0, 0, fmt.Errorf("of %d packets only %d came through in %v", g.sent, g.received, startWait)
		}
		if _, err := g.offer(ctx, 200_000, 100*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
	cpu := processTime(d.pid())
	flood, err := g.offer(ctx, 0, r.config.Trial)
	if err != nil {
		return 0, 0, err
	}
	cpu = processTime(d.pid()) - cpu
	s.MRR, s.Offered = float64(flood.received)/flood.took.Seconds(), flood.offered()
	s.CPU.User = float64(cpu.Nanoseconds()) / float64(max(flood.received, 1))
	if r.config.Searches {
		find := search{
			trials: r.config.Trials, precision: r.config.Precision, floor: 1000,
			trial: func(rate float64) (loss, reached float64, err error) {
				t, err := g.offer(ctx, rate, r.config.Trial)
				return t.loss(), t.offered(), err
			},
		}
		if s.PDR, err = find.highest(pdrLoss, max(s.MRR, 2*find.floor)); err != nil {
			return 0, 0, err
		}
		if s.NDR, err = find.highest(0, max(s.PDR.Rate, 2*find.floor)); err != nil {
			return 0, 0, err
		}
		if s.NDR.Rate > 0 { // processor time at a rate that both devices of a ratio can be held to says more than under a flood
			cpu := processTime(d.pid())
			t, err := g.offer(ctx, s.NDR.Rate/2, r.config.Trial)
			if err != nil {
				return 0, 0, err
			}
			s.CPU.Total = float64((processTime(d.pid()) - cpu).Nanoseconds()) / float64(max(t.received, 1))
		}
	}
	return g.sent, g.received, d.look()
}
