package pint

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// straightTwin is a switch of four ports, one of which leads to hosts, whose stage takes
// straight runs of packets or each for itself.
type straightTwin struct {
	module *Module
	stage  *stage
	parse  pipeline.Stage
	batch  *packet.Batch
}

func newStraightTwin(t *testing.T, straight bool) *straightTwin {
	t.Helper()
	env := pipeline.Env{ID: 437, Workers: 1}
	for _, name := range []string{"p0", "p1", "p2", "hosts"} {
		env.Ports = append(env.Ports, pipeline.Port{Name: name, MaxFrame: 400})
	}
	c := DefaultConfig()
	c.Edge = []string{"hosts"}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	env.Needs = m.Needs()
	p, err := parse.New(parse.DefaultConfig(), env)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 256, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	n := &straightTwin{module: m, stage: m.Stage(0).(*stage), parse: p.Stage(0), batch: packet.NewBatch(pool.NewCache(), 2*packet.BatchSize)}
	if !n.stage.usual {
		t.Fatal("the default plan is not usual")
	}
	n.stage.usual = straight
	return n
}

// transitPacket is a packet of a test, with what the stages in front of PINT say of it.
type transitPacket struct {
	frame   []byte
	waited  int64
	in, out uint16
	reason  packet.Reason
	own     bool
}

// process takes packets through the switch and returns what became of their bytes.
func (n *straightTwin) process(now int64, list []transitPacket) (out [][]byte) {
	b := n.batch
	b.Reset()
	b.Now, b.Depth, b.Wait = now, []uint32{3, 0, 1, 0}, waitsAt(now)
	for i := range list {
		addr, _ := b.Frames.AllocOne()
		p := b.Append()
		p.Addr, p.InPort, p.Arrival = addr+256, list[i].in, now-list[i].waited
		p.Len = uint32(copy(b.Mem[p.Addr:addr+2048], list[i].frame))
		p.WireLen = p.Len
	}
	if len(list) > 0 {
		n.parse.Process(b)
	}
	for i := range list {
		p := &b.Pkts[i]
		if p.OutPort = list[i].out; list[i].own {
			p.ID = 0
		}
		if list[i].reason != 0 {
			b.Drop(p, list[i].reason)
		}
	}
	n.stage.Process(b)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		out = append(out, append(bytes.Clone(b.Data(p)), uint8(p.Reason)))
		b.Frames.FreePacket(p)
	}
	return out
}

// waitsAt are the waits of a batch at a time, by output port: packets wait longer the more are in front of them, or not, or do not wait.
func waitsAt(now int64) []packet.Wait {
	return []packet.Wait{{First: now % 9000, Each: now % 70}, {}, {First: now % 100_000, Each: now % 2 * 1000}, {First: now % 5000, Each: 20}}
}

// shimmed is a frame with a shim of the default plan.
func shimmed(r *rand.Rand, hop uint8) []byte {
	f := ethernet(header.TypeShim, []byte{1<<4 | 1, hop, 0, 1, uint8(r.Uint32()), uint8(r.Uint32())}, []byte{8, 0})
	return append(f, ipv4(64, 0x4000, 6, tcp(r.IntN(60000), 80, r.Uint32(), random(r, r.IntN(60))))...)
}

// TestStraight: packets that are taken in straight runs get the digests, and are counted, as those that are looked at
// one by one: in batches of all sizes, in which runs are long, short or broken off by packets out of the ordinary,
// and whose packets waited equally long or not.
func TestStraight(t *testing.T) {
	has := wide
	defer func() { wide = has }()
	for _, wide = range []bool{false, true} {
		if wide && !has {
			t.Log("the processor lacks AVX-512: not all ways are tested")
			continue
		}
		t.Run(fmt.Sprintf("wide=%v", wide), testStraight)
	}
}

func testStraight(t *testing.T) {
	straight, each := newStraightTwin(t, true), newStraightTwin(t, false)
	r := rand.New(rand.NewPCG(28, 11))
	now := int64(1e15)
	for round := range 1500 {
		n := round % (2*packet.BatchSize + 1)
		list := make([]transitPacket, n)
		odd, turn := r.IntN(3)*r.IntN(30), r.IntN(20) // of a hundred packets
		in, out, waited := uint16(0), uint16(1), int64(r.IntN(10000))
		for i := range list {
			if r.IntN(100) < turn {
				in, out = uint16(r.IntN(4)), uint16(r.IntN(4))
			}
			if round%2 == 0 || r.IntN(100) == 0 {
				waited = int64(r.Uint64()>>(20+r.IntN(40))) - 50
			}
			list[i] = transitPacket{frame: shimmed(r, uint8(1+r.IntN(20))), waited: waited, in: in, out: out}
			if r.IntN(100) >= odd {
				continue
			}
			p := &list[i]
			switch r.IntN(8) {
			case 0:
				p.frame = shimmed(r, 255)
			case 1:
				p.frame = anyFrame(r)
			case 2:
				p.frame[17] = 9 // no plan that is known
			case 3:
				p.frame = append(p.frame, random(r, 400)...) // longer than the next link's
			case 4:
				p.reason = packet.ReasonTooLong
			case 5:
				p.own = true
			case 6:
				p.out = packet.NoPort
			case 7:
				p.frame = p.frame[:14+r.IntN(len(p.frame)-14)]
			}
		}
		now += int64(r.IntN(100_000))
		got, want := straight.process(now, list), each.process(now, list)
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("round %d, packet %d of %d:\n%x, want\n%x", round, i, n, got[i], want[i])
			}
		}
		for i := range each.stage.ports {
			if got, want := &straight.stage.ports[i], &each.stage.ports[i]; *got.latency != *want.latency || got.used != want.used {
				t.Fatalf("round %d, port %d: latencies of %d packets, %d at most, use %d; want %d, %d, %d", round, i,
					got.latency.total, got.latency.highest, got.used, want.latency.total, want.latency.highest, want.used)
			}
		}
	}
	got, want := counts(straight.module), counts(each.module)
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if want["transited_packets_total"] < 10_000 || want["saturated_packets_total"] == 0 || want["left_packets_total own"] == 0 {
		t.Errorf("the test has too few packets of some kind: %v", want)
	}
}

// TestLatencyHasTheWait: the latency of a hop is the time to the stage and that in the output port's queue, behind the packets of the batch that
// are in front, whichever way a packet goes through the stage.
func TestLatencyHasTheWait(t *testing.T) {
	const now, waited = int64(1e15) + 7, 1000
	check := func(of string, got *histogram, wait packet.Wait) {
		t.Helper()
		want := new(histogram)
		for i := range int64(3) {
			want.add(uint64(waited + wait.First + i*wait.Each))
		}
		if *got != *want {
			t.Errorf("%s: %d ns at most of %d packets, want %d of 3", of, got.highest, got.total, want.highest)
		}
	}
	for _, straight := range []bool{true, false} {
		for out, wait := range waitsAt(now) { // in process; the last port's packets end here
			n := newStraightTwin(t, straight)
			r := rand.New(rand.NewPCG(1, 1))
			p := transitPacket{frame: shimmed(r, 1), waited: waited, out: uint16(out)}
			n.process(now, []transitPacket{p, p, p})
			check(fmt.Sprintf("straight %v, port %d", straight, out), n.stage.ports[out].latency, wait)
		}
	}
	n := newChain(t, 1, DefaultConfig(), 1000)
	s := n.nodes[0].stage
	if !s.plainLocal {
		t.Fatal("packets from edge to edge are taken one by one")
	}
	f := ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1, 2, nil)))
	n.batch.Wait = []packet.Wait{{}, {First: 40_000, Each: 300}}
	n.at(0, [][]byte{f, f, f}, func() int64 { return waited })
	check("from edge to edge", s.ports[1].latency, n.batch.Wait[1])
}
