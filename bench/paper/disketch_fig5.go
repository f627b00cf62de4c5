package paper

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// disketchFig5 counts what figure 5 shows as resources of a Tofino: what a packet on a full-length path costs all switches
// together, in hash functions, cells written and tables looked up, and what a switch needs and sends. Memory for cells is
// equal. Numbers of paths are those of the fat tree of the simulation, and of the paper's of k = 28.
func disketchFig5(ctx context.Context, o Options) ([]Row, error) {
	net, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	o.Quick = true
	scenarios, err := dsScenarios(o)
	if err != nil {
		return nil, err
	}
	tr := scenarios[0].traffic
	memory := dsMemories(len(net.graph.Nodes), 64<<10/dsAblationShrink, true, o.Seed)
	out, err := tr.run(ctx, dsRun{kind: disketch.CountSketch, how: dsAutonomous, memory: memory, seed: o.Seed, trials: 500, wanted: tr.some(net.full), ways: []disketch.Composition{disketch.Likeliest}})
	if err != nil {
		return nil, err
	}
	// Paths through each switch, of flows that there are: what Distributed Sketch has entries for.
	paths := map[string]bool{}
	entries := make([]int, len(net.graph.Nodes))
	for i := range tr.flows {
		key := fmt.Sprint(tr.flows[i].path)
		if paths[key] {
			continue
		}
		paths[key] = true
		for _, node := range tr.flows[i].path {
			entries[node]++
		}
	}
	most := 0
	for _, n := range entries {
		most = max(most, n)
	}
	hops, rows, n := float64(net.full), float64(aggregatedRows), out.subepochs
	var t table
	for _, s := range []struct {
		name, source                              string
		hashes, cells, lookups, messages, entries float64
	}{
		{"countsketch", "a sketch of 5 rows on one switch of the path", rows, rows, 0, 1, 0},
		{"disco", "a row on each switch", hops, hops, 0, 1, 0},
		{"distributed", "by columns: each switch computes all rows' columns, and has an entry for each path", hops * rows, rows, hops, 1, float64(most)},
		{"disketch", fmt.Sprintf("a row on each switch, mean n = %.3g: a second hash where n > 1", n), 2 * hops, hops / n, 0, n, 0},
		{"disketch_n1", "the same with n = 1", hops, hops, 0, 1, 0},
	} {
		t.add(s.name+".hashes", "hashes", s.hashes, "a packet, all switches of its path; "+s.source, "lower")
		t.add(s.name+".cells", "cells", s.cells, "written for a packet, at most", "lower")
		t.add(s.name+".lookups", "lookups", s.lookups, "of a path's widths, a packet", "lower")
		t.add(s.name+".table_entries", "entries", s.entries, "of a switch, the most", "lower")
		t.add(s.name+".messages", "messages", s.messages, "of a switch, an epoch", "lower")
	}
	const k = 28
	t.against("distributed.table_entries_k28", "entries", k*k*k*(k-1)/8.0, 74088, "DiSketch, Section 3", "lower")
	return t, nil
}
