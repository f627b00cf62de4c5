//go:build !amd64 || purego

package pint

import (
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// wide: only straight_amd64.s looks at a packet's whole metadata at once.
var wide = false

func gather(*gathering, *packet.Packet, int, *byte, int) int { panic("pint: no wide words") }

func scatter(_ *byte, _, _, _ *[encode.BlockSize]uint64, _, _ uint64, _ int) {
	panic("pint: no wide words")
}
