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

// resources are what connections take of this process.
type resources struct {
	files, mappings, goroutines int
	memory                      uint64 // of the heap, bytes
}

func (r resources) String() string {
	text := fmt.Sprintf("%d descriptors, %d mappings of shared memory", r.files, r.mappings)
	if r.goroutines != 0 { // of this process
		text += fmt.Sprintf(", %d goroutines, %d KiB of heap", r.goroutines, r.memory>>10)
	}
	return text
}

// keptMemory is what the heap may grow by over all kills, in bytes: a connection's rings take some 40 KiB, and what a testpmd writes, which
// stays until the test's end, some 5 KiB.
const keptMemory = 1 << 20

func resourcesInUse(t *testing.T) resources {
	t.Helper()
	var heap runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&heap)
	r := resourcesOf(t, os.Getpid())
	r.goroutines, r.memory = runtime.NumGoroutine(), heap.HeapAlloc
	return r
}

// resourcesOf are the descriptors and mappings of a process.
func resourcesOf(t *testing.T, pid int) (r resources) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	check(t, err)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	check(t, err)
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); len(fields) > 5 && (strings.HasPrefix(fields[5], "/memfd:") || strings.Contains(fields[5], "map_")) { // the latter in huge pages
			r.mappings++
		}
	}
	r.files = len(files)
	return r
}

// TestKilledPeers: DPDK's driver is killed in the middle of its traffic, and another one takes its place, time after time. No
// descriptor, mapping, goroutine or memory of one that is gone is left.
func TestKilledPeers(t *testing.T) {
	huge := testpmd.HugePages(t)
	rounds := kills(t)
	run := func(t *testing.T, b *vhostBridge, start func() *testpmd.Process, connected func() bool) {
		var before, after resources
		for i := range rounds {
			p := start()
			for until := b.sent + 1000; b.sent < until && !p.Ended(); {
				b.turn()
			}
			if !p.Ended() && resourcesOf(t, os.Getpid()).mappings == 0 {
				t.Error("the peer's memory is not mapped, or not counted")
			}
			p.Kill()
			for connected() {
				b.turn()
			}
			await(t, "what the peer took to be given back", func() bool {
				after = resourcesInUse(t)
				if i < 2 { // the first connections start what stays
					before = after
				}
				return after.files <= before.files && after.mappings == 0 && after.goroutines <= before.goroutines && after.memory <= before.memory+keptMemory
			})
		}
		t.Logf("%d peers killed, %d packets passed; after the second %s; after the last %s", rounds, b.sent, before, after)
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

// The variables that say what a process that TestKilledSwitch kills is: the folder with its sockets, and its driver.
const (
	bridgeVariable = "WEIR_TEST_BRIDGE"
	driverVariable = "WEIR_TEST_DRIVER"
)

// TestBridgeProcess is that process: it connects to the sockets, and says when packets have passed.
func TestBridgeProcess(t *testing.T) {
	dir := os.Getenv(bridgeVariable)
	if dir == "" {
		t.Skip("a process of TestKilledSwitch")
	}
	var b *vhostBridge
	if os.Getenv(driverVariable) == DriverMemif {
		b = &openMemifs(t, func(_ int, c *Config) { c.Socket, c.Mode = filepath.Join(dir, "memif.sock"), ModeClient }).vhostBridge
	} else {
		b = openBridgeIn(t, dir, ModeClient)
	}
	for said := false; ; b.turn() {
		if b.sent >= 1000 && !said {
			fmt.Println("passing")
			said = true
		}
	}
}

// startBridge starts such a process, which the test's end kills.
func startBridge(t *testing.T, dir, driver string) (c *exec.Cmd, said <-chan string) {
	t.Helper()
	c = exec.Command("/proc/self/exe", "-test.run=^TestBridgeProcess$")
	c.Env = append(os.Environ(), bridgeVariable+"="+dir, driverVariable+"="+driver)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
	}()
	return c, line
}

// TestKilledSwitch: the process with the ports is killed in the middle of the traffic, and the next one goes on with the same
// other end, which listens, and holds in the end no more than at first.
func TestKilledSwitch(t *testing.T) {
	t.Run("vhost", killedVhost)
	t.Run("memif", killedMemif)
}

// killedVhost has DPDK's driver at the other end.
func killedVhost(t *testing.T) {
	huge := testpmd.HugePages(t)
	dir, rounds := t.TempDir(), kills(t)
	var peer *testpmd.Process
	var before, after resources
	for i := range rounds {
		c, said := startBridge(t, dir, DriverVhost)
		if peer == nil { // it waits for the first one
			peer = testpmd.Start(t, testpmd.Config{Dir: dir, HugePages: huge, Forward: "flowgen", Devices: []string{
				"net_virtio_user0,queue_size=256,server=1,path=" + filepath.Join(dir, "v0"), "net_virtio_user1,queue_size=256,server=1,path=" + filepath.Join(dir, "v1"),
			}})
		}
		select {
		case line := <-said:
			if line != "passing\n" {
				t.Fatalf("process %d says %q", i, line)
			}
		case <-peer.Done:
			t.Fatalf("testpmd ended with process %d: %v\n%s", i, peer.Err, &peer.Text)
		}
		if after = resourcesOf(t, peer.PID()); i == 0 {
			before = after
		}
		check(t, c.Process.Kill())
		_ = c.Wait()
	}
	t.Logf("%d switches killed; testpmd with the first %s; with the last %s", rounds, before, after)
	if after.files > before.files || after.mappings > before.mappings {
		t.Error("testpmd holds more than at first")
	}
	peer.Quit()
	<-peer.Done
	if peer.Err != nil {
		t.Errorf("testpmd: %v\n%s", peer.Err, &peer.Text)
	}
}

// killedMemif has ports of ours at the other end, which listen: DPDK's driver of memif unmaps, as a server, what its forwarding still reads.
func killedMemif(t *testing.T) {
	dir, rounds := t.TempDir(), kills(t)
	b := openMemifs(t, func(_ int, c *Config) { c.Socket = filepath.Join(dir, "memif.sock") })
	defer b.close()
	var before, after resources
	passed := 0
	for i := range rounds {
		c, _ := startBridge(t, dir, DriverMemif)
		await(t, "packets that pass", func() bool {
			for k := range 2 {
				b.send(k, 0, 32)
				passed += b.queues[k].Receive(b.batch)
				for n := range b.batch.Pkts {
					b.cache.FreePacket(&b.batch.Pkts[n])
				}
				b.batch.Reset()
			}
			return passed >= 1000*(i+1)
		})
		if resourcesOf(t, os.Getpid()).mappings == 0 {
			t.Error("the client's memory is not mapped, or not counted")
		}
		check(t, c.Process.Kill())
		_ = c.Wait()
		await(t, "what the client took to be given back", func() bool {
			after = resourcesInUse(t)
			if i < 2 {
				before = after
			}
			return after.files <= before.files && after.mappings == 0 && after.goroutines <= before.goroutines && after.memory <= before.memory+keptMemory
		})
	}
	t.Logf("%d switches killed, %d packets passed; after the second %s; after the last %s", rounds, passed, before, after)
}
