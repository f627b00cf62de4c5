package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// guestsName selects the guests among the drivers.
const guestsName = "guests"

// selectGuests returns what WEIR_VM selects, and skips the test if that is a driver.
func selectGuests(t *testing.T) (selected string) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes half a minute: make vm-some, or vm-test")
	}
	selected = os.Getenv("WEIR_VM")
	if selected != "" && selected != "full" && selected != guestsName {
		t.Skipf("WEIR_VM=%s selects a driver", selected)
	}
	return selected
}

// TestGuests is two virtual machines on one switch of this machine, by vhost-user: pings both ways, TCP with equal
// SHA-256, the switch killed and started during a transfer, and one of the machines killed and started. The rows are the machines.
func TestGuests(t *testing.T) {
	selected := selectGuests(t)
	kernel := requireKernel(t)
	programs := build(t)
	g := &guests{t: t, kernel: kernel, programs: programs, dir: t.TempDir(), bytes: 8 << 20, graph: "patch", ports: 2}
	if selected == "full" {
		g.bytes = 64 << 20
	}
	g.startSwitch()
	t.Cleanup(func() { g.weir.kill() })
	second := g.start(g.machine(1))
	first := g.start(g.machine(0))
	for ended := false; !ended; {
		select {
		case r := <-g.results:
			if r.Outcome == Begun && r.Test == Restart {
				g.weir.kill()
				g.startSwitch()
				g.restarted = true
			}
			if r.Outcome == Begun && r.Test == Reboot {
				second.stop()
				second = g.start(g.machine(1))
			}
		case <-first.ended:
			ended = true
		case <-second.ended:
			t.Fatalf("the second machine ended: %v\n%s", second.err, second.log())
		}
	}
	second.stop()
	g.finish(first)
}

// TestMigration: a virtual machine moves from one port of a switch to another, by QEMU's live migration, while another one talks to it: the
// log of dirty pages has what the switch wrote into its memory, for TCP goes on in the middle of its connections.
func TestMigration(t *testing.T) {
	selected := selectGuests(t)
	rings := map[string]string{"split": "virtio-net-pci"}
	if selected != "" {
		rings["packed"] = "virtio-net-pci,packed=on"
	}
	kernel, programs := requireKernel(t), build(t)
	for ring, device := range rings {
		t.Run(ring, func(t *testing.T) {
			g := &guests{t: t, kernel: kernel, programs: programs, dir: t.TempDir(), bytes: 1 << 20, graph: "l2", ports: 3}
			g.migrate(device)
		})
	}
}

// migrate moves the second machine, with a NIC of a device, from its port to the third one.
func (g *guests) migrate(device string) {
	t := g.t
	g.startSwitch()
	t.Cleanup(func() { g.weir.kill() })
	here, there, first := g.machine(1), g.machine(1), g.machine(0)
	first.Plan.End.Migrate = true
	here.Device, there.Device = device, device
	here.Monitor, there.Monitor = filepath.Join(g.dir, "here"), filepath.Join(g.dir, "there")
	there.Incoming, there.Socket = filepath.Join(g.dir, "incoming"), g.socket(2)
	second, target, asking := g.start(here), g.start(there), g.start(first)
	began, moved := 0, make(chan migrated, 1)
	for after := 0; after < 2; { // a transfer that has ended on the other side, and one that was all there
		select {
		case <-g.results:
			if began++; began == 1 {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), machineWait)
					defer cancel()
					m, err := here.Migrate(ctx, there)
					if err == nil {
						err = g.compareMemory(ctx, here, there)
					}
					err = errors.Join(err, there.Continue(ctx))
					moved <- migrated{m, err}
				}()
			}
			if second == nil {
				after++
			}
		case m := <-moved:
			t.Logf("%s after %d ms, the machine stood still for %d ms; %d bytes of memory, %d readings of the log", m.Status, m.Total, m.Downtime, m.RAM.Transferred, m.RAM.Syncs)
			if m.err != nil {
				t.Fatalf("%v\n%s\n%s", m.err, second.log(), target.log())
			}
			second.stop()
			second = nil
		case <-asking.ended:
			t.Fatalf("the first machine ended: %v\n%s", asking.err, asking.log())
		case <-target.ended:
			t.Fatalf("the machine that the second one moves to ended: %v\n%s", target.err, target.log())
		}
	}
	asking.stop()
	target.stop()
	report := g.weir.stop(t)
	if !report.Balanced || report.Frames.Lost != 0 || report.Frames.Faults != 0 {
		t.Errorf("%+v", report)
	}
	for _, p := range report.Ports {
		if p.ReceivedBytes < 1<<20 { // of each transfer 2 MiB come from either machine
			t.Errorf("%s received %d bytes", p.Name, p.ReceivedBytes)
		}
	}
	if t.Failed() {
		t.Logf("the first machine:\n%s\nthe second one:\n%s\nthe switch:\n%s", asking.log(), target.log(), &g.weir.log)
	}
}

// guests is the switch and what came of the machines.
type guests struct {
	t         *testing.T
	kernel    *Kernel
	programs  Programs
	dir       string
	bytes     int64
	weir      *weirProcess
	restarted bool
	starts    int
	graph     string // the stage that forwards: patch, l2
	ports     int
	results   chan Result // those that wait for something

	mu    sync.Mutex
	table Table
	count map[Test]int
}

// machine is a machine that runs.
type machine struct {
	*Machine
	stop  func() // ends it and waits
	ended chan struct{}
	err   error // once ended is closed
}

func (m *machine) log() string {
	console, _ := os.ReadFile(m.ConsoleFile())
	messages, _ := os.ReadFile(m.MessagesFile())
	return string(console) + string(messages)
}

// migrated is what came of a migration.
type migrated struct {
	Migration
	err error
}

// compareMemory compares the memory of a machine that has moved with what it had: the log of dirty pages has all that the switch wrote.
func (g *guests) compareMemory(ctx context.Context, here, there *Machine) error {
	memory := [2][]byte{}
	for i, m := range []*Machine{here, there} {
		file := filepath.Join(m.Dir, "memory")
		err := m.SaveMemory(ctx, file)
		if err == nil {
			memory[i], err = os.ReadFile(file)
		}
		if err := errors.Join(err, os.Remove(file)); err != nil {
			return err
		}
	}
	const page = 4096
	if len(memory[0]) != guestMemory<<20 || len(memory[1]) != len(memory[0]) {
		return fmt.Errorf("%d and %d bytes of memory", len(memory[0]), len(memory[1]))
	}
	var others []string
	for at := 0; at < len(memory[0]); at += page {
		if !bytes.Equal(memory[0][at:at+page], memory[1][at:at+page]) {
			others = append(others, fmt.Sprintf("%#x", at))
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("%d pages are not what they were: %v", len(others), others[:min(len(others), 20)])
	}
	return nil
}

// machine is one of the two, to be started.
func (g *guests) machine(number int) *Machine {
	g.starts++
	return &Machine{
		Kernel: g.kernel, Programs: Programs{Guest: g.programs.Guest}, Dir: filepath.Join(g.dir, fmt.Sprintf("machine%d", g.starts)), Socket: g.socket(number),
		Device: "virtio-net-pci", Plan: Plan{Modules: virtioModules, End: &End{Number: number, Bytes: g.bytes}},
	}
}

func (g *guests) start(of *Machine) *machine {
	if g.results == nil {
		g.results, g.count = make(chan Result), map[Test]int{}
	}
	if err := os.Mkdir(of.Dir, 0o700); err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), machineWait)
	m := &machine{ended: make(chan struct{}), Machine: of}
	m.stop = func() { cancel(); <-m.ended }
	g.t.Cleanup(m.stop)
	go func() {
		defer close(m.ended)
		m.err = m.Run(ctx, func(r Result) { g.take(ctx, r) })
	}()
	return m
}

func (g *guests) socket(number int) string {
	return filepath.Join(g.dir, fmt.Sprintf("vm%d.sock", number+1))
}

// take notes a result, or passes on that a test waits.
func (g *guests) take(ctx context.Context, r Result) {
	if r.Outcome == Begun {
		select {
		case g.results <- r:
		case <-ctx.Done():
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.t.Logf("%s: %s: %s in %.0f s %s", r.Row, r.Test, r.Outcome, r.Seconds, r.Text)
	g.table.Add("vhost", r)
	g.count[r.Test]++
	if r.Outcome != OK {
		g.t.Errorf("%s: %s: %s: %s", r.Row, r.Test, r.Outcome, r.Text)
	}
}

// finish checks what there is when the first machine has ended.
func (g *guests) finish(first *machine) {
	report := g.weir.stop(g.t)
	g.mu.Lock()
	defer g.mu.Unlock()
	if first.err != nil {
		g.t.Error(first.err)
	}
	// The second machine pings before it is killed, and behind its start if the first one leaves it the time.
	if g.count[Ping] < 2 || g.count[TCP] != 1 || g.count[Restart] != 1 || g.count[Reboot] != 1 || !g.restarted {
		g.t.Errorf("results are missing: %v", g.count)
	}
	const half = 2 << 20 / 2 // of what each machine sends while the switch restarts
	if !report.Balanced || report.Frames.Lost != 0 || report.Frames.Faults != 0 {
		g.t.Errorf("%+v", report)
	}
	for _, p := range report.Ports {
		if p.ReceivedBytes < half {
			g.t.Errorf("%s received %d bytes from the new switch's start on: the transfer was over before", p.Name, p.ReceivedBytes)
		}
	}
	var text bytes.Buffer
	if err := g.table.Write(&text); err != nil {
		g.t.Fatal(err)
	}
	g.t.Logf("Linux %s\n%s", g.kernel.Version, &text)
	if g.t.Failed() {
		g.t.Logf("the first machine:\n%s\nthe switch:\n%s", first.log(), &g.weir.log)
	}
}

// weirProcess is a switch that runs on this machine.
type weirProcess struct {
	command  *exec.Cmd
	out, log bytes.Buffer
}

// startSwitch starts the switch and waits until it forwards.
func (g *guests) startSwitch() {
	t := g.t
	t.Helper()
	path := filepath.Join(g.dir, "switch.toml")
	config := fmt.Sprintf(`
[switch]
name = "s"
id = 1
graph = ["parse", %q]
[dataplane]
audit = true
[control]
socket = %q
`, g.graph, filepath.Join(g.dir, "weir.sock"))
	for i := range g.ports {
		config += fmt.Sprintf("[[port]]\nname = \"vm%d\"\ndriver = \"vhost\"\nsocket = %q\n", i+1, g.socket(i))
	}
	if g.graph == "patch" {
		config += "[stages.patch]\npairs = [[\"vm1\", \"vm2\"]]\n"
	}
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ready, child, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	w := &weirProcess{command: exec.Command(g.programs.Weir, "switch", "-c", path, "--report", "json")}
	w.command.Stdout, w.command.Stderr = &w.out, &w.log
	w.command.ExtraFiles = []*os.File{child}
	w.command.Env = append(os.Environ(), "WEIR_READY_FD=3")
	err = w.command.Start()
	child.Close()
	if err != nil {
		t.Fatal(err)
	}
	_ = ready.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if line, err := bufio.NewReader(ready).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		w.kill()
		t.Fatalf("the switch is not ready: %v\n%s", err, &w.log)
	}
	g.weir = w
}

func (w *weirProcess) kill() {
	_ = w.command.Process.Kill() // it may have ended
	_ = w.command.Wait()
}

// switchReport is what the test reads of a switch's report.
type switchReport struct {
	Ports []struct {
		Name          string `json:"name"`
		ReceivedBytes uint64 `json:"received_bytes"`
	} `json:"ports"`
	Balanced bool `json:"balanced"`
	Frames   struct {
		Lost   int `json:"lost"`
		Faults int `json:"faults"`
	} `json:"frames"`
}

func (w *weirProcess) stop(t *testing.T) (report switchReport) {
	t.Helper()
	_ = w.command.Process.Signal(unix.SIGTERM)
	if err := w.command.Wait(); err != nil {
		t.Errorf("the switch ended with %v\n%s", err, &w.log)
	}
	if err := json.Unmarshal(w.out.Bytes(), &report); err != nil {
		t.Errorf("its report: %v: %s", err, &w.out)
	}
	return report
}
