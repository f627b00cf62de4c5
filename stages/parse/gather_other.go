//go:build !amd64 || purego

package parse

import "github.com/weirswitch/weir/pipeline/packet"

var gathers = false

func gather(*plainBlocks, *packet.Packet, int, int, int, *byte, int64, uint64, uint64) int {
	panic("parse: gather is for amd64")
}
