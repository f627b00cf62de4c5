//go:build !amd64 || purego

package oblivious

// wide: only admit_amd64.s decides eight at once, and classes_amd64.s counts them.
var wide = false

func wideAdmits(_ *[admitBlock]uint64, _ *[admitBlock]uint32, _, _ uint64, _ int) uint64 {
	panic("oblivious: no wide words")
}

func wideClasses(*counted, *[Block]uint8, *[Block]uint32, uint64) { panic("oblivious: no wide words") }
