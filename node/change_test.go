package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// TestReloadUnderLoad: reloads that change the access control list, routes and
// rate limits lose not one numbered packet, and packets go where the newest
// routes say.
func TestReloadUnderLoad(t *testing.T) {
	b := newBed(t)
	b.router(t, 1, "")
	b.start(t)
	l := b.load(t, 5000, 20_000)
	reloads := 0
	for !l.Ended() {
		reloads++
		var rules strings.Builder
		for i := range 200 {
			fmt.Fprintf(&rules, "[[stages.acl.rule]]\nname = \"r%d\"\naction = \"deny\"\nsrc = \"172.16.%d.%d/32\"\n", i, reloads%256, i)
		}
		fmt.Fprintf(&rules, "[[stages.acl.rule]]\nname = \"all\"\naction = \"count\"\n[[stages.policer.port]]\nport = \"p0\"\nrate_bits = %d\n", 1_000_000_000+reloads)
		b.router(t, 1+reloads%2, rules.String())
		if err := b.ReloadFile("test"); err != nil {
			t.Fatal(err)
		}
	}
	sent, at := l.Received(t)
	fmt.Printf("reload under load: %d reloads of acl, l3 and policer, sent %d, received %d at one gateway and %d at the other, lost %d\n",
		reloads, sent, at[0], at[1], int64(sent)-int64(at[0]+at[1]))
	if at[0]+at[1] != sent {
		t.Errorf("%d of %d packets are lost", int64(sent)-int64(at[0]+at[1]), sent)
	}
	if reloads < 4 || at[0] == 0 || at[1] == 0 {
		t.Errorf("%d reloads, received %v: the routes did not change under the load", reloads, at)
	}
	list, ok := b.Acl()
	if !ok || len(list.Rules) != 202 {
		t.Fatalf("%d rules", len(list.GetRules()))
	}
	if rule := list.Rules[200]; rule.Name != "all" || rule.Packets == 0 || rule.Packets > sent {
		t.Errorf("the counting rule: %+v of %d packets", rule, sent)
	}
	if r := b.stop(t); r.Received != sent || r.Forwarded != sent || len(r.Dropped) != 0 {
		t.Errorf("last report: %+v", r)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "audit.log"))
	if lines := strings.Count(string(text), `"call":"test"`); err != nil || lines == 0 || lines > reloads {
		t.Errorf("%d lines in the audit log of %d reloads, %v", lines, reloads, err)
	}
}

// TestPortDownForgets: a port whose link goes down has no learned station any more; the static one, and that of the
// other port, stay.
func TestPortDownForgets(t *testing.T) {
	b := newBed(t)
	b.write(t, `[switch]
name = "s1"
graph = ["parse", "l2"]
[workers]
poll = "interrupt"
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[stages.l2.static]]
mac = "02:00:00:00:09:09"
port = "p1"
[control]
socket = "$DIR/s1.sock"
`)
	b.start(t)
	b.exchange(t, 3)
	fdb := func() string {
		var all []string
		entries, _ := b.Fdb()
		for e := range entries {
			all = append(all, fmt.Sprintf("%s %v", e.Port, e.Static))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	b.await(t, "both stations are learned", func() bool { return fdb() == "p0 false, p1 false, p1 true" })
	if err := b.ns.SetDown("p1"); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the station of p1 is forgotten", func() bool { return fdb() == "p0 false, p1 true" })
	b.stop(t)
}

// TestSetFdb: a static station comes, moves what was learned, and goes; learned
// ones are flushed by port.
func TestSetFdb(t *testing.T) {
	b := newBed(t)
	b.write(t, `[switch]
name = "s1"
graph = ["parse", "l2"]
[workers]
poll = "interrupt"
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[control]
socket = "$DIR/s1.sock"
`)
	b.start(t)
	b.exchange(t, 3)
	stations := func() (learned int, static []string) {
		entries, _ := b.Fdb()
		for e := range entries {
			if e.Static {
				static = append(static, e.Mac+" "+e.Port)
			} else {
				learned++
			}
		}
		return learned, static
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if learned, _ := stations(); learned == 2 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d stations were learned", learned)
		}
	}
	b.set(t, "l2", "static", false, "", "mac=02:00:00:00:01:01", "port=p0")
	if learned, static := stations(); learned != 1 || len(static) != 1 || static[0] != "02:00:00:00:01:01 p0" {
		t.Errorf("fdb: %d learned, %q", learned, static)
	}
	if r, err := b.Clear(&api.ClearRequest{Table: "fdb", Port: "p1"}); err != nil || r.Cleared != 1 {
		t.Errorf("clear: %v, %v", r, err)
	}
	b.exchange(t, 3)
	b.set(t, "l2", "static", true, "", "mac=02:00:00:00:01:01")
	if _, static := stations(); static != nil {
		t.Errorf("fdb: %q", static)
	}
	b.exchange(t, 3)
	if r := b.reload(t); len(r.Changes) != 0 {
		t.Errorf("reload: %v", r)
	}
	b.stop(t)
}

// TestMTUReachesStages: when an interface's MTU changes, the router sends the new one to
// senders; they need no restart, and packets that fit go on.
func TestMTUReachesStages(t *testing.T) {
	b := newBed(t)
	b.router(t, 1, "")
	b.start(t)
	set := func(mtu int) {
		t.Helper()
		if err := errors.Join(b.hosts[1].NS.SetMTU("eth0", mtu), b.ns.SetMTU("p1", mtu)); err != nil {
			t.Fatal(err)
		}
	}
	exceeded := func() uint64 { return b.Report().Ports[0].Dropped["mtu_exceeded"] }
	// Each try is fresh traffic, since the stages learn of a change a moment later.
	await := func(what string, ok func(sent, received, exceeded uint64) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			before := exceeded()
			l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 1400, 1000, 20)
			sent, at := l.Received(t, func() uint64 { return exceeded() - before })
			if n := exceeded() - before; ok(sent, at[0], n) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: of %d packets %d arrive and %d exceed the MTU", what, sent, at[0], n)
			}
		}
	}
	passes := func(sent, received, exceeded uint64) bool { return received == sent && exceeded == 0 }
	await("at the beginning", passes)
	set(1300)
	await("with a lower MTU", func(sent, received, exceeded uint64) bool { return received == 0 && exceeded == sent })
	set(1500)
	await("with the old MTU", passes)
	if r := b.stop(t); r.Dropped["too_long"] > 20 {
		t.Errorf("last report: %+v", r)
	}
}

// TestMetricsFail: scrapers that never read, never ask, and are too many harm neither
// forwarding nor the one that behaves.
func TestMetricsFail(t *testing.T) {
	b := newBed(t)
	if err := b.ns.SetUp("lo"); err != nil {
		t.Fatal(err)
	}
	const address = "127.0.0.1:9464"
	b.router(t, 1, fmt.Sprintf("metrics = %q\n", address))
	b.start(t)
	l := b.load(t, 4000, 8000)
	var open []net.Conn
	for i := 0; !l.Ended(); i++ {
		c, err := b.ns.Dial(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		_, _ = io.WriteString(c, []string{"", "GET /metrics HTTP/1.1\r\nHost: w\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: w\r\nX: ", "\x00\xff\r\n\r\n"}[i%4])
		if open = append(open, c); len(open) == 500 {
			for _, c := range open {
				_ = c.Close()
			}
			open = nil
		}
	}
	sent, at := l.Received(t)
	if at[0] != sent {
		t.Errorf("%d of %d packets arrive", at[0], sent)
	}
	for _, c := range open {
		_ = c.Close()
	}
	scrape := func() string {
		c, err := b.ns.Dial(t.Context(), "tcp", address)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n")
		text, _ := io.ReadAll(c)
		return string(text)
	}
	// The slots of those that left become free a moment later.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if text := scrape(); strings.Contains(text, fmt.Sprintf("weir_port_received_packets_total{port=\"p0\"} %d\n", sent)) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a scrape is answered with %s", text)
		}
	}
	if r := b.stop(t); r.Received != sent || r.Forwarded != sent {
		t.Errorf("last report: %+v", r)
	}
}
