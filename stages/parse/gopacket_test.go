package parse

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/weirswitch/weir/pipeline/packet"
)

// TestAgainstGopacket parses every packet of captures and compares with what
// gopacket decodes: the shared traces where there are any (WEIR_SHARED, or
// beside the repository), and always those in testdata.
func TestAgainstGopacket(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pcap*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures in testdata: %v", err)
	}
	shared := os.Getenv("WEIR_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	traces, _ := filepath.Glob(filepath.Join(shared, "data", "traces", "*.pcap*"))
	if len(traces) == 0 {
		t.Logf("no traces in %s: testdata alone", shared)
	}
	for _, file := range append(files, traces...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(filepath.Base(file), "realmix") {
				t.Skip("half a million packets, left out by -short")
			}
			compareFile(t, file)
		})
	}
}

func compareFile(t *testing.T, file string) {
	m, s := newStage(t, DefaultConfig(), 0)
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1, FrameSize: 1 << 17})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	addr, _ := b.Frames.AllocOne()

	var total, compared, faults int
	var counted uint64
	for data, wire := range capture(t, file) {
		b.Reset()
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, uint32(copy(b.Mem[addr:], data)), uint32(wire)
		s.Process(b)
		p.Addr = 0
		total++
		if len(data) < 14 {
			if p.Reason != reasonRunt {
				t.Errorf("packet %d of %d bytes: reason %s", total, len(data), p.Reason)
			}
			continue
		}
		want, how := decode(data)
		if p.Flags.Has(packet.FlagMalformed) {
			faults++
			if again := *p; how.clean && !lenient(headers(&again, data), data[p.L3:]) {
				t.Errorf("packet %d: %s, but gopacket finds nothing wrong:\n%x", total, headers(&again, data), data)
			}
			continue
		}
		got := *p
		got.Flags &= how.flags
		if !how.transport {
			got.L4, got.Payload, got.SrcPort, got.DstPort = 0, 0, 0, 0
		} else {
			compared++
		}
		if !how.proto {
			want.Proto = got.Proto
		}
		want.Len, want.WireLen, want.OutPort = p.Len, p.WireLen, packet.NoPort
		if got != want {
			t.Errorf("packet %d, gopacket -, parse +:\n%s\n%x", total, cmp.Diff(want, got), data[:min(len(data), 128)])
		}
		if t.Failed() {
			return
		}
	}
	for _, n := range m.Counters().Malformed {
		counted += n
	}
	if int(counted) != faults {
		t.Errorf("%d packets have FlagMalformed, %d faults are counted", faults, counted)
	}
	if total == 0 {
		t.Error("the capture is empty")
	}
	for f, n := range m.Counters().Malformed {
		if n > 0 {
			t.Logf("%s: %d", f, n)
		}
	}
	t.Logf("%d packets, %d compared up to the transport header, %d malformed", total, compared, faults)
}

// lenient says of which faults gopacket thinks nothing.
func lenient(f Fault, l3 []byte) bool {
	switch f {
	case IPv4TotalLength:
		// Zero: a capture of a sender that left segmentation to its interface.
		return l3[2] == 0 && l3[3] == 0
	case UDPLength:
		// Zero over IPv4: gopacket takes it for a jumbogram, which IPv6 alone has.
		udp := l3[l3[0]&0xf*4:]
		return l3[0]>>4 == 4 && udp[4] == 0 && udp[5] == 0
	}
	return false
}

// capture yields the packets of a pcap or pcapng file, plain or gzipped, with
// their length on the wire.
func capture(t *testing.T, file string) func(func([]byte, int) bool) {
	return func(yield func([]byte, int) bool) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, 1<<16)
		if strings.HasSuffix(file, ".gz") {
			z, err := gzip.NewReader(in)
			if err != nil {
				t.Fatal(err)
			}
			in = bufio.NewReader(z)
		}
		var r interface {
			ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
		}
		// The names of some captures say pcapng and mean pcap, or the reverse.
		if magic, _ := in.Peek(4); string(magic) == "\n\r\r\n" {
			r, err = pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
		} else {
			r, err = pcapgo.NewReader(in)
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			data, info, err := r.ReadPacketData()
			if err != nil {
				if err != io.EOF {
					t.Errorf("read %s: %v", file, err)
				}
				return
			}
			if !yield(data, info.Length) {
				return
			}
		}
	}
}

// how says how far a decoding by gopacket can be compared.
type how struct {
	flags     packet.Flags // the flags that it knows of
	transport bool         // it found a transport header
	proto     bool         // it saw the last extension header as a whole
	clean     bool         // it found nothing wrong or cut, up to the payload
}

// decode is what gopacket makes of a packet, in our words. What it does not
// decode (a first fragment's ports, a header behind one that it does not know)
// is left out.
func decode(data []byte) (want packet.Packet, h how) {
	g := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	// Layers are slices of data with all of its capacity behind them.
	offset := func(l gopacket.Layer) uint16 { return uint16(cap(data) - cap(l.LayerContents())) }
	h.flags = ^(fPorts | packet.FlagIPOptions)
	h.clean = g.ErrorLayer() == nil && !g.Metadata().Truncated
	h.proto = g.ErrorLayer() == nil
	want.L3 = 14
	want.EtherType = binary.BigEndian.Uint16(data[12:])
	if data[0]&1 != 0 {
		want.Flags |= packet.FlagMulticast
	}
	if string(data[:6]) == "\xff\xff\xff\xff\xff\xff" {
		want.Flags |= packet.FlagBroadcast
	}
	for _, l := range g.Layers()[1:] {
		switch l := l.(type) {
		case *layers.Dot1Q:
			if want.Flags.Has(packet.FlagVLAN) {
				want.Flags |= packet.FlagQinQ
			} else {
				want.Flags |= packet.FlagVLAN
				want.VLAN = uint16(l.Priority)<<13 | l.VLANIdentifier
				if l.DropEligible {
					want.VLAN |= 1 << 12
				}
			}
			want.EtherType = uint16(l.Type)
			want.L3 = offset(l) + 4
		case *layers.MPLS:
			want.Flags |= packet.FlagMPLS
			return want, h
		case *layers.ARP:
			if l.AddrType == layers.LinkTypeEthernet && l.Protocol == layers.EthernetTypeIPv4 && l.HwAddressSize == 6 && l.ProtAddressSize == 4 {
				want.Flags |= packet.FlagARP
			}
			return want, h
		case *layers.IPv4:
			if want.Flags.Has(packet.FlagIP) {
				return want, h // a tunnel
			}
			decodeIPv4(&want, &h, l)
		case *layers.IPv6:
			if want.Flags.Has(packet.FlagIP) {
				return want, h
			}
			h.flags |= packet.FlagIPOptions
			want.Flags |= packet.FlagIPv6
			want.Proto, want.TTL = uint8(l.NextHeader), l.HopLimit
		case *layers.IPv6HopByHop, *layers.IPv6Destination, *layers.IPv6Routing, *layers.IPv6Fragment, *layers.IPSecAH:
			if want.Flags.Has(packet.FlagIPv4) {
				return want, h // extension headers are IPv6's; gopacket takes them anywhere
			}
			decodeExtension(&want, l)
		case *layers.TCP:
			n := uint16(l.DataOffset) * 4
			decodeTransport(&want, &h, offset(l), n, len(data), uint16(l.SrcPort), uint16(l.DstPort))
			return want, h
		case *layers.UDP:
			decodeTransport(&want, &h, offset(l), 8, len(data), uint16(l.SrcPort), uint16(l.DstPort))
			return want, h
		case *layers.SCTP:
			decodeTransport(&want, &h, offset(l), 12, len(data), uint16(l.SrcPort), uint16(l.DstPort))
			return want, h
		case *layers.UDPLite:
			decodeTransport(&want, &h, offset(l), 8, len(data), uint16(l.SrcPort), uint16(l.DstPort))
			return want, h
		default:
			return want, h
		}
	}
	return want, h
}

func decodeIPv4(want *packet.Packet, h *how, l *layers.IPv4) {
	h.flags |= packet.FlagIPOptions
	want.Flags |= packet.FlagIPv4
	want.Proto, want.TTL = uint8(l.Protocol), l.TTL
	if l.IHL > 5 {
		want.Flags |= packet.FlagIPOptions
	}
	if l.Flags&layers.IPv4MoreFragments != 0 || l.FragOffset != 0 {
		want.Flags |= packet.FlagFragment
	}
	if l.FragOffset != 0 {
		want.Flags |= packet.FlagLaterFragment
	}
}

func decodeExtension(want *packet.Packet, l gopacket.Layer) {
	want.Flags |= packet.FlagIPOptions
	switch l := l.(type) {
	case *layers.IPv6HopByHop:
		want.Proto = uint8(l.NextHeader)
	case *layers.IPv6Destination:
		want.Proto = uint8(l.NextHeader)
	case *layers.IPv6Routing:
		want.Proto = uint8(l.NextHeader)
	case *layers.IPSecAH:
		want.Proto = uint8(l.NextHeader)
	case *layers.IPv6Fragment:
		want.Proto = uint8(l.NextHeader)
		if l.MoreFragments || l.FragmentOffset != 0 {
			want.Flags |= packet.FlagFragment
		}
		if l.FragmentOffset != 0 {
			want.Flags |= packet.FlagLaterFragment
		}
	}
}

func decodeTransport(want *packet.Packet, h *how, l4, n uint16, size int, src, dst uint16) {
	h.transport = true
	h.flags |= fPorts
	want.Flags |= fPorts
	want.L4, want.Payload = l4, min(l4+n, uint16(size))
	want.SrcPort, want.DstPort = src, dst
}
