//go:build !purego

package oblivious

import "golang.org/x/sys/cpu"

// wide says that the processor has what admit_amd64.s and classes_amd64.s need. It is a variable for tests to compare both.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2

// wideAdmits reports of packets of these bytes, eight at a time, whose hash, shifted right, is at most limit*bytes + bytes-1.
// n is in 1..admitBlock; bits from n on are of no use.
//
//go:noescape
func wideAdmits(hashes *[admitBlock]uint64, bytes *[admitBlock]uint32, limit, shift uint64, n int) uint64

// wideClasses adds the packets of a block whose bits are set in which, and their bytes, to those of their class. It does what plain does.
//
//go:noescape
func wideClasses(to *counted, protos *[Block]uint8, bytes *[Block]uint32, which uint64)
