package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// part is a module of which each worker has one stage, itself.
type part struct {
	role     Role
	needs    packet.Needs
	got      packet.Needs // by FollowNeeds
	ticks    []int64
	finished []int64
	seen     int
}

func (m *part) Role() Role                 { return m.role }
func (m *part) Needs() packet.Needs        { return m.needs }
func (m *part) Stage(int) Stage            { return m }
func (m *part) Process(b *packet.Batch)    { m.seen += len(b.Pkts) }
func (m *part) FollowNeeds(n packet.Needs) { m.got = n }
func (m *part) Tick(now int64) int64       { m.ticks = append(m.ticks, now); return now + 100 }
func (m *part) Finish(now int64)           { m.finished = append(m.finished, now) }

func partsOf(names string, modules map[rune]*part) (chain []Named) {
	for _, name := range names {
		chain = append(chain, Named{string(name), modules[name]})
	}
	return chain
}

// TestBecome: stages that stay keep counters and due times and learn what is needed after them, those that come are ticked first, and those that go are finished once.
func TestBecome(t *testing.T) {
	m := map[rune]*part{
		'p': {role: RoleParse}, 'f': {role: RoleForward}, 'a': {role: RolePolicy},
		'h': {role: RoleEgress, needs: packet.NeedFlowHash}, 'i': {role: RoleEgress, needs: packet.NeedID},
	}
	g := NewGraph(partsOf("pafh", m), 0)
	_, b := testGraph(t)
	run := func(now int64) {
		fillBatch(b)
		b.Now = now
		g.Run(b)
		release(b)
	}
	run(10)
	g.Become(g.Successor(partsOf("pfih", m), 0), 50)
	if !slices.Equal(m['a'].finished, []int64{50}) || m['h'].finished != nil {
		t.Errorf("finished: %v and %v", m['a'].finished, m['h'].finished)
	}
	if m['p'].got != packet.NeedID|packet.NeedFlowHash || m['f'].got != m['p'].got || m['h'].got != 0 {
		t.Errorf("needs after p: %b, after f: %b, after h: %b", m['p'].got, m['f'].got, m['h'].got)
	}
	if g.NextTick() > 50 {
		t.Errorf("a stage that comes is not due, but at %d", g.NextTick())
	}
	run(60)
	run(111)
	for name, want := range map[rune][]int64{'p': {10, 111}, 'h': {10, 111}, 'i': {60}, 'a': {10}} {
		if !slices.Equal(m[name].ticks, want) {
			t.Errorf("%c is ticked at %v, want %v", name, m[name].ticks, want)
		}
	}
	var got []string
	for _, c := range g.AppendCounters(nil) {
		got = append(got, fmt.Sprintf("%s %d", c.Name, c.Packets))
	}
	if want := []string{"p 36", "f 36", "i 24", "h 36"}; !slices.Equal(got, want) || m['a'].seen != 12 {
		t.Errorf("counters %q, want %q; the one that went saw %d", got, want, m['a'].seen)
	}
	g.Finish(200)
	g.Become(g.Successor(partsOf("pf", m), 0), 300)
	if !slices.Equal(m['i'].finished, []int64{200}) {
		t.Errorf("finished: %v", m['i'].finished)
	}
}

// keeper is a part whose stage keeps packets between two batches.
type keeper struct {
	*part
	kept []packet.Packet
}

func (k *keeper) Stage(int) Stage { return k }
func (k *keeper) Process(b *packet.Batch) {
	k.kept = append(k.kept, b.Pkts[len(b.Pkts)-1])
	b.Pkts = b.Pkts[:len(b.Pkts)-1]
}

func (k *keeper) Release(drop func(p *packet.Packet)) {
	for i := range k.kept {
		drop(&k.kept[i])
	}
	k.kept = k.kept[:0]
}

// TestRelease: what a stage has kept is released as it leaves the graph, or at the end, once; what one keeps that stays, stays, wherever it is in the graph.
func TestRelease(t *testing.T) {
	m := map[rune]*part{'p': {role: RoleParse}, 'f': {role: RoleForward}, 'a': {role: RolePolicy}, 'b': {role: RolePolicy}}
	keepers := map[rune]*keeper{'a': {part: m['a']}, 'b': {part: m['b']}}
	chain := func(names string) (chain []Named) {
		for i, n := range partsOf(names, m) {
			if k, ok := keepers[rune(names[i])]; ok {
				n.Module = k
			}
			chain = append(chain, n)
		}
		return chain
	}
	g := NewGraph(chain("pabf"), 0)
	_, b := testGraph(t)
	var released []uint64
	drop := func(p *packet.Packet) {
		released = append(released, p.ID)
		b.Frames.FreePacket(p)
	}
	for i, step := range []struct {
		next string // the graph that comes; empty: the end
		want []uint64
	}{
		{"pbf", []uint64{12}},                    // a goes with one packet, and b stays with one
		{"pabf", nil},                            // a comes anew
		{"pbaf", nil},                            // they change places
		{"pf", []uint64{11, 12, 11, 12, 12, 11}}, // both go, b first
		{"pabf", nil},
		{"", []uint64{12, 11}},
	} {
		fillBatch(b)
		g.Run(b)
		release(b)
		released = nil
		if step.next == "" {
			g.Release(nil, drop)
			g.Release(nil, drop)
		} else {
			next := g.Successor(chain(step.next), 0)
			g.Release(next, drop)
			g.Become(next, int64(i))
		}
		if !slices.Equal(released, step.want) {
			t.Errorf("step %d, %q: released %v, want %v", i, step.next, released, step.want)
		}
	}
}

// TestBecomeTap: a tap stays at its stage, wherever that is in the new graph.
func TestBecomeTap(t *testing.T) {
	m := map[rune]*part{'p': {role: RoleParse}, 'f': {role: RoleForward}, 'a': {role: RolePolicy}}
	g := NewGraph(partsOf("pf", m), 0)
	_, b := testGraph(t)
	taken := 0
	g.SetTracer(NewTap(Tap{Stage: "f", Edge: EdgeAfter, Take: func(*packet.Batch, *packet.Packet) { taken++ }}))
	for i, chain := range []string{"pf", "paf", "pf"} {
		g.Become(g.Successor(partsOf(chain, m), 0), 1)
		fillBatch(b)
		g.Run(b)
		release(b)
		if taken != 12*(i+1) {
			t.Errorf("%s: %d packets taken", chain, taken)
		}
	}
}

// TestBecomeAllocates: what a worker does of a change, and its batches after it, allocate nothing.
func TestBecomeAllocates(t *testing.T) {
	m := map[rune]*part{'p': {role: RoleParse}, 'f': {role: RoleForward}, 'a': {role: RolePolicy}, 'h': {role: RoleEgress}}
	for _, p := range m {
		p.ticks, p.finished = make([]int64, 0, 1000), make([]int64, 0, 1000)
	}
	chains := []string{"pafh", "pf", "pfh", "paf"}
	const runs = 100
	g, twin := NewGraph(partsOf(chains[0], m), 0), NewGraph(partsOf(chains[0], m), 0)
	var next []*Graph
	for i := range runs + 1 { // AllocsPerRun has one run more
		chain := partsOf(chains[(i+1)%len(chains)], m)
		next = append(next, twin.Successor(chain, 0))
		twin.Become(twin.Successor(chain, 0), 0)
	}
	_, b := testGraph(t)
	fillBatch(b)
	i := 0
	if n := testing.AllocsPerRun(runs, func() {
		g.Become(next[i], int64(i))
		b.Now = int64(i)
		g.Run(b)
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	release(b)
}
