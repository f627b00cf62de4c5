package pipeline

import (
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// dropEvery drops packets whose id is a multiple of its number.
type dropEvery struct {
	n uint64
	r packet.Reason
}

func (d dropEvery) Role() Role          { return RolePolicy }
func (d dropEvery) Needs() packet.Needs { return 0 }
func (d dropEvery) Stage(int) Stage     { return d }

func (d dropEvery) Process(b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && p.ID%d.n == 0 {
			b.Drop(p, d.r)
		}
	}
}

// TestTap: each edge sees its packets, no others, as the stage left them; and
// reasons and counters are as without a tap.
func TestTap(t *testing.T) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	chain := []Named{
		{"first", dropEvery{2, packet.ReasonNoPort}},
		{"second", dropEvery{3, packet.ReasonTooLong}},
		{"third", dropEvery{5, packet.ReasonPortDown}},
	}
	ids := func(want func(id uint64) bool) (all []uint64) {
		for id := range uint64(60) {
			if want(id) {
				all = append(all, id)
			}
		}
		return all
	}
	even := func(id uint64) bool { return id%2 == 0 }
	for edge, want := range map[Edge][]uint64{
		EdgeBefore:  ids(func(id uint64) bool { return !even(id) }),
		EdgeAfter:   ids(func(id uint64) bool { return !even(id) && id%3 != 0 }),
		EdgeDropped: ids(func(id uint64) bool { return !even(id) && id%3 == 0 }),
	} {
		plain, tapped := NewGraph(chain, 0), NewGraph(chain, 0)
		var got []uint64
		tap := NewTap(Tap{Stage: "second", Edge: edge, Take: func(_ *packet.Batch, p *packet.Packet) {
			if edge == EdgeDropped && p.Reason != packet.ReasonTooLong {
				t.Errorf("packet %d has the reason %q", p.ID, p.Reason)
			}
			got = append(got, p.ID)
		}})
		tapped.SetTracer(tap)
		var reasons [2][]packet.Reason
		for i, g := range []*Graph{plain, tapped} {
			b := packet.NewBatch(pool.NewCache(), packet.BatchSize)
			for id := range uint64(60) {
				b.Append().ID = id
			}
			g.Run(b)
			for j := range b.Pkts {
				reasons[i] = append(reasons[i], b.Pkts[j].Reason)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("edge %d: took %v, want %v", edge, got, want)
		}
		if !slices.Equal(reasons[0], reasons[1]) || !slices.Equal(plain.AppendCounters(nil), tapped.AppendCounters(nil)) || tap.Done() {
			t.Errorf("edge %d: the tap changes what happens: %v, %v", edge, reasons[1], tapped.AppendCounters(nil))
		}
	}
}
