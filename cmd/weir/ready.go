package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/node"
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

// The variables by which systemd says where it takes notes, and to a service's ExecReload= which process is the main one (sd_notify(3), systemd.exec(5)).
const (
	notifyVariable = "NOTIFY_SOCKET"
	mainVariable   = "MAINPID"
)

// service is what supervises this process, nil if nothing takes notes of it.
func (r *readiness) service() (*node.Service, error) {
	if os.Getenv(notifyVariable) == "" {
		return nil, nil
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find the service of this process: %w", err)
	}
	s := &node.Service{Successor: os.Getenv(mainVariable) != "", PassOn: r.passOn}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; systemd's is the unified one, which has no controllers here, or else has its name (cgroups(7))
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (fields[1] == "" || fields[1] == "name=systemd") && len(fields[2]) > len(s.Name) {
			s.Name = fields[2]
		}
	}
	return s, nil
}

// barrierLimit is as long as sd_notify(3) waits by default.
const barrierLimit = 5 * time.Second

// passOn has systemd take another process for the service's main one, and returns when it does, so that this one may end. systemd reads its notes in
// order, and closes the descriptor that comes with BARRIER=1 once it has read what came before (sd_notify_barrier(3)).
func (r *readiness) passOn(process int) error {
	if err := r.notify(fmt.Sprintf("%s=%d", mainVariable, process)); err != nil {
		return err
	}
	done, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer done.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // package net sends no descriptors by a connected one
	if err == nil {
		err = unix.Sendmsg(fd, []byte("BARRIER=1"), unix.UnixRights(int(theirs.Fd())), &unix.SockaddrUnix{Name: os.Getenv(notifyVariable)}, 0)
		err = errors.Join(err, unix.Close(fd))
	}
	if err = errors.Join(err, theirs.Close(), done.SetReadDeadline(time.Now().Add(barrierLimit))); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	if _, err := done.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("wait for systemd to take note of process %d: %w", process, err)
	}
	return nil
}
