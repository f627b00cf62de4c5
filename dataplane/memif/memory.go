package memif

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// The bounds of what a client may share. DPDK's zero-copy clients have a region for each piece of their memory.
const (
	maxRegions = 64
	maxMemory  = 64 << 30 // bytes of all regions: address space is the whole switch's
)

// bufferSize is what a buffer of ours holds, in bytes: what libmemif and DPDK have by default. Longer packets take several.
const bufferSize = 2048

// memory is what a connection shares. It does not change while rings run.
type memory struct {
	regions [][]byte
	maps    [][]byte // whole pages
	total   uint64   // bytes mapped
	files   []int    // descriptors of the regions, for another process to map them
}

// add maps the next region.
func (m *memory) add(fd int, size uint64) error {
	if left := maxMemory - min(m.total, maxMemory); size > left { // whole pages may exceed it
		return fmt.Errorf("%d bytes beside %d: at most %d are mapped", size, m.total, uint64(maxMemory))
	}
	part, whole, err := shmem.Map(fd, size, 0)
	if err != nil {
		return err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return errors.Join(fmt.Errorf("copy a descriptor: %w", err), unix.Munmap(whole))
	}
	m.files = append(m.files, own)
	m.total += uint64(len(whole))
	m.regions = append(m.regions, part)
	m.maps = append(m.maps, whole)
	return nil
}

// holds reports whether an address of this process is in a mapping.
func (m *memory) holds(addr uintptr) bool {
	for _, b := range m.maps {
		if shmem.Holds(b, addr) {
			return true
		}
	}
	return false
}

// unmap is safe to call twice. No ring may be in the memory any more.
func (m *memory) unmap() error {
	var errs []error
	for _, b := range m.maps {
		errs = append(errs, unix.Munmap(b))
	}
	m.files = shmem.CloseFiles(m.files)
	m.maps, m.regions, m.total = nil, nil, 0
	return errors.Join(errs...)
}

// ringBytes is the size of a ring of that many descriptors.
func ringBytes(size int) int { return ringHeader + descBytes*size }

// share makes the memory of a client with rings of a size, and their buffers behind them. The file is sealed, so that the server
// cannot truncate it. The caller closes the file.
func share(rings, size int) (_ *memory, fd int, err error) {
	total := rings * (ringBytes(size) + bufferSize*size)
	if total > math.MaxUint32 { // an offset has 32 bits
		return nil, -1, fmt.Errorf("%d rings of %d descriptors need %d bytes, and 4 GiB can be shared: choose fewer queues or a smaller ring_size", rings, size, total)
	}
	fd, err = unix.MemfdCreate("weir-memif", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, fmt.Errorf("make memory to share: %w", err)
	}
	m := &memory{}
	if err = unix.Ftruncate(fd, int64(total)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		err = m.add(fd, uint64(total))
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, fmt.Errorf("make %d bytes to share: %w", total, err)
	}
	return m, fd, nil
}
