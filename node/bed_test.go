package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// prefix begins the names of this package's namespaces.
const prefix = "wn"

func TestMain(m *testing.M) {
	netnstest.Isolate()
	os.Exit(m.Run())
}

// bed is a namespace for a node, with interfaces p0, p1 and p2 that lead to a host each.
type bed struct {
	ns    *netns.Namespace
	hosts []*netnstest.Host
	dir   string
	file  string // the node's configuration
	ports string // further ports of writeGraph
	*Node
	end func() error
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return newBedOf(t, 1)
}

// newBedOf is newBed with interfaces of so many queues.
func newBedOf(t *testing.T, queues int) *bed {
	t.Helper()
	netnstest.Require(t)
	b := &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	b.file = filepath.Join(b.dir, "r1.toml")
	for i := range 3 {
		b.hosts = append(b.hosts, netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i), Queues: queues}))
	}
	netnstest.Introduce(t, b.hosts...)
	return b
}

// write writes the configuration.
func (b *bed) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(b.file, []byte(strings.ReplaceAll(text, "$DIR", b.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// router writes the configuration of testdata/router.toml with extra tables at its end.
func (b *bed) router(t *testing.T, gateway int, extra string) {
	t.Helper()
	text, err := os.ReadFile("testdata/router.toml")
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, strings.ReplaceAll(string(text), "$GATEWAY", fmt.Sprint(gateway))+extra)
}

// start runs the node of the configuration in the namespace.
func (b *bed) start(t *testing.T) {
	t.Helper()
	b.Node, b.end = b.startOther(t, b.file)
}

func (b *bed) startOther(t *testing.T, file string) (n *Node, end func() error) {
	t.Helper()
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	if err := b.ns.Do(func() error {
		n, err = New(c, Options{File: file, Ready: func() error { close(ready); return nil }})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	over := false
	end = func() error {
		if over {
			return nil
		}
		over = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = end() })
	select {
	case <-ready:
	case err := <-ended:
		over = true
		t.Fatalf("the node ended: %v", err)
	}
	return n, end
}

// stop ends the node, which must have kept its books and leave no XDP program or socket
// behind, and returns its last report.
func (b *bed) stop(t *testing.T) *api.ReportResponse {
	t.Helper()
	if err := b.end(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"p0", "p1", "p2"} {
		if b.attached(t, name) {
			t.Errorf("%s has an XDP program", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*.sock")); len(left) != 0 {
		t.Errorf("sockets are left: %v", left)
	}
	return b.Report()
}

// attached reports whether an interface has an XDP program.
func (b *bed) attached(t *testing.T, name string) bool {
	t.Helper()
	l, err := b.ns.Link(name)
	if err != nil {
		t.Fatal(err)
	}
	xdp := l.Attrs().Xdp
	return xdp != nil && xdp.Attached
}

// load sends numbered packets from p0's host to the others.
func (b *bed) load(t *testing.T, rate float64, count uint64) *traffictest.Load {
	t.Helper()
	return traffictest.Start(t, b.hosts[0], b.hosts[1:], 128, rate, count)
}

// reload puts the file into force.
func (b *bed) reload(t *testing.T) *api.ChangeResponse {
	t.Helper()
	r, err := b.Reload(&api.ReloadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// set changes an element of a list, which must work. fields are as in "name=p1".
func (b *bed) set(t *testing.T, stage, list string, remove bool, match string, fields ...string) {
	t.Helper()
	q := &api.SetRequest{Stage: stage, List: list, Remove: remove, Fields: pairs(fields...)}
	if match != "" {
		q.Match = pairs(match)
	}
	if _, err := b.Set(q); err != nil {
		t.Fatalf("%v: %v", q, err)
	}
}

func pairs(fields ...string) map[string]string {
	m := map[string]string{}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		m[key] = value
	}
	return m
}

// exchange sends n frames each way between p0's and p1's hosts, one after the other, and
// expects each at the far end.
func (b *bed) exchange(t *testing.T, n int) {
	t.Helper()
	a, z := b.hosts[0].Packet(t), b.hosts[1].Packet(t)
	buf := make([]byte, 2048)
	for i := range n {
		for _, direction := range []struct {
			from, to       *netns.PacketSocket
			source, target byte
		}{{a, z, 1, 2}, {z, a, 2, 1}} {
			frame := make([]byte, 60)
			copy(frame, []byte{2, 0, 0, 0, 1, direction.target, 2, 0, 0, 0, 1, direction.source, 0x88, 0xb6, byte(i)})
			if err := direction.from.Send(frame); err != nil {
				t.Fatal(err)
			}
			if err := direction.to.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n, err := direction.to.Receive(buf); err != nil || !bytes.Equal(buf[:n], frame) {
				t.Fatalf("frame %d: got %x, %v", i, buf[:max(n, 0)], err)
			}
		}
	}
}
