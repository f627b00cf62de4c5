package l3

import (
	"net/netip"

	"github.com/weirswitch/weir/pipeline/packet"
)

// TablePort is the IP side of a port, for the tables of a P4 target.
type TablePort struct {
	// Routed: the port has an IP address. The other fields are of such ports only.
	Routed bool
	MAC    [6]byte
	// MTU is the longest IP packet that leaves, in bytes.
	MTU int
	// LinkLocal is the port's IPv6 link-local address, not valid where it has no IPv6.
	LinkLocal netip.Addr
}

// TableKind says what becomes of packets to a prefix.
type TableKind uint8

// The kinds.
const (
	TableForward   TableKind = iota // to one of the hops
	TableConnected                  // to the destination itself, on the link of Port
	TableLocal                      // it is the switch's own address
	TableDiscard                    // never routed, for Reason
)

// TablePrefix is one prefix of the table.
type TablePrefix struct {
	Prefix netip.Prefix
	Kind   TableKind
	Port   uint16
	Reason packet.Reason
	Hops   []TableHop // one for each unit of weight, in the order of Pick
}

// TableHop is a gateway or a station on a port's link.
type TableHop struct {
	Address netip.Addr
	Port    uint16
	// MAC is its address on the link, zero while that is not known.
	MAC [6]byte
}

// Tables returns the tables that workers forward by at the moment: the ports by
// number, and the prefixes sorted, IPv4 first.
func (m *Module) Tables() (ports []TablePort, prefixes []TablePrefix) {
	t := m.tables.Load()
	for i := range t.ports {
		p := &t.ports[i]
		ports = append(ports, TablePort{Routed: len(p.prefixes) > 0, MAC: p.hardware(), MTU: p.mtu, LinkLocal: p.local6})
	}
	kinds := [...]TableKind{forward: TableForward, connected: TableConnected, local: TableLocal, discard: TableDiscard}
	for prefix, v := range t.fibs[0].prefixes.AllSorted() {
		e := TablePrefix{Prefix: prefix, Kind: kinds[v.kind], Port: v.port, Reason: v.reason}
		for _, n := range v.hops {
			e.Hops = append(e.Hops, TableHop{n.addr, n.port, macBytes(n.link.Load() & macMask)})
		}
		prefixes = append(prefixes, e)
	}
	return ports, prefixes
}

// Receives implements pipeline.Receiver: a router takes what is for the port's MAC
// address, and multicast.
func (m *Module) Receives(port int) packet.Reception {
	ports := m.tables.Load().ports
	if port >= len(ports) || len(ports[port].prefixes) == 0 {
		return packet.Reception{}
	}
	return packet.Reception{Addresses: [][6]byte{ports[port].hardware()}}
}
