package traffic

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// serialise is the slow twin of Writer.Write, on a library.
func serialise(t *testing.T, fw *Writer, seq, sent uint64) []byte {
	t.Helper()
	w := fw.w
	src, dst := fw.sides.of(fw.drawer.flow(seq))
	srcNet, dstNet := w.Source.Net.Addr().AsSlice(), w.Destination.Net.Addr().AsSlice()
	be.PutUint32(srcNet[len(srcNet)-4:], src.addr)
	be.PutUint32(dstNet[len(dstNet)-4:], dst.addr)
	if w.Reversed {
		src, dst, srcNet, dstNet = dst, src, dstNet, srcNet
	}
	eth := &layers.Ethernet{SrcMAC: macBytes(src.mac), DstMAC: macBytes(dst.mac), EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: layers.UDPPort(src.port), DstPort: layers.UDPPort(dst.port)}
	stack := []gopacket.SerializableLayer{eth}
	if w.isIPv6() {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: srcNet, DstIP: dstNet}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		stack = append(stack, ip)
	} else {
		ip := &layers.IPv4{
			Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP, SrcIP: srcNet, DstIP: dstNet,
		}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		stack = append(stack, ip)
	}
	payload := make([]byte, w.Sizes[seq%uint64(len(w.Sizes))]-FCS-fw.w.headerLen())
	be.PutUint64(payload, markMagic<<48|seq)
	be.PutUint16(payload[8:], w.Run)
	be.PutUint64(payload[10:], sent)
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	must(t, gopacket.SerializeLayers(buffer, options, append(stack, udp, gopacket.Payload(payload))...))
	frame := buffer.Bytes()
	if !w.isIPv6() && !w.UDPChecksum {
		be.PutUint16(frame[ethLen+ip4Len+6:], 0)
	}
	return frame
}

func macBytes(n uint64) []byte {
	b := make([]byte, 6)
	putMAC(b, n)
	return b
}

func TestWriteMatchesLibraryAndReads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, w := range variants() {
		fw, err := NewWriter(w)
		must(t, err)
		reader, err := newReader(w)
		must(t, err)
		for range 500 {
			seq, sent := random.Uint64()&seqMask, random.Uint64()
			frame := make([]byte, w.MaxSize())
			n := fw.Write(frame, seq, sent)
			if want := serialise(t, fw, seq, sent); !bytes.Equal(frame[:n], want) {
				t.Fatalf("%s: packet %d is\n%x, want\n%x", name, seq, frame[:n], want)
			}
			want := Mark{Seq: seq, Run: w.Run, SentNs: sent, Flow: fw.drawer.flow(seq)}
			if got, ok := reader.Read(frame[:n]); !ok || got != want {
				t.Fatalf("%s: read %+v %v, want %+v", name, got, ok, want)
			}
		}
	}
}

// Flows differ in their 5-tuples, and MAC addresses take each of their values.
func TestFlowsAreDistinct(t *testing.T) {
	for name, w := range variants() {
		if w.Flows > 1_000_000 {
			continue
		}
		s := newSides(w)
		sources := make(map[uint64]bool, w.Flows)
		srcMACs, dstMACs := map[uint64]bool{}, map[uint64]bool{}
		for f := range uint32(w.Flows) {
			src, dst := s.of(f)
			sources[uint64(src.addr)<<16|uint64(src.port)] = true
			srcMACs[src.mac], dstMACs[dst.mac] = true, true
			if src.port < firstPort || dst.port < firstPort || s.number(src.addr, src.port) != f {
				t.Fatalf("%s: flow %d is %+v %+v", name, f, src, dst)
			}
		}
		if len(sources) != w.Flows || len(srcMACs) != w.Source.MACs || len(dstMACs) != w.Destination.MACs {
			t.Errorf("%s: %d sources, %d and %d MAC addresses", name, len(sources), len(srcMACs), len(dstMACs))
		}
	}
}

func TestWriterIsDeterministic(t *testing.T) {
	w := with(func(w *Workload) { w.Order, w.Exponent, w.Sizes = Zipf, 1, IMIX() })
	stream := func(w Workload) []byte {
		fw, err := NewWriter(w)
		must(t, err)
		var all []byte
		frame := make([]byte, w.MaxSize())
		for seq := range uint64(1000) {
			all = append(all, frame[:fw.Write(frame, seq, 7)]...)
		}
		return all
	}
	if !bytes.Equal(stream(w), stream(w)) {
		t.Error("equal workloads give different packets")
	}
	other := w
	other.Seed++
	if bytes.Equal(stream(w), stream(other)) {
		t.Error("the seed changes nothing")
	}
}

func TestReadRefusesOthers(t *testing.T) {
	w := DefaultWorkload()
	fw, err := NewWriter(w)
	must(t, err)
	reader, err := newReader(w)
	must(t, err)
	for name, change := range map[string]func([]byte) []byte{
		"short":       func(f []byte) []byte { return f[:59] },
		"empty":       func(f []byte) []byte { return nil },
		"ethertype":   func(f []byte) []byte { f[12] = 0x81; return f },
		"options":     func(f []byte) []byte { f[14] = 0x46; return f },
		"protocol":    func(f []byte) []byte { f[23] = 6; return f },
		"magic":       func(f []byte) []byte { f[42]++; return f },
		"another run": func(f []byte) []byte { f[51]++; return f },
	} {
		frame := make([]byte, 60)
		fw.Write(frame, 5, 6)
		if m, ok := reader.Read(change(frame)); ok {
			t.Errorf("%s: read %+v", name, m)
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	for name, w := range variants() {
		fw, err := NewWriter(w)
		must(t, err)
		reader, err := newReader(w)
		must(t, err)
		tracker := newTracker(w.Flows, SinkOptions{true, true, true})
		frame, seq := make([]byte, w.MaxSize()), uint64(0)
		allocs := testing.AllocsPerRun(1000, func() {
			n := fw.Write(frame, seq, seq)
			m, _ := reader.Read(frame[:n])
			tracker.add(m, n, seq+100)
			seq++
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per packet", name, allocs)
		}
	}
}

func FuzzRead(f *testing.F) {
	var readers []*Reader
	for _, w := range variants() {
		fw, err := NewWriter(w)
		must(f, err)
		reader, err := newReader(w)
		must(f, err)
		frame := make([]byte, w.MaxSize())
		f.Add(frame[:fw.Write(frame, 1, 2)])
		readers = append(readers, reader)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, r := range readers {
			if m, ok := r.Read(frame); ok && (len(frame) < 60 || m.Seq > seqMask || m.Run != r.run) {
				t.Errorf("read %+v from %d bytes", m, len(frame))
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"default", "ipv6"} {
		w := variants()[name]
		fw, err := NewWriter(w)
		must(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			frame, seq := make([]byte, w.MaxSize()), uint64(0)
			for b.Loop() {
				fw.Write(frame, seq, seq)
				seq++
			}
		})
	}
}
