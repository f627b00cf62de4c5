package traffic

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// with changes the default workload.
func with(change func(*Workload)) Workload {
	w := DefaultWorkload()
	change(&w)
	return w
}

func ipv6(w *Workload) {
	w.Sizes = Fixed(84)
	w.Source.Net = netip.MustParsePrefix("2001:2:0:a::/104")
	w.Destination.Net = netip.MustParsePrefix("2001:2:0:ffff:1:2:3:0/112")
}

// variants are workloads that between them reach each branch of both writers.
func variants() map[string]Workload {
	return map[string]Workload{
		"default":     DefaultWorkload(),
		"one flow":    with(func(w *Workload) { w.Flows = 1 }),
		"10 million":  with(func(w *Workload) { w.Flows = MaxFlows }),
		"zipf":        with(func(w *Workload) { w.Flows, w.Order, w.Exponent = 100_000, Zipf, 1.1 }),
		"round-robin": with(func(w *Workload) { w.Order = RoundRobin }),
		"imix":        with(func(w *Workload) { w.Sizes = IMIX() }),
		"checksum":    with(func(w *Workload) { w.UDPChecksum, w.Run = true, 0xfffe }),
		"reversed":    with(func(w *Workload) { w.Reversed, w.Source.MACs, w.Flows = true, 77, 300_000 }),
		"ipv6":        with(ipv6),
		"ipv6 of a whole link": with(func(w *Workload) {
			ipv6(w)
			w.Flows, w.Source.Net, w.Destination.Net = 300_000, netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("2001:db8:2::/48")
		}),
		"ipv6 reversed imix": with(func(w *Workload) {
			ipv6(w)
			w.Reversed, w.Sizes = true, []int{84, 570, 1518}
		}),
		"spread": with(func(w *Workload) {
			w.Flows, w.Source.MACs, w.Destination.MACs = 1_000_000, 1_000_000, 10_000
			w.Source.MAC = net.HardwareAddr{2, 0, 0xff, 0xff, 0xff, 0xf0} // carries over
		}),
		"narrow": with(func(w *Workload) {
			w.Flows = 5000
			w.Source.Net, w.Destination.Net = netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("10.9.9.9/32")
		}),
		"part": with(func(w *Workload) { w.Flows, w.Part, w.Parts, w.Order = 1001, 2, 3, RoundRobin }),
		"tcp":  with(func(w *Workload) { w.TCP, w.Sizes = true, []int{76, 77, 1518} }),
		"tcp ipv6 reversed": with(func(w *Workload) {
			ipv6(w)
			w.TCP, w.Reversed, w.Sizes = true, true, Fixed(100)
		}),
		"vlan":     with(func(w *Workload) { w.VLANs, w.Sizes = []uint16{4094}, Fixed(68) }),
		"qinq tcp": with(func(w *Workload) { w.VLANs, w.TCP, w.Sizes = []uint16{100, 7}, true, Fixed(200) }),
		"mpls":     with(func(w *Workload) { w.MPLS, w.Sizes = []uint32{16, 1<<20 - 1, 99}, Fixed(128) }),
		"vlan mpls ipv6": with(func(w *Workload) {
			ipv6(w)
			w.VLANs, w.MPLS, w.Sizes = []uint16{5}, []uint32{1000}, Fixed(512)
		}),
		"vxlan": with(func(w *Workload) { w.VXLAN, w.Sizes = tunnel(), []int{114, 1568} }),
		"qinq vxlan ipv6 tcp": with(func(w *Workload) {
			ipv6(w)
			w.VLANs, w.VXLAN, w.TCP, w.Reversed = []uint16{2, 3}, tunnel(), true, true
			w.Sizes = Fixed(w.MinSize())
		}),
	}
}

func tunnel() *VXLAN {
	return &VXLAN{VNI: 0xabcdef, Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("203.0.113.200")}
}

func TestVariantsAreValid(t *testing.T) {
	for name, w := range variants() {
		if err := w.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateReportsEachFault(t *testing.T) {
	for fault, change := range map[string]func(*Workload){
		"flows: 0":                   func(w *Workload) { w.Flows = 0 },
		"flows: 10000001":            func(w *Workload) { w.Flows = MaxFlows + 1 },
		"parts: 3 of 3":              func(w *Workload) { w.Part, w.Parts = 3, 3 },
		"parts: 1 of 5000":           func(w *Workload) { w.Part, w.Parts = 1, 5000 },
		"VLANs: 3 tags":              func(w *Workload) { w.VLANs, w.Sizes = []uint16{1, 2, 3}, Fixed(100) },
		"VLANs: 4095":                func(w *Workload) { w.VLANs, w.Sizes = []uint16{4095}, Fixed(100) },
		"MPLS: 5 labels":             func(w *Workload) { w.MPLS, w.Sizes = make([]uint32, 5), Fixed(100) },
		"MPLS: label 1048576":        func(w *Workload) { w.MPLS, w.Sizes = []uint32{1 << 20}, Fixed(100) },
		"VXLAN and MPLS":             func(w *Workload) { w.MPLS, w.VXLAN, w.Sizes = []uint32{1}, tunnel(), Fixed(200) },
		"VXLAN: the tunnel's ends":   func(w *Workload) { w.VXLAN, w.Sizes = &VXLAN{}, Fixed(200) },
		"VXLAN: network 16777216":    func(w *Workload) { w.VXLAN, w.Sizes = tunnel(), Fixed(200); w.VXLAN.VNI = 1 << 24 },
		"sizes: 113":                 func(w *Workload) { w.VXLAN, w.Sizes = tunnel(), Fixed(113) },
		"order: Order(3)":            func(w *Workload) { w.Order = 3 },
		"exponent: 0":                func(w *Workload) { w.Order = Zipf },
		"clock: 2":                   func(w *Workload) { w.Clock = 2 },
		"group address":              func(w *Workload) { w.Source.MAC = net.HardwareAddr{1, 0, 0, 0, 0, 0} },
		"is not 6 bytes":             func(w *Workload) { w.Destination.MAC = nil },
		"MAC addresses: 1001":        func(w *Workload) { w.Source.MACs = 1001 },
		"sizes: 63 is not between":   func(w *Workload) { w.Sizes = []int{63} },
		"sizes: 83 is not between":   func(w *Workload) { ipv6(w); w.Sizes = []int{83} },
		"sizes: 9019 is not":         func(w *Workload) { w.Sizes = []int{9019} },
		"sizes: 0 of them":           func(w *Workload) { w.Sizes = nil },
		"different families":         func(w *Workload) { w.Source.Net, w.Sizes = netip.MustParsePrefix("2001:db8::/112"), Fixed(84) },
		"source network":             func(w *Workload) { w.Source.Net = netip.MustParsePrefix("10.0.0.1/16") },
		"destination network":        func(w *Workload) { w.Destination.Net = netip.Prefix{} },
		"too small for 100000 flows": func(w *Workload) { w.Flows, w.Source.Net = 100_000, netip.MustParsePrefix("10.0.0.0/32") },
	} {
		err := with(change).Validate()
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("want a fault with %q, got: %v", fault, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("one mistake, but several faults: %v", err)
		}
	}
	both := with(func(w *Workload) { w.Flows, w.Clock = 0, 9; w.Source.MAC = nil }).Validate()
	if n := strings.Count(both.Error(), "\n"); n < 2 {
		t.Errorf("not all faults at once: %v", both)
	}
}

func TestIMIXProportion(t *testing.T) {
	count := map[int]int{}
	for _, size := range IMIX() {
		count[size]++
	}
	if count[64] != 7 || count[570] != 4 || count[1518] != 1 || len(count) != 3 {
		t.Errorf("sizes occur as %v, want 7:4:1", count)
	}
}

func TestParseOrder(t *testing.T) {
	for _, o := range []Order{Uniform, Zipf, RoundRobin} {
		if got, err := ParseOrder(o.String()); err != nil || got != o {
			t.Errorf("%v: got %v, %v", o, got, err)
		}
	}
	if _, err := ParseOrder("pareto"); err == nil {
		t.Error("an unknown order was taken")
	}
}
