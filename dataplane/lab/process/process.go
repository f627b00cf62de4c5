// Package process names processes for good. A pid alone is reused by the kernel;
// with the process's start time it is not, so what is kept in a file and read again
// after a crash can never signal a stranger.
package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone says that the process has ended.
var ErrGone = errors.New("the process has ended")

// ID names one process since the machine was started. The zero value names none.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

// Self is the calling process.
func Self() ID {
	id, err := Of(os.Getpid())
	if err != nil {
		panic(fmt.Sprintf("read the own start time: %v", err)) // no /proc: nothing here can work
	}
	return id
}

// Of returns the identity of the process that has the pid now, or an error that is
// [ErrGone]. A process that has ended and waits for its parent counts as gone.
func Of(pid int) (ID, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ID{}, ErrGone
	}
	if err != nil {
		return ID{}, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	state, start, err := parseStat(string(stat))
	if err != nil {
		return ID{}, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	if state == "Z" || state == "X" {
		return ID{}, ErrGone
	}
	return ID{pid, start}, nil
}

// parseStat takes the state (field 3) and the start time (field 22) from
// /proc/PID/stat, see proc(5).
func parseStat(stat string) (state string, start uint64, err error) {
	// The command, field 2, may contain anything; the last parenthesis ends it.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("stat has %d fields after the command, want 20", len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0], start, err
}

// Alive reports whether the process still runs.
func (id ID) Alive() bool {
	now, err := Of(id.PID)
	return err == nil && now == id
}

// Signal sends a signal to the process and to no other one.
func (id ID) Signal(signal unix.Signal) error {
	return id.withFD(func(fd int) error { return unix.PidfdSendSignal(fd, signal, nil, 0) })
}

// Wait waits until the process has ended, at most for the given while, and
// reports whether it has.
func (id ID) Wait(most time.Duration) (ended bool, err error) {
	deadline := time.Now().Add(most)
	err = id.withFD(func(fd int) error {
		for {
			left := max(0, time.Until(deadline).Milliseconds())
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			ended = n > 0
			return err
		}
	})
	if errors.Is(err, ErrGone) {
		return true, nil
	}
	return ended, err
}

// withFD calls f with a descriptor of the process. The identity is checked after the
// descriptor has been opened, so it cannot change in between.
func (id ID) withFD(f func(fd int) error) error {
	if id.PID <= 0 {
		return ErrGone
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", id.PID, err)
	}
	defer unix.Close(fd)
	if !id.Alive() {
		return ErrGone
	}
	if err := f(fd); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return ErrGone
		}
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	return nil
}
