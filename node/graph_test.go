package node

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
)

// graphSwitch is a switch of which graphs are made. $GRAPH is the graph, $TABLES are those of its stages.
const graphSwitch = `
[switch]
name = "s1"
id = 1
graph = [$GRAPH]
[dataplane]
audit = true
rx_ring = 8192
fill_ring = 8192
[workers]
count = $WORKERS
poll = "interrupt"
pin = false
[[port]]
interface = "p0"
queues = $WORKERS
[[port]]
interface = "p1"
queues = $WORKERS
[[port]]
interface = "p2"
queues = $WORKERS
[telemetry]
spool = "$DIR/spool"
[control]
socket = "$DIR/s1.sock"
$TABLES`

// livePieces are stages that come and go in tests, in the order of the graph, with their tables.
var livePieces = []struct {
	name, table string
	forward     bool
}{
	{name: "oblivious", table: "[stages.oblivious]\nepoch_bits = 27\n"},
	{name: "lds_ingress", table: "[stages.lds_ingress]\ninterval_bits = 27\n"},
	{name: "lldp", table: "[[stages.lldp.port]]\nport = \"p2\"\n"},
	{name: "guard", table: "[stages.guard]\ndhcp_servers = [\"p1\"]\n"},
	{name: "conntrack", table: "[stages.conntrack]\ninvalid = \"permit\"\n"}, // it knows no connection when it comes
	{name: "policer", table: "[[stages.policer.port]]\nport = \"p0\"\nrate_bits = 100000000000\n"},
	{name: "acl", table: "[[stages.acl.rule]]\naction = \"count\"\nname = \"all\"\n"},
	{name: "l2", forward: true},
	{name: "patch", table: "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", forward: true},
	{name: "mirror", table: "[[stages.mirror.session]]\nname = \"m\"\nports = [\"p0\"]\ndirection = \"in\"\nto = \"p2\"\n"},
	{name: "lds_egress", table: "[stages.lds_egress]\ninterval_bits = 27\n"},
	{name: "disketch", table: "[stages.disketch]\nepoch_bits = 27\n"},
	{name: "pint", table: "[stages.pint]\nedge = [\"p0\", \"p1\", \"p2\"]\n"},
	{name: "sflow", table: "[[stages.sflow.port]]\nport = \"p0\"\none_in = 10\n"},
}

// writeGraph writes the configuration with a graph of parse and some of livePieces.
func (b *bed) writeGraph(t *testing.T, workers int, names []string) {
	t.Helper()
	graph, tables := []string{`"parse"`}, ""
	for _, p := range livePieces {
		if slices.Contains(names, p.name) {
			graph = append(graph, fmt.Sprintf("%q", p.name))
			tables += p.table
		}
	}
	b.write(t, strings.NewReplacer("$GRAPH", strings.Join(graph, ", "), "$WORKERS", fmt.Sprint(workers), "$TABLES", tables).Replace(graphSwitch))
}

// stream sends seeded bytes from one host to another by TCP until stop, and returns how many came with the hash with which they left.
func stream(t *testing.T, b *bed, stop *atomic.Bool) (bytes *atomic.Int64, ended chan error) {
	t.Helper()
	l, err := b.hosts[1].NS.Listen("tcp", "10.0.0.2:7000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	bytes, ended = &atomic.Int64{}, make(chan error, 1)
	got := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		h := sha256.New()
		_, _ = io.Copy(io.MultiWriter(h, count{bytes}), c)
		_ = c.Close()
		got <- h.Sum(nil)
	}()
	c, err := b.hosts[0].NS.Dial(t.Context(), "tcp", "10.0.0.2:7000")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		h, rng := sha256.New(), rand.NewChaCha8([32]byte{1})
		block := make([]byte, 16<<10)
		for !stop.Load() {
			_, _ = rng.Read(block)
			h.Write(block)
			if _, err := c.Write(block); err != nil {
				ended <- err
				return
			}
			time.Sleep(time.Millisecond) // the machine has other work, too
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			ended <- err
			return
		}
		if text := string(<-got); text != string(h.Sum(nil)) {
			ended <- errors.New("other bytes arrived than left")
			return
		}
		ended <- c.Close()
	}()
	return bytes, ended
}

type count struct{ n *atomic.Int64 }

func (c count) Write(p []byte) (int, error) { c.n.Add(int64(len(p))); return len(p), nil }

// TestGraphsUnderPing: while random graphs come and go, each ping of the kernel is answered once, a TCP stream arrives as it left, and the books are balanced.
func TestGraphsUnderPing(t *testing.T) {
	changes := 150
	if testing.Short() {
		changes = 25
	}
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			b := newBedOf(t, workers)
			for i, h := range b.hosts[:2] {
				check(t, h.NS.SetARP(h.Interface, true))
				address(t, h, fmt.Sprintf("10.0.0.%d/24", i+1))
			}
			b.writeGraph(t, workers, []string{"l2"})
			b.start(t)
			stop := &atomic.Bool{}
			bytes, ended := stream(t, b, stop)
			rng := rand.New(rand.NewPCG(uint64(workers), 17))
			ping := exec.Command("ping", "-i", "0.002", "-W", "30", "10.0.0.2")
			var out strings.Builder
			ping.Stdout = &out
			check(t, b.hosts[0].NS.Start(ping))
			names, came, before := []string{"l2"}, map[string]int{}, int64(-1)
			for range changes {
				was := names
				names = nil
				forward := []string{"l2", "patch"}[rng.IntN(2)]
				for _, p := range livePieces {
					switch {
					case p.forward && p.name != forward, p.name == "conntrack" && workers > 1:
					case p.forward, slices.Contains(was, p.name) && rng.IntN(3) != 0, !slices.Contains(was, p.name) && rng.IntN(4) == 0:
						names = append(names, p.name)
						if !slices.Contains(was, p.name) {
							came[p.name]++
						}
					}
				}
				b.writeGraph(t, workers, names)
				b.reload(t)
				b.await(t, "the stream goes on", func() bool { n := bytes.Load(); ok := n > before; return ok })
				before = bytes.Load()
				var got []string
				for _, s := range b.Report().Stages[1:] {
					got = append(got, s.Name)
				}
				if !slices.Equal(got, names) {
					t.Fatalf("stages %q, want %q", got, names)
				}
			}
			check(t, ping.Process.Signal(os.Interrupt))
			_ = ping.Wait()
			stop.Store(true)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			summary := lines[len(lines)-2]
			fmt.Printf("graphs under ping: %d graphs, %d workers, %v; %d bytes of TCP; %s\n", changes, workers, came, bytes.Load(), summary)
			var sent, received int
			if _, err := fmt.Sscanf(summary, "%d packets transmitted, %d received", &sent, &received); err != nil || sent-received > 1 || strings.Contains(out.String(), "DUP") || sent == 0 {
				t.Errorf("%s: %v\n%s", summary, err, lines[len(lines)-3])
			}
			r := b.stop(t)
			if len(r.Dropped) != 0 || !r.Balanced {
				t.Errorf("dropped %v, balanced %v", r.Dropped, r.Balanced)
			}
			for _, p := range r.Ports {
				if p.RxDropped+p.RxRingFull+p.RxNoFrame != 0 {
					t.Errorf("port %s: %+v", p.Name, p)
				}
			}
			for _, k := range r.Records.Kinds {
				if k.Lost+k.Dropped != 0 || k.Made == 0 {
					t.Errorf("records: %+v", k)
				}
			}
		})
	}
}

// TestGraphRefused: a graph that is not valid is refused whole, by key, and so is a stage that cannot come; nothing has changed then.
func TestGraphRefusedWhole(t *testing.T) {
	b := newBed(t)
	b.writeGraph(t, 1, []string{"acl", "l2"})
	b.start(t)
	text := b.Config()
	for name, want := range map[string]string{
		`"parse", "acl"`:                              "switch.graph: the graph has 0 forwarding stages",
		`"parse", "l2", "acl"`:                        `switch.graph: stage "acl" (policy) is behind "l2" (forward): move it in front`,
		`"parse", "acl", "l3", "l2"`:                  "switch.graph: the graph has 2 forwarding stages",
		`"parse", "bond", "acl", "l2", "distribute"`:  `switch.graph[1]: stage "bond" cannot come while the switch runs: restart it`,
		`"parse", "acl", "nat", "l2"`:                 `switch.graph[2]: there is no stage "nat"`,
		`"parse", "acl", "l2", "sflow"`:               "stages.sflow.collectors[0]",
		`"parse", "acl", "l2"]` + "\nid = 2\n# ":      "switch.id: cannot change while the switch runs",
		`"parse", "policer", "acl", "l2"]` + "\n# x ": "", // the one that works: the next one takes it back
	} {
		tables := "[[stages.acl.rule]]\naction = \"deny\"\n"
		if strings.Contains(name, "sflow") {
			tables += "[stages.sflow]\ncollectors = [\"192.0.2.1:6343\"]\n"
		}
		body := strings.NewReplacer("$GRAPH", name, "$WORKERS", "1", "$TABLES", tables, "id = 1\n", "").Replace(graphSwitch)
		b.write(t, body)
		_, err := b.Reload(&api.ReloadRequest{})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			b.writeGraph(t, 1, []string{"acl", "l2"})
			b.reload(t)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if b.Config() != text {
			t.Errorf("%s: the configuration is another one", name)
		}
	}
	b.exchange(t, 3)
	b.stop(t)
}
