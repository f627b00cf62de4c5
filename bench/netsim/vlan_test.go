package netsim

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/pint"
)

// TestTaggedUnderTheShim: where bridges put tags on at the source, and take
// them off at the sink, the shim stands behind the tag in between, and the sink
// decodes the path of what hosts sent untagged. Then
// the sink starts anew, and finds the path again.
func TestTaggedUnderTheShim(t *testing.T) {
	frames := newCache(t)
	b := packet.NewBatch(frames, 64)
	var switches []Switch
	for i := range 3 {
		c, bridge := pint.DefaultConfig(), l2.DefaultConfig()
		bridge.Ports = []l2.Port{{Port: "a", Trunk: []int{10, 11}}, {Port: "b", Trunk: []int{10, 11}}}
		if i == 0 {
			c.Edge, bridge.Ports[0] = []string{"a"}, l2.Port{Port: "a", Access: 10}
		}
		if i == 2 {
			c.Edge, bridge.Ports[1] = []string{"b"}, l2.Port{Port: "b", Access: 10}
		}
		switches = append(switches, Switch{ID: uint32(i + 1), Ports: []string{"a", "b"}, Graph: []string{"parse", "l2", "pint"}, Stages: map[string]any{"pint": &c, "l2": &bridge}})
	}
	cables := []Cable{{{0, 1}, {1, 0}}, {{1, 1}, {2, 0}}}
	n, err := NewNetwork(switches, cables, frames)
	if err != nil {
		t.Fatal(err)
	}
	keepDigests(n)
	play := func(from, to uint16) {
		t.Helper()
		for i := from; i < to; i++ {
			for _, f := range [][]byte{frame(1, 5, i), frame(2, 5, i)} {
				ends, data := send(t, n, frames, b, End{0, 0}, f, 1e9+int64(i)*1e6)
				if !slices.Equal(ends, []End{{2, 1}}) || !bytes.Equal(data[0], f) {
					t.Fatalf("leaves at %v as % x\nnot % x", ends, data, f)
				}
			}
		}
		n.Finish(1e9 + int64(to)*1e6)
		answers := pathsAt(t, n, 2)
		if len(answers) != 2 {
			t.Fatalf("%+v", answers)
		}
		for _, a := range answers {
			if !a.Certain || !slices.Equal(a.Passages[0].Switches, []string{"1", "2", "3"}) || a.Packets != uint64(to-from) || a.Strays != 0 {
				t.Errorf("%+v", a)
			}
		}
	}
	play(0, 60)
	fresh, err := newNode(switches[2], frames)
	if err != nil {
		t.Fatal(err)
	}
	fresh.cables = n.nodes[2].cables
	n.nodes[2] = fresh
	keepDigests(n)
	play(60, 120)
}

// TestSamePacketAgain: a packet that is sent over and over has one id, so its
// digest says the same each time, and no path becomes certain by it.
func TestSamePacketAgain(t *testing.T) {
	frames := newCache(t)
	b := packet.NewBatch(frames, 64)
	g, err := newLine(5)
	if err != nil {
		t.Fatal(err)
	}
	switches, cables := g.switches(func(node int, s *Switch) {
		c, bridge := pint.DefaultConfig(), l2.DefaultConfig()
		if g.Nodes[node].Edge {
			c.Edge = []string{"host"}
		}
		s.Graph, s.Stages = []string{"parse", "l2", "pint"}, map[string]any{"pint": &c, "l2": &bridge}
	})
	n, err := NewNetwork(switches, cables, frames)
	if err != nil {
		t.Fatal(err)
	}
	keepDigests(n)
	for i := range int64(2000) {
		send(t, n, frames, b, End{0, g.hostPort(0)}, frame(1, 5, uint16(i%4)), 1e9+i*1e6)
	}
	n.Finish(4e9)
	for _, a := range pathsAt(t, n, 4) {
		if a.Certain || a.Undecoded > 4 || a.Packets != 2000 {
			t.Errorf("four packets, again and again: %s", fmt.Sprintf("%+v", a))
		}
	}
}
