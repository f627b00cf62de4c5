package query

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// At names measurement points: those of a place, in one direction or either.
type At struct {
	Place
	Direction Direction
}

// Direction is which packets of a port a measurement point counts.
type Direction uint8

const (
	Either Direction = iota
	In               // what arrives, by lds_ingress
	Out              // what leaves, by lds_egress
)

// ParseAt reads measurement points: a place, and "in" or "out" behind it, as in "s1:2 in".
func (e *Engine) ParseAt(text string) (At, error) {
	name, direction := directionOf(text)
	p, err := e.ParsePlace(name)
	return At{p, direction}, err
}

// directionOf takes "in" or "out" off the end of a measurement point's name.
func directionOf(text string) (name string, d Direction) {
	if name, ok := strings.CutSuffix(text, " in"); ok {
		return strings.TrimSpace(name), In
	}
	if name, ok := strings.CutSuffix(text, " out"); ok {
		return strings.TrimSpace(name), Out
	}
	return strings.TrimSpace(text), Either
}

// HeavyHittersAt asks as HeavyHitters does, but of what passed a measurement point: its sketch says
// how much each flow sent there. Keys are not in it: candidates are the flows given, and
// without any those that the samples name. Of several points that at may mean, that one is taken
// which counted most packets.
func (e *Engine) HeavyHittersAt(at At, unit oblivious.Unit, theta, epsilon float64, flows []Key) (*HeavyHitters, error) {
	basis, err := e.basis(store.OfPoints)
	if err != nil {
		return nil, err
	}
	points, err := e.busiest(basis.Window, at)
	if err != nil {
		return nil, err
	}
	basis.Missing = e.missingAt(basis.Missing, missingPlace{Place{Switch: at.Switch, Port: points[0].Port()}, points[0].Egress()})
	if flows, err = e.candidatesAt(flows); err != nil {
		return nil, err
	}
	h := &HeavyHitters{Basis: basis, By: ByPoint, At: pointName(e.Store.Name(at.Switch), points[0]),
		Candidates: len(flows), Unit: unit.String(), Theta: theta, Epsilon: epsilon, Delta: 1 - basis.Confidence}
	switches := map[uint32]bool{}
	for _, p := range points {
		h.rest(switches, &p.Origin)
	}
	sum, err := e.volumes(points, unit, h.Delta, flows)
	if err != nil {
		return nil, err
	}
	total, noise, outlier := sum.total, sum.noise, sum.outlier
	h.Volume, h.Unsent = Bounded{total, sum.least, sum.most}, sum.unsent
	if total == 0 {
		return h, nil // nothing passed
	}
	for i, k := range flows {
		if sum.flows[i].Unsent {
			continue
		}
		if f := heavyFlow(k, sum.flows[i]); f.Value >= (theta-epsilon/2)*total && f.Value > 0 {
			f.Share = f.Value / total
			h.Flows = append(h.Flows, f)
		}
	}
	slices.SortFunc(h.Flows, func(a, b HeavyFlow) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Flow, b.Flow))
	})
	// An estimate is no further below the truth than the noise taken out of it, and above it by
	// more than what outliers add with probability delta.
	if least := 2 * max(noise, outlier-noise) / total; !sum.sampled && sum.whole && sum.unsent == 0 && least <= theta {
		h.LeastEpsilon, h.Guaranteed = &least, epsilon >= least
	}
	return h, nil
}

// busiest returns a point's records in the window.
func (e *Engine) busiest(w store.Window, at At) ([]*store.Point, error) {
	byPoint, packets := map[uint16][]*store.Point{}, map[uint16]uint64{}
	for _, egress := range []bool{false, true} {
		if at.Direction == In && egress || at.Direction == Out && !egress {
			continue
		}
		for _, p := range e.points(w, at.Place, egress) {
			byPoint[p.Instance] = append(byPoint[p.Instance], p)
			packets[p.Instance] += p.Packets
		}
	}
	if len(byPoint) == 0 {
		var have store.Window
		for i := range e.Store.Points {
			if p := e.Store.Points[i]; at.has(p) && (at.Direction == Either || p.Egress() == (at.Direction == Out)) {
				have = have.Join(p.Window)
			}
		}
		return nil, e.none("a measurement point of switch "+e.Store.Name(at.Switch), "add lds_ingress or lds_egress to its graph, ask about another port or direction", have)
	}
	best, found := uint16(0), false
	for i := range byPoint {
		if !found || packets[i] > packets[best] || packets[i] == packets[best] && i < best {
			best, found = i, true
		}
	}
	return byPoint[best], nil
}

// candidatesAt are the flows given, each once, or those of the samples. A point knows flows by
// their 5-tuples, so others cannot be asked for.
func (e *Engine) candidatesAt(flows []Key) ([]Key, error) {
	if len(flows) == 0 {
		var err error
		if flows, err = e.Candidates(); errors.Is(err, ErrNoRecords) {
			return nil, fmt.Errorf("a measurement point has no keys of flows: name candidates, or have them named by a sample: %w", err)
		} else if err != nil {
			return nil, err
		}
	}
	seen, list := map[Key]bool{}, make([]Key, 0, len(flows))
	for _, k := range flows {
		if whole := k.Version != 0 && k.Proto != 0; whole && !seen[k] {
			seen[k] = true
			list = append(list, k)
		}
	}
	switch {
	case len(flows) == 0:
		return nil, errors.New("no flow is a candidate in the window: ask about a longer one, or one with traffic")
	case len(list) == 0:
		return nil, errors.New("none of the candidates has addresses, protocol and ports, by which a measurement point knows flows: set key = \"5-tuple\" in [stages.oblivious]")
	}
	return list, nil
}

// volumeSums are what the intervals of a point say of one unit.
type volumeSums struct {
	total, least, most float64
	whole              bool // all of total was counted
	// What others leave in a flow's cells: in the median, and at most, except with the
	// probability asked for.
	noise, outlier float64
	sampled        bool
	unsent         int // flows that some interval's record has no row of
	flows          []lds.Volume
}

// volumes adds up the intervals of a point, with the cells of one at a time.
func (e *Engine) volumes(points []*store.Point, unit oblivious.Unit, delta float64, flows []Key) (*volumeSums, error) {
	of := lds.Packets
	if unit == oblivious.Bytes {
		of = lds.Bytes
	}
	sum := &volumeSums{whole: true, flows: make([]lds.Volume, len(flows))}
	for _, p := range points {
		if err := e.stopped(); err != nil {
			return nil, err
		}
		point, err := p.Decode()
		if err != nil {
			return nil, err
		}
		v := point.Volumes(of, 1-delta/float64(len(points))) // all of them hold
		noise, outlier := v.Noise()
		sum.total, sum.noise, sum.outlier = sum.total+v.Total(), sum.noise+noise, sum.outlier+outlier
		least, most, whole := v.TotalBounds()
		sum.least, sum.most, sum.whole = sum.least+least, sum.most+most, sum.whole && whole
		sum.sampled = sum.sampled || v.Sampled()
		for i, k := range flows {
			if i%stoppedEach == stoppedEach-1 {
				if err := e.stopped(); err != nil {
					return nil, err
				}
			}
			one, flow := v.Flow(Hash(p.Hash, k, 0)), &sum.flows[i]
			flow.Counted, flow.Most = flow.Counted+one.Counted, flow.Most+one.Most
			flow.Noise, flow.Least = flow.Noise+one.Noise, flow.Least+one.Least
			if one.Unsent && !flow.Unsent {
				flow.Unsent = true
				sum.unsent++
			}
		}
	}
	return sum, nil
}

// heavyFlow is a flow with its size, without what is expected to be others'.
func heavyFlow(k Key, sum lds.Volume) HeavyFlow {
	value := max(sum.Counted-sum.Noise, 0)
	trust := 0.0
	if sum.Counted > 0 {
		trust = value / sum.Counted
	}
	return HeavyFlow{Key: k, Flow: FormatKey(k), Trust: &trust, Bounded: Bounded{value, math.Min(sum.Least, value), math.Max(sum.Most, value)}}
}

// ReadFlows reads flows, one in a line as ParseKey has it; empty lines and what is behind a # are
// left out. All faults are reported.
func ReadFlows(text string) (flows []Key, err error) {
	var faults []error
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, err))
			continue
		}
		flows = append(flows, k)
	}
	if len(flows) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("there is no flow in it"))
	}
	return flows, errors.Join(faults...)
}
