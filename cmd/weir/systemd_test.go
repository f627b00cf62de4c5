package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// testSystemd names the folder of a systemd that the test binary is to become.
const testSystemd = "WEIR_TEST_SYSTEMD"

// Where Debian and Fedora have systemd.
const (
	systemdProgram  = "/lib/systemd/systemd"
	journaldProgram = "/lib/systemd/systemd-journald"
)

// requireSystemd has a test fail where it would skip for want of systemd.
const requireSystemd = "WEIR_REQUIRE_SYSTEMD"

// systemd is one that runs as process 1 of its own process, mount, control group, IPC and host name namespaces. It has the units that the test writes, and
// journald. All of its folders that are written to are in memory, and the rest of the machine's is read-only to it.
type systemd struct {
	pid int
	dir string // the test's; /mnt within
	log logged
}

// skipSystemd skips the test with the reason, or fails where it must run.
func skipSystemd(t *testing.T, err error) {
	t.Helper()
	if os.Getenv(requireSystemd) == "1" {
		t.Fatalf("%s=1, but systemd cannot run here: %v", requireSystemd, err)
	}
	t.Skipf("systemd cannot run here: %v", err)
}

// groupPrefix begins the names of the control groups of these tests.
const groupPrefix = "weir-test-"

// newGroup makes a control group for a systemd, and removes it when the test ends. Groups of test runs that were killed go first: a run holds the lock of its group as
// long as it lives.
func newGroup(t *testing.T) *os.File {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		skipSystemd(t, fmt.Errorf("mount the control groups of version 2: %w", err))
	}
	t.Cleanup(func() { must(t, unix.Unmount(root, 0)) })
	all, err := os.Open(root)
	must(t, err)
	defer all.Close()
	must(t, unix.Flock(int(all.Fd()), unix.LOCK_EX))
	old, err := filepath.Glob(filepath.Join(root, groupPrefix+"*"))
	must(t, err)
	for _, path := range old {
		if f, err := os.Open(path); err == nil {
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				removeGroup(t, path)
			}
			must(t, f.Close())
		}
	}
	path, err := os.MkdirTemp(root, groupPrefix)
	if err != nil {
		skipSystemd(t, fmt.Errorf("make a control group: %w", err))
	}
	group, err := os.Open(path)
	must(t, err)
	must(t, unix.Flock(int(group.Fd()), unix.LOCK_EX))
	t.Cleanup(func() {
		removeGroup(t, path)
		must(t, group.Close())
	})
	return group
}

// removeGroup waits until a control group has no processes any more, which were killed, and removes it and those within.
func removeGroup(t *testing.T, path string) {
	t.Helper()
	awaitThat(t, "the control group to be without processes", func() (string, bool) {
		text, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
		return fmt.Sprint(string(text), err), bytes.Contains(text, []byte("populated 0"))
	})
	var groups []string
	must(t, filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			groups = append(groups, path)
		}
		return err
	}))
	for i := range groups {
		if err := os.Remove(groups[len(groups)-1-i]); err != nil {
			t.Errorf("a control group is left: %v", err)
		}
	}
}

// startSystemd starts a systemd in the network namespace of a testbed, with units by their names, and waits until it has started what test.target wants.
func startSystemd(t *testing.T, b *testbed, units map[string]string) *systemd {
	t.Helper()
	for _, program := range []string{systemdProgram, journaldProgram, "systemctl", "journalctl", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			skipSystemd(t, err)
		}
	}
	group := newGroup(t)
	s := &systemd{dir: b.dir}
	folder := filepath.Join(b.dir, "units")
	must(t, os.Mkdir(folder, 0o755))
	for name, text := range map[string]string{
		// What units depend on by default.
		"sysinit.target": "[Unit]\n", "basic.target": "[Unit]\n", "shutdown.target": "[Unit]\n", "sockets.target": "[Unit]\n", "network-pre.target": "[Unit]\n",
		"exit.target": "[Unit]\n", "umount.target": "[Unit]\n",
		"test.target":              "[Unit]\nRequires=systemd-journald.socket\nAfter=systemd-journald.socket\n",
		"systemd-journald.socket":  "[Unit]\nDefaultDependencies=no\n[Socket]\nListenDatagram=/run/systemd/journal/socket\nListenStream=/run/systemd/journal/stdout\nPassCredentials=yes\n",
		"systemd-journald.service": "[Unit]\nDefaultDependencies=no\n[Service]\nType=notify\nExecStart=" + journaldProgram + "\nStandardOutput=null\nRestart=always\n",
	} {
		units[name] = text
	}
	for name, text := range units {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), testSystemd+"="+b.dir)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UseCgroupFD: true, CgroupFD: int(group.Fd()),
	}
	if err := b.ns.Start(cmd); err != nil {
		skipSystemd(t, fmt.Errorf("make namespaces for systemd: %w", err))
	}
	s.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // process 1: the kernel ends all others with it
		<-ended
		if t.Failed() {
			t.Logf("systemd: %s", &s.log)
		}
	})
	awaitThat(t, "systemd to be up", func() (string, bool) {
		select {
		case <-ended:
			skipSystemd(t, fmt.Errorf("it ends at once: %s", &s.log))
		default:
		}
		status, out := s.run("systemctl", "is-active", "test.target")
		return out, status == 0
	})
	return s
}

// becomeSystemd makes the folders of a systemd, and becomes it. This process is in the control group that is to be its root.
func becomeSystemd(dir string) {
	runtime.LockOSThread() // it is this thread whose namespaces the program has
	err := prepareSystemd(dir)
	if err == nil {
		err = unix.Exec(systemdProgram, []string{systemdProgram, "--system", "--unit=test.target", "--show-status=no"}, []string{
			"PATH=" + os.Getenv("PATH"), "container=docker", "SYSTEMD_UNIT_PATH=/mnt/units", "SYSTEMD_LOG_TARGET=journal",
		})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(125)
}

func prepareSystemd(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare the control groups: %w", err)
	}
	const memory = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_PRIVATE | unix.MS_REC},
		{"proc", "/proc", "proc", memory | unix.MS_NOEXEC},
		{"sysfs", "/sys", "sysfs", memory | unix.MS_NOEXEC},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", memory | unix.MS_NOEXEC},
		{dir, "/mnt", "", unix.MS_BIND},
		{"tmpfs", "/run", "tmpfs", memory},
		{"tmpfs", "/tmp", "tmpfs", memory},
		{"tmpfs", "/var", "tmpfs", memory},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	const journal = "/run/systemd/journald.conf.d"
	for _, path := range []string{journal, "/var/cache", "/var/lib", "/var/log", "/var/tmp"} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(journal+"/test.conf", []byte("[Journal]\nReadKMsg=no\nRateLimitBurst=0\n"), 0o644),
		unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""),
	)
}

// run runs a program beside systemd, as an operator does.
func (s *systemd) run(args ...string) (status int, out string) {
	cmd := exec.Command("nsenter", append([]string{"-m", "-p", "-C", "-n", "-t", strconv.Itoa(s.pid), "--"}, args...)...)
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(string(text))
}

// must runs a program that has to succeed.
func (s *systemd) must(t *testing.T, args ...string) string {
	t.Helper()
	status, out := s.run(args...)
	if status != 0 {
		_, journal := s.run("journalctl", "--no-pager", "-o", "cat")
		t.Fatalf("%v: status %d: %s\njournal: %s", args, status, out, journal)
	}
	return out
}

// unitState is what systemd says of a service.
type unitState struct {
	ActiveState, Result string
	MainPID, NRestarts  int // the process by its number among systemd's
}

func (s *systemd) state(t *testing.T, unit string) (u unitState) {
	t.Helper()
	for line := range strings.Lines(s.must(t, "systemctl", "show", "-p", "ActiveState,Result,MainPID,NRestarts", unit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		var err error
		switch key {
		case "ActiveState":
			u.ActiveState = value
		case "Result":
			u.Result = value
		case "MainPID":
			u.MainPID, err = strconv.Atoi(value)
		case "NRestarts":
			u.NRestarts, err = strconv.Atoi(value)
		}
		must(t, err)
	}
	return u
}

// journal is what a unit has said.
func (s *systemd) journal(t *testing.T, unit string) string {
	t.Helper()
	return s.must(t, "journalctl", "--no-pager", "-o", "cat", "-u", unit)
}

// switchUnit is the repository's unit of switches, run by systemd on a testbed.
type switchUnit struct {
	*systemd
	b    *testbed
	unit string
}

// startService starts the switch of a configuration by systemd, with weir in two builds, and the first of them installed. edit is as of config.
func startService(t *testing.T, b *testbed, edit ...string) *switchUnit {
	t.Helper()
	text, err := os.ReadFile("../../dist/weir@.service")
	must(t, err)
	// Where it is installed, as make install does.
	unit := strings.NewReplacer("/usr/bin/weir", "/mnt/bin/weir", "/etc/weir/", "/mnt/").Replace(string(text))
	v := &switchUnit{systemd: startSystemd(t, b, map[string]string{"weir@.service": unit}), b: b, unit: "weir@s1.service"}
	must(t, os.Mkdir(filepath.Join(b.dir, "bin"), 0o755))
	for _, version := range []string{"9.0.1", "9.0.2"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-X github.com/weirswitch/weir/internal/buildinfo.release="+version,
			"-o", filepath.Join(b.dir, "weir-"+version), ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	v.install(t, "weir-9.0.1")
	v.config(t, edit...)
	v.must(t, "systemctl", "start", v.unit)
	return v
}

// install puts a program into weir's place, as package managers do: by another file.
func (v *switchUnit) install(t *testing.T, name string) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(v.dir, name))
	must(t, err)
	fresh := filepath.Join(v.dir, "bin", "weir.new")
	must(t, os.WriteFile(fresh, program, 0o755))
	must(t, os.Rename(fresh, filepath.Join(v.dir, "bin", "weir")))
}

// config writes the switch's file, with the control socket where the unit has it.
func (v *switchUnit) config(t *testing.T, edit ...string) {
	t.Helper()
	v.b.config(t, "s1", append([]string{fmt.Sprintf("socket = %q\n", v.b.socket("s1")), ""}, edit...)...)
}

func (v *switchUnit) ctl(t *testing.T, args ...string) string {
	t.Helper()
	return v.must(t, append([]string{"/mnt/bin/weir", "ctl", "--name", "s1"}, args...)...)
}

// running expects the service to be active, and returns its state.
func (v *switchUnit) running(t *testing.T) unitState {
	t.Helper()
	u := v.state(t, v.unit)
	if u.ActiveState != "active" || u.Result != "success" || u.MainPID == 0 {
		t.Fatalf("the service is %+v: %s", u, v.journal(t, v.unit))
	}
	return u
}

// sandbox is what the kernel lets a process of the service do.
func (v *switchUnit) sandbox(t *testing.T, pid int) (lines []string) {
	t.Helper()
	for line := range strings.Lines(v.must(t, "cat", fmt.Sprintf("/proc/%d/status", pid), fmt.Sprintf("/proc/%d/limits", pid), fmt.Sprintf("/proc/%d/cgroup", pid))) {
		for _, prefix := range []string{"PPid:", "Uid:", "Cap", "NoNewPrivs:", "Seccomp:", "Max ", "0::"} {
			if strings.HasPrefix(line, prefix) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// TestSystemdUpgrade: after its program was replaced, "systemctl reload" has a new process take the switch over, many times, while numbered packets and TCP
// pass: none is lost, and the service goes on with the new process as the main one, in the same sandbox. It ends with it, and is started again if that fails.
func TestSystemdUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("builds weir twice, and starts systemd")
	}
	b := newTestbed(t, 0)
	v := startService(t, b, takeable...)
	b.exchange(t, 20)
	first := v.running(t)

	t.Run("the same program", func(t *testing.T) {
		v.config(t, "[control]", "[log]\nlevel = \"debug\"\n[control]\ntakeover = true\n")
		v.must(t, "systemctl", "reload", v.unit)
		if u := v.running(t); u != first {
			t.Errorf("a reload of the file made %+v of %+v", u, first)
		}
		if c := v.ctl(t, "show", "config"); !strings.Contains(c, "level = \"debug\"") {
			t.Errorf("the reload is not in force: %s", c)
		}
	})
	now := first
	upgrade := func(t *testing.T, version string) {
		t.Helper()
		v.install(t, "weir-"+version)
		v.must(t, "systemctl", "reload", v.unit)
		old := now
		now = v.running(t)
		if now.MainPID == old.MainPID || now.NRestarts != old.NRestarts {
			t.Fatalf("the upgrade made %+v of %+v: %s", now, old, v.journal(t, v.unit))
		}
		if shown := v.ctl(t, "show", "version"); !strings.Contains(shown, version) {
			t.Errorf("the switch runs %s", shown)
		}
		awaitThat(t, "the old process to end", func() (string, bool) {
			status, out := v.run("test", "-e", fmt.Sprintf("/proc/%d", old.MainPID))
			return out, status == 1
		})
		if again := v.running(t); again != now {
			t.Errorf("the end of the old process made %+v of %+v", again, now)
		}
		fmt.Printf("upgrade to %s by systemctl reload: process %d, then %d\n", version, old.MainPID, now.MainPID)
	}
	t.Run("another program", func(t *testing.T) {
		before := v.sandbox(t, first.MainPID)
		for _, version := range []string{"9.0.2", "9.0.1"} {
			l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 128, 500, 2000)
			upgrade(t, version)
			within := !l.Ended()
			sent, at := l.Received(t)
			if at[0] != sent {
				t.Errorf("%d of %d packets are lost", int64(sent)-int64(at[0]), sent)
			}
			fmt.Printf("lost %d of %d packets; the reload is within their time: %v\n", int64(sent)-int64(at[0]), sent, within)
		}
		s := b.stream(t)
		upgrade(t, "9.0.2")
		fmt.Printf("%d MiB by TCP\n", s.end(t)>>20)
		if after := v.sandbox(t, now.MainPID); !slices.Equal(before, after) {
			t.Errorf("the sandbox was\n%q\nand is\n%q", before, after)
		}
		journal := v.journal(t, v.unit)
		for _, word := range []string{"not our child", "reception only permitted", "does not belong", "refusing", "not passed on"} {
			if strings.Contains(journal, word) {
				t.Errorf("systemd complains: %s", journal)
			}
		}
	})
	t.Run("what is refused", func(t *testing.T) {
		v.install(t, "weir-9.0.1")
		refused := func(what string, says ...string) {
			t.Helper()
			before := len(v.journal(t, v.unit))
			if status, out := v.run("systemctl", "reload", v.unit); status == 0 {
				t.Errorf("%s: the reload succeeds: %s", what, out)
			}
			journal := v.journal(t, v.unit)[before:]
			for _, word := range says {
				if !strings.Contains(journal, word) {
					t.Errorf("%s: the journal has nothing of %q: %s", what, word, journal)
				}
			}
			if u := v.running(t); u != now {
				t.Errorf("%s made %+v of %+v", what, u, now)
			}
			b.exchange(t, 20)
		}
		v.config(t, append(slices.Clone(takeable), "[dataplane]", "[dataplane]\nrx_ring = 1024")...)
		refused("another ring", "dataplane.rx_ring is 2048 there and 1024 here", "takeover refused, the switch goes on", "did not take the switch over from process "+strconv.Itoa(now.MainPID))
		v.config(t, append(slices.Clone(takeable), `"patch"]`, `"patsch"]`)...)
		refused("a mistyped file", "patsch")
		v.config(t, takeable...)
		must(t, os.WriteFile(filepath.Join(v.dir, "crashes"), []byte("#!/bin/sh\nkill -SEGV $$\n"), 0o755))
		v.install(t, "crashes")
		refused("a program that crashes", "Control process exited, code=killed, status=11/SEGV")
		// A process that is not of the service.
		v.install(t, "weir-9.0.1")
		status, out := v.run("/mnt/bin/weir", "switch", "-c", "/mnt/s1.toml", "--takeover")
		if want := "is not of the service weir@s1.service"; status == 0 || !strings.Contains(out, want) {
			t.Errorf("a takeover by hand: status %d, %s", status, out)
		}
		if status, out := v.run("/mnt/bin/weir", "switch", "-c", "/mnt/s1.toml", "--reload"); status != statusUsage || !strings.Contains(out, "ExecReload=") {
			t.Errorf("a reload by hand: status %d, %s", status, out)
		}
		if u := v.running(t); u != now {
			t.Errorf("takeovers by hand made %+v of %+v", u, now)
		}
		b.exchange(t, 20)
	})
	t.Run("a crash", func(t *testing.T) {
		v.must(t, "kill", "-SEGV", strconv.Itoa(now.MainPID))
		awaitThat(t, "the service to be started again", func() (string, bool) {
			u := v.state(t, v.unit)
			return fmt.Sprint(u), u.NRestarts == 1 && u.ActiveState == "active"
		})
		now = v.running(t)
		b.exchange(t, 20)
		upgrade(t, "9.0.2")
		b.exchange(t, 20)
	})
	t.Run("a crash with the switch in its hands", func(t *testing.T) {
		// The relay is outside, and at the socket within.
		outside := &testbed{dir: fmt.Sprintf("/proc/%d/root/run/weir", v.pid)}
		r := outside.relay(t, sayForwarding, func() bool {
			control := v.must(t, "systemctl", "show", "--value", "-p", "ControlPID", v.unit)
			for _, pid := range strings.Fields(v.must(t, "cat", "/sys/fs/cgroup/system.slice/system-weir.slice/"+v.unit+"/cgroup.procs")) {
				if pid != control && pid != strconv.Itoa(now.MainPID) {
					v.must(t, "kill", "-KILL", pid)
				}
			}
			return true
		})
		v.install(t, "weir-9.0.1")
		if status, out := v.run("systemctl", "reload", v.unit); status == 0 {
			t.Errorf("the reload succeeds: %s", out)
		}
		<-r.done
		must(t, r.err)
		if !r.acted {
			t.Fatalf("no process took the switch over: %s", v.journal(t, v.unit))
		}
		awaitThat(t, "the service to be started again", func() (string, bool) {
			u := v.state(t, v.unit)
			return fmt.Sprint(u), u.NRestarts == now.NRestarts+1 && u.ActiveState == "active"
		})
		now = v.running(t)
		b.exchange(t, 20)
		upgrade(t, "9.0.2")
		b.exchange(t, 20)
	})
	t.Run("the end", func(t *testing.T) {
		v.must(t, "systemctl", "stop", v.unit)
		if u := v.state(t, v.unit); u.ActiveState != "inactive" || u.Result != "success" || u.MainPID != 0 {
			t.Errorf("the stop made %+v of %+v: %s", u, now, v.journal(t, v.unit))
		}
		if journal := v.journal(t, v.unit); !strings.Contains(journal, "draining") {
			t.Errorf("the journal has no word of a clean end: %s", journal)
		}
		if left := v.must(t, "find", "/run/weir", "-type", "s"); left != "" {
			t.Errorf("sockets are left: %s", left)
		}
		b.checkClean(t)
	})
	t.Run("without takeovers", func(t *testing.T) {
		v.config(t)
		v.must(t, "systemctl", "start", v.unit)
		now = v.running(t)
		v.install(t, "weir-9.0.1")
		v.config(t, "[control]", "[log]\nlevel = \"debug\"\n[control]\n")
		v.must(t, "systemctl", "reload", v.unit)
		if u := v.running(t); u != now {
			t.Errorf("a reload of the file made %+v of %+v", u, now)
		}
		if c := v.ctl(t, "show", "config"); !strings.Contains(c, "level = \"debug\"") {
			t.Errorf("the reload is not in force: %s", c)
		}
		if journal := v.journal(t, v.unit); !strings.Contains(journal, "as control.takeover is not set") {
			t.Errorf("the journal has no word of the program that was replaced: %s", journal)
		}
		b.exchange(t, 20)
		v.must(t, "systemctl", "stop", v.unit)
		b.checkClean(t)
	})
}
