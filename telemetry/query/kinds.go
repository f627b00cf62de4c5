package query

import (
	"context"
	"slices"

	"github.com/weirswitch/weir/telemetry/store"
)

// Kind is what a Question asks.
type Kind string

// The kinds, and the type of their answers.
const (
	KindPath         Kind = "path"          // *PathAnswer
	KindLatency      Kind = "latency"       // *LatencyAnswer
	KindCongestion   Kind = "congestion"    // *CongestionAnswer
	KindLoops        Kind = "loops"         // *LoopsAnswer
	KindFrequency    Kind = "frequency"     // *Frequency
	KindHeavyHitters Kind = "heavy-hitters" // *HeavyHitters
	KindVolume       Kind = "volume"        // *Volume
	KindEntropy      Kind = "entropy"       // *Entropy
	KindCardinality  Kind = "cardinality"   // *Cardinality
	KindDelay        Kind = "delay"         // *Between
	KindLoss         Kind = "loss"          // *Between
	KindTarget       Kind = "target"        // *Target
	KindNetwork      Kind = "network"       // *Network
)

// Kinds lists all kinds, in the order of documentation.
func Kinds() []Kind {
	return []Kind{KindPath, KindLatency, KindCongestion, KindLoops, KindFrequency, KindHeavyHitters, KindVolume,
		KindEntropy, KindCardinality, KindDelay, KindLoss, KindTarget, KindNetwork}
}

// Uses lists the JSON names of the fields that a question of the kind may have, beside
// kind; nil: there is no such kind.
func (k Kind) Uses() []string {
	a, ok := kinds[k]
	if !ok {
		return nil
	}
	all := append(slices.Clone(a.uses), common...)
	if a.series {
		all = append(all, "step_ns")
	}
	return all
}

// HasSeries reports whether the kind's answers can be a Series.
func (k Kind) HasSeries() bool { return kinds[k].series }

// asked is how a kind is answered. ask gets an engine of the question's own window and
// confidence, and a question that is valid.
type asked struct {
	uses, needs []string
	series      bool
	measured    string // what its series counts the records of
	ask         func(ctx context.Context, e *Engine, q *Question) (any, error)
}

// common are the fields of all kinds.
var common = []string{"last_ns", "start_ns", "end_ns", "confidence"}

var (
	selectionFields = []string{"prefix", "src", "dst", "proto", "port"}
	flowFields      = append([]string{"flow"}, selectionFields...)
)

// ofCounts are samples and fragments, either of which say how much there was of a flow.
const ofCounts = "sample or a fragment"

// kinds is filled by init, since series ask by it themselves.
var kinds map[Kind]asked

func init() {
	kinds = map[Kind]asked{
		KindPath:         {uses: append([]string{"limit"}, flowFields...), ask: askPath},
		KindLatency:      {uses: append([]string{"hop", "quantiles", "limit"}, flowFields...), series: true, measured: store.OfDigests, ask: askLatency},
		KindCongestion:   {uses: append([]string{"quantiles", "limit"}, flowFields...), series: true, measured: store.OfDigests, ask: askCongestion},
		KindLoops:        {uses: append([]string{"limit"}, flowFields...), ask: askLoops},
		KindFrequency:    {uses: []string{"flow"}, needs: []string{"flow"}, series: true, measured: ofCounts, ask: askFrequency},
		KindHeavyHitters: {uses: append([]string{"at", "flows", "unit", "theta", "epsilon", "at_least", "by", "limit"}, selectionFields...), ask: askHeavyHitters},
		KindVolume:       {uses: selectionFields, series: true, measured: store.OfSamples, ask: askVolume},
		KindEntropy:      {series: true, measured: store.OfFragments, ask: askEntropy},
		KindCardinality:  {series: true, measured: store.OfFlowSamples, ask: askCardinality},
		KindDelay:        {uses: []string{"flow", "flows", "from", "to", "weight", "segments", "limit"}, needs: []string{"from", "to"}, series: true, measured: store.OfPoints, ask: askBetween},
		KindLoss:         {uses: []string{"flow", "flows", "from", "to", "weight", "segments", "limit"}, needs: []string{"from", "to"}, series: true, measured: store.OfPoints, ask: askBetween},
		KindTarget:       {uses: []string{"sketch", "limit"}, ask: askTarget},
		KindNetwork:      {uses: []string{"at", "limit"}, series: true, measured: store.OfStatuses, ask: askNetwork},
	}
}

func kindNames() (names []string) {
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return names
}

// given lists the JSON names of the fields that are not zero, beside kind and step_ns.
func (q *Question) given() (names []string) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"flow", q.Flow != ""}, {"prefix", q.Prefix != ""}, {"src", q.Src != ""}, {"dst", q.Dst != ""},
		{"proto", q.Proto != ""}, {"port", q.Port != ""}, {"from", q.From != ""}, {"to", q.To != ""},
		{"at", q.At != ""}, {"flows", len(q.Flows) > 0}, {"unit", q.Unit != ""}, {"theta", q.Theta != 0},
		{"epsilon", q.Epsilon != 0}, {"at_least", q.AtLeast != 0}, {"by", q.By != ""}, {"sketch", q.Sketch != 0},
		{"weight", q.Weight != 0}, {"segments", q.Segments}, {"hop", q.Hop != 0}, {"quantiles", len(q.Quantiles) > 0}, {"limit", q.Limit != 0},
		{"last_ns", q.Last != 0}, {"start_ns", q.Start != 0}, {"end_ns", q.End != 0}, {"confidence", q.Confidence != 0},
	} {
		if f.given {
			names = append(names, f.name)
		}
	}
	return names
}
