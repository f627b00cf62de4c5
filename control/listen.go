package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/socket"
)

// socketMode lets the owner and the group talk to the switch.
const socketMode = 0o660

// Listen makes the control socket at path, and its directory. The socket of a
// process that is gone is replaced; that of a running one, or a file that is
// no socket, is an error. Closing the listener removes what was made, but for a
// directory that others use by then. The socket is of the given group, a name or a
// number; empty: the process's.
func Listen(path, group string) (net.Listener, error) {
	gid, err := groupNumber(group)
	if err != nil {
		return nil, err
	}
	l, err := listen(path, gid)
	// A switch that ends at this moment may take the directory with it.
	for try := 1; errors.Is(err, os.ErrNotExist) && try < 100; try++ {
		time.Sleep(time.Millisecond)
		l, err = listen(path, gid)
	}
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, accessRemedy(err))
	}
	return l, nil
}

func listen(path string, gid int) (_ net.Listener, err error) {
	dir := filepath.Dir(path)
	made, err := makeDirectory(dir)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		if err != nil {
			removeEmpty(made)
		}
	}()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := bind(path, gid)
	if err != nil {
		return nil, err
	}
	return &listener{l, path, made}, nil
}

// groupNumber finds a group, -1 for none.
func groupNumber(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if gid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(gid), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("control.group: %w: name a group of this machine, or its number", err)
	}
	return strconv.Atoi(g.Gid)
}

// bind makes the socket under another name and renames it when it has its mode,
// so that no client connects before. By that name others find out whose XDP program is on their interface.
func bind(path string, gid int) (*net.UnixListener, error) {
	hidden := socket.Hidden(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chown(hidden, -1, gid)
	if err == nil {
		err = os.Chmod(hidden, socketMode)
	}
	if err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(hidden))
	}
	return l, nil
}

// listener removes its socket, and the directories made for it, when it is closed.
type listener struct {
	*net.UnixListener
	path string
	made []string
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if err := l.UnixListener.Close(); err != nil {
		return err // closed before; the path may be another's by now
	}
	unlock, err := lock(filepath.Dir(l.path))
	if err != nil {
		return err
	}
	defer unlock()
	err = os.Remove(l.path)
	removeEmpty(l.made)
	return err
}

// makeDirectory makes a missing directory, independent of the umask, open to all to
// pass: the socket's own mode decides who may talk. It returns what it made, the
// deepest first.
func makeDirectory(dir string) (made []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); !errors.Is(err, os.ErrNotExist) {
			break
		}
		made = append(made, d)
	}
	if made == nil {
		return nil, nil
	}
	// os.MkdirAll fails with "file exists" where another process makes a directory
	// and takes it away again meanwhile; here that is "no such file", and Listen tries again.
	for _, d := range slices.Backward(made) {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return made, err
		}
	}
	return made, os.Chmod(dir, 0o755)
}

// removeEmpty removes directories as far as they are empty, for the holder of the
// lock: no other process is about to fill them.
func removeEmpty(dirs []string) {
	for _, d := range dirs {
		_ = os.Remove(d) // in use by others, or gone
	}
}

// lock keeps two switches that start at once from taking each other's socket
// for stale. The lock is on the directory, so it leaves no file behind.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), d.Close())
	}
	if err := stillThere(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil
}

// stillThere finds out that another switch has removed the directory, and
// perhaps a third one made it anew, while we waited.
func stillThere(d *os.File) error {
	ours, err := d.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(d.Name())
	if err == nil && !os.SameFile(ours, now) {
		err = os.ErrNotExist
	}
	return err
}

// removeStale removes a socket without a listener.
func removeStale(path string) error {
	err := socket.RemoveStale(path)
	var dial *net.OpError
	switch {
	case errors.Is(err, socket.ErrNotSocket):
		return fmt.Errorf("%w: remove it, or set control.socket to another path", err)
	case errors.Is(err, socket.ErrInUse):
		return errors.New("a running switch listens there: stop it, or give this one another switch.name or control.socket")
	case errors.As(err, &dial):
		return fmt.Errorf("see whether a switch listens there: %w", err)
	}
	return err
}

// accessRemedy says what to do about what the file system refuses.
func accessRemedy(err error) error {
	var refused *os.PathError
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no permission: run as root, or set control.socket to a path that you may write: %w", err)
	case errors.As(err, &refused):
		return fmt.Errorf("%w: set control.socket to a path in a directory that can be made", err)
	}
	return err
}
