package hugepage

import (
	"testing"
	"unsafe"
)

type cell struct{ a, b uint64 }

// TestMake: an array of any length is zero, has no room behind, and begins at a huge page's bound if it is as long as one.
func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, 1000, Size/16 - 1, Size / 16, Size/16 + 1, 5*Size/16 + 77} {
		s := Make[cell](n)
		if len(s) != n || cap(s) < n || n*16 >= Size && cap(s) != n {
			t.Fatalf("%d values: length %d, capacity %d", n, len(s), cap(s))
		}
		for i := range s {
			if s[i] != (cell{}) {
				t.Fatalf("%d values: number %d is %+v", n, i, s[i])
			}
			s[i].b = uint64(i)
		}
		if n*16 >= Size && uintptr(unsafe.Pointer(&s[0]))%Size != 0 {
			t.Errorf("%d values begin at %p", n, &s[0])
		}
	}
	if s := Make[[24]byte](Size); len(s) != Size {
		t.Errorf("%d values whose size does not divide a page's", len(s))
	}
}
