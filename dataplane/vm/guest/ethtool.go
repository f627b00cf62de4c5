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

// reset has the driver of an interface reset itself: by negotiating the link anew, or, where the driver does not, by another size of
// its receive ring, twice that of before or half of it. It returns what it did.
func reset(name string) (string, error) {
	nway := struct{ cmd uint32 }{unix.ETHTOOL_NWAY_RST}
	err := ethtool(name, unsafe.Pointer(&nway))
	if err == nil {
		return "link negotiated anew", nil
	}
	r := rings{cmd: unix.ETHTOOL_GRINGPARAM}
	if ringErr := ethtool(name, unsafe.Pointer(&r)); ringErr != nil {
		return "", fmt.Errorf("reset %s: %w", name, errors.Join(err, ringErr))
	}
	r.cmd = unix.ETHTOOL_SRINGPARAM
	if r.rx *= 2; r.rx > r.rxMax {
		r.rx /= 4
	}
	if ringErr := ethtool(name, unsafe.Pointer(&r)); ringErr != nil {
		return "", fmt.Errorf("reset %s: %w", name, errors.Join(err, fmt.Errorf("set a receive ring of %d: %w", r.rx, ringErr)))
	}
	return "receive ring of another size", nil
}
