package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

const hosts = `
[[host]]
name = "h1"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24", "fd00::2/64"]
`

// switchLine is h1 - s1 - s2 - h2; graph is that of s1.
func switchLine(graph string) string {
	return hosts + fmt.Sprintf(`
[[switch]]
name = "s1"
graph = [%q]
[[switch]]
name = "s2"
graph = ["patch"]
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "s2:p0"]
[[link]]
endpoints = ["s2:p1", "h2"]
`, graph)
}

const bridgeLine = hosts + `
[[bridge]]
name = "b1"
[[link]]
endpoints = ["h1", "b1:p0"]
queues = 2
[[link]]
endpoints = ["b1:p1", "h2"]
`

const everyTraffic = `
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
count = 500
[[traffic]]
kind = "ping"
from = "h2"
to = "h1"
family = 6
count = 200
[[traffic]]
kind = "tcp"
from = "h1"
to = "h2"
bytes = 8_000_001
streams = 3
window = 65536
[[traffic]]
kind = "udp"
from = "h2"
to = "h1"
count = 500
rate = 5000
[[traffic]]
kind = "flows"
from = "h1"
to = "h2"
flows = 100
count = 5000
rate = 10_000
`

// newLab writes and reads a lab file with a unique name, and removes the lab at the
// end. The test runs in parallel to others, as it waits most of the time.
func newLab(t *testing.T, text string) (c *Config, file string) {
	t.Helper()
	t.Parallel()
	netnstest.Require(t)
	c, file = writeLab(t, "wl", text)
	t.Cleanup(func() {
		_, _ = Down(c.Name)
		nothingLeft(t, c)
	})
	return c, file
}

func writeLab(t *testing.T, prefix, text string) (c *Config, file string) {
	t.Helper()
	name := netnstest.UniqueName(prefix)
	file = filepath.Join(t.TempDir(), name+".toml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c, file
}

func nothingLeft(t *testing.T, c *Config) {
	t.Helper()
	if names, err := netns.List(NamespaceName(c.Name, "")); err != nil || len(names) != 0 {
		t.Errorf("namespaces left behind: %q, %v", names, err)
	}
	if _, err := os.Stat(directoryOf(c.Name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run directory is left behind (%v)", err)
	}
	if left := orphans(directoryOf(c.Name)); len(left) != 0 {
		t.Errorf("processes left behind: %v", left)
	}
	if _, err := Inspect(c.Name); !errors.Is(err, ErrNotUp) {
		t.Errorf("Inspect = %v, want ErrNotUp", err)
	}
}

func describe(t *testing.T, o *Outcome) string {
	t.Helper()
	var text strings.Builder
	if err := o.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestRunCarriesEveryTraffic(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"bridge", bridgeLine},
		{"switches", switchLine("patch")},
		{"static neighbours", "static_neighbours = true\n" + bridgeLine},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, file := newLab(t, test.text+everyTraffic)
			o, err := Run(t.Context(), c, Options{File: file})
			if err != nil {
				t.Fatal(err)
			}
			if !o.OK || len(o.Traffic) != 5 || len(o.Account.Checks) < 4 {
				t.Errorf("outcome:\n%s", describe(t, o))
			}
			for i, want := range []uint64{500, 200, 8_000_001, 500, 5000} {
				if o.Traffic[i].Received != want {
					t.Errorf("traffic[%d]: received %d, want %d", i, o.Traffic[i].Received, want)
				}
			}
			for _, e := range o.Switches {
				// More than the 2 x 500 echoes must have crossed every switch.
				if e.Report == nil || e.Report.Received < 1000 || e.Exit.Status != "exit status 0" {
					t.Errorf("switch %s: %+v, %+v", e.Name, e.Exit, e.Report)
				}
			}
			nothingLeft(t, c)
		})
	}
}

func TestRunSeesLoss(t *testing.T) {
	c, file := newLab(t, switchLine("lossy")+`
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
count = 150
[[traffic]]
kind = "tcp"
from = "h1"
to = "h2"
bytes = 1_000_001
[[traffic]]
kind = "flows"
from = "h1"
to = "h2"
flows = 100
count = 5000
rate = 10_000
`)
	o, err := Run(t.Context(), c, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if o.OK || o.Account.OK() {
		t.Errorf("a lab that loses packets is OK:\n%s", describe(t, o))
	}
	for _, i := range []int{0, 2} {
		if r := &o.Traffic[i]; r.OK() || r.Lost == 0 || r.Received+r.Lost != r.Sent {
			t.Errorf("%s over a lossy switch: %s", r.Kind, r.sentence())
		}
	}
	if r := &o.Traffic[1]; !r.OK() || r.Retransmitted == 0 {
		t.Errorf("tcp over a lossy switch repairs the loss: %s", r.sentence())
	}
}

func TestUpStatusDown(t *testing.T) {
	c, file := newLab(t, switchLine("patch"))
	l, err := Up(t.Context(), c, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Down(c.Name); !errors.Is(err, ErrBusy) {
		t.Errorf("Down of a held lab: %v, want ErrBusy", err)
	}
	l.Release()
	if _, err := Up(t.Context(), c, Options{}); !errors.Is(err, ErrUp) {
		t.Errorf("Up of a lab that is up: %v, want ErrUp", err)
	}
	s, err := Inspect(c.Name)
	if err != nil || !s.Healthy || len(s.Nodes) != 4 || s.File != file {
		t.Errorf("Inspect = %+v, %v", s, err)
	}
	ends, err := Down(c.Name)
	if err != nil || len(ends) != 2 {
		t.Fatalf("Down = %v, %v", ends, err)
	}
	for _, e := range ends {
		if !e.Exit.Clean || e.Report == nil {
			t.Errorf("switch %s: %+v, %s", e.Name, e.Exit, e.Fault)
		}
	}
	nothingLeft(t, c)
	if _, err := Down(c.Name); !errors.Is(err, ErrNotUp) {
		t.Errorf("second Down: %v, want ErrNotUp", err)
	}
}

func TestUpUndoesWhatItMade(t *testing.T) {
	t.Run("a switch refuses its configuration", func(t *testing.T) {
		c, file := newLab(t, switchLine("refuse"))
		_, err := Up(t.Context(), c, Options{File: file})
		if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "this graph is refused") {
			t.Errorf("Up = %v, want the switch's status and its log", err)
		}
		nothingLeft(t, c)
	})
	t.Run("no such program", func(t *testing.T) {
		c, file := newLab(t, switchLine("patch"))
		if _, err := Up(t.Context(), c, Options{File: file, Command: []string{"/nowhere/weir"}}); err == nil {
			t.Error("Up without a switch program succeeded")
		}
		nothingLeft(t, c)
	})
	t.Run("cancelled", func(t *testing.T) {
		c, file := newLab(t, switchLine("patch"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Up(ctx, c, Options{File: file}); !errors.Is(err, context.Canceled) {
			t.Errorf("Up = %v, want context.Canceled", err)
		}
		nothingLeft(t, c)
	})
	t.Run("a namespace is somebody else's", func(t *testing.T) {
		c, file := newLab(t, bridgeLine)
		stranger, err := netns.Create(NamespaceName(c.Name, "b1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Up(t.Context(), c, Options{File: file}); err == nil || !strings.Contains(err.Error(), "not of this lab") {
			t.Errorf("Up = %v", err)
		}
		if err := stranger.Delete(); err != nil {
			t.Errorf("the stranger's namespace is gone: %v", err)
		}
		nothingLeft(t, c)
	})
}

func TestRunCancelledLeavesNothing(t *testing.T) {
	c, file := newLab(t, switchLine("patch")+"[[traffic]]\nkind = \"ping\"\nfrom = \"h1\"\nto = \"h2\"\ncount = 10_000_000\n")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if o, err := Run(ctx, c, Options{File: file}); err == nil || o != nil && o.OK {
		t.Errorf("a cancelled run is OK: %v", err)
	}
	nothingLeft(t, c)
}

// TestDeadSwitch kills one switch under a running lab.
func TestDeadSwitch(t *testing.T) {
	c, file := newLab(t, switchLine("patch"))
	l, err := Up(t.Context(), c, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	victim := l.switches["s1"]
	if err := victim.id.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-victim.ended
	r := l.Traffic(t.Context(), Traffic{Kind: KindPing, From: "h1", To: "h2", Count: 2, Window: 2, Sizes: []int{64, 100}})
	if r.OK() || r.Received != 0 {
		t.Errorf("pings over a dead switch: %s", r.sentence())
	}
	l.Release()
	s, err := Inspect(c.Name)
	if err != nil || s.Healthy {
		t.Errorf("a lab with a dead switch is healthy (%v)", err)
	}
	ends, err := Down(c.Name)
	if err != nil || len(ends) != 2 {
		t.Fatalf("Down = %v, %v", ends, err)
	}
	if ends[0].Exit.Status != "died" || ends[0].Exit.Clean || ends[0].Report != nil || ends[0].Fault == "" {
		t.Errorf("s1, which was killed: %+v", ends[0])
	}
	if !ends[1].Exit.Clean || ends[1].Report == nil {
		t.Errorf("s2: %+v", ends[1])
	}
	nothingLeft(t, c)
}

// TestStubbornSwitch has a switch that ignores SIGTERM.
func TestStubbornSwitch(t *testing.T) {
	c, file := newLab(t, switchLine("overruns"))
	l, err := Up(t.Context(), c, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	ends, err := l.Down()
	if err != nil || len(ends) != 2 || !ends[0].Exit.Killed || ends[0].Exit.Clean || ends[1].Exit.Killed {
		t.Errorf("Down = %+v, %v; want s1 killed", ends, err)
	}
	nothingLeft(t, c)
}

// TestCrashedLab kills the process that made a lab: at once when its run
// directory appears, a little later, and when it is up.
func TestCrashedLab(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, -1} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			c, file := newLab(t, switchLine("patch"))
			crash(t, c, file, delay)
			if s, err := Inspect(c.Name); err != nil {
				t.Fatal(err)
			} else if delay < 0 && (!s.Healthy || s.Creator != 0) {
				t.Errorf("switches do not outlive their lab's maker: %+v", s)
			}
			if _, err := Up(t.Context(), c, Options{}); !errors.Is(err, ErrUp) {
				t.Errorf("Up over a crashed lab: %v, want ErrUp", err)
			}
			ends, err := Down(c.Name)
			if err != nil {
				t.Fatal(err)
			}
			if delay < 0 && (len(ends) != 2 || ends[0].Report == nil || !ends[0].Exit.Clean) {
				t.Errorf("ends of a crashed lab's switches: %+v", ends)
			}
			nothingLeft(t, c)
		})
	}
}

// crash makes the lab in a child and kills the child, the given while after its run directory
// appeared, or, if negative, when the lab is up.
func crash(t *testing.T, c *Config, file string, delay time.Duration) {
	t.Helper()
	child := exec.Command("/proc/self/exe", "lab-up-and-hang", file)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	if delay < 0 {
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			t.Fatalf("the child says %q, %v", line, err)
		}
		return
	}
	for deadline := time.Now().Add(2 * time.Minute); !fileExists(directoryOf(c.Name)); {
		if time.Now().After(deadline) {
			t.Fatal("the child makes no lab")
		}
		time.Sleep(100 * time.Microsecond)
	}
	time.Sleep(delay)
}

// someAnswers are those that were there when a run was interrupted.
type someAnswers struct{}

func (someAnswers) OK() bool { return false }

func (someAnswers) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, "  ok    path  the first answer\n  FAIL  loops the second\n")
	return err
}

// TestInterruptedQuestions: Ctrl-C while questions are asked leaves the report of what was answered, with status 1, and nothing of the lab.
func TestInterruptedQuestions(t *testing.T) {
	config, file := newLab(t, "records = true\n"+switchLine("patch"))
	ctx, cancel := context.WithCancel(t.Context())
	var out strings.Builder
	c := &Command{Out: &out, Err: os.Stderr, Examine: func(ctx context.Context, _ *Evidence) (Answers, error) {
		cancel()
		return someAnswers{}, fmt.Errorf("asked in vain: %w", ctx.Err())
	}}
	err := c.Run(ctx, file)
	var failure *Failure
	want := config.Name + ": a signal interrupted it: the report has what was known by then; asked in vain: interrupted"
	if !errors.As(err, &failure) || failure.Status != 1 || err.Error() != "lab "+want || !errors.Is(err, context.Canceled) {
		t.Errorf("%v: want status 1, and %s", err, want)
	}
	for _, want := range []string{"  ok    path  the first answer", "INTERRUPTED: this is what was known by then, with these faults:\n  FAIL  loops the second"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, &out)
		}
	}
}

// TestInterruptedTests ends a test run while it has a lab up, whose switches are in their own sessions and outlive their
// lab's maker: they do not outlive the tests.
func TestInterruptedTests(t *testing.T) {
	const labVariable = "WEIR_TEST_LAB"
	netnstest.Require(t)
	if os.Getenv(labVariable) != "" {
		c, file := writeLab(t, "interrupted", switchLine("patch"))
		fmt.Println(c.Name)
		os.Exit(upAndHang(file))
	}
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGINT} {
		child := exec.Command("/proc/self/exe", "-test.run=^TestInterruptedTests$")
		child.Env = append(netnstest.Outside(), labVariable+"=1")
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var name, up string
		if _, err := fmt.Fscan(out, &name, &up); err != nil || up != "up" {
			t.Fatalf("the child says %q %q, %v", name, up, err)
		}
		switches := orphans(directoryOf(name))
		if len(switches) != 2 {
			t.Errorf("the lab has the switches %v", switches)
		}
		_ = child.Process.Signal(signal)
		_ = child.Wait()
		for _, s := range switches {
			if ended, err := s.Wait(time.Minute); !ended || err != nil {
				t.Errorf("after %v of the tests, switch %d: %t, %v", signal, s.PID, ended, err)
			}
		}
	}
}

// TestCommand goes through the commands as the program has them.
func TestCommand(t *testing.T) {
	c, file := newLab(t, switchLine("patch")+"[[traffic]]\nkind = \"udp\"\nfrom = \"h1\"\nto = \"h2\"\n")
	quiet, err := os.Create(filepath.Join(t.TempDir(), "progress"))
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	for _, step := range []struct {
		name string
		run  func(*Command) error
		exit int
		want []string
	}{
		{"status", func(x *Command) error { return x.Status(file) }, 1, nil},
		{"down", func(x *Command) error { return x.Down(file) }, 0, []string{"is down"}},
		{"down by the name of no lab", func(x *Command) error { return x.Down(c.Name) }, 2, nil},
		{"up", func(x *Command) error { return x.Up(t.Context(), file) }, 0, []string{"| p0  s1  p1 |---", "runs as"}},
		{"up again", func(x *Command) error { return x.Up(t.Context(), file) }, 2, nil},
		{"status by name", func(x *Command) error { return x.Status(c.Name) }, 0, []string{"p0: "}},
		{"down by name", func(x *Command) error { return x.Down(c.Name) }, 0, []string{"s1 ended at SIGTERM; received"}},
		{"run", func(x *Command) error { return x.Run(t.Context(), file) }, 0, []string{"1000 of 1000", "every counter adds up", "sockets"}},
		{"missing file", func(x *Command) error { return x.Run(t.Context(), file+"x") }, 2, nil},
	} {
		var out strings.Builder
		err := step.run(&Command{Out: &out, Err: quiet})
		exit := 0
		var failure *Failure
		if errors.As(err, &failure) {
			exit = failure.Status
		}
		if exit != step.exit || (err == nil) != (exit == 0) {
			t.Errorf("%s: exit %d, want %d: %v\n%s", step.name, exit, step.exit, err, &out)
		}
		for _, want := range step.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s does not print %q:\n%s", step.name, want, &out)
			}
		}
	}
}
