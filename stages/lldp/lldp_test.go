package lldp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var testPorts = []pipeline.Port{{Name: "p0", MTU: 1500}, {Name: "p1", MTU: 9000}, {Name: "p2"}}

// rig is a stage and a batch.
type rig struct {
	*Module
	*stage
	*packet.Batch
	pool *packet.Pool
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	c := DefaultConfig()
	c.Ports = []Port{{Port: "p0"}, {Port: "p1", Mode: Receive}, {Port: "p2", Mode: Send, Description: "to the core"}}
	if change != nil {
		change(&c)
	}
	m, err := New(c, pipeline.Env{Name: "sw", ID: 0x010203, Workers: 1, Ports: testPorts})
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &rig{m, m.Stage(0).(*stage), packet.NewBatch(pool.NewCache(), packet.BatchSize), pool}
}

// clear frees the batch's packets.
func (r *rig) clear() {
	for i := range r.Pkts {
		r.Frames.FreePacket(&r.Pkts[i])
	}
	r.Reset()
}

// hear has a frame arrive, and returns what became of it.
func (r *rig) hear(t testing.TB, port uint16, now time.Duration, frame []byte) packet.Reason {
	t.Helper()
	addr, ok := r.Frames.AllocOne()
	if !ok {
		t.Fatal("no frame")
	}
	r.Now = int64(now)
	p := r.Append()
	p.Addr, p.Len, p.WireLen, p.InPort = addr+256, uint32(len(frame)), uint32(len(frame)), port
	copy(r.Data(p), frame)
	p.EtherType = uint16(frame[12])<<8 | uint16(frame[13])
	r.Process(r.Batch)
	reason := r.Pkts[0].Reason
	r.clear()
	return reason
}

// sent is what is emitted at a time, by port.
func (r *rig) sent(now time.Duration) map[uint16][]byte {
	r.Now = int64(now)
	r.Tick(int64(now))
	r.Emit(r.Batch)
	all := map[uint16][]byte{}
	for i := range r.Pkts {
		p := &r.Pkts[i]
		all[p.OutPort] = bytes.Clone(r.Data(p))
	}
	r.clear()
	return all
}

func ports(all map[uint16][]byte) (list []uint16) {
	for p := range all {
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}

// far is what a neighbour sends.
func far(change func(*announcement)) []byte {
	a := announcement{source: [6]byte{2, 9}, chassis: "far", port: "e1", description: "down", ttl: 20, system: "far", systemDescription: "a switch", capabilities: capBridge}
	if change != nil {
		change(&a)
	}
	return a.frame()
}

// TestFrameIsRead: another reader finds in what is sent what was meant, and so does our own.
func TestFrameIsRead(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Management = []string{"192.0.2.1", "2001:db8::1"} })
	if err := r.Join([]pipeline.Named{{Name: "parse"}, {Name: "l2"}, {Name: "l3"}}); err != nil {
		t.Fatal(err)
	}
	frame := r.sent(time.Hour)[0]
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	eth := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	if eth.DstMAC.String() != "01:80:c2:00:00:0e" || eth.SrcMAC.String() != "02:01:02:03:00:00" || len(frame) < minFrame {
		t.Errorf("%+v, %d bytes", eth, len(frame))
	}
	l := p.Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
	if string(l.ChassisID.ID) != "sw" || l.ChassisID.Subtype != layers.LLDPChassisIDSubTypeLocal || string(l.PortID.ID) != "p0" ||
		l.PortID.Subtype != layers.LLDPPortIDSubtypeIfaceName || l.TTL != 121 {
		t.Errorf("%+v", l)
	}
	i := p.Layer(layers.LayerTypeLinkLayerDiscoveryInfo).(*layers.LinkLayerDiscoveryInfo)
	if i.SysName != "sw" || i.PortDescription != "p0" || !i.SysCapabilities.EnabledCap.Bridge || !i.SysCapabilities.EnabledCap.Router ||
		i.SysCapabilities.EnabledCap.WLANAP || !bytes.Equal(i.MgmtAddress.Address, []byte{0x20, 1, 0x0d, 0xb8, 15: 1}) {
		t.Errorf("%+v", i)
	}
	info, err := i.Decode8023()
	if err != nil || info.MTU != 1518 {
		t.Errorf("largest frame %+v, %v", info, err)
	}
	got, err := parse(frame[14:])
	if err != nil || got.chassis != "sw" || got.port != "p0" || got.ttl != 121 || got.discardedTLVs != 0 || got.unrecognisedTLV != 1 ||
		fmt.Sprint(got.capabilities, got.management) != "[bridge router] [192.0.2.1 2001:db8::1]" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWhen: a port sends at the start, each interval, and four times in a row for a new neighbour; when the clock steps back, at once.
func TestWhen(t *testing.T) {
	r := newRig(t, nil)
	for _, step := range []struct {
		at   time.Duration
		want []uint16
	}{
		{1000, []uint16{0, 2}}, {1001, nil}, {1029, nil}, {1030, []uint16{0, 2}}, {1059, nil}, {1060, []uint16{0, 2}}, {500, []uint16{0, 2}}, {501, nil}, {530, []uint16{0, 2}},
	} {
		if got := ports(r.sent(step.at * time.Second)); !slices.Equal(got, step.want) {
			t.Errorf("at %d s: %v, want %v", step.at, got, step.want)
		}
	}
	if got := r.hear(t, 0, 531*time.Second, far(nil)); got != packet.Consumed {
		t.Errorf("%v", got)
	}
	for i := range time.Duration(6) {
		want := []uint16{0}
		if i >= fastFrames {
			want = nil
		}
		if got := ports(r.sent((532 + i) * time.Second)); !slices.Equal(got, want) {
			t.Errorf("%d s after: %v", i, got)
		}
		r.hear(t, 0, (532+i)*time.Second, far(nil)) // is not new
	}
	if next := r.Tick(5e9); next != 6e9 {
		t.Errorf("the next tick is at %d", next)
	}
	r.Emit(r.Batch)
	r.clear()
	if r.Emit(r.Batch); len(r.Pkts) != 0 {
		t.Error("another stage's tick made it send")
	}
	down := slices.Clone(testPorts)
	down[0].Down = true
	r.FollowPorts(down)
	if len(r.Neighbours(0)) != 0 {
		t.Error("a port that is down has neighbours")
	}
	r.FollowPorts(testPorts)
	if got := ports(r.sent(6 * time.Second)); !slices.Equal(got, []uint16{0}) {
		t.Errorf("a port that came up: %v", got)
	}
}

// TestNeighbours: what arrives on a port that receives is known until it ages, leaves, or the port goes; the table has a bound.
func TestNeighbours(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Neighbours = 3 })
	names := func(now time.Duration) (list []string) {
		for _, n := range r.Neighbours(int64(now)) {
			list = append(list, fmt.Sprintf("%d %s %s", n.Port, n.Chassis, n.PortID))
		}
		return list
	}
	for i := range 5 {
		r.hear(t, 1, time.Second, far(func(a *announcement) { a.port = fmt.Sprint("e", i) }))
	}
	r.hear(t, 0, 2*time.Second, far(nil))
	want := []string{"0 far e1", "1 far e0", "1 far e1", "1 far e2"}
	if got := names(0); !slices.Equal(got, want) || r.tables[1].tooMany != 2 {
		t.Errorf("%q, %d too many", got, r.tables[1].tooMany)
	}
	r.hear(t, 1, 3*time.Second, far(func(a *announcement) { a.port, a.ttl = "e1", 0 }))
	r.hear(t, 1, 4*time.Second, far(func(a *announcement) { a.port = "e4" }))
	if got := names(0); !slices.Equal(got, []string{"0 far e1", "1 far e0", "1 far e2", "1 far e4"}) {
		t.Errorf("%q", got)
	}
	r.read(int64(22 * time.Second)) // what was heard 20 s ago and before
	if got := names(0); !slices.Equal(got, []string{"1 far e4"}) || r.tables[1].aged != 2 || r.tables[0].aged != 1 {
		t.Errorf("%q, aged %d", got, r.tables[1].aged)
	}
	if n := r.Neighbours(int64(10 * time.Second))[0]; n.Age != 6*time.Second || n.TTL != 20*time.Second || n.PortDescription != "down" {
		t.Errorf("%+v", n)
	}
	c := r.config
	c.Ports = c.Ports[:1]
	commit, err := r.Prepare(c, testPorts)
	if err != nil {
		t.Fatal(err)
	}
	if commit(); names(0) != nil {
		t.Error("a port without LLDP has neighbours")
	}
	if got := r.hear(t, 1, 30*time.Second, far(nil)); got != 0 {
		t.Errorf("%v", got)
	}
}

// TestPasses: what is not LLDP of a port that receives goes on.
func TestPasses(t *testing.T) {
	r := newRig(t, nil)
	other := far(nil)
	other[5] = 0x0d
	unicast := far(nil)
	copy(unicast, []byte{2, 0, 0, 0, 0, 1})
	typed := far(nil)
	typed[13] = 0xb5
	for i, c := range []struct {
		port  uint16
		frame []byte
	}{{2, far(nil)}, {0, other}, {0, unicast}, {0, typed}} {
		if got := r.hear(t, c.port, time.Second, c.frame); got != 0 || len(r.Neighbours(0)) != 0 {
			t.Errorf("%d: %v", i, got)
		}
	}
	customer := far(nil)
	customer[5] = 0
	if got := r.hear(t, 0, time.Second, customer); got != packet.Consumed {
		t.Errorf("nearest customer bridge: %v", got)
	}
}

// TestFlood: a port's frames beyond its limit are dropped, counted, and take nothing from others.
func TestFlood(t *testing.T) {
	r := newRig(t, nil)
	limited := 0
	for range 1000 {
		if r.hear(t, 0, time.Hour, far(nil)) == reasonLimited {
			limited++
		}
	}
	if limited != 1000-limitBurst {
		t.Errorf("%d limited", limited)
	}
	if got := r.hear(t, 1, time.Hour, far(nil)); got != packet.Consumed {
		t.Errorf("another port: %v", got)
	}
}

// mandatory are the TLVs that all frames begin with, as bytes.
const mandatory = "020207" + "41" + "0402" + "05" + "42" + "0602" + "0014"

// TestMalformed: each fault, and what it costs.
func TestMalformed(t *testing.T) {
	long := strings.Repeat("41", 256)
	for _, c := range []struct {
		name, data   string
		err          error
		discarded    int
		unrecognised int
	}{
		{"nothing", "", errCut, 0, 0},
		{"one byte", "02", errCut, 0, 0},
		{"only the end", "0000", errOrder, 0, 0},
		{"mandatory alone, without end", mandatory, nil, 0, 0},
		{"mandatory and end", mandatory + "0000", nil, 0, 0},
		{"bytes behind the end", mandatory + "0000" + "ffff", nil, 0, 0},
		{"end with a value", mandatory + "000100", nil, 1, 0},
		{"half a header", mandatory + "08", nil, 1, 0},
		{"port first", "040205420202074106020014", errOrder, 0, 0},
		{"no time to live", "0202074104020542" + "0000", errOrder, 0, 0},
		{"chassis cut", "020907" + "41", errCut, 0, 0},
		{"chassis without an identifier", "020107" + "04020542" + "06020014", errInvalid, 0, 0},
		{"chassis of 256 bytes", "030107" + long + "0402" + "0542" + "06020014", errInvalid, 0, 0},
		{"time to live of one byte", "02020741" + "04020542" + "060114", errInvalid, 0, 0},
		{"a second chassis", mandatory + "02020741", errTwice, 0, 0},
		{"a second time to live", mandatory + "06020014", errTwice, 0, 0},
		{"optional TLV beyond the end", mandatory + "0a05" + "4141", nil, 1, 0},
		{"system name of 256 bytes", mandatory + "0b00" + long, nil, 1, 0},
		{"a second system name", mandatory + "0a0141" + "0a0142", nil, 1, 0},
		{"capabilities cut", mandatory + "0e0200ff", nil, 1, 0},
		{"management address of 0 bytes", mandatory + "100100", nil, 1, 0},
		{"management address without a number", mandatory + "10070501c0000201" + "01", nil, 1, 0},
		{"management address with a long OID", mandatory + "100c0501c0000201" + "0100000000" + "90", nil, 1, 0},
		{"organisation without an identifier", mandatory + "fe0200" + "12", nil, 1, 0},
		{"organisation", mandatory + "fe0400120f01", nil, 0, 1},
		{"reserved type", mandatory + "140141", nil, 0, 1},
	} {
		data, err := hex.DecodeString(c.data)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p, err := parse(data)
		if err != c.err || err == nil && (p.discardedTLVs != c.discarded || p.unrecognisedTLV != c.unrecognised) {
			t.Errorf("%s: %v, %d discarded, %d unrecognised", c.name, err, p.discardedTLVs, p.unrecognisedTLV)
		}
	}
	r := newRig(t, nil)
	bad, _ := hex.DecodeString("0180c200000e020900000000" + "88cc" + "020907")
	if r.hear(t, 0, time.Second, bad) != packet.Consumed || r.tables[0].discarded != 1 || r.tables[0].inError != 1 || len(r.Neighbours(0)) != 0 {
		t.Errorf("%+v", r.tables[0].counts)
	}
}

// FuzzParse: no bytes make parse fail, and what it says is bounded and printable.
func FuzzParse(f *testing.F) {
	f.Add(far(nil)[14:])
	for _, text := range []string{mandatory, mandatory + "100c0501c0000201010000000000", mandatory + "fe0400120f01"} {
		data, _ := hex.DecodeString(text)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse(data)
		if err != nil {
			return
		}
		if p.key == "" || len(p.management) > maxAddresses || len(p.key) > 2*(2+maxText)+16 || p.discardedTLVs+p.unrecognisedTLV > len(data)/2+1 {
			t.Errorf("%+v", p)
		}
		for _, text := range append([]string{p.chassis, p.port, p.systemName, p.systemDescription, p.portDescription}, p.management...) {
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(text) > 3*(maxText+1) {
				t.Errorf("%q", text)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	c := Config{Hold: 101, Neighbours: 0, Description: strings.Repeat("x", 256), Management: []string{"1", "", "::", "0.0.0.0", "fe80::1%0"},
		Ports: []Port{{Port: "p9"}, {Port: "p0", Mode: "on", Description: strings.Repeat("x", 256)}, {Port: "p0"}}}
	err := c.Validate([]string{"p0", ""})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"interval: 0s", "hold: 101", "neighbours: 0", "description: 256", "management: 5 addresses", `management[0]: "1"`, "management[4]",
		`port[0].port: port "p9"`, `port[1].mode: "on"`, "port[1].description: 256", `port[2].port: port "p0" is port[1] already`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	long := DefaultConfig()
	long.Interval, long.Hold = time.Hour, 100
	if err := long.Validate(nil); err == nil || !strings.Contains(err.Error(), "hold: 100 intervals are") {
		t.Error(err)
	}
	sub := DefaultConfig()
	sub.Ports = []Port{{Port: "p1.5"}}
	if _, err := New(sub, pipeline.Env{Ports: []pipeline.Port{{Name: "p1"}, {Name: "p1.5", VLAN: 5}}}); err == nil {
		t.Error("a subinterface was taken")
	}
}

func TestDoesNotAllocate(t *testing.T) {
	r := newRig(t, nil)
	r.inline = false
	frame, now := far(nil), int64(time.Hour)
	if n := testing.AllocsPerRun(100, func() {
		now += int64(time.Second)
		r.Now = now
		for range 2 {
			addr, _ := r.Frames.AllocOne()
			p := r.Append()
			p.Addr, p.Len, p.WireLen, p.EtherType = addr+256, uint32(len(frame)), uint32(len(frame)), etherType
			copy(r.Data(p), frame)
		}
		r.Process(r.Batch)
		r.clear()
		r.Tick(now)
		r.Emit(r.Batch)
		r.clear()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
