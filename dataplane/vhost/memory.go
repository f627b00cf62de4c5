package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/dataplane/virtio"
)

// mapping is a piece of a front-end's file that is mapped here.
type mapping struct {
	region virtio.Region // of the guest's memory, the bytes alone of others
	pages  []byte        // whole pages, around the region
	file   int           // a descriptor of the file, for another process to map it
	offset uint64        // of the region in the file
}

// mappings are all that a device has mapped. They change only while no ring runs.
type mappings struct {
	regions  []*mapping
	log      *mapping // of dirty pages; nil without
	inflight *mapping // nil without
}

func (m *mappings) each(f func(*mapping)) {
	for _, r := range m.regions {
		f(r)
	}
	for _, r := range []*mapping{m.log, m.inflight} {
		if r != nil {
			f(r)
		}
	}
}

// memory is what rings use of the mappings; nil without regions. The log is used only where logging is on.
func (m *mappings) memory(logging bool) (*virtio.Memory, error) {
	if len(m.regions) == 0 {
		return nil, nil
	}
	var regions []virtio.Region
	for _, r := range m.regions {
		regions = append(regions, r.region)
	}
	memory, err := virtio.NewMemory(regions)
	if err != nil {
		return nil, err
	}
	var log, inflight []byte
	if m.log != nil && logging {
		log = m.log.region.Bytes
	}
	if m.inflight != nil {
		inflight = m.inflight.region.Bytes
	}
	return memory.Shared(log, inflight)
}

// The bounds of what one front-end has mapped, in bytes, as the address space is the whole switch's: of the guest's memory, and of each thing beside it.
const (
	maxMemory = 4 << 40
	maxBeside = 1 << 30
)

// room is how much of the guest's memory may be mapped beside regions.
func room(regions []*mapping) uint64 {
	n := uint64(maxMemory)
	for _, r := range regions {
		n -= min(n, uint64(len(r.pages)))
	}
	return n
}

// mapTable maps the regions of SET_MEM_TABLE: their number, 4 bytes of padding, and the regions. The files stay
// the caller's.
func mapTable(payload []byte, files []int) (regions []*mapping, err error) {
	if len(payload) < 8 {
		return nil, errors.New("a memory table without a header")
	}
	n := binary.LittleEndian.Uint32(payload)
	if n == 0 || n > maxRegions || len(payload) < 8+regionSize*int(n) || len(files) != int(n) {
		return nil, fmt.Errorf("a memory table of %d regions in %d bytes with %d descriptors: want 1 to %d of each (testpmd: --single-file-segments)",
			n, len(payload), len(files), maxRegions)
	}
	for i, fd := range files {
		m, err := mapRegion(fd, payload[8+regionSize*i:], room(regions))
		if err != nil {
			for _, m := range regions {
				err = errors.Join(err, m.unmap())
			}
			return nil, fmt.Errorf("memory region %d: %w", i, err)
		}
		regions = append(regions, m)
	}
	return regions, nil
}

// regionSize is the bytes of a region in messages: the guest's address, length, the front-end's address, and the offset
// in its file.
const regionSize = 32

// mapRegion maps a region of a message, of limit bytes at most.
func mapRegion(fd int, payload []byte, limit uint64) (*mapping, error) {
	field := func(k int) uint64 { return binary.LittleEndian.Uint64(payload[8*k:]) }
	m, err := mapFile(fd, field(1), field(3), limit)
	if err != nil {
		return nil, err
	}
	m.region.Guest, m.region.User = field(0), field(2)
	return m, nil
}

// mapFile maps the pages around size bytes of a file, which are limit at most.
func mapFile(fd int, size, offset, limit uint64) (*mapping, error) {
	if size > limit {
		return nil, fmt.Errorf("%d bytes: at most %d more are mapped of this front-end", size, limit)
	}
	part, whole, err := shmem.Map(fd, size, offset)
	if err != nil {
		return nil, err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy a descriptor: %w", err), unix.Munmap(whole))
	}
	return &mapping{virtio.Region{Bytes: part}, whole, own, offset}, nil
}

// unmap gives the pages back. No ring may be in them any more.
func (m *mapping) unmap() error { return errors.Join(unix.Munmap(m.pages), unix.Close(m.file)) }
