package l2

import (
	"errors"
	"slices"
)

// TablePort is what VLANs a port carries, for the tables of a P4 target.
type TablePort struct {
	// Transparent: all VLANs, and tags as they are.
	Transparent bool
	// VLANs are the carried ones, ascending, and Native is that of untagged packets, in and
	// out: 4095, which no port carries, for none. Of ports that are not transparent.
	VLANs  []uint16
	Native uint16
	// Untagged: packets with a tag other than a lone priority tag are dropped.
	Untagged bool
}

// TableStation is a static entry.
type TableStation struct {
	VLAN uint16
	MAC  MAC
	Port uint16
}

// TableFlood says where packets of VLANs are flooded to, their own port among them.
type TableFlood struct {
	VLANs []uint16 // ascending
	Ports []uint16 // ascending
}

// Tables are the settings of a configuration in numbers, for a switch with the named
// ports. Each VLAN from 0 to 4095 is in one of the floods.
func (c *Config) Tables(names []string) (ports []TablePort, stations []TableStation, floods []TableFlood, err error) {
	if len(c.Domains) != 0 {
		return nil, nil, nil, errors.New("domain: a P4 switch has VLANs alone: write them as port")
	}
	p, err := c.plan(names, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range p.ports {
		v := &p.ports[i]
		t := TablePort{Transparent: v.transparent}
		if !v.transparent {
			t.VLANs, t.Native, t.Untagged = v.vlans(), v.pvid, v.untagged
		}
		ports = append(ports, t)
	}
	for _, s := range p.static {
		stations = append(stations, TableStation{keyVLAN(s.key), keyMAC(s.key), s.port})
	}
	table := newFloodTable(p.ports)
	floods = make([]TableFlood, len(table.lists))
	for vlan, list := range table.list {
		floods[list].VLANs = append(floods[list].VLANs, uint16(vlan))
		floods[list].Ports = slices.Clone(table.lists[list])
	}
	return ports, stations, floods, nil
}

// vlans lists the carried VLANs.
func (v *portVLANs) vlans() (all []uint16) {
	for vlan := range uint16(4096) {
		if v.has(vlan) {
			all = append(all, vlan)
		}
	}
	return all
}
