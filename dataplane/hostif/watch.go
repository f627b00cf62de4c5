package hostif

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watch follows the kernel's routing of one network namespace.
type Watch struct {
	do    func(func() error) error
	nudge chan struct{} // something may have changed; holds one
	given map[string]given
}

// New returns a watch of the namespace in which do runs a function.
func New(do func(func() error) error) *Watch {
	return &Watch{do: do, nudge: make(chan struct{}, 1), given: map[string]given{}}
}

// Options are what a watch works for.
type Options struct {
	// Want returns the host interfaces. It is called before each look.
	Want func() []Want
	// Apply gets the state whenever it is another one.
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
		if (state.complete || len(wants) == 0) && !state.equal(&last) {
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
