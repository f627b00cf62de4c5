package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// portCapabilities are what it takes to open a port again, after its interface
// went away: to register memory beyond the limit of locked memory (ipc_lock), to make
// an AF_XDP socket (net_raw), to load the XDP program (bpf, and perfmon, without which the
// verifier refuses it), and to attach it (net_admin). Ports that stay open need none of
// them.
var portCapabilities = []cap.Value{cap.IPC_LOCK, cap.NET_RAW, cap.BPF, cap.PERFMON, cap.NET_ADMIN}

// dropPrivileges gives up all capabilities of the process but these, on all its
// threads, for good: no program that it could execute would get them back. What the
// process does not have is not asked for.
func dropPrivileges(keep []cap.Value) error {
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
	if err := kept.SetProc(); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}

// capabilities names what the process has, sorted: "bpf", "net_admin".
func capabilities() []string {
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
