package netnstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/process"
)

// stageVariable passes a test binary its stage of [Isolate].
const stageVariable = "WEIR_TEST_ISOLATION"

const (
	stageInit   = "init"   // process 1 of the new namespaces
	stageInside = "inside" // the tests, and all that they start
)

var errNotCalled = errors.New("TestMain does not call netnstest.Isolate")

// notIsolated is why the tests run in the namespaces of others, or nil.
var notIsolated = errNotCalled

// Isolate, called first by TestMain, moves the test binary into new process, mount and network namespaces,
// with its own session, /run and temporary files, in memory. When the test binary ends in any way, the kernel then ends
// all that the tests have started and removes all network namespaces that they have made; and two
// test runs on one machine do not share names, ports or sockets.
//
// The tests run in a grandchild of the process that was started: process 1 is between them, because a test must not
// have to reap the orphans of its labs. The tests fail if they leave a process or a network namespace behind.
//
// Without the privilege to make namespaces, Isolate does nothing, and [Require] skips.
func Isolate() {
	if os.Getenv(stopVariable) == "" {
		_ = os.Setenv(stopVariable, "5m") // of the weirs that tests start: the machine may be busy
	}
	switch os.Getenv(stageVariable) {
	case stageInside:
		notIsolated = nil
		return
	case stageInit:
		os.Exit(beInit())
	}
	// The kernel sends the death signal when this thread ends: only with the process, as this goroutine keeps it.
	runtime.LockOSThread()
	tests := self(stageInit)
	tests.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL,
		// The kernel shares out processors among sessions first (sched(7), autogroup): those of other packages, and of a shell, may not
		// starve these tests, nor a measurement in them the others.
		Setsid: true,
	}
	if err := tests.Start(); err != nil {
		runtime.UnlockOSThread()
		notIsolated = fmt.Errorf("make namespaces for the tests: %w", err)
		return
	}
	os.Exit(exitCode(tests.Wait()))
}

// stopVariable is how long a weir may take to end behind a signal.
const stopVariable = "WEIR_STOP_WAIT"

// Outside is the environment of a test run that a test starts: it isolates itself again.
func Outside() []string { return append(os.Environ(), stageVariable+"=") }

// self is a command that runs the test binary again, in the given stage.
func self(stage string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), stageVariable+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "the tests:", err)
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	return 1
}

// beInit runs the tests as process 1 of new namespaces, and returns their exit code.
func beInit() int {
	if err := mountOwn(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the namespaces of the tests:", err)
		return 1
	}
	tests := self(stageInside)
	tests.Env = append(tests.Env, "TMPDIR="+temporary)
	if err := tests.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := reap(tests.Process.Pid)
	if left := leftovers(); len(left) > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "the tests left behind:\n\t%s\n", strings.Join(left, "\n\t"))
		return 1
	}
	return code
}

// temporary is where the tests' files are.
const temporary = "/run/tmp"

// mountOwn gives the new mount namespace a /proc that shows the new processes, and its own /run and temporary files.
func mountOwn() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make all mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{netns.Directory, "/run/lock", temporary} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(temporary, 0o777|os.ModeSticky); err != nil {
		return err
	}
	here, err := netns.Current()
	if err != nil {
		return err
	}
	defer here.Close()
	return here.SetUp("lo")
}

// reap waits for all children, which include orphans, until that of the given pid has ended.
func reap(pid int) (code int) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "wait for the tests:", err)
			return 1
		case ended == pid && status.Signaled():
			fmt.Fprintln(os.Stderr, "the tests: signal:", status.Signal())
			return 1
		case ended == pid:
			return status.ExitStatus()
		}
	}
}

// leftovers waits for the processes of the tests to end, and lists those that do not, and the network namespaces.
func leftovers() (left []string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if left = processes(); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	names, err := netns.List("")
	if err != nil {
		left = append(left, err.Error())
	}
	for _, name := range names {
		left = append(left, "network namespace "+name)
	}
	return left
}

// patience is how long a process may take to end after a signal.
const patience = 5 * time.Second

// processes lists the processes of this process namespace except the calling one.
func processes() (left []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if _, err := process.Of(pid); errors.Is(err, process.ErrGone) {
			continue
		}
		words, _ := os.ReadFile(path)
		left = append(left, fmt.Sprintf("process %d: %s", pid, strings.ReplaceAll(string(words), "\x00", " ")))
	}
	return left
}
