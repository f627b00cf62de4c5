package safefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MayFill reports what keeps this process from making a file of this path, which is not there yet. It makes nothing, so
// of what only the file system itself refuses it sees no more than that it is one of the kernel's.
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
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "make a file in", Path: dir, Err: err}
	}
	if name := kernelsOwn[int64(fs.Type)]; name != "" {
		return &os.PathError{Op: "make a file in", Path: dir, Err: fmt.Errorf("%w: it is of %s, where the kernel alone makes files", ErrKernels, name)}
	}
	return nil
}

// kernelsOwn are file systems of which the mode lets root make files that the file system itself refuses.
var kernelsOwn = map[int64]string{
	unix.PROC_SUPER_MAGIC: "proc", unix.SYSFS_MAGIC: "sysfs", unix.DEVPTS_SUPER_MAGIC: "devpts", unix.CGROUP_SUPER_MAGIC: "cgroup",
	unix.CGROUP2_SUPER_MAGIC: "cgroup2", unix.BPF_FS_MAGIC: "bpf", unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs", unix.SECURITYFS_MAGIC: "securityfs",
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
