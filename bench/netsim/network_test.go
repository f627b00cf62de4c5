package netsim

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

func newCache(t *testing.T) *packet.Cache {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool.NewCache()
}

// frame is a UDP packet with a number, between the hosts of two nodes.
func frame(from, to byte, number uint16) []byte {
	f := make([]byte, 60)
	copy(f, []byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0, 0x45, 0, 0, 46, byte(number >> 8), byte(number), 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to, 0, 7, 0, 9, 0, 26})
	return f
}

// send carries a frame and returns where it and its copies leave.
func send(t *testing.T, n *Network, frames *packet.Cache, b *packet.Batch, at End, f []byte, arrival int64) (ends []End, data [][]byte) {
	t.Helper()
	addr, ok := frames.AllocOne()
	if !ok {
		t.Fatal("no frame is free")
	}
	p := packet.Packet{Addr: addr + 256, Len: uint32(len(f)), WireLen: uint32(len(f)), Arrival: arrival}
	copy(b.Mem[p.Addr:], f)
	n.Carry(at, p, func(at End, q *packet.Packet) {
		ends, data = append(ends, at), append(data, bytes.Clone(b.Data(q)))
		if q.Arrival != arrival {
			t.Errorf("it leaves with the arrival %d, not %d", q.Arrival, arrival)
		}
		frames.FreePacket(q)
	})
	return ends, data
}

// TestNetworkOfSwitches: on a tree of learning switches the first packet is
// flooded and the answer finds its way back, each unchanged, and the sink knows
// the path, which the routes of the graph say too.
func TestNetworkOfSwitches(t *testing.T) {
	g, err := NewGraph("tree", []Node{{1, "", true}, {2, "", true}, {3, "", true}, {4, "", true}, {5, "", true}}, []Link{{0, 1}, {1, 2}, {1, 3}, {3, 4}})
	if err != nil {
		t.Fatal(err)
	}
	frames := newCache(t)
	b := packet.NewBatch(frames, 64)
	switches, cables := g.switches(func(_ int, s *Switch) {
		c, bridge := pint.DefaultConfig(), l2.DefaultConfig()
		c.Edge = []string{"host"}
		s.Graph, s.Stages = []string{"parse", "l2", "pint"}, map[string]any{"pint": &c, "l2": &bridge}
	})
	n, err := NewNetwork(switches, cables, frames)
	if err != nil {
		t.Fatal(err)
	}
	keepDigests(n)
	n.Delay = func(sw int) int64 { return int64(1000 * (sw + 1)) }
	host := func(node int) End { return End{node, g.hostPort(node)} }

	ends, data := send(t, n, frames, b, host(0), frame(1, 5, 0), 1e9)
	if len(ends) != 4 {
		t.Errorf("a first packet leaves at %v", ends)
	}
	for i, d := range data {
		if !bytes.Equal(d, frame(1, 5, 0)) {
			t.Errorf("at %v: % x", ends[i], d)
		}
	}
	for i := range uint16(100) {
		for _, way := range [][2]int{{4, 0}, {0, 4}} {
			f := frame(byte(way[0]+1), byte(way[1]+1), i+1)
			ends, data := send(t, n, frames, b, host(way[0]), f, 2e9+int64(i)*1e6)
			if !slices.Equal(ends, []End{host(way[1])}) || !bytes.Equal(data[0], f) {
				t.Fatalf("packet %d leaves at %v", i, ends)
			}
		}
	}
	path, err := NewRoutes(g).Path(0, 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.Finish(3e9)
	sink := moduleOf(n.Chain(4))
	answers := pathsAt(t, n, 4)
	if len(answers) == 0 || !answers[0].Certain || !slices.Equal(answers[0].Passages[0].Switches, texts(g.PathIDs(path))) {
		t.Errorf("path %v, decoded %+v", g.PathIDs(path), answers)
	}
	for _, m := range sink.Measured(4) {
		if m.Median < 4900 || m.Median > 5100 {
			t.Errorf("switch 5 measured %+v, its delay is 5000 ns", m)
		}
	}
}

func moduleOf(chain []pipeline.Named) *pint.Module {
	for _, c := range chain {
		if m, ok := c.Module.(*pint.Module); ok {
			return m
		}
	}
	return nil
}

// keepDigests has all switches keep the digests that end there, for pathsAt.
func keepDigests(n *Network) {
	for i := range n.nodes {
		moduleOf(n.Chain(i)).Listen()
	}
}

// pathsAt are the paths that the digests tell which a switch recorded since the last call.
func pathsAt(t *testing.T, n *Network, sw int) []query.FlowPath {
	t.Helper()
	m, s := moduleOf(n.Chain(sw)), new(store.Store)
	m.Collect(math.MaxInt64, true, func(h *record.Header, body func([]byte) ([]byte, error)) {
		text, err := body(nil)
		if outcome := s.Add(*h, text); err != nil || outcome != store.Taken {
			t.Fatalf("a record is %v: %v", outcome, err)
		}
	})
	s.Sort()
	answer, err := (&query.Engine{Store: s}).Ask(t.Context(), &query.Question{Kind: query.KindPath})
	if err != nil {
		t.Fatal(err)
	}
	return answer.(*query.PathAnswer).Flows
}

func texts(ids []uint64) (list []string) {
	for _, id := range ids {
		list = append(list, fmt.Sprint(id))
	}
	return list
}

// TestNetworkLoop: packets that go in circles end.
func TestNetworkLoop(t *testing.T) {
	frames := newCache(t)
	b := packet.NewBatch(frames, 64)
	var switches []Switch
	var cables []Cable
	for i := range 3 {
		switches = append(switches, Switch{ID: uint32(i + 1), Ports: []string{"a", "b"}, Graph: []string{"parse", "patch"},
			Stages: map[string]any{"patch": &patch.Config{Pairs: [][2]string{{"a", "b"}}}}})
		cables = append(cables, Cable{{i, 1}, {(i + 1) % 3, 0}})
	}
	n, err := NewNetwork(switches, cables, frames)
	if err != nil {
		t.Fatal(err)
	}
	ends, _ := send(t, n, frames, b, End{0, 0}, frame(1, 2, 0), 1)
	if len(ends) != 1 || ends[0].Switch != outside {
		t.Errorf("it leaves at %v", ends)
	}
}

func TestNetworkFaults(t *testing.T) {
	frames := newCache(t)
	good := Switch{ID: 1, Ports: []string{"a", "b"}, Graph: []string{"parse", "l2"}}
	for i, c := range []struct {
		switches []Switch
		cables   []Cable
	}{
		{[]Switch{{ID: 1, Graph: []string{"parse", "nothing"}}}, nil},
		{[]Switch{good}, []Cable{{{0, 0}, {1, 0}}}},
		{[]Switch{good}, []Cable{{{0, 0}, {0, 2}}}},
		{[]Switch{good, good}, []Cable{{{0, 0}, {1, 0}}, {{0, 0}, {1, 1}}}},
	} {
		if _, err := NewNetwork(c.switches, c.cables, frames); err == nil {
			t.Errorf("%d: no error", i)
		} else if text := fmt.Sprint(err); text == "" {
			t.Errorf("%d: nothing said", i)
		}
	}
	line, err := newLine(4)
	if err != nil || len(line.Links) != 3 || line.portTo(1, 2) != 1 || line.portTo(0, 3) != -1 {
		t.Errorf("line %+v, %v", line, err)
	}
}

// switches turns a graph into the switches and cables of a Network: each node is
// a switch with the node's id, a port "to<id>" for each neighbour, in their order, and a port
// "host" behind them. configure completes each switch: its graph and stages.
func (g *Graph) switches(configure func(node int, s *Switch)) ([]Switch, []Cable) {
	switches := make([]Switch, len(g.Nodes))
	var cables []Cable
	for i := range g.Nodes {
		s := &switches[i]
		s.ID = uint32(g.Nodes[i].ID)
		for _, k := range g.Neighbours(i) {
			s.Ports = append(s.Ports, fmt.Sprintf("to%d", g.Nodes[k].ID))
		}
		s.Ports = append(s.Ports, "host")
		configure(i, s)
	}
	for _, l := range g.Links {
		cables = append(cables, Cable{{l.A, g.portTo(l.A, l.B)}, {l.B, g.portTo(l.B, l.A)}})
	}
	return switches, cables
}

// hostPort is the number of a node's port to its hosts.
func (g *Graph) hostPort(node int) int { return len(g.Neighbours(node)) }

// newLine returns the graph of n switches in a row, with ids from 1.
func newLine(n int) (*Graph, error) {
	nodes := make([]Node, n)
	var links []Link
	for i := range nodes {
		nodes[i] = Node{ID: i + 1, Label: fmt.Sprintf("s%d", i+1), Edge: i == 0 || i == n-1}
		if i > 0 {
			links = append(links, Link{i - 1, i})
		}
	}
	return NewGraph(fmt.Sprintf("line %d", n), nodes, links)
}

// portTo is the number of a node's port to its neighbour.
func (g *Graph) portTo(node, neighbour int) int {
	for i, k := range g.Neighbours(node) {
		if k == neighbour {
			return i
		}
	}
	return -1
}
