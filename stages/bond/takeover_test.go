package bond

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/bond/lacp"
)

// rest is what a bed's module says while its worker rests.
func (x *bed) rest() []byte {
	x.t.Helper()
	text, err := x.m.AppendRest(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return text
}

// successor is a bed that goes on where another one rests, as another process whose ports have other numbers: the members are in another order, and in front of them
// is a port more.
func (x *bed) successor(b pipeline.Bond) *bed {
	x.t.Helper()
	y := newBed(x.t, b)
	y.now = x.now
	old := x.ports
	y.ports = []pipeline.Port{old[plain], {}, old[eth3], old[eth1], {}, old[eth2], old[bond0]}
	for i := range y.ports {
		if y.ports[i].Member != "" {
			y.ports[i].Of = successors[bond0]
		}
	}
	if p := y.ports[6].Bond.Primary; p != 0 {
		y.ports[6].Bond.Primary = successors[p-1] + 1
	}
	y.m.FollowPorts(y.ports)
	y.batch.Depth = make([]uint32, len(y.ports))
	y.sent = map[uint16][][]byte{}
	return y
}

// successors are the numbers of ports in the process that goes on, by those before.
var successors = [...]uint16{plain: 0, eth1: 3, eth2: 5, eth3: 2, bond0: 6}

func (x *bed) enter(text []byte) {
	x.t.Helper()
	if err := x.m.Enter(text); err != nil {
		x.t.Fatalf("%v: %.300s", err, text)
	}
	x.m.Begin()
}

// ways are by which member each of some flows leaves, in the numbers of the first process.
func (x *bed) ways(flows int) (all []int) {
	x.t.Helper()
	for flow := range flows {
		b := x.one(plain, int(x.bondNumber()), flow)
		x.out.Process(x.batch)
		all = append(all, x.first(b.OutPort))
		x.free()
	}
	return all
}

func (x *bed) bondNumber() uint16 { return x.m.groups[0].number }

// first is the number that a port has in the first process.
func (x *bed) first(port uint16) int {
	if x.bondNumber() == bond0 {
		return int(port)
	}
	return slices.Index(successors[:], port)
}

// TestHandOverBuckets: the process that goes on has each flow leave by the member by which it left before, also those that are about to move, which move there.
func TestHandOverBuckets(t *testing.T) {
	settings := pipeline.Bond{Mode: pipeline.BalanceXOR}
	x := newBed(t, settings)
	const flows = 2000
	x.setDown(eth2, true)
	x.ways(flows)
	x.setDown(eth2, false) // its share of the buckets comes back once they pause
	x.m.distribute.Store(&Distribute{stages: []*distributor{x.out}})
	before := x.ways(flows)
	if slices.Contains(before, eth2) {
		t.Fatal("flows without a pause have moved")
	}
	y := x.successor(settings)
	y.enter(x.rest())
	if after := y.ways(flows); !slices.Equal(after, before) {
		t.Error("flows leave by another member behind the takeover")
	}
	for range 3 {
		x.now, y.now = x.now.Add(2*time.Millisecond), y.now.Add(2*time.Millisecond)
		before = x.ways(flows)
	}
	y.ways(flows)
	if after := y.ways(flows); !slices.Equal(after, before) || !slices.Contains(before, eth2) {
		t.Error("flows that move leave by other members than they would have")
	}
}

// TestHandOverActive: the process that goes on has the active member that was active, which is not the one that it would have chosen, takes what is on its way to
// the former one for the rest of the time, and sends what waited to be sent.
func TestHandOverActive(t *testing.T) {
	settings := pipeline.Bond{Mode: pipeline.ActiveBackup, Primary: eth2 + 1}
	x := newBed(t, settings)
	x.setDown(eth2, true)
	x.setDown(eth1, true)
	x.setDown(eth1, false)
	if got := x.ways(1); got[0] != eth3 {
		t.Fatalf("active is %d", got[0])
	}
	x.pass(time.Second)
	x.setDown(eth2, false) // the primary is active, eth3 was
	frame := append([]byte("frame"), make([]byte, 60)...)
	x.m.sending = []originated{{eth2, [][]byte{frame}}}
	x.now = x.now.Add(formerTime / 2)
	y := x.successor(settings)
	changes := x.m.groups[0].changes
	y.enter(x.rest())
	if got := y.ways(1); got[0] != eth2 || y.m.groups[0].changes != changes {
		t.Errorf("active is %d, after %d changes of %d", got[0], y.m.groups[0].changes, changes)
	}
	for _, c := range []struct {
		port  int
		flags packet.Flags
		why   packet.Reason
	}{{eth2, packet.FlagMulticast, 0}, {eth3, 0, 0}, {eth3, packet.FlagMulticast, ReasonInactive}, {eth1, 0, ReasonInactive}} {
		if _, why := y.arrives(int(successors[c.port]), c.flags); why != c.why {
			t.Errorf("a packet at port %d: %v", c.port, why)
		}
	}
	y.pass(time.Millisecond)
	if sent := y.sent[successors[eth2]]; len(sent) != 1 || string(sent[0]) != string(frame) {
		t.Errorf("sent %q", sent)
	}
	y.pass(formerTime / 2)
	if _, why := y.arrives(int(successors[eth3]), 0); why != ReasonInactive {
		t.Errorf("the former member takes packets once its time is over: %v", why)
	}
	// Of both processes the first one says nothing more.
	x.m.Left()
	x.sent = map[uint16][][]byte{}
	x.pass(time.Minute)
	if len(x.sent) != 0 {
		t.Errorf("the process that was left sends %v", x.sent)
	}
}

// TestHandOverLACP: LACP is handed over again and again, with PDUs that workers have received and LACP has not looked at yet. Its partner sees the same system with the same
// ports and keys, and never loses it; what it is sent has the numbers of the first process. Another bond that comes has others.
func TestHandOverLACP(t *testing.T) {
	settings := pipeline.Bond{Mode: pipeline.LACP, Fast: true, SystemPriority: 0xffff}
	x := newBed(t, settings)
	partner := &lacp.Aggregator{System: lacp.System{Priority: 1, MAC: [6]byte{2, 9}}, Key: 5, Fast: true}
	for i := range 3 {
		partner.Add(uint16(i+1)).SetUp(true, x.now)
	}
	at := [...]int{eth1, eth2, eth3}
	exchange := func(x *bed) {
		for i, port := range at {
			number := uint16(port)
			if x.bondNumber() != bond0 {
				number = successors[port]
			}
			for _, frame := range x.sent[number] {
				partner.Ports[i].Receive(frame[14:], x.now)
			}
			delete(x.sent, number)
		}
		for i, out := range partner.Step(x.now) {
			if out == nil {
				continue
			}
			number := uint16(at[i])
			if x.bondNumber() != bond0 {
				number = successors[at[i]]
			}
			slot := x.m.workers[0].pdus.Ahead(0)
			slot.port, slot.bytes = number, [lacp.Length]byte(out)
			x.m.workers[0].pdus.Commit(1)
		}
	}
	run := func(x *bed, d time.Duration) {
		for end := x.now.Add(d); x.now.Before(end); {
			x.pass(100 * time.Millisecond)
			exchange(x)
		}
	}
	run(x, 8*time.Second)
	identity := func() (all []string) {
		for _, p := range partner.Ports {
			all = append(all, fmt.Sprint(p.Partner, p.Actor.State, p.Mux, p.Changes, p.Joined, p.Left))
		}
		return all
	}
	before := identity()
	if !strings.Contains(before[2], "distributing") || partner.Ports[0].Mux != lacp.MuxDistributing {
		t.Fatalf("the partner has %v", before)
	}
	own := func(x *bed) string { return fmt.Sprint(x.m.Links()[0].System, x.m.groups[0].lacp.Key) }
	mine := own(x)
	y := x.successor(settings)
	y.m.clock = func() time.Time { return y.now }
	y.enter(x.rest())
	for range 20 {
		run(y, 700*time.Millisecond)
		if now := identity(); !slices.Equal(now, before) {
			t.Fatalf("the partner has %v, and had %v", now, before)
		}
		if own(y) != mine {
			t.Fatalf("the system is %s, and was %s", own(y), mine)
		}
		z := x.successor(settings) // with the same numbers as y
		z.now = y.now
		z.enter(y.rest())
		y = z
	}
	y.rest()
	for i, port := range at {
		mine := y.m.groups[0].members[slices.IndexFunc(y.m.groups[0].members, func(m *member) bool { return m.port == successors[port] })].lacp
		if mine.Received != partner.Ports[i].Sent || mine.Sent != partner.Ports[i].Received || mine.Received < 20 {
			t.Errorf("port %d: %d of %d LACPDUs received, %d of %d sent", port, mine.Received, partner.Ports[i].Sent, partner.Ports[i].Received, mine.Sent)
		}
	}
	// A bond comes that would have the key of the one that is there, with a member that would have the number of one.
	more := slices.Clone(y.ports)
	more[1] = pipeline.Port{Member: "eth4", Of: 4, MAC: [6]byte{2, 0, 0, 0, 0, 4}}
	more[4] = pipeline.Port{Name: "bond1", Bond: more[successors[bond0]].Bond, MAC: more[1].MAC}
	y.m.FollowPorts(more)
	keys, numbers := map[uint16]bool{}, map[uint16]bool{}
	for _, g := range y.m.groups {
		if keys[g.lacp.Key] {
			t.Errorf("two bonds have the key %d", g.lacp.Key)
		}
		keys[g.lacp.Key] = true
		for _, p := range g.lacp.Ports {
			if numbers[p.Actor.Port] {
				t.Errorf("two ports have the number %d", p.Actor.Port)
			}
			numbers[p.Actor.Port] = true
		}
	}
	if len(keys) != 2 || len(numbers) != 4 {
		t.Errorf("keys %v, ports %v", keys, numbers)
	}
}

// TestHandOverRefused: a state that is not one of these bonds, or of none at all, is refused with a sentence.
func TestHandOverRefused(t *testing.T) {
	settings := pipeline.Bond{Mode: pipeline.LACP, SystemPriority: 0xffff}
	x := newBed(t, settings)
	x.pass(time.Second)
	good := x.rest()
	for _, c := range []struct {
		want string
		do   func(*state)
	}{
		{"", func(*state) {}},
		{"0 bonds there, and 1 here", func(s *state) { s.Bonds = nil }},
		{"nothing came of the bond", func(s *state) { s.Bonds[0].Name = "bond7" }},
		{`mode is "balance-xor" there, and "lacp" here`, func(s *state) { s.Bonds[0].Mode = "balance-xor" }},
		{"2 members there, and 3 here", func(s *state) { s.Bonds[0].Members = s.Bonds[0].Members[1:] }},
		{`"eth1" is no member of it here, or came twice`, func(s *state) { s.Bonds[0].Members[1].Name = "eth1" }},
		{`"eth9" is no member of it here`, func(s *state) { s.Bonds[0].Members[1].Name = "eth9" }},
		{`"eth0" or "" is no member`, func(s *state) { s.Bonds[0].Active = "eth0" }},
		{"active member came of a bond that uses all", func(s *state) { s.Bonds[0].Active = "eth1" }},
		{"former member come for", func(s *state) { s.Bonds[0].Until = time.Hour }},
		{"LACP speaks there alone, or here", func(s *state) { s.Bonds[0].LACP = nil }},
		{"LACP has 2 ports there, and 3 here", func(s *state) { s.Bonds[0].LACP.Ports = s.Bonds[0].LACP.Ports[1:] }},
		{"system priority is 1 there", func(s *state) { s.Bonds[0].LACP.System.Priority = 1 }},
		{"states 9 and 0", func(s *state) { s.Bonds[0].LACP.Ports[0].Rx = 9 }},
		{"2 workers send by it there, and 1 here", func(s *state) { s.Bonds[0].Workers = append(s.Bonds[0].Workers, nil) }},
		{"3 buckets came, and not 1024", func(s *state) { s.Bonds[0].Targets = s.Bonds[0].Targets[:3] }},
		{"bucket 5 is member 3's, of 3", func(s *state) { s.Bonds[0].Workers[0][5] = 3 }},
		{"a frame of 3 bytes", func(s *state) { s.Frames = []frameState{{"eth1", [][]byte{{1, 2, 3}}}} }},
		{"frames wait for port eth1, and", func(s *state) { s.Frames = []frameState{{"eth1", make([][]byte, maxFrames+1)}} }},
	} {
		var s state
		if err := json.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		c.do(&s)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		err = newBed(t, settings).m.Enter(text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, and not %q", err, c.want)
		}
	}
	for _, text := range []string{"", "null", "[]", "{\"bonds\":[{\"targets\":7}]}"} {
		if err := newBed(t, settings).m.Enter([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if err := x.m.Take(nil, []*os.File{os.NewFile(1<<30, "none")}); err == nil {
		t.Error("a file is taken")
	}
}

// FuzzEnter: whatever another process says is refused, or makes bonds that work: packets leave by members that have a link, or are dropped.
func FuzzEnter(f *testing.F) {
	modes := []pipeline.Bond{{Mode: pipeline.LACP, Fast: true, SystemPriority: 0xffff}, {Mode: pipeline.BalanceXOR}, {Mode: pipeline.ActiveBackup}}
	for i, settings := range modes {
		text := newBed(f, settings).rest()
		f.Add(i, text)
		random := rand.New(rand.NewPCG(1, uint64(i)))
		for range 20 {
			bad := slices.Clone(text)
			bad[random.IntN(len(bad))] = byte('0' + random.IntN(75))
			f.Add(i, bad)
		}
	}
	f.Fuzz(func(t *testing.T, mode int, text []byte) {
		x := newBed(t, modes[uint(mode)%uint(len(modes))])
		if x.m.Enter(text) != nil {
			return
		}
		x.ports = slices.Clone(x.ports)
		x.ports[eth2].Down = true
		x.m.FollowPorts(x.ports)
		for flow := range 200 {
			if port, why := x.member(flow); why == 0 && port != eth1 && port != eth3 {
				t.Fatalf("flow %d leaves by port %d", flow, port)
			}
			x.arrives(flow%5, 0)
			x.pass(50 * time.Millisecond)
		}
		if _, err := x.m.AppendRest(nil); err != nil {
			t.Fatal(err)
		}
	})
}
