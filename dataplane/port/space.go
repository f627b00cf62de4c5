package port

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Space is a network namespace: that in which a port was opened, and in which it must be
// opened again. A process with one switch has one.
type Space struct {
	file  *os.File
	inode uint64
}

// threadSpace is the namespace of the calling thread.
const threadSpace = "/proc/thread-self/ns/net"

// CurrentSpace opens the namespace of the calling thread; Close ends that.
func CurrentSpace() (*Space, error) {
	file, err := os.Open(threadSpace)
	if err != nil {
		return nil, fmt.Errorf("identify the network namespace: %w", err)
	}
	inode, err := spaceOf(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("identify the network namespace: %w", err)
	}
	return &Space{file, inode}, nil
}

func spaceOf(fd int) (uint64, error) {
	var s unix.Stat_t
	err := unix.Fstat(fd, &s)
	return s.Ino, err
}

// Do runs f on a thread in the namespace. Only where that is not the calling
// thread's does it take privilege (CAP_SYS_ADMIN). Goroutines that f starts may be elsewhere.
func (s *Space) Do(f func() error) error {
	result := make(chan error, 1)
	go func() { result <- s.enter(f) }()
	return <-result
}

// enter works on a separate goroutine: if its thread cannot be put back, it
// ends locked, and the thread with it.
func (s *Space) enter(f func() error) error {
	runtime.LockOSThread()
	origin, err := CurrentSpace()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer origin.Close()
	if origin.inode == s.inode {
		defer runtime.UnlockOSThread()
		return f()
	}
	if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the switch's network namespace: %w", err)
	}
	defer func() {
		if unix.Setns(int(origin.file.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// Close lets go of the namespace.
func (s *Space) Close() { _ = s.file.Close() }
