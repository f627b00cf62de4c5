package forward

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A line goes to and fro so often in one measurement, which takes some milliseconds. The fastest part of it counts: others may have run
// on the cores in the rest.
const (
	parts     = 40
	exchanges = 500 // of a part
)

// roundTrip is how long a cache line takes from one core to another one and back, in ns. Ports in shared memory wait for lines that the
// other core wrote; and where a virtual machine's cores are, the hypervisor decides anew at any time (docs/performance.md).
func roundTrip(a, b int) (ns float64, err error) {
	var line struct {
		_    [128]byte
		turn atomic.Uint32
		_    [128]byte
	}
	answer := func(bound chan<- error) {
		release, err := bindTo(b)
		if bound <- err; err != nil {
			return
		}
		defer release()
		for range parts * exchanges {
			for line.turn.Load() != 1 {
			}
			line.turn.Store(0)
		}
	}
	ask := func() error {
		release, err := bindTo(a)
		if err != nil {
			return err
		}
		defer release()
		bound := make(chan error)
		go answer(bound)
		if err := <-bound; err != nil {
			return err
		}
		ns = math.Inf(1)
		for range parts {
			start := time.Now()
			for range exchanges {
				line.turn.Store(1)
				for line.turn.Load() != 0 {
				}
			}
			ns = min(ns, float64(time.Since(start).Nanoseconds())/exchanges)
		}
		return nil
	}
	if before := runtime.GOMAXPROCS(0); before < 2 { // of two that wait for each other, one would have to give way
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(before)
	}
	done := make(chan error)
	go func() { done <- ask() }()
	if err := <-done; err != nil {
		return 0, fmt.Errorf("measure the round trip between cores %d and %d: %w", a, b, err)
	}
	return ns, nil
}

// bindTo locks the calling goroutine to its thread, and the thread to a core, until release. The thread may be the
// process's main one, which others ask where the process may run.
func bindTo(core int) (release func(), err error) {
	runtime.LockOSThread()
	before, err := readSchedule(0)
	if err == nil {
		set := onCores(core)
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return func() {
		if unix.SchedSetaffinity(0, &before.cores) == nil { // else the thread ends with its goroutine
			runtime.UnlockOSThread()
		}
	}, nil
}
