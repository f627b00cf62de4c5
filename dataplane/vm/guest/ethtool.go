package main

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rings is struct ethtool_ringparam (include/uapi/linux/ethtool.h).
type rings struct{ cmd, rxMax, rxMiniMax, rxJumboMax, txMax, rx, rxMini, rxJumbo, tx uint32 }

// ethtool makes a request to the driver of an interface of this namespace. value begins with the command.
func ethtool(name string, value unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.data = value
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// channels is struct ethtool_channels.
type channels struct{ cmd, rxMax, txMax, otherMax, combinedMax, rx, tx, other, combined uint32 }

// fault is something that an operator does beneath a running switch. What it did is empty where the driver does not do it.
type fault func(name string) (did string, err error)

// operatorFaults have the driver of an interface reset itself, each in another way.
var operatorFaults = []fault{negotiate, resize, requeue}

func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// negotiate negotiates the link anew.
func negotiate(name string) (string, error) {
	nway := struct{ cmd uint32 }{unix.ETHTOOL_NWAY_RST}
	if err := ethtool(name, unsafe.Pointer(&nway)); err != nil {
		return "", ignoreUnsupported(err)
	}
	return "link negotiated anew", nil
}

// resize sets another size of the receive ring, twice that of before or half of it.
func resize(name string) (string, error) {
	r := rings{cmd: unix.ETHTOOL_GRINGPARAM}
	if err := ethtool(name, unsafe.Pointer(&r)); err != nil {
		return "", ignoreUnsupported(err)
	}
	r.cmd = unix.ETHTOOL_SRINGPARAM
	if r.rx *= 2; r.rx > r.rxMax {
		r.rx /= 4
	}
	if err := ethtool(name, unsafe.Pointer(&r)); err != nil {
		return "", fmt.Errorf("set a receive ring of %d: %w", r.rx, ignoreUnsupported(err))
	}
	return "receive ring of another size", nil
}

// requeue sets one queue more, or where there cannot be more, one less, and then as many as before. The kernel refuses to remove a
// queue that a socket is bound to, which is right.
func requeue(name string) (string, error) {
	before := channels{cmd: unix.ETHTOOL_GCHANNELS}
	if err := ethtool(name, unsafe.Pointer(&before)); err != nil {
		return "", ignoreUnsupported(err)
	}
	before.cmd = unix.ETHTOOL_SCHANNELS
	other, less := before, before.combined >= before.combinedMax
	switch {
	case before.combinedMax < 2:
		return "", nil
	case less:
		other.combined--
	default:
		other.combined++
	}
	err := ethtool(name, unsafe.Pointer(&other))
	if less && errors.Is(err, unix.EINVAL) {
		return "fewer queues, refused", nil
	}
	if err != nil {
		return "", ignoreUnsupported(err)
	}
	if err := ethtool(name, unsafe.Pointer(&before)); err != nil {
		return "", fmt.Errorf("set %d queues again: %w", before.combined, err)
	}
	return "another number of queues, and back", nil
}
