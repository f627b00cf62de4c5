package pipeline

import (
	"net/netip"

	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/stages/tunnel"
)

// tunnelling is what a graph does with tunnels.
type tunnelling uint8

const (
	noTunnel    tunnelling = iota
	encapsulate            // packets arrive plain by the first port, and leave in a tunnel by the second
	decapsulate            // packets arrive in a tunnel by the second port, and leave plain by the first
)

// tunnelStages are those of a switch that joins a port to a tunnel.
var tunnelStages = []string{"parse", "tunnel", "patch", "encap"}

// The tunnel of the graphs, and its ends: the switch's own, and the other one.
const (
	tunnelPort = "vx"
	tunnelVNI  = 5000
	// vxlanExtra is what VXLAN over IPv4 adds to a frame, bytes.
	vxlanExtra = header.EthernetLen + header.IPv4Len + header.UDPLen + header.TunnelLen
)

var nearEnd, farEnd = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// farMAC is the Ethernet address of the other end.
var farMAC = [6]byte{2, 0xee, 0, 0, 0, 2}

// tunnelConfig is the configuration of a tunnel that knows where a workload goes, as one does that has learned it.
func tunnelConfig(w traffic.Workload) *tunnel.Config {
	c := tunnel.DefaultConfig()
	c.Underlays = []tunnel.Underlay{{Port: "p1", Addresses: []string{nearEnd.String() + "/24"}}}
	c.Tunnels = []tunnel.Tunnel{{
		Port: tunnelPort, Kind: tunnel.KindVXLAN, VNI: tunnelVNI, Remotes: []string{farEnd.String()},
		Static: []tunnel.Station{{MAC: w.Destination.MAC.String(), Remote: farEnd.String()}},
	}}
	return &c
}

// introduceEnd writes an ARP reply of the other end, which a switch that sends to it has from time to time.
func introduceEnd(frame []byte) int {
	const length = 60
	clear(frame[:length])
	eth := header.EthernetAt(frame, 0)
	eth.SetSrc(farMAC)
	eth.SetType(header.TypeARP)
	header.ARPAt(frame, header.EthernetLen).Init(header.ARPReply, farMAC, farEnd.As4(), [6]byte{}, nearEnd.As4())
	return length
}
