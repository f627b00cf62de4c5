package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sysctl sets a network sysctl inside the namespace, named with slashes
// below /proc/sys, such as "net/ipv4/ip_forward".
func (ns *Namespace) sysctl(key, value string) error {
	err := ns.Do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0)
	})
	if err != nil {
		return fmt.Errorf("set sysctl %s=%s in namespace %s: %w", strings.ReplaceAll(key, "/", "."), value, ns.name, err)
	}
	return nil
}

// Quiet stops what an IPv6 stack says unasked on interfaces made from now on:
// duplicate address detection, router solicitations and link-local addresses. Call it before
// the first AddVeth. Two multicast listener reports for each added address remain, and come at once;
// [Namespace.SetARP] off before the address is added ends them as well, and then all neighbours must be static.
func (ns *Namespace) Quiet() error {
	for _, setting := range [][2]string{
		{"accept_dad", "0"},
		{"dad_transmits", "0"},
		{"accept_ra", "0"},
		{"router_solicitations", "0"},
		{"addr_gen_mode", "1"}, // no link-local address
		// Listener reports that cannot be stopped come at once, not within a second.
		{"mldv1_unsolicited_report_interval", "1"}, // ms
		{"mldv2_unsolicited_report_interval", "1"},
	} {
		if err := ns.ipv6Default(setting[0], setting[1]); err != nil {
			return err
		}
	}
	return nil
}

// DisableIPv6 takes IPv6 off interfaces made from now on and off the existing
// ones. A switch's own namespace wants this: the kernel there must say nothing.
func (ns *Namespace) DisableIPv6() error {
	if err := ns.ipv6Default("disable_ipv6", "1"); err != nil {
		return err
	}
	return ignoreMissing(ns.sysctl("net/ipv6/conf/all/disable_ipv6", "1"))
}

func (ns *Namespace) ipv6Default(key, value string) error {
	return ignoreMissing(ns.sysctl("net/ipv6/conf/default/"+key, value))
}

// ignoreMissing accepts a kernel without IPv6, which is as quiet as can be.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
