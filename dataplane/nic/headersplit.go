package nic

import (
	"errors"
	"fmt"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Header split has no ioctl: it is asked for by generic netlink (Documentation/networking/ethtool-netlink.rst, Linux 5.18; which
// drivers could turn it off, the kernel knows from Linux 6.14 on).
const (
	ethtoolFamily  = "ethtool"
	ethtoolVersion = 1
	splitDisabled  = 1 // ETHTOOL_TCP_DATA_SPLIT_DISABLED
	splitEnabled   = 2
)

// ringsRequest executes a request about the rings of the interface. extra adds attributes behind the header.
func (d *device) ringsRequest(command uint8, flags netlink.HeaderFlags, extra func(*netlink.AttributeEncoder)) ([]genetlink.Message, error) {
	family, err := d.generic.GetFamily(ethtoolFamily)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	request := netlink.NewAttributeEncoder()
	request.Nested(unix.ETHTOOL_A_RINGS_HEADER, func(header *netlink.AttributeEncoder) error {
		header.Uint32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(d.index))
		return nil
	})
	extra(request)
	data, err := request.Encode()
	if err != nil {
		return nil, err
	}
	message := genetlink.Message{Header: genetlink.Header{Command: command, Version: ethtoolVersion}, Data: data}
	return d.generic.Execute(message, family.ID, netlink.Request|flags)
}

// headerSplit returns the value of HeaderSplit. The error is errors.ErrUnsupported where the driver has it not, or decides by itself.
func (d *device) headerSplit() (string, error) {
	replies, err := d.ringsRequest(unix.ETHTOOL_MSG_RINGS_GET, 0, func(*netlink.AttributeEncoder) {})
	if err != nil {
		return "", err
	}
	split := uint8(0)
	for _, reply := range replies {
		attributes, err := netlink.NewAttributeDecoder(reply.Data)
		if err != nil {
			return "", err
		}
		for attributes.Next() {
			if attributes.Type() == unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT {
				split = attributes.Uint8()
			}
		}
		if err := attributes.Err(); err != nil {
			return "", err
		}
	}
	switch split {
	case splitDisabled:
		return Off, nil
	case splitEnabled:
		return On, nil
	}
	return "", errors.ErrUnsupported
}

func (d *device) setHeaderSplit(value string) error {
	split := uint8(splitDisabled)
	if value == On {
		split = splitEnabled
	}
	_, err := d.ringsRequest(unix.ETHTOOL_MSG_RINGS_SET, netlink.Acknowledge, func(request *netlink.AttributeEncoder) {
		request.Uint8(unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT, split)
	})
	return err
}
