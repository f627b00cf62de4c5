package nic

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/internal/socket"
)

// Holder is the process that keeps an XDP program on an interface.
type Holder struct {
	Process int    `json:"process"`
	Name    string `json:"name"` // of the process
	// Socket is the control socket, if the process is a switch.
	Socket string `json:"socket,omitempty"`
}

// String names the holder.
func (h *Holder) String() string {
	if h.Socket != "" {
		return fmt.Sprintf("the switch with control socket %s, process %d", h.Socket, h.Process)
	}
	return fmt.Sprintf("process %d (%s)", h.Process, h.Name)
}

// Remedy is what to do about the holder of a program that is in the way on an interface. A nil one is not known: it has ended, or
// this process may not see it.
func (h *Holder) Remedy(name string) string {
	switch {
	case h == nil && !seesAll():
		return "as this user it cannot be seen whose it is: run this as root to see (a running switch may have it), before you stop or remove anything"
	case h == nil:
		return fmt.Sprintf("stop its owner, or remove it with `ip link set dev %s xdp off`", name)
	case h.Socket != "":
		return fmt.Sprintf("it is that of %v: stop that switch, have it leave the interface (weir ctl --socket %s set port down NAME), or name another one", h, h.Socket)
	}
	return fmt.Sprintf("it is that of %v: stop it, or name another interface", h)
}

// seesAll reports whether the process may look at the descriptors of those of other users.
func seesAll() bool {
	d, err := os.Open("/proc/1/fd")
	if err != nil {
		return false
	}
	return d.Close() == nil
}

// AttachedError is the error of a port whose interface has the XDP program of another.
func AttachedError(name string, program uint32, err error) error {
	return fmt.Errorf("another XDP program is attached to %s: %s: %w", name, FindHolder(program).Remedy(name), err)
}

// FindHolder finds the process that has a descriptor of an XDP program's link, which keeps it attached: a switch
// rather than another one. It is nil if none is found, as of a program that is attached without a link (ip link set).
func FindHolder(program uint32) *Holder {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found *Holder
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || !holds(p.Name(), program) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "comm"))
		h := &Holder{Process: pid, Name: strings.TrimSpace(string(name)), Socket: socket.Bound(p.Name())}
		if h.Socket != "" {
			return h
		}
		if found == nil {
			found = h
		}
	}
	return found
}

// holds reports whether a process has a descriptor of a program's link.
func holds(process string, program uint32) bool {
	files, _ := os.ReadDir(filepath.Join("/proc", process, "fd")) // of another user, or gone: none
	for _, f := range files {
		target, _ := os.Readlink(filepath.Join("/proc", process, "fd", f.Name()))
		if !strings.HasPrefix(target, "anon_inode:bpf") || !strings.HasSuffix(target, "link") {
			continue
		}
		info, _ := os.ReadFile(filepath.Join("/proc", process, "fdinfo", f.Name()))
		for line := range strings.Lines(string(info)) {
			if id, ok := strings.CutPrefix(line, "prog_id:"); ok && strings.TrimSpace(id) == strconv.FormatUint(uint64(program), 10) {
				return true
			}
		}
	}
	return false
}
