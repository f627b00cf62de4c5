package xsk

// Everything of this package that needs unsafe is in this file: the mapping of the
// rings, and the socket options that take structures.

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is one mapped ring: the kernel's indexes, flags and slots.
type mapping struct{ memory []byte }

// mapRing maps the ring at the given page offset of the socket. Pages are
// populated at once, so that no packet waits for a page fault.
func mapRing[T Desc | uint64](fd int, pageOffset int64, off unix.XDPRingOffset, slots int) (mapping, shared[T], error) {
	var item T
	size := int(off.Desc) + slots*int(unsafe.Sizeof(item))
	memory, err := unix.Mmap(fd, pageOffset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return mapping{}, shared[T]{}, err
	}
	index := func(offset uint64) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&memory[offset])) }
	return mapping{memory}, shared[T]{
		produced: index(off.Producer),
		consumed: index(off.Consumer),
		flags:    index(off.Flags),
		slots:    unsafe.Slice((*T)(unsafe.Pointer(&memory[off.Desc])), slots),
	}, nil
}

// unmap is safe to call twice, and on the zero value.
func (m *mapping) unmap() error {
	if m.memory == nil {
		return nil
	}
	memory := m.memory
	m.memory = nil
	return unix.Munmap(memory)
}

// address is the virtual address of the memory's first byte.
func address(memory []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))) }

func setsockopt(fd, option int, value unsafe.Pointer, size uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value), size, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func getsockopt(fd, option int, value unsafe.Pointer, size uintptr) error {
	length := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value),
		uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func registerUMEM(fd int, reg *unix.XDPUmemReg) error {
	return setsockopt(fd, unix.XDP_UMEM_REG, unsafe.Pointer(reg), unsafe.Sizeof(*reg))
}

func mmapOffsets(fd int) (off unix.XDPMmapOffsets, err error) {
	err = getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&off), unsafe.Sizeof(off))
	return off, err
}

func statistics(fd int) (stats unix.XDPStatistics, err error) {
	err = getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&stats), unsafe.Sizeof(stats))
	return stats, err
}

// options returns XDP_OPTIONS, which reports zero-copy (XDP_OPTIONS_ZEROCOPY) and nothing else.
func options(fd int) (flags uint32, err error) {
	err = getsockopt(fd, unix.XDP_OPTIONS, unsafe.Pointer(&flags), unsafe.Sizeof(flags))
	return flags, err
}

// sendtoNothing is sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0). It is raw, that is,
// unknown to Go's scheduler: the call is short (bounded by the TX budget), and the
// hand-over of the processor around an ordinary Syscall costs more than it saves.
func sendtoNothing(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// recvfromNothing is recvfrom(fd, NULL, 0, MSG_DONTWAIT, NULL, NULL).
func recvfromNothing(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of include/uapi/linux/membarrier.h.
const membarrierGlobal = 1

// GracePeriod waits until every XDP program that was running has ended: the
// global membarrier is a synchronize_rcu (kernel/sched/membarrier.c), and
// programs run in RCU read-side sections. A kernel with nohz_full refuses; the
// caller's retries have to do there.
func GracePeriod() { unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0) }
