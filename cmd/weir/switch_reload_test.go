package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// notes is where processes send what systemd takes note of. A barrier ends once it was read.
type notes struct{ *net.UnixConn }

func listenNotes(t *testing.T) notes {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return notes{c}
}

// next is the next note, without the descriptor of a barrier, which the caller closes.
func (n notes) next(t *testing.T) (text string, barrier int) {
	t.Helper()
	buf, rights := make([]byte, 100), make([]byte, 100)
	must(t, n.SetReadDeadline(time.Now().Add(time.Minute)))
	length, rightsLength, _, _, err := n.ReadMsgUnix(buf, rights)
	must(t, err)
	text, barrier = string(buf[:length]), -1
	if text == "BARRIER=1" {
		messages, err := unix.ParseSocketControlMessage(rights[:rightsLength])
		must(t, err)
		fds, err := unix.ParseUnixRights(&messages[0])
		must(t, err)
		barrier = fds[0]
	}
	return text, barrier
}

func (n notes) expect(t *testing.T, want string) {
	t.Helper()
	if text, _ := n.next(t); text != want {
		t.Fatalf("systemd is sent %q, and not %q", text, want)
	}
}

// passed expects a process to pass the service on to another one, which has what it needs to do it once the barrier is closed.
func (n notes) passed(t *testing.T) (to, barrier int) {
	t.Helper()
	text, _ := n.next(t)
	number, ok := strings.CutPrefix(text, "MAINPID=")
	to, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatalf("systemd is sent %q, and no process", text)
	}
	if text, barrier = n.next(t); barrier < 0 {
		t.Fatalf("systemd is sent %q, and no barrier", text)
	}
	return to, barrier
}

// TestPassOn: the service is passed on once systemd has read the note of it.
func TestPassOn(t *testing.T) {
	n := listenNotes(t)
	t.Setenv(notifyVariable, n.LocalAddr().String())
	passed := make(chan error, 1)
	go func() { passed <- new(readiness).passOn(77) }()
	to, barrier := n.passed(t)
	if to != 77 {
		t.Errorf("the service is passed on to process %d", to)
	}
	select {
	case err := <-passed:
		t.Errorf("it does not wait for systemd: %v", err)
	default:
	}
	must(t, unix.Close(barrier))
	must(t, <-passed)
	must(t, n.Close())
	if err := new(readiness).passOn(77); err == nil {
		t.Error("a note that none takes succeeds")
	}
}

// TestReload: what a service's ExecReload= does, with the test in the place of systemd: the same program reads the file again, another one takes the switch
// over if it may, and is this process's child, as systemd's.
func TestReload(t *testing.T) {
	b := newTestbed(t, 0)
	n := listenNotes(t)
	notify := notifyVariable + "=" + n.LocalAddr().String()
	program, err := os.ReadFile(os.Args[0])
	must(t, err)
	another := filepath.Join(b.dir, "weir")
	must(t, os.WriteFile(another, program, 0o755))
	reload := func(config, program string, env ...string) (status int, stderr string) {
		t.Helper()
		p := &process{cmd: weirCommand("switch", "-c", config, "--report", "none", "--reload")}
		// Files, which the process that is started has, too: a pipe to this process would be one more to wait for.
		said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		must(t, err)
		defer said.Close()
		p.cmd.Path, p.cmd.Stderr = program, said
		p.cmd.Env = append(p.cmd.Env, env...)
		must(t, b.ns.Start(p.cmd))
		_ = p.cmd.Wait()
		text, err := os.ReadFile(said.Name())
		must(t, err)
		return p.cmd.ProcessState.ExitCode(), string(text)
	}
	expect := func(what string, status int, stderr string, want int, says string) {
		t.Helper()
		if status != want || !strings.Contains(stderr, says) {
			t.Errorf("%s: status %d, want %d; %q, want %q in it", what, status, want, stderr, says)
		}
		b.exchange(t, 5)
	}
	config := b.config(t, "s1")
	p := b.start(t, config)
	status, says := reload(config, os.Args[0])
	expect("the same program", status, says, statusGood, "")
	status, says = reload(config, another)
	expect("another program, and no takeovers", status, says, statusGood, "as control.takeover is not set")
	if status := p.stop(t); status != 0 {
		t.Fatalf("status %d: %s", status, &p.stderr)
	}
	status, says = reload(config, another)
	if status == 0 || !strings.Contains(says, "no switch answers") {
		t.Errorf("without a switch: status %d, %s", status, says)
	}

	config = b.config(t, "s1", takeable...)
	p = b.start(t, config)
	main := mainVariable + "=" + strconv.Itoa(p.cmd.Process.Pid)
	status, says = reload(config, another)
	expect("without systemd", status, says, statusUsage, "ExecReload=")
	status, says = reload(config, another, notify, mainVariable+"=1")
	expect("a process that is not the service's", status, says, statusFailure, "the service does not run it")
	status, says = reload(config, another, notify, main)
	expect("a process that does not pass its service on", status, says, statusFailure, "does not pass the service")
	if status := p.stop(t); status != 0 {
		t.Fatalf("status %d: %s", status, &p.stderr)
	}

	p = b.start(t, config, notify)
	n.expect(t, "READY=1")
	main = mainVariable + "=" + strconv.Itoa(p.cmd.Process.Pid)
	if says := b.failTakeover(t, config, func(cmd *exec.Cmd) {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, notifyVariable) })
	}); !strings.Contains(says, "is not of the service") {
		t.Errorf("a process that is not of the service says %s", says)
	}
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		status, says = reload(config, another, notify, main)
	}()
	to, barrier := n.passed(t)
	next, err := os.FindProcess(to)
	must(t, err)
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := next.Wait() // it is this process's child
		ended <- state
	}()
	must(t, unix.Close(barrier))
	n.expect(t, "READY=1")
	<-reloaded
	expect("another program", status, says, statusGood, "took the switch over")
	_ = p.cmd.Wait()
	if status := p.cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("the old process ended with %d: %s", status, &p.stderr)
	}
	must(t, next.Signal(unix.SIGTERM))
	n.expect(t, "STOPPING=1")
	if state := <-ended; state == nil || !state.Success() {
		t.Errorf("the new process ended with %v", state)
	}
	b.checkClean(t)
	b.checkNoTakeover(t)
}
