package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/conntrack"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Graph is a graph with the packets that it is measured with.
type Graph struct {
	// Name is a word of metrics.
	Name string
	// Stages by name; beside those of package stages there are touch and hashes.
	Stages []string
	// Flows, each with 64 B packets in both directions.
	Flows int
	// Stations are the Ethernet addresses, half of them behind each port.
	Stations int
	// Routes of l3, half of them by each port, which tile the addresses of the flows. A power of two.
	Routes int
	// Cold frames: nothing of a packet is in a cache.
	Cold bool
	// Bonded: each port is the one member of a bond, b0 and b1, of which stages know.
	Bonded bool
	// Slow to set up: left out by Config.Quick.
	Slow bool
	// Hash is the switch's family of hashes.
	Hash hash.Family
	// Order in which flows are drawn, of Zipf's law with exponent 1.
	Order traffic.Order
	// Connections is the size of conntrack's table.
	Connections int
	// Translated: conntrack gives what arrives by the first port outside addresses.
	Translated bool
	// OneWay: all packets arrive by the first port, as they do at sources and sinks of digests.
	OneWay bool
	// Tunnel says what becomes of packets: into a VXLAN tunnel by the second port, or out of one by the first.
	Tunnel tunnelling
	// Role of the switch among those that carry PINT's digests. Those of sources and sinks get all packets by
	// the first port.
	Role role
}

// Graphs are the rows of the benchmark: baselines first, then each stage behind the ones that it needs,
// then what changes with flows, addresses and caches.
var Graphs = append([]Graph{
	{Name: "drop", Flows: 10_000, Stations: 2},
	{Name: "touch", Stages: []string{"touch"}, Flows: 10_000, Stations: 2},
	{Name: "parse", Stages: []string{"parse"}, Flows: 10_000, Stations: 2},
	{Name: "parse_patch", Stages: []string{"parse", "patch"}, Flows: 10_000, Stations: 2},
	{Name: "parse_patch_1M", Stages: []string{"parse", "patch"}, Flows: 1_000_000, Stations: 2},
	{Name: "parse_patch_10M", Stages: []string{"parse", "patch"}, Flows: 10_000_000, Stations: 2},
	{Name: "parse_bond_patch_off", Stages: []string{"parse", "bond", "patch", "distribute"}, Flows: 10_000, Stations: 2},
	{Name: "parse_bond_patch", Stages: []string{"parse", "bond", "patch", "distribute"}, Flows: 10_000, Stations: 2, Bonded: true},
	{Name: "parse_patch_cold", Stages: []string{"parse", "patch"}, Flows: 1_000_000, Stations: 2, Cold: true},
	{Name: "parse_hashes_patch", Stages: []string{"parse", "hashes", "patch"}, Flows: 1_000_000, Stations: 2},
	{Name: "parse_crc_patch", Stages: []string{"parse", "hashes", "patch"}, Flows: 1_000_000, Stations: 2, Hash: hash.CRC},
	{Name: "parse_aes_patch", Stages: []string{"parse", "hashes", "patch"}, Flows: 1_000_000, Stations: 2, Hash: hash.AES},
	{Name: "parse_l2_2", Stages: []string{"parse", "l2"}, Flows: 10_000, Stations: 2},
	{Name: "parse_l2_10k", Stages: []string{"parse", "l2"}, Flows: 10_000, Stations: 10_000},
	{Name: "parse_l2_10k_10M", Stages: []string{"parse", "l2"}, Flows: 10_000_000, Stations: 10_000},
	{Name: "parse_l2_100k", Stages: []string{"parse", "l2"}, Flows: 100_000, Stations: 100_000},
	{Name: "parse_l2_1M", Stages: []string{"parse", "l2"}, Flows: 1_000_000, Stations: 1_000_000, Slow: true},
	{Name: "parse_l3_1k", Stages: []string{"parse", "l3"}, Flows: 1_000_000, Stations: 2, Routes: 1 << 10},
	{Name: "parse_l3_1M", Stages: []string{"parse", "l3"}, Flows: 1_000_000, Stations: 2, Routes: 1 << 20, Slow: true},
	{Name: "parse_conntrack_patch", Stages: trackedStages, Flows: 10_000, Stations: 2, Connections: 1 << 16},
	{Name: "parse_conntrack_patch_1M", Stages: trackedStages, Flows: 1_000_000, Stations: 2, Connections: 1 << 22},
	{Name: "parse_conntrack_patch_new", Stages: trackedStages, Flows: 1_000_000, Stations: 2, Connections: 1 << 18, Order: traffic.RoundRobin, OneWay: true},
	{Name: "parse_nat_patch", Stages: trackedStages, Flows: 10_000, Stations: 2, Connections: 1 << 16, Translated: true, OneWay: true},
	{Name: "parse_nat_patch_new", Stages: trackedStages, Flows: 1_000_000, Stations: 2, Connections: 1 << 13, Translated: true, Order: traffic.RoundRobin, OneWay: true},
	{Name: "parse_vxlan_encap", Stages: tunnelStages, Flows: 10_000, Stations: 2, Tunnel: encapsulate},
	{Name: "parse_vxlan_decap", Stages: tunnelStages, Flows: 10_000, Stations: 2, Tunnel: decapsulate},
	{Name: "parse_l2_10k_cold", Stages: []string{"parse", "l2"}, Flows: 10_000, Stations: 10_000, Cold: true},
}, allGraphs()...)

// trackedStages are those of a switch that follows connections.
var trackedStages = []string{"parse", "conntrack", "patch"}

// tracker is the configuration of conntrack.
func (g Graph) tracker() *conntrack.Config {
	c := conntrack.DefaultConfig()
	c.Connections = max(g.Connections, 64)
	if g.Translated {
		// Sources of few flows each: the blocks are as small as they can be.
		c.SNAT = []conntrack.SNAT{{Ports: []string{"p0"}, Addresses: []string{"203.0.113.0/28"}, BlockSize: 64}}
	}
	return &c
}

// workload of 64 B packets.
func (g Graph) workload(seed uint64) traffic.Workload {
	w := traffic.DefaultWorkload()
	w.Flows, w.Seed = g.Flows, seed
	if w.Order = g.Order; w.Order == traffic.Zipf {
		w.Exponent = 1
	}
	w.Source.MACs, w.Destination.MACs = g.Stations/2, g.Stations/2
	if g.Tunnel == decapsulate {
		w.VXLAN = &traffic.VXLAN{VNI: tunnelVNI, Source: farEnd, Destination: nearEnd}
		w.Sizes = []int{w.Sizes[0] + vxlanExtra}
	}
	if g.Routes > 0 {
		w.Source.Net, w.Destination.Net = routedNets[0], routedNets[1]
	}
	return w
}

// routedNets are where flows of graphs with routes come from and go to: as many addresses as the most flows, and as
// many routes as addresses at most.
var routedNets = [ports]netip.Prefix{netip.MustParsePrefix("32.0.0.0/12"), netip.MustParsePrefix("64.0.0.0/12")}

// router is the configuration of l3 with the graph's routes. Its ports have the MAC addresses that the
// workload sends to.
func (g Graph) router() *l3.Config {
	c, w := l3.DefaultConfig(), g.workload(0)
	gateways := [ports]string{"192.0.2.2", "192.0.2.6"}
	for i, own := range [ports]string{"192.0.2.1/30", "192.0.2.5/30"} {
		port := fmt.Sprintf("p%d", i)
		mac := [ports]net.HardwareAddr{w.Destination.MAC, w.Source.MAC}[i]
		c.Interfaces = append(c.Interfaces, l3.Interface{Port: port, Addresses: []string{own}, MAC: mac.String()})
		c.Neighbours = append(c.Neighbours, l3.Neighbour{Address: gateways[i], MAC: fmt.Sprintf("02:ff:00:00:00:%02x", i), Port: port})
		each := g.Routes / ports
		length := routedNets[i].Bits() + bits.Len(uint(each)) - 1
		first := binary.BigEndian.Uint32(routedNets[i].Addr().AsSlice())
		for n := range uint32(each) {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], first+n<<(32-length))
			c.Routes = append(c.Routes, l3.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4(a), length).String(), Via: []string{gateways[i]}})
		}
	}
	return &c
}

// configs of stages, for so many addresses.
func (g Graph) configs() map[string]any {
	bridge := l2.DefaultConfig()
	bridge.TableSize = min(max(bridge.TableSize, g.Stations), l2.MaxTableSize)
	bridge.StormBroadcast, bridge.StormMulticast, bridge.StormUnknown = 0, 0, 0 // the clock stands still while addresses are learned
	all := map[string]any{
		"patch": patchOf([]string{"p0", "p1"}),
		"l2":    &bridge,

		"conntrack": g.tracker(),
		"pint":      g.Role.pintConfig(),
	}
	if g.Routes > 0 {
		all["l3"] = g.router()
	}
	if g.Tunnel != noTunnel {
		all["tunnel"], all["patch"] = tunnelConfig(g.workload(0)), patchOf([]string{"p0", tunnelPort})
	}
	if g.Bonded {
		all["patch"] = patchOf([]string{"b0", "b1"})
	}
	return all
}

// env is what the graph's modules get, for so many workers.
func (g Graph) env(workers int) pipeline.Env {
	env := newEnv([]string{"p0", "p1"}, workers, g.Hash)
	if g.Tunnel != noTunnel {
		env.Ports = append(env.Ports, pipeline.Port{Name: tunnelPort})
	}
	if !g.Bonded {
		return env
	}
	for i := range env.Ports {
		p := &env.Ports[i]
		p.Name, p.Member, p.Of = "", p.Name, uint16(len(env.Ports)+i)
	}
	for _, name := range []string{"b0", "b1"} {
		env.Ports = append(env.Ports, pipeline.Port{Name: name, MaxFrame: 1514, Bond: pipeline.Bond{Mode: pipeline.BalanceXOR, MinLinks: 1}})
	}
	return env
}

// patchOf joins the first two ports.
func patchOf(portNames []string) *patch.Config {
	return &patch.Config{Pairs: [][2]string{{portNames[0], portNames[1]}}}
}

// chain is a row's modules with their work in the background.
type chain struct {
	modules []pipeline.Named
	stop    chan struct{}
	ended   chan struct{}
}

// newChain builds modules for a switch. Unlike a
// switch's, a chain need not be whole, so that it can be measured stage by stage.
func newChain(names []string, configs map[string]any, env pipeline.Env) (*chain, error) {
	c := &chain{modules: make([]pipeline.Named, len(names)), stop: make(chan struct{}), ended: make(chan struct{})}
	var errs []error
	for i, name := range slices.Backward(names) { // a module learns what those behind it need
		m, err := newModule(name, configs[name], env)
		if err != nil {
			errs = append(errs, fmt.Errorf("stage %q: %w", name, err))
			continue
		}
		env.Needs |= m.Needs()
		c.modules[i] = pipeline.Named{Name: name, Module: m}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return c, pipeline.Join(c.modules)
}

func newEnv(portNames []string, workers int, f hash.Family) pipeline.Env {
	env := pipeline.Env{Name: "bench", ID: 1, Workers: workers, Hash: f}
	for _, name := range portNames {
		env.Ports = append(env.Ports, pipeline.Port{Name: name, MaxFrame: 1514})
	}
	return env
}

// start starts the work in the background, once the stages are made.
func (c *chain) start() {
	running := 0
	done := make(chan struct{})
	for _, n := range c.modules {
		if m, ok := n.Module.(pipeline.Background); ok {
			running++
			go func() { m.Run(c.stop); done <- struct{}{} }()
		}
	}
	go func() {
		for range running {
			<-done
		}
		close(c.ended)
	}()
}

func (c *chain) close() {
	close(c.stop)
	<-c.ended
}

func newModule(name string, config any, env pipeline.Env) (pipeline.Module, error) {
	if m, ok := baselines[name]; ok {
		return m, nil
	}
	if name == needing {
		return baseline{pipeline.RoleIngress, config.(packet.Needs), func(*packet.Batch) {}}, nil
	}
	if name == "floor" {
		return newFloor(), nil
	}
	k, ok := stages.Kinds[name]
	if !ok {
		return nil, fmt.Errorf("does not exist: choose among %s", strings.Join(stages.Names(), ", "))
	}
	if config == nil {
		config = k.Default()
	}
	return k.New(config, env)
}

// baselines are stages that do next to nothing.
var baselines = map[string]pipeline.Module{
	"touch":  baseline{pipeline.RoleForward, 0, touch},
	"hashes": baseline{pipeline.RoleIngress, packet.NeedFlowHash | packet.NeedID | packet.NeedArrival, func(*packet.Batch) {}},
}

// needing names a stage that does nothing, but has the parser do what its config, packet.Needs, says.
const needing = "needing"

type baseline struct {
	role    pipeline.Role
	needs   packet.Needs
	process func(*packet.Batch)
}

func (m baseline) Role() pipeline.Role      { return m.role }
func (m baseline) Needs() packet.Needs      { return m.needs }
func (m baseline) Stage(int) pipeline.Stage { return m }
func (m baseline) Process(b *packet.Batch)  { m.process(b) }

// touch is the least that looks at a packet: a byte of its EtherType decides nothing, but is read.
func touch(b *packet.Batch) {
	for i := range b.Pkts {
		p := &b.Pkts[i]
		p.OutPort = p.InPort ^ uint16(b.Mem[p.Addr+12]>>7)
	}
}

// learnLimit bounds how long addresses may take to be learned.
const learnLimit = 30 * time.Second
