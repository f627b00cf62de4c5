package query

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestSelect compares sizes and shares of selected flows with the truth.
func TestSelect(t *testing.T) {
	n := newTraffic(t)
	proto, tcp, port := uint8(17), uint8(6), uint16(1003)
	prefix := func(text string) netip.Prefix {
		p, err := ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		s     Selection
		name  string
		truth func(Key) bool
	}{
		{Selection{Src: prefix("10.0.0.5/28")}, "from 10.0.0.0/28", func(k Key) bool { return k.SrcPort < 1016 }},
		{Selection{Dst: prefix("10.0.0.0/24")}, "to 10.0.0.0/24", func(Key) bool { return false }},
		{Selection{Prefix: prefix("10.1.0.1")}, "from or to 10.1.0.1/32", func(Key) bool { return true }},
		{Selection{Proto: &proto, Port: &port}, "udp, port 1003", func(k Key) bool { return k.SrcPort == 1003 }},
		{Selection{Proto: &tcp}, "tcp", func(Key) bool { return false }},
	} {
		v, err := n.engine().Select(&c.s)
		if err != nil {
			t.Fatal(err)
		}
		packets, bytes := 0.0, 0.0
		for k, x := range n.packets {
			if c.truth(k) {
				packets, bytes = packets+x, bytes+n.bytes[k]
			}
		}
		if v.Flows != c.name || !v.Packets.Holds(packets) || !v.Bytes.Holds(bytes) || v.Packets.High > 3*packets+2000 {
			t.Errorf("%s: %+v, truth %g packets, %g bytes", c.name, v, packets, bytes)
		}
		if v.Share == nil || !v.Share.Packets.Holds(packets/n.total) || !v.Share.Bytes.Holds(bytes/n.length) || v.Share.Bytes.High > 1 || v.Share.Bytes.Low < 0 {
			t.Errorf("%s: share %+v, truth %g, %g", c.name, v.Share, packets/n.total, bytes/n.length)
		}
	}
	v, err := n.engine().Select(&Selection{})
	if err != nil || v.Share != nil || v.Flows != "" || !v.Packets.Holds(n.total) {
		t.Errorf("all flows: %+v, %v", v, err)
	}
	if text := new(Selection).String(); text != "all flows" {
		t.Error(text)
	}
	other := Selection{Port: new(uint16)}
	if other.Has(&Key{}) || !other.Has(&Key{Version: 4, SrcPort: 9}) {
		t.Error("port 0 holds other than IP packets without ports")
	}
}

// TestSelectKnowsWhatKeysLack: switches that keep less than the 5-tuple cannot answer
// about the rest, and that is said; packets that are no IP say nothing of it.
func TestSelectKnowsWhatKeysLack(t *testing.T) {
	port, proto := uint16(9), uint8(17)
	p := netip.MustParsePrefix("10.0.0.0/8")
	address := [16]byte{10, 0, 0, 1}
	for _, c := range []struct {
		key    Key
		refuse []Selection
		answer []Selection
	}{
		{Key{Version: 4, Src: address}, []Selection{{Dst: p}, {Prefix: p}, {Port: &port}, {Proto: &proto}}, []Selection{{Src: p}}},
		{Key{Version: 4, Dst: address}, []Selection{{Src: p}, {Prefix: p}, {Port: &port}}, []Selection{{Dst: p}}},
		{Key{Version: 4, Src: address, Dst: address}, []Selection{{Port: &port}}, []Selection{{Src: p}, {Dst: p}, {Prefix: p}}},
		{Key{}, nil, []Selection{{Src: p}, {Port: &port}, {Proto: &proto}}},
	} {
		s := &store.Store{}
		sampler, _ := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 10})
		sampler.Add(1, 100, &c.key)
		sampler.Add(2, 100, &Key{})
		add(t, s, record.Header{Switch: 1, Span: 1 << epochBits, Kind: record.Oblivious}, sampler.Sample().AppendBinary)
		e := &Engine{Store: s}
		for _, x := range c.refuse {
			if v, err := e.Select(&x); err == nil || !strings.Contains(err.Error(), "5-tuple") {
				t.Errorf("keys %s, flows %s: %+v, %v", FormatKey(c.key), &x, v, err)
			}
		}
		for _, x := range c.answer {
			if _, err := e.Select(&x); err != nil {
				t.Errorf("keys %s, flows %s: %v", FormatKey(c.key), &x, err)
			}
		}
	}
}

func TestParseSelections(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32", "10.1.2.3/8": "10.0.0.0/8", "::ffff:10.0.0.1": "10.0.0.1/32", "fd00::1%eth0": "fd00::1/128", "fd00::1/16": "fd00::/16",
	} {
		if p, err := ParsePrefix(text); err != nil || p.String() != want {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "10", "10.0.0.0/33", "ten", "10.0.0.0/-1"} {
		if p, err := ParsePrefix(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
	for text, want := range map[string]uint8{"UDP": 17, "tcp": 6, "255": 255, "0": 0} {
		if n, err := ParseProto(text); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "256", "-1", "frog"} {
		if n, err := ParseProto(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
}
