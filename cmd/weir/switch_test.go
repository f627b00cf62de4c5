package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// prefix begins the names of this package's namespaces.
const prefix = "wc"

// testPoor makes the test binary give up the privilege to lock memory, and
// then be weir.
const testPoor = "WEIR_TEST_POOR"

// becomePoor lowers the limit of locked memory, drops CAP_IPC_LOCK, which
// would lift it, for all programs to come, and becomes weir.
func becomePoor() {
	runtime.LockOSThread()
	limit := unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	err := errors.Join(
		unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit),
		unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0),
		os.Setenv(testPoor, ""),
		unix.Exec("/proc/self/exe", os.Args, os.Environ()),
	)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(125)
}

// testbed is a namespace for switches, with two interfaces p0 and p1 that lead
// to a host each. No host sends unasked.
type testbed struct {
	ns    *netns.Namespace
	hosts [2]*netnstest.Host
	dir   string
}

func newTestbed(t *testing.T, mtu int) *testbed {
	t.Helper()
	netnstest.Require(t)
	b := &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	for i := range b.hosts {
		b.hosts[i] = netnstest.NewHost(t, prefix,
			netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i), MTU: mtu}, fmt.Sprintf("10.0.0.%d/24", i+1))
	}
	netnstest.Introduce(t, b.hosts[:]...)
	return b
}

// config writes the configuration of a switch on p0 and p1. edit may replace
// parts of it: old, new, old, new...
func (b *testbed) config(t *testing.T, name string, edit ...string) (path string) {
	t.Helper()
	text := fmt.Sprintf(`[switch]
name = %q
graph = ["parse", "patch"]
[dataplane]
audit = true
[workers]
poll = "interrupt"
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[stages.patch]
pairs = [["p0", "p1"]]
[control]
socket = %q
`, name, b.socket(name))
	path = filepath.Join(b.dir, name+".toml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(edit...).Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (b *testbed) socket(name string) string { return filepath.Join(b.dir, name+".sock") }

// attached reports whether an interface has an XDP program.
func (b *testbed) attached(t *testing.T, name string) bool {
	t.Helper()
	l, err := b.ns.Link(name)
	if err != nil {
		t.Fatal(err)
	}
	xdp := l.Attrs().Xdp
	return xdp != nil && xdp.Attached
}

// checkClean: no program on an interface and no socket is left.
func (b *testbed) checkClean(t *testing.T) {
	t.Helper()
	for _, name := range []string{"p0", "p1"} {
		if b.attached(t, name) {
			t.Errorf("%s has an XDP program", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*.sock")); len(left) != 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

// process is a running weir switch.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr logged
}

// start starts a switch and waits until it is ready.
func (b *testbed) start(t *testing.T, config string, env ...string) *process {
	t.Helper()
	p := &process{cmd: weirCommand("switch", "-c", config, "--report", "json")}
	b.startCommand(t, p, env...)
	return p
}

// startCommand starts a command that is, or becomes, a switch, in the same way.
func (b *testbed) startCommand(t *testing.T, p *process, env ...string) {
	t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	ready, child, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	p.cmd.ExtraFiles = []*os.File{child} // descriptor 3
	p.cmd.Env = append(append(p.cmd.Env, readyVariable+"=3"), env...)
	err = b.ns.Start(p.cmd)
	_ = child.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill() })
	if line, err := io.ReadAll(ready); err != nil || string(line) != "ready\n" {
		p.kill()
		t.Fatalf("the switch says %q, %v: %s", line, err, &p.stderr)
	}
}

// kill ends the process by SIGKILL, if it has not ended.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// stop ends the process by SIGTERM and returns its status.
func (p *process) stop(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// lastReport is what this package reads of a report.
type lastReport struct {
	Name      string
	Received  uint64
	Forwarded uint64
	Dropped   map[string]uint64
	Balanced  bool
	Modes     []string
	Frames    struct{ Total, Lost, Faults int }
	Stages    []struct{ Name string }
}

func (p *process) report(t *testing.T) (r lastReport) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(p.stdout.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		t.Fatalf("%v: %s", err, &p.stdout)
	}
	return r
}

// testFrame is an Ethernet frame between two stations of the local experimental
// type, 60 bytes long, with a number in it.
func testFrame(to, from byte, n uint32) []byte {
	f := make([]byte, 60)
	copy(f, []byte{2, 0, 0, 0, 1, to, 2, 0, 0, 0, 1, from, 0x88, 0xb6, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	return f
}

// exchange sends n frames in each direction, one after the other, and expects each at the
// far end.
func (b *testbed) exchange(t *testing.T, n int) {
	t.Helper()
	a, z := b.hosts[0].Packet(t), b.hosts[1].Packet(t)
	buf := make([]byte, 2048)
	for i := range n {
		for _, direction := range []struct {
			from, to *netns.PacketSocket
			frame    []byte
		}{{a, z, testFrame(2, 1, uint32(i))}, {z, a, testFrame(1, 2, uint32(i))}} {
			if err := direction.from.Send(direction.frame); err != nil {
				t.Fatal(err)
			}
			if err := direction.to.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n, err := direction.to.Receive(buf); err != nil || !bytes.Equal(buf[:n], direction.frame) {
				t.Fatalf("frame %d: got %x, %v", i, buf[:max(n, 0)], err)
			}
		}
	}
}

// TestFavour: threads of a switch that are no workers have a higher nice value, also those that it makes later.
func TestFavour(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"))
	b.exchange(t, 50)
	if status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "ports"); status != 0 {
		t.Fatal(stderr)
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	workers, others := 0, 0
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		switch priority, err := unix.Getpriority(unix.PRIO_PROCESS, id); {
		case errors.Is(err, unix.ESRCH):
		case err != nil:
			t.Error(err)
		case priority == own: // 20 less the nice value
			workers++
		case priority == max(own-10, 1):
			others++
		default:
			t.Errorf("thread %d has nice value %d", id, 20-priority)
		}
	}
	if workers != 1 || others == 0 {
		t.Errorf("%d threads go first, %d do not, of a switch with one worker", workers, others)
	}
}

// TestSwitch takes a switch through its life.
func TestSwitch(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"))
	info, err := os.Stat(b.socket("s1"))
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("control socket: %v, %v", info.Mode(), err)
	}
	b.exchange(t, 50)

	show := func(what string) string {
		status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", what, "--json")
		if status != 0 || stderr != "" {
			t.Errorf("show %s: status %d, %s", what, status, stderr)
		}
		return stdout
	}
	var ports struct {
		Ports []struct {
			Name, Mode                       string
			Up                               bool
			Received, Forwarded, Transmitted int
		}
	}
	if err := json.Unmarshal([]byte(show("ports")), &ports); err != nil || len(ports.Ports) != 2 {
		t.Fatalf("ports %+v, %v", ports, err)
	}
	for i, port := range ports.Ports {
		if port.Name != fmt.Sprintf("p%d", i) || !port.Up || port.Received != 50 || port.Forwarded != 50 || port.Transmitted != 50 ||
			!strings.HasPrefix(port.Mode, "native, copy") {
			t.Errorf("port %d: %+v", i, port)
		}
	}
	var config struct{ Toml string }
	if err := json.Unmarshal([]byte(show("config")), &config); err != nil || !strings.Contains(config.Toml, "rx_ring = 2048\n") {
		t.Errorf("config %q, %v", config.Toml, err)
	}
	for _, what := range []string{"stages", "workers", "telemetry", "report", "version"} {
		if out := show(what); !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 {
			t.Errorf("show %s prints no line of JSON: %q", what, out)
		}
	}
	if status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "fdb"); status == 0 || stdout != "" ||
		stderr != "weir: this switch has no forwarding database: its graph has no stage l2\n" {
		t.Errorf("show fdb: status %d, %q, %q", status, stdout, stderr)
	}

	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	r := p.report(t)
	if r.Name != "s1" || r.Received != 100 || r.Forwarded != 100 || len(r.Dropped) != 0 || !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 ||
		len(r.Stages) != 2 || r.Stages[0].Name != "parse" || r.Stages[1].Name != "patch" || len(r.Modes) != 2 || !strings.HasPrefix(r.Modes[0], "p0: native, copy") {
		t.Errorf("last report: %+v", r)
	}
	if strings.Contains(p.stderr.String(), "weir:") {
		t.Errorf("it complains: %s", &p.stderr)
	}
	b.checkClean(t)
}

// TestSwitchAnswersMany: readers at once do not hurt forwarding or each other.
func TestSwitchAnswersMany(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1", `poll = "interrupt"`, "count = 2"))
	var readers sync.WaitGroup
	for i := range 6 {
		readers.Go(func() {
			for range 10 {
				what := []string{"ports", "stages", "workers"}[i%3]
				if status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "show", what); status != 0 {
					t.Errorf("show %s: status %d, %s", what, status, stderr)
				}
			}
		})
	}
	b.exchange(t, 100)
	readers.Wait()
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); r.Received != 200 || r.Forwarded != 200 || !r.Balanced {
		t.Errorf("last report: %+v", r)
	}
}

// TestShowFdb: the database of a learning switch, static entries first here by
// their address.
func TestShowFdb(t *testing.T) {
	b := newTestbed(t, 0)
	b.start(t, b.config(t, "s1", `"patch"]`, `"l2"]`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]",
		"[stages.l2]\n[[stages.l2.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\""))
	b.exchange(t, 1)
	// Learning is done off the packet path, soon after.
	var fields []string
	for deadline := time.Now().Add(time.Minute); len(fields) != 20 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "fdb")
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		fields = strings.Fields(stdout)
	}
	for _, i := range []int{14, 19} { // ages depend on the second's edge
		if i < len(fields) && (fields[i] == "0s" || fields[i] == "1s") {
			fields[i] = "0s"
		}
	}
	want := []string{
		"VLAN", "MAC", "PORT", "KIND", "AGE",
		"-", "02:00:00:00:00:01", "p1", "static", "-",
		"-", "02:00:00:00:01:01", "p0", "learned", "0s",
		"-", "02:00:00:00:01:02", "p1", "learned", "0s",
	}
	if !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
}

// TestNotify: systemd is notified when the switch is ready and when it stops.
func TestNotify(t *testing.T) {
	b := newTestbed(t, 0)
	path := filepath.Join(b.dir, "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	expect := func(want string) {
		buf := make([]byte, 100)
		_ = systemd.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := systemd.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("got %q, %v, want %q", buf[:max(n, 0)], err, want)
		}
	}
	p := b.start(t, b.config(t, "s1"), "NOTIFY_SOCKET="+path)
	expect("READY=1")
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	expect("STOPPING=1")
}

// refuse runs a switch that must end with status 2 by itself, and returns what
// it says, without the name of the program.
func (b *testbed) refuse(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := b.ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != statusUsage || stdout.Len() != 0 {
		t.Fatalf("status %d, want %d; %q, %q", status, statusUsage, &stdout, &stderr)
	}
	var said []string
	for line := range strings.Lines(stderr.String()) {
		text, ok := strings.CutPrefix(line, "weir: ")
		if !ok {
			t.Errorf("a line that is no fault: %q", line)
		}
		said = append(said, strings.TrimSpace(text))
	}
	return said
}

func expectFaults(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d faults, want %d: %q", len(got), len(want), got)
	}
	for i := range got {
		for _, part := range strings.Split(want[i], " ... ") {
			if !strings.Contains(got[i], part) {
				t.Errorf("fault %d: got %q, want %q in it", i, got[i], part)
			}
		}
	}
}

// TestRefusals: what the machine does not allow is reported in one sentence with
// the remedy, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	b := newTestbed(t, 0)
	try := func(name string, setUp func(*exec.Cmd), edit []string, want ...string) {
		t.Run(name, func(t *testing.T) {
			cmd := weirCommand("switch", "-c", b.config(t, "s1", edit...))
			if setUp != nil {
				setUp(cmd)
			}
			expectFaults(t, b.refuse(t, cmd), want...)
			b.checkClean(t)
		})
	}
	try("missing interface", nil, []string{`"p1"`, `"nope"`},
		"s1.toml:11: port[1].interface: no interface nope here: create it or correct the name (ip link shows what there is)")
	try("two missing interfaces", nil, []string{`"p0"`, `"no0"`, `"p1"`, `"no1"`},
		"port[0].interface: no interface no0 here", "port[1].interface: no interface no1 here")
	try("a missing interface, and too many queues", nil, []string{`"p0"`, `"no0"`, `interface = "p1"`, "interface = \"p1\"\nqueues = 9"},
		"port[0].interface: no interface no0 here", "port p1: 9 queues are configured")
	try("too many queues", nil, []string{`interface = "p1"`, "interface = \"p1\"\nqueues = 9"},
		"port p1: 9 queues are configured but p1 has 1: set queues = 1, or give the interface more")
	try("two ports on one interface", nil, []string{`interface = "p1"`, "name = \"p1\"\ninterface = \"p0\""},
		"s1.toml:12: port[1].interface: port[0] is on \"p0\" already: an interface has one port, name another")
	try("unknown key", nil, []string{"audit", "adit"}, `s1.toml:5: dataplane.adit: there is no such key: did you mean "audit"?`)
	try("no privilege", func(cmd *exec.Cmd) {
		// Root of a new user namespace has no power over the network namespace.
		root := []syscall.SysProcIDMap{{Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: root, GidMappings: root}
	}, nil, "port p0: ... no privilege: run as root or grant CAP_", "port p1: ... no privilege: run as root or grant CAP_")
	try("too little locked memory", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, testPoor+"=1") }, nil,
		"lock ... ulimit -l")
	try("no descriptor", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, readyVariable+"=x") }, nil,
		`WEIR_READY_FD="x" is not a descriptor: set it to the number of one`)
	try("closed descriptor", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, readyVariable+"=77") }, nil,
		"WEIR_READY_FD=77 is not open: set it to the number of a descriptor")
	try("native zero-copy", nil, []string{"audit", "copy = \"zero-copy\"\naudit"}, "zero-copy ... copy")
}

// TestRefusesWhatIsTaken: an interface with another's program, and another's
// socket; the other goes on.
func TestRefusesWhatIsTaken(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"))
	theirs := fmt.Sprintf("it is that of the switch with control socket %s, process %d: stop that switch, have it leave the interface (weir ctl --socket %[1]s set port down NAME)",
		b.socket("s1"), p.cmd.Process.Pid)
	expectFaults(t, b.refuse(t, weirCommand("switch", "-c", b.config(t, "s2"))),
		"another XDP program is attached to p0: "+theirs, "another XDP program is attached to p1: "+theirs)
	expectFaults(t, b.refuse(t, weirCommand("switch", "-c", b.config(t, "s1"))),
		"control socket "+b.socket("s1")+": a running switch listens there: stop it, or give this one another switch.name or control.socket")
	b.exchange(t, 10)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	b.checkClean(t)
}

// TestRefusesLongPackets: an MTU beyond a frame needs jumbo, and says so.
func TestRefusesLongPackets(t *testing.T) {
	b := newTestbed(t, 9000)
	expectFaults(t, b.refuse(t, weirCommand("switch", "-c", b.config(t, "s1"))),
		"port p0: the MTU of p0 is 9000 ... set jumbo = true", "port p1: the MTU of p1 is 9000 ... set jumbo = true")
	b.checkClean(t)
}

// TestKilled: a switch that was killed leaves nothing that keeps the next one
// from starting at once.
func TestKilled(t *testing.T) {
	b := newTestbed(t, 0)
	config := b.config(t, "s1")
	kills := 100
	if testing.Short() {
		kills = 10
	}
	for range kills {
		p := b.start(t, config)
		b.exchange(t, 1)
		p.kill()
	}
	deadline := time.Now().Add(time.Minute)
	for b.attached(t, "p0") || b.attached(t, "p1") {
		if time.Now().After(deadline) {
			t.Fatal("a minute after its end the switch's program is on the interface")
		}
		time.Sleep(time.Millisecond)
	}
	p := b.start(t, config)
	b.exchange(t, 1)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	b.checkClean(t)
}

// TestInterfaceDown: a switch goes on when an interface comes back, and ends
// like any other when one is taken away.
func TestInterfaceDown(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"))
	b.exchange(t, 5)
	if err := b.ns.SetDown("p0"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.ns.SetUp("p0"), b.ns.WaitUp("p0", time.Minute)); err != nil {
		t.Fatal(err)
	}
	b.exchange(t, 5)
	if err := b.ns.DeleteLink("p0"); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "ports"); status != 0 || !strings.Contains(stdout, "gone") {
		t.Errorf("show ports: status %d, %q, %q", status, stdout, stderr)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); r.Received != 20 || r.Forwarded != 20 || !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("last report: %+v", r)
	}
}

// TestAsavieDown: the library of the asavie driver panics when it must send by
// an interface that is down. The switch drops and counts, and goes on once the
// interface is up.
func TestAsavieDown(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1", `interface = "p0"`, "interface = \"p0\"\ndriver = \"asavie\""))
	b.exchange(t, 5)
	if err := b.ns.SetDown("p0"); err != nil {
		t.Fatal(err)
	}
	// The first packet is in the ring when the library notices; the others
	// find the port down.
	for n := range uint32(3) {
		if err := b.hosts[1].Packet(t).Send(testFrame(1, 2, 100+n)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := errors.Join(b.ns.SetUp("p0"), b.ns.WaitUp("p0", time.Minute)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // the packet from the ring leaves first
	b.exchange(t, 5)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); r.Received != 23 || r.Forwarded+r.Dropped["port_down"] != 23 || r.Dropped["port_down"] == 0 || !r.Balanced || r.Frames.Lost != 0 {
		t.Errorf("last report: %+v", r)
	}
	b.checkClean(t)
}
