package lds

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

// Config is a stage's section of the configuration, [stages.lds_ingress] or
// [stages.lds_egress].
type Config struct {
	// Ports are the measurement points; none: all ports of the switch.
	Ports []string `toml:"ports"`
	// Edges makes a measurement point of each pair of edges that the routing table of l3 knows, instead of one of each port: of
	// the packets between a prefix behind Ports and one behind the other ports. Both ends of a measurement find the same pairs.
	Edges bool `toml:"edges"`
	// Classes make a measurement point of each, too. What Ports pass of no class is counted, and measured by links alone.
	Classes []Class `toml:"class"`
	// Links makes a point of each of Ports beside those of classes, so that the link on which a flow of a class is delayed is found, too: a
	// packet is added twice.
	Links bool `toml:"links"`
	// EdgeBits is what the plan of [stages.pint] has for the id of the switch at which a packet entered, in bits; 0: classes have no edge.
	EdgeBits int `toml:"edge_bits"`
	// ClassColumns are the Columns of a class, 0: Columns.
	ClassColumns int `toml:"class_columns"`
	// Rows is R, the rows of the sketch. 0: 4, and in intervals with more flows than suit these 2 or 1, with as many more columns. Both ends decide alike, for 16 intervals
	// each time. With up to 1,024 columns, a Virtual above 1 or a bank below 1, 0 is always 4.
	Rows int `toml:"rows"`
	// Columns and Virtual are the sketch's C, of the most rows, and k; Banks its rows' sampling rates, none: all 1.
	Columns int       `toml:"columns"`
	Virtual int       `toml:"virtual"`
	Banks   []float64 `toml:"banks"`
	// Samples is the most packets in an interval of which a point keeps the arrival, for quantiles of delay; 0: none.
	Samples int `toml:"samples"`
	// LostFlows is how many flows of IPv4 that lose packets in an interval a point has room to name, in 46 bytes each; 0: none.
	LostFlows int `toml:"lost_flows"`
	// RecordBytes is the most that the records of all points of an interval take, in bytes; of an interval of more than a second, of each second of it; 0: no bound
	// but the budget of [telemetry]. Points with more have fewer rows and columns in their records, or, where packets of a flow scatter, some of the cells.
	RecordBytes int `toml:"record_bytes"`
	// IntervalBits is the base-2 logarithm of the interval in ns: 30 is 1.07 s.
	IntervalBits int `toml:"interval_bits"`
	// IntervalBit counts packets with a shim in the interval of its bit.
	IntervalBit bool `toml:"interval_bit"`
	// Seed chooses the sketch's hashes.
	Seed uint64 `toml:"seed"`
	// Weights say which flows count more than once; the first that matches
	// decides, and others count once.
	Weights []Weight `toml:"weight"`
}

// Class is the packets from one prefix to another, [[stages.lds_ingress.class]]. Of classes that have a packet in
// common, it belongs to the one with the longest source prefix, of these to that with the longest destination, and of these to one with a
// VNI, then to one with an edge; both ends need all of them.
type Class struct {
	// Name is for answers.
	Name string `toml:"name"`
	// From is the prefix that contains the source address; empty, in a class with a VNI or an edge: any of the IP version of To.
	From string `toml:"from"`
	// To is the prefix that contains the destination address; empty, in a class with a VNI or an edge: any of the IP version of From, or of
	// IPv4.
	To string `toml:"to"`
	// VNI is the network identifier of packets in VXLAN or Geneve, 1 to 16,777,215, whose outer addresses are those of From and To; 0: any
	// packets.
	VNI int `toml:"vni"`
	// Edge is the id of the switch at which packets entered, as their shim has it, by edge_bits of the stage; 0: any.
	Edge int `toml:"edge"`
	// Columns are its share of the memory, 0: class_columns of the stage.
	Columns int `toml:"columns"`
}

// Weight gives the flows that match all of its keys a weight,
// [[stages.lds_ingress.weight]].
type Weight struct {
	// Weight is 1 to 10,000.
	Weight int `toml:"weight"`
	// Prefix contains the source or the destination address; empty: any.
	Prefix string `toml:"prefix"`
	// Protocol is the IP protocol's number, and Port the source or the destination
	// port; 0: any.
	Protocol int `toml:"protocol"`
	Port     int `toml:"port"`
}

// Limits of the configuration.
const (
	MaxWeight      = 10_000
	MaxWeights     = 64
	MaxClasses     = 1024
	minInterval    = 20      // 1 ms: a worker's sleep is shorter
	maxInterval    = 40      // 18 min
	maxCells       = 1 << 30 // of a worker's points: 32 GB
	minRecordBytes = 5000
	// mostCells of a point fit into a record, with 32 bytes and a bit each.
	mostCells = (record.MaxLength - 4096) / 33
)

// DefaultConfig is the paper's reference sketch over intervals of 1.07 s.
func DefaultConfig() Config {
	d := lds.DefaultConfig()
	return Config{Columns: d.Columns, Virtual: d.Virtual, RecordBytes: 190_000, IntervalBits: 30}
}

// recordBytes is the most that the records of all points of an interval take; 0: no bound.
func (c *Config) recordBytes() int {
	return int(float64(c.RecordBytes) * max(float64(int64(1)<<c.IntervalBits)/1e9, 1))
}

// rows is the most rows of a point.
func (c *Config) rows() int { return cmp.Or(c.Rows, lds.DefaultConfig().Rows) }

// sketch is the shape of the points on a switch of a hash family.
func (c *Config) sketch(family hash.Family) lds.Config {
	return lds.Config{Hash: family, Rows: c.rows(), Columns: c.Columns, Virtual: c.Virtual, Rates: c.Banks, Samples: c.Samples, LostFlows: c.LostFlows, IntervalNs: 1 << c.IntervalBits, Seed: c.Seed}
}

// copies is how many points a measurement point takes in a slice of the clock.
func (c *Config) copies() int {
	if c.IntervalBit {
		return 3
	}
	return 1
}

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	_, err := c.compile(ports)
	return err
}

// compiled is a Config in numbers.
type compiled struct {
	ports   []int // of the measured ones, ascending
	weights []weight
	classes []class // listed ones
}

// weight is a Weight in numbers.
type weight struct {
	weight uint32
	prefix netip.Prefix // not valid: any
	proto  uint8
	port   uint16
}

func (c *Config) compile(ports []string) (out compiled, err error) {
	var points []int
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, name := range c.Ports {
		p := slices.Index(ports, name)
		if p < 0 {
			fail("ports[%d]: port %q is not defined: define [[port]] name = %q or correct the name", i, name, name)
		} else if slices.Contains(points, p) {
			fail("ports[%d]: port %q is there twice: remove one", i, name)
		}
		points = append(points, p)
	}
	if len(c.Ports) == 0 {
		for p, name := range ports {
			if name != "" {
				points = append(points, p)
			}
		}
	}
	slices.Sort(points)
	shape := *c
	if c.IntervalBits < minInterval || c.IntervalBits > maxInterval {
		fail("interval_bits: %d: choose %d (1 ms) to %d (18 min)", c.IntervalBits, minInterval, maxInterval)
		shape.IntervalBits = minInterval // to report the other faults too
	}
	sketch := shape.sketch(hash.XX)
	if err := sketch.Validate(); err != nil {
		fail("rows, columns, virtual, banks, samples, lost_flows: %w", err)
	} else if c.rows()*c.Columns > mostCells {
		fail("columns: %d cells in %d rows: choose at most %d in all, as more do not fit into a record", c.rows()*c.Columns, c.rows(), mostCells)
	}
	if c.RecordBytes != 0 && c.RecordBytes < minRecordBytes {
		fail("record_bytes: %d: choose at least %d, or 0 for no bound", c.RecordBytes, minRecordBytes)
	}
	if c.EdgeBits < 0 || c.EdgeBits > 32 {
		fail("edge_bits: %d: choose 1 to 32, those of the plan of [stages.pint], or 0 to read no edge", c.EdgeBits)
	}
	if len(c.Weights) > MaxWeights {
		fail("weight: %d of them: %d at most", len(c.Weights), MaxWeights)
	}
	for i := range c.Weights {
		w, err := c.Weights[i].compile()
		if err != nil {
			fail("weight[%d].%w", i, err)
		}
		out.weights = append(out.weights, w)
	}
	out.ports = points
	out.classes = c.compileClasses(fail)
	cells, of := 0, len(out.classes)
	for i := range out.classes {
		cells += out.classes[i].columns
	}
	if c.Links || !c.Edges && len(out.classes) == 0 {
		cells, of = cells+len(points)*c.Columns, of+len(points)
	}
	if cells > maxCells/max(c.rows()*c.copies(), 1) {
		fail("columns: %d points of %d cells in all: choose fewer ports and classes, or at most %d cells", c.copies()*of, cells*c.rows()*c.copies(), maxCells)
	}
	return out, errors.Join(errs...)
}

func (c *Weight) compile() (w weight, err error) {
	switch {
	case c.Weight < 1 || c.Weight > MaxWeight:
		return w, fmt.Errorf("weight: %d: choose 1 to %d", c.Weight, MaxWeight)
	case c.Protocol < 0 || c.Protocol > 255:
		return w, fmt.Errorf("protocol: %d: choose 1 to 255, or 0 for any", c.Protocol)
	case c.Port < 0 || c.Port > 65535:
		return w, fmt.Errorf("port: %d: choose 1 to 65535, or 0 for any", c.Port)
	}
	w = weight{weight: uint32(c.Weight), proto: uint8(c.Protocol), port: uint16(c.Port)}
	if c.Prefix != "" {
		if w.prefix, err = netip.ParsePrefix(c.Prefix); err != nil {
			return w, fmt.Errorf("prefix: %q: write an address and a length, as 10.0.0.0/8", c.Prefix)
		}
		w.prefix = w.prefix.Masked()
	}
	return w, nil
}
