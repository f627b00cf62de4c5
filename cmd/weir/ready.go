package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// readyVariable names a descriptor on which the process that started the switch waits
// for the line "ready".
const readyVariable = "WEIR_READY_FD"

// readiness notifies the process that started the switch, or systemd, when it forwards.
type readiness struct {
	file *os.File // nil without such a descriptor
}

// newReadiness reads the environment.
func newReadiness() (*readiness, error) {
	r := &readiness{}
	text, ok := os.LookupEnv(readyVariable)
	if !ok {
		return r, nil
	}
	fd, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%s=%q is not a descriptor: set it to the number of one, or not at all", readyVariable, text)
	}
	unix.CloseOnExec(int(fd)) // else children inherit it, and its reader waits for them too
	r.file = os.NewFile(uintptr(fd), readyVariable)
	if _, err := r.file.Stat(); err != nil {
		return nil, fmt.Errorf("%s=%s is not open: set it to the number of a descriptor that the switch inherits", readyVariable, text)
	}
	return r, nil
}

// ready notifies once.
func (r *readiness) ready() error {
	if r.file != nil {
		_, err := r.file.WriteString("ready\n")
		if closeErr := r.file.Close(); err == nil {
			err = closeErr
		}
		r.file = nil
		if err != nil {
			return fmt.Errorf("notify that the switch is ready: %w", err)
		}
	}
	return r.notify("READY=1")
}

// stopping notifies systemd that the switch shuts down.
func (r *readiness) stopping() error { return r.notify("STOPPING=1") }

// notify sends a state to systemd, if that started the process.
func (r *readiness) notify(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
