package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// testUnit names a unit whose restrictions the test binary takes on before it becomes weir.
const testUnit = "WEIR_TEST_UNIT"

// families are the address families by their names in units.
var families = map[string]uint32{
	"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK,
	"AF_PACKET": unix.AF_PACKET, "AF_XDP": unix.AF_XDP,
}

// becomeUnit does to this thread what systemd does for the unit's CapabilityBoundingSet, RestrictAddressFamilies,
// NoNewPrivileges and LimitMEMLOCK, and becomes weir.
func becomeUnit(path string) {
	runtime.LockOSThread()
	text, err := os.ReadFile(path)
	keys, _ := readUnit(string(text))
	value := func(key string) []string { return strings.Fields(strings.Join(keys["[Service]"+key], " ")) }
	granted := value("CapabilityBoundingSet")
	for c := range cap.MaxBits() {
		if !slices.Contains(granted, strings.ToUpper(c.String())) {
			err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0))
		}
	}
	if keys["[Service]LimitMEMLOCK"] == nil {
		err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 8 << 20, Max: 8 << 20}))
	}
	err = errors.Join(err,
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		restrictFamilies(value("RestrictAddressFamilies")),
		os.Setenv(testUnit, ""),
		unix.Exec("/proc/self/exe", os.Args, os.Environ()),
	)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(125)
}

// restrictFamilies has the kernel refuse this thread, and what it becomes, sockets of other families, with the errno
// that systemd chooses (seccomp_restrict_address_families in its src/shared/seccomp-util.c).
func restrictFamilies(allowed []string) error {
	const number, firstArgument = 0, 16 // in struct seccomp_data; the argument's low half, as the machine is little-endian
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstArgument},
	}
	for _, name := range allowed {
		family, ok := families[name]
		if !ok {
			return fmt.Errorf("the unit allows the family %s, which this test does not know", name)
		}
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: family, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)})
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0)
}

// TestUnitSuffices: under the restrictions of its unit a switch comes up with each kind of forwarding, forwards, closes
// and opens a port again once it has given up what it does not need, reloads as ExecReload says, and ends. So what it
// opens, and what the unit allows, cannot come apart.
func TestUnitSuffices(t *testing.T) {
	for name, edit := range map[string][]string{
		"patch":   nil,
		"l2":      {`"patch"]`, `"l2"]`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]", ""},
		"asavie":  {`interface = "p0"`, "interface = \"p0\"\ndriver = \"asavie\""},
		"metrics": {"[control]", "[control]\nmetrics = \"127.0.0.1:9464\""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, 0)
			if err := b.ns.SetUp("lo"); err != nil {
				t.Fatal(err)
			}
			p := b.start(t, b.config(t, "s1", edit...), testUnit+"=../../dist/weir@.service")
			b.exchange(t, 10)
			for _, args := range [][]string{
				{"ctl", "--socket", b.socket("s1"), "set", "port", "down", "p0"}, {"ctl", "--socket", b.socket("s1"), "set", "port", "up", "p0"},
				{"switch", "-c", filepath.Join(b.dir, "s1.toml"), "--reload"},
			} {
				if status, _, stderr := weir(args...); status != 0 {
					t.Fatalf("%v: status %d: %s", args, status, stderr)
				}
			}
			b.exchange(t, 10)
			if status := p.stop(t); status != 0 {
				t.Errorf("status %d: %s", status, &p.stderr)
			}
			b.checkClean(t)
		})
	}
	t.Run("l3", func(t *testing.T) {
		r := newRouter(t)
		r.start(t, r.write(t, 1, ""), testUnit+"=../../dist/weir@.service")
		r.load(t, 2000, 100).Wait()
	})
}

// TestCollectUnitSuffices: a collector comes up and answers under the restrictions of its unit.
func TestCollectUnitSuffices(t *testing.T) {
	t.Setenv(testUnit, "../../dist/weir-collect.service")
	l := startCollect(t, "")
	if status, out, stderr := weir("query", "collector", "--collector", l.socket); status != 0 || out == "" {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
}
