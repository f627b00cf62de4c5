//go:build !purego

package sketch

import "golang.org/x/sys/cpu"

// wide says that the processor has what columns_amd64.s needs. It is a variable for tests to compare both.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2

// wideColumns reduces n mixed flows, 1 to Block, to the columns of a row of at most MaxWidth cells, eight at a time, and prefetches
// their cells. What is to be added to them is v, of n values, with its sign turned where mixed has the bit of signs,
// which is 1, or 0 for none. Columns behind n are some of the row's.
//
//go:noescape
func wideColumns(columns *[Block]uint64, add *[Block]int64, mixed *[Block]uint64, v *int64, cells *int32, width, signs uint64, n int)

// wideAdd adds to cells, from flow i to n, and stops in front of a flow whose cell meets a limit or is at one. It returns where.
//
//go:noescape
func wideAdd(cells *int32, columns *[Block]uint64, add *[Block]int64, i, n int) int
