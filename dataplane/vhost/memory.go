package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/dataplane/virtio"
)

// guestMemory is the mapped memory of a guest.
type guestMemory struct {
	*virtio.Memory
	maps [][]byte // whole pages, around the regions
}

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
		bytes, whole, err := shmem.Map(fd, field(1), field(3))
		if err != nil {
			return nil, fmt.Errorf("memory region %d: %w", i, err)
		}
		g.maps = append(g.maps, whole)
		regions = append(regions, virtio.Region{Guest: field(0), User: field(2), Bytes: bytes})
	}
	g.Memory, err = virtio.NewMemory(regions)
	return g, err
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
