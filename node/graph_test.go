package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
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

// livePieces are stages that come and go in tests, in the order of the graph, with their tables, which are small: each graph has new ones.
var livePieces = []struct {
	name, table string
	forward     bool
	with        string // the stage with which this one comes and goes
	ports       string // that come and go with the stage
}{
	{name: "bond", ports: "[[port]]\nname = \"bond0\"\ndriver = \"bond\"\nmode = \"balance-xor\"\nmembers = [\"p3\"]\n"},
	{name: "tunnel", ports: tunnelPort, table: strings.NewReplacer("p2", "p4", "$VNI", "42").Replace(tunnelTable)},
	{name: "oblivious", table: "[stages.oblivious]\nepoch_bits = 27\nsize = 200\n"},
	{name: "lds_ingress", table: "[stages.lds_ingress]\ninterval_bits = 27\ncolumns = 256\n"},
	{name: "lldp", table: "[[stages.lldp.port]]\nport = \"p2\"\n"},
	{name: "guard", table: "[stages.guard]\ndhcp_servers = [\"p1\"]\n"},
	{name: "conntrack", table: "[stages.conntrack]\nconnections = 1024\ninvalid = \"permit\"\n"},                            // it knows no connection when it comes
	{name: "policer", table: "[[stages.policer.port]]\nport = \"p0\"\nrate_bits = 10000000000\nburst_bytes = 4000000000\n"}, // a worker that a busy machine holds up finds what others left
	{name: "acl", table: "[[stages.acl.rule]]\naction = \"count\"\nname = \"all\"\n"},
	{name: "l2", table: "[stages.l2]\ntable_size = 1024\n", forward: true},
	{name: "patch", table: "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", forward: true},
	{name: "mirror", table: "[[stages.mirror.session]]\nname = \"m\"\nports = [\"p0\"]\ndirection = \"in\"\nto = \"p2\"\n"},
	{name: "encap", with: "tunnel"},
	{name: "distribute", with: "bond"},
	{name: "lds_egress", table: "[stages.lds_egress]\ninterval_bits = 27\ncolumns = 256\n"},
	{name: "disketch", table: "[stages.disketch]\nepoch_bits = 27\n[[stages.disketch.fragment]]\nmemory = 16384\n"},
	{name: "pint", table: "[stages.pint]\nedge = [\"p0\", \"p1\", \"p2\"]\nrecords = 4096\n"},
	{name: "sflow", table: "[[stages.sflow.port]]\nport = \"p0\"\none_in = 10\n"},
}

// writeGraph writes the configuration with a graph of parse and some of livePieces.
func (b *bed) writeGraph(t *testing.T, workers int, names []string) {
	t.Helper()
	graph, tables, ports := []string{`"parse"`}, "", b.ports
	for _, p := range livePieces {
		if slices.Contains(names, p.name) {
			graph = append(graph, fmt.Sprintf("%q", p.name))
			tables, ports = tables+p.table, ports+p.ports
		}
	}
	text := strings.Replace(graphSwitch, "[telemetry]", ports+"[telemetry]", 1)
	b.write(t, strings.NewReplacer("$GRAPH", strings.Join(graph, ", "), "$WORKERS", fmt.Sprint(workers), "$TABLES", tables).Replace(text))
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

// allAnswered fails if any of the pings in ping's output has no answer, or two, but for the last ones, which were under way when ping was
// interrupted. It returns how many were answered.
func allAnswered(t *testing.T, out string) (answered int) {
	t.Helper()
	answered, last := pingsOf(t, out)
	if answered == 0 || answered != last {
		t.Errorf("%d pings up to number %d are answered", answered, last)
	}
	return answered
}

// pingsOf is how many pings were answered, each once, and the number of the last one of these.
func pingsOf(t *testing.T, out string) (answered, last int) {
	t.Helper()
	for line := range strings.Lines(out) {
		_, after, ok := strings.Cut(line, "icmp_seq=")
		if !ok {
			continue
		}
		var seq int
		if _, err := fmt.Sscan(after, &seq); err != nil || strings.Contains(line, "DUP") || !strings.Contains(line, "bytes from") {
			t.Fatalf("%v: %s", err, line)
		}
		for seq < last-1<<15 {
			seq += 1 << 16 // a number has 16 bits
		}
		answered, last = answered+1, max(last, seq)
	}
	return answered, last
}

// TestGraphsUnderPing: while random graphs come and go, each ping of the kernel is answered once, a TCP stream arrives as it left, and the books are balanced.
func TestGraphsUnderPing(t *testing.T) {
	changes := 150
	if testing.Short() {
		changes = 12
	}
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			b := newBedOf(t, workers)
			for i, h := range b.hosts[:2] {
				check(t, h.NS.SetARP(h.Interface, true))
				address(t, h, fmt.Sprintf("10.0.0.%d/24", i+1))
			}
			for _, name := range []string{"p3", "p4"} { // the bond's, and the tunnel's
				b.hosts = append(b.hosts, netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: name, Queues: workers}))
				b.ports += fmt.Sprintf("[[port]]\ninterface = %q\nqueues = $WORKERS\n", name)
			}
			address(t, b.hosts[4], "192.0.2.2/24")
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
					case p.with != "":
						if slices.Contains(names, p.with) {
							names = append(names, p.name)
						}
					case p.forward, slices.Contains(was, p.name) && rng.IntN(3) != 0, !slices.Contains(was, p.name) && rng.IntN(4) == 0:
						names = append(names, p.name)
						if !slices.Contains(was, p.name) {
							came[p.name]++
						}
					}
				}
				for _, p := range livePieces { // pint learns of its ports as it comes
					if p.ports != "" && slices.Contains(was, p.name) != slices.Contains(names, p.name) && slices.Contains(was, "pint") {
						names = slices.DeleteFunc(names, func(name string) bool { return name == "pint" })
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
			answered := allAnswered(t, out.String())
			fmt.Printf("graphs under ping: %d graphs, %d workers, %v; %d bytes of TCP; %d pings, 0 lost\n", changes, workers, came, bytes.Load(), answered)
			r := b.stop(t)
			for _, p := range r.Ports {
				if p.Name == "p4" { // whose host asks for the switch's end of the tunnel, also when that is gone
					continue
				}
				for why, n := range p.Dropped { // what is flooded into the tunnel, and has no room there, or no neighbour yet
					if !strings.HasPrefix(why, "tunnel_") {
						t.Errorf("%d packets of %s are dropped: %s", n, p.Name, why)
					}
				}
			}
			if !r.Balanced {
				t.Error("the books do not add up")
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

// TestGraphRefusedWhole: a graph that is not valid is refused whole, by key, and so is a stage that cannot come; nothing has changed then.
func TestGraphRefusedWhole(t *testing.T) {
	b := newBed(t)
	b.writeGraph(t, 1, []string{"acl", "l2"})
	b.start(t)
	text := b.Config()
	for name, want := range map[string]string{
		`"parse", "acl"`:                              "switch.graph: the graph has 0 forwarding stages",
		`"parse", "l2", "acl"`:                        `switch.graph: stage "acl" (policy) is behind "l2" (forward): move it in front`,
		`"parse", "acl", "l3", "l2"`:                  "switch.graph: the graph has 2 forwarding stages",
		`"parse", "bond", "acl", "l2"`:                `switch.graph: stage "bond": nothing would choose members for what leaves by bonds`,
		`"parse", "acl", "bond", "l2", "distribute"`:  `switch.graph: stage "bond" (ingress) is behind "acl" (policy): move it in front`,
		`"parse", "acl", "nat", "l2"`:                 `switch.graph[2]: there is no stage "nat"`,
		`"parse", "acl", "l2", "sflow"`:               "stages.sflow.collectors[0]",
		`"parse", "acl", "l2"]` + "\nid = 2\n# ":      "switch.id: cannot change while the switch runs",
		`"parse", "policer", "acl", "l2"]` + "\n# x ": "", // the one that works: the next one takes it back
	} {
		tables := "[stages.l2]\ntable_size = 1024\n[[stages.acl.rule]]\naction = \"deny\"\n"
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

// spooled reads the records of the node's spool.
func (b *bed) spooled(t *testing.T, each func(h *record.Header, body []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "spool", "*.records"))
	check(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		check(t, err)
		for len(text) != 0 {
			h, body, rest, err := record.Decode(text)
			check(t, err)
			each(&h, body)
			text = rest
		}
	}
}

// TestGraphRecords: stages that come measure all packets from then on, and what they measured is complete, in the spool and in the switch's own store,
// as soon as a reload has taken them out, though their epoch is not over. Their metrics end with them, and begin anew.
func TestGraphRecords(t *testing.T) {
	b := newBed(t)
	plain, measuring := []string{"patch"}, []string{"lds_ingress", "patch", "lds_egress", "disketch", "pint", "oblivious"}
	b.writeGraph(t, 1, plain)
	// Epochs of an hour: none ends by itself.
	long := func() {
		text, err := os.ReadFile(b.file)
		check(t, err)
		b.write(t, strings.NewReplacer("interval_bits = 27", "interval_bits = 34", "epoch_bits = 27", "epoch_bits = 34").Replace(string(text)))
	}
	b.start(t)
	unmeasured, measured := uint64(0), uint64(0)
	send := func(n uint64) {
		t.Helper()
		l := b.load(t, 5000, n)
		if sent, at := l.Received(t); sent != n || at[0] != n {
			t.Fatalf("sent %d, received %v", sent, at)
		}
	}
	metric := func(stage string) (n int) {
		for _, m := range b.Metrics() {
			if m.Stage == stage {
				n++
			}
		}
		return n
	}
	for round := range uint64(3) {
		send(300)
		unmeasured += 300
		b.writeGraph(t, 1, measuring)
		long()
		b.reload(t)
		for _, stage := range measuring[2:] {
			if metric(stage) == 0 {
				t.Errorf("round %d: %s has no metrics", round, stage)
			}
		}
		send(1000 + round)
		measured += 1000 + round
		b.writeGraph(t, 1, plain)
		b.reload(t)
		for _, stage := range measuring[2:] {
			if metric(stage) != 0 {
				t.Errorf("round %d: %s still has metrics", round, stage)
			}
		}
		packets, missed, kinds := map[string]uint64{}, uint64(0), map[record.Kind]int{}
		b.spooled(t, func(h *record.Header, body []byte) {
			kinds[h.Kind]++
			missed += h.Missed
			if h.Kind == record.LDS {
				p, err := lds.Decode(body, h.Hash)
				check(t, err)
				packets[fmt.Sprint(h.Instance)] += p.Packets()
			}
		})
		sum := uint64(0)
		for _, n := range packets {
			sum += n
		}
		if sum != 2*measured || missed != 0 { // as they arrive, and as they leave
			t.Errorf("round %d: points counted %v, want %d at each end; %d missed", round, packets, measured, missed)
		}
		for _, k := range []record.Kind{record.LDS, record.DiSketch, record.PINT, record.Oblivious} {
			if kinds[k] == 0 {
				t.Errorf("round %d: no record of kind %v: %v", round, k, kinds)
			}
		}
		answer, err := b.Ask(t.Context(), &query.Question{Kind: query.KindPath})
		check(t, err)
		if a := answer.(*query.PathAnswer); a.Digests != measured {
			t.Errorf("round %d: %d digests, want %d: %+v", round, a.Digests, measured, a.DigestBasis)
		}
	}
	if r := b.stop(t); r.Received != unmeasured+measured || r.Forwarded != r.Received || len(r.Stages) != 2 {
		t.Errorf("received %d of %d, forwarded %d, stages %v", r.Received, unmeasured+measured, r.Forwarded, r.Stages)
	}
}

// TestGraphForwarding: the forwarding stages become others, from a cable to a bridge, to a bridge with a router and to a router alone and back, under pings
// of hosts that all of them connect, and each does its own work at once.
func TestGraphForwarding(t *testing.T) {
	b := newBed(t)
	for i, at := range []string{"10.0.0.2/24", "10.0.0.3/24", "10.1.0.2/24"} { // hosts 0 and 1 are of a network, host 2 of another one
		h := b.hosts[i]
		check(t, h.NS.SetARP(h.Interface, true))
		net := address(t, h, at).As4()
		check(t, h.NS.AddRoute(h.Interface, netip.MustParsePrefix("10.0.0.0/8"), netip.AddrFrom4([4]byte{10, net[1], 0, 1})))
	}
	const irb = `[[port]]
name = "irb0"
driver = "irb"
`
	const domain = "[[stages.l2.domain]]\nname = \"d\"\nports = [\"p0\", \"p1\"]\n"
	write := func(graph, ports, tables string) {
		b.write(t, strings.Replace(strings.NewReplacer("$GRAPH", graph, "$WORKERS", "1", "$TABLES", tables).Replace(graphSwitch), "[telemetry]", ports+"[telemetry]", 1))
	}
	graphs := map[string]func(){
		"patch":  func() { write(`"parse", "patch"`, "", "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n") },
		"bridge": func() { write(`"parse", "l2"`, "", domain) },
		"guarded bridge": func() {
			write(`"parse", "acl", "l2"`, "", domain+"[[stages.acl.rule]]\naction = \"deny\"\nprotocol = \"tcp\"\n")
		},
		"routed": func() {
			write(`"parse", "l2", "l3", "irb"`, irb, strings.Replace(domain, "\"p1\"", "\"p1\", \"irb0\"", 1)+"[[stages.l3.interface]]\nport = \"irb0\"\naddresses = [\"10.0.0.1/24\"]\n[[stages.l3.interface]]\nport = \"p2\"\naddresses = [\"10.1.0.1/24\"]\n")
		},
	}
	graphs["patch"]()
	b.start(t)
	ping := exec.Command("ping", "-i", "0.002", "-W", "30", "10.0.0.3")
	var out strings.Builder
	ping.Stdout = &out
	check(t, b.hosts[0].NS.Start(ping))
	stations := func() (n int) {
		entries, _ := b.Fdb()
		if entries == nil {
			return 0
		}
		for range entries {
			n++
		}
		return n
	}
	rng := rand.New(rand.NewPCG(5, 5))
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	order := []string{"bridge", "routed", "guarded bridge", "patch", "routed", "bridge", "guarded bridge", "routed", "patch", "bridge", "patch"}
	for range rounds {
		for _, name := range order[:1+rng.IntN(len(order))] {
			known := stations()
			graphs[name]()
			b.reload(t)
			if name != "patch" && known != 0 && stations() == 0 {
				t.Errorf("%s: the stations are forgotten", name)
			}
			if name == "routed" {
				run(t, b.hosts[0].NS, "ping", "-c", "2", "-i", "0.01", "-W", "60", "10.1.0.2")
				run(t, b.hosts[2].NS, "ping", "-c", "2", "-i", "0.01", "-W", "60", "10.0.0.3")
			}
		}
	}
	graphs["bridge"]()
	b.reload(t)
	for _, p := range b.Report().Ports {
		if p.Name == "irb0" && p.State != "removed" {
			t.Errorf("port %s is %s", p.Name, p.State)
		}
	}
	check(t, ping.Process.Signal(os.Interrupt))
	_ = ping.Wait()
	fmt.Printf("graphs that forward otherwise: %d pings, 0 lost\n", allAnswered(t, out.String()))
	if r := b.stop(t); !r.Balanced {
		t.Error("the books do not add up")
	}
}

// TestGraphWatched: a capture goes on at a stage that stays, wherever that is, and ends with one that goes; a trace has the words of the graph that there is.
func TestGraphWatched(t *testing.T) {
	b := newBed(t)
	b.writeGraph(t, 1, []string{"acl", "patch"})
	b.start(t)
	watch := func(stage string) (captured *atomic.Int64, ended chan error, end func()) {
		captured, ended = &atomic.Int64{}, make(chan error, 1)
		ready := make(chan struct{})
		var once sync.Once
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- b.Capture(ctx, &api.CaptureRequest{Stage: stage, Edge: "after"}, func(r *api.CaptureResponse) error {
				once.Do(func() { close(ready) })
				captured.Add(int64(len(r.Packets)))
				return nil
			})
		}()
		<-ready
		return captured, ended, cancel
	}
	captured, ended, end := watch("patch")
	want := int64(0)
	for _, names := range [][]string{{"patch"}, {"policer", "acl", "patch", "mirror"}, {"patch", "pint"}} {
		b.writeGraph(t, 1, names)
		b.reload(t)
		b.exchange(t, 3)
		want += 6
		b.await(t, "the packets are captured", func() bool { return captured.Load() == want })
	}
	end()
	check(t, <-ended)
	_, ended, end = watch("pint")
	defer end()
	b.writeGraph(t, 1, []string{"acl", "patch"})
	b.reload(t)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), `stage "pint" has left the graph`) {
		t.Errorf("the capture ends with %v", err)
	}
	traced := make(chan *api.TraceResponse, 1)
	go func() {
		r, err := b.Trace(t.Context(), &api.TraceRequest{Count: 4, WaitNs: int64(time.Minute)})
		if err != nil {
			t.Error(err)
		}
		traced <- r
	}()
	var r *api.TraceResponse
	for i := 0; r == nil; i++ {
		b.writeGraph(t, 1, [][]string{{"acl", "patch"}, {"policer", "patch"}}[i%2])
		b.reload(t)
		b.exchange(t, 1)
		select {
		case r = <-traced:
		case <-time.After(time.Millisecond):
		}
	}
	for _, p := range r.Packets {
		if len(p.Steps) != 3 || p.Steps[0].Stage != "parse" || p.Steps[1].Stage != "acl" && p.Steps[1].Stage != "policer" || p.Steps[2].Stage != "patch" {
			t.Errorf("a trace of %v", p.Steps)
		}
	}
	b.stop(t)
}
