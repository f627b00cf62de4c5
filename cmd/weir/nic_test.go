package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/nic"
)

// nic runs weir nic in the testbed's namespace.
func (b *testbed) nic(t *testing.T, args ...string) string {
	t.Helper()
	cmd := weirCommand(append([]string{"nic"}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := b.ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	return out.String()
}

// TestNIC: what a port changes on its interface is in show ports and in nic show while the switch runs; what a
// killed switch leaves, nic restore puts back, and the next switch puts back if it does not want it.
func TestNIC(t *testing.T) {
	b := newTestbed(t, 0)
	old := deferral{"1", "50000"}
	b.setDeferral(t, "p0", deferRounds, old.rounds)
	b.setDeferral(t, "p0", deferFlush, old.flush)
	polled := b.config(t, "s1", `interface = "p0"`, "interface = \"p0\"\nrss = \"symmetric\"\nbusy_poll = 50")
	changes := []nic.Change{{Name: deferRounds, Was: "1", Is: "100"}, {Name: deferFlush, Was: "50000", Is: "2000000"}}

	p := b.start(t, polled)
	shown := b.show(t, "s1")[0]
	refused := []nic.Refusal{{Name: "rss-transform", Why: "the driver has no such setting: the two directions of a flow may arrive on different queues, and so at different workers"}}
	if !cmp.Equal(shown.Settings, changes) || !cmp.Equal(shown.Refused, refused) {
		t.Errorf("show ports: %+v", shown)
	}
	if got := b.nic(t, "show", "p0"); !strings.Contains(got, "a running switch has changed 2 settings") {
		t.Errorf("nic show: %s", got)
	}
	if got := b.nic(t, "restore"); !strings.Contains(got, "uses it") {
		t.Errorf("nic restore beside a switch: %s", got)
	}
	p.kill()
	var looked []lookedAt
	if err := json.Unmarshal([]byte(b.nic(t, "show", "--json")), &looked); err != nil {
		t.Fatal(err)
	}
	if len(looked) != 2 || !looked[0].Left || !cmp.Equal(looked[0].Held, changes) || looked[1].Held != nil {
		t.Errorf("nic show --json: %+v", looked)
	}
	b.setDeferral(t, "p0", deferRounds, "3")
	if got := b.nic(t, "restore", "p0"); !strings.Contains(got, "gro_flush_timeout     2000000  50000  put back") || !strings.Contains(got, "napi_defer_hard_irqs  100      3      changed since") {
		t.Errorf("nic restore: %s", got)
	}
	if d := b.deferral(t, "p0"); d != (deferral{"3", old.flush}) {
		t.Errorf("restored: %+v", d)
	}
	if got := b.nic(t, "restore"); got != "nothing to put back\n" {
		t.Errorf("nic restore again: %s", got)
	}

	b.setDeferral(t, "p0", deferRounds, old.rounds)
	b.start(t, polled).kill()
	p = b.start(t, b.config(t, "s1"))
	if d := b.deferral(t, "p0"); d != old {
		t.Errorf("with the next switch: %+v", d)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	b.checkClean(t)
}

// TestCheckTellsPorts: --check tells what each port would be granted, and of interfaces that are elsewhere that
// it does not know.
func TestCheckTellsPorts(t *testing.T) {
	b := newTestbed(t, 0)
	cmd := weirCommand("switch", "--check", "-c", b.config(t, "s1", `"p1"`, `"p9"`))
	var out strings.Builder
	cmd.Stdout = &out
	if err := b.ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"is good: switch s1, 2 ports",
		"port p0: veth: native, copy (the driver has no zero-copy); 1 queue\n",
		"port p9: no interface p9 here, so nothing is known of it\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %q: %s", want, &out)
		}
	}
}

// check runs weir switch --check in the bed's namespace, and returns what it says and its status.
func (b *testbed) check(t *testing.T, config string, flags ...string) (said string, status int) {
	t.Helper()
	cmd := weirCommand(append([]string{"switch", "--check", "-c", config}, flags...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := b.ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// TestCheckHere: what this machine refuses is listed in one go, with the lines of the file: a core, interfaces that another
// switch has, and one whose name is too long. The status says so with --here alone, and a switch's own interfaces are not taken.
func TestCheckHere(t *testing.T) {
	b := newTestbed(t, 0)
	own := b.config(t, "s1")
	p := b.start(t, own)
	if out, status := b.check(t, own, "--here"); status != 0 || strings.Contains(out, "would not start") {
		t.Errorf("the running switch's own file: status %d, %s", status, out)
	}
	other := b.config(t, "s2", `"p1"`, `"a-name-of-20-letters"`, `poll = "interrupt"`, "poll = \"interrupt\"\ncores = [9999]")
	want := []string{
		"workers.cores[0]: core 9999 is not one that the process may use",
		"port[0].interface: another XDP program is attached to p0: it is that of the switch with control socket " + b.socket("s1"),
		"port[1].interface: no interface a-name-of-20-letters here, and the name of one has at most 15 characters",
	}
	for _, flags := range [][]string{nil, {"--here"}} {
		out, status := b.check(t, other, flags...)
		if status != 2*len(flags) || strings.Contains(out, " is good") == (status != 0) {
			t.Errorf("%q: status %d, %s", flags, status, out)
		}
		for _, w := range want {
			if _, before, _ := strings.Cut(out, other+":"); !strings.Contains(out, w) || before == "" {
				t.Errorf("%q: without %q: %s", flags, w, out)
			}
		}
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestCheckLoopback: one port, on an interface without a driver.
func TestCheckLoopback(t *testing.T) {
	b := newTestbed(t, 0)
	out, status := b.check(t, b.config(t, "s1", `"patch"]`, `"l2"]`, `"p0"`, `"lo"`,
		"[[port]]\ninterface = \"p1\"\n[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", ""))
	if status != 0 || !strings.Contains(out, "is good: switch s1, 1 port, graph") || !strings.Contains(out, "port lo: no driver: generic") {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestCheckHereMTU: an MTU beyond a frame is what the start refuses, so --check --here does, too.
func TestCheckHereMTU(t *testing.T) {
	b := newTestbed(t, 9000)
	const long = "the MTU of p1 is 9000, but a frame holds a packet of 1792 bytes: set jumbo = true or the MTU to 1774"
	config := b.config(t, "s1")
	if out, status := b.check(t, config, "--here"); status != 2 || !strings.Contains(out, "port[1].interface: "+long) {
		t.Errorf("status %d: %s", status, out)
	}
	expectFaults(t, b.refuse(t, weirCommand("switch", "-c", config)), "port p0: the MTU of p0 is 9000", "port p1: "+long)
	jumbo := b.config(t, "s1", "interface = \"p0\"", "interface = \"p0\"\njumbo = true", "interface = \"p1\"", "interface = \"p1\"\njumbo = true")
	if out, status := b.check(t, jumbo, "--here"); status != 0 {
		t.Errorf("with jumbo: status %d: %s", status, out)
	}
	b.checkClean(t)
	lo := b.config(t, "s2", `"patch"]`, `"l2"]`, `"p0"`, `"lo"`,
		"[[port]]\ninterface = \"p1\"\n[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", "")
	if out, status := b.check(t, lo, "--here"); status != 2 || !strings.Contains(out, "port[0].interface: the MTU of lo is 65536") {
		t.Errorf("lo: status %d: %s", status, out)
	}
}

// TestCheckHereControl: what only the start found out is found by --check --here, which makes nothing.
func TestCheckHereControl(t *testing.T) {
	b := newTestbed(t, 0)
	const metrics = "127.0.0.1:19464"
	if err := b.ns.SetUp("lo"); err != nil {
		t.Fatal(err)
	}
	p := b.start(t, b.config(t, "s1", "[control]\n", "[control]\nmetrics = \""+metrics+"\"\n"))
	if out, status := b.check(t, filepath.Join(b.dir, "s1.toml"), "--here"); status != 0 {
		t.Errorf("the running switch's own file: status %d, %s", status, out)
	}
	file := filepath.Join(b.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, control, want string }{
		{"group", `group = "no-such-group"`, ": control.group: "},
		{"audit", `audit = "` + b.dir + `/none/audit.log"`, ": control.audit: "},
		{"audit below a file", `audit = "` + file + `/audit.log"`, ": control.audit: "},
		{"metrics", `metrics = "` + metrics + `"`, ": control.metrics: "},
		{"tls", "[control.tls]\nlisten = \"127.0.0.1:19465\"\ncertificate = \"" + file + "\"\nkey = \"/none\"\nclient_ca = \"/none\"\n", ": control.tls.certificate: "},
		{"spool", "[telemetry]\nspool = \"" + file + "/a/b\"", ": telemetry.spool: "},
		{"collector", "[telemetry]\nspool = \"" + b.dir + "/new/spool\"\ncollector = [\"nats://127.0.0.1:4222\"]\ntoken_file = \"/none\"", ": telemetry.token_file: "},
		{"workers", "[workers]", ": workers.count: the queues of the ports keep 2 of 3 workers busy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := fmt.Sprintf("socket = %q\n", b.socket("s2"))
			edit := []string{socket, socket + tt.control}
			if tt.name == "workers" {
				edit = []string{"[workers]\n", "[workers]\ncount = 3\npin = false\n"}
			}
			config := b.config(t, "s2", edit...)
			out, status := b.check(t, config, "--here")
			if _, where, _ := strings.Cut(out, config+":"); status != 2 || !strings.Contains(out, tt.want) || where == "" {
				t.Errorf("status %d, want %q: %s", status, tt.want, out)
			}
		})
	}
	for _, made := range []string{"none", "new", "audit.log"} {
		if _, err := os.Stat(filepath.Join(b.dir, made)); err == nil {
			t.Errorf("%s was made", made)
		}
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestDownLinks: a link that is down is the first thing that people forget, so --check and the log of a switch that starts say so.
func TestDownLinks(t *testing.T) {
	b := newTestbed(t, 0)
	if err := b.ns.SetDown("p0"); err != nil {
		t.Fatal(err)
	}
	const remedy = "the link is down (ip link set dev p0 up)"
	config := b.config(t, "s1")
	if out, status := b.check(t, config); status != 0 || strings.Count(out, "the link is down") != 1 || !strings.Contains(out, remedy) {
		t.Errorf("status %d: %s", status, out)
	}
	p := b.start(t, config)
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d", status)
	}
	if log := p.stderr.String(); strings.Count(log, "port has no link") != 1 || !strings.Contains(log, remedy) {
		t.Errorf("the log: %s", log)
	}
}

// TestCutsOff: a port on the interface of the host's default route takes away what an operator may be logged in by, so --check, nic show
// and the log of a switch that starts say so, of a member of a bridge, too.
func TestCutsOff(t *testing.T) {
	for name, route := range map[string]func(ns *netns.Namespace) (by string, err error){
		"the interface": func(ns *netns.Namespace) (string, error) {
			return "", errors.Join(ns.AddAddress("p0", netip.MustParsePrefix("192.0.2.1/24")),
				ns.AddRoute("p0", netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("192.0.2.2")))
		},
		"a bridge": func(ns *netns.Namespace) (string, error) {
			return " (dev br0)", errors.Join(ns.AddBridge("br0", "p0"), ns.AddAddress("br0", netip.MustParsePrefix("192.0.2.1/24")),
				ns.AddRoute("br0", netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("192.0.2.2")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, 0)
			by, err := route(b.ns)
			if err != nil {
				t.Fatal(err)
			}
			want := "the host's default route" + by + " leads over p0, whose packets the port takes"
			config := b.config(t, "s1")
			if out, status := b.check(t, config); status != 0 || strings.Count(out, "default route") != 1 || !strings.Contains(out, want) {
				t.Errorf("status %d: %s", status, out)
			}
			if got := b.nic(t, "show", "p0"); !strings.Contains(got, want) {
				t.Errorf("nic show p0: %s", got)
			}
			if got := b.nic(t, "show", "p1"); strings.Contains(got, "default route") {
				t.Errorf("nic show p1: %s", got)
			}
			kept := b.config(t, "s2", `interface = "p0"`, "interface = \"p0\"\nkeep = [\"arp\", \"ssh\"]")
			if out, status := b.check(t, kept); status != 0 || strings.Contains(out, "default route") {
				t.Errorf("with a keep list: status %d: %s", status, out)
			}
			if by != "" {
				return // a port on a member of a bridge is another matter
			}
			p := b.start(t, config)
			if status := p.stop(t); status != 0 {
				t.Errorf("status %d", status)
			}
			if log := p.stderr.String(); strings.Count(log, "port cuts the host off") != 1 || !strings.Contains(log, want) {
				t.Errorf("the log: %s", log)
			}
		})
	}
}
