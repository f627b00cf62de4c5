package nic

import (
	"fmt"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
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
	netdevVersion    = 1
	netdevDeviceGet  = 1
	netdevIfindex    = 1
	netdevXDP        = 3
	netdevSegments   = 4
	netdevRxMetadata = 5
	netdevXSK        = 6
)

// XDPFeatures asks the kernel what the driver of an interface can, of the calling thread's namespace.
func XDPFeatures(ifindex int) (x XDP, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask for the XDP features of interface %d (Linux 6.3): %w", ifindex, err)
		}
	}()
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return x, err
	}
	defer conn.Close()
	family, err := conn.GetFamily(netdevFamily)
	if err != nil {
		return x, err
	}
	request := netlink.NewAttributeEncoder()
	request.Uint32(netdevIfindex, uint32(ifindex))
	data, err := request.Encode()
	if err != nil {
		return x, err
	}
	header := genetlink.Header{Command: netdevDeviceGet, Version: netdevVersion}
	replies, err := conn.Execute(genetlink.Message{Header: header, Data: data}, family.ID, netlink.Request)
	if err != nil {
		return x, err
	}
	for _, reply := range replies {
		attributes, err := netlink.NewAttributeDecoder(reply.Data)
		if err != nil {
			return x, err
		}
		if err := x.fill(attributes); err != nil {
			return x, err
		}
	}
	return x, nil
}

func (x *XDP) fill(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		switch attributes.Type() {
		case netdevXDP:
			bits := attributes.Uint64()
			x.Known = true
			x.Native, x.Redirect, x.Transmit = bits&1 != 0, bits&(1<<1) != 0, bits&(1<<2) != 0
			x.ZeroCopy, x.MultiBuffer, x.TXBuffers = bits&(1<<3) != 0, bits&(1<<5) != 0, bits&(1<<6) != 0
		case netdevRxMetadata:
			bits := attributes.Uint64()
			x.MetadataKnown = true
			x.RxTimestamp, x.RxHash, x.RxVLAN = bits&1 != 0, bits&(1<<1) != 0, bits&(1<<2) != 0
		case netdevXSK:
			bits := attributes.Uint64()
			x.TxTimestamp, x.TxChecksum, x.TxLaunchTime = bits&1 != 0, bits&(1<<1) != 0, bits&(1<<2) != 0
		case netdevSegments:
			x.ZeroCopySegments = int(attributes.Uint32())
		}
	}
	return attributes.Err()
}
