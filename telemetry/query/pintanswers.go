package query

// DigestBasis is what an answer from PINT's digests rests on, beside its Basis, whose
// Records are those of all sinks in the window; of a question about one flow, those of its partition.
type DigestBasis struct {
	// Plan is the id of the plan whose digests were read, Query its query's name.
	Plan  uint16 `json:"plan"`
	Query string `json:"query"`
	// Of names the flows asked about; FlowCount is how many of them sent a digest.
	Of        string `json:"of"`
	FlowCount int    `json:"flow_count"`
	// Digests of these flows are in the window, of this plan; Used of them said something
	// to the query.
	Digests uint64 `json:"digests"`
	Used    uint64 `json:"used"`
	// OtherPlans is how many digests of these flows are of plans that the engine does not
	// know, or of another one that it knows, and were not read.
	OtherPlans uint64 `json:"other_plans"`
	// Share of the packets have their digests in all records of the window: below 1 where sinks condensed the others, to keep within
	// a budget. LeftOut packets are of flows that these sinks do not list, whichever these are.
	Share float64 `json:"share" unit:"share of the packets"`
	// Read of the packets from edge to edge of a switch had a digest, each of which counts for all of them: below 1 where sinks condensed and
	// more came than they had time for.
	Read    float64 `json:"read" unit:"share of the packets"`
	LeftOut uint64  `json:"left_out" unit:"packets"`
	// Counted of the packets of the one flow that was asked for are behind values at its hops, as sinks counted these before they condensed, or have all
	// digests here; bounds hold whatever the others met. 0: values are those of the sample that Share says.
	Counted float64 `json:"counted" unit:"share of the packets"`
}

// PathAnswer tells the paths of flows in a window, from their packets' digests in that
// window alone: those of most packets first.
type PathAnswer struct {
	Basis
	DigestBasis
	Value string     `json:"value"` // what hops are told by: switch_id, or ports
	Flows []FlowPath `json:"flows" rows:""`
	More  int        `json:"more"` // flows that the limit left out
}

// FlowPath is a flow's path at the end of the window.
type FlowPath struct {
	Key     Key    `json:"-"`
	Flow    string `json:"flow"`
	Packets uint64 `json:"packets" unit:"packets"` // with a digest for the path
	FirstNs int64  `json:"first_ns" unit:"ns of CLOCK_TAI"`
	LastNs  int64  `json:"last_ns" unit:"ns of CLOCK_TAI"`
	// Known: one path alone explains the digests. Certain: enough more of them agree
	// with it for the answer's confidence. Doubt bounds the probability that it is
	// wrong; 1 while it is not known.
	Known   bool    `json:"known"`
	Certain bool    `json:"certain"`
	Doubt   float64 `json:"doubt" unit:"probability"`
	// Hops is the path, hop 1 first.
	Hops []PathHop `json:"hops" rows:""`
	// Changes of the path were noticed in the window, and Strays contradicted a path
	// that was certain: damaged ones, or the first of another path.
	Changes uint64 `json:"changes" unit:"changes"`
	Strays  uint64 `json:"strays" unit:"packets"`
	// Undecoded digests, of packets with different ids, are what the path would be decoded from;
	// 0 once it is certain.
	Undecoded int `json:"undecoded" unit:"digests"`
	// Passages are the ways within the window, in the order of time.
	Passages []PathPassage `json:"passages"`
	// Parallel are the paths that the packets took at once, those of most packets first, where the plan has a checksum to tell them apart and
	// there were several; Hops, Known, Certain and Doubt are those of the first, and there are no Passages.
	Parallel []ParallelPath `json:"parallel"`
}

// ParallelPath is one of several paths that a flow's packets took at once.
type ParallelPath struct {
	Packets  uint64   `json:"packets" unit:"packets"` // with a digest for the path
	FirstNs  int64    `json:"first_ns" unit:"ns of CLOCK_TAI"`
	LastNs   int64    `json:"last_ns" unit:"ns of CLOCK_TAI"`
	Known    bool     `json:"known"`
	Certain  bool     `json:"certain"`
	Doubt    float64  `json:"doubt" unit:"probability"`
	Switches []string `json:"switches"` // hop 1 first; empty while it is not known
}

// PathHop is a hop of a path.
type PathHop struct {
	Hop int `json:"hop"` // from 1
	// Switch is its name, or the port's number; empty while it is not known. Number is
	// the value in the digests.
	Switch string `json:"switch" null:"zero"`
	Number uint64 `json:"number" null:"zero"`
	// Candidates are the values left: 1: it is known; 0: not narrowed down.
	Candidates int `json:"candidates" unit:"values"`
}

// PathPassage is a way that a flow took for a time.
type PathPassage struct {
	// FromNs is when the digests first tell it, ToNs when the next one's do, or the
	// flow's last packet in the window.
	FromNs   int64    `json:"from_ns"`
	ToNs     int64    `json:"to_ns"`
	Switches []string `json:"switches"` // empty: it changed, and was not certain again
}

// QuantileValue is a quantile with its bounds, which hold for all quantiles of a list
// together with the answer's confidence.
type QuantileValue struct {
	Rank float64 `json:"rank"` // in 0..1
	Bounded
	// RankLow and RankHigh are the ranks in the samples between which the true quantile
	// is; Low and High are the values there, widened by the step of a code.
	RankLow  float64 `json:"rank_low" unit:"share of the samples"`
	RankHigh float64 `json:"rank_high" unit:"share of the samples"`
	// Open: too few samples bound it from above; High is the largest of them.
	Open bool `json:"open"`
}

// ValueStats are what samples of a value say.
type ValueStats struct {
	Samples   uint64          `json:"samples" unit:"samples"`
	Quantiles []QuantileValue `json:"quantiles" rows:""`
}

// FrequentValue is a value that many packets had.
type FrequentValue struct {
	Value float64 `json:"value"`
	// Share is that of the packets. Its bounds hold with the answer's confidence, for each value alone.
	Share Bounded `json:"share" unit:"share of the samples"`
}

// LatencyAnswer is the latency of hops in ns, of a flow by hop, of several pooled by
// switch; or, where the plan has no query for that, what packets tell of their paths.
type LatencyAnswer struct {
	Basis
	DigestBasis
	Value string `json:"value"`              // hop_latency, or ingress_time: the time of arrival, modulo 2^k ns
	Unit  string `json:"unit" column:"unit"` // "ns", "hops"
	// Epsilon is the relative error of a value by its code: value and code differ by a
	// factor of up to (1+Epsilon) if rounded to the nearest, up to its square at random.
	Epsilon float64 `json:"epsilon"`
	// Delta is its absolute error, in the value's unit, for codes of equal steps. Both are 0 with "sum", "product" and "slow_hops":
	// bounds allow for two standard deviations of a count.
	Delta float64 `json:"delta"`
	// Hops are filled with "quantiles" and "frequent".
	Hops []HopStats `json:"hops" rows:""`
	// Unlocated flows are left out of pools, since their paths are not known; so are
	// the hops or flows that Limit left out, More of them.
	Unlocated int `json:"unlocated"`
	More      int `json:"more"`
	// Aggregation is what a packet tells, as in CongestionAnswer.
	Aggregation string `json:"aggregation"`
	// Packets and Flows are filled with "max", "min", "sum", "product" and "slow_hops", as in CongestionAnswer.
	Packets ValueStats   `json:"packets"`
	Flows   []FlowValues `json:"flows" rows:""`
}

// HopStats are the values of a hop, or of a switch over flows.
type HopStats struct {
	Hop    int    `json:"hop" null:"zero"`    // from 1; 0: of a switch at whatever hop
	Switch string `json:"switch" null:"zero"` // empty: the path is not known
	Flows  int    `json:"flows" unit:"flows"`
	ValueStats
	// Frequent are up to ten values that a tenth of the packets or more may have had, the most frequent first, with "frequent".
	Frequent []FrequentValue `json:"frequent" rows:""`
}

// CongestionAnswer is how congested the paths of flows were, packet by packet.
type CongestionAnswer struct {
	Basis
	DigestBasis
	Value string `json:"value"` // egress_utilisation, queue_occupancy, queue_congestion
	// Aggregation is what a packet tells: "max", "min", "sum" or "product" of the hops that it passed, with "slow_hops" how many of
	// them had at least the query's value, or, with "quantiles" and "frequent", that of one of them, which Hops then tell apart.
	Aggregation string  `json:"aggregation"`
	Unit        string  `json:"unit" column:"unit"` // "share of the link", "packets", "percent", "hops"
	Epsilon     float64 `json:"epsilon"`            // of codes, as in LatencyAnswer
	Delta       float64 `json:"delta"`
	// Packets are the values of all packets of the flows together.
	Packets ValueStats `json:"packets" rows:""`
	// Flows are those with the largest medians first; More of them the limit left out.
	Flows []FlowValues `json:"flows" rows:""`
	More  int          `json:"more"`
	// Hops are of one flow its hops, of several the switches; with "quantiles" and "frequent".
	Hops []HopStats `json:"hops"`
	// Links are what the flows' paths tell of where it was, with "max": a link is at most
	// as congested as the least congested flow over it, so those with the largest AtMost
	// are suspects, and come first.
	Links []LinkCongestion `json:"links"`
}

// FlowValues are what the packets of one flow met.
type FlowValues struct {
	Flow string `json:"flow"`
	// Median is the order of the list, and one of the bounds of Links.
	Median QuantileValue `json:"median"`
	ValueStats
}

// LinkCongestion bounds a link's congestion by the flows that pass it.
type LinkCongestion struct {
	From  string `json:"from"` // switch
	To    string `json:"to"`   // switch; empty: where the flows leave the network
	Flows int    `json:"flows"`
	// AtMost bounds the link's median, as the packets of Flow met it, from above: Flow is
	// that of the least upper bound. Open: nothing bounds it.
	AtMost float64 `json:"at_most"`
	Open   bool    `json:"open"`
	Flow   string  `json:"flow"`
}

// LoopsAnswer lists the flows whose packets pass a switch twice: those of most reports
// first.
type LoopsAnswer struct {
	Basis
	DigestBasis // Query is a path's where the plan has no query for loops
	// Reported packets were found to loop by switches, on the fly.
	Reported uint64 `json:"reported"`
	// Packets that arrived were looked at, Marked of them hold a match of a switch's own
	// hash, of which up to ByChance are expected without any loop.
	Packets  uint64     `json:"packets"`
	Marked   uint64     `json:"marked"`
	ByChance float64    `json:"by_chance"`
	Flows    []FlowLoop `json:"flows" rows:""`
	More     int        `json:"more"`
}

// FlowLoop is a flow with a loop.
type FlowLoop struct {
	Flow string `json:"flow"`
	// Reported packets, and by which switches; Marked ones of the Packets that arrived.
	Reported uint64   `json:"reported" unit:"packets"`
	By       []string `json:"by"`
	Packets  uint64   `json:"packets" unit:"packets"`
	Marked   uint64   `json:"marked" unit:"packets"`
	// Doubt bounds the probability that a flow without a loop looks so to the sinks, by as
	// many marks or by a wrong path; 1: switches alone reported it.
	Doubt float64 `json:"doubt" unit:"probability"`
	// Path is the flow's, if it is known, and Repeated the switches that it passes
	// more than once.
	Path     []string `json:"path"`
	Repeated []string `json:"repeated"`
	FirstNs  int64    `json:"first_ns" unit:"ns of CLOCK_TAI"` // of the packets that tell it
	LastNs   int64    `json:"last_ns" unit:"ns of CLOCK_TAI"`
}
