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
	"github.com/weirswitch/weir/dataplane/memif"
	"github.com/weirswitch/weir/dataplane/vhost/frontend"
	"github.com/weirswitch/weir/pipeline/header"
)

// guestSource is source and sink of ports in shared memory: both guests of the device, each of which sends to the other one. What it sends is in its
// buffers from the beginning, but for the flow, so that it costs the source's core a few stores for each packet.
type guestSource struct {
	ends  [2]guestEnd
	draw  *rand.PCG
	flows uint64

	sent, received uint64 // since the beginning
}

// guestEnd is the other end of a port. One goroutine uses it, between begin and end.
type guestEnd interface {
	begin() error
	// send sends up to n packets, with the ports of UDP that flow returns for each.
	send(n int, flow func() uint32) (sent int)
	// introduce sends what a neighbour sends from time to time so that the device knows it, and returns how many packets that were.
	introduce() (sent int)
	// receive counts what has arrived, and gives its buffers back.
	receive() int
	end()
	close() error
}

// The ports of UDP of flow 0, and where they are in a packet.
const (
	guestFlowAt  = header.EthernetLen + 20
	guestPort    = 1024
	guestPorts   = 1 << 15 // source ports, before the destination's port changes
	guestRing    = 1024
	guestBurst   = 64
	guestCatchUp = guestRing / 2 // packets that the source may be late: 100 µs at 5 million per second
)

// dialGuests starts both guests. Sizes are on the wire, with the frame check sequence; packets have them in turn. With tunnelled the packets
// of guest 1 are in a VXLAN tunnel, and so much longer.
func dialGuests(c *Config, sockets [2]string, server, tunnelled bool, sizes []int) (*guestSource, error) {
	g := &guestSource{draw: rand.NewPCG(c.Seed, 0), flows: uint64(max(c.Flows, 1))}
	dial := func(i int) (guestEnd, error) { return dialVhost(i, sockets[i], server, tunnelled && i == 1, sizes) }
	if c.Ports == PortsMemif {
		dial = func(i int) (guestEnd, error) { return dialMemif(i, sockets[i], sizes) }
	}
	for i := range g.ends {
		e, err := dial(i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("guest %d: %w", i, err), g.close())
		}
		g.ends[i] = e
	}
	return g, nil
}

// vhostEnd is a virtual machine.
type vhostEnd struct {
	*frontend.Frontend
	guest   int
	tunnel  int   // bytes in front of the packets of flows: 0, or vxlanExtra
	sizes   []int // bytes of each packet behind the header, by buffer
	number  uint32
	rewrite int // the buffer in which introduce wrote, -1: none
}

func dialVhost(i int, socket string, server, tunnelled bool, sizes []int) (guestEnd, error) {
	c := frontend.DefaultConfig(socket)
	c.Descriptors, c.HugePages, c.Server = guestRing, true, server
	if sizes[0] > maxWire {
		c.Descriptors, c.Buffer = guestRing/4, largeBuffer
		c.Features = frontend.Checksum | frontend.TCP4 | frontend.GuestChecksum | frontend.GuestTCP4
	}
	f, err := frontend.Dial(c)
	if err != nil {
		return nil, err
	}
	e := &vhostEnd{Frontend: f, guest: i, rewrite: -1}
	if tunnelled {
		e.tunnel = vxlanExtra
	}
	for k := range c.Descriptors {
		e.sizes = append(e.sizes, sizes[k%len(sizes)]-4+e.tunnel)
		e.write(k)
	}
	return e, nil
}

// write writes the packet of a buffer, all but what differs from packet to packet.
func (e *vhostEnd) write(k int) {
	b, n := e.Senders[0].Buffer(k), e.sizes[k]
	switch packet := b[frontend.HeaderSize:][:n]; {
	case e.tunnel != 0:
		writeOuter(packet)
		writeGuestPacket(packet[e.tunnel:], e.guest)
	case n > maxWire:
		writeLargePacket(b[:frontend.HeaderSize+n], e.guest)
	default:
		writeGuestPacket(packet, e.guest)
	}
}

// introduce sends an ARP reply of the other end of the device's tunnel.
func (e *vhostEnd) introduce() int {
	if e.tunnel == 0 {
		return 0
	}
	s := e.Senders[0]
	b := s.Next()
	if b == nil {
		return 0
	}
	e.rewrite = s.Held()
	n := writeIntroduction(b[frontend.HeaderSize:])
	s.Send(frontend.HeaderSize + n)
	s.Flush()
	return 1
}

func (e *vhostEnd) begin() error { return nil }

func (e *vhostEnd) end() {}

func (e *vhostEnd) close() error { return e.Close() }

func (e *vhostEnd) send(n int, flow func() uint32) (sent int) {
	s := e.Senders[0]
	for ; sent < n; sent++ {
		b := s.Next()
		if b == nil {
			break
		}
		if s.Held() == e.rewrite {
			e.write(e.rewrite)
			e.rewrite = -1
		}
		f := flow()
		if e.tunnel != 0 {
			writeEntropy(b[frontend.HeaderSize:], f)
		}
		writeFlow(b[frontend.HeaderSize+e.tunnel:], f, e.number)
		e.number++
		s.Send(frontend.HeaderSize + e.sizes[s.Held()])
	}
	s.Flush()
	return sent
}

func (e *vhostEnd) receive() int {
	n := e.Receivers[0].Skip(guestRing)
	e.Receivers[0].Flush()
	return n
}

// memifEnd is a container: a client of memif, whose buffers keep what is in them.
type memifEnd struct {
	device *memif.Device
	guest  int
	sizes  []int
	tx, rx *memif.Ring // between begin and end
	made   int         // packets sent, up to a lap: they are written whole
	next   int         // the buffer
	number uint32
}

func dialMemif(i int, socket string, sizes []int) (guestEnd, error) {
	d, err := memif.New(memif.Config{Socket: socket, Queues: 1, RingSize: guestRing, Name: fmt.Sprintf("bench %d", i)})
	if err != nil {
		return nil, err
	}
	e := &memifEnd{device: d, guest: i}
	for k := range guestRing {
		e.sizes = append(e.sizes, sizes[k%len(sizes)]-4)
	}
	for deadline := time.Now().Add(startWait); !d.Status().Connected; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("not connected within %v: %s", startWait, d.Status().Error), d.Close())
		}
	}
	return e, nil
}

func (e *memifEnd) begin() error {
	if e.tx, e.rx = e.device.Transmit(0).Acquire(), e.device.Receive(0).Acquire(); e.tx == nil || e.rx == nil {
		e.end()
		return fmt.Errorf("the device has ended the connection: %s", e.device.Status().Error)
	}
	return nil
}

func (e *memifEnd) introduce() int { return 0 }

func (e *memifEnd) end() {
	if e.rx != nil {
		e.device.Receive(0).Release()
	}
	if e.tx != nil {
		e.device.Transmit(0).Release()
	}
	e.tx, e.rx = nil, nil
}

func (e *memifEnd) close() error { return e.device.Close() }

func (e *memifEnd) send(n int, flow func() uint32) (sent int) {
	if n == 0 {
		return 0
	}
	e.tx.Prepare(n)
	for ; sent < n; sent++ {
		b := e.tx.Next()
		if b == nil {
			break
		}
		size := e.sizes[e.next]
		if e.made < guestRing {
			writeGuestPacket(b[:size], e.guest)
			e.made++
		}
		writeFlow(b, flow(), e.number)
		e.number++
		e.tx.Send(size)
		e.next = (e.next + 1) % guestRing
	}
	if e.tx.Flush() {
		e.device.Transmit(0).Notify()
	}
	return sent
}

func (e *memifEnd) receive() int {
	n := e.rx.Skip(guestRing)
	e.rx.Flush()
	return n
}

// writeFlow writes what differs between packets: the ports of UDP, and a number where their payload begins. Packets that are equal are one
// packet for those who sample by what is in it, as those of a host never are.
func writeFlow(p []byte, flow, number uint32) {
	binary.BigEndian.PutUint32(p[guestFlowAt:], flow)
	binary.BigEndian.PutUint32(p[guestFlowAt+8:], number)
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
	for _, e := range g.ends {
		if e != nil {
			errs = append(errs, e.close())
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
	for _, e := range g.ends {
		if err := e.begin(); err != nil {
			return t, err
		}
		defer e.end()
	}
	for _, e := range g.ends {
		g.sent += uint64(e.introduce())
	}
	flow := g.flow // once: a method value is an allocation
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
		for i, e := range g.ends {
			t.received += uint64(e.receive())
			burst := uint64(guestBurst)
			if rate > 0 {
				now := uint64(at.Seconds() * rate / 2)
				if now-due[i] > guestCatchUp {
					t.late += now - due[i] - guestCatchUp
					due[i] = now - guestCatchUp
				}
				burst = min(now-due[i], guestBurst)
			}
			n := e.send(int(burst), flow)
			t.sent += uint64(n)
			if rate > 0 {
				t.refused += burst - uint64(n)
				due[i] += burst
			}
		}
	}
	for last := time.Now(); time.Since(last) < settled; {
		n := 0
		for _, e := range g.ends {
			n += e.receive()
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

// flow draws the ports of UDP of a packet.
func (g *guestSource) flow() uint32 {
	flow := uint32(g.draw.Uint64() >> 32 * g.flows >> 32)
	return (guestPort+flow%guestPorts)<<16 | (guestPort + flow/guestPorts)
}

// measureGuests starts the guests, measures all figures, and lets all that is on its way arrive. It returns what was sent and received.
func (r *sharedRig) measureGuests(ctx context.Context, d sharedRunning, s *Sample) (sent, received uint64, err error) {
	g, err := dialGuests(r.config, [2]string{r.socket(0), r.socket(1)}, d.connects(), r.tunnelled, r.sizes)
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
