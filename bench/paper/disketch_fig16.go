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

// fig16 adds the rows of a trace, over several placements of the memories.
func (t *table) fig16(ctx context.Context, o Options, tr *dsTraffic, prefix string, placements uint64) error {
	hops := []int{1, 3, 5}
	sizes := []struct {
		name   string
		kb     int
		change float64
	}{{"8KB", 8, -0.24}, {"1MB", 1024, -0.13}}
	for i, size := range sizes {
		var disco, without, with, same, rows [6]float64
		for p := range placements {
			o.progress(i*int(placements)+int(p), len(sizes)*int(placements), prefix+size.name)
			seed := o.Seed + p
			memory := dsMemories(len(tr.net.graph.Nodes), size.kb<<10/o.dsShrink(), true, seed)
			d, err := tr.disco(disketch.CountSketch, memory, seed)
			if err != nil {
				return err
			}
			run := dsRun{kind: disketch.CountSketch, memory: memory, seed: seed, trials: o.runs(4000), ways: []disketch.Composition{disketch.Likeliest, disketch.Rows}}
			a, err := tr.run(ctx, run)
			if err != nil {
				return err
			}
			run.singleHop = true
			b, err := tr.run(ctx, run)
			if err != nil {
				return err
			}
			run.target = a.target
			c, err := tr.run(ctx, run)
			if err != nil {
				return err
			}
			for _, h := range hops {
				same[h] += tr.squares(c.estimate[0], h)
				disco[h] += tr.squares(d, h)
				without[h] += tr.squares(a.estimate[0], h)
				with[h] += tr.squares(b.estimate[0], h)
				rows[h] += tr.squares(b.estimate[1], h)
			}
		}
		root := func(x float64) float64 { return math.Sqrt(x / float64(placements)) }
		for _, h := range hops {
			name := fmt.Sprintf("%s%s.hops%d.rmse.", prefix, size.name, h)
			t.add(name+"disco", "packets", root(disco[h]), "Fig. 16 shows bars", "neither")
			t.add(name+"disketch", "packets", root(without[h]), "one subepoch for all flows", "lower")
			t.add(name+"disketch_mitigated", "packets", root(with[h]), "two subepochs for flows of one hop", "lower")
			t.add(name+"disketch_mitigated_rows", "packets", root(rows[h]), "the same by the paper's composition", "neither")
		}
		t.against(prefix+"single_hop."+size.name+".change", "ratio", root(with[1])/root(without[1])-1, size.change, "DiSketch, Section 6.4; the target is found anew", "lower")
		t.against(prefix+"single_hop."+size.name+".change_same_target", "ratio", root(same[1])/root(without[1])-1, size.change, "with the target that was found for one subepoch", "lower")
		t.add(prefix+"multi_hop."+size.name+".change", "ratio", root(with[5])/root(without[5])-1, "what flows of 5 hops pay; the paper says slightly more error", "lower")
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
