package socket

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sock_diag(7): include/uapi/linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	diagRequest      = unix.SizeofNlMsghdr + 56 // struct inet_diag_req_v2
	diagUID          = unix.SizeofNlMsghdr + 64 // idiag_uid of struct inet_diag_msg
)

// ErrOwner says that the kernel does not say whose a connection is: it is not of this machine and network
// namespace, it is over, or the kernel has no inet_diag.
var ErrOwner = errors.New("the kernel does not say which user connected")

// OwnerOf asks the kernel which user made the socket at the other end of a TCP connection within this machine. So
// clients of a loopback address are known as those of a unix socket are.
func OwnerOf(c net.Conn) (uid int, err error) {
	if held, ok := c.(*bounded); ok {
		c = held.Conn
	}
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	remote, err2 := netip.ParseAddrPort(c.RemoteAddr().String())
	if err := errors.Join(err, err2); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrOwner, err)
	}
	if !remote.Addr().Unmap().IsLoopback() {
		return -1, fmt.Errorf("%w: %v is not of this machine", ErrOwner, remote)
	}
	// A client may have reached a socket of IPv6 by IPv4, and have either kind itself.
	for _, mapped := range []bool{false, true} {
		var uid int
		if uid, err = ownerOf(remote, local, mapped); err == nil {
			return uid, nil
		}
	}
	if uid, listErr := ownerInList(remote, local); listErr == nil { // a kernel without inet_diag
		return uid, nil
	}
	return -1, fmt.Errorf("%w: %w", ErrOwner, err)
}

// ownerInList finds a socket in the lists of all, by its own address and the other one's.
func ownerInList(from, to netip.AddrPort) (int, error) {
	for _, list := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 8 || listed(fields[1]) != netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) ||
				listed(fields[2]) != netip.AddrPortFrom(to.Addr().Unmap(), to.Port()) {
				continue
			}
			return strconv.Atoi(fields[7])
		}
	}
	return -1, ErrOwner
}

// listed reads an address as the lists write it: words of 32 bits in the machine's order, and the port.
func listed(text string) netip.AddrPort {
	address, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(address)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(n))
}

func ownerOf(from, to netip.AddrPort, mapped bool) (int, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, err
	}
	defer unix.Close(s)
	wait := unix.NsecToTimeval(int64(time.Second))
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return -1, err
	}
	request := make([]byte, diagRequest)
	binary.NativeEndian.PutUint32(request, diagRequest)
	binary.NativeEndian.PutUint16(request[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST)
	r := request[unix.SizeofNlMsghdr:]
	src, dst := from.Addr().Unmap(), to.Addr().Unmap()
	r[0], r[1] = unix.AF_INET6, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // states
	id := r[8:]                                      // struct inet_diag_sockid
	binary.BigEndian.PutUint16(id, from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	if src.Is4() && !mapped {
		r[0] = unix.AF_INET
		copy(id[4:], src.AsSlice())
		copy(id[20:], dst.AsSlice())
	} else {
		a, b := src.As16(), dst.As16()
		copy(id[4:], a[:])
		copy(id[20:], b[:])
	}
	for i := 40; i < 48; i++ {
		id[i] = 0xff // INET_DIAG_NOCOOKIE
	}
	if err := unix.Sendto(s, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return -1, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil {
		return -1, err
	}
	if n < unix.SizeofNlMsghdr {
		return -1, errors.New("an answer that is too short")
	}
	switch kind := binary.NativeEndian.Uint16(answer[4:]); {
	case kind == unix.NLMSG_ERROR && n >= unix.SizeofNlMsghdr+4:
		return -1, unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])))
	case kind != sockDiagByFamily || n < diagUID+4:
		return -1, fmt.Errorf("an answer of type %d and %d bytes", kind, n)
	}
	return int(binary.NativeEndian.Uint32(answer[diagUID:])), nil
}

// OwnUser reports whether a user is root, or the one as whom this process runs.
func OwnUser(uid int) bool { return uid == 0 || uid == os.Geteuid() }
