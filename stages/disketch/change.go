package disketch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/disketch"
)

// Prepare checks another configuration, which commit puts into force from the
// next epoch on. Targets can change: so one that was found for the whole network
// comes to all of its switches. What else differs is refused.
//
// Ports that come lead to other switches, since host_ports is fixed.
func (m *Module) Prepare(c Config, switchPorts []pipeline.Port) (commit func(), err error) {
	names := pipeline.PortNames(switchPorts)
	if err := c.Validate(names); err != nil {
		return nil, err
	}
	var faults []error
	fixed := func(key string, same bool) {
		if !same {
			faults = append(faults, fmt.Errorf("%s cannot change while the switch runs: restart it", key))
		}
	}
	fixed("epoch_bits", c.EpochBits == m.config.EpochBits)
	fixed("seed", c.Seed == m.config.Seed)
	fixed("host_ports", slices.Equal(c.HostPorts, m.config.HostPorts))
	fixed("fragment: their number", len(c.Fragments) == len(m.config.Fragments))
	for i := range min(len(c.Fragments), len(m.config.Fragments)) {
		is, was := c.Fragments[i].withDefaults(), m.config.Fragments[i].withDefaults()
		is.Target = was.Target
		fixed(fmt.Sprintf("fragment[%d]: all but target", i), is == was)
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	return func() {
		m.config.EdgePorts = c.EdgePorts // PINT may have come, or gone
		m.ports.Store(m.config.ports(names))
		for i, f := range m.fragments {
			f.aim(c.Fragments[i].Target)
		}
	}, nil
}

// aim sets the target; 0: n is chosen from the traffic, beginning with 1.
func (f *fragment) aim(target float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.auto = target == 0
	f.choice = disketch.Choice{}
	f.plan.Aim(0)
	f.plan.SetTarget(target)
}
