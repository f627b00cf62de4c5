package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// TestLabs runs the labs of testdata: kernel hosts over three live switches,
// 1 GiB of TCP and 10,000 pings with one queue, and a quarter of the bytes with
// four queues on two workers. weir lab run fails if anything was lost, wrong or
// reordered, a frame got lost, or counters do not add up; where nothing but rings
// overflowed, on a machine that was too busy, it runs again.
func TestLabs(t *testing.T) {
	netnstest.Require(t)
	files, err := filepath.Glob("testdata/labs/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no labs", err)
	}
	for i, file := range files {
		if testing.Short() && i > 0 {
			break
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			file := ownLab(t, file)
			if testing.Short() {
				shrink(t, file, "count = 10_000", "count = 2000", "bytes = 1_073_741_824", "bytes = 67_108_864")
			}
			const runs = 3
			for attempt := range runs {
				out, err := weirCommand("lab", "run", "--json", file).Output()
				var o labOutcome
				if jsonErr := json.Unmarshal(out, &o); jsonErr != nil {
					t.Fatalf("%v, %v\n%s", err, jsonErr, out)
				}
				if err == nil && o.OK {
					return
				}
				why := o.disturbed()
				if why == "" || attempt == runs-1 {
					t.Fatalf("%v\n%s", err, out)
				}
				t.Logf("attempt %d: the machine was too busy: %s", attempt, why)
			}
		})
	}
}

// shrink replaces sizes in a lab's file.
func shrink(t *testing.T, file string, changes ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	small := strings.NewReplacer(changes...).Replace(string(text))
	if small == string(text) {
		t.Fatalf("%s has none of %q", file, changes)
	}
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ownLab copies a lab's file under a name that is this process's own, for
// a lab's name is unique on the machine, and takes it down if the test dies
// halfway.
func ownLab(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.TrimSuffix(filepath.Base(file), ".toml")
	name := fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), old)
	path := filepath.Join(t.TempDir(), name+".toml")
	text = bytes.Replace(text, fmt.Appendf(nil, "name = %q", old), fmt.Appendf(nil, "name = %q", name), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { weir("lab", "down", path) })
	return path
}

// TestBroadcastReachesAllOnce: on a switch of eight ports each host's broadcast
// reaches the seven others once each, and never its sender.
func TestBroadcastReachesAllOnce(t *testing.T) {
	netnstest.Require(t)
	const ports, each = 8, 20
	b := &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	config := fmt.Sprintf("[switch]\nname = \"s8\"\ngraph = [\"parse\", \"l2\"]\n[dataplane]\naudit = true\n[control]\nsocket = %q\n", b.socket("s8"))
	var sockets [ports]*netns.PacketSocket
	for i := range ports {
		name := fmt.Sprintf("p%d", i)
		host := netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: name})
		sockets[i] = host.Packet(t)
		config += fmt.Sprintf("[[port]]\ninterface = %q\n", name)
	}
	path := filepath.Join(b.dir, "s8.toml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.start(t, path)
	sent := map[string]int{} // frame -> sender
	for n := range each {
		for i := range ports {
			frame := testFrame(0, byte(i+1), uint32(n))
			copy(frame, bytes.Repeat([]byte{0xff}, 6))
			sent[string(frame)] = i
			if err := sockets[i].Send(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	var received [ports][][]byte
	var faults [ports]error
	var all sync.WaitGroup
	for i := range ports {
		all.Go(func() {
			received[i], faults[i] = sockets[i].ReceiveAll(time.Second, 0, func(f []byte) bool { return f[12] == 0x88 && f[13] == 0xb6 })
		})
	}
	all.Wait()
	for i, got := range received {
		if faults[i] != nil {
			t.Fatal(faults[i])
		}
		seen := map[string]int{}
		for _, f := range got {
			seen[string(f)]++
		}
		for frame, from := range sent {
			want := 1
			if from == i {
				want = 0
			}
			if seen[frame] != want {
				t.Errorf("host %d saw a broadcast of host %d %d times, want %d", i, from, seen[frame], want)
			}
		}
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); !r.Balanced || r.Frames.Lost != 0 || r.Received != ports*each || r.Forwarded != ports*each {
		t.Errorf("report %+v, want %d received and forwarded", r, ports*each)
	}
}
