package forward

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// schedule is where and how a thread runs. All that takes part is favoured, so that the devices compare: source, devices, receive threads.
type schedule struct {
	cores unix.CPUSet
	nice  int
}

func onCores(cores ...int) (set unix.CPUSet) {
	for _, core := range cores {
		set.Set(core)
	}
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
func favour(thread int) error { return setNice(thread, bench.Favoured) }

func setNice(thread, nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, thread, nice); err != nil {
		return fmt.Errorf("set the priority of thread %d (needs CAP_SYS_NICE: run as root): %w", thread, err)
	}
	return nil
}

// onCore calls f with all threads of this process bound to the source's core and favoured, so that
// nothing of it runs where the device does. Threads made meanwhile inherit that; at the end all are
// as they were.
func onCore(core int, f func() error) error {
	before, err := readSchedule(unix.Getpid())
	if err != nil {
		return err
	}
	if err := scheduleAll(schedule{onCores(core), bench.Favoured}); err != nil {
		return err
	}
	restore, err := bench.FavourSession()
	if err != nil {
		return errors.Join(err, scheduleAll(before))
	}
	return errors.Join(f(), restore(), scheduleAll(before))
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
