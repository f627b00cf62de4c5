package forward

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// TestWire measures a Linux bridge between two veths as a device of the user's own: the figures are there and do not contradict
// each other, and nothing of the user's is gone afterwards. How large they are depends on the machine.
func TestWire(t *testing.T) {
	netnstest.Require(t)
	c := DefaultWire()
	r, err := newRig(Cores{}, OnSource, traffic.DefaultWorkload(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	running, err := startBridge(r, deviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = running.stop() }()
	c.TX, c.RX, c.TXNamespace, c.RXNamespace = outside, outside, r.left.Name(), r.right.Name()
	c.Sizes, c.Trial, c.Trials, c.Precision, c.Core = []int{64, 512}, 30*time.Millisecond, 1, 0.5, traffic.AnyCore
	report, err := RunWire(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Sizes {
		if s.MRR <= 0 || s.Offered <= 0 || len(s.Loss) == 0 || s.Burst < 1 || s.Throughput > 0 && len(s.Latency) != 4 {
			t.Errorf("%+v", s)
		}
		for _, l := range s.Latency {
			if l.Least > l.P50 || l.P50 > l.P99 || l.P99 > l.P999 {
				t.Errorf("%+v", l)
			}
		}
	}
	var text, page, table strings.Builder
	if err := errors.Join(report.WriteText(&text), report.WriteHTML(&page), report.WriteCSV(&table)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(table.String())).ReadAll()
	if err != nil || len(rows) < 20 {
		t.Errorf("%d lines of CSV, %v", len(rows), err)
	}
	if strings.Count(page.String(), "<svg") != 3 || strings.Contains(page.String(), "ZgotmplZ") || !strings.Contains(text.String(), "NO TRIAL OF RFC 2544: trials last 30ms, not 1m0s (section 24); 5 of the 7 frame sizes") {
		t.Errorf("%s\n%s", &page, &text)
	}
	for _, ns := range []*netns.Namespace{r.left, r.right} {
		if _, err := ns.Link(outside); err != nil {
			t.Error(err)
		}
	}
}

// bridged is a namespace with a bridge between two veth pairs, dut0 and dut1, whose far ends are tx and rx.
func bridged(t *testing.T, prefix string) *netns.Namespace {
	t.Helper()
	netnstest.Require(t)
	ns := netnstest.New(t, prefix)
	ends := func(a, b string) error {
		return netns.AddVeth(netns.End{Namespace: ns, Name: a}, netns.End{Namespace: ns, Name: b}, netns.Veth{})
	}
	for _, err := range []error{
		ns.DisableIPv6(), ends("tx", "dut0"), ends("rx", "dut1"), ns.AddBridge("br", "dut0", "dut1"),
		ns.SetUp("tx"), ns.SetUp("rx"), ns.SetUp("dut0"), ns.SetUp("dut1"), ns.SetUp("br"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ns
}

// TestWireOverPlainVeth: a veth whose far end has neither an XDP program nor generic receive offload, as a bridge's port is at first, takes no
// live frames: the device is measured through an AF_XDP socket, and the report says so.
func TestWireOverPlainVeth(t *testing.T) {
	ns := bridged(t, "wwp")
	c := DefaultWire()
	c.TX, c.RX, c.TXNamespace, c.RXNamespace = "tx", "rx", ns.Name(), ns.Name()
	c.Sizes = []int{64, 1519}
	long := "frames of 1519 bytes are longer than " + ns.Name() + "/rx carries, 1518 with its MTU of 1500: choose smaller ones, or raise the MTU of all interfaces on the way (ip link set dev rx mtu 1501)"
	if _, err := RunWire(context.Background(), c); err == nil || !strings.Contains(err.Error(), long) {
		t.Errorf("above the MTU: %v, want %s", err, long)
	}
	c.Sizes = nil // the seven, up to 1518
	both, err := c.Look()
	if err != nil || len(both) != 2 || both[0].Name != "tx" || both[1].Namespace != ns.Name() || both[1].Driver != "veth" || both[1].MTU != 1500 {
		t.Errorf("%+v, %v", both, err)
	}
	c.Sizes, c.Trial, c.Trials, c.Precision, c.Core = []int{64}, 20*time.Millisecond, 1, 0.5, traffic.AnyCore
	neighbour := exec.Command("sh", "-c", "while :; do :; done")
	if err := neighbour.Start(); err != nil {
		t.Fatal(err)
	}
	report, err := RunWire(context.Background(), c)
	_ = neighbour.Process.Kill()
	_ = neighbour.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
	if a := report.Sizes[0].Activity; a.Others <= 0 || report.Activity.Others <= 0 || report.Sizes[0].Busy != a.Busy() {
		t.Errorf("another process was busy all the time: %+v, of all %+v", a, report.Activity)
	}
	r := &rig{tx: &traffic.Port{Namespace: ns, Interface: "tx"}, rx: &traffic.Port{Namespace: ns, Interface: "rx"}}
	if err := errors.Join(r.linked(linkWait), ns.SetDown("dut1"), r.linked(0)); err != nil {
		t.Error(err)
	}
	if err := r.linked(linkWait); err == nil || !strings.Contains(err.Error(), "rx: the link is down (ip link set dev rx up), or has no carrier") {
		t.Errorf("a far end that is down: %v", err)
	}
	if s := report.Sizes[0]; s.MRR <= 0 || !strings.HasPrefix(s.Source, "af_xdp") || !strings.Contains(strings.Join(s.Remarks(), "; "), "sent by af_xdp") {
		t.Errorf("%+v", s)
	}
}

// TestWireOfLimit measures a device that is slower than any source: a bridge whose second port sends 1 Mbit/s, with a queue and a bucket of 14 KiB
// in all. No trial without loss can have carried more than both allow, whatever else the machine does, and a full load loses frames.
func TestWireOfLimit(t *testing.T) {
	ns := bridged(t, "wwl")
	port, err := ns.Link("dut1")
	if err != nil {
		t.Fatal(err)
	}
	const rate, bucket, queue = 1e6 / 8, 4096, 10240 // bytes per second, bytes
	err = ns.Netlink().QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: port.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       rate, Buffer: netlink.Xmittime(rate, bucket), Limit: queue,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultWire()
	c.TX, c.RX, c.TXNamespace, c.RXNamespace = "tx", "rx", ns.Name(), ns.Name()
	c.Sizes, c.Trial, c.Trials, c.Precision = []int{512}, 100*time.Millisecond, 1, 0.05
	report, err := RunWire(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := report.Sizes[0]
	const frame = 512 - traffic.FCS
	most := (rate*c.Trial.Seconds() + bucket + queue + frame) / frame / c.Trial.Seconds()
	if s.Throughput > 1.01*most || s.MRR > 1.01*most || s.mrrLimited() || s.Loss[0].Loss < 0.5 {
		t.Errorf("more than %.0f frames per second, which the limit allows: %+v", most, s)
	}
	// Ten frames fit in bucket and queue whatever the machine does: at the lowest rates nothing is lost.
	if n := len(s.Loss); s.Loss[n-1].Loss != 0 || s.Loss[n-2].Loss != 0 || !slices.IsSortedFunc(s.Loss, func(a, b LossPoint) int { return cmp.Compare(b.Rate, a.Rate) }) {
		t.Errorf("the curve does not end at 0, or is not in order: %+v", s.Loss)
	}
	// A throughput below the limit, on a busy machine, leaves some of what is forwarded meanwhile in the buffer.
	if held := (bucket + queue) / frame; s.BurstLimited || s.BurstRate <= 0 || s.BufferFrames > 2*float64(held) {
		t.Errorf("the device holds %d frames: %+v", held, s)
	}
}

// TestWireLossRates: the rates go down by a tenth of what the source sends or less, and by a tenth of what arrives below 1.2 times that, so that
// the curve of a device much slower than the source comes to 0.
func TestWireLossRates(t *testing.T) {
	for _, tt := range []struct{ offered, mrr, least, last float64 }{
		{1e6, 1e6, 100, 1e5}, {1e6, 950e3, 100, 95e3}, {1e6, 1e4, 100, 1e3}, {1e6, 1e5, 100, 1e4}, {1e6, 500, 100, 100}, {1e6, 0, 100, 1e5},
	} {
		s := WireSize{Offered: tt.offered, MRR: tt.mrr}
		all := s.lossRates(tt.least)
		if all[0] != tt.offered || math.Abs(all[len(all)-1]/tt.last-1) > 1e-9 || len(all) > 2*lossSteps+2 {
			t.Errorf("%+v: %v", tt, all)
		}
		for i, rate := range all[1:] {
			most := 0.101 * tt.offered
			if before := all[i]; before <= 1.2*tt.mrr {
				most = 0.101 * tt.mrr
			}
			if down := all[i] - rate; down <= 0 || down > most+0.05*rate {
				t.Errorf("%+v: from %g to %g", tt, all[i], rate)
			}
		}
	}
	s := WireSize{Loss: []LossPoint{{900, 0.6}, {300, 0}, {700, 0.5}}}
	if s.sortLoss(); s.Loss[0].Rate != 900 || s.Loss[2].Rate != 300 {
		t.Errorf("not in order: %+v", s.Loss)
	}
}

// TestWireInterrupted: a measurement that is interrupted ends at once, leaves the interfaces as they were, and keeps what was complete, marked so.
func TestWireInterrupted(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "wwi")
	ends := func(a, b string) error {
		return netns.AddVeth(netns.End{Namespace: ns, Name: a}, netns.End{Namespace: ns, Name: b}, netns.Veth{})
	}
	for _, err := range []error{
		ns.DisableIPv6(), ends("tx", "dut0"), ends("rx", "dut1"), ns.AddBridge("br", "dut0", "dut1"),
		ns.SetUp("tx"), ns.SetUp("rx"), ns.SetUp("dut0"), ns.SetUp("dut1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for complete, rounds := range []int{1, 1, 2, 2} {
		ctx, interrupt := context.WithCancel(context.Background())
		c := DefaultWire()
		c.TX, c.RX, c.TXNamespace, c.RXNamespace = "tx", "rx", ns.Name(), ns.Name()
		c.Sizes, c.Trial, c.Trials, c.Precision, c.Rounds = []int{64, 512}, 20*time.Millisecond, 1, 0.5, rounds
		c.Progress = func(done, _ int, what string) {
			if done == complete && strings.HasSuffix(what, "throughput") {
				interrupt()
			}
		}
		report, err := RunWire(ctx, c)
		interrupt()
		if !errors.Is(err, context.Canceled) || (report == nil) != (complete == 0) {
			t.Fatalf("after %d: %+v, %v", complete, report, err)
		}
		for _, name := range []string{"tx", "rx"} {
			link, err := ns.Link(name)
			if err != nil || link.Attrs().Xdp != nil && link.Attrs().Xdp.Attached {
				t.Errorf("%s is not as it was: %+v, %v", name, link, err)
			}
		}
		if report == nil {
			continue
		}
		want := fmt.Sprintf("interrupted after %d of %d measurements", complete, 2*rounds)
		var text, page, table strings.Builder
		if err := errors.Join(report.WriteText(&text), report.WriteHTML(&page), report.WriteCSV(&table)); err != nil {
			t.Fatal(err)
		}
		for _, out := range []*strings.Builder{&text, &page, &table} {
			if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "INCOMPLETE") {
				t.Errorf("%q is not in %s", want, out)
			}
		}
		if len(report.Sizes) != min(complete, 2) || report.Sizes[0].MRR <= 0 {
			t.Errorf("after %d: %+v", complete, report)
		}
	}
}

// TestWireRounds: of several rounds the one of the median throughput is reported, and each round that is a result is compared.
func TestWireRounds(t *testing.T) {
	r := WireReport{}
	for _, throughput := range []float64{400, 100, 300, 200, 900} {
		s := WireSize{Size: 64, Offered: 900, MRR: 500, Throughput: throughput, Burst: throughput / 10, Latency: []WireLatency{{Share: 0.5, Rate: throughput / 2, P50: 10, P99: 20, P999: 30}}}
		s.judge() // 900 is above what arrived
		r.Rounds = append(r.Rounds, []WireSize{s})
	}
	r.conclude()
	if s := r.Sizes[0]; s.Throughput != 200 || s.Burst != 20 || s.Rounds != 4 || s.Low != 100 || s.High != 400 || !strings.Contains(strings.Join(s.Remarks(), "; "), "median of 4 rounds, 100 to 400") {
		t.Errorf("%+v: %s", s, strings.Join(s.Remarks(), "; "))
	}
	if s := (WireSize{Rounds: 1, Low: 100, High: 100}); !strings.Contains(strings.Join(s.Remarks(), "; "), "the only round that is a result") || strings.Contains(strings.Join(s.Remarks(), "; "), "1 rounds") {
		t.Error(strings.Join(s.Remarks(), "; "))
	}
	runs, invalid := r.Runs()
	got := map[string][]float64{}
	for _, x := range runs {
		got[x.Metric] = x.Values
	}
	if invalid != 1 || !slices.Equal(got["64B.throughput"], []float64{400, 100, 300, 200}) || len(got["64B.latency_p99_at_50"]) != 4 || len(got) != 6 {
		t.Errorf("%d invalid, %v", invalid, got)
	}
	one := WireReport{Rounds: [][]WireSize{{{Size: 64, Throughput: 7}}}}
	if one.conclude(); one.Rounds != nil || one.Sizes[0].Throughput != 7 || one.Sizes[0].Rounds != 0 {
		t.Errorf("%+v", one)
	}
}

// TestWireReached: of a source that is the limit, and was held up in the search, each trial without loss counts.
func TestWireReached(t *testing.T) {
	for _, tt := range []struct {
		limited    bool
		rate, loss float64
		want       float64
	}{{true, 136e3, 0, 136e3}, {true, 136e3, 0.1, 80e3}, {false, 136e3, 0, 9730}, {true, 900e3, 0, 812e3}} {
		s := WireSize{Line: 812e3, Limited: tt.limited, Throughput: 9730, Loss: []LossPoint{{100e3, 0.2}, {80e3, 0}, {60e3, 0}}}
		if s.reached(tt.rate, tt.loss); s.Throughput != tt.want {
			t.Errorf("%+v: %g", tt, s.Throughput)
		}
	}
}

// TestWirePage: the diagrams of a report have their points within the frame, and axes with round ticks.
func TestWirePage(t *testing.T) {
	r := WireReport{TX: "eth1", RX: "eth2", Speed: 10e9, Sizes: []WireSize{
		{Size: 64, Line: 14.88e6, MRR: 320e3, Throughput: 310e3, Loss: []LossPoint{{900e3, 0.6}, {300e3, 0}, {700e3, 0.5}}, Latency: []WireLatency{{Share: 0.1, P99: 9e3}, {Share: 1, P99: 80e3}}},
		{Size: 1518, Line: 812e3, MRR: 250e3, Throughput: 240e3, Loss: []LossPoint{{700e3, 0.5}, {210e3, 0}}, Latency: []WireLatency{{Share: 0.1, P99: 12e3}, {Share: 1, P99: 4e6}}},
	}}
	for _, d := range r.diagrams() {
		if len(d.XTicks) < 3 || len(d.XTicks) > 12 || len(d.YTicks) < 3 || len(d.YTicks) > 12 {
			t.Errorf("%s: ticks %v, %v", d.Title, d.XTicks, d.YTicks)
		}
		for _, l := range d.Lines {
			if xs := strings.Fields(l.Points); !slices.IsSortedFunc(xs, func(a, b string) int {
				var x, y float64
				_, _ = fmt.Sscanf(a, "%g,", &x)
				_, _ = fmt.Sscanf(b, "%g,", &y)
				return cmp.Compare(x, y)
			}) {
				t.Errorf("%s: %s runs back: %v", d.Title, l.Name, xs)
			}
			for _, point := range strings.Fields(l.Points) {
				var x, y float64
				if _, err := fmt.Sscanf(point, "%g,%g", &x, &y); err != nil || x < 0 || x > 640 || y < 0 || y > 240 {
					t.Errorf("%s, %s: %s, %v", d.Title, l.Name, point, err)
				}
			}
		}
	}
	var page strings.Builder
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">100 kfps<", ">10 Mfps<", ">600 B<", ">20 %<", ">100 %<", ">10 us<", ">1 ms<"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%s is not in the page: %s", want, &page)
		}
	}
	for most, want := range map[float64][]float64{1: {0, 0.2, 0.4, 0.6, 0.8, 1}, 3: {0, 0.5, 1, 1.5, 2, 2.5, 3}, 1518: {0, 200, 400, 600, 800, 1000, 1200, 1400}, 60: {0, 10, 20, 30, 40, 50, 60}, 0: {0, 0.2, 0.4, 0.6, 0.8, 1}} {
		a := linearAxis(most)
		if len(a.ticks) != len(want) || math.Abs(a.ticks[1]-want[1]) > 1e-9 {
			t.Errorf("%g: %v, want %v", most, a.ticks, want)
		}
	}
}

// TestWireHandOver: the page says what was measured, with what, and when; the CSV marks what is no result or was set by the source.
func TestWireHandOver(t *testing.T) {
	at := []WireLatency{{Share: 0.5, Rate: 400, P50: 5, P99: 7}}
	r := WireReport{
		Device: "ACME 4800 <2>", TX: "eth1", RX: "eth2", Weir: "weir v1.2.3", Command: "weir bench forward --tx eth1 --rx eth2", Began: time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC),
		Interfaces: []WireInterface{{Name: "eth1", Driver: "ice", Firmware: "4.20", Bus: "0000:17:00.0", MTU: 1500}, {Name: "eth2", Namespace: "far", MTU: 9000}},
		Machine:    bench.Machine{CPU: "AMD EPYC, 2 cores", Kernel: "6.18"},
		Sizes: []WireSize{
			{Size: 64, Throughput: 800, Offered: 2000, MRR: 900, Burst: 10, Latency: at},
			{Size: 128, Throughput: 800, Offered: 900, MRR: 900, Burst: 10, Limited: true, BurstLimited: true, Latency: at},
			{Size: 256, Throughput: 800, Offered: 2000, MRR: 700, Burst: 10, Latency: at, Invalid: "it is none"},
		},
	}
	var text, page, table strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page), r.WriteCSV(&table)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ACME 4800 &lt;2&gt;, eth1 to eth2", "eth1: driver ice, firmware 4.20, bus 0000:17:00.0, MTU 1500", "eth2: driver unknown, namespace far, MTU 9000", "weir v1.2.3",
		"weir bench forward --tx eth1 --rx eth2", "AMD EPYC, 2 cores", "Linux 6.18", "2026-11-27 09:00:00 UTC", "<td>source-limited</td>", `<td class="invalid">INVALID</td>`,
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%s is not in the page: %s", want, &page)
		}
	}
	if !strings.HasPrefix(text.String(), "ACME 4800 <2>, eth1 to eth2, link ") {
		t.Errorf("%s", &text)
	}
	rows, err := csv.NewReader(strings.NewReader(table.String())).ReadAll()
	if err != nil || !slices.Equal(rows[0], []string{"frame_bytes", "figure", "at", "value", "unit", "mark"}) {
		t.Fatalf("%v: %v", rows[0], err)
	}
	for _, row := range rows[1:] {
		want := map[string]string{"256": bench.Invalid}[row[0]]
		if figure := row[1]; row[0] == "128" && figure != "source" && figure != "line" && figure != "burst_rate" && !strings.HasSuffix(figure, "_share") {
			want = bench.SourceLimited
		}
		if row[5] != want {
			t.Errorf("%v: want %q", row, want)
		}
	}
}

// TestWireFaults: what cannot be measured is refused before anything is sent.
func TestWireFaults(t *testing.T) {
	c := DefaultWire()
	c.TX, c.RX, c.Trials, c.Sizes = "eth0", "eth0", 2, []int{20}
	err := c.Validate()
	for _, want := range []string{"--rx eth0: that is --tx, too", "--trials 2: choose an odd number", "--size 20: choose 64 to 9018"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	s := WireSize{Size: 64, MRR: 278_100, Throughput: 304_500}
	if s.judge(); !strings.HasPrefix(s.Invalid, "throughput 304500 is above") || !strings.HasPrefix(strings.Join(s.Remarks(), "; "), "INVALID: ") {
		t.Errorf("%+v", s)
	}
}

// TestWireContradictions: figures that cannot be true together are INVALID, and what was not measured is not shown as 0.
func TestWireContradictions(t *testing.T) {
	all := []WireLatency{{Share: 0.1, Rate: 900, P99: 1}, {Share: 0.5, Rate: 900, P99: 1}, {Share: 0.9, Rate: 900, P99: 1}, {Share: 1, Rate: 900, P99: 1}}
	lost := func(i int, loss float64) []WireLatency {
		l := slices.Clone(all)
		l[i].Loss = loss
		return l
	}
	for _, tt := range []struct {
		what            string
		throughput, mrr float64
		offered         float64
		latency         []WireLatency
		invalid, remark string
	}{
		{"good", 800, 850, 900, all, "", ""},
		{"the source was slower at a full load, which lost nothing", 872, 600, 600, all, "", "source-limited"},
		{"nothing of a full load arrives", 872, 0, 900, all, "throughput 872 is above what arrived of a full load, 0", "INVALID"},
		{"all is lost at a tenth", 872, 900, 950, lost(0, 1), "at 10 % of the throughput, at which nothing is to be lost, 100.0 % of the frames", "INVALID"},
		{"much is lost at the throughput", 872, 900, 950, lost(3, 0.24), "at 100 % of the throughput, at which nothing is to be lost, 24.0 % of the frames", "INVALID"},
		{"little is lost at the throughput", 872, 900, 950, lost(3, 0.0004), "", "unconfirmed: 0.04 % lost again at 100 % of the throughput, where latency was measured"},
		{"everything is lost", 0, 0, 900, nil, "the device loses frames at any rate", "INVALID"},
	} {
		s := WireSize{Size: 64, Throughput: tt.throughput, MRR: tt.mrr, Offered: tt.offered, Latency: tt.latency}
		if s.judge(); !strings.HasPrefix(s.Invalid, tt.invalid) || (tt.invalid == "") != (s.Invalid == "") {
			t.Errorf("%s: INVALID %q", tt.what, s.Invalid)
		}
		if !strings.Contains(strings.Join(s.Remarks(), "; "), tt.remark) || tt.remark == "" && strings.Join(s.Remarks(), "; ") != "" {
			t.Errorf("%s: remarks %q", tt.what, strings.Join(s.Remarks(), "; "))
		}
	}
	for _, s := range []Sample{{NDR: found{Rate: 872}}, {PDR: found{Rate: 872}}} {
		if !strings.Contains(s.Invalid(), "872 is above mrr 0") {
			t.Errorf("of devices of ours: %q", s.Invalid())
		}
	}
	r := WireReport{Sizes: []WireSize{{Size: 64, Throughput: 872, MRR: 900, Latency: []WireLatency{{Share: 0.5, Rate: 400, Loss: 1}}}}}
	var text, page, table strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page), r.WriteCSV(&table)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), " 0.0 ") || !strings.Contains(page.String(), "<td>100.0000 %</td><td>-</td><td>-</td>") ||
		!strings.Contains(table.String(), "64,latency_p50,50 % of throughput,,ns,source-limited\n") || !strings.Contains(table.String(), "64,latency_loss,50 % of throughput,1,share,source-limited\n") {
		t.Errorf("%s\n%s\n%s", &text, &page, &table)
	}
	if runs, _ := r.Runs(); slices.ContainsFunc(runs, func(x bench.Runs) bool { return strings.Contains(x.Metric, "latency") }) {
		t.Errorf("a latency that was not measured is compared: %+v", runs)
	}
}

// TestWireNoResult: a measurement fails of which no size has a result, and only then.
func TestWireNoResult(t *testing.T) {
	good, none := WireSize{Size: 64}, WireSize{Size: 64, Invalid: "it is none"}
	for _, tt := range []struct {
		sizes []WireSize
		fails bool
	}{{[]WireSize{good, good}, false}, {[]WireSize{none, good}, false}, {[]WireSize{none, none}, true}} {
		if err := (&WireReport{Sizes: tt.sizes}).NoResult(); (err != nil) != tt.fails {
			t.Errorf("%+v: %v", tt.sizes, err)
		}
	}
}

// TestWireLeastLoss: a trial of latency that lost frames is made again, three times at most, and the best one counts.
func TestWireLeastLoss(t *testing.T) {
	for _, tt := range []struct {
		losses []float64
		trials int
		want   float64
	}{{[]float64{0}, 1, 0}, {[]float64{0.001}, 1, 0.001}, {[]float64{0.5, 0}, 2, 0}, {[]float64{0.5, 0.3, 0.4, 0.6, 0}, 4, 0.3}} {
		n := 0
		l, err := leastLoss(func() (WireLatency, error) { n++; return WireLatency{Loss: tt.losses[n-1]}, nil })
		if err != nil || n != tt.trials || l.Loss != tt.want {
			t.Errorf("%v: %d trials, %+v, %v", tt.losses, n, l, err)
		}
	}
}

// TestWireArrived: a device that forwards a few frames of a full load, and then none, does not forward at the rate of these.
func TestWireArrived(t *testing.T) {
	tr := trial{sent: traffic.Sent{Packets: 1e6, Elapsed: 2 * time.Second}, got: &traffic.Report{Packets: 256, FirstNs: 1, LastNs: 1e6 + 1}}
	if got := tr.arrived(); got != 128 {
		t.Errorf("256 frames in 2 s: %g", got)
	}
	tr.got = &traffic.Report{Packets: 1_000_001, FirstNs: 1, LastNs: 4e9 + 1} // a long queue drains
	if got := tr.arrived(); got != 250_000 {
		t.Errorf("a million in 4 s: %g", got)
	}
}

// TestWireLatencyRate: a latency that was measured at less than the rate that it is called by says so in the remarks and the CSV.
func TestWireLatencyRate(t *testing.T) {
	s := WireSize{Size: 64, Throughput: 684_645, Limited: true, Latency: []WireLatency{{Share: 0.1, Rate: 68_000}, {Share: 0.9, Rate: 500_000}, {Share: 1, Rate: 150_900}}}
	want := "latency at 100 % was measured at 150900 fps, 22 % of the throughput"
	if got := strings.Join(s.Remarks(), "; "); !strings.Contains(got, want) || strings.Contains(got, "latency at 10 %") {
		t.Errorf("%q", got)
	}
	if !strings.Contains(strings.Join(s.Remarks(), "; "), "latency at 90 %") {
		t.Errorf("%q", strings.Join(s.Remarks(), "; "))
	}
	var csv strings.Builder
	if err := (&WireReport{Sizes: []WireSize{s}}).WriteCSV(&csv); err != nil || !strings.Contains(csv.String(), "64,latency_rate,100 % of throughput,150900,fps,source-limited\n") {
		t.Errorf("%v: %s", err, &csv)
	}
	s.Latency[1].Rate, s.Latency[2].Rate = 0.97*0.9*s.Throughput, s.Throughput
	if got := strings.Join(s.Remarks(), "; "); strings.Contains(got, "latency") {
		t.Errorf("%q", got)
	}
}

// TestWireDepartures: each form of the report says where its trials fall short of RFC 2544.
func TestWireDepartures(t *testing.T) {
	quick, long := DefaultWire(), DefaultWire()
	quick.Quick()
	long.Trial, long.Rounds = 120*time.Second, 20
	for _, tt := range []struct {
		c    Wire
		want []string
	}{
		{quick, []string{"trials last 200ms, not 1m0s (section 24)", "4 of the 7 frame sizes are left out (9.1)", "the search for the throughput ends at 5 %", "latency is of 200ms in one trial a round, not of 2m0s in each of 20 (26.2)", "the longest burst is the mean of 5, not of 50 (26.4)"}},
		{DefaultWire(), []string{"trials last 2s, not 1m0s (section 24)", "latency is of 2s in one trial a round, not of 2m0s in each of 20 (26.2)", "the longest burst is the mean of 5, not of 50 (26.4)"}},
		{long, []string{"the longest burst is the mean of 5, not of 50 (26.4)"}},
	} {
		got := tt.c.departures()
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
		r := WireReport{Departures: got, Sizes: []WireSize{{Size: 64, Throughput: 5, MRR: 5, Offered: 9}}}
		var text, page, table strings.Builder
		object, err := json.Marshal(r)
		if err := errors.Join(err, r.WriteText(&text), r.WriteHTML(&page), r.WriteCSV(&table)); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			for _, out := range []string{text.String(), page.String(), table.String(), string(object)} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in %s", want, out)
				}
			}
		}
	}
	var text strings.Builder
	if r := (WireReport{}); r.WriteText(&text) != nil || strings.Contains(text.String(), "NO TRIAL") {
		t.Errorf("%s", &text)
	}
}

// TestWireBounds: in text and page a lower bound is no result, in the tables as in the diagrams.
func TestWireBounds(t *testing.T) {
	at := []WireLatency{{Share: 0.5, Rate: 400, P50: 5e3, P99: 7e3}}
	good := WireSize{Size: 64, Throughput: 800, Offered: 2000, MRR: 900, Burst: 10, Latency: at}
	bound := WireSize{Size: 128, Throughput: 801, Offered: 901, MRR: 901, Burst: 11, Limited: true, BurstLimited: true, Latency: at}
	none := WireSize{Size: 256, Throughput: 802, Offered: 2000, MRR: 700, Burst: 12, Latency: at, Invalid: "it is none"}
	for _, tt := range []struct {
		sizes                  []WireSize
		bounds, crosses, discs int
	}{{[]WireSize{good}, 0, 0, 2}, {[]WireSize{good, bound}, 2, 0, 2}, {[]WireSize{good, bound, none}, 2, 2, 2}} {
		r := WireReport{Sizes: tt.sizes}
		var text, page strings.Builder
		if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page)); err != nil {
			t.Fatal(err)
		}
		p := page.String()
		if strings.Count(p, `class="bound"`) != tt.bounds || strings.Count(p, `class="none"`) != tt.crosses || strings.Count(p, "<circle") != tt.discs {
			t.Errorf("%d sizes: %s", len(tt.sizes), p)
		}
		if strings.Contains(p, `class="legend"`) != (tt.bounds > 0) || strings.Contains(p, "✕ INVALID") != (tt.crosses > 0) || strings.Contains(text.String(), boundMeans) != (tt.bounds > 0) {
			t.Errorf("%d sizes, legends: %s%s", len(tt.sizes), &text, p)
		}
		for _, want := range []string{"≥ 801", "≥ 901", "≥ 11"} {
			if strings.Contains(p, "<td>"+want+"</td>") != (tt.bounds > 0) || strings.Contains(text.String(), want) != (tt.bounds > 0) {
				t.Errorf("%s: %s%s", want, &text, p)
			}
		}
		if tt.bounds > 0 && (!strings.Contains(p, "<title>128 B: ≥ 0.801 kfps, source-limited</title>") || !strings.Contains(p, "<title>50 %: 7 us, source-limited</title>")) {
			t.Errorf("what the marks say: %s", p)
		}
	}
}

// TestWireUnconfirmed: a throughput that lost frames again where latency was measured is marked in text, page and table, and the mark is explained.
func TestWireUnconfirmed(t *testing.T) {
	size := func(loss float64, limited bool, invalid string) *WireReport {
		s := WireSize{Size: 64, Throughput: 800, Offered: 2000, MRR: 900, Limited: limited, Invalid: invalid, Latency: []WireLatency{{Share: 1, Rate: 800, Loss: loss, P99: 7e3}}}
		return &WireReport{Sizes: []WireSize{s}}
	}
	for _, tt := range []struct {
		r           *WireReport
		mark        string
		hollow      int
		legend      bool
		remarkBegin string
	}{
		{size(0, false, ""), "", 0, false, ""},
		{size(0.001, false, ""), "unconfirmed", 1, true, "unconfirmed: 0.1 % lost again at 100 %"},
		{size(0.001, true, ""), "source-limited", 0, true, "source-limited: "},
		{size(0.001, false, "it is none"), "INVALID", 0, false, "INVALID: it is none"},
	} {
		var text, page, table strings.Builder
		if err := errors.Join(tt.r.WriteText(&text), tt.r.WriteHTML(&page), tt.r.WriteCSV(&table)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table.String(), "\n64,throughput,,800,fps,"+tt.mark+"\n") {
			t.Errorf("%q: the table is %s", tt.mark, &table)
		}
		if n := strings.Count(page.String(), `<circle class="again"`); n != tt.hollow || !strings.Contains(page.String(), ">"+tt.mark+"</td></tr>\n</tbody>") {
			t.Errorf("%q: the page is %s", tt.mark, &page)
		}
		if strings.Contains(text.String(), "\n"+unconfirmed+": "+unconfirmedMeans+"\n") != tt.legend || !strings.Contains(text.String(), "\n64 B: "+tt.remarkBegin) != (tt.remarkBegin == "") {
			t.Errorf("%q: the text is %s", tt.mark, &text)
		}
	}
}

// TestWireRemarks: the page has what is to be said of a size below the table, at its full width.
func TestWireRemarks(t *testing.T) {
	r := WireReport{Sizes: []WireSize{{Size: 64, Throughput: 800, MRR: 900, Source: "af_packet", Rounds: 1}, {Size: 128, Throughput: 800, MRR: 900, Invalid: "it is none"}}}
	var page strings.Builder
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	want := `<dl class="remarks">
<dt>64 B</dt><dd><ul><li>the only round that is a result</li><li>sent by af_packet</li></ul></dd>
<dt>128 B</dt><dd class="invalid"><ul><li>INVALID: it is none</li></ul></dd>
</dl>`
	if !strings.Contains(page.String(), want) {
		t.Errorf("%s", &page)
	}
}

// TestWireBuffer: the buffer is by the rate at which bursts were sent: the same device has the same number of frames behind a slow source and a
// fast one, and at the line's rate RFC 9004's time.
func TestWireBuffer(t *testing.T) {
	for _, tt := range []struct {
		what            string
		s               WireSize
		frames, ns, fps float64
		remark          string
	}{
		{"at the line's rate", WireSize{Line: 1e6, Throughput: 5e5, Burst: 2000, BurstRate: 1e6}, 1000, 1e6, 1e6, ""},
		{"a little above it, as the clock has it", WireSize{Line: 1e6, Throughput: 5e5, Burst: 2000, BurstRate: 1.002e6}, 1000, 1e6, 1e6, ""},
		{"a slower source", WireSize{Line: 1e6, Throughput: 5e5, Burst: 6000, BurstRate: 6e5}, 1000, 1e9 / 600, 6e5, "bursts were sent at 600000 fps, 60 % of the line"},
		{"a line of unknown speed", WireSize{Throughput: 5e5, Burst: 6000, BurstRate: 6e5}, 1000, 1e9 / 600, 6e5, ""},
		{"a source that is no faster than the device", WireSize{Line: 1e6, Throughput: 5e5, Burst: 6000, BurstRate: 4e5}, 0, 0, 4e5, "the buffer is unknown: the source sent bursts at 400000 fps, no faster than the device forwards"},
		{"searches that differ", WireSize{Line: 1e6, Throughput: 5e5, Burst: 2000, BurstRate: 1e6, BurstTrials: 5, BurstLeast: 1500, BurstMost: 2200}, 1000, 1e6, 1e6, "the longest bursts of 5 searches were 1500 to 2200 frames"},
		{"no burst was too long", WireSize{Line: 1e6, Throughput: 5e5, Burst: 6000, BurstRate: 6e5, BurstLimited: true}, 0, 0, 6e5, "no burst was too long"},
	} {
		s := tt.s
		s.buffer()
		if math.Abs(s.BufferFrames-tt.frames) > 1e-6 || math.Abs(s.BufferNs-tt.ns) > 1 || s.BurstRate != tt.fps || !strings.Contains(strings.Join(s.Remarks(), "; "), tt.remark) || tt.remark == "" && strings.Join(s.Remarks(), "; ") != "" {
			t.Errorf("%s: %+v, %q", tt.what, s, strings.Join(s.Remarks(), "; "))
		}
	}
}

// TestRecovery: after a burst the device has the time that the burst takes at its throughput, but a fiftieth of a second at least, and a second at most.
func TestRecovery(t *testing.T) {
	for _, tt := range []struct {
		frames     uint64
		throughput float64
		want       time.Duration
	}{
		{77, 7700, 20 * time.Millisecond},
		{1000, 4000, 250 * time.Millisecond},
		{2_000_000, 4000, time.Second},
		{32, 1e6, 20 * time.Millisecond},
		{32, 0, time.Second},
	} {
		if got := recovery(tt.frames, tt.throughput); got != tt.want {
			t.Errorf("%d frames at %g fps: %v, want %v", tt.frames, tt.throughput, got, tt.want)
		}
	}
}
