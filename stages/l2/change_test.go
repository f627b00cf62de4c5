package l2

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

func change(t *testing.T, m *Module, c Config) {
	t.Helper()
	commit, err := m.Prepare(c, m.env.Ports)
	if err != nil {
		t.Fatal(err)
	}
	commit()
}

// TestChangeVLANs: packets go by the new VLANs from the next batch on; stations
// that a port cannot have any more are forgotten, the others are not.
func TestChangeVLANs(t *testing.T) {
	c := DefaultConfig()
	c.Ports = []Port{{Port: "p0", Access: 10}, {Port: "p1", Access: 10}}
	m := newModule(t, c, "p0", "p1", "p2")
	s := m.Stage(0).(*stage)
	send := func() *packet.Packet {
		b := newBatch(t, packet.BatchSize)
		b.Now = 5e9
		addPacket(t, b, 0, frame(stationMAC(1), stationMAC(2), ""))
		s.Process(b)
		return &b.Pkts[0]
	}
	m.fdb.learn(makeKey(10, stationMAC(2)), 1, 5)
	m.fdb.learn(makeKey(20, stationMAC(3)), 2, 5) // p2 is transparent
	if p := send(); p.Reason != 0 || p.OutPort != 1 {
		t.Fatalf("in VLAN 10: %+v", p)
	}
	c.Ports = []Port{{Port: "p0", Access: 10}, {Port: "p1", Access: 20}}
	change(t, m, c)
	if got := m.fdb.entries.Load(); got != 1 {
		t.Errorf("%d stations, want the one behind p2", got)
	}
	if p := send(); p.Reason != 0 || p.OutPort != 2 {
		t.Errorf("with p1 in another VLAN: %+v", p)
	}
	c.Ports[0].Access = 20
	change(t, m, c)
	if p := send(); p.Reason != 0 {
		t.Errorf("in VLAN 20: %+v", p)
	}
}

// TestChangeStatic: random static entries come and go; the table has them, and
// what was learned beside them, like a map does.
func TestChangeStatic(t *testing.T) {
	c := DefaultConfig()
	c.TableSize = 64
	m := newModule(t, c, "p0", "p1")
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 500 {
		m.mu.Lock()
		for range 8 {
			m.fdb.learn(makeKey(0, stationMAC(rng.IntN(100))), uint16(rng.IntN(2)), stampOf(clockTAI()))
		}
		m.mu.Unlock()
		c.Static = nil
		want := map[MAC]string{}
		for range rng.IntN(65) {
			mac, port := stationMAC(rng.IntN(100)), fmt.Sprintf("p%d", rng.IntN(2))
			if _, twice := want[mac]; !twice {
				want[mac] = port
				c.Static = append(c.Static, Static{MAC: mac.String(), Port: port})
			}
		}
		change(t, m, c)
		found := 0
		seen := map[MAC]bool{}
		for _, e := range m.Entries(nil, clockTAI()) {
			if seen[e.MAC] {
				t.Fatalf("round %d: %v is there twice", round, e.MAC)
			}
			seen[e.MAC] = true
			port, static := want[e.MAC]
			if static != e.Static || static && port != fmt.Sprintf("p%d", e.Port) {
				t.Fatalf("round %d: %+v, want %q", round, e, port)
			}
			if static {
				found++
			}
		}
		if n := m.Counters(); found != len(want) || n.Static != uint64(found) || n.Entries != uint64(len(seen)) {
			t.Fatalf("round %d: %d of %d static entries; %+v", round, found, len(want), n)
		}
	}
}

// TestChangeRefused: what cannot change, and what is wrong, leaves all as it is.
func TestChangeRefused(t *testing.T) {
	m := newModule(t, DefaultConfig(), "p0")
	before := m.settings.Load()
	for want, edit := range map[string]func(*Config){
		"table_size: cannot change while the switch runs: restart it": func(c *Config) { c.TableSize++ },
		"ageing: 0s is out of range: choose 1s to 1000000s":           func(c *Config) { c.Ageing = 0 },
	} {
		c := DefaultConfig()
		edit(&c)
		if commit, err := m.Prepare(c, m.env.Ports); commit != nil || err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if m.settings.Load() != before {
		t.Error("a refused change is in force")
	}
	c := DefaultConfig()
	c.Ageing, c.ForwardLinkLocal = 7*time.Second, true
	change(t, m, c)
	if m.fdb.ageing != 7 || !m.settings.Load().passGroups {
		t.Error("a change is not in force")
	}
}
