//go:build !purego

package pint

import (
	"golang.org/x/sys/cpu"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// wide says that the processor has what straight_amd64.s needs. It is a variable for tests to compare both.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// gather takes the run at the beginning of n packets, 1 to what the block has room for, and returns its length. It reads no shim
// behind the last offset into memory. It does what plain does.
//
//go:noescape
func gather(how *gathering, pkts *packet.Packet, n int, mem *byte, last int) int

// scatter writes the first words of n shims, 1 to encode.BlockSize, to where these are: the old ones under keep, with
// the next hop and the digest. It leaves other words behind. It does what the loop of write does.
//
//go:noescape
func scatter(mem *byte, at, words, digests *[encode.BlockSize]uint64, keep, shift uint64, n int)
