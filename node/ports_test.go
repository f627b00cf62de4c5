package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// patched is a node that patches p0 to another port.
type patched struct {
	*bed
	workers int
}

func newPatched(t *testing.T, workers int) *patched {
	x := &patched{newBed(t), workers}
	x.patch(t, "p1", 0, "p0", "p1")
	x.start(t)
	return x
}

// patch writes a configuration of the named ports, of which p0 is patched to one.
func (x *patched) patch(t *testing.T, to string, rules int, ports ...string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "[switch]\nname = \"s1\"\ngraph = [\"parse\", \"acl\", \"patch\"]\n[dataplane]\naudit = true\n[workers]\npoll = \"interrupt\"\ncount = %d\n", x.workers)
	for _, name := range ports {
		fmt.Fprintf(&text, "[[port]]\ninterface = %q\n", name)
	}
	for i := range rules {
		fmt.Fprintf(&text, "[[stages.acl.rule]]\naction = \"deny\"\nsrc = \"172.16.%d.%d/32\"\n", rules%256, i)
	}
	fmt.Fprintf(&text, "[stages.patch]\npairs = [[\"p0\", %q]]\n[control]\nsocket = \"$DIR/s1.sock\"\n", to)
	x.write(t, text.String())
}

// blocked counts the packets that a port did not take while it was closed: all that
// a change of a port may cost.
func (x *patched) blocked() (n uint64) {
	for _, p := range x.Report().Ports {
		n += p.Dropped["port_down"] + p.TxUnsent + p.NoSocket
	}
	return n
}

// TestPortsUnderLoad: with numbered packets under way, tables change and ports come and
// go without a loss; a port that is closed and opened with other settings costs what
// its counters say, and nothing else.
func TestPortsUnderLoad(t *testing.T) {
	for workers := 2; workers >= 1; workers-- {
		if testing.Short() && workers == 1 {
			break
		}
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) { testPortsUnderLoad(t, workers) })
	}
}

func testPortsUnderLoad(t *testing.T, workers int) {
	x := newPatched(t, workers)
	defer x.stop(t)
	const rate = 1500 // a second and more of it waits in the RX ring while a busy machine runs others
	t.Run("tables", func(t *testing.T) {
		l := x.load(t, rate, rate)
		n := 0
		for ; !l.Ended(); n++ {
			x.patch(t, "p1", 100+n%100, "p0", "p1")
			x.reload(t)
		}
		x.lossless(t, l, fmt.Sprintf("%d changes of acl", n))
	})
	t.Run("ports come and go", func(t *testing.T) {
		l := x.load(t, rate, 2*rate)
		n := 0
		for ; !l.Ended(); n++ {
			if n%2 == 0 {
				x.patch(t, "p2", 50, "p0", "p2", "p1")
			} else {
				x.patch(t, "p1", 60, "p1", "p0")
			}
			x.reload(t)
		}
		if at := x.lossless(t, l, fmt.Sprintf("port p2 came or went, with its pair, %d times", n)); at[0] == 0 || at[1] == 0 {
			t.Errorf("received %v: the pair did not change under the load", at)
		}
	})
	if workers > 1 {
		return
	}
	t.Run("settings", func(t *testing.T) {
		x.patch(t, "p1", 0, "p0", "p1")
		x.reload(t)
		before := x.blocked()
		cost := func() uint64 { return x.blocked() - before }
		l := x.load(t, rate, 2*rate)
		n := 0
		for ; !l.Ended(); n++ {
			x.set(t, "", "port", false, "name=p1", fmt.Sprintf("rate_bits=%d", 1_000_000_000*(n%2)))
		}
		sent, at := l.Received(t, cost)
		lost := int64(sent) - int64(at[0])
		fmt.Printf("reload under load: port p1 closed and opened with another rate %d times at %d packets/s: lost %d, blocked time %.3f ms each\n",
			n, rate, lost, float64(lost)/rate*1e3/float64(n))
		if lost != int64(cost()) || n == 0 {
			t.Errorf("%d packets are lost, and the ports count %d, of %d changes", lost, cost(), n)
		}
	})
	t.Run("down and up", func(t *testing.T) {
		before := x.blocked()
		cost := func() uint64 { return x.blocked() - before }
		l := x.load(t, rate, rate)
		n := 0
		for ; !l.Ended(); n++ {
			x.set(t, "", "port", false, "name=p1", "disabled=true")
			if x.attached(t, "p1") {
				t.Error("p1 is down and has an XDP program")
			}
			x.set(t, "", "port", false, "name=p1", "disabled=false")
		}
		sent, at := l.Received(t, cost)
		lost := int64(sent) - int64(at[0])
		if lost != int64(cost()) || n == 0 {
			t.Errorf("%d of %d packets are lost, and the ports count %d", lost, sent, cost())
		}
		// What arrives at an interface without our program is in none of our counters.
		x.set(t, "", "port", false, "name=p0", "disabled=true")
		x.set(t, "", "port", false, "name=p0", "disabled=false")
		x.lossless(t, x.load(t, rate, 400), fmt.Sprintf("p1 went down and up %d times, p0 once, and both are up again", n))
	})
}

// lossless ends a load that must arrive whole, and prints what became of it.
func (x *patched) lossless(t *testing.T, l *traffictest.Load, what string) (at []uint64) {
	t.Helper()
	sent, at := l.Received(t)
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
	// refused makes a change of a port, or reloads the file without one.
	refused := func(want string, change *api.SetRequest) {
		t.Helper()
		if r, err := x.try(change); r != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, %v, want %q", change, r, err, want)
		}
		if x.attached(t, "p2") || strings.Contains(x.Config(), "172.16") {
			t.Errorf("%v: a refused change is half in force", change)
		}
		if n := len(x.Report().Ports); n != 2 {
			t.Errorf("%v: there are %d ports", change, n)
		}
	}
	x.patch(t, "p1", 5, "p0", "p1", "p2", "p9")
	refused("port[3]: port p9: no interface p9 in this network namespace", nil)
	x.patch(t, "p9", 5, "p0", "p1", "p2")
	refused(x.file, nil)
	x.patch(t, "p0", 5, "p0", "p2")
	refused(x.file, nil)
	refused("stages.patch.pairs[0]: port \"p1\" is not defined", &api.SetRequest{List: "port", Remove: true, Fields: pairs("name=p1")})
	refused("port[1].queues: cannot change while the port is there", &api.SetRequest{List: "port", Match: pairs("name=p1"), Fields: pairs("queues=1")})
	refused("port[0].interface: missing", &api.SetRequest{List: "port", Match: pairs("name=p0"), Fields: pairs("interface=")})
	refused(`port: the switch has no port "p7": choose from p0, p1`, &api.SetRequest{List: "port", Match: pairs("name=p7"), Fields: pairs("disabled=true")})
	refused("port[2]: port p2: 9 queues are configured but p2 has 1", &api.SetRequest{List: "port", Fields: pairs("interface=p2", "queues=9")})
	refused("port[2]: port p2: jumbo: no port had it when the switch started", &api.SetRequest{List: "port", Fields: pairs("interface=p2", "jumbo=true")})
	// An interface that a program of another kind has is a reason that only shows when all else is done.
	x.patch(t, "p1", 5, "p0", "p1", "p2")
	free := x.occupy(t, "p2")
	if _, err := x.try(nil); err == nil || !strings.HasPrefix(err.Error(), "port[2]: another XDP program is attached to p2") {
		t.Errorf("an interface of another switch: %v", err)
	}
	free()
	refused("dataplane.frames: ", &api.SetRequest{List: "port", Fields: pairs("interface=p9", "queues=256", "optional=true")})
	if r := x.reload(t); len(r.Changes) != 6 || !slices.ContainsFunc(r.Changes, func(c *api.Change) bool {
		return c.Key == "port[2]" && c.Old == "" && strings.HasPrefix(c.New, `{name = "p2", interface = "p2"`)
	}) {
		t.Errorf("reload: %v", r)
	}
	x.stop(t)
}

// try makes a change, or reloads the file without one.
func (x *patched) try(change *api.SetRequest) (*api.ChangeResponse, error) {
	if change == nil {
		return x.Reload(&api.ReloadRequest{})
	}
	return x.Set(change)
}

// hide deletes the interface of a host's port, and returns what makes another one of its name.
func (x *patched) hide(t *testing.T, name string, host *netnstest.Host) (show func()) {
	t.Helper()
	if err := x.ns.DeleteLink(name); err != nil {
		t.Fatal(err)
	}
	return func() {
		peer := netns.End{Namespace: host.NS, Name: host.Interface}
		err := netns.AddVeth(peer, netns.End{Namespace: x.ns, Name: name}, netns.Veth{})
		if err = errors.Join(err, x.ns.SetUp(name), peer.Namespace.SetUp(peer.Name)); err != nil {
			t.Fatal(err)
		}
	}
}

// occupy gives an interface to another switch, and returns what takes it back.
func (x *patched) occupy(t *testing.T, name string) (free func()) {
	t.Helper()
	file := filepath.Join(x.dir, "other.toml")
	text := fmt.Sprintf("[switch]\nname = \"other\"\ngraph = [\"parse\", \"l2\"]\n[[port]]\ninterface = %q\n[control]\nsocket = %q\n",
		name, filepath.Join(x.dir, "other.sock"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, end := x.startOther(t, file)
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
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
	x.patch(t, "p2", 0, "p0", "p2")
	x.reload(t)
	send(100)
	ports := x.Report().Ports
	if len(ports) != 3 || ports[1].State != "removed" || ports[1].Transmitted != 100 || ports[2].Transmitted != 100 {
		t.Errorf("p1 was removed: %+v", ports)
	}
	x.patch(t, "p1", 0, "p1", "p0")
	x.reload(t)
	send(100)
	if ports = x.Report().Ports; ports[1].Name != "p1" || ports[1].State != "up" || ports[1].Transmitted != 200 || ports[2].State != "removed" {
		t.Errorf("p1 is back: %+v", ports)
	}
	x.set(t, "", "port", false, "", "name=p2", "interface=p2", "queues=1", "disabled=true")
	if ports = x.Report().Ports; ports[2].State != "disabled" || x.attached(t, "p2") {
		t.Errorf("p2 is disabled: %+v", ports[2])
	}
	x.set(t, "", "port", false, "name=p2", "disabled=false")
	if ports = x.Report().Ports; ports[2].State != "up" || !x.attached(t, "p2") || ports[2].Transmitted != 100 {
		t.Errorf("p2 is up: %+v", ports[2])
	}
	for _, fault := range []struct {
		want  string
		occur func() (mend func())
	}{
		{"port[2]: another XDP program is attached to p2", func() func() { return x.occupy(t, "p2") }},
		{"port[2]: no interface p2 in this network namespace", func() func() { return x.hide(t, "p2", x.hosts[2]) }},
	} {
		x.set(t, "", "port", false, "name=p2", "disabled=true")
		mend := fault.occur()
		r, err := x.try(&api.SetRequest{List: "port", Match: pairs("name=p2"), Fields: pairs("disabled=false", "rate_bits=7000000")})
		if err == nil || !strings.HasPrefix(err.Error(), fault.want) {
			t.Errorf("p2 is up: %v, %v, want %q", r, err, fault.want)
		}
		if p := x.Report().Ports[2]; p.State != "disabled" || strings.Contains(x.Config(), "rate_bits = 7000000") {
			t.Errorf("a refused change is half in force: %+v", p)
		}
		mend()
		x.set(t, "", "port", false, "name=p2", "disabled=false")
		if p := x.Report().Ports[2]; p.State == "disabled" || !x.attached(t, "p2") {
			t.Errorf("p2 is up again: %+v", p)
		}
	}
	x.set(t, "", "port", false, "name=p2", "disabled=true")
	mend := x.hide(t, "p2", x.hosts[2])
	x.set(t, "", "port", false, "name=p2", "disabled=false", "optional=true")
	if p := x.Report().Ports[2]; p.State != "gone" {
		t.Errorf("p2 is up, optional, and not there: %+v", p)
	}
	mend()
	if err := x.ns.WaitUp("p2", time.Minute); err != nil {
		t.Fatal(err)
	}
	x.set(t, "", "port", false, "", "interface=p3", "optional=true", "queues=1")
	if ports = x.Report().Ports; len(ports) != 4 || ports[3].State != "gone" {
		t.Errorf("p3 is not there: %+v", ports)
	}
	err := netns.AddVeth(netns.End{Namespace: x.hosts[0].NS, Name: "eth3"}, netns.End{Namespace: x.ns, Name: "p3"}, netns.Veth{})
	if err = errors.Join(err, x.ns.SetUp("p3"), x.hosts[0].NS.SetUp("eth3")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ports[3].State != "up"; ports = x.Report().Ports {
		if time.Now().After(deadline) {
			t.Fatalf("p3 does not come: %+v", ports[3])
		}
	}
	if config := x.Config(); strings.Count(config, "[[port]]") != 4 {
		t.Errorf("the configuration in force:\n%s", config)
	}
	send(100)
	x.stop(t)
}

// TestRenamed: a port stays with its interface under another name, with its settings, and is opened anew
// when that one goes and another has the configured name.
func TestRenamed(t *testing.T) {
	x := newPatched(t, 1)
	send := func(n uint64) {
		t.Helper()
		x.lossless(t, x.load(t, 2000, n), "renamed")
	}
	send(100)
	l, err := x.ns.Link("p1")
	if err != nil {
		t.Fatal(err)
	}
	load := x.load(t, 2000, 1000)
	if err := x.ns.Netlink().LinkSetName(l, "other"); err != nil {
		t.Fatal(err)
	}
	x.lossless(t, load, "renamed under load")
	if p := x.Report().Ports[1]; p.State != "up" || p.Reception != "promiscuous" || p.Error != "" {
		t.Errorf("renamed: %+v", p)
	}
	x.set(t, "", "port", false, "name=p1", "rate_bits=1000000000")
	if p := x.Report().Ports[1]; p.State != "up" {
		t.Errorf("renamed, with another rate: %+v", p)
	}
	send(100)
	if err := x.ns.DeleteLink("other"); err != nil {
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); x.Report().Ports[1].State != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not %s: %+v", want, x.Report().Ports[1])
			}
		}
	}
	state("gone")
	host := netnstest.NewHost(t, prefix, netnstest.Port{Namespace: x.ns, Name: "p1"})
	netnstest.Introduce(t, host)
	state("up")
	if err := x.end(); err != nil {
		t.Error(err)
	}
}

// TestMoved: an interface that is moved to another namespace under load is gone for its port, without the switch's XDP program, and
// has its port again when it is back.
func TestMoved(t *testing.T) {
	x := newPatched(t, 1)
	away := netnstest.New(t, prefix)
	await := func(what string, is func(*api.Port) bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !is(x.Report().Ports[1]); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not %s: %+v", what, x.Report().Ports[1])
			}
		}
	}
	times := 3
	if testing.Short() {
		times = 1
	}
	for i := range times {
		load := x.load(t, 2000, 1000)
		check(t, x.ns.MoveLink("p1", away))
		await("gone", func(p *api.Port) bool { return p.State == string(port.StateGone) })
		load.Wait() // what was under way is lost
		if p := x.Report().Ports[1]; !strings.HasPrefix(p.Error, "no interface p1 in this network namespace") {
			t.Errorf("gone: %+v", p)
		}
		l, err := away.Link("p1")
		check(t, err)
		if l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached || l.Attrs().Promisc != 0 {
			t.Errorf("elsewhere it has XDP %+v, and %d users want all packets", l.Attrs().Xdp, l.Attrs().Promisc)
		}
		check(t, away.MoveLink("p1", x.ns))
		check(t, x.ns.SetUp("p1"))
		check(t, x.ns.WaitUp("p1", time.Minute))
		await("up", func(p *api.Port) bool { return p.State == string(port.StateUp) && p.Rebuilds == uint64(i+1) })
		x.lossless(t, x.load(t, 2000, 200), "moved and back")
	}
	if err := x.end(); err != nil {
		t.Error(err)
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
	x.set(t, "", "port", false, "name=p1", "mode=generic")
	if err := x.hosts[1].NS.SetMTU("eth0", 9000); err != nil {
		t.Fatal(err)
	}
	send("before the changes")
	before, ports := x.Config(), x.Report().Ports
	x.patch(t, "p1", 5, "p0", "p1")
	text, err := os.ReadFile(x.file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "interface = \"p0\"\n", "interface = \"p0\"\nmode = \"generic\"\n", 1)
	changed = strings.Replace(changed, "interface = \"p1\"\n", "interface = \"p1\"\nmode = \"native\"\n", 1)
	if err := os.WriteFile(x.file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, change := range []*api.SetRequest{nil, {List: "port", Match: pairs("name=p1"), Fields: pairs("mode=native")}} {
		if r, err := x.try(change); r != nil || err == nil || !strings.HasPrefix(err.Error(), "port[1]: ") {
			t.Errorf("%v: %v, %v", change, r, err)
		}
		if after := x.Config(); after != before {
			t.Errorf("%v: the configuration in force is another one:\n%s", change, after)
		}
		for i, p := range x.Report().Ports {
			if p.State != "up" || !x.attached(t, p.Name) || p.Mode != ports[i].Mode {
				t.Errorf("%v: %+v, and before %+v", change, p, ports[i])
			}
		}
		send("after a change that was refused")
	}
	x.stop(t)
}
