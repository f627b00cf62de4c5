package nic

import (
	"errors"
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/genetlink/genltest"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// TestHeaderSplit: the requests are those of the kernel's Documentation/netlink/specs/ethtool.yaml. No driver of this machine, nor of the
// virtual ones, splits headers, so the far end is one that does.
func TestHeaderSplit(t *testing.T) {
	const index = 7
	family := genetlink.Family{ID: 21, Version: ethtoolVersion, Name: ethtoolFamily}
	split, refuses := uint8(splitEnabled), false
	generic := genltest.Dial(genltest.ServeFamily(family, func(request genetlink.Message, message netlink.Message) ([]genetlink.Message, error) {
		if len(request.Data) == 0 {
			return nil, errors.New("no attributes")
		}
		attributes, err := netlink.NewAttributeDecoder(request.Data)
		if err != nil {
			return nil, err
		}
		device, set := uint32(0), -1
		for attributes.Next() {
			switch attributes.Type() {
			case unix.ETHTOOL_A_RINGS_HEADER:
				attributes.Nested(func(header *netlink.AttributeDecoder) error {
					for header.Next() {
						if header.Type() == unix.ETHTOOL_A_HEADER_DEV_INDEX {
							device = header.Uint32()
						}
					}
					return header.Err()
				})
			case unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT:
				set = int(attributes.Uint8())
			}
		}
		if err := attributes.Err(); err != nil || device != index {
			t.Errorf("device %d, error %v", device, err)
		}
		switch request.Header.Command {
		case unix.ETHTOOL_MSG_RINGS_GET:
			reply := netlink.NewAttributeEncoder()
			reply.Uint32(unix.ETHTOOL_A_RINGS_RX, 512)
			if split != 0 {
				reply.Uint8(unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT, split)
			}
			data, err := reply.Encode()
			return []genetlink.Message{{Data: data}}, err
		case unix.ETHTOOL_MSG_RINGS_SET:
			if refuses {
				return nil, genltest.Error(int(unix.EOPNOTSUPP))
			}
			split = uint8(set)
			return []genetlink.Message{{}}, nil
		}
		return nil, errors.New("another command")
	}))
	defer generic.Close()
	d := &device{generic: generic, index: index}
	expect := func(want string) {
		t.Helper()
		if got, err := d.read(HeaderSplit); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	expect(On)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check(d.write(HeaderSplit, Off))
	expect(Off)
	check(d.write(HeaderSplit, On))
	expect(On)
	refuses = true
	if err := d.write(HeaderSplit, Off); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("error %v", err)
	}
	split = 0
	if got, err := d.read(HeaderSplit); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%q, %v of a driver that does not tell", got, err)
	}
}

// TestNoHeaderSplit: a veth has it not, and the kernel's own answers say so.
func TestNoHeaderSplit(t *testing.T) {
	p := newPort(t)
	p.do(func() error {
		d, err := open(name)
		if err != nil {
			return err
		}
		if got, err := d.read(HeaderSplit); err == nil {
			t.Errorf("header split is %q", got)
		}
		if err := d.write(HeaderSplit, Off); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("error %v", err)
		}
		return d.close()
	})
}
