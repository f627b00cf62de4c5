package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/keyfile"
	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/stages"
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
	// Warnings are about keys that the file has by their former names, and about stages that cannot do anything.
	Warnings []string `toml:"-"`
}

// Switch names the switch and its pipeline, [switch].
type Switch struct {
	// Name is the switch's name in reports and records, and of its control
	// socket; default: the host's name.
	Name string `toml:"name"`
	// ID is the switch's number, which no other switch of the network has.
	ID uint32 `toml:"id"`
	// Graph is the pipeline: names of stages, in the order in which packets
	// pass them. Stages come and go by reload.
	Graph []string `toml:"graph"`
	// Hash is the family of packet ids, flow hashes and all that is drawn from them:
	// "xxhash"; "crc", for networks with P4 switches on Tofino, which have no other; or "aes", which hosts cannot steer, as
	// it is keyed. The same in the whole network.
	Hash hash.Family `toml:"hash"`
	// Key is the file of the network's secret key (weir key), which makes the hash "aes"; empty: hosts can compute what is
	// measured of their packets. The same in the whole network.
	Key string `toml:"key"`
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

// Load reads and checks a file. The error joins a tomlfile.Fault for all that is wrong.
func Load(path string) (*Config, error) {
	return LoadFor(path, func(*Config) error { return nil })
}

// LoadFor is Load for a use that not every good configuration is good for. check
// says what is wrong with one for that use, as Validate methods do: errors joined, each
// beginning with its key, here the full one. It is not called for a configuration
// that has faults.
func LoadFor(path string, check func(*Config) error) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, f := read(data)
	if f.Empty() {
		f.AddAll("", check(c))
	}
	if !f.Empty() {
		return nil, f.Err(path)
	}
	c.Warnings = append(f.Warnings(path), c.warnings(path)...)
	return c, nil
}

// warnings are StageWarnings of a file.
func (c *Config) warnings(path string) (all []string) {
	for _, text := range c.StageWarnings() {
		all = append(all, path+": "+text)
	}
	return all
}

// StageWarnings says what stages of the graph cannot do as they are configured, each with its full key.
func (c *Config) StageWarnings() (all []string) {
	for _, name := range c.Switch.Graph {
		if w, ok := c.Stages[name].(interface{ Warnings() []string }); ok {
			for _, text := range w.Warnings() {
				all = append(all, fmt.Sprintf("stages.%s.%s", name, text))
			}
		}
	}
	return all
}

// ReadFile reads the text of a configuration that only root, this process's user, or the user who called sudo may have written:
// who writes it says what the switch does.
func ReadFile(path string) ([]byte, error) {
	data, err := safefile.ReadTrusted(path, tomlfile.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w: name a readable TOML file", err)
	}
	return data, nil
}

// Parse checks the text of a file, as Load does.
func Parse(data []byte) (*Config, error) { return ParseAs("", data) }

// ParseAs is Parse of a file's text that the caller has already; faults name the path.
func ParseAs(path string, data []byte) (*Config, error) {
	c, f := read(data)
	if !f.Empty() {
		return nil, f.Err(path)
	}
	c.Warnings = append(f.Warnings(path), c.warnings(path)...)
	return c, nil
}

// ParseFaulty is Parse for who compares the configurations of several switches, and reports the faults of all at once: with faults it returns what there is beside
// them, of which the keys that they name are not to be trusted. Nothing may run by it.
func ParseFaulty(data []byte) (*Config, error) {
	c, f := read(data)
	return c, f.Err("")
}

func read(data []byte) (*Config, *tomlfile.Faults) {
	c := Default()
	f := tomlfile.Decode(data, c, decodeHook)
	c.complete(f)
	c.useKey(f)
	c.validate(f)
	return c, f
}

// useKey makes the hash that under the network's key.
func (c *Config) useKey(f *tomlfile.Faults) {
	s := &c.Switch
	switch {
	case s.Key == "" && s.Hash == hash.AES:
		f.Add("switch.key", "is missing: the hash \"aes\" is under a network's key: make one with weir key new, and name its file")
	case s.Key == "":
	case s.Hash.Kind() == hash.CRC:
		f.Add("switch.hash", "is %v, which has no key: remove switch.key, or choose aes", s.Hash)
	default:
		family, err := useKey(s.Key)
		if err != nil {
			f.Add("switch.key", "%v", err)
		} else if s.Hash.KeyID() != 0 && s.Hash != family {
			f.Add("switch.hash", "is %v, and the key of %s is another one: remove it, or name that key", s.Hash, s.Key)
		} else {
			s.Hash = family
		}
	}
}

// useKey reads a network's key, and makes it known to the process.
func useKey(path string) (hash.Family, error) {
	if !filepath.IsAbs(path) {
		return 0, fmt.Errorf("%q is not an absolute path: begin it with a slash", path)
	}
	return LoadKey(path)
}

// LoadKey reads a network's key from a file of `weir key new`, and returns the family of hashes that has it.
func LoadKey(path string) (hash.Family, error) {
	k, err := keyfile.Load(path)
	if err != nil {
		return 0, err
	}
	return hash.Keyed(hash.Network(k))
}

// decodeHook gives ports their defaults, and each stage's table the type of its Config.
func decodeHook(d *tomlfile.Decoder, key string, data any, v reflect.Value) bool {
	if p, isPort := v.Addr().Interface().(*port.Config); isPort {
		*p = port.DefaultConfig()
	}
	if root, ok := data.(map[string]any); ok && key == "" {
		for name := range root {
			if _, isStage := stages.Kinds[name]; isStage {
				d.Add(name, "is the table of a stage: write [stages.%s]", name)
				delete(root, name)
			}
		}
	}
	if key != "stages" {
		return false
	}
	tables, ok := data.(map[string]any)
	if !ok {
		d.Mistyped(key, data, "a table [stages.NAME] for each stage")
	}
	for name, table := range tables {
		key := "stages." + name
		kind, ok := stages.Kinds[name]
		if !ok {
			d.Add(key, "there is no such stage: %s", tomlfile.Suggest(name, stages.Names()))
			continue
		}
		config := kind.Default()
		d.Value(key, table, reflect.ValueOf(config).Elem())
		v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(config))
	}
	return true
}

// complete fills in the defaults that depend on other values.
func (c *Config) complete(f *tomlfile.Faults) {
	if c.Switch.Name == "" {
		name, err := os.Hostname()
		if err != nil || !printable.IsName(name) {
			f.Add("switch.name", "is missing, and the host's name %q cannot serve: set it", name)
		}
		c.Switch.Name = name
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Name == "" {
			p.Name = p.Interface
			if p.InSharedMemory() && p.Socket != "" {
				p.Name = strings.TrimSuffix(filepath.Base(p.Socket), filepath.Ext(p.Socket))
			}
			if p.Driver == port.DriverVLAN && p.Parent != "" {
				p.Name = p.SubinterfaceName()
			}
		}
	}
	c.completeStages(f)
	c.Telemetry.Complete()
	if c.Control.Socket == "" {
		c.Control.Socket = control.DefaultSocket(c.Switch.Name)
	}
}

// completeStages gives each stage of the graph a configuration, and the defaults that depend on the ports.
func (c *Config) completeStages(f *tomlfile.Faults) {
	bonds := c.bondsOf()
	var names []string
	for i := range c.Ports {
		if bonds[c.Ports[i].Name] == "" { // what stages do by default they do by the bond
			names = append(names, c.Ports[i].Name)
		}
	}
	for _, name := range c.Switch.Graph {
		kind, ok := stages.Kinds[name]
		if !ok {
			continue
		}
		if c.Stages[name] == nil {
			c.Stages[name] = kind.Default()
		}
		if stage, ok := c.Stages[name].(interface{ Complete(ports []string) error }); ok && len(names) > 0 {
			f.AddAll("stages."+name, stage.Complete(names))
		}
	}
}
