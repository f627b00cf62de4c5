package grade

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/text"
)

const (
	// MostDelayError is how far a flow's mean delay may be from what its relay achieved, for flows of leastDelayPackets or
	// more: of so many packets enough are in cells that no loss spoiled, for a jitter of a fifth of the delay to average out.
	// An answer that is further off is no fault if its bounds hold the truth, and no success either.
	MostDelayError    = 0.05
	leastDelayPackets = 1000
	// delayConfidence is that of a delay's bounds. They are Chebyshev's, of a hundred standard deviations: room for what packets wait on a
	// busy machine between the sender's batch clock and the relay, and a tenth of what the confidence of other questions would allow.
	delayConfidence = 0.9999
	// mostLossError is how far the count of a class's lost packets may be off where other flows share the cells of its flows.
	// Without others it is exact.
	mostLossError = 0.05
	// MostHeldUp is by how much packets may be later than their relay was configured for, on average, for wrong answers to be
	// faults: a machine that holds a relay up holds switches up too, and packets arrive intervals late.
	MostHeldUp = 0.03
	// mostWaited is by how much switches may be later than the packets, on average over all, for a delay above the truth to be a
	// fault. Few packets arrive while a switch waits, so that those of one flow may be late by several times as much.
	mostWaited = 0.01
)

// Delay compares what two measurement points report of a class of flows with what the relay between them did.
type Delay struct {
	Relay string        `json:"relay"`
	From  string        `json:"from"` // measurement points
	To    string        `json:"to"`
	Delay time.Duration `json:"set_ns"` // the relay's configuration

	Flows    int     `json:"flows"`    // of leastDelayPackets or more
	Measured int     `json:"measured"` // of these, of which a cell survived
	TruthNs  float64 `json:"truth_ns"` // the relay's own mean over these flows
	MeanNs   float64 `json:"mean_ns"`  // the estimates' mean
	Median   float64 `json:"median_error"`
	Worst    float64 `json:"worst_error"`
	Outside  int     `json:"outside"` // flows whose delay is not within the answer's bounds
	// Lost counts packets of all flows of the class; Wrong are the flows whose loss is not exact.
	TruthLost float64 `json:"truth_lost"`
	Lost      float64 `json:"lost"`
	Wrong     int     `json:"wrong_losses"`
	// Refused of Cells that hold packets may not be used: packets were lost, or fell into different intervals at both ends.
	// Of the Intervals with packets, Whole were counted from beginning to end by both points.
	Intervals int           `json:"intervals"`
	Whole     int           `json:"whole_intervals"`
	Refused   int           `json:"refused_cells"`
	Cells     int           `json:"cells"`
	Clocks    *query.Clocks `json:"clocks,omitempty"`

	line int // of the lab file, with the relay or the first switch
}

// relays asks for delay and loss over each relay that joins two switches.
func (g *grader) relays() error {
	if !g.measures("lds_egress") || !g.measures("lds_ingress") {
		return nil
	}
	for i := range g.lab.Relays {
		r := &g.lab.Relays[i]
		var ports, points []string // of the relay, and the measurement points next to them
		for _, l := range g.lab.Config.Links {
			for side, endpoint := range l.Endpoints {
				if node, port, _ := strings.Cut(endpoint, ":"); node == r.Name {
					ports, points = append(ports, port), append(points, g.point(l.Endpoints[1-side]))
				}
			}
		}
		for from := range ports {
			if len(ports) != 2 || points[0] == "" || points[1] == "" {
				continue
			}
			for class := range r.Classes {
				if err := g.relay(r, class, ports[from], points[from], points[1-from]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// point is the measurement point at a switch's port, by the port's number; empty: the endpoint is not a switch's.
func (g *grader) point(endpoint string) string {
	node, port, _ := strings.Cut(endpoint, ":")
	for _, sw := range g.paths.Switches {
		for number := range sw.Ports {
			if sw.Switch.Name == node && sw.Ports[number].Name == port {
				return fmt.Sprintf("%s:%d", node, number)
			}
		}
	}
	return ""
}

// relay asks about the flows of a class that came to the relay by a port.
func (g *grader) relay(r *relay.Truth, class int, port, from, to string) error {
	d := Delay{Relay: r.Name, From: from, To: to, Delay: r.Classes[class].Delay, line: g.lab.Config.Line(r.Name)}
	var flows []delayed
	asked := 0
	for _, f := range r.Flows {
		if !g.asked(f.Flow) {
			continue
		}
		if asked++; f.From == port && f.Class == class {
			flows = append(flows, delayed{f.Flow, f.Sent, f.Dropped, f.MeanNs})
		}
	}
	if len(flows) == 0 {
		return nil // no flow came by here
	}
	late := func() string {
		if d.TruthNs > (1+MostHeldUp)*float64(d.Delay) {
			return heldRelayUp
		}
		return ""
	}
	// Flows of other loads are in the same cells.
	return g.compare(&d, flows, len(g.truth.keys) > asked, false, late)
}

// asked reports whether questions are about a flow that passed a relay: where loads generate flows these alone, since the window is that of these loads, and a relay
// knows the flows of all loads.
func (g *grader) asked(flow string) bool {
	if g.lab.FlowsBegan.IsZero() {
		return true
	}
	k, err := query.ParseKey(flow)
	_, generated := g.truth.flows[k]
	return err == nil && generated
}

const heldRelayUp = "the machine held the relay up"

// waited says that answers above the truth may be so because a switch at one end waited for a processor: by its clock packets
// left and arrived when it looked at them. Empty: neither waited long.
func (g *grader) waited(d *Delay) string {
	late, latest := 0.0, ""
	for _, e := range g.lab.Switches {
		for _, point := range []string{d.From, d.To} {
			if name := switchOf(point); name == e.Name && e.Late > 0 {
				late += float64(e.Late)
				latest = cmp.Or(latest, name)
				if r := g.switchEnd(latest); r != nil && e.Late > r.Late {
					latest = name
				}
			}
		}
	}
	if late <= mostWaited*d.TruthNs {
		return ""
	}
	return fmt.Sprintf("%s waited for a processor, and saw packets late by %s on average", latest, text.Nanoseconds(late))
}

// noLongFlow is why a delay is not compared.
var noLongFlow = fmt.Sprintf("no flow has %d packets", leastDelayPackets)

// delayed is what became of a flow's packets between two measurement points.
type delayed struct {
	flow          string
	sent, dropped uint64
	meanNs        float64
}

// flowsAtOnce are asked about in one question: the records of all intervals are read for each question.
const flowsAtOnce = 256

// add compares what is known of a flow. ok: its delay is, and it has packets enough to be compared.
func (d *Delay) add(f *delayed, b *query.FlowBetween) (ns float64, ok bool) {
	d.TruthLost += float64(f.dropped)
	d.Lost += b.Lost
	if !b.HasLoss || b.Lost != float64(f.dropped) {
		d.Wrong++
	}
	if f.sent+f.dropped < leastDelayPackets {
		return 0, false
	}
	d.Flows++
	if !b.HasDelay {
		return 0, false
	}
	d.Measured++
	d.TruthNs += f.meanNs
	d.MeanNs += b.Delay.Value
	if !b.Delay.Holds(f.meanNs) {
		d.Outside++
	}
	return b.Delay.Value, true
}

// compare asks about flows between two measurement points. shared: packets of others are in their cells. required: both ends measure
// them, so there is an answer. late says, once the delays are known, why the machine was too busy for them to prove anything; empty: it was not.
func (g *grader) compare(d *Delay, flows []delayed, shared, required bool, late func() string) error {
	q := g.ofFlows(query.KindDelay)
	q.From, q.To = d.From, d.To
	q.Confidence = delayConfidence
	all, err := ask[*query.Between](g, q)
	if errors.Is(err, query.ErrNoRecords) {
		if !required {
			return nil // not both switches measure this direction
		}
		return g.unanswered(query.KindDelay, fmt.Sprintf("%s to %s", d.From, d.To), err, true)
	}
	if err != nil {
		return err
	}
	d.From, d.To, d.Intervals, d.Whole, d.Refused, d.Cells, d.Clocks = all.From, all.To, all.Intervals, all.Whole, all.Refused, all.Cells, all.Clocks
	var relative []float64
	why, cut := "", ""
	answered, done := g.asking(fmt.Sprintf("delay %s to %s", d.From, d.To), len(flows))
	defer done()
	asked, keptCells := 0, all.Kept
	for part := range slices.Chunk(flows, flowsAtOnce) {
		q := *q
		q.Flows = nil
		for _, f := range part {
			q.Flows = append(q.Flows, f.flow)
		}
		b, err := ask[*query.Between](g, &q)
		if cut = g.interrupted(asked, len(flows)); cut != "" {
			break
		}
		if err == nil && len(b.Flows) != len(part) {
			err = fmt.Errorf("%d of %d flows are in the answer", len(b.Flows), len(part))
		}
		if err != nil {
			return err
		}
		asked += len(part)
		answered(len(part))
		keptCells = min(keptCells, b.Kept)
		why = cmp.Or(why, g.heldUp(&b.Basis))
		for i := range part {
			if ns, ok := d.add(&part[i], &b.Flows[i]); ok {
				relative = append(relative, math.Abs(ns-part[i].meanNs)/part[i].meanNs)
			}
		}
	}
	if n := float64(d.Measured); n > 0 {
		d.TruthNs, d.MeanNs = d.TruthNs/n, d.MeanNs/n
		slices.Sort(relative)
		d.Median, d.Worst = relative[len(relative)/2], relative[len(relative)-1]
	}
	if d.Flows == 0 && d.TruthLost == 0 {
		g.noDelay(d, all, fmt.Sprintf("%s to %s, %s", d.From, d.To, plural.Counted(len(flows), "flow")), cut)
		return nil
	}
	why = cmp.Or(cut, late(), why)
	tolerance := 0.0
	if shared {
		tolerance = mostLossError
	}
	g.report.Delays = append(g.report.Delays, *d)
	delayWhy, delayOK := why, cut == "" && d.Measured == d.Flows && d.Worst <= MostDelayError
	if delayWhy == "" && d.MeanNs > d.TruthNs {
		delayWhy = g.waited(d)
	}
	if delayWhy == "" && d.Measured == d.Flows && d.Outside == 0 {
		delayWhy = fmt.Sprintf("off by more than %.0f %%, and within bounds", 100*MostDelayError)
	}
	lossWhy, lossOK := why, cut == "" && math.Abs(d.Lost-d.TruthLost) <= tolerance*d.TruthLost && (tolerance > 0 || d.Wrong == 0)
	if lossWhy == "" && keptCells < 1 {
		lossWhy = fmt.Sprintf("records are shortened to %.3g %% of the cells (record_bytes, budget), so that flows share cells", 100*keptCells)
	}
	if lossWhy == "" && d.Whole < d.Intervals && !g.intervalBits(d.From) {
		lossWhy = fmt.Sprintf("%d of %d intervals were not counted whole, and packets under way at their ends count as lost, or as too many (interval_bit prevents it)", d.Intervals-d.Whole, d.Intervals)
	}
	of := func(flows int) string {
		return fmt.Sprintf("%s to %s, %s", d.From, d.To, plural.Counted(flows, "flow"))
	}
	if d.Flows > 0 {
		g.add(Row{
			Line: d.line, Kind: query.KindDelay, What: of(d.Flows), OK: delayOK, NotJudged: delayWhy,
			Truth: text.Nanoseconds(d.TruthNs),
			Answer: fmt.Sprintf("%s; error per flow %.2f %% median, %.2f %% at most, %d outside their bounds; %d of %d cells refused", text.Nanoseconds(d.MeanNs),
				100*d.Median, 100*d.Worst, d.Outside, d.Refused, d.Cells),
		})
	} else {
		g.noDelay(d, all, of(len(flows)), cut)
	}
	g.add(Row{
		Line: d.line, Kind: query.KindLoss, What: of(len(flows)), OK: lossOK, NotJudged: lossWhy,
		Truth: fmt.Sprintf("%.0f packets", d.TruthLost), Answer: fmt.Sprintf("%.0f packets; %d flows not exact", d.Lost, d.Wrong),
	})
	return nil
}

// switchOf is the switch of a place as it is asked about ("s1:p1", "s1/blue"), or as it is in an answer ("s1:1 out", "s1 blue out", "s1 out").
func switchOf(point string) string {
	if i := strings.IndexAny(point, ":/ "); i >= 0 {
		return point[:i]
	}
	return point
}

// intervalBits reports whether packets carry the bit of the interval in which they left a measurement point.
func (g *grader) intervalBits(point string) bool {
	name := switchOf(point)
	return slices.ContainsFunc(g.paths.Switches, func(sw *config.Config) bool {
		c, ok := sw.Stages["lds_egress"].(*lds.Config)
		return sw.Switch.Name == name && ok && c.IntervalBit
	})
}

// noDelay adds a row of flows none of which is long enough to be compared: that is no success.
func (g *grader) noDelay(d *Delay, all *query.Between, what, cut string) {
	answer := fmt.Sprintf("none; %d of %d cells refused", d.Refused, d.Cells)
	if all.HasDelay {
		answer = fmt.Sprintf("%s of all flows; %d of %d cells refused", text.Nanoseconds(all.Delay.Value), d.Refused, d.Cells)
	}
	g.add(Row{Line: d.line, Kind: query.KindDelay, What: what, NotJudged: cmp.Or(cut, noLongFlow), Answer: answer})
}
