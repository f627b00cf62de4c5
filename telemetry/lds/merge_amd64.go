//go:build !purego

package lds

import "golang.org/x/sys/cpu"

// wide says that the processor adds the four fields of a cell at once. It is a
// variable for tests to compare both ways.
var wide = cpu.X86.HasAVX2

// The functions of merge_amd64.s take n >= 1 updates. They check no bounds: the cells
// of updates come from Block.place and Block.scatter, which reduce them to the
// columns of a row.

//go:noescape
func prefetch(cells *Cell, updates *uint64, n int)

//go:noescape
func mergeWide(cells, add *Cell, updates *uint64, n int)
