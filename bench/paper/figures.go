package paper

import "context"

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
	{"pint-k2", "packets to decode two hops: baseline and interleaved (PINT, Section 4.2)", PintK2},
	{"pint-fig5", "packets to decode 25 hops by each encoding (PINT, Fig. 5)", PintFig5},
	{"pint-fig9", "error of latency quantiles against packets, with and without a sketch (PINT, Fig. 9)", PintFig9},
	{"pint-fig10", "packets to trace paths on real topologies, beside PPM and AMS2 (PINT, Fig. 10)", PintFig10},
	{"pint-fig11", "path and latency queries together against alone (PINT, Fig. 11)", PintFig11},
	{"pint-loops", "false reports of loops (PINT, A.4)", PintLoops},
	{"pint-values", "errors of values in few bits against their bounds (PINT, 4.3 and Appendix C)", PintValues},
	{"pint-decode", "digests per second through the path decoder", PintDecode},
	{"lds-sizing", "small collisions by formula and by simulation (LDS, Section 3)", LDSSizing},
	{"lds-fig9", "error of per-flow delays, beside MPE, RLI and the mean (LDS, Fig. 9)", LDSFig9},
	{"lds-fig10", "error of per-flow delays by flow size (LDS, Fig. 10)", LDSFig10},
	{"lds-fig11", "error of per-flow delays under loss (LDS, Fig. 11)", LDSFig11},
	{"lds-fig12", "error of per-flow delays by weight (LDS, Fig. 12)", LDSFig12},
}
