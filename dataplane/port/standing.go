package port

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// standing is what ports in shared memory have in common: a socket of theirs, whose other end comes and goes while the port stays. Only
// control takes the port out of use.
type standing struct {
	room  int         // bytes of a packet in a frame
	pause atomic.Bool // nothing is received

	mu      sync.Mutex // guards what follows
	config  Config
	shaper  *shaper // nil without a rate
	stopped bool    // for good
	absence
	past   Counters     // of devices that are closed
	shared sharedDevice // nil while the port is out of use
	frozen bool         // between Freeze and Thaw, and for good behind Leave: no device is opened
}

// attach notes that there is a device.
func (s *standing) attach(d sharedDevice) {
	s.shared = d
	s.shaper = newShaper(&s.config, s.room)
	s.disabled, s.present, s.why = false, false, ""
}

// mayOpen refuses a device that the process which takes the switch over would not know of. The caller has mu.
func (s *standing) mayOpen() error {
	if s.frozen {
		return errLeft
	}
	return nil
}

// StopReceive implements Port.
func (s *standing) StopReceive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.Pause()
}

// Lost implements Restorable: no other end's end is the port's.
func (s *standing) Lost() bool { return false }

// Pause implements Restorable.
func (s *standing) Pause() error {
	s.pause.Store(true)
	return nil
}

// GiveBack implements Restorable: there is nothing to give back.
func (s *standing) GiveBack() error { return nil }

// Configure implements Restorable.
func (s *standing) Configure(c Config) (before Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.config
	s.config, s.disabled = before.with(c), c.Disabled
	return before
}

// Restored implements Restorable.
func (s *standing) Restored() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopped
	}
	s.pause.Store(false)
	return nil
}

// end has the port report no reason for its end.
func (s *standing) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present, s.why = false, ""
}

// detached notes what the port was, and why it is not any more.
func (s *standing) detached(was Info, c Counters, why error) {
	s.past.Add(&c)
	s.shared = nil
	s.leave(was, why)
	s.disabled = errors.Is(why, ErrDisabled)
	s.present = true // it is opened again, unless it was switched off
}

// countRings sums the faults of a pair of rings.
func countRings[F interface {
	~uint8
	fmt.Stringer
}](c *Counters, rx, tx *shmem.Faults[F]) {
	c.RxInvalid += rx.Packets()
	c.TxInvalid += tx.Packets()
	c.RingFaults += rx.Broken() + tx.Broken()
	for _, ring := range []*shmem.Faults[F]{rx, tx} {
		ring.Each(func(f F, n uint64) { c.addFault(f.String(), n) })
	}
}

// listFaults names what was refused of the other end's rings; empty if nothing was.
func listFaults(faults map[string]uint64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		list = append(list, fmt.Sprintf("%s %d", name, faults[name]))
	}
	return strings.Join(list, ", ")
}
