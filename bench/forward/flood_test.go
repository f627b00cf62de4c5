package forward

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/pipeline/header"
)

// TestFloodFrames: frames are what their names say, and hardly any two are the same.
func TestFloodFrames(t *testing.T) {
	to := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	for _, f := range floods {
		if f.write == nil {
			continue
		}
		r, seen := rand.New(rand.NewPCG(1, 2)), map[string]bool{}
		for range 1000 {
			frame := make([]byte, floodFrame)
			f.write(frame, to, r)
			seen[string(frame)] = true
			if f.name == "shims" {
				s := header.ShimAt(frame, header.EthernetLen)
				if binary.BigEndian.Uint16(frame[12:]) != header.TypeShim || s == nil || s.Version() != header.ShimVersion || s.Type() != 0x0800 {
					t.Fatalf("%x", frame)
				}
				continue
			}
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
			e := p.LinkLayer().(*layers.Ethernet)
			if station := e.DstMAC.String() == to.String(); station == (f.name == "arp" || f.name == "mac") || e.SrcMAC[0]&1 != 0 {
				t.Fatalf("%s: %v", f.name, p)
			}
			ip, _ := p.NetworkLayer().(*layers.IPv4)
			if f.name == "arp" {
				if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); !ok || a.Operation != layers.ARPRequest || string(a.SourceHwAddress) != string(e.SrcMAC) {
					t.Fatalf("%s: %v", f.name, p)
				}
				continue
			}
			if ip == nil || int(ip.Length) != floodFrame-header.EthernetLen || header.Checksum(frame[14:34]) != 0 {
				t.Fatalf("%s: %v", f.name, p)
			}
			if f.name == "fragments" != (ip.Flags&layers.IPv4MoreFragments != 0) {
				t.Fatalf("%s: %v", f.name, p)
			}
			if tcp, ok := p.TransportLayer().(*layers.TCP); f.name == "syn" && (!ok || !tcp.SYN || tcp.ACK) {
				t.Fatalf("%s: %v", f.name, p)
			}
		}
		if len(seen) < 990 {
			t.Errorf("%s: %d frames of 1000", f.name, len(seen))
		}
	}
}

// TestFlood: a run with floods gives the rows of each flood, whose packets were sent, and none of the source's packets goes to a hostile host
// that forges stations. How many are lost is up to the machine.
func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: its frames are tested")
	}
	c := shortConfig(t, "bridge", "l2", "l2_all")
	c.Floods, c.Searches, c.Trial = Floods(), false, c.Trial*10
	// On a core that others use as well, a device may not run at all within a trial: then another one tells.
	for tries := 5; ; tries-- {
		r, err := Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		checkGone(t)
		faults := floodFaults(r, c.Devices)
		if faults == "" {
			break
		}
		if tries == 0 {
			t.Fatal(faults)
		}
		t.Log(faults)
	}
	c.Floods, c.Devices = []string{"frogs"}, []string{"patch"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `no flood "frogs"`) || !strings.Contains(err.Error(), "patch has no third port") {
		t.Error(err)
	}
}

// floodFaults says what is wrong with the rows of a run with floods; empty: nothing.
func floodFaults(r *bench.Result, names []string) string {
	var b strings.Builder
	for _, device := range names {
		for _, f := range Floods() {
			base := device + ".64B.flood_" + f + "."
			for _, name := range []string{"loss", "leaked", "latency_p50", "latency_p99"} {
				row, ok := r.Row(base + name)
				if share := row.Unit == "share"; !ok || share && (row.Value < 0 || row.Value > 1) || !share && row.Value <= 0 {
					fmt.Fprintf(&b, "%s%s: %v, %+v\n", base, name, ok, row)
				}
			}
			if row, _ := r.Row(base + "rate"); (row.Value > 0) != (f != "none") {
				fmt.Fprintf(&b, "%s: %+v\n", base, row)
			}
			if row, _ := r.Row(base + "leaked"); device != "bridge" && row.Value != 0 {
				fmt.Fprintf(&b, "%s: %+v\n", base, row)
			}
		}
	}
	return b.String()
}
