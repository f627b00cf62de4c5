package parquet

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// interval is the one that a row of a roll-up is about: in UTC, and as a question has it.
type interval struct {
	FromTime int64 `parquet:"from_time,timestamp(nanosecond)"`
	ToTime   int64 `parquet:"to_time,timestamp(nanosecond)"`
	From     int64 `parquet:"from_ns" unit:"ns of CLOCK_TAI"`
	To       int64 `parquet:"to_ns" unit:"ns of CLOCK_TAI"`
}

// rollupInterval is a row of the table intervals: what the other tables' rows about the interval rest on.
type rollupInterval struct {
	interval
	Records    uint64   `parquet:"records" unit:"records"`
	Switches   uint64   `parquet:"switches" unit:"switches"`
	Confidence float64  `parquet:"confidence" unit:"probability"`
	Missing    string   `parquet:"missing"` // as the answer about the network's volume has it, JSON
	Unanswered []string `parquet:"unanswered,list"`
}

// rollupPort is a row of the table ports.
type rollupPort struct {
	interval
	Number    uint32   `parquet:"switch_number"`
	Switch    string   `parquet:"switch,dict"`
	Port      uint32   `parquet:"port_number"`
	Name      string   `parquet:"port,dict"`
	Up        bool     `parquet:"up"`
	Speed     *uint64  `parquet:"speed_bps,optional" unit:"bits per second"`
	Span      int64    `parquet:"span_ns" unit:"ns"`
	Missed    uint64   `parquet:"missed_packets" unit:"packets"`
	Received  *float64 `parquet:"received_packets_per_second,optional" unit:"packets per second"`
	ReceivedB *float64 `parquet:"received_bits_per_second,optional" unit:"bits per second"`
	Sent      *float64 `parquet:"sent_packets_per_second,optional" unit:"packets per second"`
	SentB     *float64 `parquet:"sent_bits_per_second,optional" unit:"bits per second"`
	Dropped   *uint64  `parquet:"dropped_packets,optional" unit:"packets"`
	Backlog   uint64   `parquet:"most_backlog" unit:"frames"`
}

// rollupLink is a row of the table links: of one direction of a link.
type rollupLink struct {
	interval
	Ends      string   `parquet:"from,dict"`
	Other     string   `parquet:"to,dict"`
	Intervals uint64   `parquet:"intervals" unit:"intervals"`
	Whole     uint64   `parquet:"whole_intervals" unit:"intervals"`
	Delay     *float64 `parquet:"delay_ns,optional" unit:"ns"`
	Low       *float64 `parquet:"delay_ns_low,optional" unit:"ns"`
	High      *float64 `parquet:"delay_ns_high,optional" unit:"ns"`
	Std       *float64 `parquet:"std_ns,optional" unit:"ns"`
	Measured  *float64 `parquet:"measured,optional" unit:"packets"`
	Packets   *float64 `parquet:"packets,optional" unit:"packets"`
	Lost      *float64 `parquet:"lost,optional" unit:"packets"`
	quantiles
}

// quantiles are those of Samples samples, each list in the order of Ranks.
type quantiles struct {
	Samples uint64    `parquet:"samples" unit:"samples"`
	Ranks   []float64 `parquet:"ranks,list"`
	Values  []float64 `parquet:"values,list"`
	Lows    []float64 `parquet:"values_low,list"`
	Highs   []float64 `parquet:"values_high,list"`
}

// rollupVolume is a row of the table volume: of all traffic, or of that of a prefix.
type rollupVolume struct {
	interval
	Prefix string  `parquet:"prefix,dict"`
	Name   string  `parquet:"name,dict"`
	Unit   string  `parquet:"unit,dict"`
	Value  float64 `parquet:"value"`
	Low    float64 `parquet:"value_low"`
	High   float64 `parquet:"value_high"`
}

// rollupFlow is a row of the table heavy-hitters.
type rollupFlow struct {
	interval
	flowColumns
	By    string  `parquet:"by,dict"`
	Unit  string  `parquet:"unit,dict"`
	Share float64 `parquet:"share" unit:"share of the volume"`
	Value float64 `parquet:"value"`
	Low   float64 `parquet:"value_low"`
	High  float64 `parquet:"value_high"`
}

// rollupHop is a row of the tables latency and congestion: of all packets that passed a switch, or, where packets do not tell hops apart, of all
// paths.
type rollupHop struct {
	interval
	Switch      string `parquet:"switch,dict"`
	Measured    string `parquet:"measured,dict"`
	Aggregation string `parquet:"aggregation,dict"`
	Unit        string `parquet:"unit,dict"`
	Flows       uint64 `parquet:"flows" unit:"flows"`
	quantiles
}

// rollupPath is a row of the table paths.
type rollupPath struct {
	interval
	Path    string   `parquet:"path,dict"` // the switches with " > " between them; empty: not known
	Hops    []string `parquet:"hops,list"`
	Flows   uint64   `parquet:"flows" unit:"flows"`
	Certain uint64   `parquet:"certain_flows" unit:"flows"`
	Packets uint64   `parquet:"packets" unit:"packets"`
}

// Rollups are tables of answers about one interval after another. The zero value has none.
type Rollups struct {
	now       interval
	intervals []rollupInterval
	ports     []rollupPort
	links     []rollupLink
	volume    []rollupVolume
	heavy     []rollupFlow
	latency   []rollupHop
	congested []rollupHop
	paths     []rollupPath
}

// RollupIntervals is the table of the intervals themselves.
const RollupIntervals = "intervals"

// RollupKinds names the tables of Rollups, RollupIntervals last.
func RollupKinds() []string {
	return []string{"ports", "links", "volume", "heavy-hitters", "latency", "congestion", "paths", RollupIntervals}
}

// RollupRanks are the quantiles of a roll-up: close enough that those of several intervals together can be told.
func RollupRanks() []float64 {
	return []float64{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1}
}

// Begin begins an interval: Add is then about it.
func (r *Rollups) Begin(w store.Window) { r.now = interval{utc(w.From), utc(w.To), w.From, w.To} }

// End ends an interval: basis is what its answers rest on, and unanswered says which questions have no answer, and why.
func (r *Rollups) End(basis *query.Basis, unanswered []string) error {
	missing, err := json.Marshal(basis.Missing)
	if err != nil {
		return err
	}
	r.intervals = append(r.intervals, rollupInterval{
		interval: r.now, Records: uint64(basis.Records), Switches: uint64(basis.Switches), Confidence: basis.Confidence, Missing: string(missing), Unanswered: unanswered,
	})
	return nil
}

// Add adds the rows of an answer about the interval; prefix is the class that a volume is of, empty: all traffic. It wraps ErrNoTable if there is no table of such answers.
func (r *Rollups) Add(answer any, prefix string) error {
	switch a := answer.(type) {
	case *query.Network:
		r.addNetwork(a)
	case *query.Between:
		r.addBetween(a)
	case *query.Volume, *query.Cardinality, *query.Entropy:
		for _, n := range query.Numbers(a) {
			r.volume = append(r.volume, rollupVolume{r.now, prefix, n.Name, n.Unit, n.Value, n.Low, n.High})
		}
	case *query.HeavyHitters:
		for i := range a.Flows {
			f := &a.Flows[i]
			r.heavy = append(r.heavy, rollupFlow{r.now, columnsOfText(f.Flow), a.By, a.Unit, f.Share, f.Value, f.Low, f.High})
		}
	case *query.LatencyAnswer:
		r.latency = append(r.latency, r.hops(a.Value, a.Aggregation, a.Unit, a.Hops, &a.Packets)...)
	case *query.CongestionAnswer:
		r.congested = append(r.congested, r.hops(a.Value, a.Aggregation, a.Unit, a.Hops, &a.Packets)...)
	case *query.PathAnswer:
		r.addPaths(a)
	default:
		return fmt.Errorf("%w: a roll-up of answers of type %T", ErrNoTable, answer)
	}
	return nil
}

func (r *Rollups) addNetwork(n *query.Network) {
	for i := range n.Switches {
		s := &n.Switches[i]
		for k := range s.Ports {
			p := &s.Ports[k]
			row := rollupPort{
				interval: r.now, Number: s.Switch, Switch: s.Name, Port: p.Number, Name: p.Name, Up: p.Up, Span: s.SpanNs, Missed: s.Missed, Backlog: p.MostBacklog,
			}
			if p.Speed != 0 {
				row.Speed = &p.Speed
			}
			if p.HasRates {
				row.Received, row.ReceivedB = &p.Received.PacketsPS, &p.Received.BitsPS
				row.Sent, row.SentB, row.Dropped = &p.Sent.PacketsPS, &p.Sent.BitsPS, new(uint64)
				for _, d := range p.Drops {
					*row.Dropped += d.Packets
				}
			}
			r.ports = append(r.ports, row)
		}
	}
}

func (r *Rollups) addBetween(b *query.Between) {
	row := rollupLink{interval: r.now, Ends: b.From, Other: b.To, Intervals: uint64(b.Intervals), Whole: uint64(b.Whole), quantiles: quantilesOf(uint64(b.Samples), b.Quantiles)}
	if b.HasDelay {
		row.Delay, row.Low, row.High, row.Std, row.Measured = &b.Delay.Value, &b.Delay.Low, &b.Delay.High, &b.StdNs, &b.Sampled
	}
	if b.HasPackets {
		row.Packets = &b.Packets
	}
	if b.HasLoss {
		row.Lost = &b.Lost
	}
	r.links = append(r.links, row)
}

func (r *Rollups) hops(measured, aggregation, unit string, hops []query.HopStats, all *query.ValueStats) (rows []rollupHop) {
	for i := range hops {
		h := &hops[i]
		rows = append(rows, rollupHop{r.now, h.Switch, measured, aggregation, unit, uint64(h.Flows), quantilesOf(h.Samples, h.Quantiles)})
	}
	if len(rows) == 0 && all.Samples > 0 {
		rows = append(rows, rollupHop{r.now, "", measured, aggregation, unit, 0, quantilesOf(all.Samples, all.Quantiles)})
	}
	return rows
}

func quantilesOf(samples uint64, list []query.QuantileValue) quantiles {
	q := quantiles{Samples: samples}
	for i := range list {
		v := &list[i]
		q.Ranks, q.Values = append(q.Ranks, v.Rank), append(q.Values, v.Value)
		q.Lows, q.Highs = append(q.Lows, v.Low), append(q.Highs, v.High)
	}
	return q
}

// addPaths counts flows by path; those whose path is not known, or that the answer leaves out, are one row.
func (r *Rollups) addPaths(a *query.PathAnswer) {
	by := map[string]*rollupPath{}
	at := func(hops []string) *rollupPath {
		text := strings.Join(hops, " > ")
		if by[text] == nil {
			by[text] = &rollupPath{interval: r.now, Path: text, Hops: hops}
		}
		return by[text]
	}
	if a.More > 0 {
		at(nil).Flows += uint64(a.More)
	}
	for i := range a.Flows {
		f := &a.Flows[i]
		var hops []string
		for k := range f.Hops {
			if f.Known {
				hops = append(hops, f.Hops[k].Switch)
			}
		}
		row := at(hops)
		row.Flows, row.Packets = row.Flows+1, row.Packets+f.Packets
		if f.Certain {
			row.Certain++
		}
	}
	for _, row := range by {
		r.paths = append(r.paths, *row)
	}
	slices.SortFunc(r.paths, func(a, b rollupPath) int {
		if a.From != b.From {
			return int(min(max(a.From-b.From, -1), 1))
		}
		return strings.Compare(a.Path, b.Path)
	})
}

// Rows is how many rows a table has.
func (r *Rollups) Rows(kind string) int {
	return map[string]int{
		"ports": len(r.ports), "links": len(r.links), "volume": len(r.volume), "heavy-hitters": len(r.heavy), "latency": len(r.latency),
		"congestion": len(r.congested), "paths": len(r.paths), RollupIntervals: len(r.intervals),
	}[kind]
}

// Write writes one of RollupKinds, with more metadata.
func (r *Rollups) Write(w io.Writer, kind string, metadata map[string]string) error {
	tables := map[string]*table{
		"ports": tableOf("rollup.ports", slices.Values(r.ports)), "links": tableOf("rollup.links", slices.Values(r.links)),
		"volume": tableOf("rollup.volume", slices.Values(r.volume)), "heavy-hitters": tableOf("rollup.heavy-hitters", slices.Values(r.heavy)),
		"latency": tableOf("rollup.latency", slices.Values(r.latency)), "congestion": tableOf("rollup.congestion", slices.Values(r.congested)),
		"paths": tableOf("rollup.paths", slices.Values(r.paths)), RollupIntervals: tableOf("rollup.intervals", slices.Values(r.intervals)),
	}
	t := tables[kind]
	if t == nil {
		return fmt.Errorf("%w: roll-ups of kind %q: choose one of %q", ErrNoTable, kind, RollupKinds())
	}
	maps.Copy(t.metadata, metadata)
	return t.to(w)
}
