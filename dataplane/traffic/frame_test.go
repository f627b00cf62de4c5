package traffic

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// serialise is the slow twin of Writer.Write, on a library.
func serialise(t *testing.T, fw *Writer, seq, sent uint64) []byte {
	t.Helper()
	w := fw.w
	parts, part := uint64(w.parts()), uint64(w.Part)
	flow := fw.drawer.flow(seq)*uint32(parts) + uint32(part)
	size := w.Sizes[seq%uint64(len(w.Sizes))]
	seq = seq*parts + part
	src, dst := fw.sides.of(flow)
	srcNet, dstNet := w.Source.Net.Addr().AsSlice(), w.Destination.Net.Addr().AsSlice()
	be.PutUint32(srcNet[len(srcNet)-4:], src.addr)
	be.PutUint32(dstNet[len(dstNet)-4:], dst.addr)
	if w.Reversed {
		src, dst, srcNet, dstNet = dst, src, dstNet, srcNet
	}
	eth := &layers.Ethernet{SrcMAC: macBytes(src.mac), DstMAC: macBytes(dst.mac), EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: layers.UDPPort(src.port), DstPort: layers.UDPPort(dst.port)}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(src.port), DstPort: layers.TCPPort(dst.port), Seq: uint32(seq), Ack: 1, ACK: true, Window: 0xffff}
	protocol := layers.IPProtocolUDP
	if w.TCP {
		protocol = layers.IPProtocolTCP
	}
	stack := encapsulate(w, eth, flow)
	if w.isIPv6() {
		setType(stack, layers.EthernetTypeIPv6)
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: srcNet, DstIP: dstNet}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		must(t, tcp.SetNetworkLayerForChecksum(ip))
		stack = append(stack, ip)
	} else {
		ip := &layers.IPv4{
			Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: protocol, SrcIP: srcNet, DstIP: dstNet,
		}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		must(t, tcp.SetNetworkLayerForChecksum(ip))
		stack = append(stack, ip)
	}
	payload := make([]byte, size-FCS-fw.w.headerLen())
	be.PutUint64(payload, markMagic<<48|seq&seqMask)
	be.PutUint16(payload[8:], w.Run)
	be.PutUint64(payload[10:], sent)
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	transport := gopacket.SerializableLayer(udp)
	if w.TCP {
		transport = tcp
	}
	must(t, gopacket.SerializeLayers(buffer, options, append(stack, transport, gopacket.Payload(payload))...))
	frame := buffer.Bytes()
	if !w.TCP && !w.isIPv6() && !w.UDPChecksum {
		be.PutUint16(frame[w.extraLen()+ethLen+ip4Len+6:], 0)
	}
	if w.VXLAN != nil {
		be.PutUint16(frame[4*len(w.VLANs)+ethLen+ip4Len+6:], 0)
	}
	return frame
}

// encapsulate are the layers in front of the IP header.
func encapsulate(w Workload, eth *layers.Ethernet, flow uint32) (stack []gopacket.SerializableLayer) {
	inner := *eth
	stack = append(stack, eth)
	for i, id := range w.VLANs {
		tag := layers.EthernetTypeDot1Q
		if i+1 < len(w.VLANs) {
			tag = layers.EthernetTypeQinQ
		}
		setType(stack, tag)
		stack = append(stack, &layers.Dot1Q{VLANIdentifier: id, Type: layers.EthernetTypeIPv4})
	}
	for i, label := range w.MPLS {
		if i == 0 {
			setType(stack, layers.EthernetTypeMPLSUnicast)
		}
		stack = append(stack, &layers.MPLS{Label: label, TTL: 64, StackBottom: i+1 == len(w.MPLS)})
	}
	if v := w.VXLAN; v != nil {
		from, to := v.Source, v.Destination
		if w.Reversed {
			from, to = to, from
		}
		ip := &layers.IPv4{Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
		udp := &layers.UDP{SrcPort: layers.UDPPort(49152 + uint16(flow*0x9e3779b1>>16)%16384), DstPort: 4789}
		_ = udp.SetNetworkLayerForChecksum(ip)
		stack = append(stack, ip, udp, &layers.VXLAN{ValidIDFlag: true, VNI: v.VNI}, &inner)
	}
	return stack
}

// setType sets what follows the last layer of Ethernet or VLAN.
func setType(stack []gopacket.SerializableLayer, to layers.EthernetType) {
	switch last := stack[len(stack)-1].(type) {
	case *layers.Ethernet:
		last.EthernetType = to
	case *layers.Dot1Q:
		last.Type = to
	}
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
			parts, part := uint64(w.parts()), uint64(w.Part)
			want := Mark{Seq: (seq*parts + part) & seqMask, Run: w.Run, SentNs: sent, Flow: fw.drawer.flow(seq)*uint32(parts) + uint32(part)}
			if got, ok := reader.Read(frame[:n]); !ok || got != want {
				t.Fatalf("%s: read %+v %v, want %+v", name, got, ok, want)
			}
			if len(w.VLANs) > 0 { // a receiver took the outer tag off
				if got, ok := reader.Read(append(slices.Clone(frame[:12]), frame[16:n]...)); !ok || got != want {
					t.Fatalf("%s without its tag: read %+v %v, want %+v", name, got, ok, want)
				}
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
