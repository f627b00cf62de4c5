package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/port"
)

// memoryText is a switch of two ports that the program gives; extra ends it.
func memoryText(t *testing.T, extra string) string {
	return fmt.Sprintf(`[switch]
name = "s1"
graph = ["parse", "acl", "l2"]
[dataplane]
frames = 2048
fill_ring = 256
audit = true
[[port]]
interface = "left"
[[port]]
interface = "right"
[control]
socket = %q
%s`, filepath.Join(t.TempDir(), "s1.sock"), extra)
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// closable counts how often a port is closed.
type closable struct {
	port.Port
	closed int
}

func (c *closable) Close() error {
	c.closed++
	return c.Port.Close()
}

// memoryPorts are two ports, of which left receives packets; limit 0 is no end.
func memoryPorts(limit uint64) (ports map[string]port.Port, all []*closable) {
	frame := make([]byte, 60)
	copy(frame, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5")
	ports = map[string]port.Port{}
	for name, packets := range map[string][][]byte{"left": {frame}, "right": nil} {
		c := &closable{Port: port.NewMemory(name, 1, packets, limit)}
		ports[name], all = c, append(all, c)
	}
	return ports, all
}

// running starts a node and returns what ends it.
func running(t *testing.T, n *Node, ready <-chan struct{}) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the node ended: %v", err)
	}
	return func() error {
		cancel()
		return <-ended
	}
}

// TestLife: a node answers by its methods and by its socket, takes changes while packets
// flow, refuses those of the program's ports, and leaves nothing behind.
func TestLife(t *testing.T) {
	ports, all := memoryPorts(0)
	c := parse(t, memoryText(t, ""))
	ready := make(chan struct{})
	n, err := New(c, Options{Ports: ports, Ready: func() error { close(ready); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	end := running(t, n, ready)
	client := control.NewClient(c.Control.Socket)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r, err := client.Report(t.Context(), &api.ReportRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Received != 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no packet is received")
		}
	}
	r, err := n.Set(&api.SetRequest{Stage: "acl", List: "rule", Fields: map[string]string{"action": "count"}})
	if err != nil || len(r.Changes) != 1 || !strings.Contains(n.Config(), `action = "count"`) {
		t.Errorf("set: %v, %v", r, err)
	}
	if rules, ok := n.Acl(); !ok || len(rules.Rules) != 2 {
		t.Errorf("acl: %v, %v", rules, ok)
	}
	if _, ok := n.Routes(); ok {
		t.Error("there are routes without a stage l3")
	}
	trace, err := n.Trace(t.Context(), &api.TraceRequest{Count: 1, WaitNs: int64(10 * time.Second)})
	if err != nil || len(trace.Packets) != 1 || trace.Packets[0].Port != "left" || len(trace.Packets[0].Steps) != 3 || trace.Packets[0].Steps[2].Stage != "l2" {
		t.Errorf("trace: %v, %v", trace, err)
	}
	captured := 0
	if err := n.Capture(t.Context(), &api.CaptureRequest{Count: 5, Stage: "l2", Edge: "before"}, func(r *api.CaptureResponse) error {
		captured += len(r.Packets)
		return nil
	}); err != nil || captured != 5 {
		t.Errorf("captured %d packets, %v", captured, err)
	}
	inForce := n.Config()
	for what, change := range map[string]func(*config.Config) (*config.Config, error){
		"a port of the program goes": func(c *config.Config) (*config.Config, error) {
			return c.Edited(config.Edit{List: "port", Remove: true, Fields: map[string]string{"name": "right"}})
		},
		"a port of the program changes": func(c *config.Config) (*config.Config, error) {
			return c.Edited(config.Edit{List: "port", Match: map[string]string{"name": "right"}, Fields: map[string]string{"disabled": "true"}})
		},
	} {
		if _, err := n.Change(change); err == nil || !strings.HasPrefix(err.Error(), "port[1]: port right is the program's") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused := errors.New("no")
	if _, err := n.Change(func(*config.Config) (*config.Config, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("the program refuses its own change: %v", err)
	}
	if _, err := n.Reload(&api.ReloadRequest{}); err == nil || !strings.Contains(err.Error(), "not started from a file") {
		t.Errorf("reload without a file: %v", err)
	}
	if _, err := n.Reload(&api.ReloadRequest{Toml: "[switch]\nname = 5\n", File: "other.toml"}); err == nil || !strings.Contains(err.Error(), "\nother.toml:2: switch.name") {
		t.Errorf("reload of a bad file: %v", err)
	}
	if n.Config() != inForce {
		t.Error("a refused change is in force")
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	last := n.Report()
	if last.Received == 0 || !last.Balanced || last.Frames.Lost != 0 || last.Frames.Faults != 0 || len(last.Metrics) == 0 {
		t.Errorf("last report: %+v", last)
	}
	if err := n.Run(t.Context()); err == nil {
		t.Error("a node ran twice")
	}
	if err := n.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	for _, p := range all {
		if p.closed != 1 {
			t.Errorf("%s was closed %d times", p.Info().Name, p.closed)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Control.Socket), "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSetUpFails: what New made is undone, and the given ports are closed.
func TestSetUpFails(t *testing.T) {
	for _, tt := range []struct{ name, edit, to, want string }{
		{"a port without a [[port]]", `interface = "right"`, `interface = "lost"`, "port right: the configuration has no [[port]] of that name"},
		{"a socket without a folder", "[control]\nsocket = \"", "[control]\nsocket = \"/proc/none", "control socket"},
		{"more workers than queues", "[[port]]", "[workers]\ncount = 3\npin = false\n[[port]]", "workers.count"},
		{"a spool that cannot be", "[control]", "[telemetry]\nspool = \"/proc/none\"\n[control]", "/proc/none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ports, all := memoryPorts(1)
			c := parse(t, strings.Replace(memoryText(t, ""), tt.edit, tt.to, 1))
			n, err := New(c, Options{Ports: ports})
			if n != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v, want %q", n, err, tt.want)
			}
			for _, p := range all {
				if p.closed != 1 {
					t.Errorf("%s was closed %d times", p.Info().Name, p.closed)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Control.Socket), "*.sock")); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestNeverRuns: a node that does not run answers and takes changes of tables; Close frees
// it, also its spool.
func TestNeverRuns(t *testing.T) {
	spool := fmt.Sprintf("[telemetry]\nspool = %q\n", t.TempDir())
	for range 2 {
		ports, all := memoryPorts(1)
		n, err := New(parse(t, memoryText(t, spool)), Options{Ports: ports})
		if err != nil {
			t.Fatal(err)
		}
		if r := n.Report(); len(r.Ports) != 2 || r.Received != 0 {
			t.Errorf("before Run: %v", r)
		}
		if r, err := n.Set(&api.SetRequest{Stage: "acl", List: "rule", Fields: pairs("action=deny")}); err != nil || len(r.Changes) != 1 {
			t.Errorf("a change of a table before Run: %v, %v", r, err)
		}
		if _, err := n.Set(&api.SetRequest{List: "port", Fields: pairs("interface=lo")}); err == nil || !strings.Contains(err.Error(), "only while the switch runs") {
			t.Errorf("a change of a port before Run: %v", err)
		}
		if err := errors.Join(n.Close(), n.Close()); err != nil {
			t.Error(err)
		}
		if r := n.Report(); len(r.Ports) != 2 {
			t.Errorf("after Close: %v", r)
		}
		for _, p := range all {
			if p.closed != 1 {
				t.Errorf("%s was closed %d times", p.Info().Name, p.closed)
			}
		}
	}
}

// TestReadyFails: an error of the program ends Run before control answers.
func TestReadyFails(t *testing.T) {
	ports, _ := memoryPorts(0)
	failed := errors.New("not ready")
	n, err := New(parse(t, memoryText(t, "")), Options{Ports: ports, Ready: func() error { return failed }})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if n.server.Load() != nil {
		t.Error("control answered")
	}
}

// TestMetricsAreServed: a scrape has the counters of ports and of the control server.
func TestMetricsAreServed(t *testing.T) {
	ports, _ := memoryPorts(0)
	ready := make(chan struct{})
	n, err := New(parse(t, memoryText(t, "metrics = \"127.0.0.1:0\"")), Options{Ports: ports, Ready: func() error { close(ready); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	address := n.scrape.Addr().String()
	end := running(t, n, ready)
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for _, want := range []string{`weir_port_received_packets_total{port="left"`, `weir_port_lost_packets_total{port="left",reason="rx_ring_full"`, "weir_control_denied_calls_total"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%v, want %s in\n%s", err, want, text)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
