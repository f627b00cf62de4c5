package parse

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// FuzzParse takes any bytes through the stage: it must not panic, headers must
// agree with the fast path, offsets must lie inside the data, flags must
// agree with each other, and key and id must be had.
func FuzzParse(f *testing.F) {
	for _, c := range packets {
		f.Add(c.data, uint16(max(c.wire-len(c.data), 0)))
		f.Add(withShim(c.data, int(max(c.l3, 14)), 2), uint16(max(c.wire-len(c.data), 0)))
	}
	_, s := newStage(f, DefaultConfig(), allNeeds)
	_, carrier := newStage(f, Config{Malformed: Drop, IPIDCarrier: true}, allNeeds)
	b := newBatch(f, 16)
	f.Fuzz(func(t *testing.T, data []byte, more uint16) {
		if len(data) > 1900 {
			data = data[:1900]
		}
		wire := len(data) + int(more)
		checkPacket(t, data, parseOne(s, b, data, wire))
		dropped := parseOne(carrier, b, data, wire)
		if (dropped.Reason == reasonMalformed) != (dropped.Flags.Has(packet.FlagMalformed)) {
			t.Errorf("flags %b, reason %s", dropped.Flags, dropped.Reason)
		}
	})
}

// TestMutatedPackets does as the fuzzer, with packets of the table: bytes
// changed, cut, and of any length on the wire.
func TestMutatedPackets(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	_, s := newStage(t, DefaultConfig(), allNeeds)
	b := newBatch(t, 16)
	plain := 0
	for range 200000 {
		data := append([]byte(nil), packets[r.IntN(len(packets))].data...)
		if len(data) > 14 && r.IntN(3) == 0 {
			data = withShim(data, 14, 1+r.IntN(8))
		}
		for range r.IntN(4) {
			// The link and IP headers, where the decisions fall, most of all.
			data[12+r.IntN(min(len(data), 60)-12)] = byte(r.Uint32() >> r.IntN(8))
		}
		if r.IntN(3) == 0 {
			data = data[:r.IntN(len(data)+1)]
		}
		wire := len(data)
		switch r.IntN(4) {
		case 0:
			wire += r.IntN(1500)
		case 1:
			wire = r.IntN(wire + 1) // a broken capture
		}
		got := parseOne(s, b, data, wire)
		checkPacket(t, data, got)
		if got.Flags&^packet.FlagShim == plainFlags && len(data) >= plainLen {
			plain++
		}
		if t.Failed() {
			t.Fatalf("packet %x, %d bytes on the wire", data, wire)
		}
	}
	if plain < 5000 {
		t.Errorf("only %d packets took the fast path", plain)
	}
}

// checkPacket checks what must hold for every parsed packet.
func checkPacket(t *testing.T, data []byte, got packet.Packet) {
	t.Helper()
	if len(data) < 14 {
		if got.Reason != reasonRunt {
			t.Errorf("%d bytes: reason %s", len(data), got.Reason)
		}
		return
	}
	slow := packet.Packet{Len: got.Len, WireLen: got.WireLen}
	fault := headers(&slow, data)
	again := got
	again.ID, again.FlowHash, again.Arrival, again.OutPort = 0, 0, 0, 0
	if again != slow {
		t.Errorf("the loop and headers differ:\n%s", cmp.Diff(slow, again))
	}
	if got.Reason == 0 {
		var w packet.IDBlock
		words := w.Fill(data, &got, false)
		if want := hash.Bytes(0, bytesOf(w[:words])); got.ID != want {
			t.Errorf("id %016x, want %016x", got.ID, want)
		}
	}
	has, n := got.Flags.Has, uint16(len(data))
	for _, rule := range []struct {
		what  string
		holds bool
	}{
		{"L3 is behind the link header and inside", got.L3 >= 14 && got.L3 <= n},
		{"malformed if and only if there is a fault", has(packet.FlagMalformed) == (fault != NoFault)},
		{"one IP version", got.Flags&packet.FlagIP != packet.FlagIP},
		{"IPv4 has its EtherType", !has(packet.FlagIPv4) || got.EtherType == 0x0800 && got.L3+20 <= n},
		{"IPv6 has its EtherType", !has(packet.FlagIPv6) || got.EtherType == 0x86dd && got.L3+40 <= n},
		{"ARP has its EtherType", !has(packet.FlagARP) || got.EtherType == 0x0806 && got.L3+28 <= n},
		{"L4 is part of IP", !has(packet.FlagL4) || has(packet.FlagIP)},
		{"headers are in order and inside", !has(packet.FlagL4) || got.L3 < got.L4 && got.L4 <= got.Payload && got.Payload <= n},
		{"no offsets without L4", has(packet.FlagL4) || got.L4 == 0 && got.Payload == 0},
		{"ports are part of L4", !has(packet.FlagPorts) || has(packet.FlagL4) && got.Payload >= got.L4+8},
		{"no ports without the flag", has(packet.FlagPorts) || got.SrcPort == 0 && got.DstPort == 0},
		{"a later fragment is a fragment without L4", !has(packet.FlagLaterFragment) || has(packet.FlagFragment) && !has(packet.FlagL4)},
		{"a fragment is IP", !has(packet.FlagFragment|packet.FlagIPOptions) || has(packet.FlagIP)},
		{"QinQ is VLAN", !has(packet.FlagQinQ) || has(packet.FlagVLAN)},
		{"broadcast is multicast", !has(packet.FlagBroadcast) || has(packet.FlagMulticast)},
		{"no VLAN without the flag", has(packet.FlagVLAN) || got.VLAN == 0 && (got.L3 == 14 || has(packet.FlagShim))},
		{"no malformed L4", !has(packet.FlagMalformed) || !has(packet.FlagL4)},
	} {
		if !rule.holds {
			t.Errorf("broken: %s; flags %016b, L3 %d, L4 %d, payload %d of %d", rule.what, got.Flags, got.L3, got.L4, got.Payload, n)
		}
	}
	if _, ok := got.Key(data); ok != has(packet.FlagIP) {
		t.Errorf("flow key %v, flags %016b", ok, got.Flags)
	}
	if got.Arrival != 0 {
		t.Errorf("arrival %d from a batch without a clock", got.Arrival)
	}
}
