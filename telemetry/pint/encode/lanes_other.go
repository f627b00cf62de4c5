//go:build !amd64 || purego

package encode

// wide: only lanes_amd64.s decides eight at once.
var wide, four = false, false

func wideWithin(_ *uint64, _, _, _ uint64, _ int) uint64 { panic("pint: no wide words") }
func wideAtMost(_, _ *uint64, _ uint64, _ int) uint64    { panic("pint: no wide words") }
func within4(_ *uint64, _, _, _ uint64, _ int) uint64    { panic("pint: no wide words") }
func atMost4(_, _ *uint64, _ uint64, _ int) uint64       { panic("pint: no wide words") }
func merge4(_, _ *uint64, _, _, _, _ uint64, _ int)      { panic("pint: no wide words") }
func wideMerge(_, _ *uint64, _, _, _, _ uint64, _ int)   { panic("pint: no wide words") }
