package hugepage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is memory that another process can map, too: a memfd. It grows as parts of it are mapped, at offsets that its users choose, and
// is zero where nothing was written. It is sealed against shrinking: no process takes pages from under those who have them mapped. What is mapped stays so
// as long as the File is reachable, so who has a view of it keeps the File. Its methods are for one goroutine at a time.
type File struct {
	file *os.File
	huge bool
	maps *[][]byte
}

// NewFile makes a file without a byte. With huge its pages are huge ones that are reserved (hugetlbfs): a part that finds none is an error of Map.
func NewFile(name string, huge bool) (*File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if huge {
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	}
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		return nil, errors.Join(fmt.Errorf("seal a file in memory: %w", err), file.Close())
	}
	return newFile(file, huge), nil
}

// OpenFile opens the file of another process, which becomes the File's, also with an error.
func OpenFile(file *os.File) (*File, error) {
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err == nil && seals&unix.F_SEAL_SHRINK == 0 {
		err = errors.New("the file in memory is not sealed against shrinking")
	}
	var st unix.Statfs_t
	if err == nil {
		err = unix.Fstatfs(int(file.Fd()), &st)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return newFile(file, st.Type == unix.HUGETLBFS_MAGIC), nil
}

func newFile(file *os.File, huge bool) *File {
	f := &File{file: file, huge: huge, maps: new([][]byte)}
	runtime.AddCleanup(f, func(maps *[][]byte) {
		for _, m := range *maps {
			_ = unix.Munmap(m)
		}
	}, f.maps)
	return f
}

// File is the descriptor, which stays the File's.
func (f *File) File() *os.File { return f.file }

// Huge reports whether all pages are huge ones.
func (f *File) Huge() bool { return f.huge }

// Has reports whether the file has all bytes up to end.
func (f *File) Has(end int64) (bool, error) {
	info, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	return info.Size() >= end, nil
}

// Map maps a part of the file, which grows as needed. The offset is a multiple of Size where pages are huge, else of 64 KiB; the size is rounded up to that. populate has the kernel
// map all pages that are there at once, and make those that are not.
func (f *File) Map(offset int64, size int, populate bool) ([]byte, error) {
	unit := 64 << 10
	if f.huge {
		unit = Size
	}
	size = (size + unit - 1) / unit * unit
	if offset < 0 || offset%int64(unit) != 0 {
		return nil, fmt.Errorf("map a file in memory: offset %d is no multiple of %d", offset, unit)
	}
	end := offset + int64(size)
	if has, err := f.Has(end); err != nil {
		return nil, err
	} else if !has {
		if err := f.file.Truncate(end); err != nil {
			return nil, fmt.Errorf("give a file in memory %d bytes: %w", end, err)
		}
	}
	flags := unix.MAP_SHARED
	if populate || f.huge { // too few huge pages are an error here, and no fault later
		flags |= unix.MAP_POPULATE
	}
	m, err := unix.Mmap(int(f.file.Fd()), offset, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of a file in memory: %w", size, err)
	}
	if !f.huge {
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // where /sys/kernel/mm/transparent_hugepage/shmem_enabled says advise
	}
	*f.maps = append(*f.maps, m)
	return m, nil
}

// View is the first n values of mapped memory. T has no pointers, and the memory begins at a page's bound, or at a multiple of T's alignment from there.
func View[T any](memory []byte, n int) []T {
	each := int(unsafe.Sizeof(*new(T)))
	if n == 0 {
		return nil
	}
	memory = memory[:n*each] // panics where there is too little
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), n)
}
