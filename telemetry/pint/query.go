package pint

import (
	"fmt"
	"slices"
)

// Value is what a query asks the switches for: table 1 of the paper.
type Value uint8

const (
	SwitchID          Value = iota // the switch's id
	IngressPort                    // the port's number
	EgressPort                     // the port's number
	IngressTime                    // ns of the plan's clock
	HopLatency                     // ns from ingress to egress
	EgressUtilisation              // of the egress link, in 1/UtilisationOne
	QueueOccupancy                 // packets waiting at the egress port
	QueueCongestion                // share of the queue in use, in percent
	numValues
)

var values = []string{"switch_id", "ingress_port", "egress_port", "ingress_time", "hop_latency", "egress_utilisation", "queue_occupancy", "queue_congestion"}

// Observed holds what a switch observes of a packet, by Value. Values that no
// query of the plan asks for (Encoder.Needs) may be left alone.
type Observed [numValues]uint64

// UtilisationOne is a utilisation of 1 in the integers of Observed: the link
// is sent full. Above 1, a queue builds up.
const UtilisationOne = 1 << 16

func (v Value) String() string { return word("Value", values, int(v)) }

// MarshalText is the value's name in plans.
func (v Value) MarshalText() ([]byte, error) { return marshalWord("value", values, int(v)) }

// UnmarshalText reads the value's name.
func (v *Value) UnmarshalText(text []byte) error { return unmarshalWord(v, "value", values, text) }

// Aggregation is how a query joins values (section 3.1).
type Aggregation uint8

const (
	// Path: static per flow. The value of every hop, for each flow.
	Path Aggregation = iota
	// Quantiles: dynamic per flow. Quantiles of each hop's values.
	Quantiles
	// Frequent: dynamic per flow. The frequent values of each hop.
	Frequent
	// Maximum, Minimum and Sum: per packet, over its hops.
	Maximum
	Minimum
	Sum
	// SlowHops: per packet. How many hops had a value of at least Slow.
	SlowHops
	// Loop: detection of routing loops, per packet.
	Loop
	// Product: per packet. The product of its hops' values, each over a unit.
	Product
	// Checksum: per packet. A hash of its hops' values in their order, which tells the paths of a flow apart that its packets take
	// at once (section 7).
	Checksum
	numAggregations
)

var aggregations = []string{"path", "quantiles", "frequent", "max", "min", "sum", "slow_hops", "loop", "product", "checksum"}

func (a Aggregation) String() string { return word("Aggregation", aggregations, int(a)) }

// MarshalText is the aggregation's name in plans.
func (a Aggregation) MarshalText() ([]byte, error) {
	return marshalWord("aggregation", aggregations, int(a))
}

// UnmarshalText reads the aggregation's name.
func (a *Aggregation) UnmarshalText(text []byte) error {
	return unmarshalWord(a, "aggregation", aggregations, text)
}

// MaxHops is the largest hop number: the carrier's hop field has 8 bits.
const MaxHops = 255

// Layer is one way of writing a digest. A global hash of the packet's id picks
// the layer, so all switches of the path and the decoder agree on it (section
// 4.2 and Algorithm 1 of the PINT paper).
type Layer struct {
	// Share is the fraction of packets that the layer gets, in (0, 1].
	Share float64 `toml:"share"`
	// P is the probability with which each hop xors its value onto the digest.
	// 0 means the Baseline layer, where hop i overwrites the digest with
	// probability 1/i, so that each hop of a path is as likely as the others to
	// be the last writer.
	P float64 `toml:"p"`
}

// ValueCode says how a value meets the digest's bits.
type ValueCode int

const (
	// Whole writes the value itself, which must fit.
	Whole ValueCode = iota
	// Fragmented writes one fragment of the value, of which a global hash of
	// the packet's id gives the number (section 4.2).
	Fragmented
	// Hashed writes h(value, packet), a hash of any width of value. The
	// decoder must know the set of possible values (section 4.2).
	Hashed
	// Linear writes A(packet, hop) * value over GF(2), where A is a random
	// Toeplitz matrix: a hash family that is linear in the value (Krawczyk,
	// "LFSR-based hashing and authentication", 1994). The paper notes that
	// network coding does not work with hashed values; with these hashes it
	// does: all digests of a flow are one system of linear equations in the
	// bits of the path. Needs values of few bits, so number the switches
	// densely; the decoder need not know the set of values.
	Linear
)

var valueCodes = []string{"whole", "fragmented", "hashed", "linear"}

// String is the name in plans.
func (c ValueCode) String() string {
	return word("ValueCode", valueCodes, int(c))
}

// MarshalText is the name in plans.
func (c ValueCode) MarshalText() ([]byte, error) {
	return marshalWord("value code", valueCodes, int(c))
}

// UnmarshalText reads the name.
func (c *ValueCode) UnmarshalText(text []byte) error {
	return unmarshalWord(c, "value code", valueCodes, text)
}

func word(kind string, words []string, i int) string {
	if i < 0 || i >= len(words) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return words[i]
}

func marshalWord(kind string, words []string, i int) ([]byte, error) {
	if i < 0 || i >= len(words) {
		return nil, fmt.Errorf("%s %d: use one of %q", kind, i, words)
	}
	return []byte(words[i]), nil
}

func unmarshalWord[T ~uint8 | ~int](to *T, kind string, words []string, text []byte) error {
	i := slices.Index(words, string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a %s: use one of %q", text, kind, words)
	}
	*to = T(i)
	return nil
}

// Query asks for an aggregation of a value, within a budget of bits per packet
// (section 3.3). The first group of fields is for all aggregations; what an
// aggregation does not use must be zero.
type Query struct {
	Name        string      `toml:"name"`
	Value       Value       `toml:"value"`
	Aggregation Aggregation `toml:"aggregation"`
	Bits        int         `toml:"bits"`      // of a packet's digest
	Frequency   float64     `toml:"frequency"` // share of the packets, in (0, 1]
	// Flow defines the flows of a per-flow query.
	Flow FlowDefinition `toml:"flow,omitzero"`
	// SpaceBytes bounds what the recorder (sink.Recorder) keeps of the sampled values of a flow. Who has the records of digests, as weir query
	// latency, has all values.
	// 0: unbounded; for quantiles and frequent.
	SpaceBytes int `toml:"space_bytes,omitzero"`

	Static  *StaticQuery  `toml:"static,omitempty"`  // path
	Numeric *NumericQuery `toml:"numeric,omitempty"` // quantiles, frequent, max, min, sum, slow_hops, product
	// Threshold is the number of matches before the one that reports a loop: the
	// paper's T.
	Threshold int `toml:"threshold,omitzero"`
}

// StaticQuery completes a query with aggregation Path.
type StaticQuery struct {
	// Instances is how many independent digests share the query's bits; 0
	// means 1.
	Instances int `toml:"instances,omitzero"`
	// Code says how values meet the bits, ValueBits how wide they are (not for
	// hashed ones).
	Code      ValueCode `toml:"code"`
	ValueBits int       `toml:"value_bits,omitzero"`
	// Vector draws the decisions of 64 hops at once; see StaticConfig.
	Vector bool `toml:"vector,omitempty"`
	// Layers are the ways of writing: Hybrid, MultiLayer and others make them.
	// They are in the plan as numbers, so that all readers have the same ones.
	Layers []Layer `toml:"layer"`
}

// NumericQuery completes a query of a numeric value.
type NumericQuery struct {
	// The value's code; see CodecConfig. Sum uses Min as its unit, and Max, the
	// largest sum; SlowHops uses Max as the largest number of hops; Product uses Min
	// as the unit of each factor, and Max, the largest product.
	Multiplicative bool    `toml:"multiplicative,omitempty"`
	Min            uint64  `toml:"min,omitzero"`
	Max            uint64  `toml:"max,omitzero"`
	Epsilon        float64 `toml:"epsilon,omitzero"`
	Delta          uint64  `toml:"delta,omitzero"`
	// Slow is the value from which a hop is slow, for slow_hops.
	Slow uint64 `toml:"slow,omitzero"`
	// WindowNs makes per-flow answers speak of that much time before the newest
	// packet only; 0: of all.
	WindowNs uint64 `toml:"window_ns,omitzero"`
}
