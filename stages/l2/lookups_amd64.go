//go:build !purego

package l2

import "golang.org/x/sys/cpu"

// wide says that the processor compares four words at once. It is a variable for tests to compare both.
var wide = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// The functions of lookups_amd64.s take 1 <= n <= maxLookups. They check no bounds: offsets are those of layout.first and other, which
// are of the table's buckets.

// placeWide works in fours: what it stores behind n is of no use.
//
//go:noescape
func placeWide(buckets *bucket, l *lookups, keys *[maxLookups]uint64, n int, layout *layout, mixer *mixer)

//go:noescape
func touchWide(buckets *bucket, l *lookups, n int)

//go:noescape
func matchWide(buckets *bucket, l *lookups, n int, name uint64) (missed int)
