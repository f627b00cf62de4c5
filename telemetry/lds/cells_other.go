//go:build !amd64 || purego

package lds

// wide: only cells_amd64.s adds whole cells.
var wide = false

func prefetch(*Cell, *uint64, int)           { panic("lds: no wide cells") }
func mergeWide(_, _ *Cell, _ *uint64, _ int) { panic("lds: no wide cells") }
func placeWide(_, _, _, _ *[BlockSize]uint64, _, _ uint64, _ int) {
	panic("lds: no wide cells")
}
