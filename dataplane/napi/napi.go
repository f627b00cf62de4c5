// Package napi reads and sets how the kernel receives on an interface: whether
// it waits for a busy poller before it falls back to interrupts
// (Documentation/networking/napi.rst).
//
// An Interface belongs to the network namespace of the thread that opened it,
// and may be used from any thread: it holds a sysfs of that namespace, which is
// mounted nowhere and vanishes with its descriptor. (The sysfs at /sys shows the
// interfaces of the namespace in which it was mounted.)
package napi

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Deferral is for how long the kernel leaves receive work to a busy poller.
type Deferral struct {
	// Rounds is how many empty rounds pass until interrupts are enabled again
	// (napi_defer_hard_irqs).
	Rounds int
	// Flush is the length of a round (gro_flush_timeout).
	Flush time.Duration
}

const (
	roundsFile = "napi_defer_hard_irqs"
	flushFile  = "gro_flush_timeout"
)

// Interface is a network interface's folder in sysfs.
type Interface struct {
	name  string
	mount int
}

// Open opens an interface of the calling thread's namespace. That it exists is
// seen at the first use. It needs CAP_SYS_ADMIN and Linux 5.2.
func Open(name string) (*Interface, error) {
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
	return &Interface{name, mount}, nil
}

// Close closes the interface.
func (i *Interface) Close() error { return unix.Close(i.mount) }

// Deferral returns the interface's deferral.
func (i *Interface) Deferral() (d Deferral, err error) {
	rounds, err := i.Read(roundsFile)
	if err != nil {
		return d, err
	}
	flush, err := i.Read(flushFile)
	if err != nil {
		return d, err
	}
	if d.Rounds, err = strconv.Atoi(rounds); err != nil {
		return d, err
	}
	ns, err := strconv.ParseInt(flush, 10, 64)
	d.Flush = time.Duration(ns)
	return d, err
}

// SetDeferral sets the interface's deferral.
func (i *Interface) SetDeferral(d Deferral) error {
	if err := i.Write(roundsFile, strconv.Itoa(d.Rounds)); err != nil {
		return err
	}
	return i.Write(flushFile, strconv.FormatInt(d.Flush.Nanoseconds(), 10))
}

// Read returns a file of the folder, without the end of line. For an interface
// that does not exist the error is fs.ErrNotExist.
func (i *Interface) Read(file string) (string, error) {
	f, err := i.open(file, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var buf [64]byte
	n, err := f.Read(buf[:])
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

// Write writes a file of the folder.
func (i *Interface) Write(file, value string) error {
	f, err := i.open(file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (i *Interface) open(file string, flags int) (*os.File, error) {
	path := "class/net/" + i.name + "/" + file
	fd, err := unix.Openat(i.mount, path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
