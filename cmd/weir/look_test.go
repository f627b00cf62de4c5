package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/pcapfile"
)

// TestTrace: the path of a packet through every stage, in words.
func TestTrace(t *testing.T) {
	r := newRouter(t)
	p := r.start(t, r.write(t, 2, "[[stages.acl.rule]]\nname = \"no-dns\"\naction = \"deny\"\ndst = \"198.19.0.0/24\"\n"))
	l := r.load(t, 1000, 3000)
	var out string
	for range 20 { // until a packet comes that is not for the denied network
		var status int
		if status, out, _ = weir("ctl", "--socket", r.socket(r.name), "trace", "--wait", "3s", "udp and dst net 198.19.0.0/16 and not net 198.19.0.0/24"); status == 0 {
			break
		}
	}
	for _, want := range []string{
		"packet 1: 124 bytes from p0\n", "\n  parse      ", "\n  policer    p0 is not policed\n", "no rule, so the default permits it\n", "\n  l3         ", "p2", "\n  mirror     no session watches it\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	none := "weir: no packet that matches \"tcp\" came within 10ms: wait longer with --wait, or see without the filter what arrives\n"
	if status, stdout, stderr := weir("ctl", "--socket", r.socket(r.name), "trace", "--wait", "10ms", "tcp"); status != statusFailure || stdout != "" || stderr != none {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	for filter, want := range map[string]string{"tpc": "is no word of filters", "(": "ends too early"} {
		if status, _, stderr := weir("ctl", "--socket", r.socket(r.name), "trace", filter); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %s", filter, status, stderr)
		}
	}
	l.Wait()
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
}

// TestTop: rates of all, live, and the ports that are named alone.
func TestTop(t *testing.T) {
	r := newRouter(t)
	p := r.start(t, r.write(t, 2, ""))
	for _, tt := range []struct {
		args         []string
		with, absent string
	}{
		{[]string{"top", "--count", "1", "--interval", "100ms"}, "PORT RECEIVED/s p0 p2 STAGE l3 WORKER CPU", ""},
		{[]string{"top", "--count", "1", "--interval", "100ms", "--json"}, `{"ports":[{"port":"p0" "workers":`, "RECEIVED"},
		{[]string{"top"}, "PORT p0 WORKER", ""}, // once, where no terminal is
		{[]string{"show", "stages", "--rates", "--interval", "100ms"}, "STAGE PACKETS/s l3", "WORKER"},
		{[]string{"show", "ports", "p2", "p0"}, "FORWARDED p0 p2", "p1"},
		{[]string{"show", "ports", "p2", "--json"}, `"p2"`, `"p1"`},
		{[]string{"show", "ports", "p2", "--rates", "--interval", "100ms"}, "RECEIVED/s p2", "p0"},
	} {
		out := r.ctl(t, tt.args...)
		for _, want := range strings.Fields(tt.with) {
			if !strings.Contains(out, want) {
				t.Errorf("%v: want %q in\n%s", tt.args, want, out)
			}
		}
		if tt.absent != "" && strings.Contains(out, tt.absent) {
			t.Errorf("%v: %q is in\n%s", tt.args, tt.absent, out)
		}
	}
	if status, _, stderr := weir("ctl", "--socket", r.socket(r.name), "show", "ports", "p9"); status != statusUsage || !strings.Contains(stderr, `the switch has no port "p9": choose from p0, p1, p2`) {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	// The final report is of the ports as they were, not as they are once they are closed.
	if strings.Contains(p.stdout.String(), `"gone"`) || strings.Count(p.stdout.String(), `"state":"up"`) != 3 {
		t.Errorf("the final report: %s", &p.stdout)
	}
}

// captured reads a capture.
func captured(t *testing.T, r io.Reader) (frames [][]byte, headers []pcapfile.Header) {
	t.Helper()
	in, err := pcapfile.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return frames, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, h.CapLen)
		if err := in.Read(frame); err != nil {
			t.Fatal(err)
		}
		frames, headers = append(frames, frame), append(headers, h)
	}
}

// TestCapture: of numbered packets, those at each edge, to a file and to a pipe; the
// load does not notice.
func TestCapture(t *testing.T) {
	r := newRouter(t)
	p := r.start(t, r.write(t, 1, "[[stages.acl.rule]]\naction = \"deny\"\ndst = \"198.19.128.0/17\"\n"))
	l := r.load(t, 2000, 8000)
	file := filepath.Join(r.dir, "all.pcapng")
	before := time.Now()
	r.ctl(t, "capture", "-w", file, "--count", "50", "udp and dst net 198.19.0.0/16")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	frames, headers := captured(t, bytes.NewReader(text))
	if len(frames) != 50 {
		t.Errorf("%d packets, want 50", len(frames))
	}
	for i, h := range headers {
		at := time.Unix(0, h.Time)
		if h.Interface != 0 || h.WireLen != 124 || len(frames[i]) != 124 || at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) || frames[i][22] != 64 {
			t.Fatalf("packet %d: %+v at %v: %x", i, h, at, frames[i])
		}
	}
	// Behind the router the hop count is one less; cut packets keep their length.
	frames, headers = captured(t, strings.NewReader(r.ctl(t, "capture", "-w", "-", "-c", "20", "--at", "l3", "--edge", "after", "--truncate", "40")))
	for i := range frames {
		if len(frames[i]) != 40 || headers[i].WireLen != 124 || frames[i][22] != 63 || frames[i][32]>>7 != 0 {
			t.Errorf("packet %d behind l3: %+v %x", i, headers[i], frames[i])
		}
	}
	frames, _ = captured(t, strings.NewReader(r.ctl(t, "capture", "-w", "-", "--count", "20", "--at", "acl", "--edge", "dropped")))
	for i := range frames {
		if frames[i][32]>>7 != 1 {
			t.Errorf("packet %d was not dropped by the rule: %x", i, frames[i])
		}
	}
	if tcpdump, err := exec.LookPath("tcpdump"); err == nil {
		out, err := exec.Command(tcpdump, "-nr", file).CombinedOutput()
		if err != nil || strings.Count(string(out), "198.18.") != 50 {
			t.Errorf("tcpdump: %v\n%s", err, out)
		}
	}
	if status, _, stderr := weir("ctl", "--socket", r.socket(r.name), "capture", "-w", "-", "--at", "l2"); status != 2 || stderr != "weir: the graph has no stage \"l2\": there are parse, policer, acl, l3, mirror\n" {
		t.Errorf("status %d: %s", status, stderr)
	}
	r.interruptCapture(t)
	sent := l.Wait()
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if report := p.report(t); report.Received != sent || report.Forwarded+report.Dropped["acl_denied"] != sent || !report.Balanced {
		t.Errorf("last report: %+v", report)
	}
}

// interruptCapture ends a capture by Ctrl-C, and another one can begin.
func (r *changingRouter) interruptCapture(t *testing.T) {
	t.Helper()
	file := filepath.Join(r.dir, "interrupted.pcapng")
	cmd := weirCommand("ctl", "--socket", r.socket(r.name), "capture", "-w", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(file); err == nil && info.Size() > 1000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was captured")
		}
	}
	if status, _, stderr := weir("ctl", "--socket", r.socket(r.name), "trace", "--wait", "1ms"); status != 2 || !strings.Contains(stderr, "a trace or a capture is under way") {
		t.Errorf("a second look: status %d, %s", status, stderr)
	}
	_ = cmd.Process.Signal(unix.SIGINT)
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(stderr.String(), "captured ") {
		t.Errorf("%v, %s", err, &stderr)
	}
	text, _ := os.ReadFile(file)
	if frames, _ := captured(t, bytes.NewReader(text)); len(frames) == 0 {
		t.Error("the capture is empty")
	}
	// The switch learns of the client's end when it sends.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if status, _, _ := weir("ctl", "--socket", r.socket(r.name), "trace", "--wait", "1ms"); status != statusUsage {
			return
		}
	}
	t.Error("the switch goes on with a capture that has no reader")
}

// TestCaptureRefused: a capture that the switch refuses, or cannot be asked for, leaves the file as it was, and makes none.
func TestCaptureRefused(t *testing.T) {
	b := newTestbed(t, 0)
	b.start(t, b.config(t, "s1"))
	kept, none := filepath.Join(b.dir, "kept.pcapng"), filepath.Join(b.dir, "none.pcapng")
	if err := os.WriteFile(kept, []byte("the capture of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--socket", b.socket("s1"), "capture", "tpc"}, {"--socket", b.socket("s1"), "capture", "--at", "acl"},
		{"--socket", b.socket("s1"), "capture", "--edge", "around"}, {"--socket", b.socket("s9"), "capture"},
	} {
		for _, file := range []string{kept, none} {
			if status, _, stderr := weir(append(append([]string{"ctl"}, args...), "-w", file)...); status == 0 {
				t.Errorf("%v: status 0: %s", args, stderr)
			}
		}
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "the capture of yesterday" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file of a refused capture: %v", err)
	}
	if status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "capture", "-w", filepath.Join(b.dir, "no", "file")); status != statusUsage || !strings.Contains(stderr, "name a file that may be written") {
		t.Errorf("a file that cannot be written: status %d: %s", status, stderr)
	}
}

// TestLookedAtSwitchEnds: a capture, a trace and live rates say that the switch ended, and a capture has what came before.
func TestLookedAtSwitchEnds(t *testing.T) {
	b := newTestbed(t, 0)
	for _, end := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		for _, look := range [][]string{{"capture", "--write", "-"}, {"trace", "--wait", "1m", "tcp"}, {"top", "--count", "0", "--interval", "100ms"}} {
			p := b.start(t, b.config(t, "s1"))
			cmd, out, stderr := b.startLook(t, look)
			first := make([]byte, 1, 1<<16) // of a capture's header, which it writes when it captures, or of rates
			if look[0] == "trace" {
				for !b.begun(t, cmd) {
					_ = cmd.Wait()
					cmd, out, stderr = b.startLook(t, look)
				}
			} else if _, err := io.ReadFull(out, first); err != nil {
				t.Fatal(err)
			}
			if look[0] == "capture" {
				b.exchange(t, 1)
				for packetBlocks(first) < 2 {
					n, err := out.Read(first[len(first):cap(first)])
					if err != nil {
						t.Fatalf("%v after %d bytes", err, len(first))
					}
					first = first[:len(first)+n]
				}
			}
			if err := p.cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(out)
			_, _ = cmd.Wait(), p.cmd.Wait()
			said := strings.Contains(stderr.String(), "weir: the switch at "+b.socket("s1")+" ended before its answer was complete") ||
				look[0] == "top" && strings.Contains(stderr.String(), "weir: no switch listens on") // between two looks
			if cmd.ProcessState.ExitCode() != statusFailure || !said {
				t.Errorf("%v, %v: status %d: %s", end, look, cmd.ProcessState.ExitCode(), stderr)
			}
			if look[0] != "capture" || end == unix.SIGKILL { // a killed switch may not have sent them
				continue
			}
			frames, _ := captured(t, bytes.NewReader(append(first, text...)))
			if len(frames) != 2 || !strings.Contains(stderr.String(), "captured 2 packets; 0 more") {
				t.Errorf("%d packets are captured: %s", len(frames), stderr)
			}
		}
	}
}

// packetBlocks counts the whole packet blocks in the beginning of a pcapng file.
func packetBlocks(b []byte) (n int) {
	for len(b) >= 8 {
		size := binary.LittleEndian.Uint32(b[4:])
		if size < 12 || uint32(len(b)) < size {
			return n
		}
		if binary.LittleEndian.Uint32(b) == 6 {
			n++
		}
		b = b[size:]
	}
	return n
}

// startLook starts a command of ctl.
func (b *testbed) startLook(t *testing.T, look []string) (cmd *exec.Cmd, out io.Reader, stderr *strings.Builder) {
	t.Helper()
	cmd, stderr = weirCommand(append([]string{"ctl", "--socket", b.socket("s1")}, look...)...), new(strings.Builder)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, out, stderr
}

// begun waits until a command's trace is under way, which is when a second one is refused. False: it was the first that was
// refused, as the second was under way then.
func (b *testbed) begun(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if status, _, _ := weir("ctl", "--socket", b.socket("s1"), "trace", "--wait", "1ms"); status == statusUsage {
			return true
		}
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		if info.Signo != 0 {
			return false
		}
	}
	t.Fatal("no trace begins")
	return false
}

// TestCaptureUnwritten: a capture that cannot be written says so once.
func TestCaptureUnwritten(t *testing.T) {
	b := newTestbed(t, 0)
	b.start(t, b.config(t, "s1"))
	status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "capture", "-w", "/dev/full")
	if want := "weir: write the capture: write /dev/full: no space left on device: free space in /dev, or name a file on another disk\n"; status != statusFailure || stderr != want {
		t.Errorf("status %d: %q", status, stderr)
	}
}

// TestTraceInterrupted: SIGTERM and Ctrl-C end a trace that waits as they end a capture.
func TestTraceInterrupted(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1", "[control]", "[control]\naudit = \""+filepath.Join(b.dir, "audit.log")+"\""))
	var cmd *exec.Cmd
	var out strings.Builder
	ended := make(chan error, 1)
	begin := func() {
		cmd = weirCommand("ctl", "--socket", b.socket("s1"), "trace", "--wait", "1m", "tcp")
		out.Reset()
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func(c *exec.Cmd) { ended <- c.Wait() }(cmd)
	}
	begin()
	// While it waits, a second one is refused. If the second one was first, it is refused itself, and begins again.
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the trace does not begin")
		}
		select {
		case <-ended:
			begin()
			continue
		default:
		}
		if status, _, _ := weir("ctl", "--socket", b.socket("s1"), "trace", "--wait", "1ms"); status == statusUsage {
			break
		}
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || out.String() != "interrupted before all the packets came\n" {
		t.Errorf("%v: %q", err, &out)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
}

// TestCaptureUnanswered: a capture at a switch that hangs ends as other calls do, whatever would end it otherwise, and makes no file.
func TestCaptureUnanswered(t *testing.T) {
	hung := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", hung)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // accepts none: the kernel does, as for a process that is stopped
	file := filepath.Join(t.TempDir(), "x.pcapng")
	want := "weir: the switch at " + hung + " did not answer within 50ms: see whether it hangs, or raise --timeout\n"
	for _, more := range [][]string{nil, {"--count", "1"}, {"--duration", "10ms"}} {
		args := append([]string{"ctl", "--socket", hung, "--timeout", "50ms", "capture", "-w", file}, more...)
		if status, stdout, stderr := weir(args...); status != statusFailure || stdout != "" || stderr != want {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was made")
	}
	want = strings.TrimSuffix(want, "\n") + "; the change is dropped unless the switch had begun with it: \"weir ctl show config\" has what is in force\n"
	if status, _, stderr := weir("ctl", "--socket", hung, "--timeout", "50ms", "set", "port", "down", "left"); status != statusFailure || stderr != want {
		t.Errorf("a change: status %d, %q", status, stderr)
	}
}
