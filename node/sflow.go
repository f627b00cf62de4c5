package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	sflowstage "github.com/weirswitch/weir/stages/sflow"
	"github.com/weirswitch/weir/telemetry/sflow"
)

// openSFlow connects the stage sflow of some modules, if there is one, with its collectors, by the host's own network, and with the counters of ports.
func (n *Node) openSFlow(chain []pipeline.Named) (conns []net.Conn, err error) {
	m, ok := moduleOf[*sflowstage.Module](chain)
	if !ok {
		return nil, nil
	}
	to, named := m.Collectors()
	if len(to) == 0 {
		return nil, nil
	}
	var errs []error
	err = n.space.Do(func() error {
		for i, address := range to {
			conn, err := net.Dial("udp", address)
			if err != nil {
				errs = append(errs, fmt.Errorf("stages.sflow.collectors[%d]: %w: give the host a route there", i, err))
				continue
			}
			conns = append(conns, conn)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, errors.Join(err, closeAll(conns))
	}
	agent := conns[0].LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if named != "" {
		agent = netip.MustParseAddr(named) // the configuration was checked
	}
	m.SetOutput(&sflowstage.Output{
		Send: func(datagram []byte) error { return sendToAll(conns, datagram) }, Agent: agent.WithZone(""), Counters: n.countForSFlow,
	})
	return conns, nil
}

func closeAll(conns []net.Conn) error {
	var errs []error
	for _, conn := range conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// sendToAll sends a datagram to all collectors. One that does not listen is no reason to send the others nothing.
func sendToAll(conns []net.Conn, datagram []byte) error {
	var errs []error
	for _, conn := range conns {
		if _, err := conn.Write(datagram); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// countForSFlow gives the counters of all ports.
func (n *Node) countForSFlow(f func(name string, c sflow.Counters)) {
	r := n.sw.Report()
	for i := range r.Ports {
		p := &r.Ports[i]
		f(p.Name, sflow.Counters{
			Speed: p.Speed, Up: p.Up && p.State == port.StateUp,
			InOctets: p.ReceivedBytes, InPackets: p.Received, InDiscards: p.DroppedTotal() + p.RxRingFull + p.RxNoFrame + p.RxDropped, InErrors: p.RxInvalid,
			OutOctets: p.TransmittedBytes, OutPackets: p.Transmitted, OutDiscards: p.LinkTxDrops, OutErrors: p.TxInvalid,
			Promiscuous: p.Reception == "promiscuous",
		})
	}
}
