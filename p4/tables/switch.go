package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Switch is the configuration of a switch, as the stages have it.
type Switch struct {
	ID    uint32
	Hash  hash.Family
	Graph []string
	// Ports by number: that of BMv2 is the same.
	Ports []pipeline.Port
	// Stages holds a pointer to the Config of each stage of the graph.
	Stages map[string]any
}

// Options are what a configuration does not say.
type Options struct {
	// CPUPort is the number of the target's port to the control plane.
	CPUPort int
	// Now is the time, in ns of CLOCK_TAI: epochs begin at multiples of their
	// length, and their keys are those of the present one and of the next.
	Now uint64
	// LeastEpochBits refuses epochs of less than 2^LeastEpochBits ns: a control plane that looks at the
	// clock from time to time does not write their schedules in time. 0: the caller does.
	LeastEpochBits int
}

// order is that of the program's controls, which no table changes. The three
// that forward exclude each other.
var order = []string{"parse", "oblivious", "lds_ingress", "patch", "l2", "l3", "pint", "disketch", "lds_egress"}

// builder collects contents and faults.
type builder struct {
	*Switch
	Options
	out    Contents
	faults []error
}

// fault notes what is wrong at a full key of the configuration.
func (b *builder) fault(key, format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
}

// Build makes the contents of a switch whose configuration is valid. Its error joins
// all that the target cannot do, each with its full key and the remedy.
func Build(s *Switch, o Options) (*Contents, error) {
	b := &builder{Switch: s, Options: o}
	b.general()
	for _, part := range parts {
		part(b)
	}
	if len(b.faults) != 0 {
		return nil, errors.Join(b.faults...)
	}
	b.out.Epochs = b.out.EpochsAt(o.Now)
	return &b.out, nil
}

// parts are the controls of the program.
var parts = []func(*builder){
	(*builder).parse, (*builder).forward, (*builder).pint, (*builder).disketch, (*builder).oblivious, (*builder).lds,
}

// configOf returns the configuration of a stage, nil if the graph has none of the name.
func configOf[C any](b *builder, name string) *C {
	if !slices.Contains(b.Graph, name) {
		return nil
	}
	c, _ := b.Stages[name].(*C)
	return c
}

// general is what is not of one stage.
func (b *builder) general() {
	if !b.hasFamily() {
		b.fault("switch.hash", "the program cannot compute %q, of which a hash takes ten rounds of AES and more: set hash = %q or %q on all switches of the network, and no key",
			b.Hash.Kind(), hash.XX, hash.CRC)
	}
	if n := len(b.Ports); n > maxPorts {
		b.fault("port", "%d of them: the program has tables for %d: remove some", n, maxPorts)
	}
	if b.CPUPort < len(b.Ports) || b.CPUPort > DefaultCPUPort {
		b.faults = append(b.faults, fmt.Errorf("the port to the control plane cannot have the number %d: choose --cpu-port %d to %d, behind the switch's ports",
			b.CPUPort, len(b.Ports), DefaultCPUPort))
	}
	last := -1
	for i, name := range b.Graph {
		at := slices.Index(order, name)
		switch {
		case at < 0:
			b.fault(fmt.Sprintf("switch.graph[%d]", i), "the program has no stage %s: it has %s", name, strings.Join(order, ", "))
			continue
		case at < last:
			b.fault(fmt.Sprintf("switch.graph[%d]", i), "the program has %s in front of %s: write the graph in its order, %s", name, order[last], strings.Join(order, ", "))
		}
		last = max(last, at)
	}
}
