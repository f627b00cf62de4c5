package hugepage

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFile: two maps of a part are the same memory, also by another descriptor of the file, which grows with its parts and cannot shrink.
func TestFile(t *testing.T) {
	f, err := NewFile("test", false)
	if err != nil {
		t.Fatal(err)
	}
	const offset = 3 * 64 << 10
	m, err := f.Map(offset, 100*16, false)
	if err != nil {
		t.Fatal(err)
	}
	cells := View[cell](m, 100)
	if cells[99] != (cell{}) {
		t.Error("new memory is not zero")
	}
	cells[99] = cell{1, 2}
	fd, err := unix.FcntlInt(f.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err := OpenFile(os.NewFile(uintptr(fd), "other"))
	if err != nil {
		t.Fatal(err)
	}
	if has, err := g.Has(offset + 1600); !has || err != nil {
		t.Errorf("the other one has too little: %v", err)
	}
	if has, _ := g.Has(offset + 1<<20); has {
		t.Error("it has more than was mapped")
	}
	other, err := g.Map(offset, 1600, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := View[cell](other, 100)[99]; got != (cell{1, 2}) {
		t.Errorf("the other one has %v", got)
	}
	if err := f.File().Truncate(0); err == nil {
		t.Error("the file shrinks under those who have it mapped")
	}
	if _, err := f.Map(5, 100, false); err == nil {
		t.Error("a part that begins within a page is mapped")
	}
}

// TestOpenFile: a file that can shrink, or is none in memory, is refused.
func TestOpenFile(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(os.NewFile(uintptr(fd), "test")); err == nil || !strings.Contains(err.Error(), "sealed") {
		t.Errorf("a file that can shrink: %v", err)
	}
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(plain); err == nil {
		t.Error("a file on disk is taken for memory")
	}
}
