package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/internal/bitrate"
	"github.com/weirswitch/weir/internal/tomlfile"
)

var (
	labName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$`)
	nodeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.]{0,31}$`)
	portName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$`)
)

// minLinkRate lets a full packet pass in a quarter of a second.
const minLinkRate bitrate.Rate = 50_000

// errorText is an error's text; empty for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// maxQuiet bounds [Config.Quiet].
const maxQuiet = time.Hour

// faults collects what is wrong with a file.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// validateKey makes the key's name absolute, as switches want it.
func (c *Config) validateKey(f *faults) {
	if c.Key == "" || c.Key == NoKey {
		return
	}
	path, err := filepath.Abs(c.Key)
	if err != nil {
		f.add("key: %w", err)
	}
	c.Key = path
	for _, s := range c.Switches {
		if s.Kind == KindBMv2 {
			f.add("key: switch %q is of P4, whose hashes have no key: remove the key, or that switch", s.Name)
		}
	}
}

// Validate reports all faults, each with its key and a remedy. What is wrong
// inside a switch's own configuration the switch itself says.
func (c *Config) Validate() error {
	var f faults
	if !labName.MatchString(c.Name) {
		f.add("name: %q: use 1 to 32 letters, digits, dots, underscores and dashes", c.Name)
	}
	if c.Quiet < 0 || c.Quiet > maxQuiet {
		f.add("quiet: %v: choose 0s to %v", c.Quiet, maxQuiet)
	}
	c.validateKey(&f)
	kinds := c.validateNodes(&f)
	c.validateHosts(&f)
	c.validateSwitches(&f)
	c.validateLinks(&f, kinds)
	c.validateRelays(&f)
	c.validateCollector(&f)
	for i := range c.Traffic {
		c.validateTraffic(&f, i)
	}
	return errors.Join(f...)
}

// validateNodes checks all names and returns what each one is.
func (c *Config) validateNodes(f *faults) map[string]string {
	kinds := map[string]string{}
	check := func(kind string, i int, name string) {
		if !nodeName.MatchString(name) {
			f.add("%s[%d].name: %q: use 1 to 32 letters, digits, dots and underscores", kind, i, name)
			return
		}
		if other, ok := kinds[name]; ok {
			f.add("%s[%d].name: %q is a %s already: give every node its own name", kind, i, name, other)
			return
		}
		kinds[name] = kind
	}
	for i, h := range c.Hosts {
		check("host", i, h.Name)
	}
	for i, s := range c.Switches {
		check("switch", i, s.Name)
	}
	for i, b := range c.Bridges {
		check("bridge", i, b.Name)
	}
	for i, r := range c.Relays {
		check("relay", i, r.Name)
	}
	for _, name := range []string{collectorName, forwardName} {
		if kind := kinds[name]; kind != "" && c.Collector != nil {
			f.add("%s: %q is the name of a part of [collector]: give the %s another one", kind, name, kind)
		}
	}
	if len(kinds) == 0 && len(*f) == 0 {
		f.add("host: a lab without nodes: add [[host]] and [[switch]] tables")
	}
	return kinds
}

func (c *Config) validateHosts(f *faults) {
	owner := map[netip.Addr]string{}
	for i, h := range c.Hosts {
		key := fmt.Sprintf("host[%d]", i)
		for j, a := range h.Addresses {
			p, err := netip.ParsePrefix(a)
			if err != nil {
				f.add("%s.addresses[%d]: %q: write an address with its prefix length, such as 10.0.0.1/24 or fd00::1/64", key, j, a)
				continue
			}
			if other, ok := owner[p.Addr()]; ok {
				f.add("%s.addresses[%d]: %s belongs to %s already: choose another one", key, j, p.Addr(), other)
			}
			owner[p.Addr()] = h.Name
		}
		if h.MTU != 0 && (h.MTU < 68 || h.MTU > 65535) {
			f.add("%s.mtu: %d: choose 68 to 65535 bytes, or leave it out for the link's", key, h.MTU)
		}
		h.validateGateway(f, key+".gateway", h.Gateway)
		h.validateGateway(f, key+".gateway6", h.Gateway6)
		if a, err := netip.ParseAddr(h.Gateway6); err == nil && a.Is4() {
			f.add("%s.gateway6: %s is an IPv4 address: write it as gateway", key, a)
		}
		if a, err := netip.ParseAddr(h.Gateway); err == nil && a.Is6() && h.Gateway6 != "" {
			f.add("%s.gateway6: gateway is an IPv6 address too: keep one of them", key)
		}
	}
}

func (h *Host) validateGateway(f *faults, key, text string) {
	if text == "" {
		return
	}
	gateway, err := netip.ParseAddr(text)
	if err != nil {
		f.add("%s: %q: write an IP address", key, text)
		return
	}
	if !slices.ContainsFunc(h.prefixes(), func(p netip.Prefix) bool { return p.Contains(gateway) }) {
		f.add("%s: %s is in the prefix of none of the host's addresses: choose one that is", key, gateway)
	}
}

// switchID is the id of a switch: its own, or its place in the file, from 1 on.
func (c *Config) switchID(i int) int64 {
	if table, ok := c.Switches[i].Config["switch"].(map[string]any); ok {
		if id, ok := table["id"].(int64); ok {
			return id
		}
	}
	return int64(i + 1)
}

func (c *Config) validateSwitches(f *faults) {
	ids := map[int64]int{}
	for i, s := range c.Switches {
		key := fmt.Sprintf("switch[%d]", i)
		if s.Kind != "" && s.Kind != KindWeir && s.Kind != KindBMv2 {
			f.add("%s.kind: %q: choose %q or %q", key, s.Kind, KindWeir, KindBMv2)
		}
		if s.Program != "" && s.Kind != KindBMv2 {
			f.add("%s.program: only a switch of kind %q runs one: leave it out", key, KindBMv2)
		}
		c.validateQueueRates(f, key, &s)
		table, isTable := s.Config["switch"].(map[string]any)
		if s.Config["switch"] != nil && !isTable {
			f.add("%s.config.switch: write a table, [switch.config.switch]", key)
		}
		if s.Graph != nil && table["graph"] != nil {
			f.add("%s.graph: config.switch.graph is there too: keep one of them", key)
		}
		if s.Graph == nil && table["graph"] == nil {
			f.add(`%s.graph: missing: name the stages, such as ["parse", "l2"]`, key)
		}
		if table["name"] != nil && table["name"] != s.Name {
			f.add("%s.config.switch.name: %v is not the node's name %q: leave it out", key, table["name"], s.Name)
		}
		id := c.switchID(i)
		if first, taken := ids[id]; taken {
			f.add("%s.config.switch.id: %d is that of %s too, and records are told apart by it: leave the id out, or choose another one", key, id, c.Switches[first].Name)
		} else {
			ids[id] = i
		}
		if _, err := configPorts(s.Config); err != nil {
			f.add("%s.config.port: %w", key, err)
		}
	}
}

func (c *Config) validateLinks(f *faults, kinds map[string]string) {
	used := map[string]int{}
	for i, l := range c.Links {
		key := fmt.Sprintf("link[%d]", i)
		if len(l.Endpoints) != 2 {
			f.add(`%s.endpoints: %d of them: name two, such as ["h1", "s1:p0"]`, key, len(l.Endpoints))
		}
		for j, e := range l.Endpoints {
			key := fmt.Sprintf("%s.endpoints[%d]", key, j)
			node, port := splitEndpoint(e)
			switch kind := kinds[node]; {
			case kind == "":
				f.add("%s: %q: no node has this name", key, e)
			case kind == "host" && port != "":
				f.add("%s: %q: a host has one interface, write %q", key, e, node)
			case kind != "host" && !portName.MatchString(port):
				f.add("%s: %q: name the port of the %s with 1 to 15 letters, digits, dots and dashes, such as %q", key, e, kind, node+":p0")
			case kind != "host" && (port == "lo" || port == bridgeName):
				f.add("%s: %q: the interface %s exists already: choose another port name", key, e, port)
			}
			if other, ok := used[e]; ok {
				f.add("%s: %q has a cable already, link[%d]: choose another port", key, e, other)
			}
			used[e] = i
		}
		if l.Queues < 1 || l.Queues > 64 {
			f.add("%s.queues: %d: choose 1 to 64", key, l.Queues)
		}
		if l.MTU < 68 || l.MTU > 65535 {
			f.add("%s.mtu: %d: choose 68 to 65535 bytes", key, l.MTU)
		}
		if !l.impaired() {
			continue
		}
		fate := relay.Class{Delay: l.Delay, Jitter: l.Jitter, Drop: l.Loss}
		for _, fault := range strings.Split(errorText(fate.ValidateFate("loss")), "\n") {
			if fault != "" {
				f.add("%s.%s", key, fault)
			}
		}
		if l.Rate != 0 && l.Rate < minLinkRate {
			f.add("%s.rate: %v: choose %v or more", key, l.Rate, minLinkRate)
		}
	}
	for i, h := range c.Hosts {
		if _, ok := used[h.Name]; !ok && kinds[h.Name] == "host" {
			f.add("host[%d].name: %q has no cable: add a [[link]] with it", i, h.Name)
		}
		for j, l := range c.Links {
			if h.MTU > l.MTU && slices.Contains(l.Endpoints, h.Name) {
				f.add("host[%d].mtu: %d is more than link[%d]'s %d: raise the link's", i, h.MTU, j, l.MTU)
			}
		}
	}
}

// suggestHost is the remedy for a host that does not exist.
func (c *Config) suggestHost(name string) string {
	var known []string
	for i := range c.Hosts {
		known = append(known, c.Hosts[i].Name)
	}
	return tomlfile.Suggest(name, known)
}

func (c *Config) validateTraffic(f *faults, i int) {
	t := &c.Traffic[i]
	key := fmt.Sprintf("traffic[%d]", i)
	if trafficKeys[t.Kind] == nil {
		f.add("%s.kind: %q: choose %q, %q, %q, %q, %q or %q", key, t.Kind, KindPing, KindTCP, KindUDP, KindFlows, KindReach, KindForged)
		return
	}
	if t.Kind == KindReach {
		c.validateReach(f, key, t)
		return
	}
	from, to := c.host(t.From), c.host(t.To)
	if from == nil {
		f.add("%s.from: %q is no host: %s", key, t.From, c.suggestHost(t.From))
	}
	if to == nil {
		f.add("%s.to: %q is no host: %s", key, t.To, c.suggestHost(t.To))
	}
	if from != nil && from == to {
		f.add("%s.to: %q is the sender too: choose another host", key, t.To)
	}
	switch {
	case t.Family != 0 && t.Family != 4 && t.Family != 6:
		f.add("%s.family: %d: choose 4 or 6", key, t.Family)
	case from != nil && to != nil && t.Kind != KindFlows && t.Kind != KindForged && t.family(from, to) == 0:
		f.add("%s.family: %s and %s do not both have an address of one IP version: give them some", key, t.From, t.To)
	}
	c.validateCut(f, key, t)
	positive := func(name string, value, most int64) {
		if value < 1 || value > most {
			f.add("%s.%s: %d: choose 1 to %d", key, name, value, most)
		}
	}
	switch t.Kind {
	case KindPing:
		positive("count", int64(t.Count), 1<<24)
		positive("window", int64(t.Window), 4096)
		c.validateSizes(f, key, t)
	case KindTCP:
		positive("bytes", t.Bytes, 1<<40)
		positive("streams", int64(t.Streams), 256)
		positive("window", int64(t.Window), 64<<20)
	case KindUDP:
		positive("count", int64(t.Count), 1<<24)
		positive("rate", int64(t.Rate), 10_000_000)
		positive("window", int64(t.Window), 1<<30)
		c.validateSizes(f, key, t)
	case KindForged:
		positive("count", int64(t.Count), 1<<30)
		positive("rate", int64(t.Rate), 10_000_000)
		c.validateForged(f, key, t)
	case KindFlows:
		positive("count", int64(t.Count), 1<<30)
		positive("rate", int64(t.Rate), 10_000_000)
		positive("window", int64(t.Window), 1<<30)
		switch t.Addresses {
		case AddressesHosts:
			positive("flows", int64(t.Flows), maxOwnFlows)
			for _, h := range []*Host{from, to} {
				if _, ok := h.firstIPv4(); h != nil && !ok {
					f.add("%s.addresses: %s has no IPv4 address: give it one, or choose %q", key, h.Name, AddressesBenchmark)
				}
			}
		case AddressesBenchmark, "":
			positive("flows", int64(t.Flows), maxFlows)
		default:
			f.add("%s.addresses: %q: choose %q or %q", key, t.Addresses, AddressesHosts, AddressesBenchmark)
		}
		positive("port", int64(t.Port), 65535)
		t.validateDistribution(f, key)
		if most := c.pathMTU(t) + 14; t.Size < minFlowFrame || t.Size > most {
			f.add("%s.size: %d: choose %d to %d bytes, Ethernet header included", key, t.Size, minFlowFrame, most)
		}
	}
}

// firstIPv4 is the host's first IPv4 address; of no host there is none.
func (h *Host) firstIPv4() (netip.Addr, bool) {
	if h == nil {
		return netip.Addr{}, false
	}
	return h.address(4)
}

func (t *Traffic) validateDistribution(f *faults, key string) {
	switch t.Distribution {
	case DistributionEqual:
		if t.Shape != 0 {
			f.add("%s.shape: only a distribution %q has one: leave it out", key, DistributionPareto)
		}
	case DistributionPareto:
		if !(t.Shape > 0 && t.Shape <= 100) {
			f.add("%s.shape: %g: choose the tail's exponent above 0, such as 1.05", key, t.Shape)
		}
		if t.Count > maxOrdered || t.Count < t.Flows {
			f.add("%s.count: %d: choose %d, one for each flow, to %d", key, t.Count, t.Flows, maxOrdered)
		}
	default:
		f.add("%s.distribution: %q: choose %q or %q", key, t.Distribution, DistributionEqual, DistributionPareto)
	}
}

func (c *Config) validateSizes(f *faults, key string, t *Traffic) {
	most := c.pathMTU(t)
	if len(t.Sizes) != 2 || t.Sizes[0] < minIPPacket || t.Sizes[1] < t.Sizes[0] || t.Sizes[1] > most {
		f.add("%s.sizes: %v: give the smallest and the largest packet, from %d to %d bytes (the hosts' MTU)", key, t.Sizes, minIPPacket, most)
	}
}

// minIPPacket holds an IPv6 header, a transport header and a sequence number.
const minIPPacket = 64

// pathMTU is the smaller MTU of the two hosts, in bytes.
func (c *Config) pathMTU(t *Traffic) int {
	least := 65535
	for _, h := range []*Host{c.host(t.From), c.host(t.To)} {
		if h != nil {
			least = min(least, c.hostMTU(h))
		}
	}
	return least
}

// hostMTU is the MTU of a host's interface: its own key, else its link's.
func (c *Config) hostMTU(h *Host) int {
	if h.MTU != 0 {
		return h.MTU
	}
	for _, l := range c.Links {
		if slices.Contains(l.Endpoints, h.Name) {
			return l.MTU
		}
	}
	return 1500
}
