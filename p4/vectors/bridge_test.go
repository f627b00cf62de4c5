package vectors

import (
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l2"
)

// bridge is what a control plane knows of the stage l2: the VLANs of ports, and the stations that do
// not move.
type bridge struct {
	ports  []l2.TablePort
	static map[bridged]bool
	vlans  []uint16 // that ports carry which are not transparent
}

// bridged is a station in a VLAN.
type bridged struct {
	vlan uint16
	mac  l2.MAC
}

// newBridge reads it of a switch's configuration; nil if the graph has no l2.
func newBridge(s *tables.Switch) (*bridge, error) {
	c, ok := stageConfig[l2.Config](s, "l2")
	if !ok {
		return nil, nil
	}
	ports, stations, _, err := c.Tables(pipeline.PortNames(s.Ports))
	if err != nil {
		return nil, err
	}
	b := &bridge{ports: ports, static: map[bridged]bool{}}
	for _, s := range stations {
		b.static[bridged{s.VLAN, s.MAC}] = true
	}
	for _, p := range ports {
		b.vlans = append(b.vlans, p.VLANs...)
	}
	return b, nil
}

// nobody says that the bridge hears no station by a packet.
const nobody = -1

// heard is the VLAN in which the bridge hears the source of a packet as a station that may be new, or
// nobody.
func (g *goSwitch) heard(p Packet) int {
	if g.bridge == nil || !g.seen.alive || len(p.Data) < 12 {
		return nobody
	}
	for _, r := range g.dropped {
		if r == l2.ReasonVLANFiltered {
			return nobody
		}
	}
	vlan := g.seen.vid
	if in := &g.bridge.ports[p.Port]; vlan == 0 && !in.Transparent {
		vlan = in.Native
	}
	mac := l2.MAC(p.Data[6:12])
	if mac[0]&1 != 0 || mac == (l2.MAC{}) || g.bridge.static[bridged{vlan, mac}] {
		return nobody
	}
	return int(vlan)
}

// utilisations adds to the state what the averages of links hold.
func (g *goSwitch) utilisations(s State) {
	if g.pint == nil {
		return
	}
	for port, u := range g.pint.Utilisations() {
		used, last := u.State()
		s.add(utilisationUsed, maxPorts, port, used)
		s.add(utilisationLast, maxPorts, port, last)
	}
}
