package paper

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
)

// TestLaterPINT: of 400 flows of 2 to 41 packets, digests of 8 bytes on the first four packets, and then on few, make the paths of as many certain as such digests on all packets,
// in less than half of the bytes that digests of 2 bytes take on all; these leave the paths of flows of up to eight packets unknown. None is wrong.
func TestLaterPINT(t *testing.T) {
	tree, err := newFatTree()
	if err != nil {
		t.Fatal(err)
	}
	const flows = 400
	paths, err := tree.paths(2*flows, 9, false)
	if err != nil {
		t.Fatal(err)
	}
	var list []laterFlow
	for i := range flows {
		list = append(list, laterFlow{packets: 2 + i%40, path: paths[2*i].numbers(), next: paths[2*i+1].numbers()})
	}
	got := map[string]laterKnown{}
	for _, c := range laterCarryings {
		if c.like == "" {
			if got[c.name], err = c.follow(list, 4); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %+v", c.name, got[c.name])
	}
	all, wide, first := got["all"], got["all_8B"], got["first4_8B"]
	if all.bytes != 8 || wide.bytes != 14 || first.bytes > all.bytes/2 {
		t.Errorf("%g, %g and %g bytes per packet", all.bytes, wide.bytes, first.bytes)
	}
	if first.known < wide.known || wide.known < 0.99 || all.known > 0.9 || all.wrong+wide.wrong+first.wrong != 0 {
		t.Errorf("known are %g of all, %g with wide digests, %g with these on few packets; wrong %g, %g, %g", all.known, wide.known, first.known, all.wrong, wide.wrong, first.wrong)
	}
}

// TestLaterLDS: where five times as many flows lose packets as there is room for, names without samples say nothing, and those with them how many there are, by a sample of some sixteen flows
// and so within three quarters, without a wrong one.
func TestLaterLDS(t *testing.T) {
	f := newLaterFlows(rand.New(rand.NewPCG(5, 5)), 5*laterLostFlows)
	c := lds.Config{Rows: 1, Columns: 64, Virtual: 1, IntervalNs: 1 << 30, LostFlows: laterLostFlows}
	named, wrong, off, _, err := f.measure(c, 6)
	if err != nil || named < 0.005 || wrong != 0 || off > 0.75 {
		t.Errorf("with samples %g are named, %g wrong, and their number is off by %g: %v", named, wrong, off, err)
	}
	c.WholeNames = true
	if named, wrong, off, _, err = f.measure(c, 6); err != nil || named > 0.01 || wrong != 0 || off != 1 {
		t.Errorf("without samples %g are named, %g wrong, and their number is off by %g: %v", named, wrong, off, err)
	}
}
