package parse

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// benchPackets are the packets of the benchmarks: 60 bytes without FCS, or the
// least that the headers need.
var benchPackets = []struct {
	name string
	data []byte
}{
	{"udp", eth(0x0800, v4(17, 0, nil, udpOf(ramp(18))))},
	{"tcp", eth(0x0800, v4(6, 0x4000, nil, tcpOf(nil, ramp(6))))},
	{"udp-shim", withShim(eth(0x0800, v4(17, 0, nil, udpOf(ramp(18)))), 14, 2)},
	{"tcp-shim", withShim(eth(0x0800, v4(6, 0x4000, nil, tcpOf(nil, ramp(6)))), 14, 2)},
	{"vlan", eth(0x8100, tag(10, 0x0800, v4(17, 0, nil, udpOf(ramp(14)))))},
	{"ipv6", eth(0x86dd, v6(17, udpOf(ramp(10))))},
	{"ipv6-ext", eth(0x86dd, v6(0, ext(60, 0, ext(43, 1, ext(17, 0, udpOf(ramp(10)))))))},
	{"fragment", eth(0x0800, v4(17, 0x00b9, nil, ramp(26)))},
	{"arp", eth(0x0806, cat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, zeros(38)))},
}

// nextStage is what a patch panel does: the least a stage behind can do.
func nextStage(b *packet.Batch) {
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		p.OutPort = p.InPort ^ 1
	}
}

// BenchmarkParse gives the cost per packet of what each row names. "receive"
// is the baseline: filling the metadata as a driver does, and the next stage.
func BenchmarkParse(b *testing.B) {
	for _, needs := range []struct {
		name  string
		needs packet.Needs
	}{{"offsets", 0}, {"flowhash", packet.NeedFlowHash}, {"id", packet.NeedID}, {"all", allNeeds}} {
		for _, c := range benchPackets {
			b.Run(needs.name+"/"+c.name, func(b *testing.B) {
				_, s := newStage(b, DefaultConfig(), needs.needs)
				benchmark(b, s, 1024, func(i int) []byte { return c.data })
			})
		}
	}
	// A new flow each, in frames spread over 256 MiB, far beyond the first two
	// caches, visited in an order that no prefetcher guesses.
	for _, needs := range []struct {
		name  string
		needs packet.Needs
	}{{"receive", 0}, {"offsets", 0}, {"all", allNeeds}} {
		b.Run("spread/"+needs.name, func(b *testing.B) {
			_, s := newStage(b, DefaultConfig(), needs.needs)
			if needs.name == "receive" {
				s = nil
			}
			data := append([]byte(nil), benchPackets[0].data...)
			benchmark(b, s, 1<<17, func(i int) []byte {
				binary.BigEndian.PutUint32(data[26:], uint32(i))
				return data
			})
		})
	}
	b.Run("receive", func(b *testing.B) {
		benchmark(b, nil, 1024, func(int) []byte { return benchPackets[0].data })
	})
	b.Run("mixed", func(b *testing.B) {
		_, s := newStage(b, DefaultConfig(), 0)
		r := rand.New(rand.NewPCG(1, 1))
		benchmark(b, s, 4096, func(int) []byte { return benchPackets[r.IntN(2)].data })
	})
}

// benchmark cycles batches over frames filled by data, through the stage (none
// if nil) and the next one.
func benchmark(b *testing.B, s *stage, frames int, data func(i int) []byte) {
	batch := newBatch(b, frames)
	addrs := make([]uint64, frames)
	batch.Frames.Alloc(addrs)
	rand.New(rand.NewPCG(2, 2)).Shuffle(frames, func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	lens := make([]uint32, frames)
	for i, a := range addrs {
		lens[i] = uint32(copy(batch.Mem[a+256:], data(i)))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		batch.Reset()
		for range packet.BatchSize {
			p := batch.Append()
			p.Addr, p.Len, p.WireLen = addrs[i]+256, lens[i], lens[i]
			i = (i + 1) & (frames - 1)
		}
		if s != nil {
			s.Process(batch)
		}
		nextStage(batch)
	}
	ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / packet.BatchSize
	b.ReportMetric(ns, "ns/packet")
	b.ReportMetric(1e3/ns, "Mpps")
	b.ReportMetric(0, "ns/op")
}
