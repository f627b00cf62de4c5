package traffic

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// messages is a vector of frames for sendmmsg and recvmmsg: frame i lies in
// buffer(i). It does not allocate after its making.
type messages struct {
	memory  []byte
	stride  int
	vectors []unix.Iovec
	headers []mmsghdr
}

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

func newMessages(n, size int) *messages {
	stride := (size + 63) &^ 63
	m := &messages{make([]byte, n*stride), stride, make([]unix.Iovec, n), make([]mmsghdr, n)}
	for i := range n {
		m.vectors[i].Base = &m.memory[i*stride]
		m.vectors[i].SetLen(size)
		m.headers[i].header.Iov = &m.vectors[i]
		m.headers[i].header.SetIovlen(1)
	}
	return m
}

func (m *messages) buffer(i int) []byte { return m.memory[i*m.stride : (i+1)*m.stride] }

// send sends frames from up to to and returns how many went.
func (m *messages) send(fd, from, to int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&m.headers[from])), uintptr(to-from), 0, 0, 0)
	return int(n), errno
}

// receive waits for a frame and takes what there is. Lengths are the frames' own, though
// only what a buffer holds of them is stored.
func (m *messages) receive(fd int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.headers[0])),
		uintptr(len(m.headers)), unix.MSG_WAITFORONE|unix.MSG_TRUNC, 0, 0)
	return int(n), errno
}

// packetSocket opens an AF_PACKET socket on an interface of the thread's namespace.
// Protocol 0 receives nothing.
func packetSocket(ifindex int, protocol uint16, options ...socketOption) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket (needs CAP_NET_RAW): %w", err)
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("set option %d of a packet socket to %d: %w", o.name, o.value, err)
		}
	}
	address := unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: ifindex}
	if err := unix.Bind(fd, &address); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind a packet socket: %w", err)
	}
	return fd, nil
}

type socketOption struct{ level, name, value int }
