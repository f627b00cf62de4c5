package l3

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline"
)

var _ pipeline.Stateful = (*Module)(nil)

// stateVersion is that of the router's state, JSON: the neighbours that answered. Packets that wait for others are the old process's, and are dropped there.
const stateVersion = 1

type state struct {
	Version    int             `json:"version"`
	Neighbours []neighbourText `json:"neighbours"`
}

type neighbourText struct {
	Address   netip.Addr `json:"address"`
	Port      string     `json:"port"`
	Link      uint64     `json:"link"`      // as neighbour.link
	Confirmed int64      `json:"confirmed"` // nanoseconds of CLOCK_TAI
}

// AppendState implements pipeline.Stateful.
func (m *Module) AppendState(dst []byte, names []string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := state{Version: stateVersion}
	for _, n := range m.list {
		if link := n.link.Load(); link != 0 && !n.static && int(n.port) < len(names) {
			s.Neighbours = append(s.Neighbours, neighbourText{n.addr, names[n.port], link, n.confirmed})
		}
	}
	text, err := json.Marshal(s)
	return append(dst, text...), err
}

// TakeState implements pipeline.Stateful. Neighbours that are in no network of their port are left out.
func (m *Module) TakeState(text []byte, _ []string, numbers map[string]uint16) error {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("the state of a router: %w", err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("the state of a router is of version %d, and not %d", s.Version, stateVersion)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range s.Neighbours {
		port, ok := numbers[e.Port]
		if !ok || e.Link&linkKnown == 0 || e.Link&macGroup != 0 || e.Link&macMask == 0 {
			continue
		}
		key := neighbourKey{e.Address, port}
		n := m.known[key]
		if n == nil && m.tables.Load().onLink(port, e.Address) {
			n = m.find(key)
		}
		if n == nil || n.link.Load() != 0 {
			continue // the configuration says otherwise
		}
		n.confirmed = e.Confirmed
		n.link.Store(e.Link & (macMask | linkKnown | linkStale))
	}
	return nil
}

// onLink reports whether an address is in a network of the port.
func (t *tables) onLink(port uint16, a netip.Addr) bool {
	if int(port) >= len(t.ports) {
		return false
	}
	p := &t.ports[port]
	if a.Is6() && a.IsLinkLocalUnicast() {
		return p.local6.IsValid()
	}
	return slices.ContainsFunc(p.prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
}
