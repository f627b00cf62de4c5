package shmem

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Eventfd takes a descriptor of a peer for notifications if no worker can block on it: other kinds of files might,
// when they are polled. See Notify.
func Eventfd(fd int) error {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("what is descriptor %d: %w", fd, err)
	}
	if name != "anon_inode:[eventfd]" {
		return fmt.Errorf("a notification by %s: want an eventfd", name)
	}
	return unix.SetNonblock(fd, true)
}

// maxMapping bounds the length of a mapping, in bytes: what no length can overflow with.
const maxMapping = 1 << 46

// Map maps the pages around size bytes at offset of a peer's file, which stays the caller's. whole is to be unmapped. A file
// shorter than that would raise SIGBUS at the first access, so it is refused, and so is one that is not memory.
func Map(fd int, size, offset uint64) (part, whole []byte, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, nil, err
	}
	if size == 0 || size > maxMapping || offset > maxMapping || offset+size > uint64(s.Size) {
		return nil, nil, fmt.Errorf("%d bytes at %d of a file of %d bytes", size, offset, s.Size)
	}
	if err := memoryFile(fd); err != nil {
		return nil, nil, err
	}
	page := uint64(max(int64(s.Blksize), int64(unix.Getpagesize()))) // of hugetlbfs, its own
	if page > 1<<30 || page&(page-1) != 0 {
		return nil, nil, fmt.Errorf("a file with blocks of %d bytes", page)
	}
	begin := offset &^ (page - 1)
	end := (offset + size + page - 1) &^ (page - 1)
	whole, err = unix.Mmap(fd, int64(begin), int(end-begin), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes at %d: %w", end-begin, begin, err)
	}
	return whole[offset-begin:][:size:size], whole, nil
}

// memoryFile refuses files that are not memory of the kernel's: a page fault in one of another file system
// waits for its disk, or for a process that serves it (FUSE), and so would the worker.
func memoryFile(fd int) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return err
	}
	if s.Type != unix.TMPFS_MAGIC && s.Type != unix.HUGETLBFS_MAGIC {
		return fmt.Errorf("a file of file system %#x: share memory by memfd, /dev/shm or huge pages", s.Type)
	}
	return nil
}

// ReceiveFiles reads once from a socket, with the descriptors that come along, at most most of them, which it appends to
// files, also if it fails: they are the caller's.
func ReceiveFiles(c *net.UnixConn, b []byte, files []int, most int) (n int, _ []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*most))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if oobn != 0 {
		controls, parseErr := unix.ParseSocketControlMessage(oob[:oobn])
		for i := range controls {
			if fds, fdErr := unix.ParseUnixRights(&controls[i]); fdErr == nil {
				files = append(files, fds...)
			}
		}
		err = errors.Join(err, parseErr)
	}
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = fmt.Errorf("a message with more than %d descriptors", most)
	}
	return n, files, err
}

// CloseFiles closes descriptors, and returns the empty list.
func CloseFiles(files []int) []int {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
	return files[:0]
}
