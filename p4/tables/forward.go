package tables

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/patch"
	stage "github.com/weirswitch/weir/stages/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// parse fills the table of the control derive.
func (b *builder) parse() {
	c := configOf[parse.Config](b, "parse")
	if c == nil {
		return
	}
	carrier := c.IPIDCarrier
	if p := configOf[stage.Config](b, "pint"); p != nil {
		plan, err := p.SourcePlan()
		carrier = carrier || err == nil && plan.Carrier == pintplan.CarrierIPID
	}
	b.byDefault(parseControl+".parse_config", act(parseAction,
		b.key(programOf(b.Hash).parameter, c.Seed), param("carrier", oneBit(carrier)), param("drop", oneBit(c.Malformed == parse.Drop))))
	b.out.Clones = append(b.out.Clones, Clone{cpuSession, b.CPUPort})
}

// forward chooses the forwarding stage, and fills its tables.
func (b *builder) forward() {
	use := "use_none"
	if c := configOf[patch.Config](b, "patch"); c != nil {
		use = "use_patch"
		b.patch(c)
	}
	if c := configOf[l2.Config](b, "l2"); c != nil {
		use = "use_l2"
		b.l2(c)
	}
	if c := configOf[l3.Config](b, "l3"); c != nil {
		use = "use_l3"
		b.l3(c)
	}
	b.byDefault(forwardControl+".forwarding", act(forwardControl+"."+use))
}

// patch joins pairs of ports.
func (b *builder) patch(c *patch.Config) {
	names := pipeline.PortNames(b.Ports)
	for _, pair := range c.Pairs {
		x, y := slices.Index(names, pair[0]), slices.Index(names, pair[1])
		for _, way := range [2][2]int{{x, y}, {y, x}} {
			b.entry(patchControl+".pairs", act(patchControl+".patch_to", param("port", Number(uint64(way[1])))),
				exact("meta.in_port", Number(uint64(way[0]))))
		}
	}
}

// l2 is the bridge: VLANs of ports, static stations, and groups to flood to.
func (b *builder) l2(c *l2.Config) {
	ports, stations, floods, err := c.Tables(pipeline.PortNames(b.Ports))
	if err != nil {
		b.fault("stages.l2", "%w", err)
		return
	}
	if c.TableSize > maxStations {
		b.fault("stages.l2.table_size", "%d: the program's table holds %d: choose at most that", c.TableSize, maxStations)
	}
	if n := len(stations) * len(ports); n > maxStations {
		b.fault("stages.l2.static", "%d stations on %d ports take %d entries: the program's table holds %d: name fewer", len(stations), len(ports), n, maxStations)
	}
	if len(c.Storms) > 0 {
		b.fault("stages.l2.storm", "the program limits no floods: remove the limits")
	}
	if len(c.BPDUGuard) > 0 {
		b.fault("stages.l2.bpdu_guard", "the program blocks no ports: remove the guard")
	}
	if c.Snooping {
		b.fault("stages.l2.snooping", "the program floods all groups: remove it")
	}
	for i := range ports {
		b.l2Port(i, &ports[i])
	}
	for _, s := range stations {
		vlan, mac := Number(uint64(s.VLAN)), MAC(s.MAC)
		b.entry(l2Control+".stations", act(l2Control+".forward_to", param("port", Number(uint64(s.Port)))),
			exact("meta.bridge_vlan", vlan), exact("hdr.ethernet.dst", mac))
		for port := range ports {
			b.entry(l2Control+".heard", act("NoAction"),
				exact("meta.bridge_vlan", vlan), exact("hdr.ethernet.src", mac), exact("meta.in_port", Number(uint64(port))))
		}
	}
	b.floods(ports, floods)
	if !c.ForwardLinkLocal {
		b.out.Entries = append(b.out.Entries, Entry{
			Table: l2Control + ".reserved_groups", Priority: 1, Action: act(l2Control + ".link_local"),
			Keys: []Key{ternary("hdr.ethernet.dst", Number(0x0180c2000000), Number(0xfffffffffff0))},
		})
	}
	b.out.Digests = append(b.out.Digests, Digest{stationDigest})
	b.room("stages.l2.port", l2Control+".members", maxVLANMembers, "VLANs of ports")
	b.room("stages.l2.port", l2Control+".floods", maxFloods, "ways to flood VLANs")
}

// Learning is how a bridge's control plane learns stations.
type Learning struct {
	Stations int           // at most, beside static ones
	Ageing   time.Duration // that one is kept for without a packet of its own
}

// Learning is that of the configuration; false: the switch is no bridge.
func (s *Switch) Learning() (Learning, bool) {
	c := configOf[l2.Config](&builder{Switch: s}, "l2")
	if c == nil {
		return Learning{}, false
	}
	static := len(c.Static)
	return Learning{Stations: min(c.TableSize-static, maxStations-static*max(len(s.Ports), 1)), Ageing: c.Ageing}, true
}

// room notes a fault if a table has more entries than it has room for.
func (b *builder) room(key, table string, most int, what string) {
	n := 0
	for i := range b.out.Entries {
		if b.out.Entries[i].Table == table {
			n++
		}
	}
	if n > most {
		b.fault(key, "%d %s: the program's table holds %d: name fewer", n, what, most)
	}
}

// l2Port is a port that is not transparent: which VLANs it carries, and which one
// without a tag.
func (b *builder) l2Port(number int, p *l2.TablePort) {
	if p.Transparent {
		return
	}
	if p.Untagged {
		b.fault("stages.l2.port", "%s: the program takes tags off on access ports: set accept_tagged = true there", b.Ports[number].Name)
	}
	port, native := Number(uint64(number)), Number(uint64(p.Native))
	b.entry(l2Control+".in_ports", act(l2Control+".filtered", param("vlan", native)), exact("meta.in_port", port))
	for _, vlan := range p.VLANs {
		b.entry(l2Control+".members", act(l2Control+".carry"), exact("meta.in_port", port), exact("meta.bridge_vlan", Number(uint64(vlan))))
	}
	b.entry(l2LeaveControl+".out_ports", act(l2LeaveControl+".leave_as", param("vlan", native)), exact("meta.out_port", port))
}

// floods makes the multicast groups: for each port, of each list of ports that VLANs
// have, the others. The VLANs of most ports are alike, so of each port one list is
// that of all VLANs without an entry.
func (b *builder) floods(ports []l2.TablePort, floods []l2.TableFlood) {
	groups := map[string]int{}
	for in := range ports {
		usual := -1
		carried := make([][]uint16, len(floods))
		for i := range floods {
			carried[i] = floods[i].VLANs
			if !ports[in].Transparent {
				carried[i] = intersection(floods[i].VLANs, ports[in].VLANs)
			}
			if len(carried[i]) > 0 && (usual < 0 || len(carried[i]) > len(carried[usual])) {
				usual = i
			}
		}
		for i, vlans := range carried {
			action := b.flood(groups, floods[i].Ports, uint16(in))
			if i != usual {
				for _, vlan := range vlans {
					b.floodEntry(in, 1, Number(uint64(vlan)), Number(0xfff), action)
				}
			}
		}
		if usual >= 0 {
			b.floodEntry(in, 2, Value{}, Value{}, b.flood(groups, floods[usual].Ports, uint16(in)))
		}
	}
}

func (b *builder) floodEntry(in, priority int, vlan, mask Value, action Action) {
	b.out.Entries = append(b.out.Entries, Entry{
		Table: l2Control + ".floods", Priority: priority, Action: action,
		Keys: []Key{exact("meta.in_port", Number(uint64(in))), ternary("meta.bridge_vlan", vlan, mask)},
	})
}

// flood is the action that sends to all of the ports but one, whose group it makes.
func (b *builder) flood(groups map[string]int, ports []uint16, but uint16) Action {
	var others []int
	for _, p := range ports {
		if p != but {
			others = append(others, int(p))
		}
	}
	if len(others) == 0 {
		return act(l2Control + ".no_member")
	}
	name := fmt.Sprint(others)
	if groups[name] == 0 {
		groups[name] = len(groups) + 1
		b.out.Groups = append(b.out.Groups, Group{groups[name], others})
	}
	return act(l2Control+".flood_to", param("group", Number(uint64(groups[name]))))
}

// intersection of two ascending lists.
func intersection(a, b []uint16) (both []uint16) {
	for _, x := range a {
		if _, ok := slices.BinarySearch(b, x); ok {
			both = append(both, x)
		}
	}
	return both
}
