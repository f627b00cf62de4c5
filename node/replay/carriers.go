package replay

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"text/tabwriter"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/pint"
	telemetry "github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/query"
)

// beside sends a second copy of each packet through a row of switches, with an INT-MD stack in which each switch
// writes what it measures of the packet itself: the values that its stage pint sees, too. Packets themselves stay as they are.
type beside struct {
	config intmd.Config
	mtu    int
	last   int
	use    [][2]*encode.Utilisation // by switch and port
	waited uint32                   // in front of the present packet at the present switch

	// Of the present packet.
	flow   flowKey
	tcpUDP bool
	frame  []byte
	own    uint32 // its bytes on the wire, without telemetry
	seen   []intmd.Hop
	over   bool // a hop found it too long for a header or its metadata
	extra  linkBytes

	stack []byte
	hops  []intmd.Hop
	sinks [2]*tally // of the first and of the last switch
}

// linkBytes are what packets had on links between switches.
type linkBytes struct{ links, own, pint, int uint64 }

func (l *linkBytes) add(o linkBytes) {
	l.links, l.own, l.pint, l.int = l.links+o.links, l.own+o.own, l.pint+o.pint, l.int+o.int
}

// tally is of the packets that left the row at one end.
type tally struct {
	packets, complete, over, partial, bare, wrong uint64

	linkBytes
	flows map[flowKey]bool // whose stacks are complete, and all say the path that the packets took
	times map[uint32]*hopTally
	use   hopTally
	most  struct{ truth, int map[uint32]uint64 } // packets by the switch behind which their most used link is
}

type hopTally struct{ truth, int values }

// flowKey is the addresses, the protocol and the ports of a flow.
type flowKey = telemetry.FlowKey

func newBeside(c *Config, roundTripNs uint64) (*beside, error) {
	b := &beside{config: *c.INT, mtu: c.MTU, last: c.Chain - 1, use: make([][2]*encode.Utilisation, c.Chain)}
	for i := range b.sinks {
		b.sinks[i] = &tally{flows: map[flowKey]bool{}, times: map[uint32]*hopTally{}}
		b.sinks[i].most.truth, b.sinks[i].most.int = map[uint32]uint64{}, map[uint32]uint64{}
	}
	for i := range b.use {
		for port := range b.use[i] {
			var err error
			if b.use[i][port], err = encode.NewUtilisation(c.LinkRate/8, roundTripNs); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// begin is a packet's arrival at the row.
func (b *beside) begin(p *packet.Packet, data []byte) {
	b.frame, b.own, b.seen, b.over, b.extra = append(b.frame[:0], data...), p.WireLen, b.seen[:0], false, linkBytes{}
	b.flow, b.tcpUDP = intmd.FlowOf(data)
	var outcome intmd.Outcome
	b.frame, outcome = intmd.Source(b.frame, &b.config, b.mtu)
	b.over = outcome == intmd.NoRoom
}

// passed is netsim's Network.Passed.
func (b *beside) passed(in, out netsim.End, p *packet.Packet, cameBytes uint32, came, now int64) {
	if p.Flags.Has(packet.FlagCopy) {
		return
	}
	use := b.use[out.Switch][out.Port]
	use.Update(uint64(now), uint64(b.waited)*uint64(cameBytes), uint64(cameBytes))
	h := intmd.Hop{
		Known: intmd.NodeID | intmd.Ports | intmd.HopLatency | intmd.Queue | intmd.IngressTime | intmd.EgressTime | intmd.Utilisation,
		Node:  uint32(out.Switch + 1), Ingress: uint16(in.Port), Egress: uint16(out.Port), Latency: uint32(min(max(now-came, 0), math.MaxUint32-1)), Queued: b.waited,
		IngressNs: uint64(came), EgressNs: uint64(now), Utilisation: uint32(min(use.Value(), math.MaxUint32-1)),
	}
	b.seen = append(b.seen, h)
	leaves := b.sinkAt(out) >= 0
	mtu := b.mtu
	if leaves {
		mtu = 0 // it is not sent with the stack
	}
	var outcome intmd.Outcome
	if b.frame, outcome = intmd.Push(b.frame, &h, mtu); outcome == intmd.MTUExceeded {
		b.over = true
	}
	if !leaves {
		grown, _ := intmd.StackLen(b.frame)
		b.extra.add(linkBytes{1, uint64(b.own), uint64(max(p.WireLen, b.own) - b.own), uint64(grown)})
	}
}

// sinkAt is which of the ends of the row a port leads out of; -1: none.
func (b *beside) sinkAt(out netsim.End) int {
	switch {
	case out.Switch == b.last && out.Port == 1:
		return 1
	case out.Switch == 0 && out.Port == 0:
		return 0
	}
	return -1
}

// end is a packet's leaving the row by a port, or its end in it.
func (b *beside) end(out netsim.End) {
	sink := b.sinkAt(out)
	if sink < 0 {
		return
	}
	t := b.sinks[sink]
	t.packets++
	t.add(b.extra)
	mostUsed := t.took(b.seen)
	if b.over {
		t.over++
	}
	var stack intmd.Stack
	b.frame, stack = intmd.Strip(b.frame, b.stack)
	if stack == nil {
		t.bare++
		return
	}
	b.stack = stack
	var ok bool
	if b.hops, ok = stack.Hops(b.hops[:0], 0); !ok {
		t.wrong++
		return
	}
	if stack.HopsExceeded() || stack.MTUExceeded() || len(b.hops) != len(b.seen) {
		t.partial++
		return
	}
	t.complete++
	t.told(b, mostUsed)
}

// took notes what a packet met, and returns the largest use of a link.
func (t *tally) took(seen []intmd.Hop) (most uint32) {
	at := uint32(0)
	for i := range seen {
		h := &seen[i]
		t.hop(h.Node).truth.add(uint64(h.Latency))
		if h.Utilisation > most || at == 0 {
			most, at = h.Utilisation, h.Node
		}
	}
	t.use.truth.add(uint64(most))
	t.most.truth[at]++
	return most
}

func (t *tally) hop(node uint32) *hopTally {
	h := t.times[node]
	if h == nil {
		h = new(hopTally)
		t.times[node] = h
	}
	return h
}

// told notes what a complete stack says. What differs from what its packet met counts as wrong.
func (t *tally) told(b *beside, mostUsed uint32) {
	right, most, at := true, uint32(0), uint32(0)
	for i := range b.hops {
		h := &b.hops[i]
		right = right && (h.Known&intmd.NodeID == 0 || h.Node == b.seen[i].Node)
		if h.Known&intmd.HopLatency != 0 && h.Known&intmd.NodeID != 0 {
			t.hop(h.Node).int.add(uint64(h.Latency))
			right = right && h.Latency == b.seen[i].Latency
		}
		if h.Known&intmd.Utilisation != 0 && (h.Utilisation > most || at == 0) {
			most, at = h.Utilisation, h.Node
		}
	}
	if b.config.Instructions&intmd.Utilisation != 0 {
		t.use.int.add(uint64(most))
		t.most.int[at]++
		right = right && most == mostUsed
	}
	if !right {
		t.wrong++
	}
	if b.tcpUDP && b.config.Instructions&intmd.NodeID != 0 {
		before, known := t.flows[b.flow]
		t.flows[b.flow] = right && (before || !known)
	}
}

// values counts values to 12 significant bits: within 0.025 %.
type values struct {
	n  uint64
	of map[uint64]uint64
}

func (v *values) add(x uint64) {
	if v.of == nil {
		v.of = map[uint64]uint64{}
	}
	cut := max(bits.Len64(x)-12, 0)
	v.of[x>>cut<<cut]++
	v.n++
}

// quantile is the smallest value that a share of rank, at least one value, does not exceed.
func (v *values) quantile(rank float64) float64 {
	want := max(uint64(math.Ceil(rank*float64(v.n))), 1)
	for _, x := range slices.Sorted(maps.Keys(v.of)) {
		if n := v.of[x]; n < want {
			want -= n
		} else {
			return float64(x)
		}
	}
	return 0
}

// Carriers are PINT and INT-MD on the same packets, of those that left the chain at one switch.
type Carriers struct {
	Switch   int    `json:"switch"`
	Packets  uint64 `json:"packets"`
	LinkRate uint64 `json:"link_rate"` // of the chain's links, bit/s
	MTU      int    `json:"mtu"`       // 0: no limit
	// Metadata is what hops write with INT-MD, and HopBytes how much that is.
	Metadata string `json:"metadata"`
	HopBytes int    `json:"hop_bytes"`
	// Crossings are of packets over links between switches, and Bytes theirs without telemetry.
	Crossings uint64    `json:"crossings"`
	Bytes     uint64    `json:"bytes"`
	Carriers  []Carrier `json:"carriers"`
	// Latency and Use are what packets met, and what each carrier says of it: of each switch, and of the most used link of each packet's path, 1 is all of it.
	Latency []Compared `json:"latency"`
	Use     []Compared `json:"use"`
	// MostUsed are the switches behind which the most used links of packets' paths are.
	MostUsed []MostUsed `json:"most_used"`
}

// Carrier is what one carrier costs, and what it tells of paths.
type Carrier struct {
	Name string `json:"name"`
	// Packets brought what they carry to the sink, all hops' of INT-MD. Over would have exceeded the MTU, and Partial lack hops or have no room
	// for more.
	Packets uint64 `json:"packets"`
	Over    uint64 `json:"over_mtu"`
	// AddedBytes are on links between switches; PerPacket of a packet on one link, and Share of all bytes there.
	AddedBytes uint64  `json:"added_bytes"`
	PerPacket  float64 `json:"per_packet"`
	Share      float64 `json:"share"`
	// Flows are those of which paths can be told, of PINT those of at least 60 packets; Right and Wrong what is said of them for certain.
	Flows int `json:"flows"`
	Right int `json:"right"`
	Wrong int `json:"wrong"`
}

// Compared is a quantile of what packets met.
type Compared struct {
	Switch int     `json:"switch,omitempty"`
	Rank   float64 `json:"rank"`
	Truth  float64 `json:"truth"`
	PINT   *Told   `json:"pint,omitempty"`
	INT    *Told   `json:"int,omitempty"`
}

// Told is what a carrier says of a quantile, and how far off that is, as a share of the truth.
type Told struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// MostUsed counts packets by the switch behind which the most used link of their path is. PINT says how used it is, and not which it is.
type MostUsed struct {
	Switch int    `json:"switch"`
	Truth  uint64 `json:"truth"`
	INT    uint64 `json:"int"`
}

// comparedRanks are the quantiles that are compared: those that the engine gives.
var comparedRanks = []float64{0.5, 0.99}

// carriers compares what both carriers brought to each end.
func (r *Replay) carriers(decoded []*Decoded) (all []*Carriers, wrong uint64) {
	b := r.row.beside
	for end, t := range b.sinks {
		if t.packets == 0 {
			continue
		}
		at, source := 1, b.last
		if end == 1 {
			at, source = b.last+1, 0
		}
		c := &Carriers{
			Switch: at, Packets: t.packets, LinkRate: r.config.LinkRate, MTU: r.config.MTU, Metadata: b.config.Instructions.String(), HopBytes: b.config.HopLen(),
			Crossings: t.links, Bytes: t.own,
		}
		var d *Decoded
		if i := slices.IndexFunc(decoded, func(d *Decoded) bool { return d.Switch == at }); i >= 0 {
			d = decoded[i]
			c.Carriers = append(c.Carriers, t.pintRow(d, r.mtuLeft(source)))
		}
		c.Carriers = append(c.Carriers, t.intRow())
		for _, node := range slices.Sorted(maps.Keys(t.times)) {
			for _, rank := range comparedRanks {
				c.Latency = append(c.Latency, t.times[node].compare(int(node), rank, 1, d.latency(int(node), rank)))
			}
		}
		for _, rank := range comparedRanks {
			c.Use = append(c.Use, t.use.compare(0, rank, telemetry.UtilisationOne, d.use(rank)))
		}
		for _, node := range slices.Sorted(maps.Keys(t.most.truth)) {
			c.MostUsed = append(c.MostUsed, MostUsed{int(node), t.most.truth[node], t.most.int[node]})
		}
		all, wrong = append(all, c), wrong+t.wrong
	}
	return all, wrong
}

func (t *tally) row(name string, added uint64) Carrier {
	c := Carrier{Name: name, AddedBytes: added}
	if t.links > 0 {
		c.PerPacket, c.Share = float64(added)/float64(t.links), float64(added)/float64(t.own+added)
	}
	return c
}

func (t *tally) pintRow(d *Decoded, over uint64) Carrier {
	c := t.row("pint", t.pint)
	c.Over, c.Flows, c.Right, c.Wrong = over, d.Long, d.Found, d.Wrong
	for _, answer := range d.answers {
		switch a := answer.(type) {
		case *query.PathAnswer:
			c.Packets = max(c.Packets, a.Digests)
		case *query.LatencyAnswer:
			c.Packets = max(c.Packets, a.Digests)
		case *query.CongestionAnswer:
			c.Packets = max(c.Packets, a.Digests)
		}
	}
	return c
}

func (t *tally) intRow() Carrier {
	c := t.row("int-md", t.int)
	c.Packets, c.Over, c.Flows = t.complete, t.over, len(t.flows)
	for _, right := range t.flows {
		if right {
			c.Right++
		} else {
			c.Wrong++
		}
	}
	return c
}

// mtuLeft is how many packets went without a digest, as a port sends none so long.
func (r *Replay) mtuLeft(sw int) (n uint64) {
	for _, m := range node.StageMetrics(r.row.network.Chain(sw)) {
		if m.Stage == "pint" && m.Name == "left_packets_total" && m.Labels["reason"] == "mtu" {
			n += uint64(m.Value)
		}
	}
	return n
}

// compare takes values in units of 1/one.
func (h *hopTally) compare(node int, rank, one float64, said *float64) Compared {
	c := Compared{Switch: node, Rank: rank, Truth: h.truth.quantile(rank) / one}
	told := func(value float64) *Told {
		t := &Told{Value: value}
		if c.Truth != 0 {
			t.Error = value/c.Truth - 1
		}
		return t
	}
	if h.int.n > 0 {
		c.INT = told(h.int.quantile(rank) / one)
	}
	if said != nil {
		c.PINT = told(*said)
	}
	return c
}

func quantileAt(s *query.ValueStats, rank float64) *float64 {
	for i := range s.Quantiles {
		if q := &s.Quantiles[i]; q.Rank == rank {
			return &q.Value
		}
	}
	return nil
}

// latency is a quantile of a switch's latency by the digests; nil: they do not tell it.
func (d *Decoded) latency(node int, rank float64) *float64 {
	if d == nil {
		return nil
	}
	for _, answer := range d.answers {
		if a, ok := answer.(*query.LatencyAnswer); ok && a.Value == telemetry.HopLatency.String() {
			for i := range a.Hops {
				if h := &a.Hops[i]; h.Switch == fmt.Sprint(node) {
					return quantileAt(&h.ValueStats, rank)
				}
			}
		}
	}
	return nil
}

// use is a quantile of the largest use on packets' paths by the digests; nil: they do not tell it.
func (d *Decoded) use(rank float64) *float64 {
	if d == nil {
		return nil
	}
	for _, answer := range d.answers {
		if a, ok := answer.(*query.CongestionAnswer); ok && a.Value == telemetry.EgressUtilisation.String() && a.Aggregation == "max" {
			return quantileAt(&a.Packets, rank)
		}
	}
	return nil
}

// roundTrip is over how long a switch averages the use of its links.
func roundTrip(stages map[string]any) uint64 {
	c := pint.DefaultConfig()
	if given, ok := stages["pint"].(*pint.Config); ok {
		c = *given
	}
	return uint64(c.RoundTrip)
}

// write writes the comparison for people.
func (c *Carriers) write(w io.Writer) {
	mean := 0.0
	if c.Crossings > 0 {
		mean = float64(c.Bytes) / float64(c.Crossings)
	}
	fmt.Fprintf(w, "\ncarriers on the %d packets that left at switch %d, %.1f bytes each; int-md with %s, %d bytes at each hop\n", c.Packets, c.Switch, mean, c.Metadata, c.HopBytes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "carrier\tadded bytes\tof all bytes\tpackets\tover MTU\tflows\tpaths right\twrong\t")
	for _, r := range c.Carriers {
		fmt.Fprintf(t, "%s\t%.1f\t%.2f %%\t%d\t%d\t%d\t%d\t%d\t\n", r.Name, r.PerPacket, 100*r.Share, r.Packets, r.Over, r.Flows, r.Right, r.Wrong)
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "quantile\tof\tpackets met\tpint says\terror\tint-md says\terror\t")
	line := func(q *Compared, of, format string, scale float64) {
		fmt.Fprintf(t, "%g\t%s\t"+format+"\t", q.Rank, of, scale*q.Truth)
		for _, told := range []*Told{q.PINT, q.INT} {
			if told == nil {
				fmt.Fprint(t, "-\t-\t")
			} else {
				fmt.Fprintf(t, format+"\t%.2f %%\t", scale*told.Value, 100*told.Error)
			}
		}
		fmt.Fprintln(t)
	}
	for i := range c.Latency {
		line(&c.Latency[i], fmt.Sprintf("latency of switch %d, ns", c.Latency[i].Switch), "%.0f", 1)
	}
	for i := range c.Use {
		line(&c.Use[i], "most used link, %", "%.2f", 100)
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "most used link is behind\tpackets\tint-md names it\t")
	for _, m := range c.MostUsed {
		fmt.Fprintf(t, "switch %d\t%d\t%d\t\n", m.Switch, m.Truth, m.INT)
	}
	t.Flush()
}
