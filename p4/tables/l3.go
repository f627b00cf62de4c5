package tables

import (
	"fmt"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l3"
)

// l3 is the router: interfaces, prefixes and next hops. The tables are those that
// the stage itself makes of its configuration. What is learned later is the
// control plane's to add.
func (b *builder) l3(c *l3.Config) {
	if c.ECMP != l3.ECMPFlow {
		b.fault("stages.l3.ecmp", "%q: the program chooses by the flow: set %q", c.ECMP, l3.ECMPFlow)
	}
	if len(c.VRFs) != 0 {
		b.fault("stages.l3.vrf", "the program has one table: remove the VRFs")
	}
	for i := range c.Interfaces {
		if host := c.Interfaces[i].Host; host != "" {
			b.fault(fmt.Sprintf("stages.l3.interface[%d].host", i), "%q: the control plane of a P4 switch hands no packets to the machine that it runs on: remove it", host)
		}
	}
	m, err := l3.New(*c, pipeline.Env{ID: b.ID, Ports: b.Ports, Workers: 1, Hash: b.Hash})
	if err != nil {
		b.fault("stages.l3", "%w", err)
		return
	}
	b.byDefault(l3Control+".l3_config", act(l3Control+".set_switch", b.key("of_hops", uint64(b.ID))))
	ports, prefixes := m.Tables()
	for i := range ports {
		p := &ports[i]
		if !p.Routed {
			continue
		}
		linkLocal := Value{}
		if p.LinkLocal.IsValid() {
			linkLocal = address(p.LinkLocal)
		}
		port := Number(uint64(i))
		b.entry(l3Control+".in_interfaces", act(l3Control+".in_interface", param("mac", MAC(p.MAC)), param("link_local", linkLocal)), exact("meta.in_port", port))
		b.entry(l3Control+".out_interfaces", act(l3Control+".out_interface", param("mac", MAC(p.MAC)), param("bytes", Number(uint64(p.MTU)))), exact("meta.out_port", port))
	}
	b.prefixes(prefixes)
}

// prefixes fills the tables of routes and of next hops. Routes with the same hops
// share them.
func (b *builder) prefixes(all []l3.TablePrefix) {
	first := map[string]int{}
	hops, routes := 0, map[bool]int{}
	for i := range all {
		v := &all[i]
		var action Action
		switch v.Kind {
		case l3.TableConnected:
			action = act(l3Control+".route_connected", param("port", Number(uint64(v.Port))))
		case l3.TableLocal:
			action = act(l3Control + ".route_local")
		case l3.TableDiscard:
			reason := uint64(reasonMartian)
			if v.Reason == l3.ReasonMulticast {
				reason = reasonMulticast
			}
			action = act(l3Control+".route_discard", param("reason", Number(reason)))
		default:
			name := fmt.Sprint(v.Hops)
			at, known := first[name]
			if !known {
				at, first[name] = hops, hops
				for _, h := range v.Hops {
					b.entry(l3Control+".next_hops", act(l3Control+".next_hop", param("port", Number(uint64(h.Port))), param("mac", MAC(h.MAC))), exact("first", Number(uint64(hops))))
					hops++
				}
			}
			action = act(l3Control+".route_by", param("first_hop", Number(uint64(at))), param("count", Number(uint64(len(v.Hops)))))
		}
		four := v.Prefix.Addr().Is4()
		routes[four]++
		b.entry(routeTable(four), action, lpm(routeField(four), v.Prefix))
	}
	if hops > maxNextHops {
		b.fault("stages.l3.route", "%d next hops: the program's table holds %d: name fewer gateways", hops, maxNextHops)
	}
	for four, version := range map[bool]int{true: 4, false: 6} {
		if routes[four] > maxRoutes {
			b.fault("stages.l3.route", "%d prefixes of IPv%d, with the switch's own: the program's table holds %d: name fewer", routes[four], version, maxRoutes)
		}
	}
}

func routeTable(four bool) string {
	if four {
		return l3Control + ".routes4"
	}
	return l3Control + ".routes6"
}

func routeField(four bool) string {
	if four {
		return "hdr.ipv4.dst"
	}
	return "hdr.ipv6.dst"
}

// StationEntries are those of a station that a bridge's digest told of: where to find it, and
// where it is known to be. It is heard as long as the second one is hit.
func StationEntries(vlan uint16, mac [6]byte, port uint16) []Entry {
	return []Entry{
		{Table: l2Control + ".stations", Action: act(l2Control+".forward_to", param("port", Number(uint64(port)))),
			Keys: []Key{exact("meta.bridge_vlan", Number(uint64(vlan))), exact("hdr.ethernet.dst", MAC(mac))}},
		{Table: l2Control + ".heard", Action: act("NoAction"),
			Keys: []Key{exact("meta.bridge_vlan", Number(uint64(vlan))), exact("hdr.ethernet.src", MAC(mac)), exact("meta.in_port", Number(uint64(port)))}},
	}
}
