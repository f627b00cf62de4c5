package shmem

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notify adds 1 to an eventfd, which a peer waits for. A write would not do: the peer shares the open file, so it may make it
// block again and fill its counter, and then a writer waits for the peer. The kernel itself signals without blocking, for
// one, when an asynchronous read ends that names the eventfd (IOCB_FLAG_RESFD in fs/aio.c); and a read of /dev/null
// ends at once. Where there is no asynchronous I/O (fs.aio-max-nr is used up, or a sandbox forbids it), Notify writes.
func Notify(fd int) {
	n := notifier()
	if n == nil || !n.signal(fd) {
		one := [8]byte{1}
		_, _ = unix.Write(fd, one[:]) // fails only where so many notifications are pending already
	}
}

// aio signals eventfds. Any goroutine may use it.
type aio struct {
	context uintptr
	null    int // a descriptor of /dev/null
	ended   atomic.Uint32
}

// aioEvents is how many reads may have ended before their ends are taken.
const aioEvents = 64

// iocb is what is not 0 of struct iocb (include/uapi/linux/aio_abi.h): a read has the opcode 0, and no bytes are asked for.
type iocb struct {
	_             [2]uint64
	_, file       uint32
	_             [4]uint64
	flags, result uint32
}

// event is struct io_event.
type event [4]uint64

const resultToEventfd = 1 // IOCB_FLAG_RESFD

var notifier = sync.OnceValue(func() *aio {
	a := new(aio)
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 2*aioEvents, uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil
	}
	var err error
	if a.null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, a.context, 0, 0)
		return nil
	}
	return a
})

// signal reports whether the eventfd was signalled.
func (a *aio) signal(fd int) bool {
	for range 2 {
		read := iocb{file: uint32(a.null), flags: resultToEventfd, result: uint32(fd)}
		reads := [1]*iocb{&read}
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, a.context, 1, uintptr(unsafe.Pointer(&reads)))
		if n == 1 && errno == 0 {
			if a.ended.Add(1)%aioEvents == 0 {
				a.take()
			}
			return true
		}
		if errno != unix.EAGAIN {
			return false
		}
		a.take() // the ends of so many reads were not taken yet
	}
	return false
}

// take takes the ends of the reads.
func (a *aio) take() {
	var events [2 * aioEvents]event
	var now unix.Timespec
	_, _, _ = unix.Syscall6(unix.SYS_IO_GETEVENTS, a.context, 0, uintptr(len(events)), uintptr(unsafe.Pointer(&events)), uintptr(unsafe.Pointer(&now)), 0)
}
