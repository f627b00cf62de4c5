package l2

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestRunLearns starts the background goroutine: an address is known soon after
// its first packet, and Run ends with the switch.
func TestRunLearns(t *testing.T) {
	m, b, stop := startModule(t, DefaultConfig(), 1)
	s := m.Stage(0).(*stage)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b.Now = clockTAI()
		addPacket(t, b, 0, ether(stationMAC(2), stationMAC(1), 0x0800, 60))
		addPacket(t, b, 2, ether(stationMAC(1), stationMAC(2), 0x0800, 60))
		s.Process(b)
		out := b.Pkts[len(b.Pkts)-1].OutPort
		copies := b.Copied
		release(b)
		if out == 0 && copies == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not learned: %+v", m.Counters())
		}
	}
	stop()
	c := m.Counters()
	if c.Learned != 2 || c.Entries != 2 || c.LearnOverflow != 0 {
		t.Errorf("counters %+v, want two stations", c)
	}
	if m.FlushVLAN(0) != 2 || m.Counters().Entries != 0 {
		t.Error("not flushed")
	}
}

// TestPortDown: a port that is down loses what was learned there, also what the table's writer does not know yet, but no
// static station; those of other ports stay, and the station is learned again on another port.
func TestPortDown(t *testing.T) {
	c := DefaultConfig()
	c.Static = []Static{{MAC: stationMAC(9).String(), Port: "p1"}}
	m := newModule(t, c, "p0", "p1", "p2")
	s, b := m.Stage(0).(*stage), newBatch(t, 64)
	send := func(port uint16, dst, src int) (out uint16) {
		b.Now = clockTAI()
		addPacket(t, b, port, ether(stationMAC(dst), stationMAC(src), 0x0800, 60))
		s.Process(b)
		out = b.Pkts[0].OutPort
		if b.Copied > 0 {
			out = flooded
		}
		release(b)
		return out
	}
	send(0, 2, 1)
	m.write()
	send(1, 1, 2) // waits for the writer
	m.FollowPorts([]pipeline.Port{{Name: "p0"}, {Name: "p1", Down: true}, {Name: "p2"}})
	if c := m.Counters(); c.Entries != 2 || c.Static != 1 || c.Flushed != 1 {
		t.Errorf("counters %+v, want the static station and the one of p0", c)
	}
	if out := send(0, 2, 1); out != flooded {
		t.Errorf("a packet to the station of the port that is down leaves by %d alone", out)
	}
	if out := send(0, 9, 1); out != 1 {
		t.Errorf("a packet to the static station leaves by %d", out)
	}
	send(2, 1, 2)
	m.write()
	if out := send(0, 2, 1); out != 2 {
		t.Errorf("a packet to the station that has moved leaves by %d", out)
	}
}

// TestOrderWithRun keeps a flow going to a station that comes, moves and is
// flushed, while Run learns: no port sees two packets in the wrong order, and
// the station's own port misses none.
func TestOrderWithRun(t *testing.T) {
	c := DefaultConfig()
	c.StormUnknown = 0 // the station is unknown for as long as Run does not run
	m, b, stop := startModule(t, c, 1)
	defer stop()
	s := m.Stage(0).(*stage)
	rng := rand.New(rand.NewPCG(1, 5))
	var id, unicast uint64
	var last [4]uint64
	home := uint16(1)
	for round := range 3000 {
		b.Now = clockTAI()
		n := 1 + rng.IntN(30)
		for range n {
			id++
			addPacket(t, b, 0, ether(stationMAC(2), stationMAC(1), 0x0800, 60)).ID = id
		}
		s.Process(b)
		for i := range b.Pkts {
			p := &b.Pkts[i]
			if p.Reason != 0 {
				t.Fatalf("dropped as %s", p.Reason)
			}
			if p.ID <= last[p.OutPort] {
				t.Fatalf("round %d: port %d sends %d behind %d", round, p.OutPort, p.ID, last[p.OutPort])
			}
			last[p.OutPort] = p.ID
		}
		if b.Copied == 0 {
			unicast++
		}
		release(b)
		switch rng.IntN(20) {
		case 0:
			home = 1 + uint16(rng.IntN(3))
			fallthrough
		case 1, 2:
			addPacket(t, b, home, ether(stationMAC(1), stationMAC(2), 0x0800, 60))
			s.Process(b)
			release(b)
		case 3:
			m.Flush()
		case 4:
			time.Sleep(2 * time.Millisecond)
		}
	}
	if unicast == 0 || s.flooded.Load() == 0 {
		t.Fatalf("%d batches unicast, %d packets flooded: the test does not test what it should", unicast, s.flooded.Load())
	}
}

// TestUnknownSourceDoesNotFillTheRing sends one unknown station's packets for
// 100 ms of the batch's clock, without anybody to learn it.
func TestUnknownSourceDoesNotFillTheRing(t *testing.T) {
	s := newModule(t, DefaultConfig(), "p0", "p1").Stage(0).(*stage)
	b := newBatch(t, packet.BatchSize)
	for range 10_000 {
		b.Now += 10_000
		for range 4 {
			addPacket(t, b, 0, ether(stationMAC(2), stationMAC(1), 0x0800, 60))
		}
		s.Process(b)
		release(b)
	}
	if n := s.ring.Drain(func(*event) {}); n < 2 || n > 10 {
		t.Fatalf("%d events, want one per 17 ms", n)
	}
}

// TestLearnOverflow sends more new addresses than a port's share of the ring, on one port, and then a
// new station on another.
func TestLearnOverflow(t *testing.T) {
	m := newModule(t, Config{Ageing: time.Minute, TableSize: 100}, "p0", "p1")
	s := m.Stage(0).(*stage)
	b := newBatch(t, packet.BatchSize)
	share := int(newShares(2).most)
	b.Now = clockTAI()
	for i := range share + 100 {
		addPacket(t, b, 0, ether(stationMAC(0), stationMAC(1+i), 0x0800, 60))
		s.Process(b)
		release(b)
	}
	late := stationMAC(100_000)
	addPacket(t, b, 1, ether(stationMAC(0), late, 0x0800, 60))
	s.Process(b)
	release(b)
	if c := m.Counters(); c.LearnOverflow != 100 {
		t.Fatalf("counters %+v, want an overflow of 100", c)
	}
	m.write()
	if c := m.Counters(); c.Learned != uint64(share)+1 || c.Evicted != c.Learned-100 || c.FDBFull != 0 {
		t.Fatalf("counters %+v, want %d learned, and all but 100 evicted", c, share+1)
	}
	if key := makeKey(0, late); !known(m, key) {
		t.Error("the new station on the other port was not learned")
	}
}

func known(m *Module, key uint64) bool {
	b, _, _ := m.fdb.find(m.fdb.mix(key))
	return b != nil
}

// TestMACFlood floods the default table with 64 forged addresses in each batch, and every tenth batch another
// port has a new station: what it is sent goes to its port alone, for as long as it speaks.
func TestMACFlood(t *testing.T) {
	m := newModule(t, DefaultConfig(), "p0", "p1", "p2")
	s := m.Stage(0).(*stage)
	b := newBatch(t, 3*packet.BatchSize)
	stations, flooded := 0, 0
	b.Now = clockTAI()
	for round := range 2000 {
		b.Now += int64(50 * time.Microsecond)
		for i := range packet.BatchSize {
			addPacket(t, b, 0, ether(stationMAC(1), MAC{2, 7, 0, byte(round >> 8), byte(round), byte(i)}, 0x0800, 60))
		}
		s.Process(b)
		release(b)
		if round%20 == 19 {
			m.write() // as often as a tick of the workers
		}
		if round%10 != 0 {
			continue
		}
		stations++
		addPacket(t, b, 1, ether(stationMAC(1), MAC{2, 8, 0, 0, byte(stations >> 8), byte(stations)}, 0x0800, 60))
		s.Process(b)
		release(b)
		if stations > 4 { // the one of 40 rounds before
			old := stations - 4
			addPacket(t, b, 2, ether(MAC{2, 8, 0, 0, byte(old >> 8), byte(old)}, stationMAC(2), 0x0800, 60))
			s.Process(b)
			for i := range b.Pkts {
				if p := &b.Pkts[i]; p.OutPort != 1 {
					flooded++
				}
			}
			release(b)
		}
	}
	if c := m.Counters(); flooded != 0 || c.Evicted == 0 {
		t.Errorf("%d packets to new stations came to the attacker, too; counters %+v", flooded, c)
	}
}

// TestStolenStation: a packet from the address of another station takes that station's packets, as on any bridge that learns, until it sends
// again; not those of a station that the configuration names.
func TestStolenStation(t *testing.T) {
	for _, named := range []bool{false, true} {
		c := DefaultConfig()
		if named {
			c.Static = []Static{{MAC: stationMAC(1).String(), Port: "p0"}}
		}
		m := newModule(t, c, "p0", "p1", "p2")
		m.Inline()
		s := m.Stage(0).(*stage)
		b := newBatch(t, packet.BatchSize)
		b.Now = clockTAI()
		send := func(in uint16, to, from MAC) uint16 {
			t.Helper()
			addPacket(t, b, in, ether(to, from, 0x0800, 60))
			s.Process(b)
			out := b.Pkts[len(b.Pkts)-1].OutPort
			release(b)
			return out
		}
		victim, other, thief := stationMAC(1), stationMAC(2), uint16(2)
		send(0, other, victim)
		send(1, victim, other)
		if to := send(1, victim, other); to != 0 {
			t.Fatalf("named %t: before the theft its packets go to port %d", named, to)
		}
		send(thief, other, victim)
		want := thief
		if named {
			want = 0
		}
		if to := send(1, victim, other); to != want {
			t.Errorf("named %t: its packets go to port %d, not %d", named, to, want)
		}
		send(0, other, victim)
		if to := send(1, victim, other); to != 0 {
			t.Errorf("named %t: once it has sent again its packets go to port %d", named, to)
		}
	}
}

// TestManyWorkers lets four workers hear stations that move among the ports
// while Run learns and control reads and flushes. The race detector watches.
func TestManyWorkers(t *testing.T) {
	const workers = 4
	m, _, stop := startModule(t, Config{Ageing: time.Second, TableSize: 60}, workers)
	done := make(chan *packet.Batch)
	for w := range workers {
		b, s := newBatch(t, 4*packet.BatchSize), m.Stage(w)
		go func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for range 500 {
				b.Now = clockTAI()
				for range 20 {
					data := ether(stationMAC(rng.IntN(100)), stationMAC(rng.IntN(100)), 0x0800, 60)
					addPacket(t, b, uint16(rng.IntN(4)), data)
				}
				s.Process(b)
				for i := range b.Pkts {
					if p := &b.Pkts[i]; p.Reason == 0 && (p.OutPort > 3 || p.OutPort == p.InPort) {
						t.Errorf("from port %d to %d", p.InPort, p.OutPort)
					}
				}
				release(b)
			}
			done <- b
		}()
	}
	for left := workers; left > 0; {
		select {
		case b := <-done:
			left--
			if census := b.Pool().Census(); census.Free != testFrames || census.Faults != 0 {
				t.Errorf("frames %+v", census)
			}
		case <-time.After(time.Millisecond):
			m.FlushPort(2)
			for _, e := range m.Entries(nil, clockTAI()) {
				if e.Port > 3 || e.MAC[0] != 2 {
					t.Errorf("entry %+v", e)
				}
			}
		}
	}
	stop()
	m.write()
	if c := m.Counters(); c.Entries > 60 || c.Learned == 0 {
		t.Errorf("counters %+v", c)
	}
}

// startModule returns a module of four ports whose Run is running.
func startModule(t *testing.T, c Config, workers int) (*Module, *packet.Batch, func()) {
	t.Helper()
	env := pipeline.Env{Name: "s1", Workers: workers}
	for _, p := range eight[:4] {
		env.Ports = append(env.Ports, pipeline.Port{Name: p})
	}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { m.Run(stop); close(ended) }()
	running := true
	end := func() {
		if running {
			close(stop)
			<-ended
			running = false
		}
	}
	t.Cleanup(end)
	return m, newBatch(t, 4*packet.BatchSize), end
}
