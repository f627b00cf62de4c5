package lds

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/lds"
)

// TestTake: the assembly reads fields where they are, and notes of packets that are alike what the loops note, and takes none that are not.
func TestTake(t *testing.T) {
	var p packet.Packet
	var name packet.FlowName
	if unsafe.Offsetof(p.ID) != 8 || unsafe.Offsetof(p.Arrival) != 16 || unsafe.Offsetof(p.WireLen) != 28 || unsafe.Offsetof(p.OutPort) != 40 ||
		unsafe.Offsetof(p.InPort) != 42 || unsafe.Offsetof(p.Reason) != 45 || unsafe.Offsetof(p.Flags) != 48 || unsafe.Sizeof(p) != 64 ||
		unsafe.Offsetof(name.Name) != 8 || unsafe.Sizeof(name) != 16 {
		t.Error("fields are not where take_amd64.s reads them")
	}
	has := takes
	if !has {
		t.Skip("there is no assembly for this processor")
	}
	defer func() { takes = has }()
	r := rand.New(rand.NewPCG(28, 1))
	counts := [2]int{}
	for round := range 20_000 {
		stages := [2]*stage{}
		for way := range stages {
			stages[way] = &stage{module: &Module{egress: round%2 == 0}}
		}
		const now = 1 << 50
		pkts, names := make([]packet.Packet, 1+r.IntN(lds.BlockSize)), make([]packet.FlowName, lds.BlockSize)
		waits := r.IntN(3) // none, each another, also of clocks that are ahead
		for i := range pkts {
			pkts[i] = packet.Packet{ID: r.Uint64(), Arrival: now, WireLen: r.Uint32(), OutPort: 7, InPort: 300, InQueue: uint8(r.Uint32()), Proto: uint8(r.Uint32()),
				TTL: uint8(r.Uint32()), Flags: packet.Flags(r.Uint32())&^packet.FlagIP | packet.FlagIPv4<<r.IntN(2)}
			if waits > 0 {
				pkts[i].Arrival -= r.Int64N(1000) - 500*int64(waits-1)
			}
			names[i] = packet.FlowName{ID: pkts[i].ID, Name: r.Uint64()}
		}
		for range r.IntN(3) * r.IntN(2) {
			p := &pkts[r.IntN(len(pkts))]
			switch r.IntN(5) {
			case 0:
				p.Reason = 1
			case 1:
				p.OutPort++
			case 2:
				p.InPort++
			case 3:
				p.Flags &^= packet.FlagIP
			case 4:
				names[0].ID++
			}
		}
		var said [2][2]bool
		for way, s := range stages {
			takes = way == 1
			said[way][0], said[way][1] = s.takeAlike(pkts, names, now)
		}
		if said[0] != said[1] {
			t.Fatalf("round %d: taken and named %v by loops, %v by the assembly", round, said[0], said[1])
		}
		if !said[0][0] {
			counts[0]++
			continue
		}
		counts[1]++
		a, b := stages[0], stages[1]
		if a.block != b.block || a.of != b.of || a.timed.Load() != b.timed.Load() || a.waited.Load() != b.waited.Load() {
			t.Fatalf("round %d: the assembly notes something else", round)
		}
	}
	if counts[0] < 1000 || counts[1] < 1000 {
		t.Errorf("%d batches were not alike, %d were", counts[0], counts[1])
	}
}

// TestOwnPackets: packets of the switch's own have no id and come behind the parser, which names no flow of theirs: they count in
// the cells of their flows, whatever an earlier batch left.
func TestOwnPackets(t *testing.T) {
	e := newEnd(t, testConfig(), NewEgress)
	for flow := range uint32(3) {
		var names [2]uint64
		for own := range names {
			e.put(flow, uint64(1-own), 5<<20, false, false)
			for i := range e.stage.of {
				e.stage.of[i] = 9
			}
			e.pass()
			names[own] = e.stage.block.Flow[0]
		}
		if names[0] != names[1] || names[0] == 0 {
			t.Errorf("flow %d has the name %x, and in a packet without id %x", flow, names[0], names[1])
		}
	}
	if n := e.stage.measured.Load(); n != 6 {
		t.Errorf("%d packets counted, want 6", n)
	}
}
