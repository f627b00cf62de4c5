package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// Limits of what `weir lab run` accepts.
const (
	// labConfidence is that of bounds which decide alone: they fail by luck once in a million runs.
	labConfidence = 1 - 1e-6
	// manyConfidence is that of bounds of which there are many: so large a share of them must hold.
	manyConfidence = 0.95
	// labTheta is the share from which on a flow is heavy, and leastF1 how well the heavy ones must be found: flows
	// right at the edge may fall on either side.
	labTheta = 0.002
	leastF1  = 0.8
)

// labAnswers are what the records of a lab tell, beside the truth.
type labAnswers struct {
	Good   bool       `json:"ok"`
	Values []labValue `json:"values"`
	Heavy  *labHeavy  `json:"heavy_hitters,omitempty"`
	// SketchHeavy are by the fragments alone, which name the flows themselves.
	SketchHeavy *labHeavy       `json:"sketch_heavy_hitters,omitempty"`
	Sketch      *labSketch      `json:"sketch,omitempty"`
	Delays      []labDelay      `json:"delays,omitempty"`
	Missing     []store.Missing `json:"missing"`
	Absent      []query.Absent  `json:"absent"`
	Records     store.Counts    `json:"records"`
}

// labValue is an estimate beside the truth.
type labValue struct {
	What string `json:"what"`
	query.Bounded
	Truth float64  `json:"truth"`
	Naive *float64 `json:"naive,omitempty"` // the sum over all switches
	OK    bool     `json:"ok"`              // the truth is within the bounds
}

// labHeavy compares heavy hitters.
type labHeavy struct {
	Theta    float64 `json:"theta"`
	Truth    int     `json:"truth"`
	Reported int     `json:"reported"`
	F1       float64 `json:"f1"`
	// Outside counts reported flows whose size is not within their bounds.
	Outside int  `json:"outside"`
	OK      bool `json:"ok"`
}

// labSketch compares the frequencies of all flows whose path is known.
type labSketch struct {
	Flows int    `json:"flows"`
	Unit  string `json:"unit"`
	// RMSE is over all flows, RelativeError the mean over the heavy ones.
	RMSE          float64 `json:"rmse"`
	RelativeError float64 `json:"relative_error"`
	Heavy         int     `json:"heavy"`
	// Within is the share of flows within their bounds of manyConfidence.
	Within float64 `json:"within"`
	OK     bool    `json:"ok"`
}

// OK implements lab.Answers.
func (a *labAnswers) OK() bool { return a.Good }

// flowTruth is what the far ends know of a flow.
type flowTruth struct {
	packets, bytes, received float64
}

// labTruth is what the far ends know of all flows.
type labTruth struct {
	flows          map[query.Key]flowTruth
	keys           []query.Key // in the order of the file
	packets, bytes float64     // sent
}

func newLabTruth(loads []lab.LoadCount) (*labTruth, error) {
	t := &labTruth{flows: map[query.Key]flowTruth{}}
	for _, l := range loads {
		for _, f := range l.Flows {
			k, err := query.ParseKey(f.Flow)
			if err != nil {
				return nil, err
			}
			sum, known := t.flows[k]
			if !known {
				t.keys = append(t.keys, k)
			}
			sum.packets += float64(f.Sent)
			sum.bytes += float64(f.SentBytes)
			sum.received += float64(f.Received)
			t.flows[k] = sum
			t.packets += float64(f.Sent)
			t.bytes += float64(f.SentBytes)
		}
	}
	return t, nil
}

// examineLab answers from a lab's records, and compares with the truth.
func examineLab(ctx context.Context, e *lab.Evidence) (lab.Answers, error) {
	if e.Collector != "" {
		return askLab(ctx, e)
	}
	truth, err := newLabTruth(e.Truth)
	if err != nil || len(truth.flows) == 0 {
		return nil, err // nothing to compare with
	}
	s, err := store.Read(e.Records)
	if err != nil {
		return nil, err
	}
	paths, err := labpath.New(e.Config)
	if err != nil {
		return nil, err
	}
	x := &examiner{
		engine: query.Engine{Store: s, Confidence: labConfidence, Paths: paths, FlowSeed: paths.Seed}, truth: truth,
		answers: &labAnswers{Values: []labValue{}, Records: s.Counts()},
	}
	x.sample()
	x.sketch()
	if err := x.delays(e); err != nil {
		return nil, err
	}
	a := x.answers
	if len(a.Values) == 0 && a.Heavy == nil && a.Sketch == nil && len(a.Delays) == 0 {
		return nil, nil // the records are of nothing that could be compared
	}
	all := s.All()
	for _, of := range []string{store.OfSamples, store.OfFlowSamples, store.OfFragments, store.OfPoints} {
		a.Missing = append(a.Missing, slices.DeleteFunc(s.Missing(of, all), func(m store.Missing) bool {
			return m.Packets == 0 // before and behind the traffic nobody minds
		})...)
	}
	a.judge()
	return a, nil
}

// examiner puts the questions.
type examiner struct {
	engine  query.Engine
	truth   *labTruth
	answers *labAnswers
}

// generated holds the flows that the lab generates, and not what hosts say by themselves.
var generated = netip.MustParsePrefix("198.18.0.0/15")

// sample compares what the network-wide sample tells.
func (x *examiner) sample() {
	v, err := x.engine.Volume(oblivious.DstIn(generated))
	if err != nil {
		return // no switch samples
	}
	naivePackets, naiveBytes := float64(v.NaivePackets), float64(v.NaiveBytes)
	x.value("volume, packets", v.Packets, x.truth.packets, &naivePackets)
	x.value("volume, bytes", v.Bytes, x.truth.bytes, &naiveBytes)
	if h, err := x.engine.HeavyHitters(oblivious.Packets, labTheta, 0); err == nil {
		x.answers.Heavy = x.heavy(h)
	}
	if c, err := x.engine.Cardinality(); err == nil {
		// The hosts' own packets may add flows, such as multicast reports.
		sent := 0.0
		for _, f := range x.truth.flows {
			if f.packets > 0 {
				sent++
			}
		}
		others := x.otherFlows()
		c.Flows.Value, c.Flows.Low, c.Flows.High = c.Flows.Value-others, c.Flows.Low-others, c.Flows.High-others
		x.value("flows", c.Flows, sent, nil)
	}
}

// otherFlows counts candidates that the lab has not generated.
func (x *examiner) otherFlows() (n float64) {
	keys, err := x.engine.Candidates()
	if err != nil {
		return 0
	}
	for _, k := range keys {
		if _, ok := x.truth.flows[k]; !ok {
			n++
		}
	}
	return n
}

func (x *examiner) value(what string, b query.Bounded, truth float64, naive *float64) {
	x.answers.Values = append(x.answers.Values, labValue{what, b, truth, naive, b.Holds(truth)})
}

// heavy compares the flows reported with those that are heavy.
func (x *examiner) heavy(h *query.HeavyHitters) *labHeavy {
	a := &labHeavy{Theta: h.Theta, Reported: len(h.Flows)}
	cut := h.Theta * x.truth.packets
	for _, f := range x.truth.flows {
		if f.packets >= cut {
			a.Truth++
		}
	}
	right := 0
	for _, f := range h.Flows {
		is := x.truth.flows[f.Key].packets
		if is >= cut {
			right++
		}
		if !f.Holds(is) {
			a.Outside++
		}
	}
	a.F1 = 1
	if n := a.Truth + a.Reported; n > 0 {
		a.F1 = 2 * float64(right) / float64(n)
	}
	a.OK = a.F1 >= leastF1 && a.Outside == 0
	return a
}

// sketch compares what the fragments tell along the flows' paths.
func (x *examiner) sketch() {
	many := x.engine
	many.Confidence = manyConfidence
	list, err := many.SketchFrequencies(x.truth.keys)
	if err != nil {
		return // no switch has a fragment
	}
	a := &labSketch{}
	squares, relative, within := 0.0, 0.0, 0
	seen := map[query.Absent]bool{}
	for i, f := range list {
		if f.Path == nil {
			continue
		}
		is := x.truth.flows[x.truth.keys[i]].packets
		if f.Unit == oblivious.Bytes.String() {
			is = x.truth.flows[x.truth.keys[i]].bytes
		}
		a.Unit = f.Unit
		a.Flows++
		squares += (f.Value - is) * (f.Value - is)
		if f.Holds(is) {
			within++
		}
		if x.truth.flows[x.truth.keys[i]].packets >= labTheta*x.truth.packets {
			a.Heavy++
			relative += math.Abs(f.Value-is) / is
		}
		for _, m := range f.Absent {
			if !seen[m] {
				seen[m] = true
				x.answers.Absent = append(x.answers.Absent, m)
			}
		}
	}
	if a.Flows == 0 {
		return // no path is known
	}
	a.RMSE = math.Sqrt(squares / float64(a.Flows))
	a.RelativeError = relative / float64(max(a.Heavy, 1))
	a.Within = float64(within) / float64(a.Flows)
	a.OK = a.Within >= manyConfidence
	x.answers.Sketch = a
	if h, err := x.engine.SketchHeavyHitters(labTheta, 0); err == nil && h.Unit == oblivious.Packets.String() {
		x.answers.SketchHeavy = x.heavy(h)
	}
	if e, err := many.Entropy(); err == nil {
		x.value("entropy, bits", e.Bits, x.entropy(), nil)
	}
}

// entropy of the flows' shares of the packets, in bits.
func (x *examiner) entropy() (bits float64) {
	for _, f := range x.truth.flows {
		if share := f.packets / x.truth.packets; share > 0 {
			bits -= share * math.Log2(share)
		}
	}
	return bits
}

// judge says whether all answers are as good as they claim.
func (a *labAnswers) judge() {
	a.Good = !slices.ContainsFunc(a.Values, func(v labValue) bool { return !v.OK }) &&
		(a.Heavy == nil || a.Heavy.OK) && (a.SketchHeavy == nil || a.SketchHeavy.OK) && (a.Sketch == nil || a.Sketch.OK) &&
		!slices.ContainsFunc(a.Delays, func(d labDelay) bool { return !d.OK }) &&
		a.Records.Unreadable+a.Records.Conflicts+a.Records.Duplicates == 0
}

// verdict is how the lab's report marks lines.
func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAIL"
}

// writeText writes a line, of nil none.
func (h *labHeavy) writeText(w io.Writer, by string) {
	if h != nil {
		fmt.Fprintf(w, "  %-4s  heavy hitters of %g %% of the packets, by the %s: %d in truth, %d reported, F1 %.3f (at least %g); %d outside their bounds\n",
			verdict(h.OK), 100*h.Theta, by, h.Truth, h.Reported, h.F1, leastF1, h.Outside)
	}
}

// WriteText implements lab.Answers.
func (a *labAnswers) WriteText(w io.Writer) error {
	number := func(x float64) string {
		if math.Abs(x) < 1000 && x != math.Trunc(x) {
			return fmt.Sprintf("%.4f", x)
		}
		return fmt.Sprintf("%.0f", x)
	}
	t := text.NewTable("", "", ">truth", ">estimate", ">at least", ">at most", ">sum over switches")
	for _, v := range a.Values {
		naive := ""
		if v.Naive != nil {
			naive = number(*v.Naive)
		}
		t.Row("  "+verdict(v.OK), v.What, number(v.Truth), number(v.Value), number(v.Low), number(v.High), naive)
	}
	if len(a.Values) > 0 {
		if err := t.Write(w); err != nil {
			return err
		}
	}
	a.Heavy.writeText(w, query.BySample)
	if s := a.Sketch; s != nil {
		fmt.Fprintf(w, "  %-4s  sketch, %s of %d flows along their paths: RMSE %.3f; mean error of the %d heavy ones %.2f %%; %.2f %% within bounds (at least %g %%)\n",
			verdict(s.OK), s.Unit, s.Flows, s.RMSE, s.Heavy, 100*s.RelativeError, 100*s.Within, 100*manyConfidence)
	}
	a.SketchHeavy.writeText(w, query.BySketch)
	if err := writeDelays(w, a.Delays); err != nil {
		return err
	}
	for _, m := range a.Missing {
		fmt.Fprintln(w, "        missing:", text.Missing(m))
	}
	for _, line := range text.Absent(a.Absent) {
		fmt.Fprintln(w, "        "+line)
	}
	return text.WriteCounts(w, a.Records)
}
