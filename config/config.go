package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/BurntSushi/toml"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Config is the complete configuration of one switch.
type Config struct {
	Switch    Switch               `toml:"switch"`
	Dataplane port.DataplaneConfig `toml:"dataplane"`
	Workers   worker.Config        `toml:"workers"`
	Ports     []port.Config        `toml:"port"`
	// Stages holds, for each stage of the graph, a pointer to its Config.
	Stages map[string]any `toml:"stages"`
	// Telemetry says where the records of what was measured go.
	Telemetry export.Config  `toml:"telemetry"`
	Control   control.Config `toml:"control"`
	Log       Log            `toml:"log"`
}

// Switch names the switch and its pipeline, [switch].
type Switch struct {
	// Name is the switch's name in reports and records, and of its control
	// socket; default: the host's name.
	Name string `toml:"name"`
	// ID is the switch's number, which no other switch of the network has.
	ID uint32 `toml:"id"`
	// Graph is the pipeline: names of stages, in the order in which packets
	// pass them.
	Graph []string `toml:"graph"`
	// Hash is the family of packet ids, flow hashes and all that is drawn from them:
	// "xxhash", or "crc", which switches of P4 have too. The same in the whole network.
	Hash hash.Family `toml:"hash"`
}

// Default returns what holds for keys that a file leaves out. It has no port,
// no stage and no name, so it is not a valid configuration.
func Default() *Config {
	return &Config{
		Switch:    Switch{ID: 1},
		Dataplane: port.DefaultDataplaneConfig(),
		Workers:   worker.DefaultConfig(),
		Stages:    map[string]any{},
		Telemetry: export.DefaultConfig(),
		Control:   control.DefaultConfig(),
		Log:       DefaultLog(),
	}
}

// Load reads and checks a file. The error joins a Fault for all that is wrong.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w: name a readable TOML file", err)
	}
	c, faults := read(data)
	return c, faults.err(path)
}

// Parse checks the text of a file, as Load does.
func Parse(data []byte) (*Config, error) {
	c, faults := read(data)
	return c, faults.err("")
}

// read returns a configuration only if there is no fault.
func read(data []byte) (*Config, *faults) {
	var root map[string]any
	if _, err := toml.Decode(string(data), &root); err != nil {
		return nil, syntaxFault(err)
	}
	f := &faults{lines: locate(data)}
	c := Default()
	d := decoder{f}
	d.config(root, c)
	f.unread = f.list
	c.complete(f)
	if c.validate(f); len(f.list) != 0 {
		return nil, f
	}
	return c, f
}

func syntaxFault(err error) *faults {
	f := &faults{}
	var syntax toml.ParseError
	if !errors.As(err, &syntax) {
		f.list = append(f.list, Fault{Text: "not valid TOML: " + printable.Text(err.Error())})
		return f
	}
	f.list = append(f.list, Fault{
		Line: syntax.Position.Line,
		Key:  printable.Text(syntax.LastKey),
		Text: "not valid TOML: " + printable.Text(syntax.Message),
	})
	return f
}

// complete fills in the defaults that depend on other values.
func (c *Config) complete(f *faults) {
	if c.Switch.Name == "" {
		name, err := os.Hostname()
		if err != nil || !validName(name) {
			f.add("switch.name", "is missing, and the host's name %q cannot serve: set it", name)
		}
		c.Switch.Name = name
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Name == "" {
			p.Name = p.Interface
		}
	}
	c.Telemetry.Complete()
	if c.Control.Socket == "" {
		c.Control.Socket = control.DefaultSocket(c.Switch.Name)
	}
}
