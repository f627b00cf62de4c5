package query

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/store"
)

// around bounds an estimate by Chebyshev's inequality.
func (e *Engine) around(x disketch.Estimate, confidence float64) Bounded {
	slack := x.StdErr / math.Sqrt(1-confidence)
	return Bounded{x.Value, max(x.Value-slack, 0), x.Value + slack}
}

// Place names measurement points: a switch, and a port of it by its number,
// counted from 0; below 0: any port.
type Place struct {
	Switch uint32
	Port   int
}

// ParsePlace reads a place, "s1" or "s1:2".
func (e *Engine) ParsePlace(text string) (Place, error) {
	name, port, hasPort := strings.Cut(text, ":")
	id, ok := e.Store.Switch(name)
	if !ok {
		return Place{}, fmt.Errorf("switch %q sent no records: those are of %v", name, e.Store.Switches())
	}
	p := Place{id, -1}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 15)
		if err != nil {
			return Place{}, fmt.Errorf("port %q of switch %s: write its number, counted from 0", port, name)
		}
		p.Port = int(n)
	}
	return p, nil
}

// Between is the delay and the loss between two measurement points.
type Between struct {
	Basis
	From string `json:"from" column:"from"`
	To   string `json:"to" column:"to"`
	Flow string `json:"flow,omitempty" column:"flow" null:"zero"` // empty: all flows together
	// Intervals in which both points have a record; of these, Whole ones were seen
	// from beginning to end by both.
	Intervals int `json:"intervals" column:"intervals" unit:"intervals"`
	Whole     int `json:"whole_intervals" column:"whole_intervals" unit:"intervals"`
	// Refused cells hold packets and may not be used, of Cells that hold any.
	Refused int `json:"refused_cells" column:"refused_cells" unit:"cells"`
	Cells   int `json:"cells" column:"cells" unit:"cells"`

	// HasDelay: a cell survived. Delay is the mean; its bounds are of which
	// packets were measured, and of what other flows left in the cells.
	HasDelay bool    `json:"has_delay"`
	Delay    Bounded `json:"delay_ns" column:"delay_ns" unit:"ns" null:"has_delay"`
	StdNs    float64 `json:"std_ns" column:"std_ns" unit:"ns" null:"has_delay"`          // of single packets, where it is known
	Sampled  float64 `json:"measured" column:"measured" unit:"packets" null:"has_delay"` // packets behind the mean
	Trust    float64 `json:"trust" column:"trust" unit:"share" null:"has_delay"`         // share of the cells behind it that is the flow's own
	// Clocks is what the delays say about the two switches' clocks; nil: both points
	// have one clock, or no cell survived.
	Clocks *Clocks `json:"clocks,omitempty"`

	// HasLoss: an interval was whole. Lost is over these. Packets and Bytes
	// are what the flow sent, and what other flows may have left in all of its cells;
	// CountTrust is the share that is expected to be its own.
	HasLoss    bool    `json:"has_loss"`
	Packets    float64 `json:"packets" column:"packets" unit:"packets"`
	Bytes      float64 `json:"bytes" column:"bytes" unit:"bytes"`
	Lost       float64 `json:"lost" column:"lost" unit:"packets" null:"has_loss"`
	CountTrust float64 `json:"count_trust" column:"count_trust" unit:"share"`
}

// Between asks for delay and loss from one place to another; flow nil: of all
// flows together. Between two switches it compares what leaves the first with
// what arrives at the second, within one what arrives with what leaves. Of
// several points that the places may mean, those two are taken which have most
// in common.
func (e *Engine) Between(from, to Place, flow *Key) (*Between, error) {
	list := []Key(nil)
	if flow != nil {
		list = []Key{*flow}
	}
	all, total, err := e.BetweenFlows(from, to, list)
	if err != nil {
		return nil, err
	}
	if flow != nil {
		return &all[0], nil
	}
	return total, nil
}

// BetweenFlows asks for many flows at a time, and for all together.
func (e *Engine) BetweenFlows(from, to Place, flows []Key) ([]Between, *Between, error) {
	basis, err := e.basis(store.OfPoints)
	if err != nil {
		return nil, nil, err
	}
	way, err := e.stretch(&basis, from, to)
	if err != nil {
		return nil, nil, err
	}
	total := &Between{Basis: basis, From: way.names[0], To: way.names[1]}
	sums := make([]flowSum, len(flows))
	all, least := flowSum{}, math.Inf(1)
	for d, err := range e.paced(way.intervals) {
		if err != nil {
			return nil, nil, err
		}
		total.Intervals++
		total.Refused += d.Refused()
		total.Cells += d.Refused() + d.Cells(lds.Usable)
		lost, whole := d.Lost()
		if whole {
			total.Whole++
		}
		all.whole(d, float64(lost), whole, way.rows)
		if ns, ok := d.LeastNs(); ok {
			least = min(least, ns)
		}
		for i, k := range flows {
			if i%stoppedEach == stoppedEach-1 {
				if err := e.stopped(); err != nil {
					return nil, nil, err
				}
			}
			estimate := d.Flow(Hash(d.Family(), k, 0), e.Weight, lds.Balanced)
			sums[i].add(d, &estimate, way.rows)
		}
	}
	offset := e.offset(least, from, to)
	if err := e.stopped(); err != nil {
		return nil, nil, err
	}
	list := make([]Between, len(flows))
	for i, k := range flows {
		list[i] = *total
		list[i].Flow = FormatKey(k)
		sums[i].answer(&list[i])
		list[i].tellClocks(offset)
	}
	all.answer(total)
	total.tellClocks(offset)
	return list, total, nil
}

func pointName(sw string, instance uint16) string {
	direction := "in"
	if instance&1 != 0 {
		direction = "out"
	}
	return fmt.Sprintf("%s:%d %s", sw, instance/2, direction)
}

func stageName(egress bool) string {
	if egress {
		return "lds_egress"
	}
	return "lds_ingress"
}

// flowSum adds up what the intervals say of a flow. Means are weighed by the
// packets behind them.
type flowSum struct {
	packets, bytes, lost   float64
	owned                  float64 // of the packets
	hasLoss                bool
	measured, sum, trusted float64
	squares, freedom       float64 // of the packets' variance
	foreign                float64 // what other flows may have shifted the sum by
}

func (s *flowSum) add(d *lds.Difference, e *lds.Estimate, rows int) {
	s.packets += e.Packets
	s.bytes += e.Bytes
	s.owned += e.Packets * e.PacketsTrust
	if e.HasLoss {
		s.hasLoss = true
		s.lost += e.Lost
	}
	if !e.HasDelay {
		return
	}
	// A packet counts once in each row, so at least so many are different ones.
	n := e.Sampled / float64(max(rows, 1))
	s.measured += n
	s.sum += n * e.MeanNs
	s.trusted += n * e.DelayTrust
	if mean, ok := d.MeanNs(); ok {
		s.foreign += n * (1 - e.DelayTrust) * math.Abs(e.MeanNs-mean)
	}
	if e.HasVariance {
		s.squares += e.VarianceNs2 * float64(e.VarianceFreedom)
		s.freedom += float64(e.VarianceFreedom)
	}
}

// whole adds what an interval says of all flows together.
func (s *flowSum) whole(d *lds.Difference, lost float64, known bool, rows int) {
	if known {
		s.hasLoss = true
		s.lost += lost
	}
	if mean, ok := d.MeanNs(); ok {
		n := d.Counted() / float64(max(rows, 1))
		s.measured += n
		s.sum += n * mean
		s.trusted += n
	}
}

func (s *flowSum) answer(b *Between) {
	b.Packets, b.Bytes, b.Lost, b.HasLoss = s.packets, s.bytes, s.lost, s.hasLoss
	if s.packets > 0 {
		b.CountTrust = s.owned / s.packets
	}
	if s.measured == 0 {
		return
	}
	mean := s.sum / s.measured
	b.HasDelay, b.Sampled, b.Trust = true, s.measured, s.trusted/s.measured
	slack := s.foreign / s.measured
	if s.freedom > 0 {
		variance := max(s.squares/s.freedom, 0)
		b.StdNs = math.Sqrt(variance)
		left := max(1/s.measured-1/max(s.packets, s.measured), 0)
		slack += math.Sqrt(variance * left / (1 - b.Confidence))
	}
	b.Delay = Bounded{mean, mean - slack, mean + slack}
}
