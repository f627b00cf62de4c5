package lds

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

func prefixes(text string) (list []netip.Prefix) {
	for _, p := range strings.Fields(text) {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

// TestClassifier compares with a search through all classes.
func TestClassifier(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := prefixes("0.0.0.0/0 10.0.0.0/8 10.1.0.0/16 10.1.2.0/24 10.1.2.128/25 10.2.0.0/16 192.0.2.0/24 ::/0 2001:db8::/32 2001:db8:1::/48")
	for range 200 {
		var classes []class
		for range 1 + r.IntN(8) {
			c := lds.Class{From: all[r.IntN(len(all))], To: all[r.IntN(len(all))]}
			if c.From.Addr().Is4() == c.To.Addr().Is4() {
				classes = append(classes, class{c, 8})
			}
		}
		of := newClassifier(classes)
		addresses := make([]netip.Addr, 0, 8)
		for _, a := range strings.Fields("10.1.2.3 10.1.2.200 10.2.0.1 10.9.9.9 192.0.2.7 8.8.8.8 2001:db8::1 2001:db8:1::1 ::1") {
			addresses = append(addresses, netip.MustParseAddr(a))
		}
		for _, from := range addresses {
			for _, to := range addresses {
				if from.Is4() != to.Is4() {
					continue
				}
				best := int16(-1)
				for i := range classes {
					c := &classes[i]
					if !c.From.Contains(from) || !c.To.Contains(to) {
						continue
					}
					if best < 0 || c.From.Bits() > classes[best].From.Bits() || c.From.Bits() == classes[best].From.Bits() && c.To.Bits() > classes[best].To.Bits() {
						best = int16(i)
					}
				}
				got := of.lookup(from, to, tag{})
				if got < 0 != (best < 0) || best >= 0 && !classes[got].Same(&classes[best].Class) {
					t.Fatalf("%v: %s to %s is of class %d, want %d", classes, from, to, got, best)
				}
			}
		}
	}
}

// TestEdges: near is what is behind ports that are not measured; both ends find the same pairs, and no default route.
func TestEdges(t *testing.T) {
	routes := []pipeline.Route{
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Ports: []uint16{1, 2}, Gateway: true},
		{Prefix: netip.MustParsePrefix("10.0.1.0/24"), Ports: []uint16{0}},
		{Prefix: netip.MustParsePrefix("10.9.0.0/24"), Ports: []uint16{0}, Gateway: true},
		{Prefix: netip.MustParsePrefix("172.16.0.0/30"), Ports: []uint16{1}},
		{Prefix: netip.MustParsePrefix("10.0.2.0/24"), Ports: []uint16{1, 2}, Gateway: true},
		{Prefix: netip.MustParsePrefix("10.0.3.0/24"), Ports: []uint16{0, 2}, Gateway: true},
		{Prefix: netip.MustParsePrefix("2001:db8::/32"), Ports: []uint16{2}, Gateway: true},
	}
	measured := func(p uint16) bool { return p > 0 }
	found := func(egress bool) (list []string) {
		for _, c := range edges(routes, measured, egress) {
			list = append(list, c.Packets())
		}
		return list
	}
	if got, want := found(true), []string{"10.0.1.0/24 > 10.0.2.0/24", "10.9.0.0/24 > 10.0.2.0/24"}; !slices.Equal(got, want) {
		t.Errorf("egress: %s, want %s", got, want)
	}
	if got, want := found(false), []string{"10.0.2.0/24 > 10.0.1.0/24", "10.0.2.0/24 > 10.9.0.0/24"}; !slices.Equal(got, want) {
		t.Errorf("ingress: %s, want %s", got, want)
	}
}

// fakeRouter is a table of routes.
type fakeRouter struct {
	version uint64
	routes  []pipeline.Route
}

func (r *fakeRouter) RouteVersion() uint64        { return r.version }
func (r *fakeRouter) RouteList() []pipeline.Route { return r.routes }

// TestClassesOfRoutes: a module whose table of routes changes while packets flow counts each packet in the class that it has, or as
// one of none, and says so of the slices in which points changed; with and without the interval bit.
func TestClassesOfRoutes(t *testing.T) {
	for _, bit := range []bool{false, true} {
		c := DefaultConfig()
		c.Ports, c.Edges, c.Rows, c.Columns, c.ClassColumns, c.IntervalBits, c.IntervalBit = []string{"up1", "up2"}, true, 2, 64, 32, 20, bit
		env := pipeline.Env{Name: "s", ID: 1, Workers: 1, Hash: hash.XX, Ports: []pipeline.Port{{Name: "host"}, {Name: "up1"}, {Name: "up2"}}}
		m, err := NewEgress(c, env)
		if err != nil {
			t.Fatal(err)
		}
		router := &fakeRouter{1, []pipeline.Route{
			{Prefix: netip.MustParsePrefix("10.0.1.0/24"), Ports: []uint16{0}},
			{Prefix: netip.MustParsePrefix("10.0.2.0/24"), Ports: []uint16{1, 2}, Gateway: true},
		}}
		m.FollowRoutes(router)
		s := m.Stage(0).(*stage)
		pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		b := packet.NewBatch(pool.NewCache(), 1)
		addr, _ := b.Frames.AllocOne()
		got, whole := map[string]uint64{}, map[string]int{}
		emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
			bytes, err := body(nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := lds.Decode(bytes, hash.XX)
			if err != nil {
				t.Fatal(err)
			}
			class := p.Class()
			if class.IsZero() || h.Instance&classInstance == 0 || h.Instance&1 == 0 {
				t.Fatalf("instance %x of class %v", h.Instance, &class)
			}
			got[class.String()] += p.Packets()
			if !h.Partial {
				whole[class.String()]++
			}
		}
		const start = int64(50) << 20
		next, sent := int64(0), map[byte]uint64{}
		now := start
		for i := range 4000 {
			now += 5000
			if now >= next {
				next = s.Tick(now)
				m.Collect(now, false, emit)
			}
			if i == 2000 {
				router.version = 2
				router.routes = append(router.routes, pipeline.Route{Prefix: netip.MustParsePrefix("10.0.3.0/24"), Ports: []uint16{2}, Gateway: true})
				router.routes[1].Ports = []uint16{0} // and this one is near now
			}
			to := byte(2 + i%3)
			sent[to]++
			data := b.Mem[addr+256:][:128]
			clear(data)
			copy(data[12:], []byte{8, 0, 0x45})
			binary.BigEndian.PutUint32(data[26:], 0x0a000105)
			binary.BigEndian.PutUint32(data[30:], 0x0a000007|uint32(to)<<8)
			b.Pkts = append(b.Pkts[:0], packet.Packet{Addr: addr + 256, Len: 128, WireLen: 128, ID: uint64(i) * 0x9e3779b97f4a7c15, Arrival: now,
				OutPort: uint16(1 + i%2), Flags: packet.FlagIPv4 | packet.FlagL4, L3: 14, L4: 34, Proto: 17})
			b.Now = now
			s.Process(b)
		}
		s.Finish(now)
		m.Collect(now, true, emit)
		measured, unclassed := s.measured.Load(), s.unclassed.Load()
		if measured+unclassed != 4000 || s.cells.Missed() != 0 {
			t.Errorf("bit %v: %d measured, %d of no class, %d missed, of 4000", bit, measured, unclassed, s.cells.Missed())
		}
		old, added := got["10.0.1.0/24 > 10.0.2.0/24"], got["10.0.1.0/24 > 10.0.3.0/24"]
		if old+added+got["10.0.2.0/24 > 10.0.3.0/24"] != measured {
			t.Errorf("bit %v: records have %v, %d were measured", bit, got, measured)
		}
		if old < sent[2]/2 || old > sent[2]*3/4 || added < sent[3]/4 || whole["10.0.1.0/24 > 10.0.2.0/24"] < 5 || whole["10.0.1.0/24 > 10.0.3.0/24"] < 5 {
			t.Errorf("bit %v: %v, whole %v", bit, got, whole)
		}
	}
}

// TestPrepare: points change while the switch runs, what both ends have in common does not.
func TestPrepare(t *testing.T) {
	env := pipeline.Env{Name: "s", ID: 1, Workers: 1, Hash: hash.XX, Ports: []pipeline.Port{{Name: "a"}, {Name: "b"}}}
	c := DefaultConfig()
	c.Columns = 64
	m, err := NewIngress(c, env)
	if err != nil {
		t.Fatal(err)
	}
	next := c
	next.Classes = []Class{{Name: "blue", From: "10.0.1.0/24", To: "10.0.2.0/24", Columns: 32}}
	commit, err := m.Prepare(next, env.Ports)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if p := m.plan.Load(); p.classifier == nil || p.columns(0) != 32 {
		t.Errorf("plan %+v", p)
	}
	for key, change := range map[string]func(*Config){
		"rows": func(c *Config) { c.Rows++ }, "virtual": func(c *Config) { c.Virtual++ }, "banks": func(c *Config) { c.Banks = []float64{1, 1, 1, 0.5} },
		"interval_bits": func(c *Config) { c.IntervalBits++ }, "interval_bit": func(c *Config) { c.IntervalBit = true }, "seed": func(c *Config) { c.Seed++ },
		"class[1]: has the prefixes": func(c *Config) { c.Classes = append(c.Classes, Class{From: "10.0.1.0/24", To: "10.0.2.0/24"}) },
		"class[0].from":              func(c *Config) { c.Classes = []Class{{From: "x", To: "10.0.0.0/8"}} },
		"IP versions":                func(c *Config) { c.Classes = []Class{{From: "::/0", To: "10.0.0.0/8"}} },
		"class_columns":              func(c *Config) { c.ClassColumns = -1 },
		"class.columns":              func(c *Config) { c.Classes = []Class{{From: "10.0.0.0/8", To: "10.0.0.0/8", Columns: 1 << 30}} },
	} {
		bad := next
		change(&bad)
		if _, err := m.Prepare(bad, env.Ports); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestLinksBesideClasses: with links a packet is in the point of its port, and in that of its class if it has one; both have
// the same packets, bytes and times.
func TestLinksBesideClasses(t *testing.T) {
	for _, bit := range []bool{false, true} {
		c := testConfig()
		c.Links, c.Columns, c.ClassColumns, c.IntervalBit = true, 500, 200, bit
		c.Classes = []Class{{Name: "blue", From: "10.0.0.0/29", To: "11.0.0.0/8"}, {Name: "red", From: "10.0.0.8/30", To: "11.0.0.0/8"}}
		e := newEnd(t, c, NewIngress)
		got, columns := map[string]uint64{}, map[string]int{}
		emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
			b, err := body(nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := lds.Decode(b, hash.XX)
			if err != nil {
				t.Fatal(err)
			}
			class, name := p.Class(), "port"
			if !class.IsZero() {
				name = class.Name
			}
			if (h.Instance >= classInstance) == class.IsZero() || class.IsZero() && h.Instance != 2 && p.Packets() != 0 {
				t.Errorf("%s has instance %d", name, h.Instance)
			}
			got[name] += p.Packets()
			columns[name] = p.Config().Columns
		}
		now, next := int64(1<<30), int64(0)
		want := map[string]uint64{}
		for i := range uint32(3000) {
			flow := i % 16
			want["port"]++
			switch {
			case flow < 8:
				want["blue"]++
			case flow < 12:
				want["red"]++
			}
			e.put(flow, uint64(i), now, bit, now>>c.IntervalBits&1 != 0)
			if now >= next {
				next = e.stage.Tick(now)
				e.Collect(now, false, emit)
			}
			e.stage.Process(e.batch)
			now += 1000
		}
		e.stage.Finish(now)
		e.Collect(now, true, emit)
		if !maps.Equal(got, want) || !maps.Equal(columns, map[string]int{"port": 500, "blue": 200, "red": 200}) {
			t.Errorf("bit %v: %v packets, want %v, with columns %v", bit, got, want, columns)
		}
		e.Metrics(func(m pipeline.Metric) {
			if m.Name == "measured_packets_total" && m.Value != 3000 || m.Name == "unclassed_packets_total" && m.Value != 3000-float64(want["blue"]+want["red"]) {
				t.Errorf("bit %v: %s is %g", bit, m.Name, m.Value)
			}
		})
	}
}

// TestTaggedClasses: of classes with a packet's prefixes, one that wants its VNI or its edge comes before one that wants neither, and one
// of another VNI or edge is none of its.
func TestTaggedClasses(t *testing.T) {
	c := DefaultConfig()
	c.EdgeBits = 8
	c.Classes = []Class{
		{Name: "all", From: "10.0.0.0/8", To: "10.0.0.0/8"}, {Name: "vni7", VNI: 7, From: "10.0.0.0/8", To: "10.0.0.0/8"},
		{Name: "edge3", Edge: 3, To: "10.0.0.0/8"}, {Name: "both", VNI: 7, Edge: 3, From: "10.0.0.0/8", To: "10.0.0.0/8"}, {Name: "six", VNI: 8, To: "2001:db8::/32"},
	}
	list := c.compileClasses(func(format string, args ...any) { t.Fatalf(format, args...) })
	of := newClassifier(list)
	for _, x := range []struct {
		from, to  string
		vni, edge uint32
		want      string
	}{
		{"10.1.1.1", "10.2.2.2", 0, 0, "all"}, {"10.1.1.1", "10.2.2.2", 7, 0, "vni7"}, {"10.1.1.1", "10.2.2.2", 8, 0, "all"}, {"10.1.1.1", "10.2.2.2", 7, 3, "both"},
		{"10.1.1.1", "10.2.2.2", 9, 3, "all"}, {"192.0.2.1", "10.2.2.2", 0, 3, "edge3"}, {"192.0.2.1", "10.2.2.2", 7, 4, ""}, {"::1", "2001:db8::1", 8, 0, "six"}, {"::1", "2001:db8::1", 0, 0, ""},
	} {
		got := ""
		if i := of.lookup(netip.MustParseAddr(x.from), netip.MustParseAddr(x.to), tag{x.vni, x.edge}); i >= 0 {
			got = list[i].Name
		}
		if got != x.want {
			t.Errorf("%+v: class %q", x, got)
		}
	}
	var faults []string
	c.Classes = []Class{{VNI: 1 << 24, To: "10.0.0.0/8"}, {Edge: 256, To: "10.0.0.0/8"}, {VNI: -1, From: "10.0.0.0/8", To: "10.0.0.0/8"}, {To: "10.0.0.0/8"}}
	c.compileClasses(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
	if got := strings.Join(faults, "\n"); len(faults) != 4 || !strings.Contains(got, "class[0].vni") || !strings.Contains(got, "class[1].edge") || !strings.Contains(got, "class[2].vni") || !strings.Contains(got, "class[3].from") {
		t.Errorf("%s", got)
	}
}

// TestVNI reads it from VXLAN and Geneve alone, and never beyond the packet.
func TestVNI(t *testing.T) {
	data := make([]byte, 60)
	copy(data[34:], []byte{0xab, 0xcd, 4789 >> 8, 4789 & 0xff, 0, 26, 0, 0, 8, 0, 0, 0, 1, 2, 3, 0})
	p := packet.Packet{Flags: packet.FlagIPv4 | packet.FlagL4, L3: 14, L4: 34, Proto: 17}
	if got := vni(&p, data); got != 0x010203 {
		t.Errorf("VXLAN: %#x", got)
	}
	for n := range 50 {
		if got := vni(&p, data[:n]); got != 0 {
			t.Errorf("%d bytes: %#x", n, got)
		}
	}
	data[36], data[37] = 6081>>8, 6081&0xff
	if got := vni(&p, data); got != 0x010203 {
		t.Errorf("Geneve: %#x", got)
	}
	data[37]++
	if got := vni(&p, data); got != 0 {
		t.Errorf("another port: %#x", got)
	}
}
