package clock

import (
	"os"
	threads "runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThread: a thread's time is the same by its id, by 0 and by the system's own clock of
// the calling thread, and grows with its work; of no thread of this process it is none.
func TestThread(t *testing.T) {
	threads.LockOSThread()
	defer threads.UnlockOSThread()
	before := Thread(0)
	for i := 0; Thread(0)-before < 2*time.Millisecond; i++ {
		if i == 1_000_000_000 {
			t.Fatal("the time of a busy thread stands still")
		}
	}
	last := before
	for i, read := range []func() time.Duration{
		func() time.Duration { return time.Duration(read(unix.CLOCK_THREAD_CPUTIME_ID)) },
		func() time.Duration { return Thread(unix.Gettid()) },
		func() time.Duration { return Thread(0) },
		func() time.Duration { return time.Duration(read(unix.CLOCK_THREAD_CPUTIME_ID)) },
	} {
		now := read()
		if now < last {
			t.Errorf("reading %d goes back from %v to %v", i, last, now)
		}
		last = now
	}
	if took := Thread(os.Getppid()); took != 0 {
		t.Errorf("a thread of another process has had %v", took)
	}
}
