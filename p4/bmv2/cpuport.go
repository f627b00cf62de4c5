package bmv2

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CPUPort is an interface of which this process is the other end: what a switch sends by it is read here.
// The kernel takes it away when it is closed, or the process ends.
type CPUPort struct {
	file *os.File
	name string
}

const (
	// cpuMTU is the largest one of a TAP interface: copies are longer than packets.
	cpuMTU = 65521
	// cpuQueue is how many copies wait to be read; more are dropped, and counted.
	cpuQueue = 1 << 14
)

// OpenCPUPort makes an interface in the namespace of this process, and brings it up. No packet of the kernel's
// own is sent by it.
func OpenCPUPort() (*CPUPort, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make an interface for the CPU port: open /dev/net/tun: %w", err)
	}
	p := &CPUPort{}
	if p.name, err = attach(fd); err != nil {
		return nil, fmt.Errorf("make an interface for the CPU port: %w", errors.Join(err, unix.Close(fd)))
	}
	p.file = os.NewFile(uintptr(fd), p.name)
	if err := p.setUp(); err != nil {
		return nil, fmt.Errorf("make the interface %s for the CPU port: %w", p.name, errors.Join(err, p.Close()))
	}
	return p, nil
}

// attach makes the interface of a file, and returns the name that the kernel found for it.
func attach(fd int) (string, error) {
	r, err := unix.NewIfreq("weircpu%d")
	if err != nil {
		return "", err
	}
	r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return "", err
	}
	return r.Name(), nil
}

func (p *CPUPort) setUp() error {
	// The kernel would look for routers and neighbours here.
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+p.name+"/disable_ipv6", []byte("1"), 0o644)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	set := func(request uint, change func(*unix.Ifreq)) error {
		r, err := unix.NewIfreq(p.name)
		if err != nil {
			return err
		}
		change(r)
		return unix.IoctlIfreq(socket, request, r)
	}
	return errors.Join(
		set(unix.SIOCSIFMTU, func(r *unix.Ifreq) { r.SetUint32(cpuMTU) }),
		set(unix.SIOCSIFTXQLEN, func(r *unix.Ifreq) { r.SetUint32(cpuQueue) }),
		set(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) { r.SetUint16(unix.IFF_UP | unix.IFF_NOARP) }),
	)
}

// Name is the interface's, for Config.Interfaces.
func (p *CPUPort) Name() string { return p.name }

// Read reads one copy. It returns an error behind Close.
func (p *CPUPort) Read(b []byte) (int, error) { return p.file.Read(b) }

// Close ends reading and takes the interface away.
func (p *CPUPort) Close() error { return p.file.Close() }

// Dropped is how many copies found no room.
func (p *CPUPort) Dropped() (uint64, error) {
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		// Behind the eight fields of what is received are bytes, packets, errs, drop.
		if f := strings.Fields(rest); name == p.name && len(f) > 11 {
			return strconv.ParseUint(f[11], 10, 64)
		}
	}
	return 0, fmt.Errorf("the interface %s has no counters", p.name)
}
