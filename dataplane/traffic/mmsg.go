package traffic

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Frames is a vector of frames for sendmmsg and recvmmsg. It does not allocate after its making.
type Frames struct {
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

// NewFrames makes a vector of n frames of up to size bytes.
func NewFrames(n, size int) *Frames {
	stride := (size + 63) &^ 63
	m := &Frames{make([]byte, n*stride), stride, make([]unix.Iovec, n), make([]mmsghdr, n)}
	for i := range n {
		m.vectors[i].Base = &m.memory[i*stride]
		m.vectors[i].SetLen(size)
		m.headers[i].header.Iov = &m.vectors[i]
		m.headers[i].header.SetIovlen(1)
	}
	return m
}

// Buffer is the memory of frame i, of the vector's size or somewhat more.
func (m *Frames) Buffer(i int) []byte { return m.memory[i*m.stride : (i+1)*m.stride] }

// Length is how long the received frame i was, also if the vector holds less of it.
func (m *Frames) Length(i int) int { return int(m.headers[i].length) }

// setLength sets how many bytes of frame i are sent.
func (m *Frames) setLength(i, length int) { m.vectors[i].SetLen(length) }

// Send sends frames from up to to and returns how many went.
func (m *Frames) Send(fd, from, to int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&m.headers[from])), uintptr(to-from), 0, 0, 0)
	return int(n), errno
}

// Receive waits for a frame and returns how many there are.
func (m *Frames) Receive(fd int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.headers[0])),
		uintptr(len(m.headers)), unix.MSG_WAITFORONE|unix.MSG_TRUNC, 0, 0)
	return int(n), errno
}

// PacketSocket opens an AF_PACKET socket on an interface of the thread's namespace.
// Protocol 0 receives nothing.
func PacketSocket(ifindex int, protocol uint16, options ...SocketOption) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket (needs CAP_NET_RAW): %w", err)
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.Level, o.Name, o.Value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("set option %d of a packet socket to %d: %w", o.Name, o.Value, err)
		}
	}
	address := unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: ifindex}
	if err := unix.Bind(fd, &address); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind a packet socket: %w", err)
	}
	return fd, nil
}

// SocketOption is an option of a socket whose value is an integer.
type SocketOption struct{ Level, Name, Value int }
