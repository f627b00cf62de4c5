package main

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
)

// TestParallelPathsLab: a router spreads each flow over two paths, packet by packet. With a checksum in the plan the sink tells both paths of each flow, certain ones right
// and none else. The two have one checksum of 16 bits with a probability of 2^-15, which this plan's seed excludes.
func TestParallelPathsLab(t *testing.T) {
	flows, packets := 40, 120
	if testing.Short() {
		flows = 8
	}
	file := filepath.Join(t.TempDir(), "plan.toml")
	path := pintplan.Default().Queries[0]
	p, err := pintplan.New(pintplan.Config{ID: 4, Seed: 4, Bits: path.Bits + 16, Queries: []pint.Query{path,
		{Name: "checksum", Value: pint.SwitchID, Aggregation: pint.Checksum, Bits: 16, Frequency: 1}}})
	if err == nil {
		err = p.Save(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := diamondOfRouters(file, "any")
	for old, new := range map[string]string{
		"[[switch.config.stages.l3.interface]]\nport = \"p0\"\naddresses = [\"10.0.12.2/24\"": "[switch.config.stages.l3]\necmp = \"packet\"\n$&",
		`via = ["10.0.23.3"]`: `via = ["10.0.23.3", "10.0.26.6"]`,
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is there %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, strings.Replace(new, "$&", old, 1), 1)
	}
	l := newPintLab(t, text, [2][2]string{{"10.0.1.2", "fd00:1::2"}, {"10.0.9.2", "fd00:9::2"}})
	l.ping(4, 20) // so that all know each other on both ways: packets that wait for a neighbour carry no digest
	l.settle()
	to := l.packetConn(1, "udp", l.bound(1, 0, udpTo))
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.address[1][0], udpTo))
	for i := range flows {
		l.exchange(l.packetConn(0, "udp", l.bound(0, 0, udpFrom+1+i)), to, at, packets, func(int) []byte { return make([]byte, 100) })
	}
	var a struct{ Paths query.PathAnswer }
	of := func() (all []query.FlowPath) {
		for _, f := range a.Paths.Flows {
			if strings.HasSuffix(f.Flow, fmt.Sprintf(":%d udp", udpTo)) && f.Packets >= uint64(packets)*9/10 { // some may wait for a neighbour, or be sent again
				all = append(all, f)
			}
		}
		return all
	}
	l.patiently(func() bool {
		a.Paths = query.PathAnswer{}
		l.ask("r5", "paths", &a)
		return len(of()) == flows
	})
	want := [][]string{{"1", "2", "3", "4", "5"}, {"1", "2", "6", "4", "5"}}
	for _, f := range of() {
		sum := uint64(0)
		for _, p := range f.Parallel {
			sum += p.Packets
			if !p.Certain || !slices.ContainsFunc(want, func(w []string) bool { return slices.Equal(w, p.Switches) }) {
				t.Errorf("%s: %+v", f.Flow, p)
			}
		}
		if len(f.Parallel) != 2 || sum != f.Packets || slices.Equal(f.Parallel[0].Switches, f.Parallel[1].Switches) {
			t.Errorf("%s: %+v", f.Flow, f)
		}
	}
	if n := len(of()); n != flows {
		t.Errorf("%d flows, not %d: %+v", n, flows, a)
	}
	out, err := weirCommand("ctl", "--socket", filepath.Join(lab.Root, l.name, "r5.sock"), "show", "paths", "--limit", "1").Output()
	if err != nil || !strings.Contains(string(out), "takes 2 paths at once:") {
		t.Errorf("%v: %s", err, out)
	}
}
