package node

import (
	"fmt"
	"iter"
	"strings"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/stages/acl"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/lldp"
)

// Acl returns the rules of the access control list and their counts; false without the stage acl.
func (n *Node) Acl() (*api.AclResponse, bool) {
	m, ok := moduleOf[*acl.Module](n.chain())
	if !ok {
		return nil, false
	}
	// A change between the two would give rules the counts of others.
	n.changing.Lock()
	rules, counts := m.Config().Rules, m.Counters()
	n.changing.Unlock()
	r := &api.AclResponse{}
	for i, c := range counts {
		rule := &api.AclRule{Name: c.Name, Action: c.Action, Packets: c.Packets, Bytes: c.Bytes}
		if i < len(rules) {
			rule.Match = matchText(&rules[i])
		}
		r.Rules = append(r.Rules, rule)
	}
	return r, true
}

// matchText is what a rule matches, as in the configuration.
func matchText(r *acl.Rule) string {
	var parts []string
	if len(r.InPorts) != 0 {
		parts = append(parts, fmt.Sprintf("in_ports = %q", r.InPorts))
	}
	for _, f := range [][2]string{
		{"src_mac", r.SrcMAC}, {"dst_mac", r.DstMAC}, {"vlan", r.VLAN}, {"ethertype", r.EtherType}, {"src", r.Src}, {"dst", r.Dst},
		{"protocol", r.Protocol}, {"src_port", r.SrcPort}, {"dst_port", r.DstPort}, {"tcp_flags", r.TCPFlags},
	} {
		if f[1] != "" {
			parts = append(parts, fmt.Sprintf("%s = %q", f[0], f[1]))
		}
	}
	return strings.Join(parts, ", ")
}

// Routes returns the routes in force; false without the stage l3.
func (n *Node) Routes() (*api.RoutesResponse, bool) {
	m, ok := moduleOf[*l3.Module](n.chain())
	if !ok {
		return nil, false
	}
	names := n.portNames()
	r := &api.RoutesResponse{}
	for _, e := range m.Routes() {
		route := &api.Route{Prefix: e.Prefix.String(), Kind: e.Kind, Origin: e.Origin, Vrf: e.VRF}
		for _, h := range e.Hops {
			route.Hops = append(route.Hops, &api.Hop{Address: h.Address.String(), Port: names[h.Port]})
		}
		if len(e.Hops) == 0 && !e.Discard {
			route.Port = names[e.Port]
		}
		r.Routes = append(r.Routes, route)
	}
	return r, true
}

// Neighbours returns the neighbours that the stage l3 knows or looks for; false without it.
func (n *Node) Neighbours() (*api.NeighboursResponse, bool) {
	m, ok := moduleOf[*l3.Module](n.chain())
	if !ok {
		return nil, false
	}
	names := n.portNames()
	r := &api.NeighboursResponse{}
	for _, e := range m.Neighbours() {
		r.Neighbours = append(r.Neighbours, &api.Neighbour{
			Address: e.Address.String(), Port: names[e.Port], Mac: e.MAC, State: e.State, Waiting: int64(e.Waiting), Vrf: e.VRF,
		})
	}
	return r, true
}

// Lldp returns the neighbours that announce themselves by LLDP; false without the stage lldp.
func (n *Node) Lldp() (*api.LldpResponse, bool) {
	m, ok := moduleOf[*lldp.Module](n.chain())
	if !ok {
		return nil, false
	}
	names := n.portNames()
	r := &api.LldpResponse{}
	for _, e := range m.Neighbours(clock.Kernel.TAI()) {
		r.Neighbours = append(r.Neighbours, &api.LldpNeighbour{
			Port: names[e.Port], Chassis: e.Chassis, PortId: e.PortID, PortDescription: e.PortDescription, SystemName: e.SystemName,
			SystemDescription: e.SystemDescription, Capabilities: e.Capabilities, Management: e.Management, TtlNs: int64(e.TTL), AgeNs: int64(e.Age),
		})
	}
	return r, true
}

// Groups returns what the bridge knows by IGMP and MLD snooping; false without.
func (n *Node) Groups() (*api.GroupsResponse, bool) {
	m, ok := moduleOf[*l2.Module](n.chain())
	if !ok {
		return nil, false
	}
	memberships, snooped, ok := m.Memberships(clock.Kernel.TAI())
	if !ok {
		return nil, false
	}
	names := n.portNames()
	in := func(vlan uint16) (uint32, string) {
		if domain := m.DomainName(vlan); domain != "" {
			return 0, domain
		}
		return uint32(vlan), ""
	}
	ports := func(numbers []uint16) (all []string) {
		for _, p := range numbers {
			all = append(all, names[p])
		}
		return all
	}
	r := &api.GroupsResponse{}
	for i := range memberships {
		e := &memberships[i]
		g := &api.GroupMembership{Group: e.Group.String(), Port: names[e.Port], Exclude: e.Exclude, Version: uint32(e.Version), LeftNs: int64(e.Left)}
		g.Vlan, g.Domain = in(e.VLAN)
		for _, s := range e.Sources {
			g.Sources = append(g.Sources, s.String())
		}
		r.Memberships = append(r.Memberships, g)
	}
	for i := range snooped {
		e := &snooped[i]
		v := &api.SnoopedVlan{Protocol: "igmp", Active: e.Active, Version: uint32(e.Version), LeftNs: int64(e.Left), Routers: ports(e.Routers), AllGroups: ports(e.All)}
		v.Vlan, v.Domain = in(e.VLAN)
		if e.V6 {
			v.Protocol = "mld"
		}
		if e.Querier.IsValid() {
			v.Querier, v.QuerierPort = e.Querier.String(), names[e.QuerierPort]
		}
		r.Vlans = append(r.Vlans, v)
	}
	return r, true
}

// Fdb returns the stations of the forwarding database, in no order; false without the
// stage l2.
func (n *Node) Fdb() (iter.Seq[*api.FdbEntry], bool) {
	m, ok := moduleOf[*l2.Module](n.chain())
	if !ok {
		return nil, false
	}
	return func(yield func(*api.FdbEntry) bool) {
		names := n.portNames()
		for _, e := range m.Entries(nil, clock.Kernel.TAI()) {
			entry := &api.FdbEntry{
				Mac: e.MAC.String(), Vlan: uint32(e.VLAN), Port: names[e.Port],
				AgeNs: int64(e.Age), Static: e.Static, Domain: e.Domain,
			}
			if !yield(entry) {
				return
			}
		}
	}, true
}
