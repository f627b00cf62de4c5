package traffic

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// AnyCore leaves the choice of the core to the scheduler.
const AnyCore = -1

// Port names one interface and the core that works for it.
type Port struct {
	// Namespace of the interface; it must stay open as long as the source or sink.
	Namespace *netns.Namespace
	// Interface is the name in the namespace.
	Interface string
	// Core that the sending or receiving thread is pinned to, or AnyCore.
	Core int
}

func (p Port) String() string {
	if name := p.Namespace.Name(); name != "" {
		return name + "/" + p.Interface
	}
	return p.Interface
}

// run calls f on a locked thread in the port's namespace and on its core.
func (p Port) run(f func() error) error {
	return p.Namespace.Do(func() (err error) {
		var before unix.CPUSet
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			return fmt.Errorf("read the affinity of a thread: %w", err)
		}
		if err := pinThread(p.Core); err != nil {
			return err
		}
		defer func() {
			if unix.SchedSetaffinity(0, &before) != nil {
				runtime.LockOSThread() // a second lock, so that the thread ends with its goroutine
			}
		}()
		return f()
	})
}

func pinThread(core int) error {
	if core == AnyCore {
		return nil
	}
	if core < 0 || core >= 1024 {
		return fmt.Errorf("pin to core %d: no such core", core)
	}
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to core %d of %d: %w", core, runtime.NumCPU(), err)
	}
	return nil
}
