package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// changingRouter is a switch with every stage that can change, and three hosts: the one
// at p0 sends to a network behind gateways at p1 and p2.
type changingRouter struct {
	*testbed
	hosts []*netnstest.Host
	name  string
}

func newRouter(t *testing.T) *changingRouter {
	netnstest.Require(t)
	r := &changingRouter{testbed: &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}, name: "r1"}
	for i := range 3 {
		r.hosts = append(r.hosts, netnstest.NewHost(t, prefix, netnstest.Port{Namespace: r.ns, Name: fmt.Sprintf("p%d", i)}))
	}
	return r
}

// write writes the configuration with extra tables at its end.
func (r *changingRouter) write(t *testing.T, gateway int, extra string) (path string) {
	t.Helper()
	text := fmt.Sprintf(`[switch]
name = %q
graph = ["parse", "policer", "acl", "l3", "mirror"]
[dataplane]
audit = true
[workers]
poll = "interrupt"
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "p2"
[[stages.l3.interface]]
port = "p0"
addresses = ["10.0.0.1/24"]
mac = "06:00:00:00:00:00"
[[stages.l3.interface]]
port = "p1"
addresses = ["10.0.1.1/24"]
[[stages.l3.interface]]
port = "p2"
addresses = ["10.0.2.1/24"]
[[stages.l3.neighbour]]
address = "10.0.1.2"
mac = "02:00:00:00:01:02"
port = "p1"
[[stages.l3.neighbour]]
address = "10.0.2.2"
mac = "02:00:00:00:02:02"
port = "p2"
[[stages.l3.route]]
prefix = "198.19.0.0/16"
via = ["10.0.%d.2"]
[control]
socket = %q
audit = %q
%s`, r.name, gateway, r.socket(r.name), filepath.Join(r.dir, "audit.log"), extra)
	path = filepath.Join(r.dir, r.name+".toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ctl makes a call that must succeed.
func (r *changingRouter) ctl(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	status, stdout, stderr := weir(append([]string{"ctl", "--socket", r.socket(r.name)}, args...)...)
	if status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, stderr)
	}
	return stdout
}

// load sends numbered packets from p0's host and counts them at the others.
type load struct {
	sinks []*traffic.PacketSink
	done  chan traffic.Sent
}

func (r *changingRouter) load(t *testing.T, rate float64, count uint64) *load {
	t.Helper()
	return r.loadOf(t, 128, rate, count)
}

// loadOf sends packets of a size, in bytes with FCS.
func (r *changingRouter) loadOf(t *testing.T, size int, rate float64, count uint64) *load {
	t.Helper()
	w := traffic.DefaultWorkload()
	w.Sizes = traffic.Fixed(size)
	w.Source.Net, w.Destination.Net = netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.0.0/16")
	l := &load{done: make(chan traffic.Sent, 1)}
	for _, h := range r.hosts[1:] {
		sink, err := traffic.NewPacketSink(traffic.Port{Namespace: h.NS, Interface: h.Interface}, w, traffic.DefaultSinkOptions())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sink.Close() })
		l.sinks = append(l.sinks, sink)
	}
	source, err := traffic.NewPacketSource(traffic.Port{Namespace: r.hosts[0].NS, Interface: r.hosts[0].Interface}, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	go func() {
		sent, err := source.Run(t.Context(), traffic.Load{Rate: rate, Count: count})
		if err != nil {
			t.Error(err)
		}
		l.done <- sent
	}()
	return l
}

// received waits for the end of the load, and for what is under way; those that are known
// to be lost are not waited for.
func (l *load) received(t *testing.T, lost ...func() uint64) (sent uint64, at []uint64) {
	t.Helper()
	s := <-l.done
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		at = nil
		sum := uint64(0)
		for _, sink := range l.sinks {
			report, err := sink.Report()
			if err != nil {
				t.Fatal(err)
			}
			if report.Overflow != 0 {
				t.Skipf("the sink itself lost %d packets: the machine is too busy", report.Overflow)
			}
			at = append(at, report.Unique())
			sum += report.Unique()
		}
		for _, f := range lost {
			sum += f()
		}
		if sum >= s.Packets || time.Now().After(deadline) {
			return s.Packets, at
		}
	}
}

// TestReloadUnderLoad: reloads that change the access control list, routes and
// rate limits lose not one numbered packet, and packets go where the newest
// routes say.
func TestReloadUnderLoad(t *testing.T) {
	r := newRouter(t)
	file := r.write(t, 1, "")
	p := r.start(t, file)
	l := r.load(t, 5000, 20_000)
	reloads := 0
	for len(l.done) == 0 {
		reloads++
		var rules strings.Builder
		for i := range 200 {
			fmt.Fprintf(&rules, "[[stages.acl.rule]]\nname = \"r%d\"\naction = \"deny\"\nsrc = \"172.16.%d.%d/32\"\n", i, reloads%256, i)
		}
		fmt.Fprintf(&rules, "[[stages.acl.rule]]\nname = \"all\"\naction = \"count\"\n[[stages.policer.port]]\nname = \"p0\"\nrate_bits = %d\n", 1_000_000_000+reloads)
		r.write(t, 1+reloads%2, rules.String())
		if reloads%10 == 0 {
			if err := p.cmd.Process.Signal(unix.SIGHUP); err != nil {
				t.Fatal(err)
			}
			continue
		}
		r.ctl(t, "reload", file)
	}
	sent, at := l.received(t)
	fmt.Printf("reload under load: %d reloads of acl, l3 and policer, sent %d, received %d at one gateway and %d at the other, lost %d\n",
		reloads, sent, at[0], at[1], int64(sent)-int64(at[0]+at[1]))
	if at[0]+at[1] != sent {
		t.Errorf("%d of %d packets are lost", int64(sent)-int64(at[0]+at[1]), sent)
	}
	if reloads < 4 || at[0] == 0 || at[1] == 0 {
		t.Errorf("%d reloads, received %v: the routes did not change under the load", reloads, at)
	}
	var list struct {
		Rules []struct {
			Name    string
			Packets uint64
		}
	}
	if err := json.Unmarshal([]byte(r.ctl(t, "show", "acl", "--json")), &list); err != nil || len(list.Rules) != 202 {
		t.Fatalf("%d rules, %v", len(list.Rules), err)
	}
	if n := list.Rules[200]; n.Name != "all" || n.Packets == 0 || n.Packets > sent {
		t.Errorf("the counting rule: %+v of %d packets", n, sent)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if report := p.report(t); report.Received != sent || report.Forwarded != sent || len(report.Dropped) != 0 || !report.Balanced {
		t.Errorf("last report: %+v", report)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "audit.log"))
	if lines := strings.Count(string(text), "\n"); err != nil || lines == 0 || lines > reloads {
		t.Errorf("%d lines in the audit log of %d reloads, %v", lines, reloads, err)
	}
}

// TestSetAndClear: single changes are in force at once, shown, and undone.
func TestSetAndClear(t *testing.T) {
	r := newRouter(t)
	p := r.start(t, r.write(t, 1, ""))
	expect := func(want string, args ...string) {
		t.Helper()
		if got := r.ctl(t, args...); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		status, stdout, stderr := weir(append([]string{"ctl", "--socket", r.socket(r.name)}, args...)...)
		if status != 1 || stdout != "" || stderr != want {
			t.Errorf("%v: status %d, %q, %q, want %q", args, status, stdout, stderr, want)
		}
	}
	expect("+ stages.acl.rule[0] = {name = \"no\", action = \"deny\", protocol = \"udp\"}\n", "set", "acl", "add", "name=no", "action=deny", "protocol=udp")
	expect("+ stages.acl.rule[0] = {name = \"log\", action = \"count\", in_ports = [\"p0\", \"p1\"]}\n", "set", "acl", "add", "name=log", "action=count", "in_ports=p0,p1", "--at", "1")
	l := r.load(t, 5000, 100)
	<-l.done
	type rule struct {
		Name, Match    string
		Packets, Bytes uint64
	}
	var list struct{ Rules []rule }
	for deadline := time.Now().Add(5 * time.Second); (len(list.Rules) == 0 || list.Rules[1].Packets != 100) && time.Now().Before(deadline); {
		if err := json.Unmarshal([]byte(r.ctl(t, "show", "acl", "--json")), &list); err != nil {
			t.Fatal(err)
		}
	}
	want := []rule{{"log", `in_ports = ["p0" "p1"]`, 100, 12400}, {"no", `protocol = "udp"`, 100, 12400}, {"default", "", 0, 0}}
	if fmt.Sprint(list.Rules) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", list.Rules, want)
	}
	expect("cleared the counts of 3 rules\n", "clear", "acl")
	if err := json.Unmarshal([]byte(r.ctl(t, "show", "acl", "--json")), &list); err != nil || list.Rules[0].Packets != 0 || list.Rules[1].Bytes != 0 {
		t.Errorf("after clear: %v, %v", list.Rules, err)
	}
	expect("- stages.acl.rule[1] = {name = \"no\", action = \"deny\", protocol = \"udp\"}\n", "set", "acl", "remove", "name=no")
	refused("weir: stages.acl.rule: 0 elements are like that: give keys that one element has, or its place\n", "set", "acl", "remove", "name=no")

	expect("+ stages.l3.route[1] = {prefix = \"10.7.0.0/16\", via = [\"10.0.1.2\", \"10.0.2.2\"], weights = [1, 2]}\n",
		"set", "route", "add", "prefix=10.7.0.0/16", "via=10.0.1.2,10.0.2.2", "weights=1,2")
	if got := strings.Join(strings.Fields(r.ctl(t, "show", "routes")), " "); !strings.Contains(got, "10.7.0.0/16 route 10.0.1.2 p1 10.7.0.0/16 route 10.0.2.2 (weight 2) p2") || !strings.Contains(got, "10.0.1.0/24 connected - p1") {
		t.Errorf("routes: %s", got)
	}
	expect("+ stages.l3.neighbour[2] = {address = \"10.0.1.9\", mac = \"02:00:00:00:00:09\", port = \"p1\"}\n",
		"set", "neighbour", "add", "address=10.0.1.9", "mac=02:00:00:00:00:09", "port=p1")
	if got := r.ctl(t, "show", "neighbours"); !strings.Contains(got, "10.0.1.9  p1    02:00:00:00:00:09  static") {
		t.Errorf("neighbours: %s", got)
	}
	refused("weir: stages.l3.route[2].via[0]: 10.9.9.9 is in no network of an interface: correct the address, or give a port one of that network\n",
		"set", "route", "add", "prefix=10.6.0.0/16", "via=10.9.9.9")
	refused("weir: stages.l2: the graph has no such stage: there are parse, policer, acl, l3, mirror\n", "set", "fdb", "add", "mac=02:00:00:00:00:01", "port=p0")
	refused("weir: this switch has no forwarding database: its graph has no stage l2\n", "clear", "fdb")
	if config := r.ctl(t, "show", "config"); !strings.Contains(config, "10.7.0.0/16") {
		t.Errorf("the configuration in force lacks the route:\n%s", config)
	}
	// The file has none of it.
	got := r.ctl(t, "reload")
	for _, line := range []string{"- stages.acl.rule[0]", "- stages.l3.route[1]", "- stages.l3.neighbour[2]"} {
		if !strings.Contains(got, line) {
			t.Errorf("reload says %q, want %q in it", got, line)
		}
	}
	expect("nothing differs\n", "reload")
	file := filepath.Join(r.dir, r.name+".toml")
	text, _ := os.ReadFile(file)
	if err := os.WriteFile(file, []byte(strings.NewReplacer("audit = true", "audit = false", "count", "count", `interface = "p2"`, "interface = \"p2\"\nqueues = 2",
		"[control]", "[[stages.acl.rule]]\naction = \"deny\"\n[control]").Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("weir: dataplane.audit: cannot change while the switch runs: restart it\nweir: port[2].queues: cannot change while the port is there: remove the port, and add it anew\n", "reload")
	if config := r.ctl(t, "show", "config"); strings.Contains(config, "deny") {
		t.Error("a refused reload is half in force")
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
}

// TestSetFdb: a static station comes, moves what was learned, and goes; learned
// ones are flushed by port.
func TestSetFdb(t *testing.T) {
	b := newTestbed(t, 0)
	b.start(t, b.config(t, "s1", `"patch"]`, `"l2"]`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]", ""))
	b.exchange(t, 3)
	ctl := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := weir(append([]string{"ctl", "--socket", b.socket("s1")}, args...)...)
		if status != 0 {
			t.Fatalf("%v: %s", args, stderr)
		}
		return stdout
	}
	for deadline := time.Now().Add(5 * time.Second); strings.Count(ctl("show", "fdb"), "learned") != 2; {
		if time.Now().After(deadline) {
			t.Fatal("nothing was learned")
		}
	}
	ctl("set", "fdb", "add", "mac=02:00:00:00:01:01", "port=p0")
	if got := ctl("show", "fdb"); !strings.Contains(got, "02:00:00:00:01:01  p0    static") || strings.Count(got, "02:00:00:00:01:01") != 1 {
		t.Errorf("fdb:\n%s", got)
	}
	if got := ctl("clear", "fdb", "--port", "p1"); got != "forgot 1 stations\n" {
		t.Errorf("clear says %q", got)
	}
	b.exchange(t, 3)
	ctl("set", "fdb", "remove", "mac=02:00:00:00:01:01")
	if got := ctl("show", "fdb"); strings.Contains(got, "static") {
		t.Errorf("fdb:\n%s", got)
	}
	b.exchange(t, 3)
	if got := ctl("reload"); got != "nothing differs\n" {
		t.Errorf("reload says %q", got)
	}
}

// TestPatchReload: pairs change under way, and the file is sent by the client.
func TestPatchReload(t *testing.T) {
	b := newTestbed(t, 0)
	file := b.config(t, "s1")
	b.start(t, file)
	b.exchange(t, 3)
	other := b.config(t, "s2", `pairs = [["p0", "p1"]]`, "pairs = []", b.socket("s2"), b.socket("s1"), `"s2"`, `"s1"`)
	if status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "reload", other); status != 0 || stdout != "- stages.patch.pairs[0] = [\"p0\", \"p1\"]\n" {
		t.Fatalf("status %d: %q %q", status, stdout, stderr)
	}
	z := b.hosts[1].Packet(t)
	if err := b.hosts[0].Packet(t).Send(testFrame(2, 1, 7)); err != nil {
		t.Fatal(err)
	}
	_ = z.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := z.Receive(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes came through without a pair", n)
	}
	if status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "reload"); status != 0 || stdout != "+ stages.patch.pairs[0] = [\"p0\", \"p1\"]\n" {
		t.Fatalf("status %d: %q %q", status, stdout, stderr)
	}
	b.exchange(t, 3)
	bad := writeFile(t, "[switch]\nname = 5\n")
	if status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "reload", bad); status != 1 || !strings.Contains(stderr, bad+":2: switch.name: is an integer") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
