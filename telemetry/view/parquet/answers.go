package parquet

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// answerTable is the table of an answer.
func answerTable(answer any) (*table, error) {
	switch a := answer.(type) {
	case *query.HeavyHitters:
		return heavyHitters(a)
	case *query.PathAnswer:
		return paths(a)
	case *query.LatencyAnswer:
		return latency(a)
	case *query.CongestionAnswer:
		return congestion(a)
	case *query.LoopsAnswer:
		return loops(a)
	case *query.Volume:
		return volume(a)
	case *query.Frequency:
		return frequency(a)
	case *query.Entropy:
		return entropy(a)
	case *query.Cardinality:
		return cardinality(a)
	case *query.Between:
		return between(a)
	case *query.Target:
		return target(a)
	case *query.Network:
		return network(a)
	case *query.Series:
		return series(a)
	}
	return nil, fmt.Errorf("%w: an answer of type %T", ErrNoTable, answer)
}

// of completes a table by the answer's basis, and the answer without what rows say.
func (t *table) of(b *query.Basis, rest any) (*table, error) {
	if err := t.basis(b); err != nil {
		return nil, err
	}
	if err := t.summary(rest); err != nil {
		return nil, err
	}
	return t, nil
}

// rows yields rows that are there already.
func rows[R any](list ...R) func(func(R) bool) { return slices.Values(list) }

// volumeRow is what passed the network or a part of it, of the selected flows ("network", and "share" of it), or
// of all flows exactly (a switch).
type volumeRow struct {
	Of          string  `parquet:"of"`
	Switch      *string `parquet:"switch,optional"`
	Packets     float64 `parquet:"packets" unit:"packets, or a share of them where of = share"`
	PacketsLow  float64 `parquet:"packets_low" unit:"packets, or a share of them where of = share"`
	PacketsHigh float64 `parquet:"packets_high" unit:"packets, or a share of them where of = share"`
	Bytes       float64 `parquet:"bytes" unit:"bytes, or a share of them where of = share"`
	BytesLow    float64 `parquet:"bytes_low" unit:"bytes, or a share of them where of = share"`
	BytesHigh   float64 `parquet:"bytes_high" unit:"bytes, or a share of them where of = share"`
}

func volumeOf(of string, p, b query.Bounded) volumeRow {
	return volumeRow{Of: of, Packets: p.Value, PacketsLow: p.Low, PacketsHigh: p.High, Bytes: b.Value, BytesLow: b.Low, BytesHigh: b.High}
}

func volume(v *query.Volume) (*table, error) {
	list := []volumeRow{volumeOf("network", v.Packets, v.Bytes)}
	if v.Share != nil {
		list = append(list, volumeOf("share", v.Share.Packets, v.Share.Bytes))
	}
	for _, s := range v.PerSwitch {
		p, b := float64(s.Packets), float64(s.Bytes)
		row := volumeOf("switch", query.Bounded{Value: p, Low: p, High: p}, query.Bounded{Value: b, Low: b, High: b})
		row.Switch = &s.Switch
		list = append(list, row)
	}
	rest := *v
	rest.PerSwitch = nil
	return tableOf("volume", rows(list...)).of(&v.Basis, rest)
}

// frequencyRow is what one system says of a flow, in one unit.
type frequencyRow struct {
	flowColumns
	By   string `parquet:"by"`
	Unit string `parquet:"unit"`
	bounds
	FromNs     int64    `parquet:"from_ns" unit:"ns of CLOCK_TAI"`
	ToNs       int64    `parquet:"to_ns" unit:"ns of CLOCK_TAI"`
	Confidence float64  `parquet:"confidence" unit:"probability"`
	Records    int64    `parquet:"records" unit:"records"`
	Covered    *float64 `parquet:"covered,optional" unit:"share of the time"`
	Path       []string `parquet:"path,list"`
}

func frequency(f *query.Frequency) (*table, error) {
	c := columnsOfText(f.Flow)
	row := func(by, unit string, b query.Bounded, basis *query.Basis) frequencyRow {
		return frequencyRow{flowColumns: c, By: by, Unit: unit, bounds: bounds(b),
			FromNs: basis.From, ToNs: basis.To, Confidence: basis.Confidence, Records: int64(basis.Records)}
	}
	var list []frequencyRow
	basis := &query.Basis{Missing: []store.Missing{}}
	if s := f.Sketch; s != nil {
		r := row(query.BySketch, s.Unit, s.Bounded, &s.Basis)
		r.Covered, r.Path = &s.Covered, s.Path
		list, basis = append(list, r), &s.Basis
	}
	if s := f.Sample; s != nil {
		list = append(list, row(query.BySample, "packets", s.Packets, &s.Basis), row(query.BySample, "bytes", s.Bytes, &s.Basis))
		both := s.Basis
		if f.Sketch != nil { // one question has one window
			both.Records += basis.Records
			both.Switches = max(both.Switches, basis.Switches)
			both.Missing = slices.Concat(both.Missing, basis.Missing)
		}
		basis = &both
	}
	return tableOf("frequency", rows(list...)).of(basis, f)
}

// valueRow is one figure with a name.
type valueRow struct {
	Name string `parquet:"name"`
	Unit string `parquet:"unit"`
	bounds
}

func entropy(a *query.Entropy) (*table, error) {
	list := []valueRow{
		{"bits", "bits", bounds(a.Bits)}, {"flows", "flows", bounds(a.Flows)}, {"f2", a.Unit + " squared", bounds(a.F2)},
	}
	if a.TotalSample != nil {
		list = append(list, valueRow{"total", a.Unit, bounds(*a.TotalSample)})
	}
	return tableOf("entropy", rows(list...)).of(&a.Basis, a)
}

func cardinality(a *query.Cardinality) (*table, error) {
	return tableOf("cardinality", rows(valueRow{"flows", "flows", bounds(a.Flows)})).of(&a.Basis, a)
}

// betweenRow is delay and loss between two points. What is not known is null.
type betweenRow struct {
	From       string   `parquet:"from"`
	To         string   `parquet:"to"`
	Flow       *string  `parquet:"flow,optional"` // null: all flows
	Intervals  int64    `parquet:"intervals" unit:"intervals"`
	Whole      int64    `parquet:"whole_intervals" unit:"intervals"`
	Cells      int64    `parquet:"cells" unit:"cells"`
	Refused    int64    `parquet:"refused_cells" unit:"cells"`
	Delay      *float64 `parquet:"delay_ns,optional" unit:"ns"`
	DelayLow   *float64 `parquet:"delay_ns_low,optional" unit:"ns"`
	DelayHigh  *float64 `parquet:"delay_ns_high,optional" unit:"ns"`
	Std        *float64 `parquet:"std_ns,optional" unit:"ns"`
	Measured   *float64 `parquet:"measured,optional" unit:"packets"`
	Trust      *float64 `parquet:"trust,optional" unit:"share"`
	Packets    float64  `parquet:"packets" unit:"packets"`
	Bytes      float64  `parquet:"bytes" unit:"bytes"`
	Lost       *float64 `parquet:"lost,optional" unit:"packets"`
	CountTrust float64  `parquet:"count_trust" unit:"share"`
}

func between(b *query.Between) (*table, error) {
	r := betweenRow{From: b.From, To: b.To, Flow: text(b.Flow), Intervals: int64(b.Intervals), Whole: int64(b.Whole),
		Cells: int64(b.Cells), Refused: int64(b.Refused), Packets: b.Packets, Bytes: b.Bytes, CountTrust: b.CountTrust}
	if b.HasDelay {
		r.Delay, r.DelayLow, r.DelayHigh = &b.Delay.Value, &b.Delay.Low, &b.Delay.High
		r.Std, r.Measured, r.Trust = &b.StdNs, &b.Sampled, &b.Trust
	}
	if b.HasLoss {
		r.Lost = &b.Lost
	}
	return tableOf("delay", rows(r)).of(&b.Basis, b)
}

type targetRow struct {
	Switch    string  `parquet:"switch"`
	Subepochs int64   `parquet:"subepochs" unit:"subepochs of an epoch"`
	Error     float64 `parquet:"error"`
	Unit      string  `parquet:"unit,dict"`
}

func target(a *query.Target) (*table, error) {
	var list []targetRow
	for _, f := range a.Fragments {
		list = append(list, targetRow{f.Switch, int64(f.Subepochs), f.Error, a.Unit + " per subepoch"})
	}
	rest := *a
	rest.Fragments = nil
	return tableOf("target", rows(list...)).of(&a.Basis, rest)
}

// portRow is a port of a switch, with the switch; a switch without ports has one row without.
type portRow struct {
	Switch      string   `parquet:"switch"`
	Number      uint32   `parquet:"switch_number"`
	Health      string   `parquet:"health,dict"`
	AgeNs       int64    `parquet:"age_ns" unit:"ns"`
	Epochs      uint64   `parquet:"epochs" unit:"epochs"`
	Overruns    uint64   `parquet:"overruns" unit:"epochs"`
	Missed      uint64   `parquet:"missed_packets" unit:"packets"`
	Port        *string  `parquet:"port,optional"`
	PortNumber  *uint32  `parquet:"port_number,optional"`
	Up          *bool    `parquet:"up,optional"`
	Speed       *uint64  `parquet:"speed_bps,optional" unit:"bits per second"`
	ReceivedPS  *float64 `parquet:"received_packets_per_second,optional" unit:"packets per second"`
	ReceivedBPS *float64 `parquet:"received_bits_per_second,optional" unit:"bits per second"`
	ReceivedUse *float64 `parquet:"received_utilisation,optional" unit:"share of the speed"`
	SentPS      *float64 `parquet:"sent_packets_per_second,optional" unit:"packets per second"`
	SentBPS     *float64 `parquet:"sent_bits_per_second,optional" unit:"bits per second"`
	SentUse     *float64 `parquet:"sent_utilisation,optional" unit:"share of the speed"`
	Backlog     *uint64  `parquet:"backlog,optional" unit:"frames"`
	MostBacklog *uint64  `parquet:"most_backlog,optional" unit:"frames"`
	DropsPS     *float64 `parquet:"drops_per_second,optional" unit:"packets per second"`
}

func network(n *query.Network) (*table, error) {
	t := tableOf("network", func(yield func(portRow) bool) {
		for i := range n.Switches {
			s := &n.Switches[i]
			row := portRow{Switch: s.Name, Number: s.Switch, Health: s.Health, AgeNs: s.AgeNs, Epochs: s.Epochs, Overruns: s.Overruns, Missed: s.Missed}
			if len(s.Ports) == 0 && !yield(row) {
				return
			}
			for j := range s.Ports {
				if !yield(row.withPort(&s.Ports[j])) {
					return
				}
			}
		}
	})
	return t.of(&n.Basis, n)
}

func (r portRow) withPort(p *query.NetworkPort) portRow {
	r.Port, r.PortNumber, r.Up, r.Backlog, r.MostBacklog = &p.Name, &p.Number, &p.Up, &p.Backlog, &p.MostBacklog
	if p.Speed != 0 {
		r.Speed = &p.Speed
	}
	if p.HasRates {
		r.ReceivedPS, r.ReceivedBPS = &p.Received.PacketsPS, &p.Received.BitsPS
		r.SentPS, r.SentBPS, r.DropsPS = &p.Sent.PacketsPS, &p.Sent.BitsPS, &p.DropsPS
		if p.Speed != 0 {
			r.ReceivedUse, r.SentUse = &p.Received.Utilisation, &p.Sent.Utilisation
		}
	}
	return r
}

// pointRow is a value of a piece of the window; a piece without values has one row with its fault.
type pointRow struct {
	FromNs int64    `parquet:"from_ns" unit:"ns of CLOCK_TAI"`
	ToNs   int64    `parquet:"to_ns" unit:"ns of CLOCK_TAI"`
	Name   *string  `parquet:"name,optional,dict"`
	Unit   *string  `parquet:"unit,optional,dict"`
	Value  *float64 `parquet:"value,optional"`
	Low    *float64 `parquet:"value_low,optional"`
	High   *float64 `parquet:"value_high,optional"`
	Fault  *string  `parquet:"fault,optional"`
}

func series(s *query.Series) (*table, error) {
	t := tableOf("series", func(yield func(pointRow) bool) {
		for i := range s.Points {
			p := &s.Points[i]
			row := pointRow{FromNs: p.From, ToNs: p.To, Fault: text(p.Fault)}
			if len(p.Values) == 0 && !yield(row) {
				return
			}
			for j := range p.Values {
				v := &p.Values[j]
				row.Name, row.Unit, row.Value, row.Low, row.High = &v.Name, &v.Unit, &v.Value, &v.Low, &v.High
				if !yield(row) {
					return
				}
			}
		}
	})
	rest := *s
	rest.Points = nil
	return t.of(&s.Basis, rest)
}
