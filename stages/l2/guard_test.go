package l2

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// guarded is a bridge whose writer the test calls.
type guarded struct {
	t *testing.T
	*Module
	stage *stage
	batch *packet.Batch
}

func newGuarded(t *testing.T, c Config, ports ...string) *guarded {
	m := newModule(t, c, ports...)
	return &guarded{t, m, m.Stage(0).(*stage), newBatch(t, 64)}
}

// send sends a packet by a port, and returns its fate and where it and its copies leave.
func (g *guarded) send(port uint16, dst, src MAC) (reason packet.Reason, to []uint16) {
	g.t.Helper()
	g.batch.Now = clockTAI()
	addPacket(g.t, g.batch, port, ether(dst, src, 0x0800, 60))
	g.stage.recent = recent{} // the next packet is a moment later
	g.stage.Process(g.batch)
	for i := range g.batch.Pkts {
		p := &g.batch.Pkts[i]
		if reason = p.Reason; reason == 0 {
			to = append(to, p.OutPort)
		}
	}
	release(g.batch)
	g.write()
	return reason, to
}

func (g *guarded) isBlocked(port string) bool {
	blocked := false
	g.Metrics(func(m pipeline.Metric) {
		if m.Name == "port_blocked" && m.Labels[0][1] == port {
			blocked = m.Value != 0
		}
	})
	return blocked
}

var everybody = MAC{255, 255, 255, 255, 255, 255}

// TestBPDUGuard: a BPDU blocks a port that has the guard, in both directions, until its time is over, and no other one.
func TestBPDUGuard(t *testing.T) {
	for name, address := range map[string]MAC{"802.1D": {1, 0x80, 0xc2, 0, 0, 0}, "PVST+": {1, 0, 0x0c, 0xcc, 0xcc, 0xcd}} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.BPDUGuard = []string{"p1"}
			g := newGuarded(t, c, "p0", "p1", "p2")
			var begun []pipeline.Block
			g.OnBlock(func(b pipeline.Block) { begun = append(begun, b) })
			g.send(0, address, stationMAC(1))
			if _, to := g.send(1, everybody, stationMAC(2)); len(to) != 2 {
				t.Fatalf("a BPDU on a port without guard: a broadcast leaves by %v", to)
			}
			g.send(1, address, stationMAC(2))
			if reason, _ := g.send(1, everybody, stationMAC(2)); reason != reasonBPDU || !g.isBlocked("p1") {
				t.Errorf("behind a BPDU: %v", reason)
			}
			g.send(1, address, stationMAC(2))
			if now := g.Blocks(); len(now) != 1 || now[0].Port != "p1" || now[0].Reason != reasonBPDU || now[0].Left <= 0 {
				t.Errorf("blocked now: %v", now)
			}
			if _, to := g.send(0, stationMAC(2), stationMAC(1)); len(to) != 1 || to[0] != 2 {
				t.Errorf("to the blocked port: %v", to)
			}
			g.guards.blocked[1].until = 0
			g.write()
			if reason, to := g.send(1, everybody, stationMAC(2)); reason != 0 || len(to) != 2 || g.isBlocked("p1") {
				t.Errorf("behind guard_time: %v, %v", reason, to)
			}
			if want := []pipeline.Block{{Port: "p1", Reason: reasonBPDU, Left: c.GuardTime}}; !slices.Equal(begun, want) || len(g.Blocks()) != 0 {
				t.Errorf("reported %v, want %v once; blocked now: %v", begun, want, g.Blocks())
			}
			if n := g.guards.blocks[0].Load(); n != 1 {
				t.Errorf("%d blocks, want 1", n)
			}
		})
	}
}

// TestLoopGuard: what comes back by other ports blocks one of these; the port of the station, ports where stations move to once, and a
// victim whose address another one uses stay.
func TestLoopGuard(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(g *guarded)
		want func(blocked [3]bool) bool
	}{
		"a loop": {func(g *guarded) {
			for range 80 {
				for port := range uint16(3) {
					if port == 0 || !g.isBlocked("p1") && !g.isBlocked("p2") { // the cable is between these
						g.send(port, everybody, stationMAC(1))
					}
				}
			}
		}, func(b [3]bool) bool { return !b[0] && b[1] != b[2] }},
		"stations behind another link": {func(g *guarded) {
			for port := range uint16(2) {
				for i := range 200 {
					g.send(port, everybody, stationMAC(i))
				}
			}
		}, func(b [3]bool) bool { return b == [3]bool{} }},
		"an address of another one": {func(g *guarded) {
			g.send(0, everybody, stationMAC(1))
			for range 200 {
				g.send(2, everybody, stationMAC(1))
				g.send(0, everybody, stationMAC(1))
			}
		}, func(b [3]bool) bool { return b == [3]bool{2: true} }},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, DefaultConfig(), "p0", "p1", "p2")
			for tries := 3; ; tries-- { // the edge of a second may fall into the moves
				c.do(g)
				blocked := [3]bool{g.isBlocked("p0"), g.isBlocked("p1"), g.isBlocked("p2")}
				if c.want(blocked) {
					break
				}
				if tries == 0 {
					t.Fatalf("blocked: %v", blocked)
				}
			}
			if reason, _ := g.send(0, everybody, stationMAC(99)); reason != 0 {
				t.Errorf("the first port: %v", reason)
			}
		})
	}
}

func TestGuardConfig(t *testing.T) {
	c := DefaultConfig()
	c.BPDUGuard, c.ForwardLinkLocal, c.LoopMoves, c.GuardTime = []string{"p9"}, true, -1, time.Millisecond
	err := c.Validate([]string{"p0"})
	for _, want := range []string{`bpdu_guard[0]: port "p9" is not defined`, "bpdu_guard: with forward_link_local", "loop_moves: -1 is out of range", "guard_time: 1ms is out of range"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestGuardOfRoutersPort: a BPDU blocks a port that is the router's alone, too, and what it receives goes nowhere.
func TestGuardOfRoutersPort(t *testing.T) {
	c := DefaultConfig()
	c.BPDUGuard = []string{"p0"}
	m := newModule(t, c, "p0", "p1")
	m.joined = true
	m.Route([]pipeline.RoutedPort{{Port: 0, MAC: MAC{2, 0, 0, 0, 0, 1}}})
	s := m.Stage(0).(*stage)
	b := newBatch(t, 4)
	b.Now = 1_000_000_000_000
	send := func(dst MAC) packet.Reason {
		p := addPacket(t, b, 0, ether(dst, MAC{2, 0, 0, 0, 0, 9}, 0x0800, 60))
		s.Process(b)
		reason := p.Reason
		release(b)
		return reason
	}
	if reason := send(MAC{2, 0, 0, 0, 0, 1}); reason != 0 {
		t.Fatalf("a packet for the router is dropped: %v", reason)
	}
	send(MAC{0x01, 0x80, 0xc2, 0, 0, 0})
	m.mu.Lock()
	m.guard(b.Now)
	m.mu.Unlock()
	if reason := send(MAC{2, 0, 0, 0, 0, 1}); reason != reasonBPDU {
		t.Errorf("behind a BPDU a packet for the router has reason %v", reason)
	}
}
