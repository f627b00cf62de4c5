package fabric

import (
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

var smallTree = Tree{Pods: 2, Racks: 2, Aggregations: 2, Core: 4, Hosts: 4}

func testConfig(t testing.TB, tree Tree) Config {
	t.Helper()
	g, err := tree.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Graph: g, Hosts: tree.Hosts, HostRate: 100e9, TrunkRate: 400e9, Delay: event.Microsecond, Buffer: 32 << 20, Seed: 3}
}

func newNetwork(t testing.TB, c Config) *Network {
	t.Helper()
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// source has each host send packets of its routes in turn, as fast as its link is free.
type source struct {
	n      *Network
	routes [][]uint32 // by host
	bytes  func(host, i int) uint32
	id     func(i int) uint64
	left   int // packets to send, of all hosts
	sent   []int
	count  int
}

func (s *source) send(host int) {
	if s.left == 0 || len(s.routes[host]) == 0 || !s.n.Idle(host) {
		return
	}
	s.left--
	i := s.n.New()
	p := s.n.At(i)
	p.Route = s.routes[host][s.sent[host]%len(s.routes[host])]
	p.Bytes = s.bytes(host, s.sent[host])
	p.Seq = int64(s.sent[host])
	p.ID = hash.Uint64x2(9, uint64(host), uint64(s.sent[host]))
	if s.id != nil {
		p.ID = s.id(s.count)
	}
	s.sent[host]++
	s.count++
	s.n.Send(i)
}

// drain runs the network until nothing happens any more.
func (s *source) drain(delivered func(host int, packet uint32)) {
	s.sent = make([]int, len(s.routes))
	for h := range s.routes {
		s.send(h)
	}
	for {
		switch h := s.n.Next(event.Second); h.What {
		case Delivered:
			if delivered != nil {
				delivered(h.Host, h.Packet)
			}
			s.n.Free(h.Packet)
		case Ready:
			s.send(h.Host)
		case Until:
			return
		}
	}
}

// congestionPlan has 8 bits for the fullest link, on a share of the packets.
func congestionPlan(t testing.TB, frequency float64) *pintplan.Plan {
	t.Helper()
	p, err := pintplan.New(pintplan.Config{ID: 1, Seed: 7, Bits: 8, Queries: []pint.Query{congestionQuery(frequency)}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func congestionQuery(frequency float64) pint.Query {
	return pint.Query{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: frequency,
		Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}}
}

// routeLinks are the links of a route, the host's first.
func (n *Network) routeLinks(id uint32) []uint32 {
	r := &n.routes[id]
	return r.links[:r.n]
}
