package netns

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PacketSocket sends and receives whole Ethernet frames on one interface,
// through AF_PACKET. One goroutine may send while another receives.
type PacketSocket struct {
	file *os.File
	raw  syscall.RawConn
	oob  []byte
}

// PacketSocket opens a packet socket on an interface that sees every frame
// that arrives there, promiscuously, and none that leaves.
func (ns *Namespace) PacketSocket(name string) (*PacketSocket, error) {
	link, err := ns.Link(name)
	if err != nil {
		return nil, err
	}
	fd := -1
	err = ns.Do(func() error {
		fd, err = openPacket(link.Attrs().Index)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open packet socket on %s in namespace %s: %w", name, ns.name, err)
	}
	file := os.NewFile(uintptr(fd), "packet:"+name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open packet socket on %s in namespace %s: %w", name, ns.name, err)
	}
	return &PacketSocket{file: file, raw: raw, oob: make([]byte, 128)}, nil
}

// openPacket makes a non-blocking packet socket. Protocol 0 until bind keeps
// frames of other interfaces out of its queue.
func openPacket(index int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	// 32 MiB of queue: bursts of a test must not be lost in the witness.
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20); err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return -1, err
	}
	member := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member); err != nil {
		return -1, err
	}
	all := uint16(unix.ETH_P_ALL)
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index})
}

// Close closes the socket; a waiting Receive returns.
func (s *PacketSocket) Close() error { return s.file.Close() }

// SetDeadline bounds the waiting of later Send and Receive calls; they then
// return an error that is os.ErrDeadlineExceeded. The zero time takes it off.
func (s *PacketSocket) SetDeadline(t time.Time) error { return s.file.SetDeadline(t) }

// Send sends one Ethernet frame, without its checksum.
func (s *PacketSocket) Send(frame []byte) error {
	if _, err := s.file.Write(frame); err != nil {
		return fmt.Errorf("send a frame of %d bytes: %w", len(frame), err)
	}
	return nil
}

// Receive waits for a frame and copies it into buf, with its VLAN tag where it
// was on the wire, although the kernel keeps it elsewhere. A frame longer than
// buf, less 4 bytes of room for that tag, is cut.
func (s *PacketSocket) Receive(buf []byte) (n int, err error) {
	if len(buf) < 18 {
		return 0, fmt.Errorf("receive a frame: a buffer of %d bytes holds no frame", len(buf))
	}
	var oobn int
	readErr := s.raw.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), buf[:len(buf)-4], s.oob, 0)
		return err != unix.EAGAIN // false waits until readable
	})
	if readErr != nil {
		return 0, readErr
	}
	if err != nil {
		return 0, fmt.Errorf("receive a frame: %w", err)
	}
	return restoreTag(buf, n, s.oob[:oobn])
}

// auxData is the kernel's struct tpacket_auxdata (linux/if_packet.h).
type auxData struct {
	status, length, snaplen   uint32
	mac, net, vlanTCI, vlanID uint16
}

// restoreTag puts the VLAN tag named by the control message back behind the
// MAC addresses. buf has 4 bytes of room behind n.
func restoreTag(buf []byte, n int, control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, fmt.Errorf("receive a frame: read its control message: %w", err)
	}
	for _, message := range messages {
		if message.Header.Level != unix.SOL_PACKET || message.Header.Type != unix.PACKET_AUXDATA ||
			len(message.Data) < int(unsafe.Sizeof(auxData{})) {
			continue
		}
		aux := (*auxData)(unsafe.Pointer(unsafe.SliceData(message.Data)))
		if aux.status&unix.TP_STATUS_VLAN_VALID == 0 || n < 12 {
			continue
		}
		protocol := uint16(unix.ETH_P_8021Q)
		if aux.status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			protocol = aux.vlanID
		}
		copy(buf[16:n+4], buf[12:n])
		binary.BigEndian.PutUint16(buf[12:], protocol)
		binary.BigEndian.PutUint16(buf[14:], aux.vlanTCI)
		n += 4
	}
	return n, nil
}

// ReceiveAll reads frames until none has arrived for the given while, and
// returns copies of those that keep accepts (nil: all). max bounds their number; 0 is no bound.
func (s *PacketSocket) ReceiveAll(idle time.Duration, max int, keep func([]byte) bool) ([][]byte, error) {
	buf := make([]byte, 1<<16)
	var frames [][]byte
	defer s.SetDeadline(time.Time{})
	for max == 0 || len(frames) < max {
		if err := s.SetDeadline(time.Now().Add(idle)); err != nil {
			return frames, err
		}
		n, err := s.Receive(buf)
		if os.IsTimeout(err) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		if keep == nil || keep(buf[:n]) {
			frames = append(frames, slices.Clone(buf[:n]))
		}
	}
	return frames, nil
}

// HardwareAddr returns a locally administered unicast MAC address that is
// different for each n.
func HardwareAddr(n uint32) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x77, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}
