package nic

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Sysfs is a network interface's folder in sysfs. It belongs to the network namespace of
// the thread that opened it, and may be used from any thread: it holds a sysfs of that
// namespace, which is mounted nowhere and vanishes with its descriptor. (The sysfs at /sys shows
// the interfaces of the namespace in which it was mounted; without the privilege for another one it is used if it
// shows this interface.)
type Sysfs struct {
	name  string
	mount int
}

// OpenSysfs opens the folder of an interface of the calling thread's namespace. That it exists is
// seen at the first use. It needs CAP_SYS_ADMIN and Linux 5.2, unless /sys shows the interface.
func OpenSysfs(name string) (*Sysfs, error) {
	s, err := mountSysfs(name)
	if err == nil {
		return s, nil
	}
	if s, mountedErr := mountedSysfs(name); mountedErr == nil {
		return s, nil
	}
	return nil, err
}

// mountedSysfs opens /sys, if the interface of the name has the index and the address there that it has here.
func mountedSysfs(name string) (*Sysfs, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, missing(err)
	}
	fd, err := unix.Open("/sys", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &Sysfs{name, fd}
	index, err := s.Read("ifindex")
	address, addressErr := s.Read("address")
	a := link.Attrs()
	if err == nil && addressErr == nil && index == strconv.Itoa(a.Index) && address == a.HardwareAddr.String() {
		return s, nil
	}
	return nil, errors.Join(errors.New("/sys is that of another network namespace"), s.Close())
}

func mountSysfs(name string) (*Sysfs, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open a sysfs of the namespace (Linux 5.2, CAP_SYS_ADMIN): %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("make a sysfs of the namespace: %w", err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mount a sysfs of the namespace: %w", err)
	}
	return &Sysfs{name, mount}, nil
}

// Close closes the folder.
func (s *Sysfs) Close() error { return unix.Close(s.mount) }

// Read returns a file of the folder, without the end of line. For an interface
// that does not exist the error is fs.ErrNotExist.
func (s *Sysfs) Read(file string) (string, error) {
	f, err := s.open(file, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var buf [256]byte
	n, err := f.Read(buf[:])
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

// Write writes a file of the folder.
func (s *Sysfs) Write(file, value string) error {
	f, err := s.open(file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (s *Sysfs) open(file string, flags int) (*os.File, error) {
	path := "class/net/" + s.name + "/" + file
	fd, err := unix.Openat(s.mount, path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
