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
