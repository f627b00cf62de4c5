package shmem

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/printable"
)

// Eventfd takes a descriptor of a peer for notifications if no worker can block on it: other kinds of files might,
// when they are polled. See Notify.
func Eventfd(fd int) error {
	if name := nameOf(fd); name != "anon_inode:[eventfd]" {
		return fmt.Errorf("a notification by %s: want an eventfd", name)
	}
	return unix.SetNonblock(fd, true)
}

// maxMapping bounds the length of a mapping, in bytes: what no length can overflow with.
const maxMapping = 1 << 46

// Map maps the pages around size bytes at offset of a peer's file, which stays the caller's. whole is to be unmapped. A file
// shorter than that would raise SIGBUS at the first access, so it is refused, and so is one that is not memory.
func Map(fd int, size, offset uint64) (part, whole []byte, err error) {
	if err := memoryFile(fd); err != nil {
		return nil, nil, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, nil, err
	}
	if size == 0 || size > maxMapping || offset > maxMapping || offset+size > uint64(s.Size) {
		return nil, nil, fmt.Errorf("%d bytes at %d of a file of %d bytes", size, offset, s.Size)
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
// waits for its disk, or for a process that serves it (FUSE), and so would the worker. Such a process is not asked here either: only files
// of memory have seals.
func memoryFile(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil {
		return fmt.Errorf("%s is no memory: share it by memfd, /dev/shm or huge pages", nameOf(fd))
	}
	return nil
}

// nameOf describes a descriptor of a peer.
func nameOf(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "a descriptor"
	}
	return printable.Text(name)
}

// maxPassed is the most descriptors that the kernel passes at once (SCM_MAX_FD). With room for all of them it never closes one itself.
const maxPassed = 253

// ReceiveFiles reads once from a socket, with the descriptors that come along, which it appends to files, also if it fails: they are the caller's.
// More than most are an error, and so is one that is neither memory nor an eventfd. Then only Part closes what came by the socket. The caller has
// the turn, also behind it, and reads with it alone. The end of the connection is io.EOF.
func ReceiveFiles(c *net.UnixConn, t *Turn, b []byte, files []int, most int) (n int, _ []int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, files, err
	}
	oob := make([]byte, unix.CmsgSpace(4*maxPassed))
	oobn := 0
	err = t.act(raw, func(fd int) (err error) {
		n, oobn, _, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return err
	})
	n, oobn = max(n, 0), max(oobn, 0)
	if err == nil && n == 0 && oobn == 0 {
		err = io.EOF
	}
	before := len(files)
	if oobn != 0 {
		controls, parseErr := unix.ParseSocketControlMessage(oob[:oobn])
		for i := range controls {
			if fds, fdErr := unix.ParseUnixRights(&controls[i]); fdErr == nil {
				files = append(files, fds...)
			}
		}
		err = errors.Join(err, parseErr)
	}
	passed := files[before:]
	if err == nil && len(passed) > most {
		err = fmt.Errorf("a message with %d descriptors: at most %d are expected", len(passed), most)
	}
	for i := 0; i < len(passed) && err == nil; i++ {
		if Eventfd(passed[i]) != nil {
			err = memoryFile(passed[i])
		}
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

// HangUp ends a connection: both sides read and write no more. Part follows.
func HangUp(c *net.UnixConn) {
	_ = c.CloseRead()
	_ = c.CloseWrite()
}

// Part closes a socket of peers, and descriptors that came by it, and closes the channel when that is done. It may take as long as a peer likes: what
// it has passed, and is still unread, may be a socket that waits for its other end (SO_LINGER), or a file of a file system in user space. So nothing
// but the next peer may wait for it.
func Part(c io.Closer, files []int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		CloseFiles(files)
		_ = c.Close()
		close(done)
	}()
	return done
}
