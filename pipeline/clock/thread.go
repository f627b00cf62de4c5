package clock

import "time"

// Thread is the processor time that a thread of this process has had: 0 names the calling one,
// and one that has ended has none. It takes a system call.
func Thread(id int) time.Duration {
	// The id of a thread's clock, as in the kernel's include/linux/posix-timers_types.h.
	const perThread, scheduled = 4, 2 // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED
	return time.Duration(read(^int32(id)<<3 | perThread | scheduled))
}
