package grade

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/oblivious"
	sample "github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
)

const (
	// confidence is that of bounds which decide alone: they fail by chance once in a million rows.
	confidence = 1 - 1e-6
	// entropyConfidence is lower: the bounds of an entropy at confidence would hold almost any value.
	entropyConfidence = 0.95
	// theta is the share of the packets from which on a flow is heavy, and leastF1 how well the heavy flows must be found:
	// estimates are off by some percent, so that flows close to theta fall on either side, and in a heavy tail a tenth of
	// the heavy flows is that close.
	theta   = 0.002
	leastF1 = 0.8
	// Questions of frequency are about the largestFlows, whose mean error is reported, and otherFlows of the rest: one
	// question for each of some 10,000 flows would take minutes.
	largestFlows = 20
	otherFlows   = 80
)

// counters are the stages that count flows, and how an answer names them.
var counters = [2]struct{ stage, by string }{{"oblivious", query.BySample}, {"disketch", query.BySketch}}

// frequencyTally compares the answers of one stage.
type frequencyTally struct {
	flows, within, largest int
	truth, sum, relative   float64 // relative errors of the largest flows
	unit, why              string
}

func (t *frequencyTally) add(largest bool, b query.Bounded, truth float64, unit string) {
	t.flows++
	if b.Holds(truth) {
		t.within++
	}
	t.truth, t.sum, t.unit = t.truth+truth, t.sum+b.Value, unit
	if largest && truth > 0 {
		t.largest++
		t.relative += math.Abs(b.Value-truth) / truth
	}
}

// frequency asks about the largest flows, and about others at equal distances in the order of their sizes.
func (g *grader) frequency() error {
	if len(g.truth.keys) == 0 || !g.measures("oblivious") && !g.measures("disketch") {
		return nil
	}
	keys := slices.Clone(g.truth.keys[:min(largestFlows, len(g.truth.keys))])
	rest := g.truth.keys[len(keys):]
	for i := range min(otherFlows, len(rest)) {
		keys = append(keys, rest[i*len(rest)/min(otherFlows, len(rest))])
	}
	var tallies [2]frequencyTally
	cut := ""
	located := g.measures("pint")
	answered, done := g.asking("frequency", len(keys))
	defer done()
	for i, k := range keys {
		located = located || g.paths.Of(k) != nil
		q := g.ofFlows(query.KindFrequency)
		q.Flow = query.FormatKey(k)
		f, err := ask[*query.Frequency](g, q)
		if cut = g.interrupted(i, len(keys)); cut != "" {
			break
		}
		if errors.Is(err, query.ErrNoRecords) || errors.Is(err, query.ErrUnknownFlow) {
			answered(1)
			continue
		} else if err != nil {
			return err
		}
		answered(1)
		if s := f.Sample; s != nil {
			tallies[0].add(i < largestFlows, s.Packets, g.truth.flows[k].packets, sample.Packets.String())
			tallies[0].why = g.heldUp(&s.Basis)
		}
		if s := f.Sketch; s != nil {
			tallies[1].add(i < largestFlows, s.Bounded, g.truth.of(k, s.Unit), s.Unit)
			tallies[1].why = g.heldUp(&s.Basis)
			g.absent(s.Absent)
		}
	}
	for i, from := range counters {
		t := &tallies[i]
		if !g.measures(from.stage) {
			continue
		}
		if from.by == query.BySketch && t.flows == 0 && !located {
			t.why = "neither PINT, routes nor links give the flows' paths, along which fragments count"
		}
		g.add(Row{
			Kind: query.KindFrequency, OK: cut == "" && t.flows > 0 && t.within == t.flows, NotJudged: cmp.Or(cut, t.why),
			What: fmt.Sprintf("%d flows, by the %s", t.flows, from.by), Truth: fmt.Sprintf("%.0f %s", t.truth, t.unit),
			Answer:  fmt.Sprintf("%.0f %s; %d flows within bounds; mean error of the largest %d: %.1f %%", t.sum, t.unit, t.within, t.largest, 100*t.relative/float64(max(t.largest, 1))),
			Numbers: map[string]float64{"flows": float64(t.flows), "within": float64(t.within), "truth": t.truth, "value": t.sum, "mean_error": t.relative / float64(max(t.largest, 1))},
		})
	}
	return nil
}

// absent notes fragments of which no record came.
func (g *grader) absent(list []query.Absent) {
	for _, a := range list {
		if !slices.Contains(g.report.Absent, a) {
			g.report.Absent = append(g.report.Absent, a)
		}
	}
}

// madeElsewhere reports whether no load generates such a flow: ARP, what routers answer to packets that they drop, and what kernels say
// to their neighbours.
func madeElsewhere(flow string) bool {
	return flow == query.NotIP || strings.HasSuffix(flow, " icmp") || strings.HasSuffix(flow, " icmpv6")
}

// others counts the flows of IP that no load generated, by the names in the sample: how many there were only the switches know.
func (g *grader) others() (n int, err error) {
	q := g.ofFlows(query.KindHeavyHitters)
	q.Theta, q.By = leastTheta, query.BySample
	h, err := ask[*query.HeavyHitters](g, q)
	if err != nil {
		return 0, err
	}
	for _, f := range h.Flows {
		if madeElsewhere(f.Flow) && f.Flow != query.NotIP { // which a sample of flows leaves out
			n++
		}
	}
	return n, nil
}

// leastTheta asks for all flows.
const leastTheta = 1e-9

// heavyHitters compares the flows reported with those that are heavy.
func (g *grader) heavyHitters() error {
	for _, from := range counters {
		if !g.measures(from.stage) || len(g.truth.keys) == 0 {
			continue
		}
		what := fmt.Sprintf("%g %% of the packets, by the %s", 100*theta, from.by)
		q := g.ofFlows(query.KindHeavyHitters)
		q.Theta, q.By = theta, from.by
		h, err := ask[*query.HeavyHitters](g, q)
		if err != nil {
			// Fragments name heavy flows only if they have candidates.
			if err := g.unanswered(query.KindHeavyHitters, what, err, from.by == query.BySample); err != nil {
				return err
			}
			continue
		}
		if h.Unit != sample.Packets.String() {
			continue // a share of the bytes is another set of flows
		}
		truth, right, outside, others := g.truth.heavy(theta), 0, 0, 0
		for _, f := range h.Flows {
			if madeElsewhere(f.Flow) {
				others++
				continue
			}
			k, err := query.ParseKey(f.Flow) // an answer of the API has no Key
			if err != nil {
				return err
			}
			sent := g.truth.flows[k].packets
			if sent >= theta*g.truth.packets {
				right++
			}
			if !f.Holds(sent) {
				outside++
			}
		}
		f1 := 1.0
		found := len(h.Flows) - others
		if n := truth + found; n > 0 {
			f1 = 2 * float64(right) / float64(n)
		}
		answer := fmt.Sprintf("%s, F1 %.3f; %d outside their bounds", plural.Counted(found, "flow"), f1, outside)
		if others > 0 {
			answer += fmt.Sprintf("; %d of ICMP or not IP", others)
		}
		g.add(Row{
			Kind: query.KindHeavyHitters, What: what, OK: f1 >= leastF1 && outside == 0, NotJudged: g.heldUp(&h.Basis),
			Truth: plural.Counted(truth, "flow"), Answer: answer,
			Numbers: map[string]float64{"truth": float64(truth), "value": float64(found), "others": float64(others), "f1": f1, "outside": float64(outside)},
		})
	}
	return nil
}

// bounded adds a row of a value with bounds. sum is the value's sum over the switches, which counts packets repeatedly; 0: none.
func (g *grader) bounded(kind query.Kind, what, unit string, b query.Bounded, truth float64, basis *query.Basis, sum uint64) {
	number := func(v float64) string {
		if math.Abs(v) < 1000 && v != math.Trunc(v) {
			return fmt.Sprintf("%.3f", v)
		}
		return fmt.Sprintf("%.0f", v)
	}
	r := Row{
		Kind: kind, What: what, OK: b.Holds(truth), NotJudged: cmp.Or(g.heldUp(basis), g.mixed()), Truth: number(truth) + " " + unit,
		Answer:  fmt.Sprintf("%s (%s to %s)", number(b.Value), number(b.Low), number(b.High)),
		Numbers: map[string]float64{"truth": truth, "value": b.Value, "low": b.Low, "high": b.High},
	}
	if sum > 0 {
		r.Answer += fmt.Sprintf("; %d summed over the switches", sum)
		r.Numbers["sum"] = float64(sum)
	}
	g.add(r)
}

// mixed says that other loads are in the epochs of the generated flows; empty: the quiet time keeps them apart.
func (g *grader) mixed() string {
	if !slices.ContainsFunc(g.lab.Config.Traffic, func(t lab.Traffic) bool { return t.Kind != lab.KindFlows }) {
		return ""
	}
	bits := 0
	for _, sw := range g.paths.Switches {
		if c, ok := sw.Stages["oblivious"].(*oblivious.Config); ok && slices.Contains(sw.Switch.Graph, "oblivious") {
			bits = max(bits, c.EpochBits)
		}
		if c, ok := sw.Stages["disketch"].(*disketch.Config); ok && slices.Contains(sw.Switch.Graph, "disketch") {
			bits = max(bits, c.EpochBits)
		}
	}
	epoch := time.Duration(1) << bits
	if g.lab.Config.Quiet >= epoch {
		return ""
	}
	return fmt.Sprintf("quiet = %q of the lab is shorter than an epoch, %v, so other loads are in epochs of the generated flows", g.lab.Config.Quiet, epoch.Round(time.Millisecond))
}

// volume asks how much the generated flows sent.
func (g *grader) volume() error {
	if !g.measures("oblivious") || len(g.truth.keys) == 0 {
		return nil
	}
	q := g.ofFlows(query.KindVolume)
	q.Dst = g.truth.generated().String()
	v, err := ask[*query.Volume](g, q)
	if err != nil {
		return g.unanswered(query.KindVolume, "generated flows", err, true)
	}
	g.bounded(query.KindVolume, "generated flows", "packets", v.Packets, g.truth.packets, &v.Basis, v.NaivePackets)
	g.bounded(query.KindVolume, "generated flows", "bytes", v.Bytes, g.truth.bytes, &v.Basis, v.NaiveBytes)
	return nil
}

// entropy asks for that of all flows while the generated ones were sent.
func (g *grader) entropy() error {
	if !g.measures("disketch") || len(g.truth.keys) == 0 {
		return nil
	}
	q := g.ofFlows(query.KindEntropy)
	q.Confidence = entropyConfidence
	e, err := ask[*query.Entropy](g, q)
	if err != nil {
		return g.unanswered(query.KindEntropy, "flows' shares of the packets", err, false) // fragments other than UnivMon's have none
	}
	g.bounded(query.KindEntropy, "flows' shares of the packets", "bits", e.Bits, g.truth.entropy(), &e.Basis, 0)
	if u := e.Uncounted; u != nil {
		r := &g.report.Rows[len(g.report.Rows)-1]
		r.Answer += fmt.Sprintf("; %.0f packets in no estimate (%.0f to %.0f)", u.Value, u.Low, u.High)
		r.Numbers["uncounted"], r.Numbers["uncounted_low"] = u.Value, u.Low
	}
	return nil
}

// cardinality asks for the number of flows while the generated ones were sent.
func (g *grader) cardinality() error {
	if !g.measures("oblivious") || len(g.truth.keys) == 0 {
		return nil
	}
	c, err := ask[*query.Cardinality](g, g.ofFlows(query.KindCardinality))
	if err != nil {
		return g.unanswered(query.KindCardinality, "flows", err, false) // it needs flows = true
	}
	sent := g.truth.sent()
	if c.Flows.Low <= sent {
		g.bounded(query.KindCardinality, "flows", "flows", c.Flows, sent, &c.Basis, 0)
		return nil
	}
	others, err := g.others()
	if err != nil {
		return err
	}
	what := "flows"
	if others > 0 {
		what = fmt.Sprintf("flows, %d of ICMP", others)
	}
	g.bounded(query.KindCardinality, what, "flows", c.Flows, sent+float64(others), &c.Basis, 0)
	return nil
}
