package lab

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaits: of two threads that want one processor at the same time each is found to wait for it, and what it waited is how
// late packets are in the report of the worker that has its number alone.
func TestWaits(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not say how long threads wait")
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	core := 0
	for !allowed.IsSet(core) {
		core++
	}
	threads, ended := make(chan int), make(chan struct{})
	var stop atomic.Bool
	for range 2 {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends, and its affinity with it
			var one unix.CPUSet
			one.Set(core)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
			}
			threads <- unix.Gettid()
			for !stop.Load() { // so that both always want the core
			}
			ended <- struct{}{}
		}()
	}
	first := <-threads
	<-threads
	var w waits
	for w.late("s1", workerOf(t, first)) == 0 && !t.Failed() {
		watched := w.watch(map[string]int{"s1": os.Getpid(), "gone": -1})
		time.Sleep(time.Millisecond) // the loop's event is the kernel's figure, not this time
		watched()
	}
	stop.Store(true)
	<-ended
	<-ended
	for name, late := range map[string]time.Duration{
		"another switch": w.late("s2", workerOf(t, first)), "no worker": w.late("s1", &SwitchReport{}), "no report": w.late("s1", nil),
		"a process that is gone": w.late("gone", workerOf(t, first)),
	} {
		if late != 0 {
			t.Errorf("%s is late by %v", name, late)
		}
	}
	// Two waits of a tenth of a second in ten seconds: of the packets one in fifty waits for 50 ms.
	w = waits{squares: map[string]map[int]float64{"s1": {7: 0.02, 8: 0.01}}, seconds: 10}
	if late := w.late("s1", workerOf(t, 7)); late != time.Millisecond {
		t.Errorf("late by %v, want 1ms", late)
	}
}

func workerOf(t *testing.T, thread int) *SwitchReport {
	r := new(SwitchReport)
	if err := json.Unmarshal([]byte(`{"workers": [{"thread": `+strconv.Itoa(thread)+`}]}`), r); err != nil {
		t.Fatal(err)
	}
	return r
}
