package stages_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/mirror"
	"github.com/weirswitch/weir/stages/tunnel"
)

// mirrorConfigs are the configurations of a bridge that copies what arrives at vm to a remote host.
func mirrorConfigs(own, remote string, truncate, sessionTruncate int) map[string]any {
	c := tunnel.DefaultConfig()
	c.Underlays = []tunnel.Underlay{{Port: "up", Addresses: []string{own}, MAC: "02:00:00:00:00:01"}}
	c.Tunnels = []tunnel.Tunnel{{Port: "er", Kind: tunnel.KindERSPAN, Session: 77, Remotes: []string{remote}, DSCP: 10, TruncateBytes: truncate}}
	m := mirror.Config{Sessions: []mirror.Session{{Ports: []string{"vm"}, Direction: mirror.In, To: "er", TruncateBytes: sessionTruncate}}}
	return map[string]any{"tunnel": &c, "mirror": &m}
}

var mirrorPorts = []pipeline.Port{{Name: "vm"}, {Name: "up", MTU: 1500}, {Name: "er"}, {Name: "vm2"}}

func newMirrorBed(t *testing.T, configs map[string]any) (*bed, *packet.Pool) {
	t.Helper()
	chain, err := stages.Build([]string{"parse", "tunnel", "l2", "mirror", "encap"}, configs, pipeline.Env{ID: 1, Workers: 1, Ports: mirrorPorts})
	if err != nil {
		t.Fatal(err)
	}
	stages.Inline(chain)
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &bed{t: t, graph: pipeline.NewGraph(chain, 0), batch: packet.NewBatch(pool.NewCache(), 256), now: int64(time.Hour), mac: [6]byte{2, 0, 0, 0, 0, 1}}, pool
}

// TestERSPAN: what arrives at a watched port is carried to a remote host, whose address is asked for first, over IPv4 and IPv6, and goes on
// as it is. gopacket and tshark read it: session, sequence numbers without a gap, VLAN, class and truncation.
func TestERSPAN(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var records []pcaptest.Record
	var want []string
	for _, c := range []struct {
		own, remote               string
		truncate, sessionTruncate int
	}{{"192.0.2.1/24", "192.0.2.9", 0, 0}, {"2001:db8::1/64", "2001:db8::9", 0, 0}, {"192.0.2.1/24", "192.0.2.9", 64, 0}, {"192.0.2.1/24", "192.0.2.9", 0, 100}} {
		s, _ := newMirrorBed(t, mirrorConfigs(c.own, c.remote, c.truncate, c.sessionTruncate))
		six := strings.Contains(c.own, ":")
		// The remote end is a switch that answers for the address.
		far := newBed(t, 9, c.remote+map[bool]string{true: "/64", false: "/24"}[six], tunnel.Tunnel{Kind: "vxlan", VNI: 1, LearnRemotes: true}, nil)
		reply := one(t, far.run(under, one(t, s.run(0, inner(2, 1, false, 0, 10)), under)), under)
		s.run(under, reply)
		for i := range 300 {
			tag, data := random.IntN(3) == 0, inner(2, 1, random.IntN(2) == 0, 0, random.IntN(1400))
			if tag {
				data = slices.Insert(data, 12, 0x81, 0, 0xa0, 123) // class 5
			}
			out := s.run(0, data)
			if got := one(t, out, 3); !bytes.Equal(got, data) {
				t.Fatalf("the packet became %x", got)
			}
			outer := one(t, out, under)
			records = append(records, pcaptest.Ethernet(int64(len(records))*1000, string(outer)))
			room := 1500 - 16 - 20
			if six {
				room -= 20
			}
			for _, n := range []int{c.truncate, c.sessionTruncate} {
				if n != 0 {
					room = n
				}
			}
			cut := len(data) > room
			p := gopacket.NewPacket(outer, layers.LayerTypeEthernet, gopacket.Default)
			gre, ok := p.Layer(layers.LayerTypeGRE).(*layers.GRE)
			er, ok2 := p.Layer(layers.LayerTypeERSPANII).(*layers.ERSPANII)
			if !ok || !ok2 || !gre.SeqPresent || gre.Seq != uint32(i) || er.SessionID != 77 || er.Version != 1 || er.IsTruncated != cut || er.Index != 0 {
				t.Fatalf("packet %d of %d bytes: %+v %+v", i, len(data), gre, er)
			}
			vlan, class, encapsulated := 0, 0, 0
			if tag {
				vlan, class, encapsulated = 123, 5, 3
			}
			if int(er.VLANIdentifier) != vlan || int(er.CoS) != class || int(er.TrunkEncap) != encapsulated || !bytes.Equal(er.Payload, data[:min(len(data), room)]) {
				t.Fatalf("packet %d: %+v", i, er)
			}
			if ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok && !six && (ip.TOS != 10<<2 || ip.Flags != layers.IPv4DontFragment || ip.TTL != 64) {
				t.Fatalf("%+v", ip)
			}
			want = append(want, fmt.Sprintf("%d\t1\t77\t%d\t%d\t%d\t%d", i, vlan, class, encapsulated, map[bool]int{true: 1}[cut]))
		}
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_TSHARK") == "1" {
			t.Fatal("tshark is not installed, and WEIR_REQUIRE_TSHARK=1")
		}
		t.Skip("tshark is not installed (Debian: apt-get install tshark)")
	}
	path := pcaptest.Write(t, "erspan.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet)}, records...)
	text, err := exec.Command(tshark, "-o", "ip.check_checksum:TRUE", "-r", path, "-Y", "erspan && !(ip.checksum.status == 0)", "-T", "fields", "-e", "gre.sequence_number", "-e", "erspan.version",
		"-e", "erspan.spanid", "-e", "erspan.vlan", "-e", "erspan.cos", "-e", "erspan.encap", "-e", "erspan.truncated").Output()
	if err != nil {
		t.Fatalf("tshark: %v %s", err, text)
	}
	if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("tshark reads packet %d as %q, want %q; %d of %d packets", i, got[i], want[i], len(got), len(want))
			}
		}
		t.Errorf("tshark reads %d packets of %d", len(got), len(want))
	}
}

// TestERSPANUnresolved: until the remote end is known copies are dropped and counted, the packets go on, and nothing is flooded to the
// mirror's port, which is not of the bridge.
func TestERSPANUnresolved(t *testing.T) {
	s, pool := newMirrorBed(t, mirrorConfigs("192.0.2.1/24", "192.0.2.9", 0, 0))
	for range 3 {
		out := s.run(0, inner(2, 1, false, 0, 10))
		var reasons []packet.Reason
		for _, f := range out {
			if f.reason != 0 {
				reasons = append(reasons, f.reason)
			}
		}
		if one(t, out, 3); !slices.Equal(reasons, []packet.Reason{tunnel.ReasonUnresolved}) {
			t.Errorf("%v", reasons)
		}
	}
	s.batch.Frames.Close()
	if pool.Free() != pool.Frames() {
		t.Errorf("%d of %d frames are free", pool.Free(), pool.Frames())
	}
}

func TestERSPANFaults(t *testing.T) {
	c := mirrorConfigs("192.0.2.1/24", "192.0.2.9", 0, 0)
	env := pipeline.Env{ID: 1, Workers: 1, Ports: mirrorPorts}
	if _, err := stages.Build([]string{"parse", "tunnel", "l2", "encap", "mirror"}, c, env); err == nil || !strings.Contains(err.Error(), `write "mirror" in front of "encap"`) {
		t.Error(err)
	}
	for _, x := range []struct {
		change func(*tunnel.Tunnel)
		want   string
	}{
		{func(t *tunnel.Tunnel) { t.Session = 1024 }, "tunnel[0].session: 1024"},
		{func(t *tunnel.Tunnel) { t.TruncateBytes = 63 }, "tunnel[0].truncate_bytes: 63"},
		{func(t *tunnel.Tunnel) { t.VNI = 5 }, "tunnel[0]: a tunnel of kind"},
		{func(t *tunnel.Tunnel) { t.Remotes = append(t.Remotes, "192.0.2.8") }, "tunnel[0]: a tunnel of kind"},
		{func(t *tunnel.Tunnel) { t.LearnRemotes = true }, "tunnel[0]: a tunnel of kind"},
		{func(t *tunnel.Tunnel) { t.Kind = "vxlan" }, "tunnel[0]: session and truncate_bytes are of the kind"},
	} {
		c := *mirrorConfigs("192.0.2.1/24", "192.0.2.9", 0, 0)["tunnel"].(*tunnel.Config)
		x.change(&c.Tunnels[0])
		if err := c.Validate(pipeline.PortNames(mirrorPorts)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
}

// FuzzERSPAN: any packet of any length is carried or dropped, what is carried is a beginning of it, and no frame is lost.
func FuzzERSPAN(f *testing.F) {
	f.Add(inner(2, 1, false, 0, 100), uint8(0))
	f.Add(slices.Insert(inner(2, 1, true, 0, 1400), 12, 0x81, 0, 0xa0, 123), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		if len(data) == 0 || len(data) > 1600 {
			return
		}
		own, remote := "192.0.2.1/24", "192.0.2.9"
		if kind&1 != 0 {
			own, remote = "2001:db8::1/64", "2001:db8::9"
		}
		s, pool := newMirrorBed(t, mirrorConfigs(own, remote, int(kind&2)*32, 0))
		far := newBed(t, 9, remote+map[bool]string{true: "/64", false: "/24"}[kind&1 != 0], tunnel.Tunnel{Kind: "vxlan", VNI: 1, LearnRemotes: true}, nil)
		s.run(under, one(t, far.run(under, one(t, s.run(0, inner(2, 1, false, 0, 10)), under)), under))
		for _, o := range s.run(0, data) {
			if o.reason != 0 || o.port != under {
				continue
			}
			p := gopacket.NewPacket(o.data, layers.LayerTypeEthernet, gopacket.NoCopy)
			if er, ok := p.Layer(layers.LayerTypeERSPANII).(*layers.ERSPANII); !ok || !bytes.HasPrefix(data, er.Payload) || len(o.data) > 1514 {
				t.Errorf("%x", o.data)
			}
		}
		s.batch.Frames.Close()
		if pool.Free() != pool.Frames() {
			t.Errorf("%d of %d frames are free", pool.Free(), pool.Frames())
		}
	})
}
