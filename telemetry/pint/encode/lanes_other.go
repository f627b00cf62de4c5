//go:build !amd64 || purego

package encode

import "github.com/weirswitch/weir/telemetry/pint"

// wide: only lanes_amd64.s decides eight at once.
var wide, four = false, false

func wideWithin(_ *uint64, _, _, _ uint64, _ int) uint64 { panic("pint: no wide words") }
func wideAtMost(_, _ *uint64, _ uint64, _ int) uint64    { panic("pint: no wide words") }
func within4(_ *uint64, _, _, _ uint64, _ int) uint64    { panic("pint: no wide words") }
func atMost4(_, _ *uint64, _ uint64, _ int) uint64       { panic("pint: no wide words") }
func merge4(_, _ *uint64, _, _, _, _ uint64, _ int)      { panic("pint: no wide words") }
func wideMerge(_, _ *uint64, _, _, _, _ uint64, _ int)   { panic("pint: no wide words") }

func wideReservoir(_, _ *[BlockSize]uint64, _ uint64, _ *[pint.MaxHops + 1]uint64, _ int) uint64 {
	panic("pint: no wide words")
}
func wideLinear(_, _ *[BlockSize]uint64, _, _, _, _ uint64, _ int) { panic("pint: no wide words") }
func wideCodes(_ *Block, _ *[BlockSize]uint64, _, _ uint64, _ *codes, _ int) {
	panic("pint: no wide words")
}
