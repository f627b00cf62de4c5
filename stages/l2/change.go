package l2

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline"
)

// Prepare checks a configuration and builds what it needs, without putting it into
// force, which commit does, between two batches. The size of the table cannot
// change. Stations that were learned stay known, but for those that could not be
// where they are any more.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	names := pipeline.PortNames(ports)
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := c.plan(names, m.guards.plan.domains)
	if err != nil {
		return nil, err
	}
	if err := p.join(&c, ports); err != nil {
		return nil, err
	}
	if c.TableSize != m.config.TableSize {
		return nil, fmt.Errorf("table_size: cannot change while the switch runs: restart it")
	}
	// The table is tried on a copy of static entries alone, as at the start: in a
	// table that learned stations filled, they make room.
	if trial := newFDB(c.TableSize, 1, 1); !trial.addAll(p.static) {
		return nil, fmt.Errorf("static: %d entries find no room: raise table_size, and restart the switch", len(p.static))
	}
	return func() { m.change(c, p, names) }, nil
}

func (t *fdb) addAll(entries []staticEntry) bool {
	return !slices.ContainsFunc(entries, func(s staticEntry) bool { return !t.addStatic(s.key, s.port) })
}

// change puts a prepared configuration into force.
func (m *Module) change(c Config, p *plan, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.newSettings(&c, p, names)
	before := m.static
	m.config, m.static = c, p.static
	m.guards.plan, m.guards.blocked = p, nil // a new configuration is a new beginning
	m.settings.Store(next)
	m.fdb.setAgeing(uint32(c.Ageing / time.Second))
	for _, s := range before {
		if !slices.Contains(p.static, s) {
			m.fdb.removeKey(s.key)
		}
	}
	for _, s := range p.static {
		if !slices.Contains(before, s) {
			m.fdb.removeKey(s.key) // it may have been learned
			if !m.fdb.addStatic(s.key, s.port) {
				m.fdb.flush(func(uint16, uint16) bool { return true })
				m.fdb.addStatic(s.key, s.port)
			}
		}
	}
	m.fdb.flush(func(vlan, port uint16) bool { return !next.ports[port].has(vlan) })
	m.setOwn()
}
