package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/relay"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/text"
)

const (
	// mostDelayError is how far a flow's estimated delay may be from the relay's own measurement, for
	// flows of leastDelayPackets or more.
	mostDelayError    = 0.05
	leastDelayPackets = 1000
)

// labDelay is what two measurement points tell of a class of flows that a relay between them delayed, beside
// what the relay did.
type labDelay struct {
	Relay string        `json:"relay"`
	From  string        `json:"from"` // measurement points
	To    string        `json:"to"`
	Delay time.Duration `json:"set_ns"` // that the relay was told

	Flows    int     `json:"flows"`    // of leastDelayPackets or more
	Measured int     `json:"measured"` // of these, of which a cell survived
	TruthNs  float64 `json:"truth_ns"` // the relay's own mean over these flows
	MeanNs   float64 `json:"mean_ns"`  // the estimates' mean
	Median   float64 `json:"median_error"`
	Worst    float64 `json:"worst_error"`
	Outside  int     `json:"outside"` // flows whose delay is not within the answer's bounds
	// Lost counts packets of all flows of the class; Wrong those flows whose loss is not exact.
	TruthLost float64 `json:"truth_lost"`
	Lost      float64 `json:"lost"`
	Wrong     int     `json:"wrong_losses"`
	// Refused of Cells that hold packets may not be used, as they were lost or fell into
	// different intervals at both ends.
	Intervals int           `json:"intervals"`
	Refused   int           `json:"refused_cells"`
	Cells     int           `json:"cells"`
	Clocks    *query.Clocks `json:"clocks,omitempty"` // of all flows of the way
	OK        bool          `json:"ok"`
}

// delays compares delay and loss over each relay that stands between two switches.
func (x *examiner) delays(e *lab.Evidence) error {
	for i := range e.Relays {
		r := &e.Relays[i]
		for _, way := range relayWays(e.Config, r.Name) {
			from, to, err := x.places(e.Config, way)
			if err != nil {
				return err
			}
			if err := x.delay(r, way.port, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// relayWay is a direction through a relay: by a port of it, from a switch's port to another's.
type relayWay struct{ port, from, to string }

func relayWays(c *lab.Config, name string) (ways []relayWay) {
	var ports, ends []string
	for _, l := range c.Links {
		for i, e := range l.Endpoints {
			if node, port, _ := strings.Cut(e, ":"); node == name {
				ports, ends = append(ports, port), append(ends, l.Endpoints[1-i])
			}
		}
	}
	if len(ports) == 2 && strings.Contains(ends[0], ":") && strings.Contains(ends[1], ":") {
		ways = []relayWay{{ports[0], ends[0], ends[1]}, {ports[1], ends[1], ends[0]}}
	}
	return ways
}

// places are the measurement points at both ends of a way.
func (x *examiner) places(c *lab.Config, way relayWay) (from, to query.Place, err error) {
	texts, err := c.SwitchConfigs()
	if err != nil {
		return from, to, err
	}
	place := func(endpoint string) (query.Place, error) {
		node, port, _ := strings.Cut(endpoint, ":")
		i := slices.IndexFunc(c.Switches, func(s lab.Switch) bool { return s.Name == node })
		if i < 0 {
			return query.Place{}, fmt.Errorf("a relay next to %s: answers need a switch there", node)
		}
		sw, err := config.Parse(texts[i])
		if err != nil {
			return query.Place{}, err
		}
		for number := range sw.Ports {
			if sw.Ports[number].Name == port {
				return query.Place{Switch: sw.Switch.ID, Port: number}, nil
			}
		}
		return query.Place{}, fmt.Errorf("switch %s has no port %s", node, port)
	}
	from, err = place(way.from)
	to, err2 := place(way.to)
	return from, to, errors.Join(err, err2)
}

// delay compares one direction.
func (x *examiner) delay(r *relay.Truth, port string, from, to query.Place) error {
	var flows []relay.FlowTruth
	var keys []query.Key
	for _, f := range r.Flows {
		if f.From != port {
			continue
		}
		k, err := query.ParseKey(f.Flow)
		if err != nil {
			return err
		}
		flows, keys = append(flows, f), append(keys, k)
	}
	if len(flows) == 0 {
		return nil
	}
	list, all, err := x.engine.BetweenFlows(from, to, keys)
	if errors.Is(err, query.ErrNoRecords) {
		return nil // these switches do not measure delays
	}
	if err != nil {
		return err
	}
	for class := range r.Classes {
		d := labDelay{Relay: r.Name, From: list[0].From, To: list[0].To, Delay: r.Classes[class].Delay,
			Intervals: all.Intervals, Refused: all.Refused, Cells: all.Cells, Clocks: all.Clocks}
		var errs []float64
		for i, f := range flows {
			if f.Class == class {
				errs = d.add(&f, &list[i], errs)
			}
		}
		if d.conclude(errs) {
			x.answers.Delays = append(x.answers.Delays, d)
		}
	}
	return nil
}

// add compares a flow, and appends the error of its delay.
func (d *labDelay) add(f *relay.FlowTruth, b *query.Between, errs []float64) []float64 {
	d.TruthLost += float64(f.Dropped)
	d.Lost += b.Lost
	if !b.HasLoss || b.Lost != float64(f.Dropped) {
		d.Wrong++
	}
	if f.Received < leastDelayPackets {
		return errs
	}
	d.Flows++
	if !b.HasDelay {
		return errs
	}
	d.Measured++
	d.TruthNs += f.MeanNs
	d.MeanNs += b.Delay.Value
	if !b.Delay.Holds(f.MeanNs) {
		d.Outside++
	}
	return append(errs, math.Abs(b.Delay.Value-f.MeanNs)/f.MeanNs)
}

// conclude finishes a class; false: no flow was in it.
func (d *labDelay) conclude(errs []float64) bool {
	if n := float64(d.Measured); n > 0 {
		d.TruthNs, d.MeanNs = d.TruthNs/n, d.MeanNs/n
		slices.Sort(errs)
		d.Median, d.Worst = errs[len(errs)/2], errs[len(errs)-1]
	}
	d.OK = d.Measured == d.Flows && d.Worst <= mostDelayError && d.Wrong == 0
	return d.Flows > 0 || d.TruthLost > 0
}

func writeDelays(w io.Writer, delays []labDelay) error {
	for i := range delays {
		d := &delays[i]
		line := fmt.Sprintf("  %-4s  delay %s to %s, set to %v: truth %s, estimate %s; error per flow %.2f %% median, %.2f %% at most (%g %%), %d of %d flows measured; lost %.0f in truth, %.0f estimated, %d flows wrong",
			verdict(d.OK), d.From, d.To, d.Delay, text.Nanoseconds(d.TruthNs), text.Nanoseconds(d.MeanNs),
			100*d.Median, 100*d.Worst, 100*mostDelayError, d.Measured, d.Flows, d.TruthLost, d.Lost, d.Wrong)
		line += fmt.Sprintf("; %d of %d cells refused (%.2g %%) in %d intervals\n", d.Refused, d.Cells, 100*float64(d.Refused)/float64(max(d.Cells, 1)), d.Intervals)
		if d.Clocks != nil {
			for _, c := range text.Clocks(d.Clocks) {
				line += "        " + c + "\n"
			}
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}
