package tables

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/telemetry/hash"
)

func TestPatch(t *testing.T) {
	x := build(t, load(t, "switch.toml"))
	if action, _ := x.apply(forwardControl + ".forwarding"); action != forwardControl+".use_patch" {
		t.Errorf("forwarding is by %s", action)
	}
	for in, out := range map[uint64]uint64{0: 1, 1: 0, 2: 3, 3: 2} {
		if _, p := x.apply(patchControl+".pairs", in); p["port"] != out {
			t.Errorf("port %d is patched to %d, want %d", in, p["port"], out)
		}
	}
	if len(x.Clones) != 1 || x.Clones[0] != (Clone{1, 510}) {
		t.Errorf("clone sessions %v", x.Clones)
	}
	_, p := x.apply(parseControl + ".parse_config")
	if p["crc_key"] != hash.Key(11) || p["carrier"] != 0 || p["drop"] != 0 {
		t.Errorf("the parser's configuration is %v", p)
	}
}

// TestBridge: for each port and VLAN, what passes, and where it is flooded to, is
// what VLANs of ports mean.
func TestBridge(t *testing.T) {
	x := build(t, load(t, "bridge.toml"))
	carries := func(port, vlan uint64) bool {
		vlans := [][]uint64{1: {10}, 2: {10, 20}, 3: {20, 30}, 4: nil}[port]
		return port == 0 || port == 4 || slices.Contains(vlans, vlan)
	}
	groups := map[uint64][]int{}
	for _, g := range x.Groups {
		groups[uint64(g.ID)] = g.Ports
	}
	for in := range uint64(5) {
		_, port := x.apply(l2Control+".in_ports", in)
		if want := []uint64{0, 10, 4095, 20, 0}[in]; port["vlan"] != want {
			t.Errorf("untagged packets of port %d are in VLAN %d, want %d", in, port["vlan"], want)
		}
		if _, out := x.apply(l2LeaveControl+".out_ports", in); out["vlan"] != port["vlan"] {
			t.Errorf("port %d sends VLAN %d without a tag, want %d", in, out["vlan"], port["vlan"])
		}
		for vlan := range uint64(4096) {
			member, _ := x.apply(l2Control+".members", in, vlan)
			if transparent := in == 0 || in == 4; (member != "") != (!transparent && carries(in, vlan)) {
				t.Fatalf("port %d, VLAN %d: member %q", in, vlan, member)
			}
			if !carries(in, vlan) {
				continue
			}
			var want []int
			for out := range uint64(5) {
				if out != in && carries(out, vlan) {
					want = append(want, int(out))
				}
			}
			_, flood := x.apply(l2Control+".floods", in, vlan)
			if got := groups[flood["group"]]; !slices.Equal(got, want) {
				t.Fatalf("port %d, VLAN %d: flooded to %v, want %v", in, vlan, got, want)
			}
		}
	}
	const mac = 0x02000000000a
	if _, s := x.apply(l2Control+".stations", 10, mac); s["port"] != 1 {
		t.Errorf("the static station is at port %d", s["port"])
	}
	for port := range uint64(5) {
		if action, _ := x.apply(l2Control+".heard", 10, mac, port); action != "NoAction" {
			t.Errorf("a static station that is heard at port %d gives %q", port, action)
		}
	}
	for dst, want := range map[uint64]bool{0x0180c2000000: true, 0x0180c200000f: true, 0x0180c2000010: false, 0x01005e000001: false} {
		if action, _ := x.apply(l2Control+".reserved_groups", dst); (action != "") != want {
			t.Errorf("%#x ends here: %v, want %v", dst, action != "", want)
		}
	}
	_, p := x.apply(parseControl + ".parse_config")
	if p["carrier"] != 1 || p["drop"] != 1 {
		t.Errorf("the parser's configuration is %v, want digests in the identification and malformed packets dropped", p)
	}
}

// TestNoMember: a port without another one in its VLAN floods to nobody.
func TestNoMember(t *testing.T) {
	s := load(t, "bridge.toml")
	s.Ports = s.Ports[:1]
	s.Stages["l2"] = &l2.Config{Ageing: 300e9, TableSize: 10}
	x := build(t, s)
	if action, _ := x.apply(l2Control+".floods", 0, 5); action != l2Control+".no_member" || len(x.Groups) != 0 {
		t.Errorf("a lonely port floods by %s, groups %v", action, x.Groups)
	}
}

// TestRouter: addresses go where the stage's own table says, and flows to the next
// hop that l3.Pick says.
func TestRouter(t *testing.T) { eachFamily(t, "router.toml", testRouter) }

func testRouter(t *testing.T, s *Switch) {
	x := build(t, s)
	m, err := l3.New(*s.Stages["l3"].(*l3.Config), pipeline.Env{ID: s.ID, Ports: s.Ports, Workers: 1, Hash: s.Hash})
	if err != nil {
		t.Fatal(err)
	}
	_, prefixes := m.Tables()
	_, k := x.apply(l3Control + ".l3_config")
	r := rand.New(rand.NewPCG(9, 10))
	chosen := map[string]int{}
	for range 20_000 {
		dst := [][4]byte{{10, byte(r.Uint32N(5)), byte(r.Uint32N(3)), byte(r.Uint32())}, {byte(r.Uint32()), 0, 0, 1}}[r.IntN(2)]
		addr, flow := netip.AddrFrom4(dst), r.Uint32()
		want := longest(prefixes, addr)
		action, p := x.apply(l3Control+".routes4", address(addr).Low)
		if want == nil {
			if action != "" {
				t.Fatalf("%v: %s, want no route", addr, action)
			}
			continue
		}
		kinds := map[l3.TableKind]string{l3.TableForward: "route_by", l3.TableConnected: "route_connected", l3.TableLocal: "route_local", l3.TableDiscard: "route_discard"}
		if action != l3Control+"."+kinds[want.Kind] || want.Kind == l3.TableConnected && p["port"] != uint64(want.Port) {
			t.Fatalf("%v: %s %v, want %+v", addr, action, p, want)
		}
		if want.Kind != l3.TableForward {
			continue
		}
		h := x.hash(k["of_hops"], little(uint64(flow), 8))
		choice, _ := bits.Mul64(uint64(h.a)<<32|uint64(h.b), p["count"])
		_, hop := x.apply(l3Control+".next_hops", p["first_hop"]+choice)
		to := want.Hops[hash.Reduce(s.Hash.Uint64(uint64(s.ID), uint64(flow)), uint64(len(want.Hops)))] // l3.Pick
		if hop["port"] != uint64(to.Port) || hop["mac"] != MAC(to.MAC).Low {
			t.Fatalf("%v, flow %#x: port %d, %#x by the tables, %+v in Go", addr, flow, hop["port"], hop["mac"], to)
		}
		chosen[fmt.Sprint(want.Prefix, to.Address)]++
	}
	for _, name := range []string{"10.1.0.0/16 10.0.2.2", "10.1.0.0/16 10.0.2.3", "10.3.0.0/16 10.0.2.2", "10.3.0.0/16 10.0.1.9"} {
		if chosen[name] == 0 {
			t.Errorf("no flow went by %s: %v", name, chosen)
		}
	}
	_, out := x.apply(l3Control+".out_interfaces", 1)
	if out["mac"] != 0x02aa00000002 || out["bytes"] != 1400 {
		t.Errorf("the right port is %v", out)
	}
	_, in := x.apply(l3Control+".in_interfaces", 0)
	if in["mac"] != MAC(l3.DefaultMAC(s.ID, 0)).Low {
		t.Errorf("the left port is %v", in)
	}
}

// longest is the prefix that a slow search finds.
func longest(all []l3.TablePrefix, a netip.Addr) (best *l3.TablePrefix) {
	for i := range all {
		if p := &all[i]; p.Prefix.Contains(a) && (best == nil || p.Prefix.Bits() > best.Prefix.Bits()) {
			best = p
		}
	}
	return best
}
