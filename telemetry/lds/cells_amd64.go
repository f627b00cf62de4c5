//go:build !purego

package lds

import "golang.org/x/sys/cpu"

// wide says that the processor adds both words of a cell at once. It is a
// variable for tests to compare both.
var wide = cpu.X86.HasAVX2

// The functions of cells_amd64.s take 1 <= n <= BlockSize updates. They check no bounds:
// the cells of updates come from Block.place and Block.scatter, which reduce them to
// the columns of a row.

//go:noescape
func prefetch(cells *packed, updates *uint64, n int)

//go:noescape
func mergeWide(cells, add *packed, updates *uint64, n int) (guarded int64)

// placeWide is the loop of Block.place, in fours: what it stores behind n is of no use.
//
//go:noescape
func placeWide(upper, lower, at, columns, hashes *[BlockSize]uint64, n int)

// packWide makes what n packets add to a cell of a point, each counted once, of their times, lengths and digests, in fours: what
// it stores behind n is of no use. outside is not 0 if a time less middle is below low or above high, or a length is above
// mostBytes, also behind n in the last four.
//
//go:noescape
func packWide(add *[BlockSize]packed, times *[BlockSize]int64, bytes *[BlockSize]uint32, digests *[BlockSize]uint64, middle, low, high int64, n int) (outside int64)

// placeAloneWide is placeWide for packets of one point, whose next row begins at cell first.
//
//go:noescape
func placeAloneWide(upper, lower, hashes *[BlockSize]uint64, first, columns uint64, n int)
