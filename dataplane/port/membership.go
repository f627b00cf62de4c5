package port

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Receptive is a Port whose device keeps for itself what it is not told to receive. Ports
// that are not Receptive receive everything.
type Receptive interface {
	// Receive has the device let in what r says, from now on and after each Restore. It may
	// be called at any time, by one goroutine. Until the first call the port receives everything.
	Receive(r packet.Reception) error
}

// membership is what a port has the kernel let in at its interface, by a packet socket that
// receives nothing itself (packet_mc_add in net/packet/af_packet.c). The kernel counts such wishes beside
// those of others, and takes ours back when the descriptor closes, however the process ends.
// The socket belongs to the namespace of the thread that opened it; any thread may use it.
type membership struct {
	fd    int
	index int
	held  []unix.PacketMreq
}

func openMembership(index int) (*membership, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket, to receive what is not for the interface's own address: %w", packetSocketError(err))
	}
	return &membership{fd: fd, index: index}, nil
}

// packetSocketError explains the errno of socket(AF_PACKET).
func packetSocketError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("no privilege: run as root or grant CAP_NET_RAW: %w", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("a sandbox does not allow it (systemd: add AF_PACKET to RestrictAddressFamilies), or the kernel lacks CONFIG_PACKET: %w", err)
	}
	return err
}

// set replaces what is let in, or leaves it as it was. What stays is not touched, so no packet of it is missed.
func (m *membership) set(r packet.Reception) error {
	wanted := []unix.PacketMreq{{Type: unix.PACKET_MR_PROMISC}}
	if !r.All {
		wanted[0].Type = unix.PACKET_MR_ALLMULTI
		for _, mac := range r.Addresses {
			q := unix.PacketMreq{Type: unix.PACKET_MR_UNICAST, Alen: uint16(len(mac))}
			copy(q.Address[:], mac[:])
			wanted = append(wanted, q)
		}
	}
	for i := range wanted {
		q := &wanted[i]
		q.Ifindex = int32(m.index)
		if err := unix.SetsockoptPacketMreq(m.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, q); err != nil {
			return errors.Join(fmt.Errorf("have the interface receive %s: %w", describe(r), err), m.drop(wanted[:i]))
		}
	}
	// The kernel counts each wish, so one that was there already is still held once.
	before := m.held
	m.held = wanted
	return m.drop(before)
}

// drop takes wishes back; with an interface that is gone went its wishes.
func (m *membership) drop(wishes []unix.PacketMreq) error {
	var errs []error
	for i := range wishes {
		err := unix.SetsockoptPacketMreq(m.fd, unix.SOL_PACKET, unix.PACKET_DROP_MEMBERSHIP, &wishes[i])
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *membership) close() { _ = unix.Close(m.fd) }

// describe is Info.Reception.
func describe(r packet.Reception) string {
	if r.All {
		return "promiscuous"
	}
	text := ""
	for _, mac := range r.Addresses {
		text += fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x, ", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5])
	}
	return text + "all multicast"
}
