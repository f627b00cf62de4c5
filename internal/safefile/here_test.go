package safefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMay: what keeps a file or a folder from being made is found, and nothing is made for it.
func TestMay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path         string
		fill, folder error
	}{
		{filepath.Join(dir, "new"), nil, nil},
		{filepath.Join(dir, "a", "b", "new"), os.ErrNotExist, nil},
		{filepath.Join(file, "new"), syscall.ENOTDIR, syscall.ENOTDIR},
		{filepath.Join(file, "a", "new"), syscall.ENOTDIR, syscall.ENOTDIR},
		{dir, nil, nil},
		{"/proc/weir", ErrKernels, ErrKernels},
		{"/proc/self/weir/spool", os.ErrNotExist, ErrKernels},
		{"/sys/weir", ErrKernels, ErrKernels},
	} {
		if err := MayFill(tt.path); !errors.Is(err, tt.fill) {
			t.Errorf("MayFill(%s): %v, want %v", tt.path, err, tt.fill)
		}
		if err := MayMakeFolder(tt.path); !errors.Is(err, tt.folder) {
			t.Errorf("MayMakeFolder(%s): %v, want %v", tt.path, err, tt.folder)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
