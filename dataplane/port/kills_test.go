package port

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/internal/testpmd"
)

// kills is how often a test kills a process: WEIR_KILLS, or a few times.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_KILLS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 3 {
		t.Fatalf("WEIR_KILLS=%q: want a number from 3 on", text)
	}
	return n
}

// resources are what a connection takes of this process.
type resources struct{ files, mappings, goroutines int }

func resourcesInUse(t *testing.T) (r resources) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	check(t, err)
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); len(fields) > 5 && (strings.HasPrefix(fields[5], "/memfd:") || strings.Contains(fields[5], "rtemap")) {
			r.mappings++
		}
	}
	r.files, r.goroutines = len(files), runtime.NumGoroutine()
	return r
}

// TestKilledPeers: DPDK's driver is killed in the middle of its traffic, and another one takes its place, time after time. No
// descriptor, mapping or goroutine of one that is gone is left.
func TestKilledPeers(t *testing.T) {
	huge := testpmd.HugePages(t)
	rounds := kills(t)
	run := func(t *testing.T, b *vhostBridge, start func() *testpmd.Process, connected func() bool) {
		var before resources
		for i := range rounds {
			p := start()
			for until := b.sent + 1000; b.sent < until && !p.Ended(); {
				b.turn()
			}
			p.Kill()
			for connected() {
				b.turn()
			}
			await(t, "what the peer took to be given back", func() bool {
				r := resourcesInUse(t)
				if i < 2 { // the first connections start what stays
					before = r
				}
				return r.files <= before.files && r.mappings == 0 && r.goroutines <= before.goroutines
			})
		}
	}
	t.Run("vhost", func(t *testing.T) {
		b := openBridge(t)
		defer b.close()
		run(t, b, func() *testpmd.Process { return startTestpmd(t, b, huge, "") }, func() bool {
			return b.ports[0].device.Status().Connected || b.ports[1].device.Status().Connected
		})
	})
	t.Run("memif", func(t *testing.T) {
		b := openMemifs(t, func(int, *Config) {})
		defer b.close()
		run(t, &b.vhostBridge, func() *testpmd.Process {
			path := b.ports[0].config.Socket
			device := func(i int) string {
				return fmt.Sprintf("net_memif%d,id=%d,socket=%s,socket-abstract=no,role=client", i, i, path)
			}
			p := testpmd.Start(t, testpmd.Config{Dir: filepath.Dir(path), HugePages: huge, Forward: "flowgen", Devices: []string{device(0), device(1)}})
			await(t, "connections", func() bool { return b.connected() || p.Ended() })
			return p
		}, func() bool { return b.ports[0].Info().State == StateUp || b.ports[1].Info().State == StateUp })
	})
}

// bridgeVariable names the folder with the sockets of a process that TestKilledSwitch kills.
const bridgeVariable = "WEIR_TEST_BRIDGE"

// TestBridgeProcess is that process: it connects to the sockets, and says when packets have passed.
func TestBridgeProcess(t *testing.T) {
	dir := os.Getenv(bridgeVariable)
	if dir == "" {
		t.Skip("a process of TestKilledSwitch")
	}
	b := openBridgeIn(t, dir, ModeClient)
	for said := false; ; b.turn() {
		if b.sent >= 1000 && !said {
			fmt.Println("passing")
			said = true
		}
	}
}

// TestKilledSwitch: the process with the ports is killed in the middle of the traffic, and the next one goes on with the same
// driver of DPDK, which listens.
func TestKilledSwitch(t *testing.T) {
	huge := testpmd.HugePages(t)
	dir := t.TempDir()
	var peer *testpmd.Process
	for i := range kills(t) {
		c := exec.Command("/proc/self/exe", "-test.run=^TestBridgeProcess$")
		c.Env = append(os.Environ(), bridgeVariable+"="+dir)
		out, err := c.StdoutPipe()
		check(t, err)
		check(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill() })
		if peer == nil { // it waits for the first one
			peer = testpmd.Start(t, testpmd.Config{Dir: dir, HugePages: huge, Forward: "flowgen", Devices: []string{
				"net_virtio_user0,queue_size=256,server=1,path=" + filepath.Join(dir, "v0"), "net_virtio_user1,queue_size=256,server=1,path=" + filepath.Join(dir, "v1"),
			}})
		}
		said, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || said != "passing\n" || peer.Ended() {
			t.Fatalf("process %d says %q: %v; testpmd has ended: %v", i, said, err, peer.Ended())
		}
		check(t, c.Process.Kill())
		_ = c.Wait()
	}
	peer.Quit()
	<-peer.Done
	if peer.Err != nil {
		t.Errorf("testpmd: %v\n%s", peer.Err, &peer.Text)
	}
}
