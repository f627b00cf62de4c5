package worker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxNice is the highest nice value (setpriority(2)).
const maxNice = 19

// Favour raises the nice value of this process's threads that are no workers by Config.BackgroundNice, so that workers go first on a core that they
// share with what makes records, collects garbage, or answers: else the scheduler gives each of these threads as long a turn as a
// worker, in which rings overrun. It needs no privilege. Threads that are made later inherit it, as the Go runtime makes none from a thread that a
// goroutine is locked to. Workers must run: call it from Run's ready or later, once in a process. It returns the nice value that the others have then.
func (s *Switch) Favour() (nice int, err error) {
	var workers []int
	for _, w := range s.workers {
		workers = append(workers, w.thread)
	}
	// The system call returns 20 less the nice value (getpriority(2), C library and kernel differences).
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0, fmt.Errorf("read the nice value of the switch: %w", err)
	}
	nice = min(20-priority+s.nice, maxNice)
	// A thread that is made from one that was not raised yet may be in no list so far: the next one has it.
	for raised := 1; raised > 0; {
		if raised, err = raise(workers, nice); err != nil {
			return 0, err
		}
	}
	return nice, nil
}

// raise gives this process's threads a nice value that is higher than theirs, but for some, and reports of how many it was.
func raise(but []int, nice int) (raised int, err error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, fmt.Errorf("list the threads of the switch: %w", err)
	}
	for _, t := range tasks {
		thread, err := strconv.Atoi(t.Name())
		if err != nil || slices.Contains(but, thread) {
			continue
		}
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
		if err == nil && 20-priority < nice {
			err = unix.Setpriority(unix.PRIO_PROCESS, thread, nice)
			raised++
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("raise the nice value of thread %d: %w", thread, err)
		}
	}
	return raised, nil
}
