package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/weirswitch/weir/pipeline/header"
)

// The tunnel of the devices that have one: guest 0 has plain packets, and guest 1 is the other end, behind whose address and MAC address the
// plain packets' destinations are.
const (
	vxlanVNI = 5000
	// vxlanExtra is what VXLAN over IPv4 adds to a frame, bytes.
	vxlanExtra = header.EthernetLen + header.IPv4Len + header.UDPLen + header.TunnelLen
	// vxlanMTU has room for outer headers, where the device has one. Ports of Weir take what their frames have room for.
	vxlanMTU = 1600
)

var (
	vxlanNear, vxlanFar       = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	vxlanNearMAC, vxlanFarMAC = [6]byte{2, 0, 0, 0, 0, 0x0a}, [6]byte{2, 0, 0, 0, 0, 0x0b}
)

// writeOuter writes the outer headers of a packet to the device, which ends its tunnel.
func writeOuter(p []byte) {
	eth := header.EthernetAt(p, 0)
	eth.SetDst(vxlanNearMAC)
	eth.SetSrc(vxlanFarMAC)
	eth.SetType(header.TypeIPv4)
	ip := p[header.EthernetLen:]
	copy(ip, []byte{0x45, 0, byte(len(ip) >> 8), byte(len(ip)), 0, 0, 0x40, 0, 64, header.ProtoUDP, 0, 0})
	from, to := vxlanFar.As4(), vxlanNear.As4()
	copy(ip[12:], from[:])
	copy(ip[16:], to[:])
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:header.IPv4Len]))
	udp := ip[header.IPv4Len:]
	binary.BigEndian.PutUint16(udp[2:], header.PortVXLAN)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	udp[8] = 8 // there is a VNI (RFC 7348, 5)
	binary.BigEndian.PutUint32(udp[12:], vxlanVNI<<8)
}

// writeEntropy gives the outer headers the source port of a flow (RFC 7348, 4.1).
func writeEntropy(p []byte, flow uint32) {
	binary.BigEndian.PutUint16(p[header.EthernetLen+header.IPv4Len:], 0xc000|uint16(flow^flow>>16))
}

// writeIntroduction writes an ARP reply of the other end of the tunnel, and returns its length.
func writeIntroduction(p []byte) int {
	const length = 60
	clear(p[:length])
	eth := header.EthernetAt(p, 0)
	eth.SetDst(vxlanNearMAC)
	eth.SetSrc(vxlanFarMAC)
	eth.SetType(header.TypeARP)
	header.ARPAt(p, header.EthernetLen).Init(header.ARPReply, vxlanFarMAC, vxlanFar.As4(), vxlanNearMAC, vxlanNear.As4())
	return length
}

// startOVSTunnel makes an Open vSwitch of two bridges: one has the plain port and the tunnel, the other the port to the tunnel's other end, and
// the address of this one.
//
//	v0 ==== br0 ── vx ... underlay ==== v1
func startOVSTunnel(r *sharedRig) (_ sharedRunning, err error) {
	const underlay = "underlay"
	running, err := startOVSDPDK(r, "in_port=1,actions=output:2", "in_port=2,actions=output:1")
	if err != nil {
		return nil, err
	}
	d := running.(*ovsDPDK)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.end())
		}
	}()
	near, far := net.HardwareAddr(vxlanNearMAC[:]).String(), net.HardwareAddr(vxlanFarMAC[:]).String()
	v1 := filepath.Base(r.socket(1))
	if _, err := d.vsctl("--", "del-port", "br0", v1, "--", "add-br", underlay, "--", "set", "bridge", underlay, "datapath_type=netdev",
		"fail-mode=standalone", `other_config:hwaddr="`+near+`"`,
		"--", "set", "interface", underlay, fmt.Sprintf("mtu_request=%d", vxlanMTU),
		"--", "add-port", underlay, v1, "--", "set", "interface", v1, "type=dpdkvhostuser", fmt.Sprintf("mtu_request=%d", vxlanMTU),
		"--", "add-port", "br0", "vx", "--", "set", "interface", "vx", "type=vxlan", "ofport_request=2",
		"options:remote_ip="+vxlanFar.String(), fmt.Sprintf("options:key=%d", vxlanVNI)); err != nil {
		return nil, err
	}
	if err := r.mid.AddAddress(underlay, netip.PrefixFrom(vxlanNear, 24)); err != nil {
		return nil, err
	}
	if err := r.mid.SetUp(underlay); err != nil {
		return nil, err
	}
	if _, err := d.run("ovs-appctl", "-t", d.path("vswitchd.ctl"), "tnl/neigh/set", underlay, vxlanFar.String(), far); err != nil {
		return nil, err
	}
	return d, d.daemon.waitFor("opening its ports", startWait, exists(r.socket(1)))
}
