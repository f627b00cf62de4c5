package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
)

const lldpBridge = `
[switch]
name = "lldpsw"
id = 1
graph = ["parse", "lldp", "l2"]
[dataplane]
audit = true
[workers]
poll = "interrupt"
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "p2"
[stages.lldp]
interval = "1s"
management = ["192.0.2.1"]
[[stages.lldp.port]]
port = "p0"
[[stages.lldp.port]]
port = "p1"
mode = "send"
[control]
socket = "$DIR/s.sock"
`

// TestLLDPD: lldpd, another implementation, and the switch know each other; what the switch sends comes though no packet arrives, from the
// port that it is about alone, and its books hold.
func TestLLDPD(t *testing.T) {
	for _, program := range []string{"lldpd", "lldpcli"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("lldpd is missing: apt-get install lldpd")
		}
	}
	b := newBed(t)
	b.write(t, lldpBridge)
	b.start(t)
	// p1's host reads frames itself: what it gets is p1's, although p0 sends too.
	sink := b.hosts[1].Packet(t)
	silent := b.hosts[2].Packet(t)
	dir, err := os.MkdirTemp("/run", "lldpd") // its processes run as another user, who must reach the socket
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	socket := filepath.Join(dir, "lldpd.sock")
	// lldpd begins paused, and starts a client that reads this file and has it resume. Another client at that time would pause it again for good: each writes the
	// whole configuration back that it has read.
	settings := filepath.Join(dir, "lldpd.conf")
	check(t, os.WriteFile(settings, []byte("configure lldp tx-interval 1\n"), 0o644))
	far := b.hosts[0]
	daemon := exec.Command("lldpd", "-d", "-O", settings, "-u", socket, "-I", far.Interface, "-C", far.Interface, "-p", filepath.Join(dir, "pid"), "-S", "the far end")
	said := &bytes.Buffer{}
	daemon.Stderr = said
	if err := far.NS.Start(daemon); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
		if t.Failed() {
			t.Logf("lldpd: %s", said)
		}
	})
	until := func(what string, done func() bool) {
		t.Helper()
		for limit := time.Now().Add(2 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s: not within two minutes", what)
			}
		}
	}
	var heard *api.LldpNeighbour
	until("the switch hears of lldpd", func() bool {
		r, ok := b.Lldp()
		if !ok {
			t.Fatal("no LLDP")
		}
		if len(r.Neighbours) == 1 {
			heard = r.Neighbours[0]
		}
		return heard != nil
	})
	mac, err := far.NS.MAC(far.Interface)
	check(t, err)
	if heard.Port != "p0" || heard.SystemDescription != "the far end" || heard.Chassis != mac.String() || heard.PortDescription != far.Interface || heard.TtlNs <= 0 {
		t.Errorf("%+v", heard)
	}
	// In lldpcli's format json0 everything is a list.
	type value struct{ Type, Value string }
	type system struct {
		ID          []value
		Name, Descr []value
		MgmtIP      []value `json:"mgmt-ip"`
		Capability  []struct {
			Type    string
			Enabled bool
		}
	}
	var seen struct {
		LLDP []struct {
			Interface []struct {
				Name    string
				Chassis []system
				Port    []struct{ ID []value }
			}
		}
	}
	var text []byte
	until("lldpd hears of the switch", func() bool {
		text, err = exec.Command("lldpcli", "-u", socket, "-f", "json0", "show", "neighbors", "details").Output()
		return err == nil && json.Unmarshal(text, &seen) == nil && len(seen.LLDP) == 1 && len(seen.LLDP[0].Interface) != 0
	})
	i := seen.LLDP[0].Interface[0]
	got := fmt.Sprint(i.Name, i.Chassis[0], i.Port)
	want := fmt.Sprint(far.Interface, system{
		[]value{{"local", "lldpsw"}}, []value{{"", "lldpsw"}}, []value{{"", "Weir, a software switch"}}, []value{{"", "192.0.2.1"}}, i.Chassis[0].Capability,
	}, []struct{ ID []value }{{[]value{{"ifname", "p0"}}}})
	bridge := false
	for _, x := range i.Chassis[0].Capability {
		bridge = bridge || x.Type == "Bridge" && x.Enabled
	}
	if got != want || !bridge {
		t.Errorf("lldpd sees %s, want %s\n%s", got, want, text)
	}
	// p1's host gets what the switch says of p1, and nothing of lldpd's.
	buf := make([]byte, 2048)
	check(t, sink.SetDeadline(time.Now().Add(time.Minute)))
	for n := 0; n == 0; {
		if n, err = sink.Receive(buf); err != nil {
			t.Fatal(err)
		}
		if buf[12] != 0x88 || buf[13] != 0xcc {
			n = 0
			continue
		}
		if [6]byte(buf[6:12]) != [6]byte{2, 0, 0, 1, 0, 1} {
			t.Errorf("a frame of % x", buf[:n])
		}
	}
	if n := lldpFrames(t, silent); n != 0 {
		t.Errorf("%d frames came to a port without LLDP", n)
	}
	b.stop(t)
}

// lldpFrames counts the LLDP frames that wait at a host.
func lldpFrames(t *testing.T, s *netns.PacketSocket) (n int) {
	t.Helper()
	buf := make([]byte, 2048)
	check(t, s.SetDeadline(time.Now().Add(10*time.Millisecond)))
	for {
		length, err := s.Receive(buf)
		if err != nil {
			return n
		}
		if length > 14 && buf[12] == 0x88 && buf[13] == 0xcc {
			n++
		}
	}
}
