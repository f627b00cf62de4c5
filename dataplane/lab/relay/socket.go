package relay

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// socket sends and receives whole frames on one interface. One direction
// receives on it, and the other one sends.
type socket struct {
	fd      int
	name    string // of the interface
	frame   []byte
	control []byte
}

// socketBuffer is 32 MiB of queue before the relay.
const socketBuffer = 32 << 20

// atOnce is how many packets are received before those that are due are looked
// after.
const atOnce = 64

func openSocket(name string) (*socket, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	all := uint16(unix.ETH_P_ALL)
	member := unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_PROMISC}
	for _, step := range []func() error{
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) },
		func() error {
			return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member)
		},
		func() error {
			return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: link.Index})
		},
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("prepare a packet socket: %w", err)
		}
	}
	return &socket{fd: fd, name: name, frame: make([]byte, 1<<16), control: make([]byte, 256)}, nil
}

func (s *socket) close() { unix.Close(s.fd) }

// receive waits for frames for so long, and gives f those that are there, with
// the kernel's time of their arrival.
func (s *socket) receive(wait time.Duration, f func(frame []byte, at time.Duration)) (got bool, err error) {
	poll := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(wait))
	if n, err := unix.Ppoll(poll, &timeout, nil); n == 0 || err == unix.EINTR {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("wait for packets: %w", err)
	}
	for range atOnce {
		n, controlled, _, _, err := unix.Recvmsg(s.fd, s.frame, s.control, unix.MSG_DONTWAIT)
		switch err {
		case nil:
		case unix.EAGAIN, unix.EINTR, unix.ENETDOWN:
			return got, nil
		default:
			return got, fmt.Errorf("receive: %w", err)
		}
		got = true
		f(s.frame[:n], arrival(s.control[:controlled]))
	}
	return got, nil
}

// arrival reads the kernel's time of a packet, and without one the clock. A control
// message is the kernel's struct cmsghdr, of 16 bytes, with a struct timespec behind
// it.
func arrival(control []byte) time.Duration {
	const header, timespec = 16, 16
	if len(control) >= header+timespec &&
		binary.NativeEndian.Uint32(control[8:]) == unix.SOL_SOCKET && binary.NativeEndian.Uint32(control[12:]) == unix.SCM_TIMESTAMPNS {
		seconds := binary.NativeEndian.Uint64(control[header:])
		ns := binary.NativeEndian.Uint64(control[header+8:])
		return time.Duration(seconds)*time.Second + time.Duration(ns)
	}
	return realtime()
}

// send sends a frame, and reports whether it could: while the queue before the interface is full it waits, but where the cable is cut
// the frame is lost.
func (s *socket) send(frame []byte) (sent bool, err error) {
	for {
		err := unix.Send(s.fd, frame, 0)
		switch err {
		case nil:
			return true, nil
		case unix.ENETDOWN:
			return false, nil
		case unix.ENOBUFS, unix.EAGAIN, unix.EINTR:
			if err == unix.ENOBUFS && !s.running() {
				return false, nil
			}
			time.Sleep(50 * time.Microsecond)
		default:
			return false, fmt.Errorf("send a frame of %d bytes: %w", len(frame), err)
		}
	}
}

// running reports whether the interface is up and has a carrier.
func (s *socket) running() bool {
	request, err := unix.NewIfreq(s.name)
	if err != nil || unix.IoctlIfreq(s.fd, unix.SIOCGIFFLAGS, request) != nil {
		return false
	}
	const want = unix.IFF_UP | unix.IFF_RUNNING
	return request.Uint16()&want == want
}

// missed counts packets that found the socket's buffer full.
func (s *socket) missed() (uint64, error) {
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("read a socket's statistics: %w", err)
	}
	return uint64(stats.Drops), nil
}
