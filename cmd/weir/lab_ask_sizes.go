package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// mostHeldUp is by how much packets may be later than their relay was told, on average, for measurements of delay and
// loss to be judged that are wrong: what holds a relay up, holds switches up too, and packets arrive intervals late.
const mostHeldUp = 0.03

// askedFlows is how many flows are asked for one by one.
const askedFlows = 20

// largest are the generated flows of the most packets.
func (x *labAsker) largest(n int) []query.Key {
	keys := slices.Clone(x.truth.keys)
	slices.SortStableFunc(keys, func(a, b query.Key) int { return cmp.Compare(x.truth.flows[b].packets, x.truth.flows[a].packets) })
	return keys[:min(n, len(keys))]
}

// frequency asks for the largest flows.
func (x *labAsker) frequency() error {
	if !x.measures("oblivious", "disketch") || len(x.truth.keys) == 0 {
		return nil
	}
	tallies := []*frequencyTally{{by: query.BySample}, {by: query.BySketch}}
	for _, k := range x.largest(askedFlows) {
		q := x.ofFlows(query.KindFrequency)
		q.Flow = query.FormatKey(k)
		f, err := ask[*query.Frequency](x, q)
		if err != nil {
			return err
		}
		if f.Sample != nil {
			tallies[0].add(f.Sample.Packets, x.truth.flows[k].packets, &f.Sample.Basis)
		}
		if f.Sketch != nil && f.Sketch.Unit == "packets" {
			tallies[1].add(f.Sketch.Bounded, x.truth.flows[k].packets, &f.Sketch.Basis)
		}
	}
	for i, stage := range []string{"oblivious", "disketch"} {
		if t := tallies[i]; x.measures(stage) {
			x.row(query.KindFrequency, t.flows > 0 && t.within == t.flows, fmt.Sprintf("%d largest flows, by the %s", t.flows, t.by),
				fmt.Sprintf("%.0f packets", t.truth), "%.0f packets; %d flows within bounds; mean error %.1f %%", t.sum, t.within, 100*t.errs/float64(max(t.flows, 1)))
			excuse(x.latest(1), t.why)
		}
	}
	return nil
}

type frequencyTally struct {
	by               string
	flows, within    int
	truth, sum, errs float64
	why              string
}

func (t *frequencyTally) add(b query.Bounded, truth float64, basis *query.Basis) {
	t.flows++
	t.why = cmp.Or(t.why, heldUp(basis))
	if b.Holds(truth) {
		t.within++
	}
	t.truth, t.sum = t.truth+truth, t.sum+b.Value
	t.errs += math.Abs(b.Value-truth) / truth
}

// heavyHitters compares the flows listed with those that are heavy.
func (x *labAsker) heavyHitters() error {
	if len(x.truth.keys) == 0 {
		return nil
	}
	for _, by := range []struct{ stage, by string }{{"oblivious", query.BySample}, {"disketch", query.BySketch}} {
		if !x.measures(by.stage) {
			continue
		}
		q := x.ofFlows(query.KindHeavyHitters)
		q.Theta, q.By = labTheta, by.by
		h, err := ask[*query.HeavyHitters](x, q)
		if err != nil {
			return err
		}
		for i := range h.Flows { // an answer that came over the wire has texts
			if h.Flows[i].Key, err = query.ParseKey(h.Flows[i].Flow); err != nil {
				return err
			}
		}
		c := (&examiner{truth: x.truth}).heavy(h)
		x.row(query.KindHeavyHitters, c.OK, fmt.Sprintf("%g %% of the packets, by the %s", 100*c.Theta, by.by), fmt.Sprintf("%d flows", c.Truth),
			"%d flows, F1 %.3f; %d outside their bounds", c.Reported, c.F1, c.Outside)
		excuse(x.latest(1), heldUp(&h.Basis))
	}
	return nil
}

// bounded is a row of a value with bounds.
func (x *labAsker) bounded(kind query.Kind, what string, b query.Bounded, truth float64, unit string) {
	number := func(v float64) string {
		if math.Abs(v) < 1000 && v != math.Trunc(v) {
			return fmt.Sprintf("%.3f", v)
		}
		return fmt.Sprintf("%.0f", v)
	}
	x.row(kind, b.Holds(truth), what, strings.TrimSpace(number(truth)+" "+unit), "%s (%s to %s)", number(b.Value), number(b.Low), number(b.High))
}

// volume asks for what the generated flows sent.
func (x *labAsker) volume() error {
	if !x.measures("oblivious") || len(x.truth.keys) == 0 {
		return nil
	}
	q := x.ofFlows(query.KindVolume)
	q.Dst = generated.String()
	v, err := ask[*query.Volume](x, q)
	if err != nil {
		return err
	}
	x.bounded(query.KindVolume, "generated flows", v.Packets, x.truth.packets, "packets")
	x.bounded(query.KindVolume, "generated flows", v.Bytes, x.truth.bytes, "bytes")
	excuse(x.latest(2), heldUp(&v.Basis))
	return nil
}

// entropy asks for that of all flows while the generated ones were sent.
func (x *labAsker) entropy() error {
	if !x.measures("disketch") || len(x.truth.keys) == 0 {
		return nil
	}
	q := x.ofFlows(query.KindEntropy)
	q.Confidence = manyConfidence
	e, err := ask[*query.Entropy](x, q)
	if err != nil {
		return err
	}
	x.bounded(query.KindEntropy, "flows' shares of the packets", e.Bits, (&examiner{truth: x.truth}).entropy(), "bits")
	excuse(x.latest(1), heldUp(&e.Basis))
	return nil
}

// cardinality asks for the number of flows while the generated ones were sent.
func (x *labAsker) cardinality() error {
	if !x.measures("oblivious") || len(x.truth.keys) == 0 {
		return nil
	}
	c, err := ask[*query.Cardinality](x, x.ofFlows(query.KindCardinality))
	if err != nil {
		return err
	}
	sent := 0.0
	for _, f := range x.truth.flows {
		if f.packets > 0 {
			sent++
		}
	}
	x.bounded(query.KindCardinality, "flows", c.Flows, sent, "flows")
	excuse(x.latest(1), heldUp(&c.Basis))
	return nil
}

// between asks for delay and loss over each relay that stands between two switches.
func (x *labAsker) between() error {
	places := &examiner{}
	for i := range x.lab.Relays {
		r := &x.lab.Relays[i]
		for _, way := range relayWays(x.lab.Config, r.Name) {
			from, to, err := places.places(x.lab.Config, way)
			if err != nil {
				return err
			}
			if err := x.relayed(r, way.port, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostLossError is how far the count of a class's lost packets may be off: thousands of small flows share
// the cells of those that are asked about, so it need not be exact, as it is in config/delay.toml.
const mostLossError = 0.05

// relayed asks about one direction of a relay, flow by flow.
func (x *labAsker) relayed(r *relay.Truth, port string, from, to query.Place) error {
	place := func(p query.Place) string { return fmt.Sprintf("%s:%d", x.name(p.Switch), p.Port) }
	for class := range r.Classes {
		d := labDelay{Relay: r.Name, Delay: r.Classes[class].Delay}
		var errs []float64
		incomplete := ""
		for i := range r.Flows {
			f := &r.Flows[i]
			if f.From != port || f.Class != class {
				continue
			}
			k, err := query.ParseKey(f.Flow)
			if err != nil {
				return err
			}
			q := x.ofFlows(query.KindDelay)
			q.Flow, q.From, q.To = query.FormatKey(k), place(from), place(to)
			b, err := ask[*query.Between](x, q)
			if err != nil {
				return err
			}
			errs = d.add(f, b, errs)
			incomplete = cmp.Or(incomplete, heldUp(&b.Basis))
			d.From, d.To = b.From, b.To
		}
		if !d.conclude(errs) {
			continue
		}
		x.answer.Delays = append(x.answer.Delays, d)
		what := fmt.Sprintf("%s to %s, %d flows", d.From, d.To, d.Flows)
		x.row(query.KindDelay, d.Measured == d.Flows && (d.Worst <= mostDelayError || d.Outside == 0), what, text.Nanoseconds(d.TruthNs),
			"%s; error per flow %.2f %% median, %.2f %% at most, %d outside their bounds", text.Nanoseconds(d.MeanNs), 100*d.Median, 100*d.Worst, d.Outside)
		x.row(query.KindLoss, math.Abs(d.Lost-d.TruthLost) <= mostLossError*d.TruthLost, what, fmt.Sprintf("%.0f packets", d.TruthLost),
			"%.0f packets; %d flows not exact", d.Lost, d.Wrong)
		why := incomplete
		if d.TruthNs > (1+mostHeldUp)*float64(d.Delay) {
			why = "the machine held the relay up"
		}
		excuse(x.latest(2), why)
	}
	return nil
}

// excuse notes why rows that are wrong say nothing; what is right in spite of it is right.
func excuse(rows []askedRow, why string) {
	for i := range rows {
		if !rows[i].OK {
			rows[i].NotJudged = why
		}
	}
}

// latest are the last n rows.
func (x *labAsker) latest(n int) []askedRow { return x.answer.Rows[len(x.answer.Rows)-n:] }

// heldUp is why what an answer leaves out says nothing of its system: packets passed a switch that had no room to
// count them, since the machine let it collect too late, and the answer names it. Empty: none did.
func heldUp(b *query.Basis) string {
	if slices.ContainsFunc(b.Missing, func(m store.Missing) bool { return m.Packets != 0 }) {
		return "the machine held a switch up, which had no room to count all packets"
	}
	return ""
}
