package pint

import (
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
)

// TestClasses: what a packet's digest says of the queue is of its class, and after the port's classes went of the port again. Packets of a batch count those of
// their class before them.
func TestClasses(t *testing.T) {
	n := newChain(t, 3, DefaultConfig(), largeFrame)
	for i, node := range n.nodes {
		node.stage.needQueue, node.stage.needLatency, node.stage.plainLocal, node.stage.usual = true, true, false, false
		b := n.batch
		classifier := packet.NewClassifier(1)
		classifier.DSCP(46, 0)
		lines := &packet.Lines{Classifier: classifier}
		lines.Depth[0], lines.Depth[1] = 2, 70
		lines.Wait[0].First, lines.Wait[1].First = 1000, 2_000_000
		lines.Room[0], lines.Room[1] = 8, 100
		for _, c := range []struct {
			name                           string
			lines                          []*packet.Lines
			dscps                          []byte
			latency, occupancy, congestion uint64 // of the last packet
		}{
			{"strict", []*packet.Lines{nil, lines}, []byte{0, 0, 46}, 1000, 2, 25},
			{"the third of its class", []*packet.Lines{nil, lines}, []byte{46, 46, 0, 46}, 1000, 4, 50},
			{"bulk", []*packet.Lines{nil, lines}, []byte{46, 46, 10}, 2_000_000, 70, 70},
			{"no classes any more", nil, []byte{46, 46, 46}, 500, 11, 0},
		} {
			b.Reset()
			b.Now = n.now
			b.Depth, b.Wait, b.Lines = []uint32{0, 9}, []packet.Wait{{}, {First: 500}}, c.lines
			for _, dscp := range c.dscps {
				addr, ok := b.Frames.AllocOne()
				if !ok {
					t.Fatal("no frame")
				}
				p := b.Append()
				p.Addr, p.Arrival = addr+256, b.Now
				f := aFrame(100)
				f[15] = dscp << 2
				p.Len = uint32(copy(b.Mem[p.Addr:], f))
				p.WireLen = p.Len
			}
			node.parse.Process(b)
			for k := range b.Pkts {
				b.Pkts[k].OutPort = 1
			}
			node.stage.Process(b)
			v := &node.stage.seen
			if v[pint.HopLatency] != c.latency || v[pint.QueueOccupancy] != c.occupancy || v[pint.QueueCongestion] != c.congestion {
				t.Errorf("hop %d, %s: latency %d, queue %d, %d %%; want %d, %d, %d", i, c.name,
					v[pint.HopLatency], v[pint.QueueOccupancy], v[pint.QueueCongestion], c.latency, c.occupancy, c.congestion)
			}
			for k := range b.Pkts {
				b.Frames.FreePacket(&b.Pkts[k])
			}
		}
		b.Lines, b.Wait = nil, nil
	}
}
