package hostif

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Watch follows the kernel's routing of one network namespace.
type Watch struct {
	do    func(func() error) error
	nudge chan struct{} // something may have changed; holds one

	mu    sync.Mutex // guards what follows
	given map[string]given
	held  bool
}

// New returns a watch of the namespace in which do runs a function.
func New(do func(func() error) error) *Watch {
	return &Watch{do: do, nudge: make(chan struct{}, 1), given: map[string]given{}}
}

// Options are what a watch works for.
type Options struct {
	// Want returns the host interfaces. It is called before each look.
	Want func() []Want
	// Apply gets the first state that is whole, and whenever it is another one.
	Apply func(*State)
	// Failed gets what could not be done, whenever that is something else; nil when all is well again.
	Failed func(error)
}

// minPause is the least time between two readings.
const minPause = 10 * time.Millisecond

// Look has the watch look soon: what is wanted has changed.
func (w *Watch) Look() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// Hold keeps the watch from changing interfaces until Release, as another process that has them may do so, or is about to: it only reads. A change that is under way has ended.
func (w *Watch) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// Release ends Hold, and has the watch look.
func (w *Watch) Release() {
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
	w.Look()
}

// Given is what a watch gave an interface, for the one of a process that takes the interface over: it removes addresses that the interface is no longer to have.
type Given struct {
	Interface string         `json:"interface"`
	Index     int            `json:"index"` // the kernel's; another one is another interface
	Addresses []netip.Prefix `json:"addresses"`
}

// Given returns what the watch gave each interface.
func (w *Watch) Given() (all []Given) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, g := range w.given {
		all = append(all, Given{name, g.index, g.addresses})
	}
	slices.SortFunc(all, func(a, b Given) int { return strings.Compare(a.Interface, b.Interface) })
	return all
}

// The bounds of what is taken.
const (
	maxGiven     = 65536
	maxAddresses = 4096 // of an interface
)

// Take has the watch go on with what another process's gave. Nothing is taken with an error.
func (w *Watch) Take(all []Given) error {
	if len(all) > maxGiven {
		return fmt.Errorf("%d host interfaces were taken over, and there can be %d", len(all), maxGiven)
	}
	taken := map[string]given{}
	for _, g := range all {
		if _, twice := taken[g.Interface]; twice || g.Interface == "" || g.Index <= 0 {
			return fmt.Errorf("a host interface %q with index %d was taken over, twice: %v", g.Interface, g.Index, twice)
		}
		if len(g.Addresses) > maxAddresses {
			return fmt.Errorf("the host interface %s was taken over with %d addresses, and can have %d", g.Interface, len(g.Addresses), maxAddresses)
		}
		for _, a := range g.Addresses {
			if !a.IsValid() {
				return fmt.Errorf("the host interface %s was taken over with the address %v", g.Interface, a)
			}
		}
		taken[g.Interface] = given{g.Index, g.Addresses}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given = taken
	return nil
}

// Run works until stop is closed.
func (w *Watch) Run(stop <-chan struct{}, o Options) error {
	var socket *os.File
	err := w.do(func() (err error) {
		socket, err = subscribe()
		return err
	})
	if err != nil {
		return err
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		w.listen(socket)
	}()
	defer func() {
		_ = socket.Close()
		<-listening
	}()
	w.Look()
	var last State
	read := false
	var failure string
	for {
		select {
		case <-stop:
			return nil
		case <-w.nudge:
		}
		begin := time.Now()
		wants := o.Want()
		var state State
		err := w.do(func() error {
			err := w.settle(wants)
			if len(wants) == 0 {
				return err
			}
			return errors.Join(err, state.read(wants))
		})
		if text := fmt.Sprint(err); text != failure {
			failure = text
			o.Failed(err)
		}
		first := !read && state.complete
		read = read || first
		if (state.complete || len(wants) == 0) && (first || !state.equal(&last)) {
			o.Apply(&state)
			last = state
		}
		select {
		case <-stop:
			return nil
		case <-time.After(max(minPause, 3*time.Since(begin))):
		}
	}
}

// subscribe opens a socket to which the kernel reports changes of links, addresses, routes, next hops and neighbours.
func subscribe() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("subscribe to the kernel's routes: %w", err)
	}
	address := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, group := range []uint{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEXTHOP,
	} {
		address.Groups |= 1 << (group - 1)
	}
	if err := unix.Bind(fd, address); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to the kernel's routes: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// listen nudges the watch for each message, and where messages were lost (ENOBUFS), until the socket is closed.
func (w *Watch) listen(socket *os.File) {
	buf := make([]byte, 1<<16)
	for {
		n, err := socket.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || concerns(buf[:n]) {
			w.Look()
		}
	}
}

// concerns reports whether a message may be about what a watch reads. Of neighbours it reads those that are configured,
// and the kernel reports all that it finds.
func concerns(message []byte) bool {
	const state = unix.SizeofNlMsghdr + 8 // ndm_state of struct ndmsg
	if len(message) < state+2 || binary.NativeEndian.Uint16(message[4:]) != unix.RTM_NEWNEIGH {
		return true
	}
	return binary.NativeEndian.Uint16(message[state:])&unix.NUD_PERMANENT != 0
}
