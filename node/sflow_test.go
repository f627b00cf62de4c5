package node

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
)

const sflowBridge = `
[switch]
name = "sf"
id = 1
graph = ["parse", "l2", "sflow"]
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
[stages.sflow]
collectors = ["127.0.0.1:6343"]
counter_interval = "1s"
[[stages.sflow.port]]
port = "p0"
one_in = 1
[control]
socket = "$DIR/s.sock"
`

// TestSFlow: a collector gets the samples of each packet of a port and the counters of all ports, and tshark reads the datagrams.
func TestSFlow(t *testing.T) {
	b := newBed(t)
	check(t, b.ns.SetUp("lo"))
	conn, err := b.ns.ListenPacket("udp", "127.0.0.1:6343")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.write(t, sflowBridge)
	b.start(t)
	const packets = 20
	b.exchange(t, packets)
	// Datagrams come until all packets were sampled, and counters have them.
	var records []pcaptest.Record
	sampled, counted := 0, false
	buf := make([]byte, 2048)
	check(t, conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
	for sampled < packets || !counted {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatalf("%d packets sampled, counted %v: %v", sampled, counted, err)
		}
		d := gopacket.NewPacket(buf[:n], layers.LayerTypeSFlow, gopacket.Default).Layer(layers.LayerTypeSFlow).(*layers.SFlowDatagram)
		sampled += len(d.FlowSamples)
		for _, c := range d.CounterSamples {
			for _, r := range c.Records {
				if i, ok := r.(layers.SFlowGenericInterfaceCounters); ok && i.IfIndex == 1 && i.IfInUcastPkts >= packets && i.IfOutUcastPkts >= packets && i.IfStatus == 3 {
					counted = true
				}
			}
		}
		s := gopacket.NewSerializeBuffer()
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{127, 0, 0, 1}, DstIP: net.IP{127, 0, 0, 1}}
		udp := &layers.UDP{SrcPort: 40000, DstPort: 6343}
		check(t, udp.SetNetworkLayerForChecksum(ip))
		check(t, gopacket.SerializeLayers(s, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			&layers.Ethernet{SrcMAC: net.HardwareAddr{2, 5: 1}, DstMAC: net.HardwareAddr{2, 5: 2}, EthernetType: layers.EthernetTypeIPv4}, ip, udp, gopacket.Payload(buf[:n])))
		records = append(records, pcaptest.Ethernet(int64(len(records))*1000, string(s.Bytes())))
	}
	if sampled != packets { // exchange sends as many the other way, which are not sampled
		t.Errorf("%d samples of %d packets", sampled, packets)
	}
	b.stop(t)
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_TSHARK") == "1" {
			t.Fatal("tshark is not installed, and WEIR_REQUIRE_TSHARK=1")
		}
		t.Skip("tshark is not installed (Debian: apt-get install tshark)")
	}
	path := pcaptest.Write(t, "sflow.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet)}, records...)
	text, err := exec.Command(tshark, "-r", path, "-Y", "sflow", "-T", "fields", "-e", "sflow_245.version", "-e", "sflow_245.agent", "-e", "sflow_245.sampletype",
		"-e", "sflow_245.ifindex", "-e", "_ws.malformed", "-e", "eth.src").Output()
	if err != nil {
		t.Fatalf("tshark: %v %s", err, text)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) != len(records) {
		t.Errorf("tshark reads %d of %d datagrams", len(lines), len(records))
	}
	headers := 0
	for _, line := range lines {
		c := strings.Split(line, "\t")
		if len(c) != 6 || c[0] != "5" || c[1] != "127.0.0.1" || c[4] != "" {
			t.Fatalf("tshark reads %q", line)
		}
		headers += strings.Count(c[5], "02:00:00:00:01:01") // the source of what is sampled
	}
	if headers != packets {
		t.Errorf("tshark reads %d sampled headers of %d", headers, packets)
	}
}
