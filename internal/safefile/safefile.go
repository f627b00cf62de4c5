// Package safefile reads files that name what a process does: configurations, keys, and records of a spool. What
// anybody could have put there, or could change while it is read, is refused.
package safefile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Errors on which callers branch; they come wrapped with the remedy.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooLarge   = errors.New("too large")
	ErrKernels    = errors.New("no place for files")
	ErrUntrusted  = errors.New("others may read or change it")
)

// Open opens a regular file for reading. It does not wait for the other end of a FIFO.
func Open(path string) (*os.File, error) { return open(path, 0) }

// OpenHere is Open of a file that must not be a link.
func OpenHere(path string) (*os.File, error) { return open(path, unix.O_NOFOLLOW) }

func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s: %w: it is a link: remove it", path, ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: it is a %s", path, ErrNotRegular, kind(info.Mode()))
		if flags&unix.O_NOFOLLOW != 0 { // found in a folder of the process' own, not named by somebody
			err = fmt.Errorf("%w: remove it", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&os.ModeNamedPipe != 0:
		return "FIFO"
	case m&os.ModeSocket != 0:
		return "socket"
	case m&os.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Read reads a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

func readAll(f *os.File, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: %w: it has more than %d bytes", f.Name(), ErrTooLarge, most)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// ReadTrusted is Read of a file that only root, this process's user, or the user who called sudo may have written.
func ReadTrusted(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := trusted(f, 0o002); err != nil {
		return nil, err
	}
	return readAll(f, most)
}

// ReadSecret is ReadTrusted of a file that only its owner may read.
func ReadSecret(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := trusted(f, 0o077); err != nil {
		return nil, err
	}
	return readAll(f, most)
}

// ReadPrivate is ReadTrusted of a file that others may not read, as a password or a private key. Its group may.
func ReadPrivate(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := trusted(f, 0o006); err != nil {
		return nil, err
	}
	return readAll(f, most)
}

// maxPEM bounds a file of certificates, or a key, in bytes.
const maxPEM = 16 << 20

// KeyPair reads a trusted certificate and its private key, in PEM.
func KeyPair(certificate, key string) (tls.Certificate, error) {
	c, err := ReadTrusted(certificate, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := ReadPrivate(key, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}

// trusted checks who may write a file or put another one in its place, and that it has none of the mode's bits.
func trusted(f *os.File, none os.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if bits := info.Mode().Perm() & none; bits != 0 {
		return fmt.Errorf("%s: %w: its mode is %04o: chmod %s it", f.Name(), ErrUntrusted, info.Mode().Perm(), map[os.FileMode]string{0o002: "o-w", 0o006: "o-rw", 0o077: "600"}[none])
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if ok && !ours(int(s.Uid)) {
		return fmt.Errorf("%s: %w: it is owned by user %d: chown it to root, or to user %d as whom this runs", f.Name(), ErrUntrusted, s.Uid, os.Geteuid())
	}
	return inSafeFolder(f.Name())
}

// inSafeFolder checks that a file's folder does not let everybody put another file in its place, as one of mode 0777 does; with
// the sticky bit, as of /tmp, only owners may. Folders above are not looked at: volumes of containers have mode 0777.
func inSafeFolder(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil // it is open, and has no name any more
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("%s: %w: anybody may put another file into %s: chmod o-w it", path, ErrUntrusted, dir)
	}
	return nil
}

// ours reports whether a user may say what this process does.
func ours(uid int) bool {
	if uid == 0 || uid == os.Geteuid() {
		return true
	}
	sudo, err := strconv.Atoi(os.Getenv("SUDO_UID")) // set by sudo: its caller
	return err == nil && os.Geteuid() == 0 && uid == sudo
}

// ReadHere is Read of a file that must not be a link.
func ReadHere(path string, most int64) ([]byte, error) {
	f, err := OpenHere(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

// Folder makes a folder that only its owner may enter. One that is there is closed to others if all in it is the
// caller's own, by the name; else it stays as it is, unless anybody may put files there: that is refused.
func Folder(path string, own func(name string) bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err == nil {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: %w: it is a %s", path, syscall.ENOTDIR, kind(info.Mode()))
	}
	mode := info.Mode().Perm()
	s, ok := info.Sys().(*syscall.Stat_t)
	if mode&0o077 == 0 || !ok {
		return nil
	}
	names, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	closed := int(s.Uid) == os.Geteuid()
	for _, n := range names {
		closed = closed && own(n.Name())
	}
	if closed {
		return os.Chmod(path, mode&^0o077)
	}
	if mode&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("%s: %w: its mode is %04o: chmod o-w it", path, ErrUntrusted, mode)
	}
	return nil
}

// Create makes a file that is not there, whole or not at all, which all may read.
func Create(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Replace writes a file anew in one step: a reader has the old text or the new one. Mode and owner stay, and of a link the file
// that it leads to is replaced.
func Replace(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if s, ok := info.Sys().(*syscall.Stat_t); ok && err == nil {
		err = f.Chown(int(s.Uid), int(s.Gid))
	}
	if err == nil {
		err = errors.Join(f.Chmod(info.Mode().Perm()), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
