package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// disketchFig16 measures figure 16: the error of the Count Sketch by the number
// of switches on the path, in the fat tree with unequal memories; and what it
// changes to count flows of one hop in two subepochs (Section 4.4).
func disketchFig16(ctx context.Context, o Options) ([]Row, error) {
	tr, err := dsTreeTraffic(o)
	if err != nil {
		return nil, err
	}
	var t table
	t.describe("synthetic", tr)
	if o.Quick {
		if err := t.fig16(ctx, o, tr, "", 3); err != nil { // A capture does not shrink.
			return nil, err
		}
		err := t.hops(ctx, o)
		return t, err
	}
	if err := t.fig16(ctx, o, tr, "", 5); err != nil {
		return nil, err
	}
	if err := t.hops(ctx, o); err != nil {
		return nil, err
	}
	if tr, err = dsRealmixTraffic(o); err != nil || tr == nil {
		return t, err
	}
	t.describe("realmix", tr)
	err = t.fig16(ctx, o, tr, "realmix.", 2)
	return t, err
}

// fig16Hops are the numbers of switches on paths.
var fig16Hops = []int{1, 3, 5}

// fig16Squares are mean squared errors by the number of switches on the path.
type fig16Squares struct {
	disco   [6]float64
	without [6]float64 // one subepoch for all flows
	with    [6]float64 // two for flows of one hop
	same    [6]float64 // the same with the target that was found for one
	rows    [6]float64 // with, by the paper's composition
}

// fig16Placed are the errors with one placement of the memories.
func (t *dsTraffic) fig16Placed(ctx context.Context, memory []int, seed uint64, trials int) (*fig16Squares, error) {
	disco, err := t.disco(disketch.CountSketch, memory, seed)
	if err != nil {
		return nil, err
	}
	run := dsRun{kind: disketch.CountSketch, memory: memory, seed: seed, trials: trials, ways: []disketch.Composition{disketch.Likeliest, disketch.Rows}}
	without, err := t.run(ctx, run)
	if err != nil {
		return nil, err
	}
	run.singleHop = true
	with, err := t.run(ctx, run)
	if err != nil {
		return nil, err
	}
	run.target = without.target
	same, err := t.run(ctx, run)
	if err != nil {
		return nil, err
	}
	e := new(fig16Squares)
	for _, h := range fig16Hops {
		e.disco[h] = t.squares(disco, h)
		e.without[h] = t.squares(without.estimate[0], h)
		e.with[h] = t.squares(with.estimate[0], h)
		e.same[h] = t.squares(same.estimate[0], h)
		e.rows[h] = t.squares(with.estimate[1], h)
	}
	return e, nil
}

// fig16 adds the rows of a trace, over several placements of the memories.
func (t *table) fig16(ctx context.Context, o Options, tr *dsTraffic, prefix string, placements uint64) error {
	sizes := []struct {
		name   string
		kb     int
		change float64
	}{{"8KB", 8, -0.24}, {"1MB", 1024, -0.13}}
	for i, size := range sizes {
		var sum fig16Squares
		for p := range placements {
			o.progress(i*int(placements)+int(p), len(sizes)*int(placements), prefix+size.name)
			seed := o.Seed + p
			memory := dsMemories(len(tr.net.graph.Nodes), size.kb<<10/o.dsShrink(), true, seed)
			e, err := tr.fig16Placed(ctx, memory, seed, o.runs(4000))
			if err != nil {
				return err
			}
			for _, h := range fig16Hops {
				sum.disco[h] += e.disco[h]
				sum.without[h] += e.without[h]
				sum.with[h] += e.with[h]
				sum.same[h] += e.same[h]
				sum.rows[h] += e.rows[h]
			}
		}
		root := func(x float64) float64 { return math.Sqrt(x / float64(placements)) }
		for _, h := range fig16Hops {
			name := fmt.Sprintf("%s%s.hops%d.rmse.", prefix, size.name, h)
			t.add(name+"disco", "packets", root(sum.disco[h]), "Fig. 16 shows bars", "neither")
			t.add(name+"disketch", "packets", root(sum.without[h]), "one subepoch for all flows", "lower")
			t.add(name+"disketch_mitigated", "packets", root(sum.with[h]), "two subepochs for flows of one hop", "lower")
			t.add(name+"disketch_mitigated_rows", "packets", root(sum.rows[h]), "the same by the paper's composition", "neither")
		}
		t.against(prefix+"single_hop."+size.name+".change", "ratio", root(sum.with[1])/root(sum.without[1])-1, size.change, "DiSketch, Section 6.4; the target is found anew", "lower")
		t.against(prefix+"single_hop."+size.name+".change_same_target", "ratio", root(sum.same[1])/root(sum.without[1])-1, size.change, "with the target that was found for one subepoch", "lower")
		t.add(prefix+"multi_hop."+size.name+".change", "ratio", root(sum.with[5])/root(sum.without[5])-1, "what flows of 5 hops pay; the paper says slightly more error", "lower")
	}
	return nil
}

// dsTreeTraffic is the synthetic trace in the fat tree.
func dsTreeTraffic(o Options) (*dsTraffic, error) {
	trace, err := dsSynthetic(o)
	if err != nil {
		return nil, err
	}
	net, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	return newDSTraffic(net, trace, o.Seed)
}

// dsRealmixTraffic is the capture of the shared data in the fat tree; nil: it is
// not there.
func dsRealmixTraffic(o Options) (*dsTraffic, error) {
	trace, err := dsRealmix(o)
	if err != nil || trace == nil {
		return nil, err
	}
	net, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	return newDSTraffic(net, trace, o.Seed)
}
