package nic

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// XDP is what a driver can do for XDP and AF_XDP, as it says itself (Linux 6.3; metadata 6.8). Some drivers
// say so only while nothing stands in the way, such as an offload.
type XDP struct {
	// Known: the kernel has told. Else the rest is zero.
	Known       bool `json:"known"`
	Native      bool `json:"native"`       // programs run in the driver
	Redirect    bool `json:"redirect"`     // and may redirect, also to sockets
	Transmit    bool `json:"transmit"`     // takes packets that others redirect
	ZeroCopy    bool `json:"zero_copy"`    // sockets without copies
	MultiBuffer bool `json:"multi_buffer"` // packets of several buffers, received
	TXBuffers   bool `json:"tx_buffers"`   // and sent
	// ZeroCopySegments is how many buffers a packet may have without copies; 1: no multi-buffer.
	ZeroCopySegments int `json:"zero_copy_segments"`
	// MetadataKnown: the kernel has told about what follows.
	MetadataKnown bool `json:"metadata_known"`
	// RxTimestamp, RxHash and RxVLAN are what programs get with a packet.
	RxTimestamp bool `json:"rx_timestamp"`
	RxHash      bool `json:"rx_hash"`
	RxVLAN      bool `json:"rx_vlan"`
	// TxTimestamp, TxChecksum and TxLaunchTime are what sockets may ask for each packet that they send.
	TxTimestamp  bool `json:"tx_timestamp"`
	TxChecksum   bool `json:"tx_checksum"`
	TxLaunchTime bool `json:"tx_launch_time"`
}

// Of the generic netlink family netdev (include/uapi/linux/netdev.h).
const (
	netdevFamily     = "netdev"
	netdevDeviceGet  = 1
	netdevIfindex    = 1
	netdevXDP        = 3
	netdevSegments   = 4
	netdevRxMetadata = 5
	netdevXSK        = 6
)

// XDPFeatures asks the kernel what the driver of an interface can, of the calling thread's namespace.
func XDPFeatures(ifindex int) (x XDP, err error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return x, fmt.Errorf("ask for the XDP features of interface %d (Linux 6.3): %w", ifindex, err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	// Command, version and two reserved bytes, which nl.Genlmsg leaves to chance and this
	// family wants to be zero.
	header := []byte{netdevDeviceGet, 1, 0, 0}
	request.AddRawData(append(header, nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(ifindex))).Serialize()...))
	replies, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return x, fmt.Errorf("ask for the XDP features of interface %d: %w", ifindex, err)
	}
	for _, reply := range replies {
		if len(reply) < nl.SizeofGenlmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttrAsMap(reply[nl.SizeofGenlmsg:])
		if err != nil {
			return x, fmt.Errorf("read the XDP features of interface %d: %w", ifindex, err)
		}
		x.fill(attributes)
	}
	return x, nil
}

func (x *XDP) fill(attributes map[uint16]syscall.NetlinkRouteAttr) {
	bits := func(attribute uint16) uint64 {
		if a, ok := attributes[attribute]; ok && len(a.Value) == 8 {
			return binary.NativeEndian.Uint64(a.Value)
		}
		return 0
	}
	_, x.Known = attributes[netdevXDP]
	_, x.MetadataKnown = attributes[netdevRxMetadata]
	for _, b := range []struct {
		field     *bool
		attribute uint16
		bit       int
	}{
		{&x.Native, netdevXDP, 0}, {&x.Redirect, netdevXDP, 1}, {&x.Transmit, netdevXDP, 2},
		{&x.ZeroCopy, netdevXDP, 3}, {&x.MultiBuffer, netdevXDP, 5}, {&x.TXBuffers, netdevXDP, 6},
		{&x.RxTimestamp, netdevRxMetadata, 0}, {&x.RxHash, netdevRxMetadata, 1}, {&x.RxVLAN, netdevRxMetadata, 2},
		{&x.TxTimestamp, netdevXSK, 0}, {&x.TxChecksum, netdevXSK, 1}, {&x.TxLaunchTime, netdevXSK, 2},
	} {
		*b.field = bits(b.attribute)&(1<<b.bit) != 0
	}
	if a, ok := attributes[netdevSegments]; ok && len(a.Value) == 4 {
		x.ZeroCopySegments = int(binary.NativeEndian.Uint32(a.Value))
	}
}
