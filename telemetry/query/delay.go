package query

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
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
// counted from 0, below 0: any port; or a class, by its name or its prefixes, empty: any class.
type Place struct {
	Switch uint32
	Port   int
	Class  string

	ports bool      // of ports alone, none of a class
	only  Direction // of one direction alone
}

// ParsePlace reads a place: "s1", "s1:up1", "s1:2", "s1/blue" or "s1/10.0.1.0/24 > 10.0.3.0/24". Behind it may be
// " in" or " out", as answers name points.
func (e *Engine) ParsePlace(text string) (Place, error) {
	text, only := directionOf(text)
	text, class, _ := strings.Cut(text, "/")
	name, port, hasPort := strings.Cut(text, ":")
	id, ok := e.Store.Switch(name)
	if !ok {
		return Place{}, fmt.Errorf("switch %q sent no records: those are of %v", name, e.Store.Switches())
	}
	p := Place{Switch: id, Port: -1, Class: class, only: only}
	if hasPort {
		w := e.wired()
		n, ok := w.port(id, port)
		if !ok {
			if names := w.names(id); names != "" {
				return Place{}, fmt.Errorf("switch %s has no port %q: its ports are %s; or write a number, counted from 0", name, shorten(port), names)
			}
			return Place{}, fmt.Errorf("switch %s has no port %q, as no record has the names of its ports: write its number, counted from 0", name, shorten(port))
		}
		p.Port = n
	}
	if names, has := e.classesAt(&p); !has && len(names) != 0 {
		return Place{}, fmt.Errorf("switch %s has no class %q: those that it measured are %s", name, shorten(class), strings.Join(names, ", "))
	}
	return p, nil
}

// mostClasses are listed where a question's class is not among them.
const mostClasses = 20

// classesAt lists classes of a place's switch, and reports whether the place's own is one of them, or none is named.
func (e *Engine) classesAt(at *Place) (names []string, has bool) {
	if at.Class == "" {
		return nil, true
	}
	of, named := Place{Switch: at.Switch, Port: -1}, Place{Switch: at.Switch, Port: -1, Class: at.Class}
	for _, p := range e.Store.Points {
		if p.Class.IsZero() || !of.has(p) {
			continue
		}
		if named.has(p) {
			return nil, true
		}
		if name := strconv.Quote(p.Class.String()); len(names) < mostClasses && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, false
}

// has reports whether a point is at the place.
func (p *Place) has(point *store.Point) bool {
	if point.Switch != p.Switch || p.Port >= 0 && p.Port != point.Port() {
		return false
	}
	if p.only != Either && (p.only == Out) != point.Egress() {
		return false
	}
	c := &point.Class
	if p.ports && !c.IsZero() {
		return false
	}
	return p.Class == "" || !c.IsZero() && (p.Class == c.Name || p.Class == c.Packets())
}

// Between is the delay and the loss between two measurement points.
type Between struct {
	Basis
	From string `json:"from" column:"from"`
	To   string `json:"to" column:"to"`
	Flow string `json:"flow,omitempty" column:"flow" null:"zero"` // empty: all flows together
	// Intervals of which both points have a record, and in which one of them counted a packet; of these, Whole ones were counted
	// from beginning to end, and without a packet refused for its timestamp, by both. In Idle others neither counted a packet.
	Intervals int `json:"intervals" column:"intervals" unit:"intervals"`
	Whole     int `json:"whole_intervals" column:"whole_intervals" unit:"intervals"`
	Idle      int `json:"idle_intervals" column:"idle_intervals" unit:"intervals"`
	// Unlike are those in which both points counted in different rows, or columns, and which are not compared: rows adapt to the flows that a point has
	// seen, so one that has just started may have others than its peer.
	Unlike int `json:"unlike_intervals" column:"unlike_intervals" unit:"intervals"`
	// Refused cells hold packets and may not be used, of Cells that hold any.
	Refused int `json:"refused_cells" column:"refused_cells" unit:"cells"`
	Cells   int `json:"cells" column:"cells" unit:"cells"`
	// Kept is the least share of a point's cells that the records of an interval have: below 1 cells of more flows are one, so that records are short, or
	// some are left out, and with them flows. Of one flow, nothing is known in Unsent of the intervals, and packets, bytes and losses are of the others.
	Kept   float64 `json:"kept" column:"kept" unit:"share"`
	Unsent int     `json:"unsent_intervals" column:"unsent_intervals" unit:"intervals"`

	// HasDelay: a cell survived. Delay is the mean; its bounds are of which
	// packets were measured, and of what other flows left in the cells.
	HasDelay bool    `json:"has_delay"`
	Delay    Bounded `json:"delay_ns" column:"delay_ns" unit:"ns" null:"has_delay"`
	StdNs    float64 `json:"std_ns" column:"std_ns" unit:"ns" null:"has_delay"`          // of single packets, where it is known
	Sampled  float64 `json:"measured" column:"measured" unit:"packets" null:"has_delay"` // packets behind the mean
	Trust    float64 `json:"trust" column:"trust" unit:"share" null:"has_delay"`         // share of the cells behind it that is the flow's own
	// Quantiles of single packets' delays, the median, and those that 10 % and 1 % of packets exceed, of Samples packets that both
	// points sampled; none: they do not.
	Samples   int             `json:"samples,omitempty"`
	Quantiles []QuantileValue `json:"quantiles,omitempty"`
	// Clocks is what the delays say about the two switches' clocks; nil: both points
	// have one clock, or no cell survived.
	Clocks *Clocks `json:"clocks,omitempty"`

	// HasLoss: an interval was whole. Lost is over these. Packets and Bytes
	// are what the flow sent, and what other flows may have left in all of its cells;
	// CountTrust is the share that is expected to be its own. HasBytes: it is one flow. Of all flows together Packets are those
	// that left in whole intervals, HasPackets where there are such, and Bytes are not known.
	HasLoss    bool    `json:"has_loss"`
	HasPackets bool    `json:"has_packets"`
	HasBytes   bool    `json:"has_bytes"`
	Packets    float64 `json:"packets" column:"packets" unit:"packets" null:"has_packets"`
	Bytes      float64 `json:"bytes" column:"bytes" unit:"bytes" null:"has_bytes"`
	Lost       float64 `json:"lost" column:"lost" unit:"packets" null:"has_loss"`
	CountTrust float64 `json:"count_trust" column:"count_trust" unit:"share" null:"has_bytes"`
	// LostFlows are the flows that lost packets, those that lost most first, where both points name them; AllNamed: it is all of IPv4, in
	// the intervals that both counted whole.
	LostFlows []LostFlow `json:"lost_flows,omitempty"`
	AllNamed  bool       `json:"all_named,omitempty"`
	// MoreUnnamed: both points name flows, and some that lost packets could not be read: more did than there is room for, or one lost too many.
	MoreUnnamed bool `json:"more_unnamed,omitempty"`
	// Losing is how many flows of IPv4 lost packets where MoreUnnamed: by those of one flow of LosingOf, of which all are named.
	Losing   *Bounded `json:"losing_flows,omitempty" unit:"flows"`
	LosingOf int      `json:"losing_of,omitempty"`
	MoreLost int      `json:"more_lost_flows,omitempty"` // flows that the question's limit left out

	// Ways are those that were compared, of all flows, or that the flow took: of several, delay and loss are over all of them, and losses over those
	// that know them.
	Ways []Way `json:"ways,omitempty"`
	// Why says why no loss is known; empty: it is.
	Why string `json:"why,omitempty"`

	// Segments are the pieces of the flow's path between the two switches, in order, if the question asks for them and the path is known.
	Segments []Segment `json:"segments,omitempty"`

	// Flows are those that the question names, in its order, if it names several: the whole is of all flows.
	Flows []FlowBetween `json:"flows,omitempty"`
}

// FlowBetween is what is known of one of several flows, as a Between of it alone would have it.
type FlowBetween struct {
	Flow     string  `json:"flow"`
	HasDelay bool    `json:"has_delay"`
	Delay    Bounded `json:"delay_ns" unit:"ns"`
	HasLoss  bool    `json:"has_loss"`
	Packets  float64 `json:"packets" unit:"packets"`
	Lost     float64 `json:"lost" unit:"packets"`
	// Why says why nothing of the flow is known, or no loss of it; empty: it is.
	Why string `json:"why,omitempty"`
}

// Way is what leads from one measurement point to another, or from several to several where packets spread in between.
type Way struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Packets left in the intervals that both ends counted whole.
	Packets  float64 `json:"packets" unit:"packets"`
	HasDelay bool    `json:"has_delay"`
	Delay    Bounded `json:"delay_ns" unit:"ns"`
	HasLoss  bool    `json:"has_loss"`
	Lost     float64 `json:"lost" unit:"packets"`
	Why      string  `json:"why,omitempty"` // no loss is known
}

// LostFlow is a flow that lost so many packets; below 0: they came twice.
type LostFlow struct {
	Flow string `json:"flow"`
	Lost int64  `json:"lost"`
}

// lossNames adds up the flows that intervals name.
type lossNames struct {
	of    map[lds.FlowName]lds.LostFlow
	known bool
	share int // of one flow of so many, each that lost packets is named, in all intervals; 0: of none
}

func newLossNames() *lossNames { return &lossNames{of: map[lds.FlowName]lds.LostFlow{}, share: 1} }

// join adds what another way names.
func (l *lossNames) join(o *lossNames) {
	l.known = l.known || o.known
	l.sample(o.share)
	for _, f := range o.of {
		l.lost(f)
	}
}

// sample adds that the flows of a sample are all named. That of the intervals before is in it, or the other way round.
func (l *lossNames) sample(share int) {
	if l.share != 0 && share != 0 {
		l.share = max(l.share, share)
	} else {
		l.share = 0
	}
}

func (l *lossNames) lost(f lds.LostFlow) {
	f.Lost += l.of[f.Name].Lost
	l.of[f.Name] = f
}

// add adds an interval; one that was not counted whole says nothing.
func (l *lossNames) add(d *lds.Difference) {
	if _, whole := d.Lost(); !whole {
		return
	}
	family := d.Family()
	names, known := d.LostFlows(func(n lds.FlowName) uint64 { return family.Uint64x2(0, n.Addresses, n.Ports|4<<40) })
	if !known {
		return
	}
	l.known = true
	l.sample(names.Of)
	for _, f := range names.Flows {
		l.lost(f)
	}
}

func (l *lossNames) answer(b *Between, delta float64) {
	b.AllNamed, b.MoreUnnamed = l.known && l.share == 1, l.known && l.share != 1
	sampled := 0
	for n, f := range l.of {
		if f.Lost == 0 {
			continue
		}
		if f.Share >= l.share {
			sampled++
		}
		k := Key{Version: 4, Proto: uint8(n.Ports >> 32), SrcPort: bits.ReverseBytes16(uint16(n.Ports)), DstPort: bits.ReverseBytes16(uint16(n.Ports >> 16))}
		binary.LittleEndian.PutUint32(k.Src[:], uint32(n.Addresses))
		binary.LittleEndian.PutUint32(k.Dst[:], uint32(n.Addresses>>32))
		b.LostFlows = append(b.LostFlows, LostFlow{FormatKey(k), f.Lost})
	}
	if b.MoreUnnamed && l.share != 0 {
		value, low, high := lds.Losing(sampled, l.share, delta)
		b.LosingOf, b.Losing = l.share, &Bounded{value, max(low, float64(len(b.LostFlows))), max(high, float64(len(b.LostFlows)))}
	}
	slices.SortFunc(b.LostFlows, func(x, y LostFlow) int { return cmp.Or(cmp.Compare(y.Lost, x.Lost), cmp.Compare(x.Flow, y.Flow)) })
}

// Between asks for delay and loss from one place to another; flow nil: of all
// flows together. Between two switches it compares what leaves the first with
// what arrives at the second, within one what arrives with what leaves. Of
// all points that the places may mean, those count that a link joins, or that have packets in common; of a flow, those that it passed.
func (e *Engine) Between(from, to Place, flow *Key) (*Between, error) {
	if flow != nil {
		all, _, _, err := e.between(from, to, []Key{*flow}, true)
		if err != nil {
			return nil, err
		}
		return &all[0], nil
	}
	_, total, err := e.BetweenFlows(from, to, nil)
	return total, err
}

// BetweenFlows asks for many flows at a time, and for all together. Where points are of classes, a flow is looked for in
// its own, and all flows together are those of all classes that both ends measure.
func (e *Engine) BetweenFlows(from, to Place, flows []Key) ([]Between, *Between, error) {
	list, _, all, err := e.between(from, to, flows, false)
	return list, all, err
}

// BetweenSeveral is all flows together, with what is known of each of some: their intervals are read once.
func (e *Engine) BetweenSeveral(from, to Place, flows []Key) (*Between, error) {
	list, unknown, all, err := e.between(from, to, flows, false)
	if err != nil {
		return nil, err
	}
	for i := range list {
		b := &list[i]
		f := FlowBetween{Flow: b.Flow, HasDelay: b.HasDelay, Delay: b.Delay, HasLoss: b.HasLoss, Packets: b.Packets, Lost: b.Lost, Why: b.Why}
		if unknown[i] != nil {
			f = FlowBetween{Flow: b.Flow, Why: unknown[i].Error()}
		}
		all.Flows = append(all.Flows, f)
	}
	return all, nil
}

// between is BetweenFlows. only: the flows matter alone, and classes of none of them are not read. unknowns are why nothing is known
// of a flow, by its number, nil where something is.
func (e *Engine) between(from, to Place, flows []Key, only bool) (list []Between, unknowns []error, all *Between, err error) {
	basis, err := e.basis(store.OfPoints)
	if err != nil {
		return nil, nil, nil, err
	}
	basis.Missing = e.missingAt(basis.Missing, missingPlace{from, from.Switch != to.Switch}, missingPlace{to, from.Switch == to.Switch})
	var one *Key // that decides about ports
	if only && len(flows) == 1 {
		one = &flows[0]
	}
	ways, err := e.stretches(&basis, from, to, one)
	if err != nil {
		return nil, nil, nil, err
	}
	asked, err := ofClasses(ways, flows)
	if err != nil {
		return nil, nil, nil, err
	}
	of, named := make([]passed, len(ways)), newLossNames()
	ofFlow := make([][]passed, len(flows))
	least := math.Inf(1)
	var class lds.Class // that of least, where it is of one
	read, intervals := 0, 0
	for n, way := range ways {
		if !only || len(asked[n]) > 0 {
			intervals += len(way.intervals)
		}
	}
	for n, way := range ways {
		if only && len(asked[n]) == 0 {
			continue
		}
		if only {
			class = way.class
		}
		p := passed{way: way, of: Between{Basis: basis, From: way.names[0], To: way.names[1], Intervals: way.unlike, Unlike: way.unlike, Kept: 1}}
		sums, names := make([]flowSum, len(asked[n])), newLossNames()
		for d, err := range e.paced(way.intervals) {
			if err != nil {
				return nil, nil, nil, err
			}
			if read++; e.Progress != nil {
				e.Progress(read, intervals)
			}
			p.interval(d)
			names.add(d)
			if ns, ok := d.LeastNs(); ok {
				least = min(least, ns)
			}
			sampled := d.Delays()
			p.sum.sample(sampled, nil)
			for i, at := range asked[n] {
				if i%stoppedEach == stoppedEach-1 {
					if err := e.stopped(); err != nil {
						return nil, nil, nil, err
					}
				}
				flow := Hash(d.Family(), flows[at], 0)
				estimate := d.Flow(flow, e.Weight, lds.Balanced)
				sums[i].add(d, &estimate)
				sums[i].sample(sampled, &flow)
			}
		}
		for i, at := range asked[n] {
			ofFlow[at] = append(ofFlow[at], passed{way: way, of: p.of, sum: sums[i]})
		}
		if p.judge(); p.sum.hasLoss {
			named.join(names)
		}
		of[n] = p
	}
	offset := e.offset(least, from, to, &class, ways)
	if err := e.stopped(); err != nil {
		return nil, nil, nil, err
	}
	list, unknowns = make([]Between, len(flows)), make([]error, len(flows))
	for i, parts := range ofFlow {
		parts = took(parts)
		list[i] = e.answerOf(parts, from, to)
		list[i].Flow = FormatKey(flows[i])
		if unknowns[i] = unknown(&list[i], parts); only && unknowns[i] != nil {
			return nil, nil, nil, unknowns[i]
		}
		list[i].tellClocks(offset)
	}
	if only {
		return list, unknowns, nil, nil
	}
	total := e.answerOf(of, from, to)
	total.HasPackets, total.HasBytes, total.CountTrust = total.HasLoss, false, 0
	named.answer(&total, 1-total.Confidence)
	total.tellClocks(offset)
	return list, unknowns, &total, nil
}

// missingPlace is a place of which points of one direction were asked.
type missingPlace struct {
	Place
	egress bool
}

// missingAt leaves of what is missing what belongs to points that were asked, and what is of no switch.
func (e *Engine) missingAt(list []store.Missing, asked ...missingPlace) (of []store.Missing) {
	for _, m := range list {
		if m.Switch == "" || slices.ContainsFunc(asked, func(at missingPlace) bool {
			// Of points without a name a record is known, but not of which port or class.
			return m.Switch == e.Store.Name(at.Switch) && (m.Point == "" || (m.Instance&1 != 0) == at.egress && (at.Port < 0 || int(m.Instance/2) == at.Port))
		}) {
			of = append(of, m)
		}
	}
	return of
}

// ofClasses lists for each way the flows, by number, that are of its class, or all, if it is of ports. A flow's key does not say of which VNI or edge it is.
func ofClasses(ways []*stretch, flows []Key) ([][]int, error) {
	asked := make([][]int, len(ways))
	if ways[0].class.IsZero() {
		for n := range ways {
			for i := range flows {
				asked[n] = append(asked[n], i)
			}
		}
		return asked, nil
	}
	for i, k := range flows {
		best := -1
		for n, way := range ways {
			if inClass(&k, &way.class) && (best < 0 || longer(&way.class, &ways[best].class)) {
				best = n
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("flow %s is of no class that both ends measure: those are %s", FormatKey(k), classNames(ways))
		}
		of := &ways[best].class
		if also := slices.IndexFunc(ways, func(w *stretch) bool { return w != ways[best] && w.class.From == of.From && w.class.To == of.To }); also >= 0 {
			return nil, fmt.Errorf("flow %s may be of class %q or %q, which have the same prefixes: name one, as in --from SWITCH/CLASS", FormatKey(k), of, &ways[also].class)
		}
		asked[best] = append(asked[best], i)
	}
	return asked, nil
}

func inClass(k *Key, c *lds.Class) bool {
	src, dst := netip.AddrFrom16(k.Src), netip.AddrFrom16(k.Dst)
	if k.Version == 4 {
		src, dst = netip.AddrFrom4([4]byte(k.Src[:4])), netip.AddrFrom4([4]byte(k.Dst[:4]))
	}
	return c.From.Contains(src) && c.To.Contains(dst)
}

// longer reports whether of two classes that have a packet in common it belongs to the first.
func longer(a, b *lds.Class) bool {
	return cmp.Or(cmp.Compare(a.From.Bits(), b.From.Bits()), cmp.Compare(a.To.Bits(), b.To.Bits())) > 0
}

func classNames(ways []*stretch) string {
	var names []string
	for _, w := range ways {
		names = append(names, fmt.Sprintf("%q", w.class.String()))
	}
	return strings.Join(names, ", ")
}

// pointName names a measurement point of a switch, which is of a port or of a class.
func pointName(sw string, p *store.Point) string {
	return p.At(sw)
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
	packets, bytes    float64
	owned             float64 // of the packets
	arrived           float64
	hasLoss           bool
	lost              float64    // of all flows together, or of one by other ways
	losses            lds.Losses // of one flow by this way
	beyondAll         bool       // an interval has lost far more of the flow than of all flows
	unsent            int        // intervals whose records have nothing of the flow
	measured, trusted float64    // packets whose delay was measured; of these, the flow's own
	sum, weight       float64    // of delays, each as often as packets it stands for; of these packets
	squares, freedom  float64    // of the packets' variance
	foreign           float64    // what other flows may have shifted the sum by
	delays            []sampledDelays
}

// sampledDelays are delays of single packets in an interval, which were sampled at a rate.
type sampledDelays struct {
	rate   float64
	delays []float64
}

// sample adds the delays of sampled packets of a flow, nil: of all flows.
func (s *flowSum) sample(d *lds.Delays, flow *uint64) {
	switch {
	case d == nil:
	case flow == nil:
		s.delays = append(s.delays, sampledDelays{d.Rate, d.All()})
	default:
		s.delays = append(s.delays, sampledDelays{d.Rate, d.Of(*flow)})
	}
}

// join adds what was measured of the flow by another way.
func (s *flowSum) join(o *flowSum) {
	s.packets, s.bytes, s.lost, s.owned, s.arrived = s.packets+o.packets, s.bytes+o.bytes, s.lost+o.lostPackets(), s.owned+o.owned, s.arrived+o.arrived
	s.hasLoss, s.unsent, s.beyondAll = s.hasLoss || o.hasLoss, s.unsent+o.unsent, s.beyondAll || o.beyondAll
	s.measured, s.trusted, s.sum, s.weight = s.measured+o.measured, s.trusted+o.trusted, s.sum+o.sum, s.weight+o.weight
	s.squares, s.freedom, s.foreign = s.squares+o.squares, s.freedom+o.freedom, s.foreign+o.foreign
	s.delays = append(s.delays, o.delays...)
}

// lostPackets are those of all ways.
func (s *flowSum) lostPackets() float64 {
	lost, known := s.losses.Lost()
	if !known {
		return s.lost
	}
	return s.lost + lost
}

// own is how many packets are expected to be the flow's own at both ends.
func (s *flowSum) own() float64 {
	if s.packets == 0 {
		return 0
	}
	return min(s.packets, s.arrived) * s.owned / s.packets
}

// quantiles answers from one sample of all intervals, at the lowest of their rates.
func (s *flowSum) quantiles(b *Between) {
	rate := math.Inf(1)
	for _, x := range s.delays {
		rate = min(rate, x.rate)
	}
	var all []float64
	for _, x := range s.delays {
		step := max(int(math.Round(x.rate/rate)), 1)
		for i := 0; i < len(x.delays); i += step {
			all = append(all, x.delays[i])
		}
	}
	if b.Samples = len(all); b.Samples == 0 {
		return
	}
	for _, rank := range []float64{0.5, 0.9, 0.99} {
		x := lds.Quantile(all, rank, b.Confidence)
		b.Quantiles = append(b.Quantiles, QuantileValue{Rank: rank, Bounded: Bounded{x.Value, x.Low, x.High}, RankLow: x.RankLow, RankHigh: x.RankHigh, Open: x.Open})
	}
}

func (s *flowSum) add(d *lds.Difference, e *lds.Estimate) {
	if e.Unsent {
		s.unsent++
		return
	}
	s.packets += e.Packets
	s.bytes += e.Bytes
	s.owned += e.Packets * e.PacketsTrust
	s.arrived += e.Arrived
	s.losses.Add(d, e)
	if e.HasLoss {
		s.hasLoss = true
		// Cells count by weight, and all packets are counted as they are.
		if all, known := d.Lost(); known && e.Lost > max(float64(all), 0)+e.Packets/2 {
			s.beyondAll = true
		}
	}
	if !e.HasDelay {
		return
	}
	// A packet counts once in each row, so at least so many are different ones.
	n := e.Sampled / float64(d.Rows())
	s.measured += n
	s.sum += n * e.MeanNs
	s.weight += n
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
func (s *flowSum) whole(d *lds.Difference) {
	if lost, known := d.Lost(); known {
		s.hasLoss = true
		s.lost += float64(lost)
		s.packets += float64(d.Sent())
	}
	if mean, ok := d.MeanNs(); ok {
		n := d.Counted() / float64(d.Rows())
		s.measured += n
		s.trusted += n
		// What was measured stands for all that were sent: of a way that loses packets more cells are refused.
		sent := max(float64(d.Sent()), n)
		s.sum += sent * mean
		s.weight += sent
	}
}

func (s *flowSum) answer(b *Between) {
	s.quantiles(b)
	b.Unsent = s.unsent
	b.Packets, b.Bytes, b.Lost, b.HasLoss = s.packets, s.bytes, s.lostPackets(), s.hasLoss
	b.HasPackets, b.HasBytes = true, true
	if s.packets > 0 {
		b.CountTrust = s.owned / s.packets
	}
	if s.beyondAll {
		b.HasLoss, b.Lost, b.Why = false, 0, "the cells of the flow lack more packets than all flows lost: both points need the same weights (weight of lds_egress and lds_ingress)"
	}
	if s.measured == 0 {
		return
	}
	mean := s.sum / s.weight
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
