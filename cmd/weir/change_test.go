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

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// changingRouter is the router of node/testdata, and three hosts: the one at p0 sends to a
// network behind gateways at p1 and p2.
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
	text, err := os.ReadFile("../../node/testdata/router.toml")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(r.dir, r.name+".toml")
	full := strings.NewReplacer("$DIR", r.dir, "$GATEWAY", fmt.Sprint(gateway)).Replace(string(text)) + extra
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
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

// load sends numbered packets from p0's host to the others.
func (r *changingRouter) load(t *testing.T, rate float64, count uint64) *traffictest.Load {
	t.Helper()
	return traffictest.Start(t, r.hosts[0], r.hosts[1:], 128, rate, count)
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
		if status != 2 || stdout != "" || stderr != want {
			t.Errorf("%v: status %d, %q, %q, want %q", args, status, stdout, stderr, want)
		}
	}
	expect("+ stages.acl.rule[0] = {name = \"no\", action = \"deny\", protocol = \"udp\"}\n", "set", "acl", "add", "name=no", "action=deny", "protocol=udp")
	expect("+ stages.acl.rule[0] = {name = \"log\", action = \"count\", in_ports = [\"p0\", \"p1\"]}\n", "set", "acl", "add", "name=log", "action=count", "in_ports=p0,p1", "--at", "1")
	l := r.load(t, 5000, 100)
	l.Wait()
	type rule struct {
		Name, Match    string
		Packets, Bytes uint64
	}
	var list struct{ Rules []rule }
	for deadline := time.Now().Add(time.Minute); (len(list.Rules) == 0 || list.Rules[1].Packets != 100) && time.Now().Before(deadline); {
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
	refused("weir: stages.acl.rule: no element has the name \"no\": choose from log\n", "set", "acl", "remove", "name=no")

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
	// A copy of the file gets all of it.
	file := filepath.Join(r.dir, r.name+".toml")
	text, _ := os.ReadFile(file)
	kept := filepath.Join(r.dir, "kept.toml")
	if err := os.WriteFile(kept, append([]byte("# Kept.\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	differs := r.ctl(t, "save", "--dry-run", kept)
	if got, _ := os.ReadFile(kept); len(got) != len(text)+len("# Kept.\n") {
		t.Error("--dry-run wrote the file")
	}
	expect(differs, "save", kept)
	expect("nothing differs\n", "save", kept)
	expect("nothing differs\n", "reload", kept)
	if got, _ := os.ReadFile(kept); !bytes.HasPrefix(got, []byte("# Kept.\n")) || !strings.Contains(differs, "+ stages.l3.route[1]") {
		t.Errorf("saved as\n%s\nof %s", got, differs)
	}
	// What no packet matches is warned of when it comes, and not again.
	const never = "weir: warning: stages.acl.rule[1]: no packet matches it: "
	for i, verb := range []string{"add", "remove"} {
		status, stdout, stderr := weir("ctl", "--socket", r.socket(r.name), "set", "acl", verb, "name=never", "action=deny", "protocol=icmp", "dst_port=8")
		if status != statusGood || !strings.Contains(stdout, "stages.acl.rule[1] = ") || strings.HasPrefix(stderr, never) != (i == 0) || i == 1 && stderr != "" {
			t.Errorf("%s: status %d: %q, %q", verb, status, stdout, stderr)
		}
		if i == 0 {
			if status, _, stderr := weir("ctl", "--socket", r.socket(r.name), "set", "acl", "add", "name=more", "action=count"); status != statusGood || stderr != "" {
				t.Errorf("status %d, warned again: %q", status, stderr)
			}
			r.ctl(t, "set", "acl", "remove", "name=more")
		}
	}
	binary := filepath.Join(r.dir, "binary.toml")
	if err := os.WriteFile(binary, []byte("\xff\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("weir: "+binary+" is no text in UTF-8: name a TOML file\n", "reload", binary)
	// A file that is not there gets the whole of it.
	fresh := filepath.Join(r.dir, "fresh.toml")
	expect("would write the whole configuration in force, with every default, into "+fresh+", which is a new file\n", "save", "--dry-run", fresh)
	if _, err := os.Stat(fresh); err == nil {
		t.Error("--dry-run wrote the file")
	}
	expect("wrote the whole configuration in force, with every default, into "+fresh+", which is a new file\n", "save", fresh)
	expect("nothing differs\n", "reload", fresh)
	expect("nothing differs\n", "save", fresh)
	nowhere := filepath.Join(r.dir, "no", "fresh.toml")
	refused("weir: write the configuration: stat "+filepath.Dir(nowhere)+": no such file or directory: name the switch's file, or a new one in a folder that is there and may be written\n", "save", nowhere)
	// The file itself has none of it.
	got := r.ctl(t, "reload")
	for _, line := range []string{"- stages.acl.rule[0]", "- stages.l3.route[1]", "- stages.l3.neighbour[2]"} {
		if !strings.Contains(got, line) {
			t.Errorf("reload says %q, want %q in it", got, line)
		}
	}
	expect("nothing differs\n", "reload")
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

// TestPatchReload: pairs change while packets flow, and the file is sent by the client.
func TestPatchReload(t *testing.T) {
	b := newTestbed(t, 0)
	file := b.config(t, "s1")
	p := b.start(t, file)
	b.exchange(t, 3)
	other := b.config(t, "s2", `pairs = [["p0", "p1"]]`, `pairs = [["p1", "p0"]]`, b.socket("s2"), b.socket("s1"), `"s2"`, `"s1"`)
	if status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "reload", other); status != 0 || !strings.Contains(stdout, `["p1", "p0"]`) {
		t.Fatalf("status %d: %q %q", status, stdout, stderr)
	}
	b.exchange(t, 3)
	if status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "reload"); status != 0 || !strings.Contains(stdout, `["p0", "p1"]`) {
		t.Fatalf("status %d: %q %q", status, stdout, stderr)
	}
	b.exchange(t, 3)
	// SIGHUP does what reload without a file does.
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(text, []byte(`[["p0", "p1"]]`), []byte(`[["p1", "p0"]]`), 1), 0o600)
	}
	if err = errors.Join(err, p.cmd.Process.Signal(unix.SIGHUP)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, config, _ := weir("ctl", "--socket", b.socket("s1"), "show", "config")
		if strings.Contains(config, `["p1", "p0"]`) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("SIGHUP changes nothing:\n%s", config)
		}
	}
	bad := writeFile(t, "[switch]\nname = 5\n")
	if status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "reload", bad); status != 2 || !strings.Contains(stderr, bad+":2: switch.name: is an integer") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
