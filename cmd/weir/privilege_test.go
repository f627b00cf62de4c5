package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// statusFields reads a line of /proc/PID/task/*/status of every thread.
func statusFields(t *testing.T, pid int, name string) (values []string) {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				values = append(values, strings.TrimSpace(value))
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("no thread of %d has %s", pid, name)
	}
	return values
}

// mask is a set of capabilities as /proc shows it.
func mask(capabilities ...uint) string {
	m := uint64(0)
	for _, c := range capabilities {
		m |= 1 << c
	}
	return fmt.Sprintf("%016x", m)
}

// TestPrivileges: once the switch forwards, no thread has more than the switch
// says, none can get more, and with that it forwards, answers, changes and ends
// as before.
func TestPrivileges(t *testing.T) {
	for _, tt := range []struct {
		keep  string
		shown string
		mask  string
		edit  []string
	}{
		{"true", "bpf, ipc_lock, net_admin, net_raw, perfmon", mask(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_IPC_LOCK, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW), nil},
		{"false", "none", mask(), nil},
		{"false", "none", mask(), []string{`interface = "p0"`, "interface = \"p0\"\ndriver = \"asavie\""}},
		{"false", "none", mask(), []string{`poll = "interrupt"`, "count = 2\npoll = \"adaptive\""}},
	} {
		t.Run(tt.keep+strings.Join(tt.edit, " "), func(t *testing.T) {
			b := newTestbed(t, 0)
			p := b.start(t, b.config(t, "s1", append([]string{"[control]", "[control]\nkeep_capabilities = " + tt.keep}, tt.edit...)...))
			b.exchange(t, 10)
			for _, set := range []string{"CapPrm", "CapEff"} {
				for _, got := range statusFields(t, p.cmd.Process.Pid, set) {
					if got != tt.mask {
						t.Errorf("a thread has %s %s, want %s", set, got, tt.mask)
					}
				}
			}
			for _, set := range []string{"CapInh", "CapAmb"} {
				for _, got := range statusFields(t, p.cmd.Process.Pid, set) {
					if got != mask() {
						t.Errorf("a thread has %s %s", set, got)
					}
				}
			}
			for _, got := range statusFields(t, p.cmd.Process.Pid, "NoNewPrivs") {
				if got != "1" {
					t.Errorf("a thread may get new privileges")
				}
			}
			status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "version")
			if status != 0 || !strings.HasSuffix(stdout, "\ncapabilities kept: "+tt.shown+"\n") {
				t.Errorf("status %d: %q %s", status, stdout, stderr)
			}
			if tt.edit == nil {
				fmt.Printf("privileges: keep_capabilities = %s: kept %s\n", tt.keep, tt.shown)
			}
			for _, args := range [][]string{{"reload"}, {"show", "report"}, {"trace", "--wait", "1ms"}} {
				status, _, stderr := weir(append([]string{"ctl", "--socket", b.socket("s1")}, args...)...)
				if status != 0 && !strings.HasPrefix(stderr, "weir: no packet came within 1ms") {
					t.Errorf("%v: status %d: %s", args, status, stderr)
				}
			}
			b.exchange(t, 10)
			if status := p.stop(t); status != 0 {
				t.Errorf("status %d: %s", status, &p.stderr)
			}
			if r := p.report(t); r.Received != 40 || r.Forwarded != 40 || !r.Balanced || r.Frames.Lost != 0 {
				t.Errorf("last report: %+v", r)
			}
			b.checkClean(t)
		})
	}
}

// TestKeptCapabilitiesSuffice: what is kept to open a port again is enough to open
// one: a switch that has no more from the start comes up.
func TestKeptCapabilitiesSuffice(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("no setpriv to take capabilities away with")
	}
	b := newTestbed(t, 0)
	cmd := weirCommand("switch", "-c", b.config(t, "s1", "[stages.patch]", "[stages.patch] # all"), "--report", "json")
	cmd.Args = append([]string{setpriv, "--bounding-set", "-all,+ipc_lock,+net_raw,+bpf,+net_admin,+perfmon"}, cmd.Args...)
	cmd.Path = setpriv
	p := &process{cmd: cmd}
	b.startCommand(t, p)
	b.exchange(t, 10)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	b.checkClean(t)
}

// TestMissingPrivileges: a switch without the capabilities for its ports says so first, and not what it meets before it opens them.
func TestMissingPrivileges(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("no setpriv to take capabilities away with")
	}
	b := newTestbed(t, 0)
	for bounds, want := range map[string]string{
		"-all":                     "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF are missing",
		"-all,+net_raw,+net_admin": "CAP_BPF is missing",
	} {
		cmd := weirCommand("switch", "-c", b.config(t, "s1", "socket = ", "socket = \"/proc/no/s1.sock\" # "))
		cmd.Args, cmd.Path = append([]string{setpriv, "--bounding-set", bounds}, cmd.Args...), setpriv
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := b.ns.Start(cmd); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := stderr.String(); cmd.ProcessState.ExitCode() != statusUsage || strings.Count(got, "\n") != 1 ||
			!strings.HasPrefix(got, "weir: no privilege to open ports on interfaces, as "+want+": run as root") {
			t.Errorf("%s: status %d: %s", bounds, cmd.ProcessState.ExitCode(), got)
		}
	}
}

// TestMemberOfTheGroup: a user without root, but of the socket's group, sees all
// that a live switch shows, and changes nothing; one of no group sees nothing.
func TestMemberOfTheGroup(t *testing.T) {
	const uid, member, stranger = 65534, 54321, 54322
	b := newTestbed(t, 0)
	b.dir = filepath.Join(os.TempDir(), fmt.Sprintf("weir-member-%d", os.Getpid()))
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(b.dir) })
	program := filepath.Join(b.dir, "weir")
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := b.start(t, b.config(t, "s1", "[control]", fmt.Sprintf("[control]\ngroup = \"%d\"", member)))
	as := func(gid uint32, args ...string) (status int, out string) {
		t.Helper()
		cmd := weirCommand(append([]string{"ctl", "--socket", b.socket("s1")}, args...)...)
		cmd.Path, cmd.Dir = program, b.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	for _, what := range []string{"ports", "stages", "workers", "telemetry", "config", "report", "version"} {
		if status, out := as(member, "show", what); status != 0 || out == "" {
			t.Errorf("show %s by a member: status %d, %s", what, status, out)
		}
	}
	for _, args := range [][]string{{"reload"}, {"clear", "fdb"}, {"trace", "--wait", "1ms"}, {"capture", "-w", "-"}, {"set", "acl", "add", "action=deny"}} {
		if status, out := as(member, args...); status != 2 || !strings.Contains(out, "weir: uid 65534 may read, but not change: run as root") {
			t.Errorf("%v by a member: status %d, %s", args, status, out)
		}
	}
	if status, out := as(stranger, "show", "ports"); status != 2 || !strings.Contains(out, "weir: no permission to talk to "+b.socket("s1")+": run as root, or as a member of the socket's group") {
		t.Errorf("a stranger: status %d, %s", status, out)
	}
	b.exchange(t, 5)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
}
