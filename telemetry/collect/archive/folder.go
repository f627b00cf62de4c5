package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is a bucket on disk.
type folder struct {
	path  string
	stage string
}

// stagingFolder begins with a dot, so that no reader of the archive takes it for a part of it.
const stagingFolder = ".staging"

// openFolder makes the folder, and removes what a process of the same owner left half written.
func openFolder(path, owner string) (bucket, error) {
	f := &folder{path, filepath.Join(path, stagingFolder, "of-"+owner)} // an owner may be called ".."
	if err := os.RemoveAll(f.stage); err != nil {
		return nil, fmt.Errorf("archive.url: %w", err)
	}
	if err := os.MkdirAll(f.stage, 0o750); err != nil {
		return nil, fmt.Errorf("archive.url: %w: choose a folder that may be written", err)
	}
	return f, nil
}

func (f *folder) close() error { return os.RemoveAll(f.stage) }

func (f *folder) create(pattern string) (*os.File, error) {
	file, err := os.CreateTemp(f.stage, pattern)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o640); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// put renames the staged file, which is atomic, once its content is on the disk.
func (f *folder) put(_ context.Context, name string, staged *os.File) error {
	to := filepath.Join(f.path, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	if _, err := os.Stat(staged.Name()); err == nil { // else only the folder is to be synced, by a second attempt
		if err := staged.Sync(); err != nil {
			return err
		}
		if err := os.Rename(staged.Name(), to); err != nil {
			return err
		}
	}
	return syncFile(filepath.Dir(to))
}

func syncFile(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// diskObject is an open file.
type diskObject struct {
	*os.File
	size int64
}

func (d *diskObject) Size() int64 { return d.size }

func (f *folder) open(_ context.Context, name string) (object, error) {
	file, err := os.OpenFile(filepath.Join(f.path, filepath.FromSlash(name)), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if kind := filepath.Join(f.path, filepath.Dir(filepath.Dir(filepath.FromSlash(name)))); !isFolder(kind) { // which retention leaves
			return nil, fmt.Errorf("the folder %s is no longer there: mount it again, or restart the collector if it was removed on purpose", kind)
		}
		return nil, errNone
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &diskObject{file, info.Size()}, nil
}

func (f *folder) list(ctx context.Context, under string, each func(string, int64)) error {
	err := filepath.WalkDir(filepath.Join(f.path, filepath.FromSlash(under)), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it has just gone, or nothing was archived yet
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		each(filepath.ToSlash(strings.TrimPrefix(path, f.path+string(filepath.Separator))), info.Size())
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the archive: %w", err)
	}
	return nil
}

func (f *folder) remove(_ context.Context, name string) error {
	path := filepath.Join(f.path, filepath.FromSlash(name))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(path)) // if it is empty now
	return nil
}
