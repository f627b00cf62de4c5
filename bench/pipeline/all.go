package pipeline

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/internal/hugepage"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
)

// allStages are a bridge with all four telemetry systems.
var allStages = []string{"parse", "oblivious", "lds_ingress", "l2", "disketch", "pint", "lds_egress"}

// role is what the switch does with PINT's digests.
type role uint8

const (
	noShims role = iota // packets arrive without shims, and none is put in
	transit             // between two other switches: packets arrive and leave with shims
	source              // packets come from hosts, and leave with shims
	sink                // packets arrive with shims, and leave to hosts
)

// allGraphs are the rows of the whole: the same graph for the roles of a switch, for more and for unequally busy flows, with
// cold headers, and by each family of hashes.
func allGraphs() []Graph {
	all := func(name string, change func(*Graph)) Graph {
		g := Graph{Name: name, Stages: allStages, Flows: 100_000, Stations: 10_000, Role: transit}
		change(&g)
		return g
	}
	return []Graph{
		all("all", func(*Graph) {}),
		all("all_sink", func(g *Graph) { g.Role = sink }),
		all("all_source", func(g *Graph) { g.Role = source }),
		all("all_zipf", func(g *Graph) { g.Order = traffic.Zipf }),
		all("all_1M", func(g *Graph) { g.Flows = 1_000_000 }),
		all("all_1M_zipf", func(g *Graph) { g.Flows, g.Order = 1_000_000, traffic.Zipf }),
		all("all_cold", func(g *Graph) { g.Cold = true }),
		all("all_crc", func(g *Graph) { g.Hash = hash.CRC }),
		all("all_aes", func(g *Graph) { g.Hash = hash.AES }),
		all("all_floor", func(g *Graph) { g.Stages = []string{"floor"} }),
		all("all_floor_1M", func(g *Graph) { g.Stages, g.Flows = []string{"floor"}, 1_000_000 }),
	}
}

// floor is the memory traffic of the whole graph in a plain loop, and nothing else: for each packet the line of its
// header is read and written, and as many lines of tables as large as the stages' are changed, by its addresses and ports. Lines
// of a batch do not depend on each other, so as many loads are in flight as the processor can have.
type floor struct {
	tables []floorTable
	at     [packet.BatchSize]uint64
}

// floorTable is memory of which a packet changes so many lines.
type floorTable struct {
	words []uint64 // a power of two
	lines int
}

// newFloor has what the stages have with their default configurations: the points of two ports at ingress and at egress, a
// row of a sketch, the addresses of a bridge, both of which are looked up.
func newFloor() *floor {
	table := func(bytes, lines int) floorTable { return floorTable{hugepage.Make[uint64](bytes / 8), lines} }
	return &floor{tables: []floorTable{
		table(4<<20, 1), table(4<<20, 1), // lds_ingress, lds_egress: 70,000 cells, in one row with so many flows, of two ports
		table(128<<10, 1), // disketch
		table(256<<10, 2), // l2: two addresses
	}}
}

func (f *floor) Role() pipeline.Role      { return pipeline.RoleForward }
func (f *floor) Needs() packet.Needs      { return 0 }
func (f *floor) Stage(int) pipeline.Stage { return newFloor() }

// Process implements pipeline.Stage.
func (f *floor) Process(b *packet.Batch) {
	mem, pkts := b.Mem, b.Pkts
	for from := 0; from < len(pkts); from += packet.BatchSize {
		some := pkts[from:min(from+packet.BatchSize, len(pkts))]
		for i := range some {
			p := &some[i]
			h := (*[40]byte)(mem[p.Addr:])
			p.OutPort = p.InPort ^ 1
			// Addresses of the link, which follow from the flow's number, are as good as a hash of it.
			f.at[i&(packet.BatchSize-1)] = binary.LittleEndian.Uint64(h[24:])*0x9e3779b185ebca87 ^ binary.LittleEndian.Uint64(h[32:])*0xc2b2ae3d27d4eb4f
			h[17]++ // where a shim's digest is
		}
		for t := range f.tables {
			words, lines := f.tables[t].words, f.tables[t].lines
			for line := range lines {
				shift := uint(8*line+t) & 63
				for i := range some {
					words[f.at[i&(packet.BatchSize-1)]>>shift&uint64(len(words)-1)]++
				}
			}
		}
	}
}

// shims puts a shim of the default plan in front of the EtherType of each packet that a stream writes, as an earlier
// switch would have.
type shims struct {
	plan   uint16
	digest int // bytes
}

func newShims() *shims {
	p := pintplan.Default()
	return &shims{p.ID, (p.Bits + 7) / 8}
}

// room is how much longer a packet gets, in bytes.
func (s *shims) room() int { return header.ShimLen(s.digest) }

// wrap makes packet[room:] a packet with a shim, from its first byte on.
func (s *shims) wrap(data []byte) {
	const addresses = 12
	copy(data[:addresses], data[s.room():])
	binary.BigEndian.PutUint16(data[addresses:], header.TypeShim)
	header.NewShim(data[addresses+2:], s.digest, s.plan).SetHop(1)
}

// edges are the ports to hosts by the role of the switch, whose packets all arrive by the first.
func (r role) edges() []string {
	switch r {
	case source:
		return []string{"p0"}
	case sink:
		return []string{"p1"}
	}
	return nil
}

// pintConfig is the switch's for a role.
func (r role) pintConfig() *pint.Config {
	c := pint.DefaultConfig()
	c.Edge = r.edges()
	if r == sink {
		c.Switches = []uint64{1, 2, 3, 4, 5}
	}
	return &c
}

// sources are the modules of a chain that make records: as on a switch, what they gathered in an epoch is collected and
// encoded, between turns and outside the clock. A stage stops measuring if its cells are not collected.
func (c *chain) sources() (list []export.Source) {
	for _, n := range c.modules {
		if s, ok := n.Module.(export.Source); ok {
			list = append(list, s)
			if l, ok := n.Module.(export.Listener); ok {
				l.Listen()
			}
		}
	}
	return list
}

// collect takes all records, and drops them.
func (u *row) collect() {
	if len(u.sources) == 0 {
		return
	}
	start := since()
	for _, s := range u.sources {
		s.Collect(u.now, false, func(_ *record.Header, body func([]byte) ([]byte, error)) {
			if u.body, u.failed = body(u.body[:0]); u.failed == nil {
				u.recordBytes += uint64(len(u.body))
			}
		})
	}
	u.collecting += since() - start
}

// missed are the packets that stages could not measure.
func (u *row) missed() (n float64) {
	for _, m := range u.chain.modules {
		if m, ok := m.Module.(pipeline.Metered); ok {
			m.Metrics(func(x pipeline.Metric) {
				if x.Name == "missed_packets_total" {
					n += x.Value
				}
			})
		}
	}
	return n
}

// reportAll adds the ratios of the rows of the whole, and what each stage costs inside it.
func reportAll(out *bench.Result, rows []*row) {
	ratio := func(name, over, as, note string) {
		a, b := find(rows, name), find(rows, over)
		if a == nil || b == nil {
			return
		}
		out.Add(as, "ratio", median(ratios(a, b)), fmt.Sprintf("ns over ns, median of %d rounds' ratios%s", len(a.rounds), note), bench.Lower)
	}
	for _, g := range allGraphs() {
		ratio(g.Name, "parse_patch", g.Name+"_over_parse_patch", "")
	}
	ratio("all_1M", "all", "all_1M_over_all", "; 1,000,000 flows over 100,000")
	ratio("all_cold", "all", "all_cold_over_all", "")
	ratio("all_crc", "all", "all_crc_over_xxhash", "; the whole graph by hash family")
	ratio("all_aes", "all", "all_aes_over_xxhash", "; the whole graph by hash family")
	ratio("all", "all_floor", "all_over_floor", "; the floor is the same memory traffic in a plain loop")
	ratio("all_1M", "all_floor_1M", "all_1M_over_floor", "; the floor is the same memory traffic in a plain loop")
	ratio("parse_crc_patch", "parse_hashes_patch", "crc_over_xxhash", "; parse with hashes, and patch")
	ratio("parse_aes_patch", "parse_hashes_patch", "aes_over_xxhash", "; parse with hashes, and patch")
	for _, name := range []string{"all", "all_1M", "all_source", "all_sink"} {
		u := find(rows, name)
		if u == nil {
			continue
		}
		var timed time.Duration
		for _, s := range u.rounds {
			timed += s.wall
		}
		out.Add(name+".collect_share", "share", u.collecting.Seconds()/timed.Seconds(), "time to collect, merge and encode the records, beside the worker, over the worker's", bench.Lower)
		out.Add(name+".records_mbit", "Mbit/s", 8e-6*float64(u.recordBytes)/timed.Seconds(), "bodies of records; a run shorter than an epoch of 1.07 s has few", bench.Lower)
		for i, c := range u.graph.AppendCounters(nil) {
			c.SampledNs -= u.beforeStages[i].SampledNs
			c.SampledPackets -= u.beforeStages[i].SampledPackets
			out.Add(name+".stage."+c.Name+".ns", "ns/packet", c.NsPerPacket(), "inside the whole graph: each 64th batch is timed stage by stage, with the clock's own cost", bench.Lower)
		}
	}
}

// ratios of two rows, within each round.
func ratios(a, b *row) []float64 {
	list := make([]float64, min(len(a.rounds), len(b.rounds)))
	for i := range list {
		list[i] = a.rounds[i].ns() / b.rounds[i].ns()
	}
	return list
}
