//go:build !amd64 || purego

package oblivious

import "github.com/weirswitch/weir/pipeline/packet"

var gathers = false

func gather(*block, *packet.Packet, int, int, *byte, int, bool) int {
	panic("oblivious: gather is for amd64")
}
