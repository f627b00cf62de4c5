//go:build !amd64 || purego

package hash

// wideCRC: only the assembly of amd64 has eight carry-less products at once.
var wideCRC = false

func (key) manyWide([]uint64, sum, [][]uint64) { panic("hash: no carry-less products") }
