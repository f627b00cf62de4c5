package pipeline

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
)

var clockBase = time.Now()

// since reads the monotonic clock, without a system call.
func since() time.Duration { return time.Since(clockBase) }

// nowTAI is the time as stages see it, in nanoseconds.
func nowTAI() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &ts); err != nil {
		panic("CLOCK_TAI: " + err.Error()) // in Linux since 3.10
	}
	return ts.Nano()
}

// onCore calls f on a thread that is bound to a core and favoured before others, and ends the thread.
func onCore(core int, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		var set unix.CPUSet
		set.Set(core)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			result <- fmt.Errorf("bind to core %d: %w", core, err)
			return
		}
		favour(0)
		result <- f()
	}()
	return <-result
}

// favour gives a thread priority, if the process may: without, figures are noisier, not wrong.
func favour(thread int) { _ = unix.Setpriority(unix.PRIO_PROCESS, thread, bench.Favoured) }

// cores are those that the process may use, in order.
func cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask which cores the process may use: %w", err)
	}
	var cores []int
	for core := 0; core < 1024 && len(cores) < set.Count(); core++ {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	if len(cores) == 0 {
		return nil, errors.New("the process may use no core")
	}
	return cores, nil
}
