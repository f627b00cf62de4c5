package paper

import (
	"context"

	"github.com/weirswitch/weir/bench"
)

// Figure is one measurement of the package.
type Figure struct {
	// Name is what the command line calls it: "pint-fig5".
	Name string
	// About says in one clause what it measures.
	About string
	// Run measures, and gives up with the context's error when the context ends.
	Run func(ctx context.Context, o Options) ([]Row, error)
}

// Figures are all measurements, in the order of the papers.
var Figures = []Figure{
	{"pint-k2", "packets to decode two hops: baseline and interleaved (PINT, Section 4.2)", pintK2},
	{"pint-fig1", "flow completion times of TCP Reno with bytes of telemetry on packets (PINT, Fig. 1)", pintFig1},
	{"pint-fig2", "goodput of long flows (PINT, Fig. 2)", pintFig2},
	{"pint-fig5", "packets to decode 25 hops by each encoding (PINT, Fig. 5)", pintFig5},
	{"pint-fig7", "slowdown and goodput of HPCC on PINT, beside HPCC on INT (PINT, Fig. 7)", pintFig7},
	{"pint-fig8", "slowdown of HPCC where a share of the packets carries the query (PINT, Fig. 8)", pintFig8},
	{"pint-fig9", "error of latency quantiles against packets, with and without a sketch (PINT, Fig. 9)", pintFig9},
	{"pint-fig10", "packets to trace paths on real topologies, beside PPM and AMS2 (PINT, Fig. 10)", pintFig10},
	{"pint-fig11", "path, latency and congestion control together against alone (PINT, Fig. 11)", pintFig11},
	{"pint-int", "bytes, paths, latencies and congestion control, beside header stacks of INT-MD (PINT, 1 and 2)", pintINT},
	{"pint-loops", "false reports of loops (PINT, A.4)", pintLoops},
	{"pint-values", "errors of values in few bits against their bounds (PINT, 4.3 and Appendix C)", pintValues},
	{"pint-crc", "packets to decode with the hashes of P4 targets, beside XXH64", pintCRC},
	{"pint-decode", "digests per second through the path decoder", pintDecode},
	{"disketch-fig2", "memory of a whole sketch for an F1 score of 99 % (DiSketch, Fig. 2)", disketchFig2},
	{"disketch-fig5", "operations, memory and messages, beside DISCO and Distributed Sketch (DiSketch, Fig. 5)", disketchFig5},
	{"disketch-fig6", "heavy hitters by path length, with rows on all switches (DiSketch, Fig. 6)", disketchFig6},
	{"disketch-fig12", "errors of frequencies against memory, beside DISCO and aggregated sketches (DiSketch, Fig. 12)", disketchFig12},
	{"disketch-panels", "figure 12 again, with several placements of the memory and intervals (DiSketch, Fig. 12)", disketchPanels},
	{"disketch-ablation", "what each part of DiSketch contributes, on even, bursty and real traffic", disketchAblation},
	{"disketch-fig13", "error of UnivMon's entropy against memory, beside DISCO (DiSketch, Fig. 13)", disketchFig13},
	{"disketch-fig14", "unequal memories and loads along one path, beside DISCO (DiSketch, Fig. 14)", disketchFig14},
	{"disketch-fig16", "errors by path length, and two subepochs for flows of one hop (DiSketch, Fig. 16)", disketchFig16},
	{"disketch-map", "where subepochs pay: best n by memory and burstiness", disketchMap},
	{"disketch-fragments", "errors by bytes and cost of kinds of fragments", disketchFragments},
	{"oblivious-fig2", "size of the merged sample, packets (routing-oblivious, Fig. 2)", obliviousFig2.run},
	{"oblivious-fig3", "error of the volume in packets, beside HyperLogLog (routing-oblivious, Fig. 3)", obliviousFig3.run},
	{"oblivious-fig4", "error of the volume in bytes, beside CKY (routing-oblivious, Fig. 4)", obliviousFig4.run},
	{"oblivious-fig5", "error of flows' packets, by merge (routing-oblivious, Fig. 5)", obliviousFig5.run},
	{"oblivious-fig6", "error of flows' bytes, by merge (routing-oblivious, Fig. 6)", obliviousFig6.run},
	{"oblivious-fig7", "heavy hitters in packets, by merge (routing-oblivious, Fig. 7)", obliviousFig7.run},
	{"oblivious-fig8", "heavy hitters in bytes, by merge (routing-oblivious, Fig. 8)", obliviousFig8.run},
	{"oblivious-network", "figures 2 to 8 on the same runs (routing-oblivious)", obliviousNetwork},
	{"oblivious-fig9", "updates of the samples over time, packets (routing-oblivious, Fig. 9)", obliviousFig9},
	{"oblivious-fig10", "updates of the samples over time, bytes (routing-oblivious, Fig. 10)", obliviousFig10},
	{"oblivious-fig11", "packets per second through the samplers, q-max beside a heap (routing-oblivious, Fig. 11)", obliviousFig11},
	{"oblivious-fig12", "the same, sampling bytes (routing-oblivious, Fig. 12)", obliviousFig12},
	{"oblivious-bounds", "runs outside the bounds of (epsilon, delta)", obliviousBounds},
	{"lds-sizing", "small collisions by formula and by simulation (LDS, Section 3)", ldsSizing},
	{"lds-fig9", "error of per-flow delays, beside MPE, RLI and the mean (LDS, Fig. 9)", ldsFig9},
	{"lds-fig10", "error of per-flow delays by flow size (LDS, Fig. 10)", ldsFig10},
	{"lds-fig11", "error of per-flow delays under loss (LDS, Fig. 11)", ldsFig11},
	{"lds-fig12", "error of per-flow delays by weight (LDS, Fig. 12)", ldsFig12},
	{"lds-network", "delay and loss per flow over ECMP, between all leaves of a network (LDS, Section 2.1)", ldsNetworkFigure},
	{"later-pint", "paths known and bytes on the wire, digests on first packets of flows, beside all and evenly chosen ones (after DeltaINT)", laterPINT},
	{"later-disketch", "errors of frequencies by fragments of Count Sketch and of TowerSketch, at equal bytes of records (after SketchINT)", laterDiSketch},
	{"later-oblivious", "packets and bytes by one sample, beside a sample of each, at equal entries (after multi-objective sampling)", laterOblivious},
	{"later-lds", "flows that lost packets by name, at equal bytes: cells, FermatSketch, and samples beside it (after ChameleMon)", laterLDS},
}

// Grids are the maps that a figure's rows are drawn as; none: they are drawn as any result.
func Grids(name string, rows []Row) []bench.Grid {
	switch name {
	case "disketch-map":
		return disketchMapGrids(rows)
	case "disketch-fig12":
		return disketchFig12Grids(rows)
	}
	return nil
}
