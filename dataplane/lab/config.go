package lab

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/internal/bitrate"
	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/internal/tomlfile"
)

// Config is one lab file.
type Config struct {
	path  string           // of the file; empty: there is none
	lines *tomlfile.Faults // knows the line of each key; nil: there is no file

	// Name of the lab, unique on the machine: letters, digits, dot, underscore and dash, at most 32.
	Name string `toml:"name"`
	// Static gives all hosts permanent neighbour entries for each other instead
	// of ARP and neighbour discovery.
	Static bool `toml:"static_neighbours"`
	// ExpectedDrops are the switches' drop reasons that are no loss in this lab.
	ExpectedDrops []string `toml:"expected_drops"`
	// Records keeps the switches' records; it is the default where a switch has a telemetry stage.
	Records bool `toml:"records"`
	// Quiet is how long nothing is sent before the first load and behind the last one, so that records of
	// whole epochs surround them.
	Quiet time.Duration `toml:"quiet"`
	// Key is the file of the network's secret key (weir key new), which all switches and the collector have. Empty: each lab
	// that keeps records draws one, unless a switch cannot have it; NoKey: they have none. A relative name counts from the working directory.
	Key string `toml:"key"`
	// Collector has the switches send their records to a collector; nil: they keep them in files.
	Collector *Collector `toml:"collector"`

	Hosts    []Host    `toml:"host"`
	Switches []Switch  `toml:"switch"`
	Bridges  []Bridge  `toml:"bridge"`
	Relays   []Relay   `toml:"relay"`
	Links    []Link    `toml:"link"`
	Traffic  []Traffic `toml:"traffic"`
}

// Host is a namespace with a kernel IP stack and one interface, eth0.
type Host struct {
	line int // of its table in the file, as of all nodes and links; 0: no file

	Name      string   `toml:"name"`
	Addresses []string `toml:"addresses"` // with prefix length, IPv4 and IPv6
	MTU       int      `toml:"mtu"`       // of eth0; 0: the link's
	Gateway   string   `toml:"gateway"`   // address of the default router; empty: none
	Gateway6  string   `toml:"gateway6"`  // that of IPv6, where gateway is that of IPv4; empty: none
}

// Switch is a namespace in which a switch runs.
type Switch struct {
	line int

	Name string `toml:"name"`
	// Kind is KindWeir (also if empty), or KindBMv2: the P4 program runs on BMv2 instead of the switch.
	Kind string `toml:"kind"`
	// Program is the P4 program of a switch on BMv2, its source or the compiled JSON; empty: ours,
	// p4/v1model/weir.p4. A relative name counts from the working directory.
	Program string `toml:"program"`
	// QueueRates are the most packets per second that queues of a switch on BMv2 let out, by port; none: no limit.
	QueueRates map[string]int64 `toml:"queue_rates"`
	// Graph is short for config.switch.graph.
	Graph []string `toml:"graph"`
	// Config is the switch's own configuration, passed on unchanged; the lab
	// adds name, control socket and ports where it says nothing about them.
	Config map[string]any `toml:"config"`
}

// Kinds of switches.
const (
	KindWeir = "weir"
	KindBMv2 = "bmv2"
)

// Bridge is a namespace with a Linux bridge over its ports, a switch to compare with.
type Bridge struct {
	line int

	Name string `toml:"name"`
}

// Link is a cable.
type Link struct {
	key  string // in the file, as link[2]
	line int

	// Endpoints are two of: a host's name, or "switch:port".
	Endpoints []string `toml:"endpoints"`
	Queues    int      `toml:"queues"` // receive and transmit queues at both ends; 0: 1
	MTU       int      `toml:"mtu"`    // bytes; 0: 1500
	// Delay is how late each packet arrives, in either direction, and Jitter how far a packet's delay may be from it,
	// evenly: packets may overtake each other. Loss is the share of packets that are lost, from 0 to 1.
	Delay  time.Duration `toml:"delay"`
	Jitter time.Duration `toml:"jitter"`
	Loss   float64       `toml:"loss"`
	// Rate is what the cable carries in each direction, as in "100Mbps", of packets without FCS; up to 1,000
	// frames of the length that arrives wait for it.
	Rate bitrate.Rate `toml:"rate"`
}

// impaired reports whether a link needs a relay.
func (l *Link) impaired() bool { return l.Delay != 0 || l.Jitter != 0 || l.Loss != 0 || l.Rate != 0 }

// expandLinks puts a relay into each link that is not perfect. The file has been validated.
func (c *Config) expandLinks() {
	for i := range len(c.Links) {
		l := c.Links[i]
		if !l.impaired() {
			continue
		}
		name := fmt.Sprintf("wire%d", i+1)
		for c.hasNode(name) {
			name += "_"
		}
		c.Relays = append(c.Relays, Relay{
			Name: name, Seed: uint64(i + 1), link: &l, rate: uint64(l.Rate),
			line: l.line, rest: &relay.Class{Delay: l.Delay, Jitter: l.Jitter, Drop: l.Loss},
		})
		near, far := l, l
		near.Endpoints = []string{l.Endpoints[0], name + ":a"}
		far.Endpoints = []string{name + ":b", l.Endpoints[1]}
		for _, half := range []*Link{&near, &far} {
			half.Delay, half.Jitter, half.Loss, half.Rate = 0, 0, 0, 0
		}
		c.Links[i] = near
		c.Links = append(c.Links, far)
	}
}

// hasNode reports whether a node has a name.
func (c *Config) hasNode(name string) bool {
	return c.known(name) || slices.ContainsFunc(c.Relays, func(r Relay) bool { return r.Name == name }) ||
		slices.ContainsFunc(c.Bridges, func(b Bridge) bool { return b.Name == name })
}

// Traffic kinds.
const (
	KindPing  = "ping"
	KindTCP   = "tcp"
	KindUDP   = "udp"
	KindFlows = "flows"
	// KindReach asks which hosts reach each other, and KindForged sends frames that must not arrive.
	KindReach  = "reach"
	KindForged = "forged"
)

// Addresses of generated flows.
const (
	AddressesHosts     = "hosts"
	AddressesBenchmark = "benchmark"
)

// Traffic is one load from host to host. Which keys a kind reads is said at each;
// another one is a fault.
type Traffic struct {
	line int // of its table in the file, for the report; 0: no file

	Kind string `toml:"kind"`
	From string `toml:"from"`
	To   string `toml:"to"`
	// Family is 4 or 6; 0: IPv4 if both hosts have it. (ping, tcp, udp)
	Family int `toml:"family"`
	// Count of packets. (ping, udp, flows)
	Count int `toml:"count"`
	// Sizes are the smallest and the largest packet, in bytes with IP header and
	// without Ethernet header; the sizes between are visited evenly. (ping, udp)
	Sizes []int `toml:"sizes"`
	// Size of each frame in bytes, without FCS. (flows)
	Size int `toml:"size"`
	// Rate in packets per second. (udp, flows)
	Rate int `toml:"rate"`
	// Window is how many packets, or of TCP how many bytes of each stream, may be in flight.
	Window int `toml:"window"`
	// Bytes to transfer, over all streams. (tcp)
	Bytes int64 `toml:"bytes"`
	// Streams in parallel. (tcp)
	Streams int `toml:"streams"`
	// Flows is the number of different 5-tuples. (flows)
	Flows int `toml:"flows"`
	// Distribution of the flows' sizes in packets, Shape of its tail, and Seed of its order. (flows)
	Distribution string  `toml:"distribution"`
	Shape        float64 `toml:"shape"`
	Seed         uint64  `toml:"seed"`
	// Port is the destination port. (flows)
	Port int `toml:"port"`
	// Addresses are whose the flows have: AddressesHosts, the two hosts' own, up to 64,512 flows by their source ports,
	// which is the default of a file; or AddressesBenchmark (also if empty), those of 198.18.0.0/15, to which routers need a
	// route. (flows)
	Addresses string `toml:"addresses"`
	// Cut is an end of a cable between switches, "switch:port", that is cut once the share CutAt of the load has arrived (0: half of it), and mended
	// behind the load and those of its group. What they had on their way there may be lost. (ping, tcp, udp, flows)
	Cut   string  `toml:"cut"`
	CutAt float64 `toml:"cut_at"`
	// Tenants are hosts that reach each other, and no host of another one. Outside are hosts that all reach, and that reach none. (reach)
	Tenants [][]string `toml:"tenants"`
	Outside []string   `toml:"outside"`
	// Peers are hosts that may receive what From forges against To, as those of its own tenant; all others must not. (forged)
	Peers []string `toml:"peers"`
	// VLANs are tags that forged frames have, VNIs the network identifiers of forged tunnels to the ends of Underlay, and OutsideAddresses those that
	// stand for inside ones. Empty: there are no frames of that kind. (forged)
	VLANs            []int    `toml:"vlans"`
	VNIs             []int    `toml:"vnis"`
	Underlay         []string `toml:"underlay"`
	OutsideAddresses []string `toml:"outside_addresses"`
	// Group is shared by adjacent loads of the file that run at the same time. (udp, flows)
	Group string `toml:"group"`
}

// Load reads and checks a lab file. The error joins a tomlfile.Fault for all that is wrong.
func Load(path string) (*Config, error) {
	c, err := LoadFaulty(path)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// LoadFaulty is Load for who reports the faults of the switches' configurations in the same go: with the error it returns what was read, if that is enough for
// these to be looked at, else nil. No lab may be made by it.
func LoadFaulty(path string) (*Config, error) {
	text, err := safefile.ReadTrusted(path, tomlfile.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the lab file: %w: name a readable TOML file", err)
	}
	base := filepath.Base(path)
	return parse(text, strings.TrimSuffix(base, filepath.Ext(base)), path)
}

// IsFile reports whether a file is meant as a lab's, right or wrong: it has a list of switches, hosts or links.
func IsFile(path string) bool {
	text, err := safefile.ReadTrusted(path, tomlfile.MaxBytes)
	if err != nil {
		return false
	}
	return tomlfile.HasList(text, "switch", "host", "link", "traffic")
}

// Parse checks a lab file's text. A file without a name gets the given one.
func Parse(text, name string) (*Config, error) {
	c, err := parse([]byte(text), name, "")
	if err != nil {
		return nil, err
	}
	return c, nil
}

func parse(text []byte, name, path string) (*Config, error) {
	c := &Config{}
	f := tomlfile.Decode(text, c, nil)
	if c.Name == "" {
		c.Name = name
	}
	c.unusedKeys(f)
	c.setLines(f)
	c.setDefaults()
	f.AddAll("", c.Validate())
	c.path, c.lines = path, f
	if !f.Empty() && !c.readable() {
		return nil, f.Err(path)
	}
	c.expandLinks()
	return c, f.Err(path)
}

// readable reports whether the configurations of the switches of a faulty file can be looked at.
func (c *Config) readable() bool {
	for _, s := range c.Switches {
		if _, err := configPorts(s.Config); err != nil {
			return false
		}
	}
	return len(c.Switches) > 0 && !slices.ContainsFunc(c.Links, func(l Link) bool { return len(l.Endpoints) != 2 })
}

// trafficKeys says which keys each kind reads.
var trafficKeys = map[string][]string{
	KindPing:   {"family", "count", "sizes", "window", "cut", "cut_at"},
	KindTCP:    {"family", "bytes", "streams", "window", "cut", "cut_at"},
	KindUDP:    {"family", "count", "sizes", "rate", "window", "group", "cut", "cut_at"},
	KindReach:  {"count", "tenants", "outside"},
	KindForged: {"count", "rate", "peers", "vlans", "vnis", "underlay", "outside_addresses"},
	KindFlows:  {"count", "size", "rate", "flows", "window", "distribution", "shape", "seed", "port", "addresses", "group", "cut", "cut_at"},
}

// unusedKeys reports the keys that a traffic's kind does not read.
func (c *Config) unusedKeys(f *tomlfile.Faults) {
	for i, t := range c.Traffic {
		used, ok := trafficKeys[t.Kind]
		if !ok {
			continue // Validate says so
		}
		for _, key := range tomlfile.Keys(reflect.TypeFor[Traffic]()) {
			full := fmt.Sprintf("traffic[%d].%s", i, key)
			if f.Set(full) && !slices.Contains(used, key) && !slices.Contains([]string{"kind", "from", "to"}, key) {
				f.Add(full, "not read by kind %q: it reads %s", t.Kind, strings.Join(used, ", "))
			}
		}
	}
}

func (c *Config) setDefaults() {
	for i := range c.Links {
		l := &c.Links[i]
		setDefault(&l.Queues, 1)
		setDefault(&l.MTU, 1500)
	}
	for i := range c.Traffic {
		t := &c.Traffic[i]
		switch t.Kind {
		case KindPing:
			setDefault(&t.Count, 100)
			setDefault(&t.Window, 16)
		case KindTCP:
			setDefault(&t.Streams, 1)
			setDefault(&t.Window, 256<<10)
			if t.Bytes == 0 {
				t.Bytes = 64 << 20
			}
		case KindUDP:
			setDefault(&t.Count, 1000)
			setDefault(&t.Rate, 10_000)
			setDefault(&t.Window, 256)
		case KindReach:
			setDefault(&t.Count, 3)
		case KindForged:
			setDefault(&t.Count, 100_000)
			setDefault(&t.Rate, 20_000)
		case KindFlows:
			setDefault(&t.Count, 100_000)
			setDefault(&t.Rate, 50_000)
			setDefault(&t.Flows, 1000)
			setDefault(&t.Size, 64)
			setDefault(&t.Window, 1024)
			setDefault(&t.Port, 9) // discard
			if t.Addresses == "" {
				t.Addresses = AddressesHosts
			}
			if t.Distribution == "" {
				t.Distribution = DistributionEqual
			}
			if t.Distribution == DistributionPareto && t.Shape == 0 {
				t.Shape = 1.05 // as backbone traces have it
			}
		}
		if t.Cut != "" && t.CutAt == 0 {
			t.CutAt = defaultCutAt
		}
		if t.Sizes == nil && (t.Kind == KindPing || t.Kind == KindUDP) {
			t.Sizes = []int{64, 1500}
		}
	}
}

func setDefault(value *int, to int) {
	if *value == 0 {
		*value = to
	}
}

// splitEndpoint splits one end of a link into its node and a port's name where the node has several.
func splitEndpoint(s string) (node, port string) {
	node, port, _ = strings.Cut(s, ":")
	return node, port
}

// host finds a host by name.
func (c *Config) host(name string) *Host {
	for i := range c.Hosts {
		if c.Hosts[i].Name == name {
			return &c.Hosts[i]
		}
	}
	return nil
}

// hostIndex is the index of a host in the file, from 0.
func (c *Config) hostIndex(name string) int {
	return slices.IndexFunc(c.Hosts, func(h Host) bool { return h.Name == name })
}

// prefixes are the host's addresses. They have been validated.
func (h *Host) prefixes() []netip.Prefix {
	var list []netip.Prefix
	for _, a := range h.Addresses {
		if p, err := netip.ParsePrefix(a); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// address is the host's first address of a family, 4 or 6.
func (h *Host) address(family int) (netip.Addr, bool) {
	for _, p := range h.prefixes() {
		if p.Addr().Is4() == (family == 4) {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// family is the IP version that traffic between two hosts uses: the one asked
// for, else IPv4, else IPv6; 0 if they share none.
func (t *Traffic) family(from, to *Host) int {
	for _, f := range []int{4, 6} {
		_, a := from.address(f)
		_, b := to.address(f)
		if a && b && (t.Family == 0 || t.Family == f) {
			return f
		}
	}
	return 0
}
