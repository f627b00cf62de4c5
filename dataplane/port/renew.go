package port

import (
	"fmt"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
)

// renewal puts the XDP program back into a driver that forgets it. Two programs take turns, as the kernel ignores a replacement by
// the same one; and a driver that forgets leaks its reference, so that each further program would stay in the kernel.
type renewal struct {
	twin   *xdp.Program // nil until it is needed
	twins  bool         // twin is the one that is attached
	rounds uint64       // how often the program was put back
}

// String continues Info.Mode.
func (r *renewal) String() string {
	if r.rounds == 0 {
		return ""
	}
	return fmt.Sprintf(", program put back after %d link events", r.rounds)
}

// first is the program that was attached to an interface, before any twin.
func (x *XSK) first(b *beneath) *xdp.Program {
	if b.device != nil {
		return b.device
	}
	return x.program
}

// Renew implements Renewable. That the driver has forgotten its program cannot be seen: the link's description is the kernel's, and
// packets that pass to the kernel are not counted. So each event of the link is taken for one. Where a driver takes the program anew
// it resets its link, whose event brings one more round, which changes nothing.
func (x *XSK) Renew() (note string, err error) {
	x.mu.Lock()
	b, left := x.beneath, x.left
	x.mu.Unlock()
	if b == nil || left || b.attach.Mode() != xdp.Native || !nic.ForgetsXDP(b.link.module) {
		return "", nil
	}
	// Without the lock, which Info takes: the kernel replaces a program in its own time.
	r := &b.renewal
	next := r.twin
	if next == nil {
		if err := x.space.Do(func() (err error) {
			next, err = x.first(b).Twin()
			return err
		}); err != nil {
			return "", fmt.Errorf("port %s: %w", x.config.Name, err)
		}
	} else if r.twins {
		next = x.first(b)
	}
	err = b.attach.Replace(next)
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.twin == nil {
		r.twin = next
	}
	if err != nil {
		return "", fmt.Errorf("port %s: %w", x.config.Name, err)
	}
	r.twins = !r.twins
	if r.rounds++; r.rounds == 1 {
		note = fmt.Sprintf("the driver %s drops the XDP program when the link goes down: it is put back after each event of the link", b.link.module)
	}
	return note, nil
}
