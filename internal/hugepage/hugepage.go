// Package hugepage makes large arrays for which the kernel is asked for huge pages: cells that packets change at random spare
// a page walk each, which in a virtual machine costs as much as the cell itself.
package hugepage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Size of a huge page in bytes, on amd64 and on arm64 with pages of 4 KiB.
const Size = 2 << 20

// collapse is MADV_COLLAPSE (Linux 6.1): pages that are there already are replaced by huge ones at once.
const collapse = 25

// Make returns n zero values. T has no pointers. Arrays of a huge page or more begin at the bounds of one, if the size of a T
// divides it, and the kernel is asked for huge ones; where it has none to give, or does not know them, the pages are ordinary
// ones. At most two huge pages more than needed are reserved, and at most one gets memory. The garbage collector frees the array as any other.
func Make[T any](n int) []T {
	each := int(unsafe.Sizeof(*new(T)))
	if n*each < Size || Size%each != 0 {
		return make([]T, n)
	}
	pages := (n*each + Size - 1) / Size
	all := make([]T, (pages+1)*Size/each)
	skip := 0
	if over := uintptr(unsafe.Pointer(&all[0])) % Size; over != 0 {
		skip = (Size - int(over)) / each
	}
	start := unsafe.Pointer(&all[skip])
	memory := unsafe.Slice((*byte)(start), pages*Size)
	if unix.Madvise(memory, unix.MADV_HUGEPAGE) == nil {
		_ = unix.Madvise(memory, collapse) // what is not there yet comes as a huge page anyway
	}
	return all[skip : skip+n : skip+n]
}
