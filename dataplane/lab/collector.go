package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/weirswitch/weir/dataplane/lab/process"
)

// Collector is the section [collector]: a collector that all switches of the lab send their records to. It runs in
// its own namespace, in which it listens on the loopback alone; a process of the lab carries connections there
// from the loopback of each switch, and from this machine's for the page:
//
//	s1 127.0.0.1:4222 ──┐
//	s2 127.0.0.1:4222 ──┼── lab-forward ──> collector 127.0.0.1:4222, and :9470
//	     127.0.0.1:9470 ┘ of this machine
type Collector struct {
	// Listen is the page's address on this machine, on the loopback. Empty: port 9470 if it is free, else another.
	Listen string `toml:"listen"`
	// Config is the collector's own configuration, passed on unchanged; the lab adds where it listens, its folder
	// and the links where it says nothing about them.
	Config map[string]any `toml:"config"`
}

const (
	// collectorName is the name of the collector's node, and forwardName that of the forwarding process.
	collectorName = "collector"
	forwardName   = "forward"

	// collectorPatience is how long a question to a lab's collector may take: no other user waits for it, and the machine is busy with the lab.
	collectorPatience = 5 * time.Minute

	collectorPage = "127.0.0.1:9470" // in the collector's namespace, and on this machine
	collectorNATS = "127.0.0.1:4222" // in the namespaces of the collector and of each switch
)

// ForwardCommand is the command of this program that runs a [Forward].
const ForwardCommand = "lab-forward"

func (c *Config) validateCollector(f *faults) {
	if c.Collector == nil || c.Collector.Listen == "" {
		return
	}
	host, _, err := net.SplitHostPort(c.Collector.Listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		f.add("collector.listen: %q: write an address of the loopback with a port, such as %q", c.Collector.Listen, collectorPage)
	}
}

// collectorSocket is where the lab's collector answers this machine's root.
func collectorSocket(runDirectory string) string { return socketPath(runDirectory, collectorName) }

// collectorConfig writes the collector's complete configuration. data is the folder of what it keeps.
func (c *Config) collectorConfig(runDirectory, data, file string) ([]byte, error) {
	config := maps.Clone(c.Collector.Config)
	if config == nil {
		config = map[string]any{}
	}
	main := subtable(config, "collect")
	for key, value := range map[string]any{
		"name": c.Name, "listen": collectorPage, "socket": collectorSocket(runDirectory), "data": data,
	} {
		setMissing(main, key, value)
	}
	if c.Key != "" && c.Key != NoKey {
		setMissing(main, "keys", []string{c.Key})
	}
	if _, known := main["paths"]; !known && file != "" {
		setMissing(main, "lab", file)
	}
	setMissing(subtable(config, "nats"), "listen", collectorNATS)
	setMissing(subtable(config, "limits"), "query_time", collectorPatience.String())
	var links []map[string]any
	for _, ends := range c.Cables() {
		links = append(links, map[string]any{"ends": ends[:]})
	}
	if config["link"] == nil && links != nil {
		config["link"] = links
	}
	var text strings.Builder
	if err := toml.NewEncoder(&text).Encode(config); err != nil {
		return nil, fmt.Errorf("write the configuration of the collector: %w", err)
	}
	return []byte(text.String()), nil
}

// Cables lists the ends of the cables between switches and to hosts. A relay is a part of its cable.
func (c *Config) Cables() (cables [][2]string) {
	done := map[int]bool{}
	for i := range c.Links {
		if done[i] {
			continue
		}
		done[i] = true
		ends := [2]string{c.Links[i].Endpoints[0], c.Links[i].Endpoints[1]}
		for side := range ends {
			for {
				far, next := c.beyondRelay(ends[side])
				if next < 0 || done[next] {
					break
				}
				done[next], ends[side] = true, far
			}
		}
		if c.known(ends[0]) && c.known(ends[1]) {
			cables = append(cables, ends)
		}
	}
	return cables
}

// known reports whether an end is a switch's or a host's, and no bridge's.
func (c *Config) known(endpoint string) bool {
	node, _ := splitEndpoint(endpoint)
	if c.host(node) != nil {
		return true
	}
	for i := range c.Switches {
		if c.Switches[i].Name == node {
			return true
		}
	}
	return false
}

// beyondRelay is the far end of the cable behind a relay's other port, and that cable; -1: the end is no relay's.
func (c *Config) beyondRelay(endpoint string) (far string, link int) {
	node, _ := splitEndpoint(endpoint)
	for i := range c.Relays {
		if c.Relays[i].Name != node {
			continue
		}
		for j, l := range c.Links {
			for side, e := range l.Endpoints {
				if n, _ := splitEndpoint(e); n == node && e != endpoint {
					return l.Endpoints[1-side], j
				}
			}
		}
	}
	return "", -1
}

// listenPage opens the page's listener on this machine.
func (c *Collector) listenPage() (net.Listener, error) {
	if c.Listen != "" {
		return net.Listen("tcp", c.Listen)
	}
	l, err := net.Listen("tcp", collectorPage)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = net.Listen("tcp", "127.0.0.1:0") // another lab, or a collector of this machine's own
	}
	return l, err
}

// startCollector starts the collector and what carries connections to it, and waits until it is ready.
func (l *Lab) startCollector(ctx context.Context) error {
	c := l.config.Collector
	if c == nil {
		return nil
	}
	l.progress.Step("the collector starts")
	file := l.state.File
	if file != "" {
		var err error
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
	}
	text, err := l.config.collectorConfig(l.dir.path, filepath.Join(l.records, "collector"), file)
	if err != nil {
		return err
	}
	path := configPath(l.dir.path, collectorName)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the configuration of the collector: %w", err)
	}
	p, err := startProcess(l.spaces[collectorName], []string{l.program, "collect", "-c", path}, l.dir.path, collectorName)
	if err != nil {
		return err
	}
	if err := l.started(p); err != nil {
		return err
	}
	if err := p.waitReady(ctx, l.dir.path); err != nil {
		return err
	}
	return l.startForward(ctx)
}

// started notes a process that was started in a node.
func (l *Lab) started(p *switchProcess) error {
	l.switches[p.name] = p
	l.node(p.name).Process = p.id
	return l.dir.save(l.state)
}

// startForward starts what carries connections to the collector.
func (l *Lab) startForward(ctx context.Context) (err error) {
	config := ForwardConfig{}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close() // the process has its own
		}
	}()
	add := func(listener net.Listener, to string) error {
		defer listener.Close()
		f, err := listener.(*net.TCPListener).File()
		if err != nil {
			return fmt.Errorf("pass a listener on: %w", err)
		}
		files = append(files, f)
		config.Forwards = append(config.Forwards, ForwardTo{FD: firstExtra + len(files) - 1, To: to})
		return nil
	}
	page, err := l.config.Collector.listenPage()
	if err != nil {
		return fmt.Errorf("collector.listen: %w: choose another address, or end who listens there", err)
	}
	l.state.Page = page.Addr().String()
	if err := add(page, collectorPage); err != nil {
		return err
	}
	for i := range l.config.Switches {
		listener, err := l.spaces[l.config.Switches[i].Name].Listen("tcp", collectorNATS)
		if err == nil {
			err = add(listener, collectorNATS)
		}
		if err != nil {
			return fmt.Errorf("listen for the collector in the namespace of switch %s: %w", l.config.Switches[i].Name, err)
		}
	}
	path := configPath(l.dir.path, forwardName)
	if err := writeJSON(path, config); err != nil {
		return err
	}
	l.state.Nodes = append(l.state.Nodes, nodeState{Name: forwardName, Kind: "forward"})
	p, err := startProcess(l.spaces[collectorName], []string{l.program, ForwardCommand, "-c", path}, l.dir.path, forwardName, files...)
	if err != nil {
		return err
	}
	if err := l.started(p); err != nil {
		return err
	}
	return p.waitReady(ctx, l.dir.path)
}

// Page is the address of the collector's page on this machine, as a URL; empty without a collector.
func (s *state) pageURL() string {
	if s.Page == "" {
		return ""
	}
	return "http://" + s.Page + "/"
}

// stopCollector ends the collector, behind all who send to it.
func (l *Lab) stopCollector() error {
	var errs []error
	for _, name := range []string{forwardName, collectorName} {
		p := l.switches[name]
		if p == nil {
			continue
		}
		exit, err := p.stop()
		if err == nil && !exit.Clean {
			err = fmt.Errorf("%s did not end cleanly: %s; its log ends: %s", name, exit.Status, tail(logPath(l.dir.path, name)))
		}
		l.node(name).Process = process.ID{}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
