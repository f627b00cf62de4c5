package node

import (
	"slices"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/dataplane/hostif"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/stages/l3"
)

// followKernel keeps the host interfaces of the graph's router, if it has one, as its ports are, and gives the router the kernel's routes, until stop
// is closed.
func (n *Node) followKernel(stop <-chan struct{}) {
	for {
		m, ok := moduleOf[*l3.Module](n.chain())
		end, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			if ok {
				n.followKernelFor(m, end)
			}
		}()
		more := true
		for now := m; more && now == m; {
			select {
			case <-stop:
				more = false
			case <-n.graphChanged:
				now, _ = moduleOf[*l3.Module](n.chain())
			}
		}
		close(end)
		<-ended
		if !more {
			return
		}
	}
}

// followKernelFor is followKernel for a router.
func (n *Node) followKernelFor(m *l3.Module, stop <-chan struct{}) {
	err := n.kernel.Run(stop, hostif.Options{
		Want: func() []hostif.Want { return n.hostWants(m) },
		Apply: func(s *hostif.State) {
			state := n.hostState(m, s)
			ignored := m.SetHostState(state)
			n.log.Info("routes of the kernel", zap.Int("routes", len(state.Routes)), zap.Int("ignored", ignored))
			n.noteKernel(nil)
		},
		Failed: func(err error) {
			if err != nil {
				n.log.Warn("the kernel's routing is not followed", zap.Error(err))
				n.noteKernel(err)
			}
		},
	})
	if err != nil {
		n.noteKernel(err)
		n.log.Error("the kernel's routing is not followed", zap.Error(err))
	}
}

// hostWants are the host interfaces of a router, as they are to be.
func (n *Node) hostWants(m *l3.Module) (all []hostif.Want) {
	infos := n.sw.Infos()
	for _, p := range m.HostPairs() {
		if int(p.Host) < len(infos) && infos[p.Host].Driver == port.DriverTap && int(p.Port) < len(infos) {
			all = append(all, hostif.Want{
				Interface: infos[p.Host].Interface, MAC: p.MAC, MTU: p.MTU, Addresses: p.Addresses, Carrier: infos[p.Port].Up,
			})
		}
	}
	return all
}

// noteKernel passes the outcome of a reading on to awaitKernel.
func (n *Node) noteKernel(err error) {
	select {
	case <-n.kernelRead: // of before
	default:
	}
	n.kernelRead <- err
}

// hostState translates names of interfaces to numbers of ports.
func (n *Node) hostState(m *l3.Module, s *hostif.State) (state l3.HostState) {
	ports := map[string]uint16{}
	infos := n.sw.Infos()
	for _, p := range m.HostPairs() {
		if int(p.Host) < len(infos) {
			ports[infos[p.Host].Interface] = p.Port
		}
	}
	for _, a := range s.Addresses {
		if number, ok := ports[a.Interface]; ok {
			state.Addresses = append(state.Addresses, l3.HostAddress{Port: number, Prefix: a.Prefix})
		}
	}
	for _, x := range s.Neighbours {
		if number, ok := ports[x.Interface]; ok {
			state.Neighbours = append(state.Neighbours, l3.HostNeighbour{Port: number, Address: x.Address, MAC: x.MAC})
		}
	}
	for _, r := range s.Routes {
		route := l3.HostRoute{Prefix: r.Prefix, Origin: r.Protocol, Hops: make([]l3.HostHop, 0, len(r.Hops))}
		for _, h := range r.Hops {
			if number, ok := ports[h.Interface]; ok {
				route.Hops = append(route.Hops, l3.HostHop{Port: number, Gateway: h.Gateway, Weight: h.Weight})
			}
		}
		if len(route.Hops) != 0 || len(r.Hops) == 0 {
			state.Routes = append(state.Routes, route)
		}
	}
	state.Routes = slices.Clip(state.Routes)
	return state
}
