//go:build !amd64 || purego

package lds

// wide: only cells_amd64.s adds whole cells.
var wide = false

func prefetch(*packed, *uint64, int)                 { panic("lds: no wide cells") }
func mergeWide(_, _ *packed, _ *uint64, _ int) int64 { panic("lds: no wide cells") }
func placeWide(_, _, _, _, _ *[BlockSize]uint64, _ int) {
	panic("lds: no wide cells")
}
func packWide(*[BlockSize]packed, *[BlockSize]int64, *[BlockSize]uint32, *[BlockSize]uint64, int64, int64, int64, int) int64 {
	panic("lds: no wide cells")
}
func placeAloneWide(_, _, _ *[BlockSize]uint64, _, _ uint64, _ int) { panic("lds: no wide cells") }
