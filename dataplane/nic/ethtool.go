package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtool asks the driver of an interface (include/uapi/linux/ethtool.h). Its socket belongs to the
// namespace of the thread that opened it, so any thread may ask.
//
// The requests are our own: github.com/safchain/ethtool passes addresses through functions as numbers, so a stack that
// grows on the way leaves the kernel writing where nothing of ours is any more, and it has no RSS keys.
type ethtool struct{ fd int }

func openEthtool() (ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return ethtool{fd}, err
}

func (e ethtool) close() error { return unix.Close(e.fd) }

// call does the command that value begins with.
func (e ethtool) call(name string, value unsafe.Pointer) error {
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.data = value
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// words is a request whose length is known at run time, in numbers of 32 bits.
func (e ethtool) words(name string, w []uint32) error { return e.call(name, unsafe.Pointer(&w[0])) }

// driver returns what the driver tells about itself (ETHTOOL_GDRVINFO).
func (e ethtool) driver(name string) (unix.EthtoolDrvinfo, error) {
	i := unix.EthtoolDrvinfo{Cmd: unix.ETHTOOL_GDRVINFO}
	return i, e.call(name, unsafe.Pointer(&i))
}

// text is a string of fixed length that a zero ends.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// Feature is an offload of an interface.
type Feature struct {
	On bool `json:"on"`
	// Fixed: nothing changes it while the driver is as it is.
	Fixed bool `json:"fixed"`
}

// featureSet is the string set of the features' names (ETH_SS_FEATURES).
const featureSet = 4

const nameLength = 32 // ETH_GSTRING_LEN

// featureNames returns the names of the kernel's features by their number; some have none.
func (e ethtool) featureNames(name string) ([]string, error) {
	var size struct {
		cmd, _ uint32
		mask   uint64
		length uint32
	}
	size.cmd, size.mask = unix.ETHTOOL_GSSET_INFO, 1<<featureSet
	if err := e.call(name, unsafe.Pointer(&size)); err != nil {
		return nil, err
	}
	const head = 3
	request := make([]uint32, head+size.length*nameLength/4)
	request[0], request[1], request[2] = unix.ETHTOOL_GSTRINGS, featureSet, size.length
	if err := e.words(name, request); err != nil {
		return nil, err
	}
	raw := make([]byte, 0, 4*len(request))
	for _, w := range request[head:] {
		raw = binary.NativeEndian.AppendUint32(raw, w)
	}
	names := make([]string, size.length)
	for i := range names {
		names[i] = text(raw[i*nameLength : (i+1)*nameLength])
	}
	return names, nil
}

// features returns all features by name (ETHTOOL_GFEATURES).
func (e ethtool) features(name string) (map[string]Feature, error) {
	names, err := e.featureNames(name)
	if err != nil {
		return nil, err
	}
	blocks := (len(names) + 31) / 32
	const head, fields = 2, 4 // available, requested, active, never changed
	request := make([]uint32, head+fields*blocks)
	request[0], request[1] = unix.ETHTOOL_GFEATURES, uint32(blocks)
	if err := e.words(name, request); err != nil {
		return nil, err
	}
	all := map[string]Feature{}
	for i, feature := range names {
		block, bit := request[head+fields*(i/32):], uint32(1)<<(i%32)
		if feature != "" {
			all[feature] = Feature{On: block[2]&bit != 0, Fixed: block[0]&bit == 0 || block[3]&bit != 0}
		}
	}
	return all, nil
}

// setFeature requests a feature on or off (ETHTOOL_SFEATURES). The driver may keep it
// as it is without an error.
func (e ethtool) setFeature(name, feature string, on bool) error {
	names, err := e.featureNames(name)
	if err != nil {
		return err
	}
	blocks := (len(names) + 31) / 32
	const head, fields = 2, 2 // valid, requested
	request := make([]uint32, head+fields*blocks)
	request[0], request[1] = unix.ETHTOOL_SFEATURES, uint32(blocks)
	for i, n := range names {
		if n != feature {
			continue
		}
		block, bit := request[head+fields*(i/32):], uint32(1)<<(i%32)
		if block[0] = bit; on {
			block[1] = bit
		}
		return e.words(name, request)
	}
	return errors.ErrUnsupported
}

// channelCounts is struct ethtool_channels.
type channelCounts struct{ cmd, maxRx, maxTx, maxOther, maxCombined, rx, tx, other, combined uint32 }

// channels returns how many queues there are, and how many there can be (ETHTOOL_GCHANNELS).
func (e ethtool) channels(name string) (channelCounts, error) {
	c := channelCounts{cmd: unix.ETHTOOL_GCHANNELS}
	return c, e.call(name, unsafe.Pointer(&c))
}

// setChannels sets the counts (ETHTOOL_SCHANNELS). With those that there are it changes nothing, and
// its error says whether the driver could.
func (e ethtool) setChannels(name string, c channelCounts) error {
	c.cmd = unix.ETHTOOL_SCHANNELS
	return e.call(name, unsafe.Pointer(&c))
}

// Rings are how many packets the rings between device and driver hold.
type Rings struct {
	RX    int `json:"rx"`
	RXMax int `json:"rx_max"`
	TX    int `json:"tx"`
	TXMax int `json:"tx_max"`
}

func (e ethtool) rings(name string) (Rings, error) {
	var r struct{ cmd, rxMax, rxMiniMax, rxJumboMax, txMax, rx, rxMini, rxJumbo, tx uint32 }
	r.cmd = unix.ETHTOOL_GRINGPARAM
	err := e.call(name, unsafe.Pointer(&r))
	return Rings{RX: int(r.rx), RXMax: int(r.rxMax), TX: int(r.tx), TXMax: int(r.txMax)}, err
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
func (e ethtool) speed(name string) (uint64, error) {
	s := linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS}
	if err := e.call(name, unsafe.Pointer(&s)); err != nil {
		return 0, err
	}
	words := s.words
	if words >= 0 {
		return 0, errors.ErrUnsupported
	}
	s = linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS, words: -words}
	if err := e.call(name, unsafe.Pointer(&s)); err != nil {
		return 0, err
	}
	if s.megabits == 0 || s.megabits == unknownSpeed {
		return 0, errors.ErrUnsupported
	}
	return uint64(s.megabits) * 1_000_000, nil
}
