package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// waits is for how long the threads of switches waited for a processor while loads of generated flows ran. A packet that comes
// while a worker waits is seen when the wait ends, half the wait later on average; so packets are late by the sum of the waits'
// squares over twice the time, as they come evenly.
type waits struct {
	squares map[string]map[int]float64 // by switch and thread, in square seconds
	seconds float64
}

// waitsEvery is how often the kernel's figures are read. It counts a wait when the wait has ended, so none is cut in two; of
// those that end between two readings the sum is squared, which is never too little.
const waitsEvery = 10 * time.Millisecond

// watch reads the waits of processes' threads until the returned function is called. Without the kernel's figures there are none.
func (w *waits) watch(processes map[string]int) (stop func()) {
	type thread struct {
		name   string
		id     int
		file   *os.File
		before uint64
	}
	var threads []*thread
	for name, pid := range processes {
		folders, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, folder := range folders {
			file, err := os.Open(filepath.Join(folder, "schedstat"))
			if err != nil {
				continue // it has ended, or the kernel has no such figures
			}
			id, _ := strconv.Atoi(filepath.Base(folder)) // a folder of /proc/PID/task is a number
			t := &thread{name: name, id: id, file: file}
			t.before, _ = readWait(file)
			threads = append(threads, t)
		}
	}
	began := time.Now()
	look := func() {
		for _, t := range threads {
			now, ok := readWait(t.file)
			if !ok || now <= t.before {
				continue
			}
			seconds := time.Duration(now - t.before).Seconds()
			t.before = now
			if w.squares == nil {
				w.squares = map[string]map[int]float64{}
			}
			if w.squares[t.name] == nil {
				w.squares[t.name] = map[int]float64{}
			}
			w.squares[t.name][t.id] += seconds * seconds
		}
	}
	ended := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(waitsEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				look()
				return
			case <-ticker.C:
				look()
			}
		}
	})
	return func() {
		close(ended)
		done.Wait()
		w.seconds += time.Since(began).Seconds()
		for _, t := range threads {
			_ = t.file.Close()
		}
	}
}

// readWait reads how long a thread has waited on a run queue, in ns: the second figure of its schedstat.
func readWait(file *os.File) (ns uint64, ok bool) {
	var text [96]byte
	n, err := file.ReadAt(text[:], 0)
	if n == 0 && err != nil {
		return 0, false
	}
	var ran uint64
	_, err = fmt.Sscan(string(text[:n]), &ran, &ns)
	return ns, err == nil
}

// late is by how much the packets of a switch were late on average, by the worker that waited most.
func (w *waits) late(name string, r *SwitchReport) time.Duration {
	most := 0.0
	for id, squares := range w.squares[name] {
		if r != nil && slices.ContainsFunc(r.Workers, func(worker struct {
			Thread int `json:"thread"`
		}) bool {
			return worker.Thread == id
		}) {
			most = max(most, squares)
		}
	}
	if w.seconds == 0 {
		return 0
	}
	return time.Duration(most / (2 * w.seconds) * 1e9)
}

// watchWaits watches the switches of the lab while n loads from the i-th on run, if some are of generated flows.
func (l *Lab) watchWaits(i, n int) (stop func()) {
	if !slices.ContainsFunc(l.config.Traffic[i:i+n], func(t Traffic) bool { return t.Kind == KindFlows }) || len(l.config.Relays) == 0 {
		return func() {}
	}
	processes := map[string]int{}
	for _, s := range l.config.Switches {
		if p := l.switches[s.Name]; p != nil {
			processes[s.Name] = p.id.PID
		}
	}
	return l.waits.watch(processes)
}
