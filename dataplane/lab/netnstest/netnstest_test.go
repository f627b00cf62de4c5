package netnstest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

func TestMain(m *testing.M) {
	Isolate()
	m.Run()
}

// interruptedVariable makes [TestInterrupted] be the one that is interrupted.
const interruptedVariable = "NETNSTEST_INTERRUPTED"

// TestInterrupted ends test runs in the middle of a test. Their processes end with them, also one in its own session,
// and their network namespaces are destroyed: the cable that the parent laid into one vanishes.
func TestInterrupted(t *testing.T) {
	Require(t)
	if token := os.Getenv(interruptedVariable); token != "" {
		beInterrupted(t, token)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			token := fmt.Sprintf("weir-interrupted-%d", signal)
			child, said := startInterrupted(t, token)
			namespace, file := said[0], said[1]
			var left []int
			await(t, "the test run has started its process", func() bool { left = running(t, token); return len(left) == 1 })
			here, err := netns.Current()
			must(t, err)
			defer here.Close()
			cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "cable"}, PeerName: "end", PeerNamespace: netlink.NsPid(left[0])}
			must(t, here.Netlink().LinkAdd(cable))

			must(t, child.Process.Signal(signal))
			_ = child.Wait()
			await(t, "the process ends", func() bool { return len(running(t, token)) == 0 })
			await(t, "the network namespace is destroyed", func() bool { _, err := here.Link("cable"); return err != nil })
			if names, err := netns.List(""); err != nil || len(names) != 0 {
				t.Errorf("network namespaces: %v, %v; %s was made", names, err, namespace)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", file, err)
			}
		})
	}
}

// beInterrupted starts a process in its own network namespace and session, listens on a socket, and waits for the end.
func beInterrupted(t *testing.T, token string) {
	ns := New(t, "interrupted")
	cmd := exec.Command("/bin/sh", "-c", "read line", token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe()
	must(t, err)
	must(t, ns.Start(cmd))
	socket := filepath.Join(t.TempDir(), "socket")
	_, err = net.Listen("unix", socket)
	must(t, err)
	fmt.Println("interrupt", ns.Name(), socket)
	for { // the process ends with its input, which the garbage collector would close
		time.Sleep(time.Hour)
		runtime.KeepAlive(input)
	}
}

// startInterrupted starts this test binary as a test run, outside of our isolation, and returns what it says when it is
// in the middle of its test.
func startInterrupted(t *testing.T, token string) (child *exec.Cmd, said []string) {
	t.Helper()
	child = exec.Command("/proc/self/exe", "-test.run=^TestInterrupted$")
	child.Env = append(Outside(), interruptedVariable+"="+token)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "interrupt" {
			return child, words[1:]
		}
	}
	t.Fatalf("the test run ends: %v", child.Wait())
	return nil, nil
}

// running lists the processes that have the token as an argument.
func running(t *testing.T, token string) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range paths {
		words, _ := os.ReadFile(path)
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && strings.Contains(string(words), "\x00"+token) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// leaveVariable makes [TestLeftovers] leave something behind.
const leaveVariable = "NETNSTEST_LEAVE"

// TestLeftovers: tests that pass and leave a process or a network namespace behind make their run fail.
func TestLeftovers(t *testing.T) {
	Require(t)
	switch os.Getenv(leaveVariable) {
	case "process":
		must(t, exec.Command("/bin/sleep", "1000").Start())
		return
	case "namespace":
		ns, err := netns.Create("left")
		must(t, err)
		ns.Close()
		return
	case "nothing":
		return
	}
	for what, want := range map[string]string{"nothing": "", "process": "/bin/sleep 1000", "namespace": "network namespace left"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			child := exec.Command("/proc/self/exe", "-test.run=^TestLeftovers$")
			child.Env = append(Outside(), leaveVariable+"="+what)
			out, err := child.CombinedOutput()
			if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestExitCode: a test run that fails is seen to fail.
func TestExitCode(t *testing.T) {
	Require(t)
	if os.Getenv(leaveVariable) != "" {
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	for _, args := range [][]string{{"-test.run=^TestExitCode$"}, {"-test.no-such-flag"}} {
		child := exec.Command("/proc/self/exe", args...)
		child.Env = append(Outside(), leaveVariable+"=killed")
		if out, err := child.CombinedOutput(); err == nil {
			t.Errorf("%v succeeds: %s", args, out)
		}
	}
}

// TestHere says whether tests in network namespaces run on this machine; make
// test shows its reason if they do not.
func TestHere(t *testing.T) { Require(t) }
