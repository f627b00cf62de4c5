package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Directory holds one bind mount per named namespace, as iproute2 has it.
const Directory = "/run/netns"

// Namespace is an open network namespace. It must be made by [Create], [Open]
// or [Current], must not be copied, and may be used by several goroutines.
// An open Namespace keeps the kernel's namespace alive, even after its name has
// been deleted: close it.
type Namespace struct {
	name   string
	file   *os.File
	handle *netlink.Handle
	close  sync.Once
}

// Create makes a new, empty namespace called name. Its loopback interface is up.
// It is an error if the name is in use.
func Create(name string) (*Namespace, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > unix.NAME_MAX {
		return nil, fmt.Errorf("create network namespace: %q is no usable name", name)
	}
	if err := shareDirectory(); err != nil {
		return nil, err
	}
	path := filepath.Join(Directory, name)
	mark, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return nil, fmt.Errorf("create network namespace %s: %w", name, err)
	}
	mark.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare (needs CAP_SYS_ADMIN): %w", err)
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, "")
	})
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("create network namespace %s: %w", name, err)
	}
	ns, err := Open(name)
	if err == nil {
		err = ns.SetUp("lo")
	}
	if err != nil {
		if ns != nil {
			ns.Close()
		}
		return nil, errors.Join(err, Delete(name))
	}
	return ns, nil
}

// Open opens the existing namespace called name. A missing one gives an error
// that is fs.ErrNotExist.
func Open(name string) (*Namespace, error) {
	return open(name, filepath.Join(Directory, name), handleAt)
}

// Current opens the namespace of the calling process. It has no name. To look
// around there needs no privilege.
func Current() (*Namespace, error) {
	return open("", "/proc/thread-self/ns/net", func(*os.File) (*netlink.Handle, error) {
		return netlink.NewHandle(unix.NETLINK_ROUTE)
	})
}

func open(name, path string, newHandle func(*os.File) (*netlink.Handle, error)) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	handle, err := newHandle(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open network namespace %s: make a netlink socket: %w", name, err)
	}
	return &Namespace{name: name, file: file, handle: handle}, nil
}

// handleAt makes the netlink socket inside the namespace, which needs CAP_SYS_ADMIN.
func handleAt(file *os.File) (*netlink.Handle, error) {
	return netlink.NewHandleAt(vnetns.NsHandle(file.Fd()), unix.NETLINK_ROUTE)
}

// Name is the name below /run/netns, or empty for [Current].
func (ns *Namespace) Name() string { return ns.name }

// Netlink is a netlink handle whose sockets live inside the namespace. It is
// closed with the namespace.
func (ns *Namespace) Netlink() *netlink.Handle { return ns.handle }

// Close releases the namespace but leaves its name. A second Close does nothing.
func (ns *Namespace) Close() {
	ns.close.Do(func() {
		ns.handle.Close()
		ns.file.Close()
	})
}

// Delete closes the namespace and removes its name. Its interfaces vanish as
// soon as no process or socket uses the namespace any more.
func (ns *Namespace) Delete() error {
	ns.Close()
	return Delete(ns.name)
}

// Delete removes the named namespace's interfaces and then its name. A missing
// one gives an error that is fs.ErrNotExist.
//
// The interfaces go first because the kernel tears a nameless namespace down at
// its leisure, and not at all while a process keeps it; a veth removed by hand is
// gone from both ends when Delete returns.
func Delete(name string) error {
	path := filepath.Join(Directory, name)
	if _, err := os.Lstat(path); err != nil {
		return fmt.Errorf("delete network namespace %s: %w", name, err)
	}
	// A name without a mount is what is left of a creation that was cut short.
	if ns, err := Open(name); err == nil {
		ns.deleteLinks()
		ns.Close()
	}
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("delete network namespace %s: unmount: %w", name, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("delete network namespace %s: %w", name, err)
	}
	return nil
}

// deleteLinks removes what can be removed; the loopback stays.
func (ns *Namespace) deleteLinks() {
	links, err := ns.handle.LinkList()
	if err != nil {
		return
	}
	for _, link := range links {
		// Only kinds that exist in software: a physical device is not ours to delete.
		if t := link.Type(); t == "veth" || t == "bridge" {
			_ = ns.handle.LinkDel(link)
		}
	}
}

// List returns, sorted, the names of all namespaces that begin with prefix.
func List(prefix string) ([]string, error) {
	entries, err := os.ReadDir(Directory)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Do runs f on a thread inside the namespace and returns f's error.
//
// f runs in its own goroutine, so it must not call testing.T's FailNow, and
// goroutines that f starts are outside the namespace. If the thread cannot be
// switched back it is never used again.
func (ns *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			name := ns.name
			if name == "" {
				name = "of this process"
			}
			return fmt.Errorf("enter the network namespace %s (needs CAP_SYS_ADMIN: run as root): %w", name, err)
		}
		return f()
	})
}

// onThread runs f on a locked thread whose network namespace f may change, and
// puts the thread back afterwards.
func onThread(f func() error) error {
	// A goroutine that ends while locked takes its thread with it. That is the
	// last resort only: the thread may be the process's first one, which the
	// runtime parks for ever instead, and /proc/PID/ns/net would then name the
	// wrong namespace and keep it alive.
	result := make(chan error, 1)
	go func() {
		err := errors.New("the function ended its goroutine")
		defer func() { result <- err }()
		runtime.LockOSThread()
		origin, openErr := os.Open("/proc/thread-self/ns/net")
		if openErr != nil {
			runtime.UnlockOSThread()
			err = fmt.Errorf("open the thread's network namespace: %w", openErr)
			return
		}
		defer func() {
			if unix.Setns(int(origin.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			origin.Close()
		}()
		err = f()
	}()
	return <-result
}

// shareDirectory makes /run/netns a shared mount, so that a namespace named
// here is seen in mount namespaces that exist already, and one deleted here is
// let go of there. It does what iproute2 does at its first use.
func shareDirectory() error {
	if err := os.MkdirAll(Directory, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", Directory, err)
	}
	err := unix.Mount("", Directory, "none", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err = unix.Mount(Directory, Directory, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", Directory, "none", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("share the mount %s (needs CAP_SYS_ADMIN): %w", Directory, err)
	}
	return nil
}
