package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/internal/keyfile"
)

// testMain makes the test binary be weir, for tests that need a process.
const testMain = "WEIR_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(testPoor) == "1" {
		becomePoor()
	}
	if dir := os.Getenv(testSystemd); dir != "" {
		becomeSystemd(dir)
	}
	if unit := os.Getenv(testUnit); unit != "" {
		becomeUnit(unit)
	}
	if text := os.Getenv(testNATS); text != "" {
		becomeNATS(text)
	}
	keyfile.Random = rand.NewChaCha8([32]byte{26}) // labs draw the same keys each time
	if os.Getenv(testMain) == "1" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	netnstest.Isolate()
	bench.Favoured = 0
	m.Run()
}

// weirCommand is a command line of weir, to be started as a process.
func weirCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), testMain+"=1")
	return cmd
}

// weir runs a command line in this process.
func weir(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s1.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCommandLine: help is asked for and goes to standard output; faults are
// one line each on standard error, with status 2.
func TestCommandLine(t *testing.T) {
	bad := writeFile(t, "[switch]\nname = 5\n")
	tests := []struct {
		args   []string
		status int
		stdout string // begins with
		stderr string // all of it, or its beginning
	}{
		{nil, 0, "Weir is a userspace software switch", ""},
		{[]string{"--help"}, 0, "Weir is a userspace software switch", ""},
		{[]string{"switch", "--help"}, 0, "Switch runs a switch until SIGTERM", ""},
		{[]string{"ctl"}, 0, "Ctl talks to a running switch", ""},
		{[]string{"ctl", "show"}, 0, "Show what a switch has and counts", ""},
		{[]string{"version"}, 0, "weir ", ""},
		{[]string{"version", "--json"}, 0, `{"version":"`, ""},
		{[]string{"--version"}, 0, "weir ", ""},
		{[]string{"swich"}, 2, "", "weir: unknown command \"swich\" for \"weir\": did you mean \"switch\"?: \"weir --help\" lists what there is\n"},
		{[]string{"swich", "-c", bad}, 2, "", "weir: unknown command \"swich\" for \"weir\": did you mean \"switch\"?: \"weir --help\" lists what there is\n"},
		{[]string{"frobnicate", "--hard"}, 2, "", "weir: unknown command \"frobnicate\" for \"weir\": \"weir --help\" lists what there is\n"},
		{[]string{"ctl", "--name", "s1", "shwo", "ports"}, 2, "", "weir: unknown command \"shwo\" for \"weir ctl\": did you mean \"show\"?: \"weir ctl --help\" lists what there is\n"},
		{[]string{"ctl", "--name=s1", "set", "prot", "add"}, 2, "", "weir: unknown command \"prot\" for \"weir ctl set\": did you mean \"port\"?: \"weir ctl set --help\" lists what there is\n"},
		{[]string{"switch"}, 2, "", "weir: --config FILE is missing: the switch's configuration FILE: \"weir switch --help\" lists what there is\n"},
		{[]string{"switch", "--cofnig", bad}, 2, "", "weir: unknown flag: --cofnig: did you mean \"--config\"?: \"weir switch --help\" lists what there is\n"},
		{[]string{"switch", "-c", bad, "more"}, 2, "", "weir: \"more\" is no argument of \"weir switch\": \"weir switch --help\" lists what there is\n"},
		{[]string{"switch", "-x"}, 2, "", "weir: unknown shorthand flag: 'x' in -x: \"weir switch --help\" lists what there is\n"},
		{[]string{"ctl", "top", "--interval", "1ms"}, 2, "", "weir: --interval 1ms: choose 100ms or more\n"},
		{[]string{"switch", "-c", bad, "--report", "xml"}, 2, "", "weir: --report \"xml\": choose text, json or none\n"},
		{[]string{"switch", "-c", bad, "--check"}, 2, "", "weir: " + bad + ": port: is missing: add a table [[port]] for each port\n" +
			"weir: " + bad + ":1: switch.graph: is missing: name the stages"},
		{[]string{"switch", "-c", "/none.toml"}, 2, "", "weir: read the configuration: open /none.toml: no such file or directory: name a readable TOML file\n"},
		{[]string{"ctl", "show", "planets"}, 2, "", "weir: unknown command \"planets\" for \"weir ctl show\": \"weir ctl show --help\" lists what there is\n"},
		{[]string{"ctl", "--socket", "/a", "--name", "b", "show", "ports"}, 2, "", "weir: --name and --socket: choose one of them"},
		{[]string{"ctl", "--socket", "/none.sock", "show", "ports"}, 1, "", "weir: no switch listens on /none.sock: start it, or name another with --name or --socket\n"},
		{[]string{"ctl", "--name", "none-such", "show", "fdb", "--json"}, 1, "", "weir: no switch listens on /run/weir/none-such.sock: start it, or name another with --name or --socket\n"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			status, stdout, stderr := weir(tt.args...)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			if !strings.HasPrefix(stdout, tt.stdout) || tt.stdout == "" && stdout != "" {
				t.Errorf("stdout %q, want %q", stdout, tt.stdout)
			}
			if !strings.HasPrefix(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
				t.Errorf("stderr %q, want %q", stderr, tt.stderr)
			}
		})
	}
}

func TestConclude(t *testing.T) {
	a, b := errors.New("a is wrong"), errors.New("b is wrong")
	tests := []struct {
		err    error
		status int
		stderr string
	}{
		{nil, 0, ""},
		{a, 1, "weir: a is wrong\n"},
		{usageError(a), 2, "weir: a is wrong\n"},
		{usageError(nil), 0, ""},
		{errors.Join(a, nil, errors.Join(b)), 1, "weir: a is wrong\nweir: b is wrong\n"},
		{usageError(errors.Join(a, b)), 2, "weir: a is wrong\nweir: b is wrong\n"},
		{errors.Join(a, usageError(b)), 2, "weir: a is wrong\nweir: b is wrong\n"},
		{fmt.Errorf("set up: %w and %w", a, b), 1, "weir: set up: a is wrong and b is wrong\n"},
	}
	for _, tt := range tests {
		var stderr bytes.Buffer
		if got := conclude(tt.err, &stderr); got != tt.status || stderr.String() != tt.stderr {
			t.Errorf("%v: status %d, %q, want %d, %q", tt.err, got, stderr.String(), tt.status, tt.stderr)
		}
	}
}

// TestSecondSignal: a command that does not heed the first signal ends at the
// second one. It waits for a named pipe without a writer.
func TestSecondSignal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "never.pcap")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := weirCommand("replay", "--in", pipe)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// The pipe opens for writing when the process reads it; then it has its
	// handler too. It reads until we close the pipe.
	var writer int
	for {
		var err error
		if writer, err = unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it did not read the pipe: %v, %s", err, &stderr)
		case <-time.After(time.Millisecond):
		}
	}
	defer unix.Close(writer)
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		case <-time.After(20 * time.Millisecond):
			// Signals of one kind that are pending together are one; so again.
			_ = cmd.Process.Signal(unix.SIGTERM)
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != statusFailure || stderr.String() != "weir: terminated again: ending at once\n" {
		t.Errorf("ended with %v, %q", err, &stderr)
	}
}
