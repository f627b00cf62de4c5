package vhost

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/dataplane/virtio"
)

// Vring is one ring of a Device. It stays when front-ends come and go.
type Vring struct {
	// Faults counts what was refused of the front-ends' rings.
	Faults virtio.Faults

	device *Device
	index  int
	bell   *shmem.Bell // what the worker waits for: the front-end's kick, and the start of the ring

	guest atomic.Pointer[gso.Offloads] // what the front-end takes of large packets

	gate    shmem.Gate // open while there is a ring and it is enabled; guards what follows
	ring    *virtio.Ring
	enabled bool
	memory  *virtio.Memory
	call    int // descriptor, -1 without
	layout  virtio.Layout
	placed  bool // layout has addresses
	started bool // the front-end wants it to run, once there is memory
	// Of a ring that another process has still: it runs there, and why it cannot go on here.
	must bool
	lost error
}

func newVring(d *Device, index int) (*Vring, error) {
	bell, err := shmem.NewBell()
	if err != nil {
		return nil, fmt.Errorf("ring %d: %w", index, err)
	}
	return &Vring{device: d, index: index, bell: bell, call: -1}, nil
}

// FD is readable once the ring has started, or its driver has notified it, since Sleep.
func (v *Vring) FD() int { return v.bell.FD() }

// Takes reports whether the front-end takes large packets of a segmentation type (gso.TCP4 and so on). The ring may have another front-end at
// the next moment, and then refuses the packet.
func (v *Vring) Takes(kind uint8) bool {
	o := v.guest.Load()
	return o != nil && o.Takes(kind)
}

// Running reports whether there is a ring to acquire.
func (v *Vring) Running() bool { return v.gate.Open() }

// Acquire returns the ring if it runs, else nil. Release follows, deferred, if it is not nil. Several workers may share a
// ring to transmit.
func (v *Vring) Acquire() *virtio.Ring {
	if !v.gate.Enter() {
		return nil
	}
	if v.ring == nil || !v.enabled || v.ring.Broken() {
		v.gate.Leave()
		return nil
	}
	return v.ring
}

// Release ends the use of the ring. It must be deferred directly: it recovers the
// fault of guest memory that is not there any more, and then the connection ends.
func (v *Vring) Release() {
	if r := recover(); r != nil {
		if !shmem.Lost(r, v.memory.Holds) {
			v.gate.Leave()
			panic(r) // a fault of ours
		}
		v.ring.Break(virtio.FaultMemory)
	}
	if v.ring.Broken() {
		v.gate.SetOpen(false) // else its worker would not sleep until the connection has ended
		v.device.fail(fmt.Errorf("ring %d cannot be followed any more (the counts of faults say why)", v.index))
	}
	v.gate.Leave()
}

// Call notifies the driver. The ring is acquired.
func (v *Vring) Call() {
	if v.call < 0 {
		return
	}
	shmem.Notify(v.call)
}

// Sleep asks the driver for a notification, and reports whether buffers wait already, or the ring was locked, so that it could not ask.
func (v *Vring) Sleep() (ready bool) {
	v.bell.Forget()
	r := v.Acquire()
	if r == nil {
		return v.gate.Open()
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
	v.gate.SetOpen(v.ring != nil && v.enabled)
	if v.gate.Open() {
		v.bell.Wake()
	}
}

// newRing touches the memory, which may be gone.
func (v *Vring) newRing() (r *virtio.Ring, err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		if p := recover(); p != nil {
			if !shmem.Lost(p, v.memory.Holds) {
				panic(p)
			}
			v.Faults.Break(virtio.FaultMemory)
			err = errors.New("its memory was taken away")
		}
	}()
	return virtio.NewRing(v.memory, v.layout, &v.Faults)
}

// stop ends the use of the ring and notes where it goes on; the caller holds the lock.
func (v *Vring) stop() {
	if v.ring != nil {
		v.layout.Base, v.layout.Cut = v.ring.Base(), v.ring.Cut()
		v.ring = nil
		v.changed()
	}
}

// setKick replaces the descriptor by which the driver notifies; -1 is none. The caller holds the lock.
func (v *Vring) setKick(fd int) error { return v.bell.SetKick(fd) }

// setCall replaces the descriptor by which the driver is notified; -1 is none. A back-end before this one may have ended
// between showing what it used and the notification, so the driver is asked to look.
func (v *Vring) setCall(fd int) {
	if v.call >= 0 {
		_ = unix.Close(v.call)
	}
	if v.call = fd; fd >= 0 {
		shmem.Notify(fd)
	}
}

// reset forgets a front-end; the caller holds the lock.
func (v *Vring) reset() {
	v.stop()
	_ = v.setKick(-1)
	v.setCall(-1)
	v.guest.Store(nil)
	v.enabled, v.placed, v.started, v.memory, v.layout = false, false, false, nil, virtio.Layout{}
	v.changed()
}

func (v *Vring) close() {
	v.gate.Lock()
	defer v.gate.Unlock()
	v.reset()
	v.bell.Close()
}
