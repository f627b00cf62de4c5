package bond

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/bond/lacp"
)

// The ports of the tests: bond0 of eth1, eth2 and eth3.
const (
	plain = iota
	eth1
	eth2
	eth3
	bond0
)

func testPorts(b pipeline.Bond) []pipeline.Port {
	member := func(name string, last byte) pipeline.Port {
		return pipeline.Port{Member: name, Of: bond0, MAC: [6]byte{2, 0, 0, 0, 0, last}}
	}
	if b.MinLinks == 0 {
		b.MinLinks = 1
	}
	return []pipeline.Port{{Name: "eth0"}, member("eth1", 1), member("eth2", 2), member("eth3", 3), {Name: "bond0", Bond: b, MAC: [6]byte{2, 0, 0, 0, 0, 1}}}
}

// bed is both stages of one worker, with a clock, and what they send.
type bed struct {
	t     testing.TB
	m     *Module
	in    *stage
	out   *distributor
	batch *packet.Batch
	ports []pipeline.Port
	now   time.Time
	sent  map[uint16][][]byte
}

func newBed(t testing.TB, b pipeline.Bond) *bed {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	x := &bed{t: t, ports: testPorts(b), now: time.Unix(1000, 0), sent: map[uint16][][]byte{}}
	if x.m, err = New(Config{}, pipeline.Env{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	x.m.clock = func() time.Time { return x.now }
	x.m.SetSend(func(port uint16, frames ...[]byte) int {
		x.sent[port] = append(x.sent[port], frames...)
		return len(frames)
	})
	x.m.FollowPorts(x.ports)
	x.in = x.m.Stage(0).(*stage)
	d := &Distribute{module: x.m}
	x.out = d.Stage(0).(*distributor)
	x.batch = packet.NewBatch(pool.NewCache(), packet.BatchSize)
	x.batch.Depth = make([]uint32, len(x.ports))
	return x
}

func (x *bed) setDown(port int, down bool) {
	x.ports = slices.Clone(x.ports)
	x.ports[port].Down = down
	x.m.FollowPorts(x.ports)
}

func (x *bed) pass(d time.Duration) {
	x.now = x.now.Add(d)
	x.m.step()
}

// one makes a packet of the batch.
func (x *bed) one(in, out, flow int) *packet.Packet {
	b := x.batch
	b.Now = x.now.UnixNano()
	addr, ok := b.Frames.AllocOne()
	if !ok {
		x.t.Fatal("no frame")
	}
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr+256, 124, 124
	p.InPort, p.OutPort, p.FlowHash, p.L3 = uint16(in), uint16(out), uint32(flow)*0x9e3779b1, 14
	clear(b.Data(p))
	return p
}

func (x *bed) free() {
	for i := range x.batch.Pkts {
		x.batch.Frames.FreePacket(&x.batch.Pkts[i])
	}
	x.batch.Reset()
}

// member is the member by which a flow leaves, or why it does not.
func (x *bed) member(flow int) (port uint16, why packet.Reason) {
	p := x.one(plain, bond0, flow)
	x.out.Process(x.batch)
	port, why = p.OutPort, p.Reason
	x.free()
	return port, why
}

// arrives is the port at which a packet arrives, or why it is dropped.
func (x *bed) arrives(port int, flags packet.Flags) (uint16, packet.Reason) {
	p := x.one(port, plain, 0)
	p.Flags = flags
	x.in.Process(x.batch)
	in, why := p.InPort, p.Reason
	x.free()
	return in, why
}

const flows = 4096

func (x *bed) members() (all [flows]uint16) {
	for flow := range all {
		var why packet.Reason
		if all[flow], why = x.member(flow); why != 0 {
			x.t.Fatalf("flow %d: %v", flow, why)
		}
	}
	return all
}

// TestAssign: shares differ by one bucket at most, and buckets move only as far as they must, over random changes.
func TestAssign(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var now assignment
	for i := range now {
		now[i] = packet.NoPort
	}
	for range 500 {
		var members []uint16
		for m := range uint16(16) {
			if random.IntN(3) > 0 {
				members = append(members, m)
			}
		}
		next := assign(&now, members)
		count := map[uint16]int{}
		for i, m := range next {
			count[m]++
			// A bucket leaves a member that stays only for one that has less.
			if before := now[i]; m != before && slices.Contains(members, before) && slices.Contains(now[:], m) && len(members) > 0 {
				had := 0
				for _, x := range now {
					if x == m {
						had++
					}
				}
				if had > buckets/len(members)+1 {
					t.Fatalf("a bucket moved from %d to %d, which had %d", before, m, had)
				}
			}
		}
		for _, m := range members {
			if n := count[m]; n != buckets/len(members) && n != buckets/len(members)+1 {
				t.Fatalf("member %d of %d has %d buckets", m, len(members), n)
			}
		}
		if len(members) == 0 && count[packet.NoPort] != buckets || len(members) != 0 && count[packet.NoPort] != 0 {
			t.Fatalf("%d members, %d buckets have none", len(members), count[packet.NoPort])
		}
		// The same members again: nothing moves.
		if again := assign(&next, members); again != next {
			t.Fatal("buckets moved without a change")
		}
		now = next
	}
}

// TestMemberLost: the flows of a lost member go to the others at once, and no other flow moves.
func TestMemberLost(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.BalanceXOR})
	before := x.members()
	count := map[uint16]int{}
	for _, m := range before {
		count[m]++
	}
	for _, m := range []uint16{eth1, eth2, eth3} {
		if n := count[m]; n < flows/4 || n > flows/2 { // of a third; seeded
			t.Errorf("member %d has %d of %d flows", m, n, flows)
		}
	}
	x.setDown(eth2, true)
	for flow, m := range x.members() {
		if m == eth2 || before[flow] != eth2 && m != before[flow] {
			t.Fatalf("flow %d went from %d to %d", flow, before[flow], m)
		}
	}
	x.setDown(eth1, true)
	x.setDown(eth3, true)
	if port, why := x.member(1); port != bond0 || why != packet.ReasonPortDown {
		t.Errorf("without members a packet leaves by %d, %v", port, why)
	}
	if links := x.m.Links(); len(links) != 1 || links[0].Down != "no member carries packets (eth1, eth2, eth3)" {
		t.Errorf("links are %+v", links)
	}
}

// TestMemberComes: a bucket moves to a member that has come once it pauses for the gap and nothing waits in its former queue, and not before.
func TestMemberComes(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.BalanceXOR})
	x.setDown(eth3, true)
	before := x.members()
	x.setDown(eth3, false)
	for range 5 { // busy flows stay
		x.now = x.now.Add(time.Duration(moveGap) / 2)
		if now := x.members(); now != before {
			t.Fatal("a busy flow moved")
		}
	}
	x.now = x.now.Add(time.Duration(moveGap))
	x.batch.Depth[eth1], x.batch.Depth[eth2] = 1, 1
	if now := x.members(); now != before {
		t.Fatal("a flow moved while its former queue has packets")
	}
	x.batch.Depth[eth1], x.batch.Depth[eth2] = 0, 0
	x.now = x.now.Add(time.Duration(moveGap))
	moved := 0
	for flow, m := range x.members() {
		if m == eth3 {
			moved++
		} else if m != before[flow] {
			t.Fatalf("flow %d went from %d to %d", flow, before[flow], m)
		}
	}
	if moved < flows/4 || moved > flows/2 {
		t.Errorf("%d of %d flows moved", moved, flows)
	}
	if x.out.own[0].pending != 0 {
		t.Errorf("%d buckets are still to move", x.out.own[0].pending)
	}
	// Members that come and go while buckets wait leave the count right.
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		x.setDown(eth1+random.IntN(3), random.IntN(2) == 0)
		x.now = x.now.Add(time.Duration(random.IntN(int(moveGap))))
		if up := slices.ContainsFunc(x.ports[eth1:bond0], func(p pipeline.Port) bool { return !p.Down }); !up {
			continue
		}
		for flow := range 64 {
			if m, why := x.member(flow); why != 0 || x.ports[m].Down {
				t.Fatalf("flow %d leaves by %d, down %v, %v", flow, m, x.ports[m].Down, why)
			}
		}
		pending := 0
		for _, last := range x.out.own[0].last {
			if last != 0 {
				pending++
			}
		}
		if pending != x.out.own[0].pending {
			t.Fatalf("%d buckets wait, counted %d", pending, x.out.own[0].pending)
		}
	}
}

// TestActiveBackup: one member at a time, and what the others receive is dropped, but for what was on its way to the former one.
func TestActiveBackup(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.ActiveBackup, Primary: eth1 + 1})
	want := func(what string, active uint16) {
		t.Helper()
		if m, why := x.member(7); m != active || why != 0 {
			t.Fatalf("%s: leaves by %d, %v, want %d", what, m, why, active)
		}
	}
	want("at the beginning", eth1)
	if in, why := x.arrives(eth1, packet.FlagMulticast); in != bond0 || why != 0 {
		t.Errorf("a broadcast arrives at %d, %v", in, why)
	}
	if in, why := x.arrives(eth2, 0); in != eth2 || why != ReasonInactive {
		t.Errorf("at the backup it arrives at %d, %v", in, why)
	}
	if in, why := x.arrives(plain, 0); in != plain || why != 0 {
		t.Errorf("at another port it arrives at %d, %v", in, why)
	}
	x.setDown(eth1, true)
	want("the primary is lost", eth2)
	if in, why := x.arrives(eth1, packet.FlagMulticast); in != bond0 || why != 0 {
		t.Errorf("what the lost member still had arrives at %d, %v", in, why)
	}
	x.setDown(eth1, false)
	if m, _ := x.member(7); m != eth2 {
		t.Errorf("a busy flow moved to %d", m)
	}
	if in, why := x.arrives(eth2, 0); in != bond0 || why != 0 {
		t.Errorf("what was on its way to the former member arrives at %d, %v", in, why)
	}
	if _, why := x.arrives(eth2, packet.FlagMulticast); why != ReasonInactive {
		t.Errorf("a broadcast that both receive: %v", why)
	}
	x.pass(formerTime)
	want("the primary is back", eth1)
	if _, why := x.arrives(eth2, 0); why != ReasonInactive {
		t.Errorf("behind the former member's time: %v", why)
	}
}

// TestMinLinks: with fewer members than it must have, a bond is down.
func TestMinLinks(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.BalanceXOR, MinLinks: 2})
	x.setDown(eth1, true)
	if _, why := x.member(1); why != 0 {
		t.Errorf("with two members: %v", why)
	}
	x.setDown(eth2, true)
	if _, why := x.member(1); why != packet.ReasonPortDown {
		t.Errorf("with one member: %v", why)
	}
}

// TestHashes: each policy looks at what it is called after.
func TestHashes(t *testing.T) {
	set := func(d []byte, at int, v uint32) { binary.BigEndian.PutUint32(d[at:], v) }
	for _, tc := range []struct {
		hash              pipeline.BondHash
		ports, ips, links bool // whether flows that differ in these spread
	}{{pipeline.HashLayer34, true, true, false}, {pipeline.HashLayer23, false, true, true}, {pipeline.HashLayer2, false, false, true}} {
		x := newBed(t, pipeline.Bond{Mode: pipeline.BalanceXOR, Hash: tc.hash})
		for what, want := range map[string]bool{"ports": tc.ports, "IPv4": tc.ips, "IPv6": tc.ips, "Ethernet": tc.links} {
			seen := map[uint16]bool{}
			for i := range uint32(200) {
				p := x.one(plain, bond0, 0)
				d := x.batch.Data(p)
				p.Flags = packet.FlagIPv4
				switch what {
				case "ports":
					p.FlowHash = i * 77777
				case "IPv4":
					p.FlowHash = i * 77777
					set(d, 14+12, i)
				case "IPv6":
					p.Flags = packet.FlagIPv6
					p.FlowHash = i * 77777
					set(d, 14+8+12, i)
				case "Ethernet":
					set(d, 6, i)
				}
				x.out.Process(x.batch)
				seen[p.OutPort] = true
				x.free()
			}
			if (len(seen) == 3) != want || !want && len(seen) != 1 {
				t.Errorf("%v: flows that differ in %s leave by %d members", tc.hash, what, len(seen))
			}
		}
	}
}

// testFarewell: a bond that goes, or goes with the stage, has its partner stop at once.
func testFarewell(t *testing.T, x *bed, ports map[uint16]*lacp.Port) {
	t.Helper()
	said := func(what string, known bool) {
		t.Helper()
		for _, m := range []uint16{eth1, eth3} {
			if n := len(x.sent[m]); n != 1 {
				t.Fatalf("%s: %d frames at %d", what, n, m)
			}
			pdu, ok := lacp.Decode(x.sent[m][0][14:])
			if !ok || pdu.Actor.State&(lacp.Aggregation|lacp.Synchronization|lacp.Collecting|lacp.Distributing) != 0 || known && pdu.Partner.System != ports[m].Actor.System {
				t.Errorf("%s: %v", what, pdu)
			}
		}
		clear(x.sent)
	}
	with := x.ports
	x.pass(0)
	clear(x.sent)
	x.ports = slices.Clone(with)
	for i := range x.ports {
		p := &x.ports[i]
		p.Name, p.Member, p.Of, p.Bond = p.Device(), "", 0, pipeline.Bond{}
	}
	x.m.FollowPorts(x.ports)
	x.pass(0)
	said("the bond goes", true)
	x.pass(0)
	if len(x.sent) != 0 {
		t.Errorf("a bond that went sends %v", x.sent)
	}
	x.ports = with
	x.m.FollowPorts(x.ports)
	x.m.Leave()
	said("the stage goes, before it has heard of a partner", false)
}

// TestLACP: a bond has the members on which a partner agrees, and PDUs end at the switch, whatever they are.
func TestLACP(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.LACP, SystemPriority: 0x8000, Fast: true})
	partner := &lacp.Aggregator{System: lacp.System{Priority: 1, MAC: [6]byte{2, 9, 9, 9, 9, 9}}, Key: 5}
	ports := map[uint16]*lacp.Port{}
	for _, m := range []uint16{eth1, eth2, eth3} {
		ports[m] = partner.Add(m)
		ports[m].SetUp(true, x.now)
	}
	speak := func(d time.Duration) {
		t.Helper()
		for end := x.now.Add(d); x.now.Before(end); {
			x.pass(50 * time.Millisecond)
			for m, frames := range x.sent {
				for _, f := range frames {
					if [6]byte(f) != lacp.Group || [6]byte(f[6:]) != x.ports[m].MAC || len(f) != 124 {
						t.Fatalf("sent % x", f)
					}
					ports[m].Receive(f[14:], x.now)
				}
			}
			clear(x.sent)
			for i, out := range partner.Step(x.now) {
				if out == nil {
					continue
				}
				if why := x.pdu(eth1+i, out); why != packet.Consumed {
					t.Fatalf("a LACPDU: %v", why)
				}
			}
		}
	}
	if _, why := x.member(1); why != packet.ReasonPortDown {
		t.Errorf("without a partner a packet leaves: %v", why)
	}
	if _, why := x.arrives(eth1, 0); why != ReasonInactive {
		t.Errorf("without a partner a packet arrives: %v", why)
	}
	speak(3 * lacp.AggregateWait)
	seen := map[uint16]bool{}
	for _, m := range x.members() {
		seen[m] = true
	}
	if len(seen) != 3 {
		t.Errorf("packets leave by %v", seen)
	}
	if in, why := x.arrives(eth2, packet.FlagMulticast); in != bond0 || why != 0 {
		t.Errorf("a packet arrives at %d, %v", in, why)
	}
	// The partner's port goes, and says so.
	ports[eth2].Selected = false
	ports[eth2].SetUp(false, x.now)
	speak(lacp.ShortTime + lacp.FastPeriodic)
	for _, m := range x.members() {
		if m == eth2 {
			t.Fatal("a packet leaves by a member whose partner has gone")
		}
	}
	// What is malformed, and what is too much, is counted and changes nothing.
	pdu := (&lacp.PDU{}).Append(nil)
	pdu[3] = 19
	if why := x.pdu(eth1, pdu); why != ReasonMalformed {
		t.Errorf("a malformed LACPDU: %v", why)
	}
	if why := x.pdu(eth1, pdu[:60]); why != ReasonMalformed {
		t.Errorf("a short one: %v", why)
	}
	pdu[3] = 20
	for range ringSize {
		if why := x.pdu(eth3, pdu); why != packet.Consumed {
			t.Fatalf("a LACPDU of a flood: %v", why)
		}
	}
	if why := x.pdu(eth3, pdu); why != ReasonOverflow {
		t.Errorf("a LACPDU beyond the ring: %v", why)
	}
	// A frame of another slow protocol is no LACPDU.
	oam := make([]byte, 60)
	oam[0] = 3
	if why := x.pdu(eth1, oam); why != 0 {
		t.Errorf("OAM: %v", why)
	}
	speak(3 * lacp.AggregateWait)
	testFarewell(t, x, ports)
}

// pdu has a frame of the slow protocols arrive.
func (x *bed) pdu(port int, body []byte) packet.Reason {
	p := x.one(port, plain, 0)
	p.Len = uint32(14 + len(body))
	p.WireLen = p.Len
	p.EtherType, p.Flags = lacp.EtherType, packet.FlagMulticast
	copy(x.batch.Data(p)[14:], body)
	x.in.Process(x.batch)
	why := p.Reason
	x.free()
	return why
}

// announcer announces two stations by the bond and one by its subinterface.
type announcer struct{ pipeline.Module }

func (announcer) Announce(port uint16, send func([]byte)) {
	for i := range 2 {
		frame := make([]byte, 60)
		frame[11], frame[12], frame[13] = byte(i), 0x80, 0x35
		send(frame)
	}
}

// TestAnnouncements: stations are announced by the new member, with the tags of subinterfaces, and not by bonds whose member stays.
func TestAnnouncements(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.ActiveBackup})
	x.m.announcers.Store(&[]pipeline.Announcer{announcer{}})
	x.ports = append(x.ports, pipeline.Port{Name: "bond0.7.8", Parent: bond0, VLAN: 7, Inner: 8, TPID: packet.TypeServiceTag})
	x.m.FollowPorts(x.ports)
	x.pass(0)
	if n := len(x.sent[eth1]); n != 4 || len(x.sent) != 1 {
		t.Fatalf("at the beginning: %v", x.sent)
	}
	want := "00000000000000000000000" + "1" + "88a80007810000088035"
	if got := fmt.Sprintf("%x", x.sent[eth1][3][:22]); got != want {
		t.Errorf("announced with tags: %s, want %s", got, want)
	}
	clear(x.sent)
	x.pass(time.Second)
	if len(x.sent) != 0 {
		t.Errorf("announced without a change: %v", x.sent)
	}
	x.setDown(eth1, true)
	x.pass(0)
	if len(x.sent[eth2]) != 4 || len(x.sent) != 1 {
		t.Errorf("announced by another member: %v", x.sent)
	}
}

// TestNoAllocation: nothing is allocated per batch, in steady state, while buckets move, and as tables change.
func TestNoAllocation(t *testing.T) {
	x := newBed(t, pipeline.Bond{Mode: pipeline.BalanceXOR})
	x.setDown(eth1, true)
	var all []*tables
	x.member(1)
	all = append(all, x.m.tables.Load())
	x.setDown(eth1, false)
	all = append(all, x.m.tables.Load())
	n := 0
	if allocs := testing.AllocsPerRun(200, func() {
		x.m.tables.Store(all[n%2])
		n++
		for flow := range packet.BatchSize {
			p := x.one(eth2, bond0, flow)
			p.OutPort = bond0
		}
		x.in.Process(x.batch)
		x.out.Process(x.batch)
		x.free()
	}); allocs != 0 {
		t.Errorf("%v allocations per batch", allocs)
	}
}

// BenchmarkBond is both stages, for a batch of packets that arrive and leave by a bond, and by other ports of a switch without one.
func BenchmarkBond(b *testing.B) {
	for _, name := range []string{"off", "on"} {
		b.Run(name, func(b *testing.B) {
			x := newBed(&testing.T{}, pipeline.Bond{Mode: pipeline.BalanceXOR})
			in, out := eth2, bond0
			if name == "off" {
				x.m.FollowPorts([]pipeline.Port{{Name: "eth0"}, {Name: "eth1"}})
				in, out = 0, 1
			}
			for flow := range packet.BatchSize {
				x.one(in, out, flow)
			}
			for b.Loop() {
				for i := range x.batch.Pkts {
					x.batch.Pkts[i].InPort, x.batch.Pkts[i].OutPort = uint16(in), uint16(out)
				}
				x.in.Process(x.batch)
				x.out.Process(x.batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*packet.BatchSize), "ns/packet")
		})
	}
}
