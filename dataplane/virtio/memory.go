package virtio

import (
	"fmt"
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
type Memory struct{ regions []Region }

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

// Holds reports whether an address of this process is in a region's mapping.
func (m *Memory) Holds(addr uintptr) bool {
	for i := range m.regions {
		if shmem.Holds(m.regions[i].Bytes, addr) {
			return true
		}
	}
	return false
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

// part returns size bytes of a ring at an address of the front-end, in one region and aligned to align bytes.
func (m *Memory) part(what string, addr, size, align uint64) ([]byte, error) {
	for i := range m.regions {
		r := &m.regions[i]
		at, length := addr-r.User, uint64(len(r.Bytes))
		if at >= length || length-at < size {
			continue
		}
		b := r.Bytes[at : at+size]
		if uint64(uintptr(unsafe.Pointer(&b[0])))%align != 0 {
			return nil, fmt.Errorf("%s at %#x is not aligned to %d bytes", what, addr, align)
		}
		return b, nil
	}
	return nil, fmt.Errorf("%s, %d bytes at %#x, is not in the guest's memory", what, size, addr)
}
