package shmem

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Gate is the lock of a ring. The goroutine that handles messages locks it to start, stop and unmap. A worker only
// tries it, once per batch, while it is open. The zero value is closed.
type Gate struct {
	sync.Mutex
	open   atomic.Bool
	panics bool // what SetPanicOnFault was at Enter
}

// enterTries bounds how long Enter tries: about as long as another worker needs for a batch.
const enterTries = 2000

// SetOpen says whether there is a ring to use; the caller holds the lock.
func (g *Gate) SetOpen(open bool) { g.open.Store(open) }

// Open reports whether there is a ring to use, without the lock.
func (g *Gate) Open() bool { return g.open.Load() }

// Enter takes the lock and makes faults of memory panics of the goroutine, until Leave. It reports false if the gate is
// closed, or stays locked for some microseconds.
func (g *Gate) Enter() bool {
	if !g.open.Load() {
		return false
	}
	for try := 0; !g.TryLock(); try++ {
		if try == enterTries || !g.open.Load() { // a peer whose messages start the ring again and again does not hold the worker
			return false
		}
	}
	g.panics = debug.SetPanicOnFault(true)
	return true
}

// Leave undoes Enter.
func (g *Gate) Leave() {
	debug.SetPanicOnFault(g.panics)
	g.Unlock()
}

// Lost reports whether what was recovered is a fault at an address of shared memory. Every other panic is a fault of ours.
func Lost(recovered any, holds func(uintptr) bool) bool {
	fault, ok := recovered.(interface{ Addr() uintptr })
	return ok && holds(fault.Addr())
}
