package xsk

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// ErrNotSupported means that the kernel or the driver does not have what was asked
// for (zero-copy, multi-buffer, AF_XDP itself); asking for less may succeed.
var ErrNotSupported = errors.New("not supported")

// socketError explains the errno of socket (xsk_create in net/xdp/xsk.c).
func socketError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("no privilege: run as root or grant CAP_NET_RAW (setcap cap_net_raw,cap_net_admin,cap_bpf+ep): %w", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("AF_XDP is %w: the kernel needs CONFIG_XDP_SOCKETS, and a sandbox must allow it (systemd: AF_XDP in RestrictAddressFamilies): %w", ErrNotSupported, err)
	default:
		return fmt.Errorf("make socket: %w", err)
	}
}

// bindError explains the errno of xsk_bind and xp_assign_dev.
func bindError(err error, config Config) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("the queue is in use by another AF_XDP socket (find its process with ss --xdp -p): %w", err)
	case errors.Is(err, unix.EOPNOTSUPP) && config.MultiBuffer:
		return fmt.Errorf("zero-copy for packets of several frames is %w by the driver: %w", ErrNotSupported, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("zero-copy is %w by the driver: %w", ErrNotSupported, err)
	case errors.Is(err, unix.EINVAL) && config.Mode == ZeroCopy:
		return fmt.Errorf("the driver refuses zero-copy, perhaps for the size of frames or because its device cannot reach the memory "+
			"(dmesg may say why), or there is no such queue (ethtool -l): %w", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the interface has no such queue (see ethtool -l), or the kernel does not know a flag: %w", err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("no such interface in this network namespace: %w", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("no privilege: run as root or grant CAP_NET_RAW and CAP_NET_ADMIN: %w", err)
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("too little memory for the socket's buffers: use smaller rings or fewer frames: %w", err)
	default:
		return fmt.Errorf("bind: %w", err)
	}
}

// interfaceName is for messages.
func interfaceName(ifindex int) string {
	if i, err := net.InterfaceByIndex(ifindex); err == nil {
		return i.Name
	}
	return fmt.Sprintf("interface %d", ifindex)
}
