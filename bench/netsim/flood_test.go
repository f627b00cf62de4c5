package netsim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/pint"
)

// shimmed is a frame as a host may forge it: with a shim of the given first
// bytes behind its addresses.
func shimmed(f []byte, head ...byte) []byte {
	out := binary.BigEndian.AppendUint16(bytes.Clone(f[:12]), header.TypeShim)
	return append(append(out, head...), f[12:]...)
}

func broadcast(f []byte) []byte {
	for i := range 6 {
		f[i] = 0xff
	}
	return f
}

// tag puts VLAN tags of the given types behind the addresses.
func tag(f []byte, types ...uint16) []byte {
	out := bytes.Clone(f[:12])
	for i, typ := range types {
		out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, typ), uint16(i+1))
	}
	return append(out, f[12:]...)
}

// TestFlooded: what hosts send to all arrives at all other hosts as it was sent,
// also where it looks like the network's own. No digest that a host wrote
// reaches a recorder.
func TestFlooded(t *testing.T) {
	frames := newCache(t)
	b := packet.NewBatch(frames, 64)
	edges := []string{"h1", "h2"}
	var switches []Switch
	for i := range 3 {
		c := pint.DefaultConfig()
		if i != 1 {
			c.Edge = edges
		}
		switches = append(switches, Switch{ID: uint32(i + 1), Ports: []string{"h1", "h2", "x", "y"}, Graph: []string{"parse", "l2", "pint"}, Stages: map[string]any{"pint": &c}})
	}
	n, err := NewNetwork(switches, []Cable{{{0, 2}, {1, 0}}, {{1, 1}, {2, 2}}}, frames)
	if err != nil {
		t.Fatal(err)
	}
	keepDigests(n)
	plan := []byte{1<<4 | 1, 3, 0, 1, 0xde, 0xad} // version, hop, plan 1 of two bytes, digest
	arp := append(broadcast(make([]byte, 12)), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2)
	arp[6] = 2
	hosts := []End{{0, 1}, {0, 3}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {2, 3}}
	for _, c := range []struct {
		name string
		f    []byte
	}{
		{"arp", arp},
		{"plain", broadcast(frame(1, 2, 1))},
		{"tagged", tag(broadcast(frame(1, 2, 2)), 0x8100)},
		{"qinq", tag(broadcast(frame(1, 2, 3)), 0x88a8, 0x8100)},
		{"forged", shimmed(broadcast(frame(1, 2, 4)), plan...)},
		{"forged and tagged", tag(shimmed(broadcast(frame(1, 2, 5)), plan...), 0x8100)},
		{"forged, hop 255", shimmed(broadcast(frame(1, 2, 6)), 1<<4|1, 255, 0, 1, 0, 0)},
		{"another version", shimmed(broadcast(frame(1, 2, 7)), 2<<4|1, 1, 0, 1, 0, 0)},
		{"foreign plan", shimmed(broadcast(frame(1, 2, 8)), 1<<4|7, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"cut shim", append(broadcast(frame(1, 2, 9))[:12], 0x88, 0xb5, 1<<4|7, 1, 0)},
	} {
		ends, data := send(t, n, frames, b, End{0, 0}, c.f, 1e9)
		for i, end := range ends {
			core := end == End{0, 3} || end == End{2, 3} || end.Switch == 1 // ports that lead nowhere
			if !core && !bytes.Equal(data[i], c.f) {
				t.Errorf("%s: at %v % x\nnot % x", c.name, end, data[i], c.f)
			}
		}
		slices.SortFunc(ends, func(a, b End) int { return 4*(a.Switch-b.Switch) + a.Port - b.Port })
		if !slices.Equal(ends, hosts) {
			t.Errorf("%s leaves at %v", c.name, ends)
		}
	}
	for _, sw := range []int{0, 2} {
		for _, a := range pathsAt(t, n, sw) {
			if a.Strays != 0 || a.Changes != 0 {
				t.Errorf("switch %d: %+v", sw+1, a)
			}
		}
	}
}
