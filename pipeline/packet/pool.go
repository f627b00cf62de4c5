package packet

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Pool is the memory of one switch: frames of equal size in one mapping. It is
// the UMEM of every AF_XDP socket of the switch.
//
// The free frames lie in the workers' Caches and, beyond these, in the pool's
// own list. The list is locked, but a worker visits it once per many hundred
// frames and then with TryLock: it never sleeps there.
type Pool struct {
	mem       []byte
	file      *os.File // of mem; nil: it is this process's alone
	frameSize uint64
	shift     uint
	huge      bool

	// next[i] continues the packet that begins in frame i (see Packet.Next);
	// segLen[i] and segOff[i] say which bytes of frame i belong to it. Written
	// and read only by the owner of the frame.
	next   []uint32
	segLen []uint32
	segOff []uint32
	large  []Large // as the piece that continues a packet in that frame says

	mu   sync.Mutex
	free []uint64

	audit []atomic.Uint32 // an Owner per frame; nil unless auditing
	// faults counts transitions that the audit refused.
	faults atomic.Uint64
}

// PoolConfig sizes a Pool. Memory is Frames * FrameSize bytes, plus 24 bytes
// per frame for the lists.
type PoolConfig struct {
	Frames    int  // number of frames, at least 1
	FrameSize int  // bytes per frame, a power of two from 2048
	HugePages bool // try 2 MiB pages; falls back to ordinary ones (see Pool.HugePages)
	Audit     bool // keep the owner of each frame, and count wrong transitions
	// Shared lets another process map the memory, by Pool.File. Ordinary pages are small ones then, where
	// the kernel has no transparent huge pages for shared memory (/sys/kernel/mm/transparent_hugepage/shmem_enabled).
	Shared bool
	// File is the memory of another process's pool of the same size (Pool.File), to go on with: no frame is free before Release.
	// The pool has its own descriptor of it.
	File *os.File
}

// NewPool maps the memory of a pool. All frames are free.
func NewPool(c PoolConfig) (*Pool, error) {
	if c.Frames < 1 {
		return nil, fmt.Errorf("a pool of %d frames: need at least 1", c.Frames)
	}
	if c.FrameSize < 2048 || bits.OnesCount(uint(c.FrameSize)) != 1 {
		return nil, fmt.Errorf("a frame size of %d bytes: need a power of two, 2048 or more", c.FrameSize)
	}
	p := &Pool{frameSize: uint64(c.FrameSize), shift: uint(bits.TrailingZeros(uint(c.FrameSize)))}
	size := c.Frames * c.FrameSize
	if c.File != nil {
		if err := p.mapFile(c.File, size); err != nil {
			return nil, fmt.Errorf("map the packet memory of another process: %w", err)
		}
	} else if err := p.mapMemory(size, c.HugePages, c.Shared); err != nil {
		return nil, fmt.Errorf("map %d MiB for %d frames: %w: set fewer frames or smaller rings", size>>20, c.Frames, err)
	}
	p.next = make([]uint32, c.Frames)
	p.segLen = make([]uint32, c.Frames)
	p.segOff = make([]uint32, c.Frames)
	p.large = make([]Large, c.Frames)
	// The list is a stack: low addresses on top, so a small load stays in few pages.
	p.free = make([]uint64, c.Frames)
	for i := range p.free {
		p.free[i] = uint64(c.Frames-1-i) << p.shift
	}
	if c.File != nil {
		p.free = p.free[:0]
	}
	if c.Audit {
		p.audit = make([]atomic.Uint32, c.Frames)
	}
	return p, nil
}

const hugePage = 2 << 20

func (p *Pool) mapMemory(size int, huge, shared bool) error {
	if shared {
		return p.makeFile(size, huge)
	}
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if huge {
		rounded := (size + hugePage - 1) &^ (hugePage - 1)
		if mem, err := unix.Mmap(-1, 0, rounded, prot, flags|unix.MAP_HUGETLB|unix.MAP_POPULATE); err == nil {
			p.mem, p.huge = mem, true
			return nil
		}
	}
	mem, err := unix.Mmap(-1, 0, size, prot, flags)
	if err != nil {
		return err
	}
	// Transparent huge pages spare TLB misses where the kernel has them.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	p.mem = mem
	return nil
}

// Close unmaps the memory. No frame may be in use, by us or by the kernel, but for those that another process has taken over.
func (p *Pool) Close() error {
	mem := p.mem
	p.mem = nil
	err := unix.Munmap(mem)
	if p.file != nil {
		err = errors.Join(err, p.file.Close())
	}
	return err
}

// Memory returns the whole mapping. It is page aligned and may be longer than
// Frames * FrameSize where huge pages were granted.
func (p *Pool) Memory() []byte { return p.mem }

// HugePages reports whether 2 MiB pages were granted.
func (p *Pool) HugePages() bool { return p.huge }

// Frames returns the number of frames.
func (p *Pool) Frames() int { return len(p.next) }

// FrameSize returns the size of a frame in bytes.
func (p *Pool) FrameSize() int { return int(p.frameSize) }

// Base returns the address of the frame that holds the byte at addr.
func (p *Pool) Base(addr uint64) uint64 { return addr &^ (p.frameSize - 1) }

// Index returns the number of the frame that holds the byte at addr.
func (p *Pool) Index(addr uint64) uint32 { return uint32(addr >> p.shift) }

// FramesOf is how many frames a packet has. For the owner of its frames.
func (p *Pool) FramesOf(pkt *Packet) int {
	n := 1
	for link := pkt.Next; link != 0; n++ {
		link = p.next[link-1]
	}
	return n
}

// Next returns the address and length of the piece that continues a packet in
// the frame that Packet.Next or an earlier piece named, and the link to the
// piece behind it, zero at the end.
func (p *Pool) Next(link uint32) (addr uint64, length, next uint32) {
	i := link - 1
	return uint64(i)<<p.shift + uint64(p.segOff[i]), p.segLen[i], p.next[i]
}

// Link makes the bytes [addr, addr+length) the continuation that the returned
// link names, with next as the link behind it. Chains are built back to front,
// or with setNext.
func (p *Pool) Link(addr uint64, length, next uint32) uint32 {
	i := p.Index(addr)
	p.segOff[i] = uint32(addr - p.Base(addr))
	p.segLen[i] = length
	p.next[i] = next
	p.large[i] = Large{}
	return i + 1
}

// Large says how a packet of several frames is cut into the segments that leave by a wire: its sender has left that, and the checksum, to its
// device. The zero value is an ordinary packet. See docs/decisions/0022.
type Large struct {
	Size uint16 // payload of a segment, bytes
	Kind uint8  // the segmentation type in a header of virtio-net (virtio 1.3, 5.1.6)
}

// Large returns what SetLarge has noted with a link, Packet.Next.
func (p *Pool) Large(link uint32) Large { return p.large[link-1] }

// SetLarge makes the packet a large one that the piece of the link continues. Link makes it an ordinary one.
func (p *Pool) SetLarge(link uint32, l Large) { p.large[link-1] = l }

// setNext appends: the piece that link names is continued by next.
func (p *Pool) setNext(link, next uint32) { p.next[link-1] = next }

// take moves up to len(dst) free frames from the pool's list into dst. A worker
// that finds the pool busy tries again for about as long as another one has it:
// frames that are free should not be missed, but a thread that was preempted
// there must not hold us up.
func (p *Pool) take(dst []uint64) int {
	const tries = 128
	for try := 1; !p.mu.TryLock(); try++ {
		if try == tries {
			return 0
		}
	}
	n := min(len(dst), len(p.free))
	copy(dst, p.free[len(p.free)-n:])
	p.free = p.free[:len(p.free)-n]
	p.mu.Unlock()
	return n
}

// give puts frames into the pool's list. It reports whether it could.
func (p *Pool) give(src []uint64) bool {
	if !p.mu.TryLock() {
		return false
	}
	p.free = append(p.free, src...) // never grows: capacity is the number of frames
	p.mu.Unlock()
	return true
}

// Free returns the number of frames in the pool's own list, Caches excluded.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}
