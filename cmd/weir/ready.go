package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// readyVariable names a descriptor on which whoever started the switch waits
// for the line "ready".
const readyVariable = "WEIR_READY_FD"

// readiness tells whoever started the switch that it forwards.
type readiness struct {
	file   *os.File // nil if nobody waits
	socket string   // of systemd, see sd_notify(3); empty without it
}

// newReadiness reads the environment.
func newReadiness() (*readiness, error) {
	r := &readiness{socket: os.Getenv("NOTIFY_SOCKET")}
	text, ok := os.LookupEnv(readyVariable)
	if !ok {
		return r, nil
	}
	fd, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%s=%q is not a descriptor: set it to the number of one, or not at all", readyVariable, text)
	}
	unix.CloseOnExec(int(fd)) // else programs that this one starts had it, too, and whoever reads to its end waited for them
	r.file = os.NewFile(uintptr(fd), readyVariable)
	if _, err := r.file.Stat(); err != nil {
		return nil, fmt.Errorf("%s=%s is not open: set it to the number of a descriptor that the switch inherits", readyVariable, text)
	}
	return r, nil
}

// ready tells it once.
func (r *readiness) ready() error {
	if r.file != nil {
		_, err := r.file.WriteString("ready\n")
		if closeErr := r.file.Close(); err == nil {
			err = closeErr
		}
		r.file = nil
		if err != nil {
			return fmt.Errorf("tell that the switch is ready: %w", err)
		}
	}
	return r.notify("READY=1")
}

// stopping tells systemd that the end is wanted.
func (r *readiness) stopping() error { return r.notify("STOPPING=1") }

// notify sends one datagram to systemd. An address with @ in front is in the
// abstract namespace, which package net understands as sd_notify does.
func (r *readiness) notify(state string) error {
	if r.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: r.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
