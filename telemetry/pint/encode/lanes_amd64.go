//go:build !purego

package encode

import (
	"golang.org/x/sys/cpu"

	"github.com/weirswitch/weir/telemetry/pint"
)

// wide says that the processor has what lanes_amd64.s needs, and four that it has what lanes4_amd64.s does. They are variables
// for tests to compare all ways.
var (
	wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2
	four = cpu.X86.HasAVX2 && cpu.X86.HasBMI2
)

// The functions of lanes_amd64.s are for n in 1..64; each pointer is to as many words.

//go:noescape
func wideWithin(a *uint64, turn, low, width uint64, n int) uint64

//go:noescape
func wideAtMost(a, limits *uint64, turn uint64, n int) uint64

//go:noescape
func wideMerge(dst, src *uint64, which, shift, mask, keep uint64, n int)

// Bits from n on are of no use.
//
//go:noescape
func wideReservoir(words, hops *[BlockSize]uint64, turn uint64, limits *[pint.MaxHops + 1]uint64, n int) uint64

//go:noescape
func wideLinear(dst, keys *[BlockSize]uint64, which, value, shift, mask uint64, n int)

// bases are a word for each packet, or with a step of 0 eight words that serve all.
//
//go:noescape
func wideCodes(b *Block, bases *[BlockSize]uint64, step, which uint64, c *codes, n int)

// The functions of lanes4_amd64.s are for n in 4, 8, ... 64; each pointer is to as many words.

//go:noescape
func within4(a *uint64, turn, low, width uint64, n int) uint64

//go:noescape
func atMost4(a, limits *uint64, turn uint64, n int) uint64

//go:noescape
func merge4(dst, src *uint64, which, shift, mask, keep uint64, n int)
