package socket

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reasons why RemoveStale leaves a file.
var (
	ErrNotSocket = errors.New("a file that is no socket has its path")
	ErrInUse     = errors.New("a running process listens there")
)

// dialWait is how long a live server may take to accept.
const dialWait = time.Second

// RemoveStale removes a socket without a listener. A missing one is no error. A file
// that is no socket stays (ErrNotSocket), and so does a socket that a process answers at
// (ErrInUse), or may: then the error is that of dialling, a *net.OpError.
func RemoveStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return ErrNotSocket
	}
	c, err := net.DialTimeout("unix", path, dialWait)
	if err == nil {
		_ = c.Close()
		return ErrInUse
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Stale reports whether path is a socket without a listener, as a killed process leaves it. It
// removes nothing.
func Stale(path string) bool {
	c, err := net.DialTimeout("unix", path, dialWait)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}
