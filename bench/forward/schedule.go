package forward

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench/traffic"
)

// favoured is the nice value of all that takes part: source, devices, receive threads. Whatever else
// runs on the machine gets about a hundredth of their cores, and the devices compare.
const favoured = -20

// schedule is where and how a thread runs.
type schedule struct {
	cores unix.CPUSet
	nice  int
}

func oneCore(core int) (set unix.CPUSet) {
	set.Set(core)
	return set
}

// readSchedule reads that of a thread; 0 is the calling one.
func readSchedule(thread int) (s schedule, err error) {
	if err := unix.SchedGetaffinity(thread, &s.cores); err != nil {
		return s, fmt.Errorf("read the cores of thread %d: %w", thread, err)
	}
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	if err != nil {
		return s, fmt.Errorf("read the priority of thread %d: %w", thread, err)
	}
	s.nice = 20 - priority // the system call, unlike the function of the C library, avoids negative numbers
	return s, nil
}

func (s schedule) apply(thread int) error {
	if err := unix.SchedSetaffinity(thread, &s.cores); err != nil {
		return fmt.Errorf("bind thread %d to its core: %w", thread, err)
	}
	return setNice(thread, s.nice)
}

// favour gives a thread the priority of all that takes part.
func favour(thread int) error { return setNice(thread, favoured) }

func setNice(thread, nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, thread, nice); err != nil {
		return fmt.Errorf("set the priority of thread %d (needs CAP_SYS_NICE): %w", thread, err)
	}
	return nil
}

// sessionNice reads and sets the nice value of a process's session as a whole. Where the kernel groups
// tasks by session (CONFIG_SCHED_AUTOGROUP, see sched(7)) nice values of threads count only within it,
// and this one beside other sessions. Without groups it does nothing.
func sessionNice(pid, nice int) (before int, err error) {
	path := fmt.Sprintf("/proc/%d/autogroup", pid)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil && len(text) == 0 {
		return 0, nil // in no group
	}
	if err == nil {
		var group int
		if _, err = fmt.Sscanf(string(text), "/autogroup-%d nice %d", &group, &before); err == nil {
			err = os.WriteFile(path, strconv.AppendInt(nil, int64(nice), 10), 0)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("set the priority of the session of process %d: %w", pid, err)
	}
	return before, nil
}

// onCore calls f with all threads of this process bound to the source's core and favoured, so that
// nothing of it runs where the device does. Threads made meanwhile inherit that; at the end all are
// as they were.
func onCore(core int, f func() error) error {
	before, err := readSchedule(unix.Getpid())
	if err != nil {
		return err
	}
	if err := scheduleAll(schedule{oneCore(core), favoured}); err != nil {
		return err
	}
	session, err := sessionNice(unix.Getpid(), favoured)
	if err != nil {
		return errors.Join(err, scheduleAll(before))
	}
	err = f()
	_, restoreErr := sessionNice(unix.Getpid(), session)
	return errors.Join(err, restoreErr, scheduleAll(before))
}

func scheduleAll(s schedule) error {
	threads, err := traffic.Threads(unix.Getpid())
	if err != nil {
		return err
	}
	for _, id := range threads {
		if err := s.apply(id); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
