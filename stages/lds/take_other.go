//go:build !amd64 || purego

package lds

import "github.com/weirswitch/weir/pipeline/packet"

var takes = false

func take(*taking, *packet.Packet, *packet.FlowName, int, *uint64, *uint64, *int64, *uint32) int {
	panic("lds: take is for amd64")
}
