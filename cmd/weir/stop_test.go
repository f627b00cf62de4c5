package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStopsInAnyPhase: SIGTERM ends a service that hangs while it starts, here at a FIFO without a writer, after the time
// that the end may take.
func TestStopsInAnyPhase(t *testing.T) {
	dir := t.TempDir()
	fifo, config := filepath.Join(dir, "plan.toml"), filepath.Join(dir, "collect.toml")
	must(t, unix.Mkfifo(fifo, 0o600))
	must(t, os.WriteFile(config, fmt.Appendf(nil, "[collect]\nlisten = \"127.0.0.1:0\"\ndata = %q\nplans = [%q]\n[nats]\nlisten = \"127.0.0.1:0\"\n", filepath.Join(dir, "data"), fifo), 0o600))
	cmd := weirCommand("collect", "-c", config)
	cmd.Env = append(cmd.Env, stopVariable+"=200ms")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	defer cmd.Process.Kill()
	awaitThat(t, "the process to take signals", func() (string, bool) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		_, after, _ := strings.Cut(string(text), "SigCgt:")
		caught, _ := strconv.ParseUint(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]), 16, 64)
		return after, caught&(1<<(unix.SIGTERM-1)) != 0
	})
	time.Sleep(100 * time.Millisecond) // into the start, as far as it comes
	must(t, cmd.Process.Signal(unix.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	if cmd.ProcessState.ExitCode() == 0 {
		t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), &stderr)
	}
	t.Logf("status %d: %s", cmd.ProcessState.ExitCode(), &stderr)
}

// TestHostileFiles: a configuration that is a FIFO, a link to a device, or all brackets, is refused at once.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, deep, dotted := filepath.Join(dir, "fifo"), filepath.Join(dir, "deep.toml"), filepath.Join(dir, "dotted.toml")
	must(t, unix.Mkfifo(fifo, 0o600))
	must(t, os.WriteFile(deep, []byte("a = "+strings.Repeat("[", 8<<20)), 0o600))
	must(t, os.WriteFile(dotted, []byte(strings.Repeat("a.", 300_000)+"a = 1"), 0o600))
	for path, want := range map[string]string{fifo: "FIFO", "/dev/zero": "device", deep: "levels deep", dotted: "a key has more than"} {
		for _, command := range []string{"switch", "collect"} {
			status, _, stderr := weir(command, "-c", path, "--check")
			if status != statusUsage || !strings.Contains(stderr, want) || len(stderr) > 1000 {
				t.Errorf("%s %s: status %d: %.300s", command, path, status, stderr)
			}
		}
	}
}

func TestKeyCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.key")
	status, stdout, stderr := weir("key", "new", path)
	if status != 0 || !strings.HasPrefix(stdout, path+": key ") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	if status, again, _ := weir("key", "check", path); status != 0 || again != stdout {
		t.Errorf("status %d: %s", status, again)
	}
	if status, _, stderr := weir("key", "new", path); status != statusUsage || !strings.Contains(stderr, "exists") {
		t.Errorf("status %d: %s", status, stderr)
	}
	must(t, os.Chmod(path, 0o644))
	if status, _, stderr := weir("key", "check", path); status != statusUsage || !strings.Contains(stderr, "chmod 600") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestUntrustedFiles: what others may write of what a command does is refused, and so is a secret that they may read.
func TestUntrustedFiles(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl to make certificates with")
	}
	dir := t.TempDir()
	certificates(t, dir, "operator")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	plan := file("plan.toml")
	if status, _, stderr := weir("plan", "--out", plan); status != 0 {
		t.Fatal(stderr)
	}
	records := filepath.Join(dir, "records")
	must(t, os.Mkdir(records, 0o700))
	paths := write("paths.json", `[{"switches": ["s1"]}]`)
	lab := write("lab.toml", "[[switch]]\nname = \"s1\"\n")
	remote := []string{"ctl", "--address", "127.0.0.1:1", "--cert", file("operator.pem"), "--key", file("operator.key"), "--ca", file("ca.pem"), "show", "ports"}
	for _, c := range []struct {
		path string
		mode os.FileMode
		args []string
	}{
		{plan, 0o646, []string{"query", "path", "--records", records, "--plan", plan}},
		{paths, 0o646, []string{"query", "volume", "--records", records, "--paths", paths}},
		{lab, 0o646, []string{"lab", "run", lab}},
		{lab, 0o646, []string{"ctl", "reload", lab}},
		{file("ca.pem"), 0o646, remote},
		{file("operator.pem"), 0o646, remote},
		{file("operator.key"), 0o646, remote},
		{file("operator.key"), 0o644, remote},
	} {
		must(t, os.Chmod(c.path, c.mode))
		if status, _, stderr := weir(c.args...); status != statusUsage || !strings.Contains(stderr, c.path+": others may read or change it: its mode is") {
			t.Errorf("%v with %s of mode %04o: status %d: %s", c.args[:2], filepath.Base(c.path), c.mode, status, stderr)
		}
		must(t, os.Chmod(c.path, 0o600))
		if _, _, stderr := weir(c.args...); strings.Contains(stderr, "others may read or change it") {
			t.Errorf("%v with %s of mode 0600: %s", c.args[:2], filepath.Base(c.path), stderr)
		}
	}
}
