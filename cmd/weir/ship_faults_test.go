package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// alone is the one server of most tests.
func alone(t *testing.T, b *shipBed) *natsNode {
	t.Helper()
	return newNATS(t, b.ns, natsOptions{Name: "n1", Host: "127.0.0.1", Port: 4222, Dir: t.TempDir()})
}

// sentSome is true once more records were sent than before.
func sentSome(before uint64) func(*api.RecordKind) bool {
	return func(k *api.RecordKind) bool { return k.Sent >= before+100 }
}

// caughtUp is true once the switch is connected and has settled what it had when it was first
// asked: others come all the time, and how many of them wait is up to the machine.
func (b *shipBed) caughtUp() func(*api.RecordKind) bool {
	had := uint64(0)
	return func(k *api.RecordKind) bool {
		if had == 0 {
			had = max(1, k.Spooled+k.Found)
		}
		return b.last.State == "connected" && k.Sent > 0 && k.Sent+k.Dropped >= had
	}
}

// whole holds a stream to having all records of one run that lost none.
func whole(t *testing.T, k kept, end *api.RecordKind) {
	t.Helper()
	if end.Made == 0 || end.Sent != end.Made || end.Waiting+end.Dropped+end.Lost != 0 {
		t.Errorf("not all was sent: %v", end)
	}
	if len(k) != 1 {
		t.Fatalf("records of %d runs", len(k))
	}
	if missing, first, last := k.missing(t, k.sorted()[0], end.Made); missing != 0 {
		t.Errorf("%d of %d records are missing, %d to %d", missing, end.Made, first, last)
	}
}

// TestFaultSwitchKilled kills the switch while it sends. What it made is in the
// stream once: of each run all records up to the last one whose writing the kill let end.
func TestFaultSwitchKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestFaultServerKilled and TestFaultNetworkCut are shorter")
	}
	b := newShipBed(t)
	n := alone(t, b)
	_, js := client(t, b.ns, n)
	ensureStream(t, js, 1)
	config := b.write(t, fmt.Sprintf("collector = [\"nats://%s\"]\nspool = %q", n.address(), b.dir2("spool")))
	defer b.flood(t)()
	var sent []uint64 // of each run, as it said shortly before its end
	for range faultRounds(t) {
		p := b.run(t, config)
		k := b.awaitRecords(t, "records to be sent", func(k *api.RecordKind) bool { return k.Sent >= k.Found+100 })
		b.moment(200 * time.Millisecond)
		p.kill()
		sent = append(sent, k.Sent-k.Found)
	}
	p := b.run(t, config)
	b.awaitRecords(t, "the rest to be sent", b.caughtUp())
	end := b.end(t, p)
	if end.Waiting+end.Lost != 0 || end.Sent != end.Made+end.Found-end.Dropped {
		t.Errorf("at the end: %v", end)
	}
	for _, d := range end.Drops {
		if d.Reason != "cut_off" {
			t.Errorf("dropped: %v", d)
		}
	}
	k := readStream(t, js)
	runs := k.sorted()
	if len(runs) != len(sent)+1 {
		t.Fatalf("records of %d runs, there were %d", len(runs), len(sent)+1)
	}
	total := 0
	for i, base := range runs {
		n := uint64(len(k[base]))
		if missing, first, _ := k.missing(t, base, n); missing != 0 {
			t.Errorf("run %d: %d of %d records are missing, from %d on", i, missing, n, first)
		}
		if i < len(sent) && n < sent[i] {
			t.Errorf("run %d had sent %d records, and there are %d", i, sent[i], n)
		}
		total += int(n)
	}
	t.Logf("%d kills, %d records in the stream, each once", len(sent), total)
}

// TestFaultServerKilled kills the server while the switch sends.
func TestFaultServerKilled(t *testing.T) {
	b := newShipBed(t)
	n := alone(t, b)
	_, js := client(t, b.ns, n)
	ensureStream(t, js, 1)
	p := b.run(t, b.write(t, fmt.Sprintf("collector = [\"nats://%s\"]\nspool = %q", n.address(), b.dir2("spool"))))
	stop := b.flood(t)
	for range faultRounds(t) {
		before := numberedOf(b.records(t)).Sent
		b.awaitRecords(t, "records to be sent", sentSome(before))
		b.moment(200 * time.Millisecond)
		n.kill()
		b.moment(500 * time.Millisecond)
		n.start(t)
	}
	b.awaitRecords(t, "all to be sent", b.caughtUp())
	r := b.records(t)
	stop()
	end := b.end(t, p)
	ensureStream(t, js, 1)
	whole(t, readStream(t, js), end)
	t.Logf("%d kills: %d records, %d published again, %d of them known", faultRounds(t), end.Made, r.Retried, r.Duplicates)
}

// TestFaultNetworkCut cuts the network between the switch and the server, shortly
// and for longer than a connection lives without an answer.
func TestFaultNetworkCut(t *testing.T) {
	b := newShipBed(t)
	far := netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: "m0"}, "10.9.0.2/24")
	if err := b.ns.AddAddress("m0", netip.MustParsePrefix("10.9.0.1/24")); err != nil {
		t.Fatal(err)
	}
	n := newNATS(t, far.NS, natsOptions{Name: "n1", Host: "10.9.0.2", Port: 4222, Dir: t.TempDir()})
	_, js := client(t, far.NS, n)
	ensureStream(t, js, 1)
	p := b.run(t, b.write(t, fmt.Sprintf("collector = [\"nats://%s\"]\nspool = %q", n.address(), b.dir2("spool"))))
	stop := b.flood(t)
	for round := range faultRounds(t) {
		before := numberedOf(b.records(t)).Sent
		b.awaitRecords(t, "records to be sent", sentSome(before))
		b.moment(200 * time.Millisecond)
		if err := b.ns.SetDown("m0"); err != nil {
			t.Fatal(err)
		}
		if round%5 == 4 {
			awaitThat(t, "the switch to see it", func() (string, bool) {
				r := b.records(t)
				return fmt.Sprint(r), r.State == "connecting"
			})
		}
		b.moment(2 * time.Second)
		if err := b.ns.SetUp("m0"); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitRecords(t, "all to be sent", b.caughtUp())
	r := b.records(t)
	stop()
	end := b.end(t, p)
	whole(t, readStream(t, js), end)
	t.Logf("%d cuts, %d connections: %d records, %d published again, %d of them known", faultRounds(t), r.Connects, end.Made, r.Retried, r.Duplicates)
}

// TestFaultDiskFull kills the server until the spool's disk is full, and starts it
// again. What the disk did not take is counted with its epochs, and everything else is in the stream.
func TestFaultDiskFull(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestFaultServerKilled and TestFaultNetworkCut are shorter")
	}
	b := newShipBed(t)
	n := alone(t, b)
	_, js := client(t, b.ns, n)
	ensureStream(t, js, 1)
	disk := b.dir2("disk")
	tmpfs(t, disk, "512k")
	p := b.run(t, b.write(t, fmt.Sprintf("collector = [\"nats://%s\"]\nspool = %q", n.address(), disk)))
	stop := b.flood(t)
	lost := uint64(0)
	for range faultRounds(t) {
		n.kill()
		b.awaitRecords(t, "a full disk", func(k *api.RecordKind) bool { return k.Lost > lost+20 })
		n.start(t)
		lost = b.awaitRecords(t, "the disk to be empty", b.caughtUp()).Lost
		before := numberedOf(b.records(t)).Spooled
		b.awaitRecords(t, "records to be written again", func(k *api.RecordKind) bool { return k.Spooled > before+100 })
	}
	stop()
	end := b.end(t, p)
	ensureStream(t, js, 1)
	k := readStream(t, js)
	if len(k) != 1 {
		t.Fatalf("records of %d runs", len(k))
	}
	base := k.sorted()[0]
	missing, first, last := k.missing(t, base, end.Made)
	if missing != end.Lost || end.Sent != end.Made-end.Lost || end.Dropped != 0 || len(end.Drops) != 1 {
		t.Fatalf("%d records are missing: %v", missing, end)
	}
	epoch := uint64(base >> numberedBits)
	if d := end.Drops[0]; d.Reason != "lost" || uint64(d.FirstEpoch) != epoch+first || uint64(d.LastEpoch) != epoch+last {
		t.Errorf("epochs %d to %d are missing: %v", epoch+first, epoch+last, d)
	}
	t.Logf("%d full disks: %d records, %d lost and counted", faultRounds(t), end.Made, end.Lost)
}

// TestFaultBound keeps the server away until the spool is full of records. The oldest
// are dropped, and counted with their epochs; everything else is in the stream.
func TestFaultBound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestFaultServerKilled and TestFaultNetworkCut are shorter")
	}
	b := newShipBed(t)
	n := alone(t, b)
	_, js := client(t, b.ns, n)
	ensureStream(t, js, 1)
	p := b.run(t, b.write(t, fmt.Sprintf("collector = [\"nats://%s\"]\nspool = %q\nspool_bytes = 1048576", n.address(), b.dir2("spool"))))
	stop := b.flood(t)
	dropped := uint64(0)
	for range faultRounds(t) {
		n.kill()
		b.awaitRecords(t, "a full spool", func(k *api.RecordKind) bool { return k.Dropped > dropped+20 })
		n.start(t)
		dropped = b.awaitRecords(t, "the spool to be empty", b.caughtUp()).Dropped
	}
	stop()
	end := b.end(t, p)
	ensureStream(t, js, 1)
	k := readStream(t, js)
	if len(k) != 1 {
		t.Fatalf("records of %d runs", len(k))
	}
	base := k.sorted()[0]
	missing, first, last := k.missing(t, base, end.Made)
	if missing != end.Dropped || end.Sent != end.Made-end.Dropped || end.Lost != 0 || len(end.Drops) != 1 {
		t.Fatalf("%d records are missing: %v", missing, end)
	}
	epoch := uint64(base >> numberedBits)
	if d := end.Drops[0]; d.Reason != "spool_full" || uint64(d.FirstEpoch) != epoch+first || uint64(d.LastEpoch) != epoch+last {
		t.Errorf("epochs %d to %d are missing: %v", epoch+first, epoch+last, d)
	}
	t.Logf("%d full spools: %d records, %d dropped and counted", faultRounds(t), end.Made, end.Dropped)
}

// TestFaultNodeKilled kills one node after the other of a cluster that keeps each
// record on three.
func TestFaultNodeKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestFaultServerKilled and TestFaultNetworkCut are shorter")
	}
	b := newShipBed(t)
	var nodes []*natsNode
	routes := []int{6222, 6223, 6224}
	for i := range 3 {
		nodes = append(nodes, newNATS(t, b.ns, natsOptions{
			Name: fmt.Sprintf("n%d", i+1), Host: "127.0.0.1", Port: 4222 + i, Cluster: routes[i], Routes: routes, Dir: t.TempDir(),
		}))
	}
	_, js := client(t, b.ns, nodes...)
	ensureStream(t, js, 3)
	const spoolBytes = 8 << 30 // a busy machine may keep records waiting for minutes; TestFaultBound has the bound
	servers := fmt.Sprintf("[\"nats://%s\", \"nats://%s\", \"nats://%s\"]", nodes[0].address(), nodes[1].address(), nodes[2].address())
	c := newCollecting(t, b, "replicas = 3\nservers = "+servers)
	p := b.run(t, b.config(t, "s1", `"parse", "patch"`, `"parse", "numbered", "patch", "disketch"`,
		"[control]", fmt.Sprintf("[telemetry]\nbudget = \"none\"\ncollector = %s\nspool = %q\nspool_bytes = %d\n", servers, b.dir2("spool"), spoolBytes)+sketchConfig+"[control]"))
	stop := b.flood(t)
	healthy := func() (string, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), answerWait)
		defer cancel()
		s, err := js.Stream(ctx, jetstream.Stream)
		if err != nil {
			return err.Error(), false
		}
		c := s.CachedInfo().Cluster
		if c == nil || c.Leader == "" || len(c.Replicas) != 2 {
			return fmt.Sprintf("%+v", c), false
		}
		for _, r := range c.Replicas {
			if !r.Current || r.Offline {
				return fmt.Sprintf("%+v", r), false
			}
		}
		return "", true
	}
	rounds, leaders := faultRounds(t), 0
	if rounds <= 2 {
		rounds = 1 // a cluster takes its time
	}
	for round := range rounds {
		awaitThat(t, "the cluster to be whole", healthy)
		before := numberedOf(b.records(t)).Sent
		b.awaitRecords(t, "records to be sent", sentSome(before))
		node := nodes[round%3]
		ctx, cancel := context.WithTimeout(t.Context(), answerWait)
		if s, err := js.Stream(ctx, jetstream.Stream); err == nil {
			// Every other kill is that of the stream's leader, which hurts most.
			for _, n := range nodes {
				if round%2 == 0 && n.options.Name == s.CachedInfo().Cluster.Leader {
					node = n
					leaders++
				}
			}
		}
		cancel()
		node.kill()
		b.awaitRecords(t, "records to be sent to those that are left", sentSome(numberedOf(b.records(t)).Sent))
		b.moment(time.Second)
		node.start(t)
	}
	awaitThat(t, "the cluster to be whole", healthy)
	b.awaitRecords(t, "all to be sent", b.caughtUp())
	r := b.records(t)
	stop()
	b.awaitRecords(t, "the rest to be sent", b.caughtUp()) // a switch that ends waits for some seconds only
	end := b.end(t, p)
	whole(t, readStream(t, js), end)
	sketches := kindOf(lastRecords(t, p), record.DiSketch)
	if sketches.Made == 0 || sketches.Sent != sketches.Made {
		t.Errorf("not all was sent: %v", sketches)
	}
	c.hasAll(t, sketches.Sent)
	t.Logf("%d kills, %d of leaders: %d records, %d published again, %d of them known", rounds, leaders, end.Made, r.Retried, r.Duplicates)
}

// TestTelemetryReload: a switch begins to send, sends to another destination, and stops sending,
// without a restart; its folder stays, and what cannot serve is refused.
func TestTelemetryReload(t *testing.T) {
	b := newShipBed(t)
	n := alone(t, b)
	_, js := client(t, b.ns, n)
	ensureStream(t, js, 1)
	spool := fmt.Sprintf("spool = %q\n", b.dir2("spool"))
	p := b.run(t, b.write(t, spool))
	stop := b.flood(t)
	b.awaitRecords(t, "records", func(k *api.RecordKind) bool { return k.Waiting > 100 })
	if r := b.records(t); r.State != "off" || numberedOf(r).Sent != 0 {
		t.Errorf("without a collector: %v", r)
	}
	reload := func(text string) (int, string) {
		path := b.write(t, text)
		status, _, stderr := weir("ctl", "--socket", b.socket("s1"), "reload", path)
		return status, stderr
	}
	if status, stderr := reload(fmt.Sprintf("collector = [\"nats://%s\"]\n", n.address()) + spool); status != 0 {
		t.Fatal(stderr)
	}
	b.awaitRecords(t, "all to be sent", b.caughtUp())
	for _, bad := range []struct{ text, want string }{
		{"spool = \"/elsewhere\"\n", "telemetry.spool: cannot change while the switch runs"},
		{"collector = [\"nats://127.0.0.1\"]\ntls_ca = \"/none\"\n" + spool, "telemetry.tls_ca: open /none"},
		{"collector = [\"here\"]\n" + spool, "telemetry.collector[0]: "},
	} {
		if status, stderr := reload(bad.text); status == 0 || !strings.Contains(stderr, bad.want) {
			t.Errorf("%s: status %d, %s", bad.text, status, stderr)
		}
	}
	if r := b.records(t); r.State != "connected" {
		t.Errorf("after what was refused: %v", r)
	}
	if status, stderr := reload(spool + "spool_bytes = 1048576\n"); status != 0 {
		t.Fatal(stderr)
	}
	was := b.records(t)
	sent := numberedOf(was).Sent
	b.awaitRecords(t, "the new bound", func(k *api.RecordKind) bool { return k.Dropped > 0 })
	if r := b.records(t); r.State != "off" || numberedOf(r).Sent != sent || r.Acknowledged != was.Acknowledged || was.Acknowledged < sent {
		t.Errorf("without a collector again: %v", r)
	}
	stop()
	end := b.end(t, p)
	k := readStream(t, js)
	base := k.sorted()[0]
	// Some may be there whose acknowledgement the switch did not wait for.
	n0 := uint64(len(k[base]))
	if missing, first, _ := k.missing(t, base, n0); missing != 0 || n0 < sent || end.Sent != sent {
		t.Errorf("%d of %d records are missing, from %d on; %v", missing, n0, first, end)
	}
	if left, err := os.ReadDir(b.dir2("spool")); err != nil || len(left) < 3 {
		t.Errorf("%v, %v", left, err)
	}
}
