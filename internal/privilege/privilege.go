// Package privilege gives up the capabilities of the process, and lists those that it has.
package privilege

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// ForPorts are the capabilities that it takes to open a port again, after its interface
// went away: to register memory beyond the limit of locked memory (ipc_lock), to make
// an AF_XDP socket (net_raw), to load the XDP program (bpf, and perfmon, without which the
// verifier refuses it), and to attach it (net_admin). Ports that stay open need none of
// them.
var ForPorts = []cap.Value{cap.IPC_LOCK, cap.NET_RAW, cap.BPF, cap.PERFMON, cap.NET_ADMIN}

// MissingForPorts names what of ForPorts the process has not and cannot do without to open a port; CAP_SYS_ADMIN has the powers
// of bpf, as before Linux 5.8. Locked memory may be enough without ipc_lock, and kernels differ in what they want perfmon for.
func MissingForPorts() (missing []string) {
	now := cap.GetProc()
	has := func(v cap.Value) bool {
		on, err := now.GetFlag(cap.Effective, v)
		return err == nil && on
	}
	for _, v := range []cap.Value{cap.NET_RAW, cap.NET_ADMIN, cap.BPF} {
		if !has(v) && !(v == cap.BPF && has(cap.SYS_ADMIN)) {
			missing = append(missing, strings.ToUpper(v.String()))
		}
	}
	return missing
}

// Drop gives up all capabilities of the process but these, on all its
// threads, for good: no program that it could execute would get them back. What the
// process does not have is not asked for.
func Drop(keep []cap.Value) error {
	now := cap.GetProc()
	kept := cap.NewSet()
	for _, v := range keep {
		if has, err := now.GetFlag(cap.Permitted, v); err != nil || !has {
			continue
		}
		if err := errors.Join(kept.SetFlag(cap.Permitted, true, v), kept.SetFlag(cap.Effective, true, v)); err != nil {
			return fmt.Errorf("keep the capability %s: %w", v, err)
		}
	}
	if err := cap.ResetAmbient(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("give up ambient capabilities: %w", err)
	}
	if _, err := cap.Prctlw(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := setCapabilities(kept); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}

// setCapabilities gives all threads of the process the permitted and effective
// capabilities of s, and no inheritable ones (capset(2)). cap.Set.SetProc does the same,
// but hands the address of a header on its stack through a function value; where the
// stack then grows on the way to the system call, the kernel reads what is there now, and
// refuses it. Here the compiler sees the conversion in the call itself, and keeps both on
// the heap.
func setCapabilities(s *cap.Set) error {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	for v := range cap.MaxBits() {
		word, bit := &data[v/32], uint32(1)<<(v%32)
		if on, err := s.GetFlag(cap.Permitted, v); err != nil {
			return err
		} else if on {
			word.Permitted |= bit
		}
		if on, err := s.GetFlag(cap.Effective, v); err != nil {
			return err
		} else if on {
			word.Effective |= bit
		}
	}
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Kept names the capabilities of the process, sorted: "bpf", "net_admin".
func Kept() []string {
	now := cap.GetProc()
	names := []string{}
	for v := range cap.MaxBits() {
		if has, err := now.GetFlag(cap.Permitted, v); err == nil && has {
			names = append(names, strings.TrimPrefix(v.String(), "cap_"))
		}
	}
	slices.Sort(names)
	return names
}
