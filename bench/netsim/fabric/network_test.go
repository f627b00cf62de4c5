package fabric

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/telemetry/hash"
)

func TestPaperTree(t *testing.T) {
	n := newNetwork(t, testConfig(t, PaperTree))
	if n.Hosts() != 320 || len(n.switches) != 56 {
		t.Errorf("%d hosts and %d switches", n.Hosts(), len(n.switches))
	}
	// 320 cables to hosts, 4 up from each top of rack, 4 from each aggregation switch.
	if len(n.links) != 2*(320+80+80) {
		t.Errorf("%d links", len(n.links))
	}
	id, err := n.Route(0, 319, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The base round trip of the paper: 12 us of delay, beside what bytes take.
	if r := n.routeLinks(id); len(r) != 6 || n.Unloaded(id, 1, 0, 0) != 6*event.Microsecond {
		t.Errorf("route %v takes %d ps", r, n.Unloaded(id, 1, 0, 0))
	}
}

func TestConfigFaults(t *testing.T) {
	good := testConfig(t, smallTree)
	for name, spoil := range map[string]func(*Config){
		"no graph":        func(c *Config) { c.Graph = nil },
		"no hosts":        func(c *Config) { c.Hosts = 0 },
		"odd rate":        func(c *Config) { c.HostRate = 3e9 },
		"no delay":        func(c *Config) { c.Delay = 0 },
		"no buffer":       func(c *Config) { c.Buffer = 0 },
		"little headroom": func(c *Config) { c.PFC, c.Buffer = true, 100_000 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	n := newNetwork(t, good)
	for _, pair := range [][2]int{{0, 0}, {-1, 2}, {0, 16}} {
		if _, err := n.Route(pair[0], pair[1], 1); err == nil {
			t.Errorf("a route from %d to %d", pair[0], pair[1])
		}
	}
	if _, err := (Tree{Pods: 2, Racks: 2, Aggregations: 3, Core: 4, Hosts: 1}).Graph(); err == nil {
		t.Error("a core that its pods cannot share")
	}
}

// Flows between two pods spread evenly over the core. Of n flows, each of 16 links has n/16 within 6
// standard deviations, but with a chance below 1e-7.
func TestRoutesAreEven(t *testing.T) {
	n := newNetwork(t, testConfig(t, PaperTree))
	const flows = 16_000
	r := rand.New(rand.NewPCG(1, 1))
	used := map[uint32]int{}
	for i := range flows {
		id, err := n.Route(r.IntN(64), 64+r.IntN(64), uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		links := n.routeLinks(id)
		if len(links) != 6 {
			t.Fatalf("%d links", len(links))
		}
		for k := 1; k < len(links); k++ {
			if n.links[links[k]].from != n.links[links[k-1]].to {
				t.Fatalf("link %d does not begin where the one before ends", k)
			}
		}
		used[links[2]]++ // from aggregation to core
	}
	if len(used) != 16 {
		t.Errorf("%d links to the core are used", len(used))
	}
	want := flows / 16.
	for l, count := range used {
		if math.Abs(float64(count)-want) > 6*math.Sqrt(want) {
			t.Errorf("link %d has %d flows of %d", l, count, flows)
		}
	}
}

// Unloaded is what packets sent in a row take.
func TestUnloaded(t *testing.T) {
	c := testConfig(t, smallTree)
	for _, trunk := range []uint64{400e9, 40e9} { // faster and slower than the hosts
		c.TrunkRate = trunk
		for _, to := range []int{1, 5, 9} {
			for _, packets := range []int{1, 2, 3, 50} {
				n := newNetwork(t, c)
				id, err := n.Route(0, to, 5)
				if err != nil {
					t.Fatal(err)
				}
				last := event.Time(0)
				s := source{n: n, routes: [][]uint32{{id}}, left: packets, bytes: func(_, i int) uint32 {
					if i == packets-1 {
						return 100
					}
					return 1048
				}}
				s.drain(func(int, uint32) { last = n.Now() })
				if want := n.Unloaded(id, int64(packets), 1048, 100); last != want {
					t.Errorf("%d packets to host %d, trunks of %d: %d ps, Unloaded says %d", packets, to, trunk, last, want)
				}
			}
		}
	}
}

// incast has all hosts but the first send to it, and the first to the last.
func incast(t *testing.T, n *Network, packets int) *source {
	t.Helper()
	s := &source{n: n, left: packets, bytes: func(h, i int) uint32 { return 64 + uint32(hash.Uint64x2(1, uint64(h), uint64(i))%1400) }}
	for h := range n.Hosts() {
		to := 0
		if h == 0 {
			to = n.Hosts() - 1
		}
		id, err := n.Route(h, to, uint64(h))
		if err != nil {
			t.Fatal(err)
		}
		s.routes = append(s.routes, []uint32{id})
	}
	return s
}

func TestNothingIsLostUncounted(t *testing.T) {
	for _, c := range []struct {
		name    string
		pfc     bool
		limit   int64
		dropped bool
	}{{"pfc", true, 0, false}, {"full buffers", false, 0, true}, {"full queues", false, 20_000, true}} {
		t.Run(c.name, func(t *testing.T) {
			config := testConfig(t, smallTree)
			config.PFC, config.QueueLimit, config.Buffer = c.pfc, c.limit, 2<<20
			n := newNetwork(t, config)
			s := incast(t, n, 60_000)
			order := make([]int64, n.Hosts())
			from := map[uint32]int{}
			for h, r := range s.routes {
				from[r[0]] = h
			}
			s.drain(func(_ int, packet uint32) {
				p := n.At(packet)
				if h := from[p.Route]; p.Seq < order[h] {
					t.Fatalf("packet %d of host %d comes behind %d", p.Seq, h, order[h])
				} else {
					order[h] = p.Seq
				}
				k := n.Counts()
				inside := uint64(n.inUse-1) - controlFrames(n)
				if k.Injected != k.Delivered+k.Dropped+inside {
					t.Fatalf("%+v, %d in the network", k, inside)
				}
			})
			k := n.Counts()
			if k.Injected != 60_000 || k.Injected != k.Delivered+k.Dropped || k.InjectedBytes != k.DeliveredBytes+k.DroppedBytes {
				t.Errorf("%+v", k)
			}
			if (k.Dropped > 0) != c.dropped || (k.Pauses > 0) != c.pfc || k.LargestBuffer > config.Buffer {
				t.Errorf("%+v", k)
			}
			if n.inUse != 0 {
				t.Errorf("%d packets are left", n.inUse)
			}
			for i := range n.links {
				if l := &n.links[i]; l.queued != 0 || l.held != 0 || l.paused || l.pausing || !l.queue.empty() || !l.flying.empty() {
					t.Errorf("link %d at the end: %+v", i, *l)
				}
			}
			for i, s := range n.switches {
				if s.used != 0 {
					t.Errorf("switch %d keeps %d bytes", i, s.used)
				}
			}
		})
	}
}

// controlFrames counts those under way, the slow way.
func controlFrames(n *Network) (count uint64) {
	for i := range n.links {
		for p := n.links[i].flying.head; p != none; p = n.packets[p].next {
			if k := n.packets[p].Kind; k == pause || k == resume {
				count++
			}
		}
	}
	return count
}

// PFC holds up what fits into a buffer just large enough for its headroom.
func TestPFCNeverDrops(t *testing.T) {
	config := testConfig(t, smallTree)
	config.PFC = true
	most := int64(0)
	for _, s := range newNetwork(t, config).switches {
		most = max(most, s.headroom)
	}
	config.Buffer = 2 * most
	n := newNetwork(t, config)
	s := incast(t, n, 100_000)
	s.bytes = func(int, int) uint32 { return 1090 }
	s.drain(nil)
	k := n.Counts()
	t.Logf("%d pauses, at most %d of %d bytes in a switch", k.Pauses, k.LargestBuffer, config.Buffer)
	if k.Dropped != 0 || k.Delivered != 100_000 || k.Pauses < 100 {
		t.Errorf("%+v", k)
	}
}

func TestSameSeedSameNetwork(t *testing.T) {
	once := func() (Counts, event.Time) {
		config := testConfig(t, smallTree)
		config.PFC, config.Buffer = true, 2<<20
		n := newNetwork(t, config)
		incast(t, n, 20_000).drain(nil)
		k := n.Counts()
		return k, n.Now()
	}
	a, at := once()
	b, bt := once()
	if a != b || at != bt {
		t.Errorf("%+v at %d, %+v at %d", a, at, b, bt)
	}
}

func TestEventsDoNotAllocate(t *testing.T) {
	for _, carrier := range []string{"INT", "INT-MD", "PINT"} {
		config := testConfig(t, smallTree)
		config.PFC, config.Buffer = true, 2<<20
		config.Telemetry.RoundTrip = 13 * event.Microsecond
		switch carrier {
		case "INT":
			config.Telemetry.INT = true
		case "INT-MD":
			config.Telemetry.INTMD = &intmd.Config{Instructions: intmd.NodeID | intmd.Utilisation, MaxHops: MaxRoute}
		default:
			r, err := NewReader(congestionPlan(t, 1), "congestion")
			if err != nil {
				t.Fatal(err)
			}
			config.Telemetry.PINT = r.Encoder()
		}
		n := newNetwork(t, config)
		s := incast(t, n, math.MaxInt)
		s.sent = make([]int, len(s.routes))
		for h := range s.routes {
			s.send(h)
		}
		step := func() {
			switch h := n.Next(event.Never - 1); h.What {
			case Delivered:
				n.Free(h.Packet)
			case Ready:
				s.send(h.Host)
			}
		}
		for range 300_000 { // buffers fill, and memory grows to what it needs
			step()
		}
		if a := testing.AllocsPerRun(20_000, step); a != 0 {
			t.Errorf("%s: %v allocations per event", carrier, a)
		}
	}
}
