package port

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LinkEvent is what the kernel reported about a network interface.
type LinkEvent struct {
	Index int
	Name  string
	Up    bool // it is up and has its carrier
	Gone  bool // it was removed, or moved to another namespace
	// Missed: the kernel reported more than we could receive, so anything may have
	// changed. The other fields say nothing.
	Missed bool
}

// LinkWatch receives what the kernel reports about the interfaces of one
// network namespace (rtnetlink).
type LinkWatch struct {
	space  *Space
	notify func(LinkEvent)
	stop   chan struct{}
	done   sync.WaitGroup
}

// watchBuffer is how much the kernel keeps for us, in bytes, where we may say so
// (CAP_NET_ADMIN): some thousand events of a machine whose interfaces all change at once.
const watchBuffer = 4 << 20

// WatchLinks begins to listen in the namespace of the calling thread. notify is
// called for every event, in order, on one goroutine; while it runs, the
// kernel keeps what happens.
func WatchLinks(notify func(LinkEvent)) (*LinkWatch, error) {
	here, err := CurrentSpace()
	if err != nil {
		return nil, err
	}
	w := &LinkWatch{space: here, notify: notify, stop: make(chan struct{})}
	updates, end, err := w.subscribe()
	if err != nil {
		here.Close()
		return nil, err
	}
	w.done.Go(func() { w.run(updates, end) })
	return w, nil
}

// subscribe opens the socket. Closing end closes it, and then updates ends.
func (w *LinkWatch) subscribe() (updates chan netlink.LinkUpdate, end chan struct{}, err error) {
	updates, end = make(chan netlink.LinkUpdate), make(chan struct{})
	options := netlink.LinkSubscribeOptions{ReceiveBufferSize: watchBuffer, ReceiveBufferForceSize: true}
	err = netlink.LinkSubscribeWithOptions(updates, end, options)
	if errors.Is(err, unix.EPERM) {
		options.ReceiveBufferForceSize = false
		err = netlink.LinkSubscribeWithOptions(updates, end, options)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe to the kernel's link events: %w", err)
	}
	return updates, end, nil
}

// run passes events on until Close. A subscription that ended by itself lost
// events (ENOBUFS); the next one begins with saying so.
func (w *LinkWatch) run(updates chan netlink.LinkUpdate, end chan struct{}) {
	for {
		stopped := w.pass(updates)
		close(end)
		for range updates {
			// Until its goroutine has ended.
		}
		for updates = nil; updates == nil && !stopped; {
			if err := w.space.Do(func() (err error) {
				updates, end, err = w.subscribe()
				return err
			}); err != nil {
				stopped = w.pause()
			}
		}
		if stopped {
			return
		}
		w.notify(LinkEvent{Missed: true})
	}
}

// pass reports whether it ended because of Close.
func (w *LinkWatch) pass(updates <-chan netlink.LinkUpdate) (stopped bool) {
	for {
		select {
		case <-w.stop:
			return true
		case u, ok := <-updates:
			if !ok {
				return false
			}
			if u.Family != unix.AF_BRIDGE { // these are about a bridge's ports
				w.notify(linkEvent(&u))
			}
		}
	}
}

// pause waits a while before the next try, and reports whether Close came.
func (w *LinkWatch) pause() (stopped bool) {
	select {
	case <-w.stop:
		return true
	case <-time.After(time.Second):
		return false
	}
}

func linkEvent(u *netlink.LinkUpdate) LinkEvent {
	a := u.Link.Attrs()
	return LinkEvent{
		Index: int(u.Index), Name: a.Name, Gone: u.Header.Type == unix.RTM_DELLINK,
		Up: u.Header.Type == unix.RTM_NEWLINK && isUp(a),
	}
}

// isUp reports whether an interface is up and has its carrier.
func isUp(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_RUNNING != 0
}

// Close ends the watch. notify is not called any more when it returns.
func (w *LinkWatch) Close() {
	close(w.stop)
	w.done.Wait()
	w.space.Close()
}
