package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// Series is an answer over time: the window in pieces, in the order of time. Its basis
// is of the whole window. A packet that passes one switch in one piece and another in the next is in both, as each
// piece counts what passed the network in its time: of volume and frequency the pieces add up to as many packets more as are under way at their ends.
type Series struct {
	Basis
	Of Kind `json:"of"`
	// StepNs is the length of a piece but for the ends: the one asked for, rounded up to
	// whole slices of the records, so that each record is in one piece if slices are
	// powers of two, as epochs are. Pieces begin at multiples of it.
	StepNs int64         `json:"step_ns"`
	Points []SeriesPoint `json:"points" rows:""`
}

// MaxPoints bounds the points of a Series.
const MaxPoints = 2048

// SeriesPoint is the answer of one piece.
type SeriesPoint struct {
	store.Window
	// Values are what the kind's answers have of numbers, each under the same name in
	// every point: "packets" and "bytes" of volume, "entropy", "flows", and so on.
	Values []SeriesValue `json:"values" rows:""`
	// Fault says why there is no value; empty: there is one.
	Fault string `json:"fault,omitempty" null:"zero"`
}

// SeriesValue is a number with its bounds.
type SeriesValue struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Bounded
}

// Series answers a question for each piece of its window, of the given length: the same as
// Ask with that Step. Pieces about which nothing is known say so in their Fault.
func (e *Engine) Series(ctx context.Context, q *Question, step time.Duration) (*Series, error) {
	stepped := *q
	stepped.Step = step
	if err := stepped.Validate(); err != nil {
		return nil, err
	}
	if step <= 0 {
		return nil, fmt.Errorf("%w: step_ns: a series needs the length of its pieces", ErrInvalid)
	}
	own := e.of(ctx, q)
	kind := kinds[q.Kind]
	of := kind.measured
	var basis Basis
	var err error
	partition := store.AllPartitions
	if of == store.OfDigests {
		basis, partition, err = own.basisOfDigests(q)
	} else {
		basis, err = own.basis(of)
	}
	if err != nil {
		return nil, err
	}
	slice := own.countSlices(&basis, of, partition)
	if basis.Records == 0 {
		if have := own.Store.Of(measurements(of)...); have != (store.Window{}) {
			return nil, own.none("a "+of, "", have)
		}
		return nil, fmt.Errorf("%w (%s) in the window: ask about another one", ErrNoRecords, of)
	}
	s := &Series{Basis: basis, Of: q.Kind, StepNs: int64(step), Points: []SeriesPoint{}}
	if slice > 0 {
		s.StepNs = roundUp(s.StepNs, slice)
	}
	pieces, err := divide(basis.Window, s.StepNs)
	if err != nil {
		return nil, err
	}
	if own.decoded, err = own.joined(basis.Window); err != nil {
		return nil, err
	}
	for _, w := range pieces {
		if err := own.stopped(); err != nil {
			return nil, err
		}
		p, err := own.point(ctx, &stepped, w)
		if err != nil {
			return nil, err
		}
		s.Points = append(s.Points, p)
	}
	return s, nil
}

// measurements are those that a kind's series counts.
func measurements(of string) []string {
	if of == ofCounts {
		return []string{store.OfSamples, store.OfFragments}
	}
	return []string{of}
}

// countSlices fills a basis with the records of a measurement, of digests those of a partition, and returns their longest slice;
// 0 if what they say has times of its own.
func (e *Engine) countSlices(b *Basis, of string, partition int) (longest int64) {
	switches := map[uint32]bool{}
	count := func(o *store.Origin, length int64) {
		if o.Overlaps(b.Window) {
			b.rest(switches, o)
			longest = max(longest, length)
		}
	}
	if of == ofCounts {
		return max(e.countSlices(b, store.OfSamples, store.AllPartitions), e.countSlices(b, store.OfFragments, store.AllPartitions))
	}
	switch of {
	case store.OfPoints:
		for i := range e.Store.Points {
			count(&e.Store.Points[i].Origin, int64(e.Store.Points[i].Length()))
		}
	case store.OfFragments:
		for i := range e.Store.Fragments {
			count(&e.Store.Fragments[i].Origin, int64(e.Store.Fragments[i].Epochs.Nanoseconds()))
		}
	case store.OfStatuses: // of a moment each; the first one of a piece is compared with the last one before
		for i := range e.Store.Statuses {
			count(&e.Store.Statuses[i].Origin, 0)
		}
	case store.OfDigests:
		for _, x := range e.Store.DigestsWithin(partition, b.Window) {
			count(&x.Origin, 0)
		}
	default:
		for i := range e.Store.Samples {
			if (e.Store.Samples[i].Unit == oblivious.Flows) != (of == store.OfFlowSamples) {
				continue
			}
			count(&e.Store.Samples[i].Origin, int64(e.Store.Samples[i].Length()))
		}
	}
	return longest
}

// roundUp is the least multiple of unit from x on.
func roundUp(x, unit int64) int64 { return (x + unit - 1) / unit * unit }

// roundDown is the largest multiple of unit up to x, which may be below 0.
func roundDown(x, unit int64) int64 {
	rest := x % unit
	if rest < 0 {
		rest += unit
	}
	return x - rest
}

// divide cuts a window at the multiples of step. The first and the last piece are whole too,
// but that nothing outside of the window is in them.
func divide(w store.Window, step int64) (pieces []store.Window, err error) {
	begin := roundDown(w.From, step)
	// Times are within 2^62, so that differences fit into 64 bits without a sign.
	if n := (uint64(w.To) - uint64(begin) + uint64(step) - 1) / uint64(step); w.From < w.To && n > MaxPoints {
		least := roundUp(int64((uint64(w.To)-uint64(w.From))/MaxPoints)+1, int64(time.Millisecond))
		return nil, fmt.Errorf("%w: it has %d points, and %d are allowed: choose a step of %v or more, or a shorter window", ErrTooCostly, n, MaxPoints, time.Duration(least))
	}
	for from := begin; from < w.To; from += step {
		pieces = append(pieces, store.Window{From: max(from, w.From), To: min(from+step, w.To)})
	}
	return pieces, nil
}

// point asks about one piece. Errors that hold for all pieces end the series.
func (e *Engine) point(ctx context.Context, q *Question, w store.Window) (SeriesPoint, error) {
	own := *e
	own.piece = true
	own.Window, own.unions = w, map[string]*network{}
	answer, err := kinds[q.Kind].ask(ctx, &own, q)
	p := SeriesPoint{Window: w, Values: []SeriesValue{}}
	switch {
	case errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooCostly) || errors.Is(err, ErrUnreached) || ctx.Err() != nil:
		return p, err
	case err != nil:
		p.Fault = err.Error()
		return p, nil
	}
	p.Values = Numbers(answer)
	if len(p.Values) == 0 {
		p.Fault = "the records of this time say nothing"
	}
	return p, nil
}

// Numbers are the named values of an answer: what a series shows of it, and a table of an answer without a list.
func Numbers(answer any) []SeriesValue {
	switch a := answer.(type) {
	case *Volume:
		return []SeriesValue{{"packets", "packets", a.Packets}, {"bytes", "bytes", a.Bytes}}
	case *Entropy:
		return []SeriesValue{{"entropy", "bits", a.Bits}, {"flows", "flows", a.Flows}, {"f2", a.Unit + "^2", a.F2}}
	case *Cardinality:
		return []SeriesValue{{"flows", "flows", a.Flows}}
	case *Frequency:
		return a.numbers()
	case *Between:
		return a.numbers()
	case *LatencyAnswer:
		return append(quantileNumbers("", a.Packets.Quantiles, a.Unit), hopNumbers(a.Hops, a.Unit)...)
	case *CongestionAnswer:
		return quantileNumbers("", a.Packets.Quantiles, a.Unit)
	case *Network:
		return a.numbers()
	}
	return nil
}

// numbers are of each port, by its name, as in "p1 received".
func (n *Network) numbers() (list []SeriesValue) {
	for i := range n.Switches {
		for _, p := range n.Switches[i].Ports {
			add := func(what, unit string, x float64) {
				list = append(list, SeriesValue{p.Name + " " + what, unit, Bounded{x, x, x}})
			}
			if p.HasRates {
				add("received", "bits per second", p.Received.BitsPS)
				add("sent", "bits per second", p.Sent.BitsPS)
				add("drops", "packets per second", p.DropsPS)
			}
			add("queue", "frames", float64(p.MostBacklog))
		}
	}
	return list
}

func (f *Frequency) numbers() (list []SeriesValue) {
	if f.Sample != nil {
		list = append(list, SeriesValue{"packets", "packets", f.Sample.Packets}, SeriesValue{"bytes", "bytes", f.Sample.Bytes})
	}
	if f.Sketch != nil {
		list = append(list, SeriesValue{"sketch", f.Sketch.Unit, f.Sketch.Bounded})
	}
	return list
}

func (b *Between) numbers() (list []SeriesValue) {
	if b.HasDelay {
		list = append(list, SeriesValue{"delay", "ns", b.Delay})
	}
	if b.HasLoss {
		list = append(list, SeriesValue{"lost", "packets", Bounded{b.Lost, b.Lost, b.Lost}})
	}
	return list
}

// hopNumbers name each hop's quantiles, as in "s1 p99".
func hopNumbers(hops []HopStats, unit string) (list []SeriesValue) {
	for i := range hops {
		name := hops[i].Switch
		if name == "" {
			name = fmt.Sprintf("hop %d", hops[i].Hop)
		}
		list = append(list, quantileNumbers(name+" ", hops[i].Quantiles, unit)...)
	}
	return list
}

func quantileNumbers(prefix string, all []QuantileValue, unit string) (list []SeriesValue) {
	for _, q := range all {
		list = append(list, SeriesValue{fmt.Sprintf("%sp%g", prefix, 100*q.Rank), unit, q.Bounded})
	}
	return slices.Clip(list)
}
