package l2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// twin is the bridge again, slow and plain: it reads the configuration's own
// words and handles packets as byte slices, with maps.
type twin struct {
	config  Config
	ports   []string
	table   map[twinKey]twinEntry
	dropped map[packet.Reason]int
}

type twinKey struct {
	vlan int
	mac  MAC
}

type twinEntry struct {
	port   int
	second int64
	static bool
}

// sent is a packet on its way out.
type sent struct {
	port int
	data []byte
}

func newTwin(c Config, ports []string) *twin {
	w := &twin{config: c, ports: ports, table: map[twinKey]twinEntry{}, dropped: map[packet.Reason]int{}}
	for _, s := range c.Static {
		var f faults
		mac, _ := station("", s.MAC, &f)
		w.table[twinKey{s.VLAN, mac}] = twinEntry{port: slices.Index(ports, s.Port), static: true}
	}
	return w
}

func (w *twin) setting(port int) *Port {
	for i := range w.config.Ports {
		if w.config.Ports[i].Port == w.ports[port] {
			return &w.config.Ports[i]
		}
	}
	return nil
}

// untagged returns the VLAN of untagged packets on a port, -1 for none.
func (w *twin) untagged(port int) int {
	switch s := w.setting(port); {
	case s == nil:
		return 0
	case s.Access != 0:
		return s.Access
	case s.Native != 0:
		return s.Native
	}
	return -1
}

func (w *twin) carries(port, vlan int) bool {
	s := w.setting(port)
	return s == nil || vlan == w.untagged(port) || slices.Contains(s.Trunk, vlan)
}

// outerTag returns the outer tag's TCI.
func outerTag(data []byte) (tci int, ok bool) {
	tpid := binary.BigEndian.Uint16(data[12:])
	if tpid != 0x8100 && tpid != 0x88a8 && tpid != 0x9100 || len(data) < 18 {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(data[14:])), true
}

// refused reports whether a packet has a tag that an access port does not take.
func refused(data []byte) bool {
	tci, ok := outerTag(data)
	if !ok {
		return false
	}
	_, second := outerTag(slices.Concat(data[:12], data[16:]))
	return tci%4096 != 0 || second
}

// granule is the seconds that stamps count in: the largest power of two within a 64th of the ageing time, at least 1.
func (w *twin) granule() int64 {
	g := int64(1)
	for 2*g*64 <= int64(w.config.Ageing/time.Second) {
		g *= 2
	}
	return g
}

func (w *twin) age(second int64) {
	for k, e := range w.table {
		if !e.static && second-e.second > int64(w.config.Ageing/time.Second)+w.granule()-1 {
			delete(w.table, k)
		}
	}
}

// receive returns what the bridge sends for a packet.
func (w *twin) receive(in int, data []byte, second int64) []sent {
	vlan := w.untagged(in)
	if tci, ok := outerTag(data); ok && tci%4096 != 0 {
		vlan = tci % 4096
	}
	if s := w.setting(in); s != nil && s.Access != 0 && !s.AcceptTagged && refused(data) {
		w.dropped[reasonTagged]++
		return nil
	}
	if vlan < 0 || !w.carries(in, vlan) {
		w.dropped[ReasonVLANFiltered]++
		return nil
	}
	dst, src := MAC(data[:6]), MAC(data[6:12])
	w.learn(twinKey{vlan, src}, in, second)
	if bytes.HasPrefix(data, []byte{1, 0x80, 0xc2, 0, 0}) && dst[5] < 16 && !w.config.ForwardLinkLocal {
		w.dropped[reasonLinkLocal]++
		return nil
	}
	if e, ok := w.table[twinKey{vlan, dst}]; ok {
		if e.port == in {
			w.dropped[reasonSamePort]++
			return nil
		}
		return []sent{{e.port, w.tagged(data, e.port, vlan)}}
	}
	var out []sent
	for port := range w.ports {
		if port != in && w.carries(port, vlan) {
			out = append(out, sent{port, w.tagged(data, port, vlan)})
		}
	}
	if out == nil {
		w.dropped[reasonNoMember]++
	}
	return out
}

func (w *twin) learn(k twinKey, port int, second int64) {
	if k.mac[0]%2 == 1 || k.mac == (MAC{}) {
		return
	}
	old := w.table[k]
	if old.static {
		return
	}
	w.table[k] = twinEntry{port: port, second: second / w.granule() * w.granule()}
}

// tagged returns the packet as it leaves a port.
func (w *twin) tagged(data []byte, port, vlan int) []byte {
	tci, tagged := outerTag(data)
	addresses, rest := data[:12], data[12:]
	tag := []byte{0x81, 0x00, byte(vlan >> 8), byte(vlan)}
	switch {
	case vlan == 0: // between transparent ports: as it is
		return data
	case tagged && vlan == w.untagged(port):
		return slices.Concat(addresses, rest[4:])
	case tagged && tci%4096 == 0:
		tag[2] |= byte(tci >> 8)
		return slices.Concat(addresses, rest[:2], tag[2:], rest[4:])
	case !tagged && vlan != w.untagged(port):
		return slices.Concat(addresses, tag, rest)
	}
	return data
}

// TestTwin runs random bridges and packets through the stage and through its
// twin and compares what leaves each port, in order, byte by byte.
func TestTwin(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	reached := map[packet.Reason]int{}
	defer func(is bool) { wide = is }(wide)
	vectors := wide
	for seed := range rounds {
		wide = vectors && seed%2 == 0
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		c, ports := randomBridge(rng)
		if err := c.Validate(ports); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for r, n := range runTwin(t, rng, c, ports, fmt.Sprintf("seed %d", seed)) {
			reached[r] += n
		}
		if t.Failed() {
			return
		}
	}
	for _, r := range []packet.Reason{ReasonVLANFiltered, reasonTagged, reasonSamePort, reasonNoMember, reasonLinkLocal} {
		if reached[r] == 0 {
			t.Errorf("no packet was dropped as %s: the test does not test what it should", r)
		}
	}
}

func runTwin(t *testing.T, rng *rand.Rand, c Config, ports []string, name string) map[packet.Reason]int {
	m := newModule(t, c, ports...)
	m.Inline()
	s := m.Stage(0).(*stage)
	w := newTwin(c, ports)
	b := newBatch(t, packet.BatchSize*len(ports))
	dropped := map[packet.Reason]int{}
	now := int64(1_000_000_000_000)
	for round := range 30 {
		now += rng.Int64N(int64(c.Ageing / 2))
		b.Now = now
		w.age(now / 1e9)
		var want []sent
		n := 1 + rng.IntN(packet.BatchSize)
		for range n {
			data, in := randomPacket(rng), rng.IntN(len(ports))
			p := addPacket(t, b, uint16(in), data)
			p.ID = rng.Uint64()
			if rng.IntN(2) == 0 {
				p.Flags |= packet.FlagL4
				p.L4, p.Payload = p.L3+20, p.L3+28
			}
			if rng.IntN(20) == 0 {
				b.Drop(p, packet.ReasonNoPort) // an earlier stage's
				continue
			}
			want = append(want, w.receive(in, data, now/1e9)...)
		}
		s.Process(b)
		compareSent(t, b, len(ports), want, fmt.Sprintf("%s round %d", name, round))
		for i := range b.Pkts {
			if r := b.Pkts[i].Reason; r != 0 && r != packet.ReasonNoPort {
				dropped[r]++
			}
		}
		if len(b.Pkts) != n+b.Copied {
			t.Fatalf("%s round %d: %d packets of %d and %d copies", name, round, len(b.Pkts), n, b.Copied)
		}
		release(b)
		if rng.IntN(20) == 0 {
			port := rng.IntN(len(ports))
			m.FlushPort(uint16(port))
			for k, e := range w.table {
				if e.port == port && !e.static {
					delete(w.table, k)
				}
			}
		}
		compareTables(t, m, w, now, name)
		if t.Failed() {
			return nil
		}
	}
	for r, n := range w.dropped {
		if dropped[r] != n {
			t.Errorf("%s: %d packets dropped as %s, want %d", name, dropped[r], r, n)
		}
	}
	if census := b.Pool().Census(); census.Free != testFrames || census.Faults != 0 {
		t.Errorf("%s: frames at the end %+v, want all free", name, census)
	}
	return dropped
}

// compareSent compares what leaves each port, and checks that the metadata say
// what a parser would find in the bytes.
func compareSent(t *testing.T, b *packet.Batch, ports int, want []sent, name string) {
	t.Helper()
	got := make([][][]byte, ports)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		got[p.OutPort] = append(got[p.OutPort], b.AppendBytes(nil, p))
		again := *p
		again.Flags = 0
		setTags(b, &again)
		const tags = packet.FlagVLAN | packet.FlagQinQ
		if p.Flags&tags != again.Flags&tags || p.VLAN != again.VLAN || p.L3 != again.L3 || p.EtherType != again.EtherType || p.WireLen != p.Len {
			t.Errorf("%s: metadata %+v, the parser would say %+v", name, *p, again)
		}
		if p.Flags.Has(packet.FlagL4) && (p.L4 != p.L3+20 || p.Payload != p.L3+28) {
			t.Errorf("%s: L3 %d, L4 %d, payload %d", name, p.L3, p.L4, p.Payload)
		}
	}
	for port := range ports {
		var wanted [][]byte
		for _, s := range want {
			if s.port == port {
				wanted = append(wanted, s.data)
			}
		}
		if !slices.EqualFunc(got[port], wanted, bytes.Equal) {
			t.Errorf("%s: port %d sends %d packets\n% x\nwant %d\n% x", name, port, len(got[port]), got[port], len(wanted), wanted)
		}
	}
}

func compareTables(t *testing.T, m *Module, w *twin, now int64, name string) {
	t.Helper()
	entries := m.Entries(nil, now)
	for _, e := range entries {
		k, ok := w.table[twinKey{int(e.VLAN), e.MAC}]
		age := time.Duration(max(0, now/1e9-k.second-w.granule()+1)) * time.Second
		if k.static {
			age = 0
		}
		if !ok || k.port != int(e.Port) || k.static != e.Static || age != e.Age {
			t.Errorf("%s: entry %+v, want %v %+v aged %v", name, e, ok, k, age)
		}
	}
	if len(entries) != len(w.table) || m.Counters().Entries != uint64(len(w.table)) {
		t.Errorf("%s: %d entries, counter %d, want %d", name, len(entries), m.Counters().Entries, len(w.table))
	}
}

func randomBridge(rng *rand.Rand) (Config, []string) {
	c := Config{
		Ageing:           time.Duration(1+rng.IntN(6)) * time.Second << (rng.IntN(2) * rng.IntN(10)),
		TableSize:        1000, // never full: TestTableTwin is about that
		ForwardLinkLocal: rng.IntN(3) == 0,
	}
	var ports []string
	plain := rng.IntN(4) == 0 // every fourth bridge has no VLANs
	for i := range 1 + rng.IntN(6) {
		name := fmt.Sprintf("p%d", i)
		ports = append(ports, name)
		switch mode := rng.IntN(5); {
		case plain || mode == 0:
			continue
		case mode < 3:
			c.Ports = append(c.Ports, Port{Port: name, Access: 1 + rng.IntN(3), AcceptTagged: rng.IntN(2) == 0})
		default:
			p := Port{Port: name, Native: rng.IntN(4)}
			for _, v := range rng.Perm(4)[:1+rng.IntN(4)] {
				p.Trunk = append(p.Trunk, v+1)
			}
			c.Ports = append(c.Ports, p)
		}
	}
	for i := range rng.IntN(3) {
		s := Static{MAC: stationMAC(i).String(), VLAN: rng.IntN(4), Port: ports[rng.IntN(len(ports))]}
		one := Config{Ageing: c.Ageing, TableSize: 1, Ports: c.Ports, Static: []Static{s}}
		if one.Validate(ports) == nil {
			c.Static = append(c.Static, s)
		}
	}
	return c, ports
}

// randomPacket returns a packet between few stations with zero to three tags.
func randomPacket(rng *rand.Rand) []byte {
	mac := func() MAC {
		switch rng.IntN(40) {
		case 0:
			return MAC{}
		case 1, 2:
			return groupMAC(0xff)
		case 3:
			return MAC{0x33, 0x33, 0, 0, 0, 1}
		case 4:
			return MAC{1, 0x80, 0xc2, 0, 0, byte(rng.IntN(32))}
		}
		return stationMAC(rng.IntN(16))
	}
	tcis := make([]uint16, []int{0, 0, 0, 1, 1, 1, 2, 3}[rng.IntN(8)])
	for i := range tcis {
		tcis[i] = uint16(rng.IntN(6)) | uint16(rng.IntN(16))<<12
		if rng.IntN(20) == 0 {
			tcis[i] |= 4095
		}
	}
	data := ether(mac(), mac(), 0x0800, 60+rng.IntN(40), tcis...)
	if len(tcis) > 0 && rng.IntN(4) == 0 {
		binary.BigEndian.PutUint16(data[12:], []uint16{0x88a8, 0x9100}[rng.IntN(2)])
	}
	binary.BigEndian.PutUint64(data[len(data)-8:], rng.Uint64()) // no two are equal
	return data
}
