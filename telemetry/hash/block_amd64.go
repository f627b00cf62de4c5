//go:build !purego

package hash

import "golang.org/x/sys/cpu"

// wide says that the processor multiplies eight words of 64 bits at once. It is a
// variable for tests to compare both.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2

// The functions of block_amd64.s hash n >= 1 inputs; each pointer is to as many words.

//go:noescape
func words1(dst, a *uint64, seed uint64, n int)

//go:noescape
func words2(dst, a, b *uint64, seed uint64, n int)

//go:noescape
func words5(dst, a, b, c, d, e *uint64, seed uint64, n int)
