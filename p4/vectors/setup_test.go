package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// Setup is a switch whose Go stages and whose P4 program are compared.
type Setup struct {
	Name   string
	Switch *tables.Switch
	Plan   *plan.Plan // that of sources
	Next   *plan.Plan // nil: no other is understood
}

// Of the ports, which a configuration does not know: an Ethernet of 10 Gbit/s with long frames, unless
// the file ports-NAME.json beside it says otherwise.
const (
	mtu           = 9000
	linkHeader    = 18 // addresses, a tag, the EtherType
	bitsPerSecond = 10_000_000_000
)

// Setups lists the names of the configurations in a folder.
func Setups(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".toml"); !strings.HasPrefix(name, "plan-") {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil, fmt.Errorf("%s has no configuration", dir)
	}
	return names, nil
}

// LoadSetup reads a configuration of a folder by its name. The plan that it names is beside it.
func LoadSetup(dir, name string) (*Setup, error) {
	text, err := os.ReadFile(filepath.Join(dir, name+".toml"))
	if err != nil {
		return nil, fmt.Errorf("read a configuration: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	beside := strings.ReplaceAll(string(text), `plan = "`, `plan = "`+dir+string(filepath.Separator))
	c, err := config.Parse([]byte(beside))
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", name, err)
	}
	s := &Setup{Name: name, Switch: &tables.Switch{
		ID: c.Switch.ID, Hash: c.Switch.Hash, Graph: c.Switch.Graph, Stages: maps.Clone(c.Stages),
	}}
	for i := range c.Ports {
		s.Switch.Ports = append(s.Switch.Ports, namedPorts(c.Ports[i].Name)...)
	}
	if err := s.loadPorts(filepath.Join(dir, portsPrefix+name+".json")); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", name, err)
	}
	if p, ok := stageConfig[stagepint.Config](s.Switch, "pint"); ok {
		plans, err := p.LivePlans()
		if err != nil {
			return nil, fmt.Errorf("configuration %s: %w", name, err)
		}
		if s.Plan = plans[0]; len(plans) > 1 {
			s.Next = plans[1]
		}
	}
	return s, nil
}

const portsPrefix = "ports-"

// loadPorts reads what a file says of ports, if it is there.
func (s *Setup) loadPorts(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var file struct {
		MTU   map[string]int    `json:"mtu"`   // by port, bytes
		Speed map[string]uint64 `json:"speed"` // by port, bits per second
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	for name, bytes := range file.MTU {
		p := s.port(name)
		if p == nil {
			return fmt.Errorf("%s: mtu.%s: there is no such port", filepath.Base(path), name)
		}
		p.MTU, p.MaxFrame = bytes, bytes+linkHeader
	}
	for name, speed := range file.Speed {
		p := s.port(name)
		if p == nil {
			return fmt.Errorf("%s: speed.%s: there is no such port", filepath.Base(path), name)
		}
		p.BitsPerSecond = speed
	}
	return nil
}

// port is that of a name; nil: there is none.
func (s *Setup) port(name string) *pipeline.Port {
	i := slices.IndexFunc(s.Switch.Ports, func(p pipeline.Port) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Switch.Ports[i]
}

// stageConfig is the configuration of a stage, if the graph has it.
func stageConfig[C any](s *tables.Switch, name string) (*C, bool) {
	if !slices.Contains(s.Graph, name) {
		return nil, false
	}
	c, ok := s.Stages[name].(*C)
	return c, ok
}

// has says whether the graph has a stage.
func (s *Setup) has(stage string) bool { return slices.Contains(s.Switch.Graph, stage) }

// namedPorts are ports with what is known of all.
func namedPorts(names ...string) (ports []pipeline.Port) {
	for _, n := range names {
		ports = append(ports, pipeline.Port{Name: n, MTU: mtu, MaxFrame: mtu + linkHeader, BitsPerSecond: bitsPerSecond})
	}
	return ports
}
