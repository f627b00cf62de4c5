package l2

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/weirswitch/weir/pipeline/packet"
)

// TestStraight compares the loops in assembly with the plain ones: batches of which most packets are usual and some are anything
// else, each after a run of usual ones of any length, so that whatever ends a run is met at each place of a batch.
func TestStraight(t *testing.T) {
	p := packet.Packet{}
	if unsafe.Offsetof(p.Addr) != 0 || unsafe.Offsetof(p.OutPort) != 40 || unsafe.Offsetof(p.InPort) != 42 || unsafe.Offsetof(p.InQueue) != 44 ||
		unsafe.Offsetof(p.Reason) != 45 || unsafe.Offsetof(p.Flags) != 48 || unsafe.Sizeof(p) != 64 || packet.FlagVLAN != 1 || packet.FlagMalformed != 1<<11 {
		t.Fatal("packet.Packet is not as lookups_amd64.s reads it")
	}
	if !wide {
		t.Skip("this processor does not compare several words at once")
	}
	defer func() { wide = true }()
	rng := rand.New(rand.NewPCG(1, 7))
	stations := make([]MAC, 64)
	for i := range stations {
		stations[i] = MAC{2, 0, byte(i), byte(rng.IntN(256)), byte(rng.IntN(256)), byte(i)}
	}
	c := DefaultConfig()
	c.Ageing = 10 * time.Minute
	m := newModule(t, c, "p0", "p1", "p2", "p3")
	s := m.Stage(0).(*stage)
	b := newBatch(t, 4*packet.BatchSize)
	b.Now = 1_000_000_000_000
	s.Process(b) // makes what a worker has by port
	for i, mac := range stations {
		m.fdb.learn(makeKey(0, mac), uint16(i%4), max(1, stampOf(b.Now)>>s.granule<<s.granule))
	}
	last := uint64(len(b.Mem))
	straightOnes := 0
	for round := range 3000 {
		n := 1 + rng.IntN(packet.BatchSize)
		odd := rng.IntN(n + 1)
		from := rng.IntN(4)
		for i := range n {
			src, dst := 4*rng.IntN(16)+from, 4*rng.IntN(16)+(from+1+rng.IntN(3))%4
			data, in := ether(stations[dst], stations[src], 0x0800, 60), from
			if i != odd && rng.IntN(30) != 0 {
				addPacket(t, b, uint16(in), data)
				continue
			}
			kind := rng.IntN(9)
			switch kind {
			case 1:
				data = ether(stations[dst], stations[src], 0x0800, 60, uint16(rng.IntN(3)))
			case 2:
				in = (from + 1) % 4 // moved, and perhaps back to where it came from
			case 3:
				data = ether(MAC{1, 2, 3, 4, 5, byte(i)}, stations[src], 0x0800, 60)
			case 4:
				data = ether(MAC{2, 9, 9, 9, 9, byte(i)}, stations[src], 0x0800, 60)
			case 5:
				data = ether(stations[dst], MAC{2, 9, 9, 9, 8, byte(i)}, 0x0800, 60)
			case 6:
				data = ether(stations[4*rng.IntN(16)+from], stations[src], 0x0800, 60)
			case 7:
				data = ether(MAC{1, 0x80, 0xc2, 0, 0, byte(rng.IntN(17))}, MAC{1, 2, 3, 4, 5, 6}, 0x0800, 60)
			}
			p := addPacket(t, b, uint16(in), data)
			switch kind {
			case 0:
				b.Drop(p, packet.ReasonNoPort)
			case 8: // as near to the end of memory as a frame can be
				p.Len = 14
				p.Addr = last - uint64(p.Len)
				copy(b.Mem[p.Addr:], data[:p.Len])
			}
		}
		before := append([]packet.Packet(nil), b.Pkts...)
		var keys [2][maxLookups]uint64
		var after [2][]packet.Packet
		for k := range 2 {
			wide = k == 0
			b.Pkts = b.Pkts[:len(before)]
			copy(b.Pkts, before)
			s.settings, s.stamp = m.settings.Load(), max(1, stampOf(b.Now)>>s.granule<<s.granule)
			s.mark, s.keys = uint8(s.stamp>>s.granule), [maxLookups]uint64{}
			s.decide(b)
			keys[k], after[k] = s.keys, append([]packet.Packet(nil), b.Pkts...)
		}
		for i := range before {
			if after[0][i] != after[1][i] || keys[0][2*i] != keys[1][2*i] || keys[0][2*i+1] != keys[1][2*i+1] {
				t.Fatalf("round %d, packet %d of %d, by assembly and plainly:\n%+v keys %#x\n%+v keys %#x", round, i, n,
					after[0][i], keys[0][2*i:2*i+2], after[1][i], keys[1][2*i:2*i+2])
			}
			if after[0][i].OutPort < 4 {
				straightOnes++
			}
		}
		b.Reset()
		if round%16 == 0 { // frames are not given back: some packets are not where theirs is
			b = newBatch(t, 4*packet.BatchSize)
			b.Now = 1_000_000_000_000
			last = uint64(len(b.Mem))
		}
	}
	if straightOnes < 1000 {
		t.Errorf("%d packets were forwarded: the test does not test what it should", straightOnes)
	}
}
