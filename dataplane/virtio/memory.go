package virtio

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// Region is a piece of the guest's memory that is mapped here.
type Region struct {
	Guest uint64 // its address in descriptors
	User  uint64 // its address in the front-end's process, which names rings
	Bytes []byte // the mapping
}

// Memory is the guest's memory. It does not change; the zero value has no region.
type Memory struct {
	regions  []Region
	log      []uint32 // a bit for each page of the guest; nil without a log
	logBytes []byte   // the same
	inflight []byte
}

// logPage is the memory that a bit of the log stands for, in bytes (vhost-user.rst, "Migration").
const logPage = 4096

// NewMemory checks that regions neither overlap nor reach beyond the address space.
func NewMemory(regions []Region) (*Memory, error) {
	for i, r := range regions {
		size := uint64(len(r.Bytes))
		if size == 0 || r.Guest+size-1 < r.Guest || r.User+size-1 < r.User {
			return nil, fmt.Errorf("memory region %d: %d bytes at %#x (user %#x) are empty or exceed the address space", i, size, r.Guest, r.User)
		}
		for j, o := range regions[:i] {
			other := uint64(len(o.Bytes))
			if overlap(r.Guest, size, o.Guest, other) || overlap(r.User, size, o.User, other) {
				return nil, fmt.Errorf("memory region %d overlaps region %d", i, j)
			}
		}
	}
	return &Memory{regions: append([]Region(nil), regions...)}, nil
}

func overlap(a, aSize, b, bSize uint64) bool { return a <= b+(bSize-1) && b <= a+(aSize-1) }

// Regions returns the regions, which the caller does not change.
func (m *Memory) Regions() []Region { return m.regions }

// Shared returns the same memory with what the front-end shares beside it; either may be nil. All that is written to the
// guest's memory is marked in the log, which must have a bit for each page. Rings keep their state in inflight (see InflightSize).
func (m *Memory) Shared(log, inflight []byte) (*Memory, error) {
	if uint64(uintptr(unsafe.Pointer(unsafe.SliceData(log))))%8 != 0 || len(log)%8 != 0 {
		return nil, fmt.Errorf("a log of %d bytes: its address and its length must be multiples of 8", len(log))
	}
	n := &Memory{regions: m.regions, inflight: inflight}
	if log == nil {
		return n, nil
	}
	n.log, n.logBytes = shmem.Words[uint32](log), log
	for i, r := range m.regions {
		if last := r.Guest + uint64(len(r.Bytes)) - 1; last/logPage/8 >= uint64(len(log)) {
			return nil, fmt.Errorf("a log of %d bytes: memory region %d, up to %#x, needs %d", len(log), i, last, last/logPage/8+1)
		}
	}
	return n, nil
}

// mark notes in the log that n bytes at a guest's address were written. Addresses of no region may be beyond the log.
func (m *Memory) mark(addr, n uint64) {
	if m.log == nil || n == 0 {
		return
	}
	for page, last := addr/logPage, (addr+n-1)/logPage; page <= last; page++ {
		word := page / 32
		if word >= uint64(len(m.log)) {
			return
		}
		// The front-end takes bits away at any time. One that is set is not written: it is most often the same page.
		if bit := uint32(1) << (page % 32); atomic.LoadUint32(&m.log[word])&bit == 0 {
			atomic.OrUint32(&m.log[word], bit)
		}
	}
}

// Holds reports whether an address of this process is in a region's mapping, or in what is shared beside it.
func (m *Memory) Holds(addr uintptr) bool {
	for i := range m.regions {
		if shmem.Holds(m.regions[i].Bytes, addr) {
			return true
		}
	}
	return shmem.Holds(m.inflight, addr) || shmem.Holds(m.logBytes, addr)
}

// piece returns the bytes at a guest's address, up to n or to the end of the region; nil if the address is
// in none.
func (m *Memory) piece(addr, n uint64) []byte {
	for i := range m.regions {
		r := &m.regions[i]
		if at := addr - r.Guest; at < uint64(len(r.Bytes)) {
			return r.Bytes[at:][:min(n, uint64(len(r.Bytes))-at)]
		}
	}
	return nil
}

// part returns size bytes of a ring at an address of the front-end, in one region and aligned to align bytes, and
// the guest's address of them.
func (m *Memory) part(what string, addr, size, align uint64) ([]byte, uint64, error) {
	for i := range m.regions {
		r := &m.regions[i]
		at, length := addr-r.User, uint64(len(r.Bytes))
		if at >= length || length-at < size {
			continue
		}
		b := r.Bytes[at : at+size]
		if uint64(uintptr(unsafe.Pointer(&b[0])))%align != 0 {
			return nil, 0, fmt.Errorf("%s at %#x is not aligned to %d bytes", what, addr, align)
		}
		return b, r.Guest + at, nil
	}
	return nil, 0, fmt.Errorf("%s, %d bytes at %#x, is not in the guest's memory", what, size, addr)
}
