package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// socketMode lets the owner and the group talk to the switch.
const socketMode = 0o660

// dialWait is how long a live switch may take to accept.
const dialWait = time.Second

// Listen makes the control socket at path, and its directory. The socket of a
// process that is gone is replaced; that of a running one, or a file that is
// no socket, is an error. Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := makeDirectory(dir); err != nil {
		return nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	return bind(path)
}

// bind makes the socket under another name and moves it to its place when it
// has its mode, so that nobody connects before, and nobody finds it half made.
func bind(path string) (net.Listener, error) {
	hidden := fmt.Sprintf("%s/.%d", filepath.Dir(path), os.Getpid())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, accessRemedy(err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(hidden, socketMode)
	if err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(hidden))
	}
	return &listener{l, path}, nil
}

// listener removes its socket when it is closed.
type listener struct {
	*net.UnixListener
	path string
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if err := l.UnixListener.Close(); err != nil {
		return err // closed before; the path may be another's by now
	}
	return os.Remove(l.path)
}

// makeDirectory makes a missing directory, whatever the umask, open to all to
// pass: the socket's own mode decides who may talk.
func makeDirectory(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return accessRemedy(err)
	}
	return os.Chmod(dir, 0o755)
}

// lock keeps two switches that start at once from taking each other's socket
// for stale. The lock is on the directory, so it leaves no file behind.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, accessRemedy(err)
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), d.Close())
	}
	return func() { _ = d.Close() }, nil
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return accessRemedy(err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("a file that is no socket is in its place: remove it, or set control.socket to another path")
	}
	c, err := net.DialTimeout("unix", path, dialWait)
	if err == nil {
		_ = c.Close()
		return errors.New("a running switch listens there: stop it, or give this one another switch.name or control.socket")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("see whether a switch listens there: %w", accessRemedy(err))
	}
	return os.Remove(path)
}

func accessRemedy(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("no permission: run as root, or set control.socket to a path that you may write: %w", err)
	}
	return err
}
