package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline/header"
	"golang.org/x/sys/unix"
)

// A generated frame, without FCS:
//
//	Ethernet 14 | IPv4 20 | UDP 8 | packet number 8 | mark 4 | filling
//
// The number is of the load in the file (16 bits) and of the packet in the load (48), so the first 8 bytes
// behind the headers distinguish all packets of a lab.
//
// Addresses are the hosts' own: then an unread socket at the sink keeps its stack from answering, and a flow
// is a source port. Or they are of 198.18.0.0/15, which RFC 2544 keeps for benchmarks, so no host's stack answers: to the
// n-th host of the file, counted from 0, go packets to 198.19.n.1, and its own come from the 1,024 addresses
// from 198.18.0.0 + 1024 n on. A flow is a source address and port.
const (
	flowHeaders  = 14 + 20 + 8
	minFlowFrame = flowHeaders + 4 + 8
	maxFlows     = 1 << 24
	maxOwnFlows  = 1<<16 - firstOwnPort // of two hosts' own addresses
	firstOwnPort = 1024
	flowMark     = 0x77656972 // marks our frames
	flowTTL      = 64
	flowBatch    = 64       // frames in one system call
	flowBurst    = 128      // most frames that a late sender catches up at once
	sinkBuffer   = 64 << 20 // bytes of socket buffer: about 60,000 frames
)

// flowFrames builds the frames of one load. It does not allocate after its making.
type flowFrames struct {
	order    flowOrder
	template []byte
	load     uint64 // the load's number, in the upper 16 bits
	own      bool   // the addresses are the hosts'
}

func newFlowFrames(source, sink net.HardwareAddr, size, flows int) *flowFrames {
	f := make([]byte, size)
	copy(f[0:], sink)
	copy(f[6:], source)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
	ip := f[14:]
	ip[0] = 0x45
	binary.BigEndian.PutUint16(ip[2:], uint16(size-14))
	ip[6] = 0x40 // do not fragment
	ip[8], ip[9] = flowTTL, unix.IPPROTO_UDP
	copy(ip[12:], []byte{198, 18, 0, 0})
	copy(ip[16:], []byte{198, 19, 0, 1})
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp[2:], 9) // discard
	binary.BigEndian.PutUint16(udp[4:], uint16(size-34))
	// No UDP checksum, as RFC 768 allows: the sink compares all bytes.
	fill(f[flowHeaders+4:], 0)
	binary.BigEndian.PutUint64(f[flowHeaders:], 0)
	binary.BigEndian.PutUint32(f[flowHeaders+8:], flowMark)
	return &flowFrames{order: flowOrder{flows: uint64(flows)}, template: f}
}

// between sets the addresses of the n-th load of a file, from one host of it to another.
func (f *flowFrames) between(from, to, n, port int) {
	ip := f.template[14:]
	ip[14] = byte(from % 64 << 2)
	ip[18] = byte(to)
	binary.BigEndian.PutUint16(ip[22:], uint16(port))
	f.load = uint64(uint16(n)) << 48
}

// ofHosts gives the frames the hosts' own addresses, behind between.
func (f *flowFrames) ofHosts(from, to netip.Addr) {
	source, sink := from.As4(), to.As4()
	copy(f.template[26:], source[:])
	copy(f.template[30:], sink[:])
	f.own = true
}

// source is the source address and port of a flow.
func (f *flowFrames) source(flow uint64) (address [4]byte, port uint16) {
	copy(address[:], f.template[26:])
	if f.own {
		return address, uint16(firstOwnPort + flow)
	}
	low := binary.BigEndian.Uint16(address[2:]) + uint16(flow>>14) // 2^14 ports for each address
	binary.BigEndian.PutUint16(address[2:], low)
	return address, 49152 + uint16(flow&0x3fff)
}

// port is the destination port of all flows.
func (f *flowFrames) port() uint16 { return binary.BigEndian.Uint16(f.template[36:]) }

// prepare writes into buf all that frames have in common.
func (f *flowFrames) prepare(buf []byte) { copy(buf, f.template) }

// number makes a prepared frame the i-th one.
func (f *flowFrames) number(buf []byte, i uint64) {
	flow, nth := f.order.packet(i)
	source, port := f.source(flow)
	ip := buf[14:]
	binary.BigEndian.PutUint16(ip[4:], nth) // IP identification
	copy(ip[12:16], source[:])
	binary.BigEndian.PutUint16(ip[20:], port)
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:20]))
	binary.BigEndian.PutUint64(buf[flowHeaders:], f.load|i)
}

// flows sends generated frames from the source's interface at a smooth rate and counts each one
// at the sink's.
func (l *load) flows(ctx context.Context, r *Result) error {
	sourceMAC, err := l.source.MAC(hostInterface)
	if err != nil {
		return err
	}
	nextMAC, err := l.nextHop(sourceMAC)
	if err != nil {
		return err
	}
	r.Flows = l.Flows
	frames := newFlowFrames(sourceMAC, nextMAC, l.Size, l.Flows)
	frames.between(l.fromIndex, l.toIndex, l.index, l.Port)
	if l.Addresses == AddressesHosts {
		frames.ofHosts(l.sourceIP, l.sinkIP)
	}
	frames.order = newFlowOrder(&l.Traffic)
	sink, err := newFlowSink(l, frames)
	if err != nil {
		return err
	}
	defer unix.Close(sink.fd)
	meter := l.progress.Begin(fmt.Sprintf("%d flows %s -> %s", l.Flows, l.From, l.To), int64(l.Count))
	defer meter.Done()
	finished := make(chan error, 1)
	go func() { finished <- sink.run(meter) }()

	began := time.Now()
	sent, sendErr := l.sendFlows(ctx, frames, sink.received.Load)
	r.Seconds = time.Since(began).Seconds()
	r.PacketsPerSec = float64(sent) / r.Seconds
	if !errors.As(sendErr, new(errNothingArrives)) {
		l.drain(ctx, sent, sink.received.Load)
	}
	sink.stop.Store(true) // it still reads until its socket is empty for a while
	recvErr := <-finished
	sink.track.report(r, sent)
	r.Counts = l.counts(frames, sink.track, sent)
	r.Overflow, err = sink.overflow()
	return errors.Join(sendErr, recvErr, err)
}

// The first packets go a few at a time: routers may have to ask for their neighbours, for each of several
// equal paths, and have room for a few packets only while they wait.
const (
	learning = 8   // packets in flight
	learnt   = 256 // packets received
)

// sendFlows sends all frames and returns how many the kernel took.
func (l *load) sendFlows(ctx context.Context, frames *flowFrames, received func() uint64) (sent uint64, err error) {
	fd, err := flowSocket(l, true)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	runtime.LockOSThread() // the pacer sleeps on it
	defer runtime.UnlockOSThread()
	v := traffic.NewFrames(flowBatch, l.Size)
	for i := range flowBatch {
		frames.prepare(v.Buffer(i))
	}
	pace := newWindow(min(l.Window, learning), l.Rate, flowBurst, received)
	pace.patience = l.patience
	count := uint64(l.Count)
	for sent < count {
		if received() >= learnt {
			pace.size = uint64(l.Window)
		}
		n, err := pace.next(ctx, sent, int(min(flowBatch, count-sent)))
		if err != nil {
			return sent, err
		}
		for i := range n {
			frames.number(v.Buffer(i), sent+uint64(i))
		}
		for taken := 0; taken < n; {
			took, errno := v.Send(fd, taken, n)
			switch errno {
			case 0:
				taken += took
				sent += uint64(took)
			case unix.ENOBUFS, unix.EAGAIN, unix.EINTR: // the queue is full
				if err := ctx.Err(); err != nil {
					return sent, err
				}
				doze()
			default:
				return sent, fmt.Errorf("flows: send: %w", errno)
			}
		}
	}
	return sent, nil
}

// flowSink receives on a packet socket and checks every byte of our frames.
type flowSink struct {
	fd       int
	frames   *flowFrames
	track    *tracker
	stop     atomic.Bool
	received atomic.Uint64 // a copy of the tracker's, for others to read
	want     []byte
	shared   bool // other loads may have frames here
	routed   bool // frames come through routers
}

// packetNumber are the bits of a frame's number that count within its load.
const packetNumber = 1<<48 - 1

func newFlowSink(l *load, frames *flowFrames) (*flowSink, error) {
	fd, err := flowSocket(l, false)
	if err != nil {
		return nil, err
	}
	s := &flowSink{
		fd: fd, frames: frames, track: newTracker(l.Count, l.Flows), want: make([]byte, l.Size),
		shared: l.Group != "", routed: l.routed,
	}
	s.track.order = &frames.order
	frames.prepare(s.want)
	if l.routed {
		mac, err := l.sink.MAC(hostInterface)
		if err != nil {
			unix.Close(fd)
			return nil, err
		}
		copy(s.want, mac)
	}
	return s, nil
}

// expectRouted lets the expected frame have what routers change: the last one's MAC address, and the time to live.
func (s *flowSink) expectRouted(frame []byte) {
	copy(s.want[6:12], frame[6:12])
	ip := s.want[14:]
	if ttl := frame[22]; ttl > 0 && ttl < flowTTL {
		ip[8] = ttl
	}
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:20]))
}

// run receives until it has been stopped and nothing has come for a while.
func (s *flowSink) run(meter Meter) error {
	v := traffic.NewFrames(flowBatch, len(s.want)+1) // one more shows a frame that is too long
	for {
		stopping := s.stop.Load()
		n, errno := v.Receive(s.fd)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN: // the socket's timeout
			if stopping {
				return nil
			}
			continue
		default:
			return fmt.Errorf("flows: receive: %w", errno)
		}
		before := s.track.received
		for i := range n {
			s.accept(v.Buffer(i)[:min(v.Length(i), len(s.want)+1)])
		}
		s.received.Store(s.track.received)
		meter.Add(int64(s.track.received - before))
	}
}

// accept counts one frame. Frames without our addresses and mark are the hosts' own.
func (s *flowSink) accept(frame []byte) {
	if len(frame) < minFlowFrame || frame[12] != 8 || frame[13] != 0 ||
		binary.BigEndian.Uint32(frame[flowHeaders+8:]) != flowMark {
		return
	}
	i := binary.BigEndian.Uint64(frame[flowHeaders:])
	if s.shared && i&^packetNumber != s.frames.load {
		return // of another load, which has its own sink here
	}
	i &= packetNumber
	s.frames.number(s.want, i)
	if s.routed {
		s.expectRouted(frame)
	}
	if !bytes.Equal(frame, s.want) {
		s.track.wrong++
		return
	}
	s.track.observe(i)
}

// overflow counts frames that found the socket's buffer full.
func (s *flowSink) overflow() (uint64, error) {
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("flows: read the sink's statistics: %w", err)
	}
	return uint64(stats.Drops), nil
}

// flowSocket opens a packet socket on a host's interface. The sender's receives nothing; the
// sink's wakes up ten times a second to look whether it has been stopped.
func flowSocket(l *load, sender bool) (fd int, err error) {
	ns := l.sink
	if sender {
		ns = l.source
	}
	link, err := ns.Link(hostInterface)
	if err != nil {
		return -1, err
	}
	err = ns.Do(func() (err error) {
		if sender {
			fd, err = traffic.PacketSocket(link.Attrs().Index, 0)
			return err
		}
		fd, err = traffic.PacketSocket(link.Attrs().Index, unix.ETH_P_ALL,
			traffic.SocketOption{Level: unix.SOL_SOCKET, Name: unix.SO_RCVBUFFORCE, Value: sinkBuffer},
			traffic.SocketOption{Level: unix.SOL_PACKET, Name: unix.PACKET_IGNORE_OUTGOING, Value: 1})
		if err != nil {
			return err
		}
		if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("flows: %w", err)
	}
	return fd, nil
}
