//go:build !amd64 || purego

package hash

// wide: only block_amd64.s hashes eight inputs at once.
var wide = false

func words1(_, _ *uint64, _ uint64, _ int)             { panic("hash: no wide words") }
func words2(_, _, _ *uint64, _ uint64, _ int)          { panic("hash: no wide words") }
func words5(_, _, _, _, _, _ *uint64, _ uint64, _ int) { panic("hash: no wide words") }
