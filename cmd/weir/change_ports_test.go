package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// patched is a switch that patches p0 to another port, with what goes wrong at a port
// counted.
type patched struct {
	*changingRouter
	p       *process
	file    string
	workers int
}

func newPatched(t *testing.T, workers int) *patched {
	r := newRouter(t)
	x := &patched{changingRouter: r, file: filepath.Join(r.dir, r.name+".toml"), workers: workers}
	x.write(t, "p1", 0, "p0", "p1")
	x.p = r.start(t, x.file)
	return x
}

// write writes a configuration of the named ports, of which p0 is patched to one.
func (x *patched) write(t *testing.T, to string, rules int, ports ...string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "[switch]\nname = %q\ngraph = [\"parse\", \"acl\", \"patch\"]\n[dataplane]\naudit = true\n[workers]\npoll = \"interrupt\"\ncount = %d\n", x.name, x.workers)
	for _, name := range ports {
		fmt.Fprintf(&text, "[[port]]\ninterface = %q\n", name)
	}
	for i := range rules {
		fmt.Fprintf(&text, "[[stages.acl.rule]]\naction = \"deny\"\nsrc = \"172.16.%d.%d/32\"\n", rules%256, i)
	}
	fmt.Fprintf(&text, "[stages.patch]\npairs = [[\"p0\", %q]]\n[control]\nsocket = %q\naudit = %q\n", to, x.socket(x.name), filepath.Join(x.dir, "audit.log"))
	if err := os.WriteFile(x.file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shown are the ports as weir ctl shows them.
func (x *patched) shown(t *testing.T) (ports []countedPort) {
	t.Helper()
	var r struct{ Ports []countedPort }
	if err := json.Unmarshal([]byte(x.ctl(t, "show", "ports", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	return r.Ports
}

type countedPort struct {
	shownPort
	Received, Transmitted uint64
	Dropped               map[string]uint64
	TxUnsent              uint64 `json:"tx_unsent"`
	NoSocket              uint64 `json:"no_socket"`
}

// blocked is what packets met that a port did not take while it was closed: all that
// a change of a port may cost.
func blocked(ports []countedPort) (n uint64) {
	for _, p := range ports {
		n += p.Dropped["port_down"] + p.TxUnsent + p.NoSocket
	}
	return n
}

// TestPortsUnderLoad: with numbered packets under way, tables change and ports come and
// go without a loss; a port that is closed and opened with other settings costs what
// its counters say, and nothing else.
func TestPortsUnderLoad(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) { testPortsUnderLoad(t, workers) })
	}
}

func testPortsUnderLoad(t *testing.T, workers int) {
	x := newPatched(t, workers)
	defer func() {
		if status := x.p.stop(t); status != 0 {
			t.Errorf("status %d: %s", status, &x.p.stderr)
		}
		if r := x.p.report(t); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
			t.Errorf("last report: %+v", r)
		}
		x.checkClean(t)
	}()
	const rate = 4000
	t.Run("tables", func(t *testing.T) {
		l := x.load(t, rate, rate)
		n := 0
		for ; len(l.done) == 0; n++ {
			x.write(t, "p1", 100+n%100, "p0", "p1")
			x.ctl(t, "reload")
		}
		x.lossless(t, l, fmt.Sprintf("%d changes of acl", n))
	})
	t.Run("ports come and go", func(t *testing.T) {
		l := x.load(t, rate, 2*rate)
		n := 0
		for ; len(l.done) == 0; n++ {
			if n%2 == 0 {
				x.write(t, "p2", 50, "p0", "p2", "p1")
			} else {
				x.write(t, "p1", 60, "p1", "p0")
			}
			x.ctl(t, "reload")
		}
		if at := x.lossless(t, l, fmt.Sprintf("port p2 came or went, with its pair, %d times", n)); at[0] == 0 || at[1] == 0 {
			t.Errorf("received %v: the pair did not change under the load", at)
		}
	})
	if workers > 1 {
		return
	}
	t.Run("settings", func(t *testing.T) {
		x.write(t, "p1", 0, "p0", "p1")
		x.ctl(t, "reload")
		before := blocked(x.shown(t))
		cost := func() uint64 { return blocked(x.shown(t)) - before }
		l := x.load(t, rate, 2*rate)
		n := 0
		for ; len(l.done) == 0; n++ {
			x.ctl(t, "set", "port", "change", "p1", fmt.Sprintf("rate_bits=%d", 1_000_000_000*(n%2)))
		}
		sent, at := l.received(t, cost)
		lost := int64(sent) - int64(at[0])
		fmt.Printf("reload under load: port p1 closed and opened with another rate %d times at %d packets/s: lost %d, blocked time %.3f ms each\n",
			n, rate, lost, float64(lost)/rate*1e3/float64(n))
		if lost != int64(cost()) || n == 0 {
			t.Errorf("%d packets are lost, and the ports count %d, of %d changes", lost, cost(), n)
		}
	})
	t.Run("down and up", func(t *testing.T) {
		before := blocked(x.shown(t))
		cost := func() uint64 { return blocked(x.shown(t)) - before }
		l := x.load(t, rate, rate)
		n := 0
		for ; len(l.done) == 0; n++ {
			x.ctl(t, "set", "port", "down", "p1")
			if x.attached(t, "p1") {
				t.Error("p1 is down and has an XDP program")
			}
			x.ctl(t, "set", "port", "up", "p1")
		}
		sent, at := l.received(t, cost)
		lost := int64(sent) - int64(at[0])
		if lost != int64(cost()) || n == 0 {
			t.Errorf("%d of %d packets are lost, and the ports count %d", lost, sent, cost())
		}
		// What arrives at an interface without our program is in none of our counters.
		x.ctl(t, "set", "port", "down", "p0")
		x.ctl(t, "set", "port", "up", "p0")
		x.lossless(t, x.load(t, rate, 400), fmt.Sprintf("p1 went down and up %d times, p0 once, and both are up again", n))
	})
}

// lossless ends a load that must arrive whole, and prints what became of it.
func (x *patched) lossless(t *testing.T, l *load, what string) (at []uint64) {
	t.Helper()
	sent, at := l.received(t)
	lost := int64(sent) - int64(at[0]+at[1])
	fmt.Printf("reload under load: %s: sent %d, lost %d\n", what, sent, lost)
	if lost != 0 {
		t.Errorf("%d of %d packets are lost", lost, sent)
	}
	return at
}

// TestPortsRefused: what cannot be is refused by name, and nothing of the same change
// is in force then.
func TestPortsRefused(t *testing.T) {
	x := newPatched(t, 1)
	refused := func(want string, args ...string) {
		t.Helper()
		status, stdout, stderr := weir(append([]string{"ctl", "--socket", x.socket(x.name)}, args...)...)
		if status != 1 || stdout != "" || !strings.HasPrefix(stderr, want) {
			t.Errorf("%v: status %d, %q, %q, want %q", args, status, stdout, stderr, want)
		}
		if x.attached(t, "p2") || strings.Contains(x.ctl(t, "show", "config"), "172.16") {
			t.Errorf("%v: a refused change is half in force", args)
		}
		if n := len(x.shown(t)); n != 2 {
			t.Errorf("%v: there are %d ports", args, n)
		}
	}
	x.write(t, "p1", 5, "p0", "p1", "p2", "p9")
	refused("weir: port[3]: port p9: no interface p9 in this network namespace", "reload")
	x.write(t, "p9", 5, "p0", "p1", "p2")
	refused("weir: "+x.file, "reload")
	x.write(t, "p0", 5, "p0", "p2")
	refused("weir: "+x.file, "reload")
	refused("weir: stages.patch.pairs[0]: port \"p1\" is not defined", "set", "port", "remove", "name=p1")
	refused("weir: port[1].queues: cannot change while the port is there", "set", "port", "change", "p1", "queues=1")
	refused("weir: port[0].interface: missing", "set", "port", "change", "p0", "interface=")
	refused("weir: port: 0 elements are like that", "set", "port", "down", "p7")
	refused("weir: port[2]: port p2: 9 queues are configured but p2 has 1", "set", "port", "add", "interface=p2", "queues=9")
	refused("weir: port[2]: port p2: jumbo: no port had it when the switch started", "set", "port", "add", "interface=p2", "jumbo=true")
	// An interface that a program of another kind has is a reason that only shows when all else is done.
	x.write(t, "p1", 5, "p0", "p1", "p2")
	free := x.occupy(t, "p2")
	if status, _, stderr := weir("ctl", "--socket", x.socket(x.name), "reload"); status != 1 || !strings.HasPrefix(stderr, "weir: port[2]: another XDP program is attached to p2") {
		t.Errorf("an interface of another switch: status %d, %s", status, stderr)
	}
	free()
	refused("weir: dataplane.frames: ", "set", "port", "add", "interface=p9", "queues=256", "optional=true")
	if got := x.ctl(t, "reload"); strings.Count(got, "\n") != 6 || !strings.Contains(got, "+ port[2] = {name = \"p2\", interface = \"p2\"") {
		t.Errorf("reload says %q", got)
	}
	if status := x.p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &x.p.stderr)
	}
}

// occupy gives an interface to another switch, and returns what takes it back.
func (x *patched) occupy(t *testing.T, name string) (free func()) {
	t.Helper()
	other := x.config(t, "other", `interface = "p0"`, fmt.Sprintf("interface = %q", name), "[[port]]\ninterface = \"p1\"\n", "", `["p0", "p1"]`, "")
	p := x.start(t, other)
	return func() { p.stop(t) }
}

// TestPortReturns: a port that comes again has the number and the counts that it had;
// a disabled one waits for its time, and an optional one for its interface.
func TestPortReturns(t *testing.T) {
	x := newPatched(t, 1)
	send := func(n uint64) {
		t.Helper()
		x.lossless(t, x.load(t, 2000, n), "after a change")
	}
	send(100)
	x.write(t, "p2", 0, "p0", "p2")
	x.ctl(t, "reload")
	send(100)
	ports := x.shown(t)
	if len(ports) != 3 || ports[1].State != "removed" || ports[1].Transmitted != 100 || ports[2].Transmitted != 100 {
		t.Errorf("p1 was removed: %+v", ports)
	}
	x.write(t, "p1", 0, "p1", "p0")
	x.ctl(t, "reload")
	send(100)
	if ports = x.shown(t); ports[1].Name != "p1" || ports[1].State != "up" || ports[1].Transmitted != 200 || ports[2].State != "removed" {
		t.Errorf("p1 is back: %+v", ports)
	}
	x.ctl(t, "set", "port", "add", "name=p2", "interface=p2", "disabled=true")
	if ports = x.shown(t); ports[2].State != "disabled" || x.attached(t, "p2") {
		t.Errorf("p2 is disabled: %+v", ports[2])
	}
	x.ctl(t, "set", "port", "up", "p2")
	if ports = x.shown(t); ports[2].State != "up" || !x.attached(t, "p2") || ports[2].Transmitted != 100 {
		t.Errorf("p2 is up: %+v", ports[2])
	}
	x.ctl(t, "set", "port", "add", "interface=p3", "optional=true", "queues=1")
	if ports = x.shown(t); len(ports) != 4 || ports[3].State != "gone" {
		t.Errorf("p3 is not there: %+v", ports)
	}
	err := netns.AddVeth(netns.End{Namespace: x.hosts[0].NS, Name: "eth3"}, netns.End{Namespace: x.ns, Name: "p3"}, netns.Veth{})
	if err = errors.Join(err, x.ns.SetUp("p3"), x.hosts[0].NS.SetUp("eth3")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ports[3].State != "up"; ports = x.shown(t) {
		if time.Now().After(deadline) {
			t.Fatalf("p3 does not come: %+v", ports[3])
		}
	}
	if config := x.ctl(t, "show", "config"); strings.Count(config, "[[port]]") != 4 {
		t.Errorf("the configuration in force:\n%s", config)
	}
	send(100)
	if status := x.p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &x.p.stderr)
	}
	if r := x.p.report(t); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("last report: %+v", r)
	}
}

// TestFailingSettings: a port that cannot be opened with its new settings is open with
// those that it had, and so is one that took its own in the same change. The kernel runs no native
// program at a veth whose peer sends longer packets than a page holds, which
// shows only when the port is opened.
func TestFailingSettings(t *testing.T) {
	x := newPatched(t, 1)
	send := func(what string) {
		t.Helper()
		x.lossless(t, x.load(t, 2000, 200), what)
	}
	x.ctl(t, "set", "port", "change", "p1", "mode=generic")
	if err := x.hosts[1].NS.SetMTU("eth0", 9000); err != nil {
		t.Fatal(err)
	}
	send("before the changes")
	before, ports := x.ctl(t, "show", "config"), x.shown(t)
	x.write(t, "p1", 5, "p0", "p1")
	text, err := os.ReadFile(x.file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "interface = \"p0\"\n", "interface = \"p0\"\nmode = \"generic\"\n", 1)
	changed = strings.Replace(changed, "interface = \"p1\"\n", "interface = \"p1\"\nmode = \"native\"\n", 1)
	if err := os.WriteFile(x.file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"reload"}, {"set", "port", "change", "p1", "mode=native"}} {
		status, stdout, stderr := weir(append([]string{"ctl", "--socket", x.socket(x.name)}, args...)...)
		if status != 1 || stdout != "" || !strings.HasPrefix(stderr, "weir: port[1]: ") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
		if after := x.ctl(t, "show", "config"); after != before {
			t.Errorf("%v: the configuration in force is another one:\n%s", args, after)
		}
		for i, p := range x.shown(t) {
			if p.State != "up" || !x.attached(t, p.Name) || p.Mode != ports[i].Mode {
				t.Errorf("%v: %+v, and before %+v", args, p, ports[i])
			}
		}
		send("after a change that was refused")
	}
	if status := x.p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &x.p.stderr)
	}
	if r := x.p.report(t); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("last report: %+v", r)
	}
	x.checkClean(t)
}
