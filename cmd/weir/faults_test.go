package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/telemetry/record"
)

// testStage gives a switch that a test starts a stage with faults, called faulty.
const testStage = "WEIR_TEST_STAGE"

func init() {
	if os.Getenv(testStage) == "1" {
		stages.Kinds["faulty"] = stages.Kind{
			Help:     "panics and fills disks",
			Default:  func() any { return new(faultyStage) },
			Validate: func(any, []string) error { return nil },
			New:      func(any, pipeline.Env) (pipeline.Module, error) { return new(faultyStage), nil },
		}
	}
}

// faultyStage panics at a packet that says BANG, and has a large record
// whenever it is asked.
type faultyStage struct{}

func (*faultyStage) Role() pipeline.Role        { return pipeline.RoleIngress }
func (*faultyStage) Needs() packet.Needs        { return 0 }
func (s *faultyStage) Stage(int) pipeline.Stage { return s }

func (*faultyStage) Process(b *packet.Batch) {
	for i := range b.Pkts {
		if bytes.HasPrefix(b.Data(&b.Pkts[i])[14:], []byte("BANG")) {
			panic("the test's own fault")
		}
	}
}

// Collect implements export.Source.
func (*faultyStage) Collect(now int64, _ bool, emit record.Emit) {
	emit(&record.Header{Kind: record.LDS, Start: now, Span: 1}, func(dst []byte) ([]byte, error) {
		return append(dst, make([]byte, 8<<10)...), nil
	})
}

// shownPort is what these tests read of weir ctl show ports.
type shownPort struct {
	Name, Mode, State, Error string
	Index                    int
	Rebuilds                 int
	Settings                 []nic.Change
	Refused                  []nic.Refusal
}

func (b *testbed) show(t *testing.T, name string) []shownPort {
	t.Helper()
	var ports struct{ Ports []shownPort }
	status, stdout, stderr := weir("ctl", "--socket", b.socket(name), "show", "ports", "--json")
	if err := json.Unmarshal([]byte(stdout), &ports); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	return ports.Ports
}

// await waits until the first port is in a state.
func (b *testbed) await(t *testing.T, name, state string) shownPort {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		p := b.show(t, name)[0]
		if p.State == state {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("p0 does not become %s: %+v", state, p)
		}
	}
}

// recreate makes the cable of p0 anew.
func (b *testbed) recreate(t *testing.T) {
	t.Helper()
	h := b.hosts[0]
	err := netns.AddVeth(netns.End{Namespace: h.NS, Name: h.Interface, MAC: h.MAC}, netns.End{Namespace: b.ns, Name: "p0"}, netns.Veth{})
	if err = errors.Join(err, h.NS.SetHostOffloads(h.Interface), b.ns.SetSwitchOffloads("p0"), h.NS.SetARP(h.Interface, false),
		b.ns.SetUp("p0"), h.NS.SetUp(h.Interface), b.ns.WaitUp("p0", time.Minute), h.NS.WaitUp(h.Interface, time.Minute)); err != nil {
		t.Fatal(err)
	}
}

// TestInterfaceReturns: a switch as users run it loses an interface and gets
// it back, and says so in its log and to weir ctl.
func TestInterfaceReturns(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"))
	b.exchange(t, 5)
	before := b.show(t, "s1")[0]
	if before.State != "up" || before.Index == 0 || before.Error != "" {
		t.Errorf("at the beginning: %+v", before)
	}
	const times = 3
	rebuilds := 0
	for range times {
		if err := b.ns.DeleteLink("p0"); err != nil {
			t.Fatal(err)
		}
		if gone := b.await(t, "s1", "gone"); !strings.HasPrefix(gone.Error, "no interface p0 in this network namespace") {
			t.Errorf("gone: %+v", gone)
		}
		// What is for it meanwhile is dropped, and counted.
		if err := b.hosts[1].Packet(t).Send(testFrame(1, 2, 1000)); err != nil {
			t.Fatal(err)
		}
		b.recreate(t)
		back := b.await(t, "s1", "up")
		// The switch may take up an interface that is still being set up, and once more then.
		if back.Index == before.Index || back.Mode != before.Mode || back.Rebuilds <= rebuilds {
			t.Errorf("back: %+v, was %+v, after %d rebuilds", back, before, rebuilds)
		}
		rebuilds = back.Rebuilds
		b.exchange(t, 5)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	r := p.report(t)
	if sent := uint64(10*(times+1) + times); r.Received != sent || r.Forwarded+r.Dropped["port_down"] != sent ||
		r.Dropped["port_down"] > times || !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("last report: %+v", r)
	}
	for _, want := range []string{`"state": "gone"`, `"state": "up"`, "no interface p0"} {
		if n := strings.Count(p.stderr.String(), want); n < times {
			t.Errorf("the log says %s %d times: %s", want, n, &p.stderr)
		}
	}
	b.checkClean(t)
}

// TestInterfaceComesLate: a switch starts without an interface that may be
// missing, and takes it up.
func TestInterfaceComesLate(t *testing.T) {
	b := newTestbed(t, 0)
	if err := b.ns.DeleteLink("p0"); err != nil {
		t.Fatal(err)
	}
	p := b.start(t, b.config(t, "s1", `interface = "p0"`, "interface = \"p0\"\noptional = true\nqueues = 1"))
	if gone := b.await(t, "s1", "gone"); gone.Index != 0 || !strings.HasPrefix(gone.Error, "no interface p0") {
		t.Errorf("before: %+v", gone)
	}
	b.recreate(t)
	if up := b.await(t, "s1", "up"); up.Index == 0 || up.Error != "" || !strings.HasPrefix(up.Mode, "native, copy") {
		t.Errorf("then: %+v", up)
	}
	b.exchange(t, 5)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); r.Received != 10 || r.Forwarded != 10 || !r.Balanced || r.Frames.Lost != 0 {
		t.Errorf("last report: %+v", r)
	}
	b.checkClean(t)
}

// TestStagePanics: a switch without one of its workers would forward wrongly,
// so it ends, with the reason and its books in order.
func TestStagePanics(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1", `"parse", "patch"`, `"parse", "faulty", "patch"`), testStage+"=1")
	b.exchange(t, 5)
	bang := testFrame(2, 1, 0)
	copy(bang[14:], "BANG")
	if err := b.hosts[0].Packet(t).Send(bang); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if status := p.cmd.ProcessState.ExitCode(); status != 1 {
		t.Errorf("status %d, want 1: %s", status, &p.stderr)
	}
	if said := p.stderr.String(); !strings.Contains(said, "weir: worker 0: the test's own fault") || !strings.Contains(said, "faultyStage") {
		t.Errorf("it says %s", said)
	}
	r := p.report(t)
	if r.Received != 11 || r.Forwarded != 10 || r.Dropped["shutdown"] != 1 || !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("last report: %+v", r)
	}
	b.checkClean(t)
}

// TestDiskFull: a spool on a disk that is full loses records, which are
// counted, and no packet.
func TestDiskFull(t *testing.T) {
	b := newTestbed(t, 0)
	disk := filepath.Join(b.dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	p := b.start(t, b.config(t, "s1", `"parse", "patch"`, `"parse", "faulty", "patch"`,
		"[control]", fmt.Sprintf("[telemetry]\nspool = %q\n[control]", disk)), testStage+"=1")
	lost := func() (n float64) {
		var metrics struct {
			Metrics []struct {
				Name  string
				Value float64
			}
		}
		_, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "telemetry", "--json")
		if err := json.Unmarshal([]byte(stdout), &metrics); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		for _, m := range metrics.Metrics {
			if m.Name == "lost_records_total" {
				n += m.Value
			}
		}
		return n
	}
	const frames = 200
	b.exchange(t, frames)
	for deadline := time.Now().Add(2 * time.Minute); lost() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no record is lost on a full disk")
		}
	}
	b.exchange(t, frames)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); r.Received != 4*frames || r.Forwarded != 4*frames || !r.Balanced || r.Frames.Lost != 0 {
		t.Errorf("last report: %+v", r)
	}
}

// TestControlSocketLost: no client can reach a switch whose socket was removed; it
// forwards as before.
func TestControlSocketLost(t *testing.T) {
	b := newTestbed(t, 0)
	p := b.start(t, b.config(t, "s1"))
	if err := os.Remove(b.socket("s1")); err != nil {
		t.Fatal(err)
	}
	b.exchange(t, 50)
	if status, _, _ := weir("ctl", "--socket", b.socket("s1"), "show", "ports"); status == 0 {
		t.Errorf("ctl ends with %d", status)
	}
	p.stop(t)
	if r := p.report(t); r.Received != 100 || r.Forwarded != 100 || !r.Balanced || r.Frames.Lost != 0 {
		t.Errorf("last report: %+v", r)
	}
	b.checkClean(t)
}
