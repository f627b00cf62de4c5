package l2

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// BenchmarkProcess forwards packets between random pairs of learned stations,
// half of them behind each of two ports. Every station's packets are in the
// batches equally often, so with many stations the table does not fit the
// first-level cache. Headers are set by hand: parsing is not measured.
func BenchmarkProcess(b *testing.B) {
	for _, stations := range []int{10, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("stations=%d", stations), func(b *testing.B) {
			benchmarkProcess(b, stations, Config{Ageing: DefaultConfig().Ageing, TableSize: max(16384, stations)})
		})
	}
	b.Run("stations=10000/trunk", func(b *testing.B) {
		c := DefaultConfig()
		c.Ports = []Port{{Port: "p0", Trunk: []int{10}, Native: 1}, {Port: "p1", Trunk: []int{10}, Native: 1}}
		benchmarkProcess(b, 10_000, c)
	})
	b.Run("stations=10000/snooping", func(b *testing.B) {
		c := DefaultConfig()
		c.Snooping = true
		benchmarkProcess(b, 10_000, c)
	})
}

func benchmarkProcess(b *testing.B, stations int, c Config) {
	// The frames lie as in a switch under load, where few are in flight: what
	// is slow is the table. A batch gets its addresses by a 16-byte write.
	const batches = 64
	m := newModule(b, c, "p0", "p1")
	s := m.Stage(0).(*stage)
	vlan := m.settings.Load().ports[0].pvid
	for i := range stations {
		m.fdb.learn(makeKey(vlan, stationMAC(i)), uint16(i%2), stampOf(1e9))
	}
	if got := m.fdb.entries.Load(); got != uint64(stations) {
		b.Fatalf("%d stations learned, want %d", got, stations)
	}
	all := make([]*packet.Batch, batches)
	pairs := make([]pair, 1<<16)
	rng := rand.New(rand.NewPCG(1, 2))
	var frame [16]byte
	for i := range pairs {
		src, dst := 2*rng.IntN(stations/2), 2*rng.IntN(stations/2)+1
		if i%2 == 1 {
			src, dst = src+1, dst-1
		}
		copy(frame[:], ether(stationMAC(dst), stationMAC(src), 0x0800, 16))
		pairs[i] = pair{binary.LittleEndian.Uint64(frame[:]), binary.LittleEndian.Uint64(frame[8:])}
	}
	for i := range all {
		all[i] = newBatch(b, packet.BatchSize)
		all[i].Now = 1e9
		for k := range packet.BatchSize {
			addPacket(b, all[i], uint16(k%2), make([]byte, 60))
		}
	}
	next, n := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		batch := all[n%batches]
		for i := range batch.Pkts {
			pairs[next%len(pairs)].write(batch.Mem[batch.Pkts[i].Addr:])
			next++
		}
		s.Process(batch)
		n++
	}
	if s.flooded.Load() != 0 || all[0].Dropped != 0 {
		b.Fatalf("%d flooded, %d dropped, want all packets forwarded", s.flooded.Load(), all[0].Dropped)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
}

// pair is the first 16 bytes of a packet, in words, so that the stage's loads do
// not have to wait for stores that overlap each other.
type pair [2]uint64

func (p pair) write(d []byte) {
	binary.LittleEndian.PutUint64(d, p[0])
	binary.LittleEndian.PutUint64(d[8:], p[1])
}

// BenchmarkWrite is the part of BenchmarkProcess that is not the stage.
func BenchmarkWrite(b *testing.B) {
	batch := newBatch(b, packet.BatchSize)
	pairs := make([]pair, 1<<16)
	for range packet.BatchSize {
		addPacket(b, batch, 0, make([]byte, 60))
	}
	next := 0
	for b.Loop() {
		for i := range batch.Pkts {
			pairs[next%len(pairs)].write(batch.Mem[batch.Pkts[i].Addr:])
			next++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
}

// BenchmarkFlood sends each packet to seven of eight ports.
func BenchmarkFlood(b *testing.B) {
	m := newModule(b, DefaultConfig(), "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7")
	s := m.Stage(0).(*stage)
	batch := newBatch(b, 8*packet.BatchSize)
	broadcast := ether(groupMAC(0xff), stationMAC(1), 0x0800, 60)
	b.ReportAllocs()
	for b.Loop() {
		for range packet.BatchSize / 2 {
			addPacket(b, batch, 0, broadcast)
		}
		s.Process(batch)
		if batch.NoFrame+batch.NoRoom != 0 {
			b.Fatal("copies failed")
		}
		release(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(packet.BatchSize/2*7), "ns/copy")
}

// BenchmarkGroup sends packets to groups of 1,000, each of which one port of eight has joined: what snooping costs of a packet that it does not copy.
func BenchmarkGroup(b *testing.B) {
	m := newModule(b, snoopConfig(), eight...)
	m.Inline()
	s, batch := m.Stage(0).(*stage), newBatch(b, 8*packet.BatchSize)
	batch.Now = 1000 * second
	goes(b, s, batch, 0, igmp(b, 0x11, "0.0.0.0"))
	var template []packet.Packet
	for i := range 1000 {
		group := fmt.Sprintf("239.1.%d.%d", i/250, i%250)
		goes(b, s, batch, uint16(1+i%7), igmp(b, 0x16, group))
		template = append(template, *put(b, batch, 0, toGroup(b, group)))
		batch.Reset()
	}
	batch.Now += 11 * second
	next := 0
	for b.Loop() {
		for range packet.BatchSize {
			*batch.Append() = template[next%len(template)]
			next++
		}
		s.Process(batch)
		if batch.Copied+batch.Dropped != 0 {
			b.Fatalf("%d copies, %d drops", batch.Copied, batch.Dropped)
		}
		batch.Reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
}

// stationMAC returns the address of station i, any of 2^24.
func stationMAC(i int) MAC {
	m := MAC{0x02, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(m[2:], uint32(i)+1)
	return m
}

func groupMAC(b byte) MAC { return MAC{b | 1, b, b, b, b, b} }
