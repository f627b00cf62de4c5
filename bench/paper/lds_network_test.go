package paper

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
)

// ldsTestPackets is what a flow sends in tests of networks.
func ldsTestPackets() int {
	if testing.Short() {
		return 200
	}
	return 600
}

// judge asks about flows between two leaves, each in the class that of names, and compares losses, which have to be exact, and delays: those of
// 200 packets and more are not off by 5 %.
func (n *ldsNetwork) judge(t *testing.T, of func(f *ldsNetworkFlow) string) (lost int) {
	t.Helper()
	e := &query.Engine{Store: n.store}
	for _, f := range n.flows {
		b, err := e.Between(query.Place{Switch: leafID(f.from), Port: -1, Class: of(f)}, query.Place{Switch: leafID(f.to), Port: -1}, &f.key)
		if err != nil {
			t.Fatal(err)
		}
		mean := f.sum / float64(f.delivered)
		if !b.HasLoss || b.Lost != float64(f.lost) || math.Abs(b.Packets-float64(f.sent)) > 0 {
			t.Errorf("%s in class %q: %g of %g packets lost (known: %t), not %d of %d", b.Flow, of(f), b.Lost, b.Packets, b.HasLoss, f.lost, f.sent)
		}
		if !b.HasDelay || math.Abs(b.Delay.Value-mean) > 0.05*mean {
			t.Errorf("%s in class %q: a delay of %g, not %g", b.Flow, of(f), b.Delay.Value, mean)
		}
		lost += f.lost
	}
	return lost
}

// TestLDSClassesByEdgeAndVNI: flows of one tenant are told apart by the edge that sources write into the shim, whatever their source prefix, and
// those of the other by their VNI between the same tunnels' ends. What is of neither is counted.
func TestLDSClassesByEdgeAndVNI(t *testing.T) {
	plan := pintplan.Default()
	plan.ID, plan.Hash, plan.EdgeBits = 9, hash.XX, 8
	file := filepath.Join(t.TempDir(), "plan.toml")
	if err := plan.Save(file); err != nil {
		t.Fatal(err)
	}
	change := func(s *netsim.Switch) {
		p := s.Stages["pint"].(*pint.Config)
		p.Plan = file
		for stage, c := range s.Stages {
			points, ok := c.(*lds.Config)
			if !ok {
				continue
			}
			points.Edges, points.EdgeBits = false, 8
			own := int(s.ID) - 1
			for other := range ldsLeaves {
				from, to := own, other
				if stage == "lds_ingress" {
					from, to = other, own
				}
				if own == other {
					continue
				}
				points.Classes = append(points.Classes, lds.Class{Name: fmt.Sprint("blue", from), Edge: int(leafID(from)), To: ldsPrefix(0, to)})
				for vni := 1; vni <= 2; vni++ {
					points.Classes = append(points.Classes, lds.Class{Name: fmt.Sprint("red", vni), VNI: vni, From: ldsPrefix(1, from), To: ldsPrefix(1, to)})
				}
			}
		}
	}
	n, err := newLDSNetwork(5, hash.XX, 3, ldsTestPackets(), change)
	if err != nil {
		t.Fatal(err)
	}
	class, unclassed := map[query.Key]string{}, 0
	for i, f := range n.flows {
		if f.key.Src[1] == 11 { // blue, from a network that no route tells
			f.key.Src = [16]byte{10, 11, byte(90 + f.from), byte(1 + i)}
			class[f.key] = fmt.Sprint("blue", f.from)
			continue
		}
		vni := i % 3
		f.key.DstPort = 4789
		f.frame[36], f.frame[37] = 4789>>8, 4789&0xff
		copy(f.frame[42:], []byte{8, 0, 0, 0, 0, 0, byte(vni), 0})
		if class[f.key] = fmt.Sprint("red", vni); vni == 0 {
			unclassed += f.packets
		}
	}
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	all, none := n.flows, []*ldsNetworkFlow(nil)
	n.flows = nil
	for _, f := range all {
		if class[f.key] != "red0" {
			n.flows = append(n.flows, f)
		} else {
			none = append(none, f)
		}
	}
	if lost := n.judge(t, func(f *ldsNetworkFlow) string { return class[f.key] }); lost == 0 {
		t.Error("no packet was lost")
	}
	got := 0.0
	for _, modules := range n.modules {
		modules[1].Metrics(func(m pipeline.Metric) {
			if m.Name == "unclassed_packets_total" {
				got += m.Value
			}
		})
	}
	if got != float64(unclassed) || unclassed == 0 {
		t.Errorf("%g packets of no class, not %d", got, unclassed)
	}
	// A key says nothing of VNIs, so where two classes have its prefixes the question has to name one.
	f := none[0]
	_, err = (&query.Engine{Store: n.store}).Between(query.Place{Switch: leafID(f.from), Port: -1}, query.Place{Switch: leafID(f.to), Port: -1}, &f.key)
	if err == nil || !strings.Contains(err.Error(), "name one") {
		t.Errorf("a flow of two possible classes: %v", err)
	}
}

// TestLDSPathChange: flows whose paths change in the middle of an interval, as a leaf's routes do, and whose ways there and back differ, keep
// exact losses and right delays, and no cell of a class without losses is refused.
func TestLDSPathChange(t *testing.T) {
	n, err := newLDSNetwork(6, hash.XX, 2, ldsTestPackets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, f := range n.flows {
		total += f.packets
	}
	n.entered = func(packets int) {
		if packets != total/2 {
			return
		}
		for leaf := range ldsLeaves {
			s := leafSwitch(leaf, hash.XX)
			c := *s.Stages["l3"].(*l3.Config)
			for i := range c.Routes {
				c.Routes[i].Via = c.Routes[i].Via[:2] // the other spines are to be serviced
			}
			for _, m := range n.network.Chain(leaf) {
				if router, ok := m.Module.(*l3.Module); ok {
					if err := router.Apply(c); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	if lost := n.judge(t, func(*ldsNetworkFlow) string { return "" }); lost == 0 {
		t.Error("no packet was lost")
	}
	moved, apart := 0, 0
	first := map[[2]int]map[int]bool{}
	for _, f := range n.flows {
		used := 0
		for spine, packets := range f.spines {
			if packets == 0 {
				continue
			}
			used++
			pair := [2]int{f.from, f.to}
			if first[pair] == nil {
				first[pair] = map[int]bool{}
			}
			first[pair][spine] = true
		}
		if used > 1 {
			moved++
		}
	}
	for pair, there := range first {
		back := first[[2]int{pair[1], pair[0]}]
		for spine := range there {
			if !back[spine] {
				apart++
			}
		}
	}
	if moved < len(n.flows)/4 || apart == 0 {
		t.Errorf("%d of %d flows changed their path, %d ways had none back: the test shows nothing", moved, len(n.flows), apart)
	}
	e := &query.Engine{Store: n.store}
	for from := range ldsLeaves {
		for to := range ldsLeaves {
			lossy := from == to
			for _, f := range n.flows {
				lossy = lossy || f.from == from && f.to == to && f.lost > 0
			}
			if lossy {
				continue
			}
			b, err := e.Between(query.Place{Switch: leafID(from), Port: -1}, query.Place{Switch: leafID(to), Port: -1}, nil)
			if err != nil || b.Refused != 0 || b.Cells == 0 || b.Whole < b.Intervals-2 { // the first and the last are not whole
				t.Errorf("leaf %d to %d: %d of %d cells refused, %d of %d intervals whole, %v", from, to, b.Refused, b.Cells, b.Whole, b.Intervals, err)
			}
		}
	}
}
