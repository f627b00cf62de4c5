//go:build !amd64 || purego

package sketch

// wide: only columns_amd64.s reduces eight at once.
var wide = false

func wideColumns(_ *[Block]uint64, _ *[Block]int64, _ *[Block]uint64, _ *int64, _ *int32, _, _ uint64, _ int) {
	panic("sketch: no wide words")
}
func wideAdd(*int32, *[Block]uint64, *[Block]int64, int, int) int { panic("sketch: no wide words") }
