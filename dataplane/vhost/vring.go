package vhost

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/virtio"
)

// Vring is one ring of a Device. It stays when front-ends come and go.
type Vring struct {
	// Faults counts what was refused of the front-ends' rings.
	Faults virtio.Faults

	device *Device
	index  int
	// poll is an epoll descriptor that has the front-end's kick: it is one descriptor for the worker to
	// wait for, whoever is there. Its events are edge-triggered, so that the kick itself, which belongs to others
	// as well, is never read.
	poll int
	wake int // our own event in poll: the ring has started
	// running is whether there is a ring and it is enabled: for who does not have the lock.
	running atomic.Bool

	mu      sync.Mutex // guards what follows; a worker only tries it
	ring    *virtio.Ring
	enabled bool
	memory  *virtio.Memory
	kick    int // descriptors, -1 without
	call    int
	layout  virtio.Layout
	placed  bool // layout has addresses
	panics  bool // what SetPanicOnFault was at Acquire
}

func newVring(d *Device, index int) (*Vring, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a descriptor to wait for ring %d: %w", index, err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
	}
	if err != nil {
		_ = unix.Close(poll)
		return nil, fmt.Errorf("make a descriptor to wake the worker of ring %d: %w", index, err)
	}
	return &Vring{device: d, index: index, poll: poll, wake: wake, kick: -1, call: -1}, nil
}

// FD is readable once the ring has started, or its driver has notified it, since Sleep.
func (v *Vring) FD() int { return v.poll }

// Running reports whether there is a ring to acquire.
func (v *Vring) Running() bool { return v.running.Load() }

// acquireTries bounds how long Acquire tries: about as long as another worker needs for a batch.
const acquireTries = 2000

// Acquire returns the ring if it runs, else nil. Release follows, deferred, if it is not nil. Several workers may share a
// ring to transmit.
func (v *Vring) Acquire() *virtio.Ring {
	if !v.running.Load() {
		return nil
	}
	for try := 0; !v.mu.TryLock(); try++ {
		if try == acquireTries {
			return nil
		}
	}
	if v.ring == nil || !v.enabled || v.ring.Broken() {
		v.mu.Unlock()
		return nil
	}
	v.panics = debug.SetPanicOnFault(true)
	return v.ring
}

// Release ends the use of the ring. It must be deferred directly: it recovers the
// fault of guest memory that is not there any more, and then the connection ends.
func (v *Vring) Release() {
	if r := recover(); r != nil {
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok || !v.memory.Holds(fault.Addr()) {
			debug.SetPanicOnFault(v.panics)
			v.mu.Unlock()
			panic(r) // a fault of ours
		}
		v.ring.Break(virtio.FaultMemory)
	}
	debug.SetPanicOnFault(v.panics)
	if v.ring.Broken() {
		v.device.fail(fmt.Errorf("ring %d cannot be followed any more (the counts of faults say why)", v.index))
	}
	v.mu.Unlock()
}

// Call notifies the driver. The ring is acquired.
func (v *Vring) Call() {
	if v.call < 0 {
		return
	}
	one := [8]byte{1}
	_, _ = unix.Write(v.call, one[:]) // fails only where so many notifications are pending already
}

// Sleep asks the driver for a notification, and reports whether buffers wait already.
func (v *Vring) Sleep() (ready bool) {
	var events [1]unix.EpollEvent
	_, _ = unix.EpollWait(v.poll, events[:], 0) // forget the kicks before
	r := v.Acquire()
	if r == nil {
		return false
	}
	defer v.Release()
	return r.Arm()
}

// start begins to serve the ring, if it is ready; the caller holds the lock.
func (v *Vring) start() error {
	if v.ring != nil || !v.placed || v.memory == nil || v.layout.Size == 0 {
		return nil
	}
	r, err := v.newRing()
	if err != nil {
		return fmt.Errorf("start ring %d: %w", v.index, err)
	}
	v.ring = r
	v.changed()
	return nil
}

// changed follows from a ring's start, stop and enabling; the caller holds the lock.
func (v *Vring) changed() {
	v.running.Store(v.ring != nil && v.enabled)
	if v.running.Load() {
		one := [8]byte{1}
		_, _ = unix.Write(v.wake, one[:]) // fails only where it is set
	}
}

// newRing touches the memory, which may be gone.
func (v *Vring) newRing() (r *virtio.Ring, err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		if p := recover(); p != nil {
			fault, ok := p.(interface{ Addr() uintptr })
			if !ok || !v.memory.Holds(fault.Addr()) {
				panic(p)
			}
			v.Faults[virtio.FaultMemory].Add(1)
			err = errors.New("its memory was taken away")
		}
	}()
	return virtio.NewRing(v.memory, v.layout, &v.Faults)
}

// stop ends the use of the ring and notes where it goes on; the caller holds the lock.
func (v *Vring) stop() {
	if v.ring != nil {
		v.layout.Base = v.ring.Base()
		v.ring = nil
		v.changed()
	}
}

// setKick replaces the descriptor by which the driver notifies; -1 is none. The caller holds the lock.
func (v *Vring) setKick(fd int) error {
	if v.kick >= 0 {
		_ = unix.EpollCtl(v.poll, unix.EPOLL_CTL_DEL, v.kick, nil)
		_ = unix.Close(v.kick)
	}
	if v.kick = fd; fd < 0 {
		return nil
	}
	return unix.EpollCtl(v.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
}

func (v *Vring) setCall(fd int) {
	if v.call >= 0 {
		_ = unix.Close(v.call)
	}
	v.call = fd
}

// reset forgets a front-end; the caller holds the lock.
func (v *Vring) reset() {
	v.stop()
	_ = v.setKick(-1)
	v.setCall(-1)
	v.enabled, v.placed, v.memory, v.layout = false, false, nil, virtio.Layout{}
	v.changed()
}

func (v *Vring) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reset()
	return errors.Join(unix.Close(v.wake), unix.Close(v.poll))
}

// eventfd makes a descriptor of a front-end one that no worker can block on: other kinds of files might,
// when they are polled or written.
func eventfd(fd int) error {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("what is descriptor %d: %w", fd, err)
	}
	if name != "anon_inode:[eventfd]" {
		return fmt.Errorf("a notification by %s: want an eventfd", name)
	}
	return unix.SetNonblock(fd, true)
}
