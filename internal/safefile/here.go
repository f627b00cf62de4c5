package safefile

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MayFill reports what keeps this process from making a file of this path, which is not there yet. It makes nothing, so
// it does not see what only the file system itself refuses.
func MayFill(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "make a file in", Path: dir, Err: unix.ENOTDIR}
	}
	if err != nil {
		return err
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "make a file in", Path: dir, Err: err}
	}
	return nil
}

// MayMakeFolder reports what keeps this process from making a folder as Folder does, and from making files in it. It makes nothing.
func MayMakeFolder(path string) error {
	within := filepath.Join(path, "x")
	err := MayFill(within)
	for errors.Is(err, os.ErrNotExist) && path != filepath.Dir(path) {
		within, path = path, filepath.Dir(path)
		err = MayFill(within)
	}
	return err
}
