package forward

import (
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"

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
	if strings.Count(page.String(), "<svg") != 3 || strings.Contains(page.String(), "ZgotmplZ") || strings.Count(text.String(), "\n") != 5 {
		t.Errorf("%s\n%s", &page, &text)
	}
	for _, ns := range []*netns.Namespace{r.left, r.right} {
		if _, err := ns.Link(outside); err != nil {
			t.Error(err)
		}
	}
}

// TestWireOverPlainVeth: a veth whose far end has neither an XDP program nor generic receive offload, as a bridge's port is at first, takes no
// live frames: the device is measured through an AF_XDP socket, and the report says so.
func TestWireOverPlainVeth(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "wwp")
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
	c := DefaultWire()
	c.TX, c.RX, c.TXNamespace, c.RXNamespace = "tx", "rx", ns.Name(), ns.Name()
	c.Sizes, c.Trial, c.Trials, c.Precision, c.Core = []int{64}, 20*time.Millisecond, 1, 0.5, traffic.AnyCore
	report, err := RunWire(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if s := report.Sizes[0]; s.MRR <= 0 || !strings.HasPrefix(s.Source, "af_xdp") || !strings.Contains(s.Remarks(), "sent by af_xdp") {
		t.Errorf("%+v", s)
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
	if s.judge(); !strings.HasPrefix(s.Invalid, "throughput 304500 is above") || !strings.HasPrefix(s.Remarks(), "INVALID: ") {
		t.Errorf("%+v", s)
	}
}
