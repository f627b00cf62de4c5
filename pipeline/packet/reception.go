package packet

// Reception is what a port must receive for the stages of a graph. A device
// keeps all other unicast and multicast for itself, unless it is told.
type Reception struct {
	// All is everything that is on the link: promiscuous mode. The other fields
	// say nothing then.
	All bool
	// Addresses are the MAC addresses to receive, beside the device's own, all
	// multicast and broadcast.
	Addresses [][6]byte
}
