package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsstream "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// testNATS makes the test binary be a NATS server, with options in JSON.
const testNATS = "WEIR_TEST_NATS"

// natsOptions are those of a server that a test starts as a process.
type natsOptions struct {
	Name, Host, Dir string
	Port            int
	Cluster         int   // port of its cluster; 0: it is alone
	Routes          []int // ports of all of it
}

// becomeNATS is a server until it is killed.
func becomeNATS(text string) {
	var o natsOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	so := &server.Options{
		ServerName: o.Name, Host: o.Host, Port: o.Port, JetStream: true, StoreDir: o.Dir, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 64 << 30,
	}
	if o.Cluster != 0 {
		so.Cluster = server.ClusterOpts{Name: "weir", Host: o.Host, Port: o.Cluster}
		for _, p := range o.Routes {
			so.Routes = append(so.Routes, server.RoutesFromStr(fmt.Sprintf("nats://%s:%d", o.Host, p))...)
		}
	}
	s, err := server.NewServer(so)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Start()
	select {}
}

// natsNode is a server that can be killed and started again with its disk.
type natsNode struct {
	options natsOptions
	ns      *netns.Namespace
	cmd     *exec.Cmd
	said    *strings.Builder
}

func newNATS(t *testing.T, ns *netns.Namespace, o natsOptions) *natsNode {
	t.Helper()
	n := &natsNode{options: o, ns: ns}
	n.start(t)
	t.Cleanup(func() { n.kill() })
	return n
}

func (n *natsNode) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(n.options)
	if err != nil {
		t.Fatal(err)
	}
	n.said = new(strings.Builder)
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Stderr = n.said
	n.cmd.Env = append(os.Environ(), testNATS+"="+string(text))
	if err := n.ns.Start(n.cmd); err != nil {
		t.Fatal(err)
	}
}

// kill ends it by SIGKILL.
func (n *natsNode) kill() {
	if n.cmd.ProcessState == nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	}
}

func (n *natsNode) address() string {
	return net.JoinHostPort(n.options.Host, strconv.Itoa(n.options.Port))
}

// inside dials in a namespace.
type inside struct{ ns *netns.Namespace }

func (i inside) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return i.ns.Dial(ctx, network, address)
}

// client connects to any of some servers, as often as it takes.
func client(t *testing.T, ns *netns.Namespace, nodes ...*natsNode) (*nats.Conn, natsstream.JetStream) {
	t.Helper()
	var servers []string
	for _, n := range nodes {
		servers = append(servers, "nats://"+n.address())
	}
	nc, err := nats.Connect(strings.Join(servers, ","), nats.SetCustomDialer(inside{ns}), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.IgnoreDiscoveredServers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// answerWait is how long one request waits for a server of a cluster: while that has no leader a request
// is lost, and must be sent again.
const answerWait = 10 * time.Second

// ensureStream makes the stream once the servers are able to.
func ensureStream(t *testing.T, js natsstream.JetStream, replicas int) {
	t.Helper()
	awaitThat(t, "the stream", func() (string, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), answerWait)
		defer cancel()
		_, err := jetstream.EnsureStream(ctx, js, jetstream.StreamConfig{Replicas: replicas, Duplicates: 10 * time.Minute})
		return fmt.Sprint(err), err == nil
	})
}

// awaitThat waits until something is so.
func awaitThat(t *testing.T, what string, ok func() (now string, done bool)) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		now, done := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain: %s", what, now)
		}
	}
}

// numbered is the name of a test's stage that has a record every millisecond.
const numbered = "numbered"

func init() {
	if os.Getenv(testStage) == "1" {
		stages.Kinds[numbered] = stages.Kind{
			Help:     "has a record every millisecond",
			Default:  func() any { return new(numberedStage) },
			Validate: func(any, []string) error { return nil },
			New: func(any, pipeline.Env) (pipeline.Module, error) {
				return &numberedStage{base: clock.Kernel.TAI() >> numberedBits << numberedBits}, nil
			},
		}
	}
}

// numberedStage has records with numbers from 0 in each run. The number n of a run that
// began at base is of the epoch that is n behind base's.
type numberedStage struct {
	base int64
	next uint64
}

const (
	numberedBits  = 20
	numberedBytes = 3000
)

func (*numberedStage) Role() pipeline.Role        { return pipeline.RoleIngress }
func (*numberedStage) Needs() packet.Needs        { return 0 }
func (s *numberedStage) Stage(int) pipeline.Stage { return s }
func (*numberedStage) Process(*packet.Batch)      {}

// Collect implements export.Source.
func (s *numberedStage) Collect(now int64, _ bool, emit record.Emit) {
	for ; s.base+int64(s.next)<<numberedBits <= now; s.next++ {
		emit(&record.Header{Kind: record.LDS, Start: s.base + int64(s.next)<<numberedBits, Span: 1 << numberedBits}, func(dst []byte) ([]byte, error) {
			dst = binary.BigEndian.AppendUint64(dst, uint64(s.base))
			dst = binary.BigEndian.AppendUint64(dst, s.next)
			return append(dst, make([]byte, numberedBytes)...), nil
		})
	}
}

// kept is what the stream has: by run, how often each number.
type kept map[int64]map[uint64]int

// readStream reads the whole stream.
func readStream(t *testing.T, js natsstream.JetStream) kept {
	t.Helper()
	runs := kept{}
	err := eachMessage(t.Context(), js, func(m natsstream.Msg) error {
		h, body, rest, err := record.Decode(m.Data())
		if err == nil && h.Kind != record.LDS {
			return nil // what the switch says of itself, and sketches
		}
		if err != nil || len(rest) != 0 || len(body) != 16+numberedBytes || m.Subject() != jetstream.Subject(&h) {
			return fmt.Errorf("a message on %s: %+v with %d and %d bytes, %w", m.Subject(), h, len(body), len(rest), err)
		}
		base := int64(binary.BigEndian.Uint64(body))
		if runs[base] == nil {
			runs[base] = map[uint64]int{}
		}
		runs[base][binary.BigEndian.Uint64(body[8:])]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// eachMessage calls f for each message that the stream has. Each may take its time: after hours of a
// switch without a budget there are gigabytes.
func eachMessage(ctx context.Context, js natsstream.JetStream, f func(natsstream.Msg) error) error {
	var all natsstream.StreamState
	var c natsstream.Consumer
	ask := func() error {
		ctx, cancel := context.WithTimeout(ctx, answerWait)
		defer cancel()
		s, err := js.Stream(ctx, jetstream.Stream)
		if err != nil {
			return err
		}
		all = s.CachedInfo().State
		c, err = s.OrderedConsumer(ctx, natsstream.OrderedConsumerConfig{})
		return err
	}
	err := ask()
	for tries := 0; err != nil && tries < 12; tries++ { // a cluster that writes gigabytes loses requests
		err = ask()
	}
	if err != nil || all.Msgs == 0 {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for n := range all.Msgs {
		m, err := messages.Next(natsstream.NextMaxWait(answerWait))
		if err != nil {
			return fmt.Errorf("message %d of %+v: %w", n, all, err)
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// sorted are the runs in the order of their beginnings.
func (k kept) sorted() []int64 { return slices.Sorted(maps.Keys(k)) }

// missing counts which of the numbers below n a run lacks, and reports numbers that are there
// more than once, or beyond.
func (k kept) missing(t *testing.T, base int64, n uint64) (missing, first, last uint64) {
	t.Helper()
	run := k[base]
	for number := range n {
		switch run[number] {
		case 0:
			if missing++; missing == 1 {
				first = number
			}
			last = number
		case 1:
		default:
			t.Errorf("run %d: record %d is in the stream %d times", base, number, run[number])
		}
	}
	if n-missing != uint64(len(run)) {
		t.Errorf("run %d: %d records in the stream, %d of them below %d", base, len(run), n-missing, n)
	}
	return missing, first, last
}

// faultRounds is how often a test has its fault: make collect-faults has more.
func faultRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_COLLECT_FAULTS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WEIR_COLLECT_FAULTS=%s is no number of rounds", text)
	}
	return n
}

// shipBed is a switch that makes records, under a load of packets, and its servers.
type shipBed struct {
	*testbed
	random *rand.Rand
	last   *api.Records // as last seen
}

func newShipBed(t *testing.T) *shipBed {
	t.Helper()
	b := &shipBed{testbed: newTestbed(t, 0), random: rand.New(rand.NewPCG(9, 9))}
	if err := b.ns.SetUp("lo"); err != nil {
		t.Fatal(err)
	}
	return b
}

// write writes the switch's configuration, with keys of [telemetry].
func (b *shipBed) write(t *testing.T, telemetry string) string {
	t.Helper()
	return b.config(t, "s1", `"parse", "patch"`, `"parse", "numbered", "patch"`, "[control]", "[telemetry]\nbudget = \"none\"\n"+telemetry+"\n[control]")
}

func (b *shipBed) dir2(name string) string { return filepath.Join(b.testbed.dir, name) }

// run starts the switch.
func (b *shipBed) run(t *testing.T, config string) *process {
	t.Helper()
	p := b.start(t, config, testStage+"=1")
	b.last = nil
	return p
}

// records asks the switch, and holds its counters to their sums.
func (b *shipBed) records(t *testing.T) *api.Records {
	t.Helper()
	status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "telemetry", "--json")
	var shown struct{ Records *api.Records }
	if err := json.Unmarshal([]byte(stdout), &shown); status != 0 || err != nil || shown.Records == nil {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	checkRecords(t, shown.Records)
	b.last = shown.Records
	return shown.Records
}

func checkRecords(t *testing.T, r *api.Records) {
	t.Helper()
	for _, k := range r.Kinds {
		drops, over := uint64(0), uint64(0) // over are beyond the budget
		for _, d := range k.Drops {
			if drops += d.Records; d.Reason == "budget" {
				over += d.Records
			}
		}
		if k.Made != k.Spooled+k.Lost+over || k.Spooled+k.Found != k.Sent+k.Waiting+k.Dropped || k.Dropped+k.Lost+over != drops {
			t.Errorf("the counters do not add up: %v", k)
		}
	}
}

// numberedOf is the kind of the numbered records.
func numberedOf(r *api.Records) *api.RecordKind {
	for _, k := range r.Kinds {
		if k.Kind == record.LDS.String() {
			return k
		}
	}
	return &api.RecordKind{}
}

// awaitRecords waits until the counters of the numbered records are so.
func (b *shipBed) awaitRecords(t *testing.T, what string, ok func(*api.RecordKind) bool) *api.RecordKind {
	t.Helper()
	var k *api.RecordKind
	awaitThat(t, what, func() (string, bool) {
		r := b.records(t)
		k = numberedOf(r)
		return fmt.Sprint(r), ok(k)
	})
	return k
}

// moment sleeps up to a time.
func (b *shipBed) moment(most time.Duration) { time.Sleep(time.Duration(b.random.Int64N(int64(most)))) }

// flood sends packets through the switch until the function that it returns is
// called.
func (b *shipBed) flood(t *testing.T) (stop func()) {
	t.Helper()
	socket := b.hosts[0].Packet(t)
	end := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := uint32(0); ; n++ {
			select {
			case <-end:
				return
			case <-time.After(200 * time.Microsecond):
			}
			_ = socket.Send(testFrame(2, 1, n)) // fails while there is no switch
		}
	})
	stop = sync.OnceFunc(func() { close(end); sending.Wait() })
	t.Cleanup(stop)
	return stop
}

// end stops the switch, and returns its last counters.
func (b *shipBed) end(t *testing.T, p *process) *api.RecordKind {
	t.Helper()
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 || r.Forwarded == 0 || r.Received != r.Forwarded {
		t.Errorf("last report: %+v", r)
	}
	return numberedOf(lastRecords(t, p))
}

// lastRecords are those of a switch's last report.
func lastRecords(t *testing.T, p *process) *api.Records {
	t.Helper()
	var report struct{ Records *api.Records }
	if err := json.Unmarshal(p.stdout.Bytes(), &report); err != nil || report.Records == nil {
		t.Fatalf("%v: %s", err, &p.stdout)
	}
	checkRecords(t, report.Records)
	return report.Records
}
