package port

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtool asks the driver of an interface (include/uapi/linux/ethtool.h). Its
// socket belongs to the namespace of the thread that opened it, so any thread may ask.
type ethtool struct {
	fd   int
	name string
}

func openEthtool(name string) (ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return ethtool{fd, name}, err
}

func (e ethtool) close() { _ = unix.Close(e.fd) }

// call does the command that value begins with.
func (e ethtool) call(value unsafe.Pointer) error {
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], e.name)
	request.data = value
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// channels returns the number of receive queues (ETHTOOL_GCHANNELS). Interfaces
// without the call have the queues that netlink names.
func (e ethtool) channels() (int, error) {
	var c struct{ cmd, maxRx, maxTx, maxOther, maxCombined, rx, tx, other, combined uint32 }
	c.cmd = unix.ETHTOOL_GCHANNELS
	if err := e.call(unsafe.Pointer(&c)); err != nil {
		return 0, err
	}
	if n := int(c.rx + c.combined); n > 0 {
		return n, nil
	}
	return 0, errors.ErrUnsupported
}

// Speed is the speed of an interface's link in bits per second, as its driver says (in the namespace of the calling
// thread). The error is errors.ErrUnsupported where it does not know, or that of the kernel.
func Speed(name string) (uint64, error) {
	e, err := openEthtool(name)
	if err != nil {
		return 0, err
	}
	defer e.close()
	return e.speed()
}

// linkSettings is the head of struct ethtool_link_settings; behind it are three bit
// masks of words each.
type linkSettings struct {
	cmd, megabits uint32
	_             [7]uint8
	words         int8
	_             [4]uint8
	_             [7]uint32
	masks         [3 * 127]uint32
}

// unknownSpeed is SPEED_UNKNOWN.
const unknownSpeed = ^uint32(0)

// speed returns the link's speed in bits per second (ETHTOOL_GLINKSETTINGS). The
// first call returns the length of the masks, the second one fills them.
func (e ethtool) speed() (uint64, error) {
	s := linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS}
	if err := e.call(unsafe.Pointer(&s)); err != nil {
		return 0, err
	}
	words := s.words
	if words >= 0 {
		return 0, errors.ErrUnsupported
	}
	s = linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS, words: -words}
	if err := e.call(unsafe.Pointer(&s)); err != nil {
		return 0, err
	}
	if s.megabits == 0 || s.megabits == unknownSpeed {
		return 0, errors.ErrUnsupported
	}
	return uint64(s.megabits) * 1_000_000, nil
}
