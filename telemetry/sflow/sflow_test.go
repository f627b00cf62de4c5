package sflow

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	decoder "github.com/netsampler/goflow2/v2/decoders/sflow"
)

// agents are addresses of both versions.
var agents = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}

// TestDecoders: goflow2, and gopacket where it knows the record, read what was encoded, for headers of all lengths up to the bound.
func TestDecoders(t *testing.T) {
	var d Datagram
	for _, agent := range agents {
		for length := 1; length <= MaxHeader; length++ {
			flow := Flow{
				Source: 5, Sequence: 9, Rate: 1000, Pool: 1 << 31, Drops: 3, Input: 5, Output: DropUnknown, Length: 9000,
				Header: bytes.Repeat([]byte{byte(length)}, length),
			}
			count := Counters{
				Source: 7, Sequence: 4, Name: "port"[:1+length%4], Speed: 25e9, Up: true, InOctets: 1 << 40, InPackets: 1<<33 + 7, InDiscards: 3, InErrors: 4,
				OutOctets: 1 << 41, OutPackets: 8, OutDiscards: 5, OutErrors: 6, Promiscuous: true,
			}
			d.Begin(agent, 1, 77, 123456)
			if !d.AddFlow(&flow) || !d.AddCounters(&count) || d.Samples() != 2 {
				t.Fatal("no room")
			}
			var p decoder.Packet
			if err := decoder.DecodeMessageVersion(bytes.NewBuffer(d.Bytes()), &p); err != nil {
				t.Fatal(err)
			}
			if p.Version != 5 || p.SequenceNumber != 77 || p.SubAgentId != 1 || p.Uptime != 123456 || p.SamplesCount != 2 || !bytes.Equal(p.AgentIP, agent.AsSlice()) {
				t.Fatalf("%+v", p)
			}
			f := p.Samples[0].(decoder.FlowSample)
			raw := f.Records[0].Data.(decoder.SampledHeader)
			if f.Header.SourceIdValue != 5 || f.Header.SampleSequenceNumber != 9 || f.SamplingRate != 1000 || f.SamplePool != 1<<31 || f.Drops != 3 || f.Input != 5 ||
				f.Output != DropUnknown || raw.Protocol != 1 || raw.FrameLength != 9004 || raw.Stripped != 4 || raw.OriginalLength != uint32(length) ||
				!bytes.Equal(raw.HeaderData[:length], flow.Header) {
				t.Fatalf("%+v", f)
			}
			c := p.Samples[1].(decoder.CounterSample)
			i := c.Records[0].Data.(decoder.IfCounters)
			want := decoder.IfCounters{
				IfIndex: 7, IfType: 6, IfSpeed: 25e9, IfDirection: 1, IfStatus: 3, IfInOctets: 1 << 40, IfInUcastPkts: 7, IfInMulticastPkts: 1<<32 - 1,
				IfInBroadcastPkts: 1<<32 - 1, IfInDiscards: 3, IfInErrors: 4, IfInUnknownProtos: 1<<32 - 1, IfOutOctets: 1 << 41, IfOutUcastPkts: 8,
				IfOutMulticastPkts: 1<<32 - 1, IfOutBroadcastPkts: 1<<32 - 1, IfOutDiscards: 5, IfOutErrors: 6, IfPromiscuousMode: 1,
			}
			if c.Header.SourceIdValue != 7 || c.Header.SampleSequenceNumber != 4 || !reflect.DeepEqual(i, want) {
				t.Fatalf("%+v", c)
			}
			g := gopacket.NewPacket(d.Bytes(), layers.LayerTypeSFlow, gopacket.NoCopy)
			s, ok := g.Layer(layers.LayerTypeSFlow).(*layers.SFlowDatagram)
			if agent.Is4() && (!ok || len(s.FlowSamples) != 1 || s.FlowSamples[0].SamplingRate != 1000) {
				t.Fatalf("gopacket: %+v, %v", s, g.ErrorLayer())
			}
		}
	}
}

// TestFull: a datagram takes what fits its bound, and is as it was after what does not.
func TestFull(t *testing.T) {
	var d Datagram
	d.Begin(agents[1], 0, 1, 0)
	f := Flow{Header: make([]byte, MaxHeader)}
	n := 0
	for d.AddFlow(&f) {
		n++
	}
	if n != d.Samples() || n < 3 || len(d.Bytes()) > MaxDatagram {
		t.Errorf("%d samples, %d bytes", n, len(d.Bytes()))
	}
	for d.AddCounters(&Counters{Name: string(make([]byte, 100))}) {
	}
	var p decoder.Packet
	if err := decoder.DecodeMessageVersion(bytes.NewBuffer(d.Bytes()), &p); err != nil || len(p.Samples) != d.Samples() {
		t.Errorf("%v, %d samples of %d", err, len(p.Samples), d.Samples())
	}
	if allocs := testing.AllocsPerRun(100, func() {
		d.Begin(agents[0], 0, 1, 0)
		d.AddFlow(&f)
		d.Bytes()
	}); allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzFlow: any header and numbers are read back.
func FuzzFlow(f *testing.F) {
	f.Add([]byte("header"), uint32(1), uint32(2), uint32(3))
	f.Fuzz(func(t *testing.T, header []byte, rate, pool, length uint32) {
		var d Datagram
		d.Begin(agents[0], 0, 1, 0)
		if !d.AddFlow(&Flow{Source: rate, Rate: rate, Pool: pool, Length: length, Header: header}) {
			t.Fatal("one sample does not fit")
		}
		var p decoder.Packet
		if err := decoder.DecodeMessageVersion(bytes.NewBuffer(d.Bytes()), &p); err != nil {
			t.Fatal(err)
		}
		s := p.Samples[0].(decoder.FlowSample)
		h := s.Records[0].Data.(decoder.SampledHeader)
		n := min(len(header), MaxHeader)
		if s.SamplePool != pool || h.OriginalLength != uint32(n) || !bytes.Equal(h.HeaderData[:n], header[:n]) {
			t.Errorf("%+v", s)
		}
	})
}
