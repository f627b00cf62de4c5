package stages_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
)

// The ports of the switch of these tests, by number. p1 is a trunk: blue, green and red are bridge domains, of which red is in a VRF with
// the addresses of blue; p3 and p1.500 are ports of the router alone.
const (
	p0       = iota // blue
	p1              // its subinterfaces' parent, of no domain itself
	p2              // green
	p3              // routed: 10.3.0.1/24
	p4              // red
	p1v100          // blue
	p1v200          // green
	p1v300          // red
	p1v400i7        // blue, with two tags
	p1v500          // routed: 10.5.0.1/24
	irbBlue
	irbGreen
	irbRed
	nPorts
)

var portNames = [nPorts]string{"p0", "p1", "p2", "p3", "p4", "p1.100", "p1.200", "p1.300", "p1.400.7", "p1.500", "irb-blue", "irb-green", "irb-red"}

func routedPorts() []pipeline.Port {
	ports := make([]pipeline.Port, nPorts)
	for i, name := range portNames {
		ports[i] = pipeline.Port{Name: name, MaxFrame: 1518, MTU: 1500}
	}
	for port, vlan := range map[int]uint16{p1v100: 100, p1v200: 200, p1v300: 300, p1v400i7: 400, p1v500: 500} {
		ports[port].Parent, ports[port].VLAN, ports[port].TPID = p1, vlan, packet.TypeCustomerTag
	}
	ports[p1v400i7].Inner, ports[p1v400i7].TPID = 7, packet.TypeServiceTag
	for _, port := range []int{irbBlue, irbGreen, irbRed} {
		ports[port].Routed = true
	}
	return ports
}

func ownMAC(port int) [6]byte {
	return l3.DefaultMAC(1, uint16(port))
}

// host is a station of the tests: its MAC and IPv4 address, and by which interface of the router it is found.
type host struct {
	mac  [6]byte
	addr [4]byte
	at   int
}

// hosts have addresses 10.1.0.x in blue and in red, 10.2.0.x in green, and those of the routed ports.
func testHosts() (all []host) {
	for _, s := range []struct {
		at  int
		net byte
	}{{irbBlue, 1}, {irbGreen, 2}, {irbRed, 1}, {p3, 3}, {p1v500, 5}} {
		for x := range byte(3) {
			all = append(all, host{[6]byte{2, 0xaa, byte(s.at), 0, 0, x}, [4]byte{10, s.net, 0, 10 + x}, s.at})
		}
	}
	return all
}

func bridgeConfig() *l2.Config {
	c := l2.DefaultConfig()
	c.StormBroadcast, c.StormMulticast, c.StormUnknown, c.LoopMoves = 0, 0, 0, 0
	c.Domains = []l2.Domain{
		{Name: "blue", Ports: []string{"p0", "p1.100", "p1.400.7", "irb-blue"}},
		{Name: "green", Ports: []string{"p2", "p1.200", "irb-green"}},
		{Name: "red", Ports: []string{"p4", "p1.300", "irb-red"}},
	}
	return &c
}

func routerConfig() *l3.Config {
	c := l3.DefaultConfig()
	c.ICMPRate = 0
	c.VRFs = []l3.VRF{{Name: "red"}}
	c.Interfaces = []l3.Interface{
		{Port: "irb-blue", Addresses: []string{"10.1.0.1/24", "fd00:1::1/64"}},
		{Port: "irb-green", Addresses: []string{"10.2.0.1/24", "fd00:2::1/64"}},
		{Port: "irb-red", Addresses: []string{"10.1.0.1/24"}, VRF: "red"},
		{Port: "p3", Addresses: []string{"10.3.0.1/24"}},
		{Port: "p1.500", Addresses: []string{"10.5.0.1/24"}},
	}
	c.Routes = []l3.Route{{Prefix: "10.9.0.0/16", Via: []string{"10.2.0.10"}}, {Prefix: "10.9.0.0/16", Via: []string{"10.1.0.11"}, VRF: "red"}}
	for _, h := range testHosts() {
		c.Neighbours = append(c.Neighbours, l3.Neighbour{Address: fmt.Sprintf("%d.%d.%d.%d", h.addr[0], h.addr[1], h.addr[2], h.addr[3]), MAC: macText(h.mac), Port: portNames[h.at]})
	}
	return &c
}

func macText(m [6]byte) string { return l2.MAC(m).String() }

var routedGraph = []string{"parse", "vlan", "l2", "l3", "irb", "tag"}

// routedBed is a bridge with a router, and its one worker.
type routedBed struct {
	t     testing.TB
	chain []pipeline.Named
	graph *pipeline.Graph
	batch *packet.Batch
	now   int64
}

func newRoutedBed(t testing.TB, bridge *l2.Config, router *l3.Config) *routedBed {
	t.Helper()
	env := pipeline.Env{ID: 1, Workers: 1, Ports: routedPorts()}
	chain, err := stages.Build(routedGraph, map[string]any{"l2": bridge, "l3": router}, env)
	if err != nil {
		t.Fatal(err)
	}
	stages.Inline(chain)
	return newRoutedBedOf(t, chain)
}

// newRoutedBedOf is a bed of another graph.
func newRoutedBedOf(t testing.TB, chain []pipeline.Named) *routedBed {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &routedBed{t: t, chain: chain, graph: pipeline.NewGraph(chain, 0), batch: packet.NewBatch(pool.NewCache(), 16*packet.BatchSize), now: int64(time.Hour)}
}

type arrival struct {
	port uint16
	data []byte
}

// run sends a batch through the switch, and returns what leaves, what is dropped among it.
func (s *routedBed) run(packets ...arrival) (out []frame) {
	s.t.Helper()
	b := s.batch
	b.Now = s.now
	for _, x := range packets {
		addr, _ := b.Frames.AllocOne()
		p := b.Append()
		p.Addr, p.Len, p.WireLen, p.InPort = addr+256, uint32(len(x.data)), uint32(len(x.data)), x.port
		copy(b.Data(p), x.data)
	}
	s.graph.Run(b)
	if b.NoRoom+b.NoFrame != 0 {
		s.t.Fatalf("copies were not made: %d, %d", b.NoRoom, b.NoFrame)
	}
	dropped := 0
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			dropped++
		}
		out = append(out, frame{p.OutPort, p.Reason, b.AppendBytes(nil, p)})
		b.Frames.FreePacket(p)
	}
	if dropped != b.Dropped {
		s.t.Fatalf("%d packets have a reason, the batch counts %d", dropped, b.Dropped)
	}
	b.Reset()
	if c := b.Pool().Census(); c.Faults != 0 || c.Free != c.Frames {
		s.t.Fatalf("frames: %+v", c)
	}
	return out
}

// plainSwitch is the same switch, packet by packet, by maps.
type plainSwitch struct {
	domains map[int]string               // of ports
	members map[string][]int             // ascending, without routed interfaces
	routed  map[string]int               // of domains
	fdb     map[string]map[[6]byte]int   // by domain
	vrf     map[int]string               // of interfaces of the router
	hosts   map[string]map[[4]byte]*host // by VRF
	subs    map[[2]uint16]int            // of p1, by outer and inner VLAN
	out     [nPorts][][]byte
	drops   int
}

func newPlainSwitch() *plainSwitch {
	s := &plainSwitch{
		domains: map[int]string{p0: "blue", p1v100: "blue", p1v400i7: "blue", p2: "green", p1v200: "green", p4: "red", p1v300: "red"},
		members: map[string][]int{"blue": {p0, p1v100, p1v400i7}, "green": {p2, p1v200}, "red": {p4, p1v300}},
		routed:  map[string]int{"blue": irbBlue, "green": irbGreen, "red": irbRed},
		fdb:     map[string]map[[6]byte]int{"blue": {}, "green": {}, "red": {}},
		vrf:     map[int]string{irbBlue: "", irbGreen: "", irbRed: "red", p3: "", p1v500: ""},
		hosts:   map[string]map[[4]byte]*host{"": {}, "red": {}},
		subs:    map[[2]uint16]int{{100, 0}: p1v100, {200, 0}: p1v200, {300, 0}: p1v300, {400, 7}: p1v400i7, {500, 0}: p1v500},
	}
	for _, h := range testHosts() {
		s.hosts[s.vrf[h.at]][h.addr] = &h
	}
	for name, irb := range s.routed {
		s.fdb[name][ownMAC(irb)] = irb
	}
	return s
}

// plainPacket is one without the tags of a subinterface, with its priority. to is where the bridge sent it, -1: it is the router's own.
type plainPacket struct {
	in, to int
	prio   uint16
	data   []byte
}

func popTag(data []byte) []byte { return slices.Concat(data[:12], data[16:]) }
func pushTag(data []byte, tpid, tci uint16) []byte {
	return slices.Concat(data[:12], binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), tci), data[12:])
}
func tagAt(data []byte) (tci uint16, ok bool) {
	switch binary.BigEndian.Uint16(data[12:]) {
	case 0x8100, 0x88a8, 0x9100:
		return binary.BigEndian.Uint16(data[14:]), true
	}
	return 0, false
}

// run takes a batch through: all of it through the bridge, and then through the router.
func (s *plainSwitch) run(packets []arrival) {
	var toRouter []plainPacket
	for _, x := range packets {
		toRouter = append(toRouter, s.bridge(int(x.port), bytes.Clone(x.data))...)
	}
	for _, p := range toRouter {
		if p.to >= 0 && !s.isInterface(p.to) {
			s.leave(p.to, p)
			continue
		}
		s.route(p)
	}
}

func (s *plainSwitch) isInterface(port int) bool { _, ok := s.vrf[port]; return ok }

func (s *plainSwitch) bridge(in int, data []byte) (all []plainPacket) {
	prio := uint16(0)
	if tci, ok := tagAt(data); ok && in == p1 {
		inner := uint16(0)
		rest := popTag(data)
		if two, ok := tagAt(rest); ok {
			inner = two & 0xfff
			if sub, ok := s.subs[[2]uint16{tci & 0xfff, inner}]; ok && inner != 0 {
				in, data, prio = sub, popTag(rest), tci&0xf000
			}
		}
		if in == p1 {
			if sub, ok := s.subs[[2]uint16{tci & 0xfff, 0}]; ok {
				in, data, prio = sub, rest, tci&0xf000
			}
		}
	}
	domain, bridged := s.domains[in]
	if !bridged {
		return []plainPacket{{in, -1, prio, data}}
	}
	if tci, ok := tagAt(data); ok {
		if _, two := tagAt(popTag(data)); tci&0xfff != 0 || two {
			s.drops++
			return nil
		}
		data, prio = popTag(data), 0
	}
	dst, src := [6]byte(data[:6]), [6]byte(data[6:12])
	table, irb := s.fdb[domain], s.routed[domain]
	if src[0]&1 == 0 && src != ([6]byte{}) && table[src] != irb {
		table[src] = in
	}
	if out, known := table[dst]; known && dst[0]&1 == 0 {
		if out == in {
			s.drops++
			return nil
		}
		return []plainPacket{{in, out, prio, data}}
	}
	for _, out := range s.members[domain] {
		if out != in {
			all = append(all, plainPacket{in, out, prio, data})
		}
	}
	if dst[0]&1 != 0 {
		all = append(all, plainPacket{in, irb, prio, data})
	}
	return all
}

func (s *plainSwitch) route(p plainPacket) {
	in, data := p.in, p.data
	if p.to >= 0 {
		in = p.to
	}
	vrf, ok := s.vrf[in]
	if _, tagged := tagAt(data); !ok || tagged || [6]byte(data[:6]) != ownMAC(in) || binary.BigEndian.Uint16(data[12:]) != 0x0800 || data[22] <= 1 {
		s.drops++
		return
	}
	to := [4]byte(data[30:34])
	if to[1] == 9 { // by a gateway
		to = [4]byte{10, 2, 0, 10}
		if vrf == "red" {
			to = [4]byte{10, 1, 0, 11}
		}
	}
	h := s.hosts[vrf][to]
	if h == nil {
		s.drops++
		return
	}
	data = bytes.Clone(data)
	own := ownMAC(h.at)
	copy(data, slices.Concat(h.mac[:], own[:]))
	data[22]--
	data[24], data[25] = 0, 0
	binary.BigEndian.PutUint16(data[24:], header.Checksum(data[14:34]))
	p.data = data
	domain := ""
	for name, irb := range s.routed {
		if irb == h.at {
			domain = name
		}
	}
	if domain == "" {
		s.leave(h.at, p)
		return
	}
	if out, ok := s.fdb[domain][h.mac]; ok {
		s.leave(out, p)
		return
	}
	for _, out := range s.members[domain] {
		s.leave(out, p)
	}
}

// leave sends a packet out by a port, with the tags of a subinterface.
func (s *plainSwitch) leave(port int, p plainPacket) {
	data := p.data
	switch port {
	case p1v100, p1v200, p1v300, p1v500:
		vlan := map[int]uint16{p1v100: 100, p1v200: 200, p1v300: 300, p1v500: 500}[port]
		data, port = pushTag(data, 0x8100, vlan|p.prio), p1
	case p1v400i7:
		data, port = pushTag(pushTag(data, 0x8100, 7|p.prio), 0x88a8, 400), p1
	}
	s.out[port] = append(s.out[port], data)
}

// randomPacket is one of a station, an address of the router or an unknown one, to one of these, by any port and with any tags.
func randomPacket(r *rand.Rand, hosts []host) arrival {
	anyMAC := func() [6]byte {
		switch r.IntN(8) {
		case 0:
			return ownMAC([]int{irbBlue, irbGreen, irbRed, p3, p1v500}[r.IntN(5)])
		case 1:
			return [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		case 2:
			return [6]byte{2, 0xbb, 0, 0, 0, byte(r.IntN(8))}
		}
		return hosts[r.IntN(len(hosts))].mac
	}
	dst, src := anyMAC(), anyMAC()
	if r.IntN(3) != 0 {
		dst = ownMAC([]int{irbBlue, irbGreen, irbRed, p3, p1v500}[r.IntN(5)])
	}
	data := slices.Concat(dst[:], src[:])
	if r.IntN(8) == 0 {
		data = append(data, 0x88, 0xb5)
		for len(data) < 60 {
			data = append(data, byte(r.Uint32()))
		}
	} else {
		data = append(data, 0x08, 0x00)
		to, from := hosts[r.IntN(len(hosts))].addr, hosts[r.IntN(len(hosts))].addr
		switch r.IntN(6) {
		case 0:
			to[1] = 9
		case 1:
			to[0] = 11 // nowhere
		}
		var ip header.IPv4
		ip.Init(from, to, header.ProtoUDP, uint8(r.IntN(4)*20), 0, uint16(r.Uint32()), header.IPv4Len+26)
		data = append(data, ip[:]...)
		data = append(data, make([]byte, 26)...)
		binary.BigEndian.PutUint16(data[34:], uint16(r.Uint32()))
		binary.BigEndian.PutUint16(data[38:], 26)
	}
	if r.IntN(4) != 0 { // a station of its domain, to the router or to another one
		h := hosts[r.IntN(len(hosts))]
		to := ownMAC(h.at)
		if r.IntN(3) == 0 {
			to = dst
		}
		copy(data, slices.Concat(to[:], h.mac[:]))
		if data[22] <= 1 && r.IntN(4) != 0 && binary.BigEndian.Uint16(data[12:]) == 0x0800 {
			data[22], data[24], data[25] = 9, 0, 0
			binary.BigEndian.PutUint16(data[24:], header.Checksum(data[14:34]))
		}
		ways := map[int][]arrival{
			irbBlue:  {{p0, nil}, {p1, []byte{100}}, {p1, []byte{7, 144}}},
			irbGreen: {{p2, nil}, {p1, []byte{200}}}, irbRed: {{p4, nil}, {p1, []byte{44}}},
			p3: {{p3, nil}}, p1v500: {{p1, []byte{244}}},
		}[h.at]
		way := ways[r.IntN(len(ways))]
		for _, low := range way.data {
			vlan := map[byte]uint16{100: 100, 7: 7, 144: 400, 200: 200, 44: 300, 244: 500}[low]
			data = pushTag(data, 0x8100, vlan|uint16(r.IntN(8))<<13)
		}
		return arrival{way.port, data}
	}
	port := uint16(r.IntN(p4 + 1))
	tags := 0
	if port == p1 || r.IntN(10) == 0 {
		tags = r.IntN(3)
	}
	for range tags {
		vlan := []uint16{0, 7, 100, 200, 300, 400, 500, 600}[r.IntN(8)]
		data = pushTag(data, []uint16{0x8100, 0x88a8}[r.IntN(2)], vlan|uint16(r.IntN(8))<<13)
	}
	return arrival{port, data}
}

// TestBridgeAndRouterTwin: the stages send the same packets by the same ports, in the same order, as the plain switch.
func TestBridgeAndRouterTwin(t *testing.T) {
	packets := 1_000_000
	if testing.Short() {
		packets = 50_000
	}
	s, plain := newRoutedBed(t, bridgeConfig(), routerConfig()), newPlainSwitch()
	hosts := testHosts()
	r := rand.New(rand.NewPCG(1, 2))
	sent := 0
	for n := 0; n < packets; {
		batch := make([]arrival, 1+r.IntN(packet.BatchSize))
		for i := range batch {
			batch[i] = randomPacket(r, hosts)
		}
		n += len(batch)
		plain.out = [nPorts][][]byte{}
		plain.run(batch)
		var got [nPorts][][]byte
		for _, f := range s.run(batch...) {
			if f.reason == 0 {
				if int(f.port) > p4 {
					t.Fatalf("a packet leaves by %d: %x", f.port, f.data)
				}
				got[f.port] = append(got[f.port], f.data)
				sent++
			}
		}
		for port := range got {
			for i := range max(len(got[port]), len(plain.out[port])) {
				if i >= len(got[port]) || i >= len(plain.out[port]) || !bytes.Equal(got[port][i], plain.out[port][i]) {
					t.Fatalf("behind %d packets, port %s, packet %d of %d and %d:\n%x, want\n%x", n, portNames[port], i, len(got[port]), len(plain.out[port]),
						slices.Concat(got[port][min(i, len(got[port])):]...), slices.Concat(plain.out[port][min(i, len(plain.out[port])):]...))
				}
			}
		}
	}
	if sent < packets/3 || plain.drops < packets/50 {
		t.Errorf("only %d packets left and %d were dropped of %d", sent, plain.drops, packets)
	}
}

// TestBridgeAndRouterReload: a domain comes between two others, and stations stay where they were learned; ports go from the bridge to the router.
func TestBridgeAndRouterReload(t *testing.T) {
	s := newRoutedBed(t, bridgeConfig(), routerConfig())
	hosts := testHosts()
	green := hosts[3]
	learn := slices.Concat([]byte{2, 0, 0, 0, 9, 9}, green.mac[:], []byte{0x88, 0xb5}, make([]byte, 46))
	s.run(arrival{p2, learn})
	own := ownMAC(irbGreen)
	to := slices.Concat(green.mac[:], []byte{2, 0, 0, 0, 9, 8, 0x88, 0xb5}, make([]byte, 46))
	tagged := pushTag(to, 0x8100, 200)
	bridge, router := bridgeConfig(), routerConfig()
	bridge.Domains = slices.Insert(bridge.Domains, 0, l2.Domain{Name: "new", Ports: []string{"p3"}})
	router.Interfaces = slices.DeleteFunc(router.Interfaces, func(i l3.Interface) bool { return i.Port == "p3" })
	router.Neighbours = slices.DeleteFunc(router.Neighbours, func(n l3.Neighbour) bool { return n.Port == "p3" })
	for name, config := range map[string]any{"l2": bridge, "l3": router} {
		for _, n := range s.chain {
			if n.Name != name {
				continue
			}
			commit, err := stages.Kinds[name].Prepare(n.Module, config, routedPorts())
			if err != nil {
				t.Fatal(err)
			}
			commit()
		}
	}
	if out := s.run(arrival{p1, tagged}); len(out) != 1 || out[0].port != p2 || out[0].reason != 0 {
		t.Errorf("the station of green is not known any more: %v", out)
	}
	if out := s.run(arrival{p3, learn}); len(out) != 1 || out[0].reason.String() != "no_member" {
		t.Errorf("p3 is alone in its domain: %v", out)
	}
	probe := slices.Concat(own[:], green.mac[:], []byte{0x88, 0xb5}, make([]byte, 46))
	if out := s.run(arrival{p2, probe}); len(out) != 1 || out[0].reason.String() != "not_routed" {
		t.Errorf("the router has what is to its address in green: %v", out)
	}
}

// TestBridgeAndRouterARP: who asks for the router's address in a domain gets an answer there, and the domain's other stations hear the
// question; an unknown station is asked for in its domain alone.
func TestBridgeAndRouterARP(t *testing.T) {
	c := routerConfig()
	c.Neighbours, c.Routes, c.ICMPRate = nil, nil, 1000
	s := newRoutedBed(t, bridgeConfig(), c)
	h := testHosts()[0]
	ask := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, h.mac[:], []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, h.mac[:], h.addr[:], make([]byte, 6), []byte{10, 1, 0, 1}, make([]byte, 18))
	heard := map[uint16]int{}
	for _, f := range s.run(arrival{p0, ask}) {
		if f.reason == 0 {
			heard[f.port]++
		}
		if f.reason == 0 && f.port == p0 {
			own := ownMAC(irbBlue)
			if !bytes.Equal(f.data[:12], slices.Concat(h.mac[:], own[:])) || f.data[21] != 2 {
				t.Errorf("no answer: %x", f.data)
			}
		}
	}
	if heard[p0] != 1 || heard[p1] != 2 || len(heard) != 2 {
		t.Errorf("packets by port: %v", heard)
	}
	own := ownMAC(irbBlue)
	var ip header.IPv4
	ip.Init(h.addr, [4]byte{10, 2, 0, 77}, header.ProtoUDP, 64, 0, 1, header.IPv4Len+26)
	data := slices.Concat(own[:], h.mac[:], []byte{8, 0}, ip[:], make([]byte, 26))
	heard = map[uint16]int{}
	for _, f := range s.run(arrival{p0, data}) {
		if f.reason == 0 {
			heard[f.port]++
		}
	}
	if heard[p2] != 1 || heard[p1] != 1 || len(heard) != 2 {
		t.Errorf("the question for a station of green: %v", heard)
	}
	// A hop too many: the error comes from the router's address in the sender's domain.
	ip.Init(h.addr, [4]byte{10, 2, 0, 77}, header.ProtoUDP, 1, 0, 1, header.IPv4Len+26)
	data = slices.Concat(own[:], h.mac[:], []byte{8, 0}, ip[:], make([]byte, 26))
	answers := 0
	for _, f := range s.run(arrival{p0, data}) {
		if f.reason == 0 && f.port == p0 && bytes.Equal(f.data[26:30], []byte{10, 1, 0, 1}) && f.data[34] == header.ICMPTimeExceeded {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("%d time exceeded", answers)
	}
}

// TestBridgeAndRouterGraph: what cannot be is refused in one sentence.
func TestBridgeAndRouterGraph(t *testing.T) {
	for _, c := range []struct {
		graph []string
		want  string
	}{
		{[]string{"parse", "l2", "l3"}, `what is routed to a bridge domain would go nowhere: add "irb" behind "l3"`},
		{[]string{"parse", "l3", "l2"}, "the graph has 2 forwarding stages"},
		{[]string{"parse", "l2", "irb"}, `stage "irb" is not behind "l3"`},
		{[]string{"parse", "l3", "irb"}, `has no bridge: add "l2" in front of "l3"`},
		{[]string{"parse", "vlan", "l2"}, `add "tag" behind the forwarding stages`},
		{[]string{"parse", "l2", "tag"}, `add "vlan" behind "parse"`},
		{[]string{"parse", "patch", "l3"}, "the graph has 2 forwarding stages"},
	} {
		_, err := stages.Build(c.graph, nil, pipeline.Env{ID: 1, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.graph, err, c.want)
		}
	}
}
