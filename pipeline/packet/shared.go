package packet

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// makeFile maps memory that another process can map too, a memfd of the size. It is sealed against a change of that: who has the
// descriptor cannot take pages from under those who have them mapped.
func (p *Pool) makeFile(size int, huge bool) error {
	if huge {
		rounded := (size + hugePage - 1) &^ (hugePage - 1)
		if err := p.mapNew(rounded, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB); err == nil {
			p.huge = true
			return nil
		}
	}
	if err := p.mapNew(size, 0); err != nil {
		return err
	}
	_ = unix.Madvise(p.mem, unix.MADV_HUGEPAGE)
	return nil
}

func (p *Pool) mapNew(size, flags int) error {
	fd, err := unix.MemfdCreate("weir-packets", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "weir-packets")
	err = file.Truncate(int64(size))
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		err = p.mapShared(file, size, flags&unix.MFD_HUGETLB != 0)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// mapShared maps a file, which is the pool's from then on. Huge pages are populated at once, so that too few of them are an error
// here and not a fault later.
func (p *Pool) mapShared(file *os.File, size int, populate bool) error {
	flags := unix.MAP_SHARED
	if populate {
		flags |= unix.MAP_POPULATE
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return err
	}
	p.mem, p.file = mem, file
	return nil
}

// mapFile maps the memory of another process's pool.
func (p *Pool) mapFile(theirs *os.File, size int) error {
	fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "weir-packets")
	var st unix.Statfs_t
	info, err := file.Stat()
	if err == nil {
		err = unix.Fstatfs(fd, &st)
	}
	p.huge = st.Type == unix.HUGETLBFS_MAGIC
	if rounded := (size + hugePage - 1) &^ (hugePage - 1); p.huge {
		size = rounded
	}
	if err == nil && info.Size() != int64(size) {
		err = fmt.Errorf("it has %d bytes, and the configuration's frames take %d", info.Size(), size)
	}
	if err == nil {
		err = p.mapShared(file, size, false)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// File is the memory's descriptor, nil if it is this process's alone. It stays the pool's.
func (p *Pool) File() *os.File { return p.file }

// Release gives the pool the frames that taken does not name, by number, as free ones: those that a pool made of another
// process's memory may use. It is called once, before any frame is allocated. With the audit, taken are the kernel's (Adopt).
func (p *Pool) Release(taken func(frame int) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.Frames() - 1; i >= 0; i-- {
		if !taken(i) {
			p.free = append(p.free, uint64(i)<<p.shift)
		}
	}
}

// Adopt records that the frame of addr is an owner's in a pool of another process's memory.
func (p *Pool) Adopt(addr uint64, o Owner) {
	if p.audit != nil {
		p.audit[p.Index(addr)].Store(uint32(o))
	}
}
