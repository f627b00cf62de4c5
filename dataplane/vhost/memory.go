package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/virtio"
)

// guestMemory is the mapped memory of a guest.
type guestMemory struct {
	*virtio.Memory
	maps [][]byte // whole pages, around the regions
}

// maxRegion bounds the length of a region, in bytes: what no length can overflow with.
const maxRegion = 1 << 46

// mapMemory maps the regions of SET_MEM_TABLE: their number, 4 bytes of padding, and for each the guest's
// address, length, the front-end's address, and the offset in its file. The files stay the caller's.
func mapMemory(payload []byte, files []int) (_ *guestMemory, err error) {
	if len(payload) < 8 {
		return nil, errors.New("a memory table without a header")
	}
	n := binary.LittleEndian.Uint32(payload)
	if n == 0 || n > maxRegions || len(payload) < 8+32*int(n) || len(files) != int(n) {
		return nil, fmt.Errorf("a memory table of %d regions in %d bytes with %d descriptors: want 1 to %d of each (testpmd: --single-file-segments)",
			n, len(payload), len(files), maxRegions)
	}
	g := &guestMemory{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.unmap())
		}
	}()
	var regions []virtio.Region
	for i, fd := range files {
		field := func(k int) uint64 { return binary.LittleEndian.Uint64(payload[8+32*i+8*k:]) }
		bytes, err := g.mapRegion(fd, field(1), field(3))
		if err != nil {
			return nil, fmt.Errorf("memory region %d: %w", i, err)
		}
		regions = append(regions, virtio.Region{Guest: field(0), User: field(2), Bytes: bytes})
	}
	g.Memory, err = virtio.NewMemory(regions)
	return g, err
}

// mapRegion maps the pages around size bytes of a file. A file shorter than that would
// raise SIGBUS at the first access, so it is refused here.
func (g *guestMemory) mapRegion(fd int, size, offset uint64) ([]byte, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, err
	}
	if size == 0 || size > maxRegion || offset > maxRegion || offset+size > uint64(s.Size) {
		return nil, fmt.Errorf("%d bytes at %d of a file of %d bytes", size, offset, s.Size)
	}
	if err := memoryFile(fd); err != nil {
		return nil, err
	}
	page := uint64(max(s.Blksize, int64(unix.Getpagesize()))) // of hugetlbfs, its own
	if page > 1<<30 || page&(page-1) != 0 {
		return nil, fmt.Errorf("a file with blocks of %d bytes", page)
	}
	begin := offset &^ (page - 1)
	end := (offset + size + page - 1) &^ (page - 1)
	mapped, err := unix.Mmap(fd, int64(begin), int(end-begin), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes at %d: %w", end-begin, begin, err)
	}
	g.maps = append(g.maps, mapped)
	return mapped[offset-begin:][:size:size], nil
}

// memoryFile refuses files that are not memory of the kernel's: a page fault in one of another file system
// waits for its disk, or for a process that serves it (FUSE), and so would the worker.
func memoryFile(fd int) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return err
	}
	if s.Type != unix.TMPFS_MAGIC && s.Type != unix.HUGETLBFS_MAGIC {
		return fmt.Errorf("a file of file system %#x: share the guest's memory by memfd, /dev/shm or huge pages", s.Type)
	}
	return nil
}

// unmap is safe to call twice. No ring may be in the memory any more.
func (g *guestMemory) unmap() error {
	var errs []error
	for _, m := range g.maps {
		errs = append(errs, unix.Munmap(m))
	}
	g.maps = nil
	return errors.Join(errs...)
}
