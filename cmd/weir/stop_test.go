package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// Values of stopVariable: none of the tests' commands takes longer than slowStop to end by itself, and those that hang need not go on for seconds.
const slowStop, quickStop = stopVariable + "=2m", stopVariable + "=200ms"

// stopping is a command that SIGTERM ends in some phase of its work.
type stopping struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// newStopping starts it by the given function, which is cmd.Start or that of a namespace.
func newStopping(t *testing.T, env string, start func(*exec.Cmd) error, args ...string) *stopping {
	t.Helper()
	s := &stopping{cmd: weirCommand(args...)}
	s.cmd.Env, s.cmd.Stderr = append(s.cmd.Env, env), &s.stderr
	must(t, start(s.cmd))
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	return s
}

// signal sends SIGTERM, which the command can take.
func (s *stopping) signal(t *testing.T) {
	t.Helper()
	must(t, s.cmd.Process.Signal(unix.SIGTERM))
}

// wait returns the status and whether the command ended by itself, not because its time was over.
func (s *stopping) wait(t *testing.T) (status int, byItself bool) {
	t.Helper()
	_ = s.cmd.Wait()
	t.Logf("status %d: %.500s", s.cmd.ProcessState.ExitCode(), &s.stderr)
	return s.cmd.ProcessState.ExitCode(), !strings.Contains(s.stderr.String(), "after the signal: ending at once")
}

// endsByItself ends it, and holds it to a status.
func (s *stopping) endsByItself(t *testing.T, want int) {
	t.Helper()
	s.signal(t)
	s.hasEnded(t, want)
}

func (s *stopping) hasEnded(t *testing.T, want int) {
	t.Helper()
	if status, byItself := s.wait(t); status != want || !byItself {
		t.Errorf("status %d, and not %d; by itself: %t: %s", status, want, byItself, &s.stderr)
	}
}

// endsInTime ends one that hangs.
func (s *stopping) endsInTime(t *testing.T) {
	t.Helper()
	s.signal(t)
	if status, byItself := s.wait(t); status != statusFailure || byItself {
		t.Errorf("status %d, by itself: %t: %s", status, byItself, &s.stderr)
	}
}

// heldFIFO waits until a process reads a FIFO, and has it wait for what does not come.
func heldFIFO(t *testing.T, path string) {
	t.Helper()
	awaitThat(t, path+" to be read", func() (string, bool) {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			t.Cleanup(func() { _ = unix.Close(fd) })
		}
		return fmt.Sprint(err), err == nil
	})
}

func start(cmd *exec.Cmd) error { return cmd.Start() }

// TestStopOfHanging: a command that waits for a file, which may go on for ever, is ended when its time is over.
func TestStopOfHanging(t *testing.T) {
	dir := t.TempDir()
	t.Run("replay", func(t *testing.T) {
		fifo := filepath.Join(dir, "in.pcap")
		must(t, unix.Mkfifo(fifo, 0o600))
		s := newStopping(t, quickStop, start, "replay", "--in", fifo)
		heldFIFO(t, fifo)
		s.endsInTime(t)
	})
	t.Run("collector at a disk that does not answer", func(t *testing.T) {
		config, data := filepath.Join(dir, "collect.toml"), filepath.Join(dir, "data")
		must(t, os.WriteFile(config, fmt.Appendf(nil, "[collect]\nlisten = \"127.0.0.1:0\"\ndata = %q\n[nats]\nlisten = \"127.0.0.1:0\"\n", data), 0o600))
		s := newStopping(t, slowStop, start, "collect", "-c", config)
		var meta string
		awaitThat(t, "the stream to be made", func() (string, bool) {
			found, err := filepath.Glob(filepath.Join(data, "jetstream/*/streams/*/meta.inf"))
			if len(found) > 0 {
				meta = found[0]
			}
			return fmt.Sprint(found, err), meta != ""
		})
		s.endsByItself(t, statusGood)
		must(t, os.Remove(meta))
		must(t, unix.Mkfifo(meta, 0o600))
		s = newStopping(t, quickStop, start, "collect", "-c", config)
		heldFIFO(t, meta)
		s.endsInTime(t)
	})
}

// silentServer listens in a namespace, accepts, and never answers. The channel gets a value for each connection.
func silentServer(t *testing.T, ns *netns.Namespace, address string) <-chan struct{} {
	t.Helper()
	l, err := ns.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			accepted <- struct{}{}
		}
	}()
	return accepted
}

// TestStopWithoutAnswer: a switch and a collector whose NATS server accepts and never answers end by themselves.
func TestStopWithoutAnswer(t *testing.T) {
	b := newShipBed(t)
	t.Run("switch", func(t *testing.T) {
		accepted := silentServer(t, b.ns, "127.0.0.1:4222")
		p := b.start(t, b.write(t, fmt.Sprintf("spool = %q\ncollector = [\"nats://127.0.0.1:4222\"]", b.dir2("spool"))), testStage+"=1", slowStop)
		<-accepted
		if status := p.stop(t); status != 0 || strings.Contains(p.stderr.String(), "ending at once") {
			t.Errorf("status %d: %s", status, &p.stderr)
		}
	})
	t.Run("collector", func(t *testing.T) {
		accepted, config := silentServer(t, b.ns, "127.0.0.1:4223"), b.dir2("collect.toml")
		must(t, os.WriteFile(config, []byte("[collect]\nlisten = \"127.0.0.1:0\"\n[nats]\nservers = [\"nats://127.0.0.1:4223\"]\n"), 0o600))
		s := newStopping(t, slowStop, b.ns.Start, "collect", "-c", config)
		<-accepted
		s.endsByItself(t, statusGood)
	})
}

// TestStopWithoutInterface: a switch that waits for an interface which was taken away ends by itself.
func TestStopWithoutInterface(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"), slowStop)
	must(t, b.ns.DeleteLink("p0"))
	awaitThat(t, "the port to be gone", func() (string, bool) {
		_, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "ports")
		return stdout + stderr, strings.Contains(stdout, "gone")
	})
	if status := p.stop(t); status != 0 || strings.Contains(p.stderr.String(), "ending at once") {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
}

// TestStopWhileReading: a collector in the middle of a stream, of which no more comes, ends by itself.
func TestStopWhileReading(t *testing.T) {
	const records, passed = 20_000, 1 << 20 // of 500 bytes; bytes after which no more come
	b := newShipBed(t)
	node := newNATS(t, b.ns, natsOptions{Name: "n1", Host: "127.0.0.1", Port: 4222, Dir: t.TempDir()})
	nc, js := client(t, b.ns, node)
	defer nc.Close()
	ensureStream(t, js, 1)
	for i := range records {
		h := record.Header{Kind: record.Status, Switch: 1, Name: "s1", Start: clock.Kernel.TAI() - int64(records-i)<<20, Span: 1 << 20}
		text, err := record.Append(nil, &h, func(dst []byte) ([]byte, error) { return append(dst, make([]byte, 500)...), nil })
		must(t, err)
		_, err = js.PublishAsync(jetstream.Subject(&h), text)
		must(t, err)
		if i%1000 == 0 {
			<-js.PublishAsyncComplete() // more than some thousand may not be on their way
		}
	}
	<-js.PublishAsyncComplete()
	listener, err := b.ns.Listen("tcp", "127.0.0.1:4223")
	must(t, err)
	defer listener.Close()
	half := make(chan struct{})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			far, err := inside{b.ns}.Dial("tcp", node.address())
			if err != nil {
				return
			}
			defer far.Close()
			go func() { _, _ = io.Copy(far, c) }()
			go func() {
				if n, _ := io.CopyN(c, far, passed); n == passed {
					close(half)
				}
			}()
		}
	}()
	config := b.dir2("collect.toml")
	must(t, os.WriteFile(config, []byte("[collect]\nlisten = \"127.0.0.1:0\"\n[nats]\nservers = [\"nats://127.0.0.1:4223\"]\n"), 0o600))
	s := newStopping(t, slowStop, b.ns.Start, "collect", "-c", config)
	<-half
	s.endsByItself(t, statusGood)
	if strings.Contains(s.stderr.String(), "\tready\t") {
		t.Errorf("it had read all: %s", &s.stderr)
	}
}

// TestStopInTheMiddle: gen and replay in the middle of what they do end by themselves, and have not done all.
func TestStopInTheMiddle(t *testing.T) {
	t.Run("gen", func(t *testing.T) {
		b := newTestbed(t, 0)
		socket, err := b.ns.PacketSocket("p0")
		must(t, err)
		defer socket.Close()
		s := newStopping(t, slowStop, start, "gen", "-i", b.hosts[0].Interface, "--namespace", b.hosts[0].NS.Name(), "--source", "packet", "--rate", "1k")
		_, err = socket.Receive(make([]byte, 2048))
		must(t, err)
		s.endsByItself(t, statusGood)
	})
	t.Run("replay", func(t *testing.T) {
		const packets = 1 << 17
		var records []pcaptest.Record
		for n := range packets {
			records = append(records, pcaptest.Frame(1, 2, int64(n), 60))
		}
		in := pcaptest.Write(t, "in.pcap", pcapfile.Format{}, records...)
		read, written, err := os.Pipe()
		must(t, err)
		defer read.Close()
		s := newStopping(t, slowStop, func(cmd *exec.Cmd) error {
			defer written.Close()
			cmd.Stdout = written
			return cmd.Start()
		}, "replay", "--in", in, "--out", "p1=-")
		_, err = io.ReadFull(read, make([]byte, 1<<10)) // the pipe has room for a small part of the capture
		must(t, err)
		s.signal(t)
		awaitThat(t, "the signal to be taken", func() (string, bool) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
			pending := regexp.MustCompile(`(?m)^(?:Sig|Shd)Pnd:\s*0*(.*)$`).FindAllStringSubmatch(string(text), -1)
			return fmt.Sprint(pending, err), len(pending) == 2 && pending[0][1]+pending[1][1] == ""
		})
		n, err := io.Copy(io.Discard, read)
		must(t, err)
		s.hasEnded(t, statusFailure) // as a part was not read
		if n > packets*60 {
			t.Errorf("it has written %d bytes, all of the capture", n)
		}
	})
}

// stoppedLab is a network whose making and traffic have each kind of step.
const stoppedLab = `name = "stopped"
[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[switch]]
name = "s1"
graph = ["parse", "patch"]
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "h2"]
[collector]
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
count = 100
[[traffic]]
kind = "flows"
from = "h1"
to = "h2"
count = 2000
[[traffic]]
kind = "tcp"
from = "h1"
to = "h2"
bytes = 10000000
`

// TestStopOfLab: a lab that gets SIGTERM in any step takes itself down, and its switches end by themselves.
func TestStopOfLab(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	netnstest.Require(t)
	path := filepath.Join(t.TempDir(), "stopped.toml")
	must(t, os.WriteFile(path, []byte(stoppedLab), 0o600))
	file := ownLab(t, path)
	// The first run has all its steps, each later one ends in another of them; of the questions in the first one.
	var steps []string
	for step := -1; step < len(steps); step++ {
		if step >= 0 && strings.HasPrefix(steps[step], "asking: ") && strings.HasPrefix(steps[step-1], "asking: ") {
			continue
		}
		cmd := weirCommand("lab", "run", file)
		cmd.Env = append(cmd.Env, slowStop)
		stderr, err := cmd.StderrPipe()
		must(t, err)
		must(t, cmd.Start())
		var at string
		lines := bufio.NewScanner(stderr)
		n := 0
		for ; lines.Scan(); n++ {
			if step < 0 {
				steps = append(steps, lines.Text())
			} else if n == step {
				at = lines.Text()
				must(t, cmd.Process.Signal(unix.SIGTERM))
			}
			if strings.Contains(lines.Text(), "killed") || strings.Contains(lines.Text(), "ending at once") {
				t.Errorf("ended at %q: %s", at, lines.Text())
			}
		}
		_ = cmd.Wait()
		t.Logf("%d lines, ended at %q with status %d", n, at, cmd.ProcessState.ExitCode())
		if step < 0 && (cmd.ProcessState.ExitCode() != 0 || n < 8) {
			t.Fatalf("a run to the end has the steps %q and status %d", steps, cmd.ProcessState.ExitCode())
		}
		if status, stdout, stderr := weir("lab", "status", file); status != statusFailure || !strings.Contains(stderr, "not up") {
			t.Fatalf("ended at %q, it has left something: %s%s", at, stdout, stderr)
		}
		left, _ := filepath.Glob("/run/netns/weir-" + strings.TrimSuffix(filepath.Base(file), ".toml") + "-*")
		if len(left) != 0 {
			t.Fatalf("ended at %q, it has left %v", at, left)
		}
	}
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
