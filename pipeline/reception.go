package pipeline

import "github.com/weirswitch/weir/pipeline/packet"

// Receiver is a Module that says what it must receive on a port. The forwarding
// module of a graph that is none gets everything, as switching needs.
type Receiver interface {
	// Receives returns the module's part for a port by its number. It may be called from
	// anywhere, while packets flow, and tells of the present configuration.
	Receives(port int) packet.Reception
}

// ReceptionOf is what a port must receive for all modules of a graph.
func ReceptionOf(chain []Named, port int) packet.Reception {
	var r packet.Reception
	for _, n := range chain {
		m, ok := n.Module.(Receiver)
		if !ok {
			r.All = r.All || n.Module.Role() == RoleForward
			continue
		}
		part := m.Receives(port)
		r.All = r.All || part.All
		r.Addresses = append(r.Addresses, part.Addresses...)
	}
	if r.All {
		r.Addresses = nil
	}
	return r
}
