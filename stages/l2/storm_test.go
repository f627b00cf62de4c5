package l2

import (
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

const second = int64(1e9)

// stormBatch fills a batch with packets from a port: so many to all, to a group,
// to an unknown station, and to one behind p1.
func stormBatch(t testing.TB, b *packet.Batch, now int64, port uint16, broadcast, multicast, unknown, known int) {
	t.Helper()
	b.Now = now
	for _, kind := range []struct {
		n     int
		to    MAC
		flags packet.Flags
	}{
		{broadcast, MAC{255, 255, 255, 255, 255, 255}, packet.FlagBroadcast},
		{multicast, MAC{1, 0, 0x5e, 0, 0, 1}, 0},
		{unknown, stationMAC(99), 0},
		{known, stationMAC(7), 0},
	} {
		for range kind.n {
			addPacket(t, b, port, ether(kind.to, stationMAC(1), 0x0800, 60)).Flags |= kind.flags
		}
	}
}

// leaves counts what a batch sends, copies included, and what it drops as a storm.
func leaves(b *packet.Batch) (sent, storm int) {
	for i := range b.Pkts {
		switch b.Pkts[i].Reason {
		case 0:
			sent++
		case reasonStorm:
			storm++
		}
	}
	return sent, storm
}

func stormModule(t testing.TB, storms ...Storm) (*Module, *stage) {
	c := DefaultConfig()
	c.StormBroadcast, c.StormMulticast, c.StormUnknown = 0, 0, 0
	c.Storms = storms
	c.Static = []Static{{MAC: stationMAC(7).String(), Port: "p1"}}
	m := newModule(t, c, "p0", "p1")
	return m, m.Stage(0).(*stage)
}

// TestStorm: each kind has a limit of its own, and known stations have none.
func TestStorm(t *testing.T) {
	m, s := stormModule(t, Storm{Port: "p0", Broadcast: 1000, Unknown: 20})
	b := newBatch(t, 128)
	for i, tt := range []struct {
		at                                   int64 // ns behind the beginning
		port                                 uint16
		broadcast, multicast, unknown, known int
		storm                                int
	}{
		{0, 0, 40, 10, 5, 5, 0},
		{0, 0, 60, 0, 0, 0, 0},                    // the burst, a tenth of a second's
		{0, 0, 1, 10, 5, 40, 1},                   // and not one more; of unknown ones ten
		{0, 0, 0, 0, 1, 10, 1},                    // nor of these
		{0, 1, 64, 0, 0, 0, 0},                    // another port
		{10e6 - 1, 0, 10, 0, 1, 0, 2},             // nine more; unknown ones come each 50 ms
		{10e6, 0, 2, 0, 0, 0, 1},                  // the tenth
		{50e6, 0, 0, 0, 2, 0, 1},                  //
		{5 * second, 0, 64, 0, 0, 0, 0},           // full again
		{5 * second, 0, 64, 0, 0, 0, 28},          // and no more than full
		{second, 0, 64, 0, 0, 0, 64},              // a step back empties it
		{second + second/100, 0, 30, 0, 0, 0, 20}, // and does not stop it
		{1e6 * second, 0, 60, 0, 0, 0, 0},         // a step ahead fills it
	} {
		stormBatch(t, b, 100*second+tt.at, tt.port, tt.broadcast, tt.multicast, tt.unknown, tt.known)
		all := len(b.Pkts)
		s.Process(b)
		sent, storm := leaves(b)
		if storm != tt.storm || sent+storm != all {
			t.Errorf("step %d: %d of %d sent, %d dropped, want %d", i, sent, all, storm, tt.storm)
		}
		release(b)
	}
	want := [stormKinds]uint64{1 + 1 + 1 + 28 + 64 + 20, 0, 1 + 1 + 1}
	if got := m.Counters().Storm; got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// TestStormDoesNotAllocate, in batches that are within the limit and beyond.
func TestStormDoesNotAllocate(t *testing.T) {
	_, s := stormModule(t, Storm{Port: "p0", Broadcast: 100, Multicast: 100, Unknown: 100})
	b := newBatch(t, 128)
	now := 100 * second
	if n := testing.AllocsPerRun(100, func() {
		now += 1e7
		b.Now = now
		for i := range 64 {
			addr, _ := b.Frames.AllocOne()
			p := b.Append()
			p.Addr, p.Len, p.WireLen, p.L3 = addr+testHeadroom, 60, 60, 14
			p.Flags = []packet.Flags{packet.FlagBroadcast, packet.FlagMulticast, 0}[i%3]
			b.Mem[p.Addr] = 1
		}
		s.Process(b)
		release(b)
	}); n != 0 {
		t.Errorf("a batch allocates %v times", n)
	}
}

// TestStormByDefault: a port without an entry has the limits of all ports, each port for itself, and one whose entry has no rate has none.
func TestStormByDefault(t *testing.T) {
	c := DefaultConfig()
	c.Storms = []Storm{{Port: "p2"}}
	c.Static = []Static{{MAC: stationMAC(7).String(), Port: "p1"}}
	m := newModule(t, c, "p0", "p1", "p2")
	s := m.Stage(0).(*stage)
	b := newBatch(t, 256)
	sent := map[uint16][4]int{} // by port and kind, known stations last
	for range 2000 {
		for port := range uint16(3) {
			for kind := range 4 {
				n := [4]int{}
				n[kind] = 64
				stormBatch(t, b, 100*second, port, n[0], n[1], n[2], n[3])
				s.Process(b)
				for i := range b.Pkts {
					if p := &b.Pkts[i]; p.Reason == 0 && p.Flags&packet.FlagCopy == 0 {
						x := sent[port]
						x[kind]++
						sent[port] = x
					}
				}
				release(b)
			}
		}
	}
	const all = 2000 * 64
	burst := [4]int{defaultBroadcast / 10, defaultMulticast / 10, defaultUnknown / 10, all}
	for port, want := range map[uint16][4]int{0: burst, 1: {burst[0], burst[1], burst[2], 0}, 2: {all, all, all, all}} {
		if sent[port] != want {
			t.Errorf("port %d: sent %v (broadcast, multicast, unknown, known), want %v", port, sent[port], want)
		}
	}
	var limited uint64
	for _, n := range m.Counters().Storm {
		limited += n
	}
	if want := uint64(2 * (3*all - burst[0] - burst[1] - burst[2])); limited != want {
		t.Errorf("%d packets are counted as storms, want %d", limited, want)
	}
}

// TestStormOfTwoPorts: what a bridge of two ports floods goes to one port, so packets to unknown stations have no limit until a third port comes.
func TestStormOfTwoPorts(t *testing.T) {
	for _, ports := range [][]string{{"p0", "p1"}, {"p0", "", "p2"}, {"p0", "p1", "p2"}} {
		c := DefaultConfig()
		m := newModule(t, c, ports...)
		s := m.Stage(0).(*stage)
		b := newBatch(t, 256)
		forwarded := 0
		for range 200 {
			stormBatch(t, b, 100*second, 0, 0, 0, 64, 0)
			s.Process(b)
			for i := range b.Pkts {
				if p := &b.Pkts[i]; p.Reason == 0 && p.Flags&packet.FlagCopy == 0 {
					forwarded++
				}
			}
			release(b)
		}
		want := 200 * 64
		if !slices.Contains(ports, "") && len(ports) > 2 {
			want = defaultUnknown / 10
		}
		if forwarded != want {
			t.Errorf("of ports %q: %d packets were forwarded, want %d", ports, forwarded, want)
		}
	}
}
