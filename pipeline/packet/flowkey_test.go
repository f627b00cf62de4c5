package packet

import (
	"encoding/binary"
	"testing"
	"unsafe"
)

func TestFlowKey(t *testing.T) {
	first, later := FlagFragment, FlagFragment|FlagLaterFragment
	for _, c := range []struct {
		name  string
		data  []byte
		p     Packet
		text  string
		bytes string // what is hashed
	}{
		{"IPv4", ip4(6, 0, bytes24), Packet{Flags: FlagIPv4, SrcPort: 0x0102, DstPort: 0x0304, Proto: 6},
			"10.0.0.1:258 > 10.0.0.2:772 protocol 6", "0a0000010a000002 0102030406040000"},
		{"IPv4 without ports", ip4(1, 0, bytes24), Packet{Flags: FlagIPv4, Proto: 1},
			"10.0.0.1:0 > 10.0.0.2:0 protocol 1", "0a0000010a000002 0000000001040000"},
		{"IPv4 first fragment", ip4(17, 0x2000, bytes24), Packet{Flags: FlagIPv4 | first, SrcPort: 1, DstPort: 2, Proto: 17},
			"10.0.0.1:0 > 10.0.0.2:0 protocol 17", "0a0000010a000002 0000000011040000"},
		{"IPv4 later fragment", ip4(17, 0x0001, bytes24), Packet{Flags: FlagIPv4 | later, Proto: 17},
			"10.0.0.1:0 > 10.0.0.2:0 protocol 17", "0a0000010a000002 0000000011040000"},
		{"IPv6", ip6(17, bytes24), Packet{Flags: FlagIPv6, SrcPort: 0x0102, DstPort: 0x0304, Proto: 17},
			"[2001:db8::1]:258 > [2001:db8::2]:772 protocol 17", ip6Head[16:] + "0102030411060000"},
		{"IPv6 first fragment, headers behind", ip6(44, bytes24), Packet{Flags: FlagIPv6 | first, SrcPort: 1, DstPort: 2, Proto: 17},
			"[2001:db8::1]:0 > [2001:db8::2]:0 protocol 44", ip6Head[16:] + "000000002c060000"},
		{"IPv6 later fragment, headers behind", ip6(44, bytes24), Packet{Flags: FlagIPv6 | later, Proto: 60},
			"[2001:db8::1]:0 > [2001:db8::2]:0 protocol 44", ip6Head[16:] + "000000002c060000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, ok := c.p.Key(c.data)
			if !ok || k.String() != c.text {
				t.Errorf("key %v, %v; want %s", k, ok, c.text)
			}
			words, n := k.Words()
			var got []byte
			for _, w := range words[:n] {
				got = binary.LittleEndian.AppendUint64(got, w)
			}
			if want := unhex(c.bytes); string(got) != string(want) {
				t.Errorf("hashed as %x, want %x", got, want)
			}
			var direct [keyWords6]uint64
			if c.p.Flags.Has(FlagIPv4) {
				direct[0], direct[1] = c.p.KeyWords4(c.data)
			} else {
				direct[0], direct[1], direct[2], direct[3], direct[4] = c.p.KeyWords6(c.data)
			}
			if direct != words {
				t.Errorf("the packet gives words %x, its key %x", direct, words)
			}
		})
	}
	if _, ok := (&Packet{}).Key(nil); ok {
		t.Error("a packet without IP has a flow key")
	}
}

// TestFlowKeySize keeps the key dense: keys fill the tables of the telemetry.
// A key without padding is compared and hashed as plain memory.
func TestFlowKeySize(t *testing.T) {
	if n := unsafe.Sizeof(FlowKey{}); n != 38 {
		t.Errorf("a FlowKey has %d bytes, want 38", n)
	}
}

func TestKeyAndIDAllocateNothing(t *testing.T) {
	data := ip4(6, 0, bytes24)
	p := Packet{Flags: FlagIPv4 | FlagL4, L4: 20, Payload: 40, Proto: 6}
	var b IDBlock
	seen := map[FlowKey]int{}
	if k, ok := p.Key(data); ok {
		seen[k] = 1
	}
	if n := testing.AllocsPerRun(100, func() {
		k, _ := p.Key(data)
		seen[k]++
		b.Fill(data, &p, false)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
