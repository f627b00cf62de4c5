package packet

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
)

// The IP headers of the layout tests: every field has a value of its own.
const (
	ip4Head = "45b8002cabcd2005400611110a0000010a000002"
	ip6Head = "6ab123450018063d" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002"
	bytes24 = "000102030405060708090a0b0c0d0e0f1011121314151617"
)

// ip4 returns an IPv4 packet with a protocol, flags and offset, and a payload.
func ip4(proto byte, frag uint16, payload string) []byte {
	b := unhex(ip4Head + payload)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[6:], frag)
	b[9] = proto
	return b
}

func ip6(proto byte, payload string) []byte {
	b := unhex(ip6Head + payload)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	b[6] = proto
	return b
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// TestIDLayout spells out the drawings of IDBlock. Packets begin at L3 = 0.
func TestIDLayout(t *testing.T) {
	tcp := bytes24[:24] + "60" + bytes24[26:40] + "0a0b0c0d" // header of 24 bytes
	v4, v6 := FlagIPv4|FlagL4, FlagIPv6|FlagL4
	for _, c := range []struct {
		name    string
		data    []byte
		p       Packet
		carrier bool
		want    string
	}{
		{"TCP", ip4(6, 0, tcp+"f0f1f2f3f4f5f6f7f8"), Packet{Flags: v4, L4: 20, Payload: 44, Proto: 6}, false,
			"0a0000010a000002 0600abcd00000035 0001020304050607 08090a0b600d1011 f0f1f2f3f4f5f6f7"},
		{"TCP with 7 bytes", ip4(6, 0x4000, tcp+"f0f1f2f3f4f5f6"), Packet{Flags: v4, L4: 20, Payload: 44, Proto: 6}, false,
			"0a0000010a000002 0600abcd00000033 0001020304050607 08090a0b600d1011 0000000000000000"},
		{"TCP with 7 bytes and padding", append(ip4(6, 0, tcp+"f0f1f2f3f4f5f6"), 1, 2, 3), Packet{Flags: v4, L4: 20, Payload: 44, Proto: 6}, false,
			"0a0000010a000002 0600abcd00000033 0001020304050607 08090a0b600d1011 0000000000000000"},
		{"UDP", ip4(17, 0, bytes24), Packet{Flags: v4, L4: 20, Payload: 28, Proto: 17}, false,
			"0a0000010a000002 1100abcd0000002c 0001020304050607 0000000000000000 08090a0b0c0d0e0f"},
		{"ICMP", ip4(1, 0, bytes24), Packet{Flags: v4, L4: 20, Payload: 28, Proto: 1}, false,
			"0a0000010a000002 0100abcd0000002c 0001020304050607 0000000000000000 08090a0b0c0d0e0f"},
		{"SCTP", ip4(132, 0, bytes24), Packet{Flags: v4, L4: 20, Payload: 32, Proto: 132}, false,
			"0a0000010a000002 8400abcd0000002c 0001020304050607 08090a0b00000000 0c0d0e0f10111213"},
		{"DCCP", ip4(33, 0, bytes24), Packet{Flags: v4, L4: 20, Payload: 36, Proto: 33}, false,
			"0a0000010a000002 2100abcd0000002c 0001020304050607 08090a0b0c0d0e0f 1011121314151617"},
		{"ESP", ip4(50, 0, bytes24), Packet{Flags: v4, L4: 20, Payload: 20, Proto: 50}, false,
			"0a0000010a000002 3200abcd0000002c 0001020304050607 08090a0b0c0d0e0f 1011121314151617"},
		{"later fragment", ip4(17, 0x3fff, bytes24), Packet{Flags: FlagIPv4 | FlagFragment | FlagLaterFragment, Proto: 17}, false,
			"0a0000010a000002 1100abcd1fff002c 0001020304050607 08090a0b0c0d0e0f 1011121314151617"},
		{"malformed TCP", ip4(6, 0, bytes24), Packet{Flags: FlagIPv4 | FlagMalformed, Proto: 6}, false,
			"0a0000010a000002 0600abcd0000002c 0001020304050607 08090a0b0c0d0e0f 1011121314151617"},
		{"no payload", ip4(17, 0, ""), Packet{Flags: FlagIPv4 | FlagMalformed, Proto: 17}, false,
			"0a0000010a000002 1100abcd00000014 0000000000000000 0000000000000000 0000000000000000"},
		{"atomic, ipid carrier", ip4(17, 0x4000, bytes24), Packet{Flags: v4, L4: 20, Payload: 28, Proto: 17}, true,
			"0a0000010a000002 110000000000002c 0001020304050607 0000000000000000 08090a0b0c0d0e0f"},
		{"not atomic, ipid carrier", ip4(17, 0x0000, bytes24), Packet{Flags: v4, L4: 20, Payload: 28, Proto: 17}, true,
			"0a0000010a000002 1100abcd0000002c 0001020304050607 0000000000000000 08090a0b0c0d0e0f"},
		{"first fragment with DF, ipid carrier", ip4(17, 0x6000, bytes24), Packet{Flags: v4 | FlagFragment, L4: 20, Payload: 28, Proto: 17}, true,
			"0a0000010a000002 1100abcd0000002c 0001020304050607 0000000000000000 08090a0b0c0d0e0f"},
		{"IPv6 UDP", ip6(17, bytes24), Packet{Flags: v6, L4: 40, Payload: 48, Proto: 17}, false,
			ip6Head[16:] + "1100000000180000 0001020304050607 0000000000000000 08090a0b0c0d0e0f"},
		{"IPv6 TCP behind options", ip6(60, "0600000000000000"+tcp+"f0f1f2f3f4f5f6f7"),
			Packet{Flags: v6 | FlagIPOptions, L4: 48, Payload: 72, Proto: 6}, false,
			ip6Head[16:] + "0600000000280000 0001020304050607 08090a0b600d1011 f0f1f2f3f4f5f6f7"},
		{"IPv6 first fragment", ip6(44, "11000001deadbeef"+bytes24),
			Packet{Flags: v6 | FlagIPOptions | FlagFragment, L4: 48, Payload: 56, Proto: 17}, false,
			ip6Head[16:] + "1100000000200000 11000001deadbeef 0001020304050607 08090a0b0c0d0e0f"},
		{"IPv6 later fragment", ip6(44, "11000551deadbeef"+bytes24[:24]),
			Packet{Flags: FlagIPv6 | FlagIPOptions | FlagFragment | FlagLaterFragment, Proto: 17}, false,
			ip6Head[16:] + "1100000000140000 11000551deadbeef 0001020304050607 0000000000000000"},
		{"other", unhex(bytes24 + bytes24), Packet{}, false,
			"0001020304050607 08090a0b0c0d0e0f 1011121314151617 0001020304050607"},
		{"short other", unhex(bytes24), Packet{L3: 14}, false,
			"0e0f101112131415 1617000000000000 0000000000000000 0000000000000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := IDBlock{1, 2, 3, 4, 5, 6, 7, 8} // what an earlier packet left behind
			n := b.Fill(c.data, &c.p, c.carrier)
			var got []byte
			for _, w := range b[:n] {
				got = binary.LittleEndian.AppendUint64(got, w)
			}
			if want := unhex(c.want); string(got) != string(want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
		})
	}
}
