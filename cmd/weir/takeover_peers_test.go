package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
	"github.com/weirswitch/weir/internal/handover"
	"github.com/weirswitch/weir/internal/testpmd"
	"github.com/weirswitch/weir/pipeline/packet"
)

// peered is how a takeover's test has DPDK's testpmd between two ports of the switch: what comes in at one leaves by the other.
type peered struct {
	name    string
	driver  string
	mode    string // of the switch
	options string // of testpmd's devices
	queue   string // a rate and classes of the switch's ports
}

// config is takeable, with two ports more: what a host sends passes through testpmd.
func (c *peered) config(t *testing.T, b *testbed, dir string) string {
	t.Helper()
	ports := ""
	for i := range 2 {
		ports += fmt.Sprintf("[[port]]\nname = \"v%d\"\ndriver = %q\nmode = %q\nsocket = %q\n", i, c.driver, c.mode, c.socket(dir, i))
		if c.driver == "memif" {
			ports += fmt.Sprintf("id = %d\n", i)
		}
		ports += c.queue
	}
	return b.config(t, "s1", append(slices.Clone(takeable), "[stages.patch]", ports+"[stages.patch]", `[["p0", "p1"]]`, `[["p0", "v0"], ["v1", "p1"]]`)...)
}

func (c *peered) socket(dir string, i int) string {
	if c.driver == "memif" {
		i = 0 // one socket for both
	}
	return filepath.Join(dir, fmt.Sprintf("peer%d", i))
}

// testpmd starts the peer.
func (c *peered) testpmd(t *testing.T, dir, huge string) *testpmd.Process {
	t.Helper()
	var devices []string
	for i := range 2 {
		if c.driver == "memif" {
			devices = append(devices, fmt.Sprintf("net_memif%d,id=%d,socket=%s,socket-abstract=no%s", i, i, c.socket(dir, i), c.options))
		} else {
			devices = append(devices, fmt.Sprintf("net_virtio_user%d,queue_size=1024,path=%s%s", i, c.socket(dir, i), c.options))
		}
	}
	// It never sleeps: a process that is to answer within a second goes first.
	start := func(cmd *exec.Cmd) error {
		err := cmd.Start()
		if err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, 10)
		}
		return err
	}
	return testpmd.Start(t, testpmd.Config{Dir: dir, HugePages: huge, Forward: "io", Devices: devices, Start: start})
}

// awaitPeers waits until packets pass through the peer. It connects before it forwards, and what fills its rings by then is dropped.
func (b *testbed) awaitPeers(t *testing.T, peer *testpmd.Process) {
	t.Helper()
	a, z := b.hosts[0].Packet(t), b.hosts[1].Packet(t)
	buf, frame := make([]byte, 2048), testFrame(2, 1, 1<<31)
	awaitThat(t, "a packet to pass through testpmd", func() (string, bool) {
		if peer.Ended() {
			t.Fatalf("testpmd ended: %v\n%s", peer.Err, &peer.Text)
		}
		must(t, a.Send(frame))
		must(t, z.SetDeadline(time.Now().Add(100*time.Millisecond)))
		n, err := z.Receive(buf)
		return fmt.Sprintf("%+v", b.show(t, "s1")), err == nil && bytes.Equal(buf[:n], frame)
	})
	// Those before it have passed, too: they were in front of it.
}

// connectionsOf lists the sockets that a process has, by the kernel's numbers of them.
func connectionsOf(t *testing.T, pid int) (list []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, f := range files {
		if name, _ := os.Readlink(f); strings.HasPrefix(name, "socket:") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// killedAt has a new process begin to take the switch over, which is killed at a message. The old one goes on.
func (b *testbed) killedAt(t *testing.T, config string, p *process, at handover.Kind) {
	t.Helper()
	var q *process
	started := make(chan struct{})
	from := len(p.stderr.String())
	r := b.relay(t, at, func() bool {
		<-started
		must(t, q.cmd.Process.Signal(unix.SIGKILL))
		_ = q.cmd.Wait()
		return true
	})
	q = b.begin(t, config)
	close(started)
	<-r.done
	if r.err != nil || !r.acted {
		t.Fatalf("the relay: %v, the message has come: %v; the new process says %s", r.err, r.acted, &q.stderr)
	}
	p.awaitLog(t, from, "takeover refused, the switch goes on")
}

// TestTakeoverPeers: DPDK's drivers of virtio-user and memif are between two ports of a switch that processes take over from each other, some of which are killed
// half way, while numbered packets pass through them. They keep their connections, and each packet arrives once, in order, but those that a full ring refused, which
// are counted. The switch has either role, rings are split and packed. There is a takeover before the peer has come, and the next peer connects to the last
// process, and has a TCP connection pass through takeovers.
func TestTakeoverPeers(t *testing.T) {
	times := takeovers(t, 5, 2)
	for _, c := range []peered{
		{"vhost", "vhost", "server", "", ""},
		{"vhost packed client", "vhost", "client", ",packed_vq=1,server=1", "rate_bits = 1_000_000_000\n"},
		{"memif", "memif", "server", ",role=client", "[[port.class]]\nname = \"voice\"\ndscp = [\"ef\"]\n[[port.class]]\nname = \"best\"\nweight = 1\n"},
		{"memif client", "memif", "client", ",role=server", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			huge := testpmd.HugePages(t)
			b := newTestbed(t, 0)
			dir := t.TempDir()
			config := c.config(t, b, dir)
			p := b.start(t, config)
			var blocked []time.Duration
			full := uint64(0) // packets that rings refused in processes that have ended
			var reports []string
			takeOver := func() {
				old := p
				p = b.takeOver(t, config, old)
				full += old.kept(t).Dropped[packet.ReasonTxFull.String()]
				blocked = append(blocked, p.blocked(t))
				reports = append(reports, old.stdout.String())
			}
			takeOver() // without a peer
			peer := c.testpmd(t, dir, huge)
			b.awaitPeers(t, peer)
			takeOver() // and its report has what was dropped before
			connected := connectionsOf(t, peer.PID())

			full = 0
			l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 128, 500, uint64(1000*times))
			for i := range times {
				b.killedAt(t, config, p, []handover.Kind{sayPeers, sayEnd, sayReady}[i%3])
				takeOver()
			}
			during := !l.Ended()
			sent, at := l.Received(t)
			report, err := l.Sinks[0].Report()
			must(t, err)
			b.exchange(t, 20)
			if now := connectionsOf(t, peer.PID()); !slices.Equal(now, connected) {
				t.Errorf("testpmd had the sockets %v, and has %v", connected, now)
			}
			for _, port := range b.show(t, "s1") {
				if strings.HasPrefix(port.Name, "v") && (port.State != "up" || port.Error != "") {
					t.Errorf("after the takeovers: %+v", port)
				}
			}
			peer.Quit()
			if <-peer.Done; peer.Err != nil {
				t.Errorf("testpmd: %v\n%s", peer.Err, &peer.Text)
			}
			takeOver() // from a process whose peer has gone
			lost := sent - at[0]
			if counted := full + peer.Total("RX") - peer.Total("TX"); lost != counted || report.Duplicates+report.Stale+report.Reordered != 0 {
				t.Errorf("of %d packets %d are lost, %d of which rings have refused; %d came twice, %d late, %d out of order",
					sent, lost, counted, report.Duplicates, report.Stale, report.Reordered)
				t.Logf("the processes report %s, and testpmd %s", reports, &peer.Text)
			}

			next := c.testpmd(t, dir, huge)
			b.awaitPeers(t, next)
			s := b.stream(t)
			takeOver()
			takeOver()
			transferred := s.end(t)
			next.Quit()
			if <-next.Done; next.Err != nil {
				t.Errorf("testpmd: %v\n%s", next.Err, &next.Text)
			}
			if status := p.stop(t); status != 0 {
				t.Errorf("the last process ended with %d: %s", status, &p.stderr)
			}
			p.kept(t)
			slices.Sort(blocked)
			fmt.Printf("%s: %d takeovers and %d killed ones, through testpmd %d packets (until the last: %v), lost %d, and %d MiB by TCP: blocked for %v to %v, median %v\n",
				c.name, len(blocked), times, sent, during, lost, transferred>>20, blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
			b.checkClean(t)
			b.checkNoTakeover(t)
			if left, _ := filepath.Glob(filepath.Join(dir, "peer*")); c.mode == "server" && len(left) != 0 {
				t.Errorf("sockets are left: %v", left)
			}
		})
	}
}
