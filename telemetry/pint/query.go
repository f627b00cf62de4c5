package pint

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
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
	numAggregations
)

var aggregations = []string{"path", "quantiles", "frequent", "max", "min", "sum", "slow_hops", "loop"}

func (a Aggregation) String() string { return word("Aggregation", aggregations, int(a)) }

// MarshalText is the aggregation's name in plans.
func (a Aggregation) MarshalText() ([]byte, error) {
	return marshalWord("aggregation", aggregations, int(a))
}

// UnmarshalText reads the aggregation's name.
func (a *Aggregation) UnmarshalText(text []byte) error {
	return unmarshalWord(a, "aggregation", aggregations, text)
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
		return nil, fmt.Errorf("%s %d has no name", kind, i)
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
	// SpaceBytes bounds what the recorder keeps of the sampled values of a flow.
	// 0: unbounded; for quantiles and frequent.
	SpaceBytes int `toml:"space_bytes,omitzero"`

	Static  *StaticQuery  `toml:"static,omitempty"`  // path
	Numeric *NumericQuery `toml:"numeric,omitempty"` // quantiles, frequent, max, min, sum, slow_hops
	// Threshold is the number of matches before the one that reports a loop: the
	// paper's T.
	Threshold int `toml:"threshold,omitzero"`
}

// StaticQuery completes a query with aggregation Path.
type StaticQuery struct {
	// Instances is how many independent digests share the query's bits; 0
	// stands for 1.
	Instances int `toml:"instances,omitzero"`
	// Code says how values meet the bits, ValueBits how wide they are (not for
	// hashed ones).
	Code      ValueCode `toml:"code"`
	ValueBits int       `toml:"value_bits,omitzero"`
	// Vector draws the decisions of 64 hops at once; see StaticConfig.
	Vector bool `toml:"vector,omitempty"`
	// Layers are the ways of writing: Hybrid, MultiLayer and others make them.
	// They stand in the plan as numbers, so that all readers have the same ones.
	Layers []Layer `toml:"layer"`
}

// NumericQuery completes a query of a numeric value.
type NumericQuery struct {
	// The value's code; see CodecConfig. Sum uses Min as its unit, and Max, the
	// largest sum; SlowHops uses Max as the largest number of hops.
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

var queryName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Validate reports all faults at once, each with its key and remedy.
func (q *Query) Validate() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if !queryName.MatchString(q.Name) {
		fault("name %q: use 1 to 32 of a-z, 0-9, _ and -, first a letter", q.Name)
	}
	if q.Value >= numValues {
		fault("value %v: use one of %q", q.Value, values)
	}
	if q.Aggregation >= numAggregations {
		fault("aggregation %v: use one of %q", q.Aggregation, aggregations)
	}
	if !(q.Frequency > 0 && q.Frequency <= 1) {
		fault("frequency %v: use a share of the packets, above 0 and at most 1", q.Frequency)
	} else if math.Round(q.Frequency*thresholdOne) == 0 {
		fault("frequency %v: use at least 2^-32", q.Frequency)
	}
	if q.Bits < 1 || q.Bits > 64 {
		fault("bits %d: use 1 to 64", q.Bits)
	}
	if err := q.Flow.Validate(); err != nil {
		fault("flow: %w", err)
	}
	q.validateParts(fault)
	if len(faults) == 0 {
		if err := q.build(); err != nil {
			faults = append(faults, err)
		}
	}
	for i, err := range faults {
		faults[i] = fmt.Errorf("query %q: %w", q.Name, err)
	}
	return errors.Join(faults...)
}

// maxSpaceBytes bounds what a plan may grant to a flow: 16 MiB.
const maxSpaceBytes = 1 << 24

// validateParts reports parts that are missing, or that the aggregation does
// not use.
func (q *Query) validateParts(fault func(string, ...any)) {
	a := q.Aggregation
	dynamic, numeric := a == Quantiles || a == Frequent, a != Path && a != Loop
	if a == Path && q.Static == nil {
		fault("static: a path needs the table [query.static], with code and layers")
	}
	if a != Path && q.Static != nil {
		fault("static: only for aggregation path: leave it out")
	}
	if numeric && q.Numeric == nil {
		fault("numeric: aggregation %v needs the table [query.numeric]", a)
	}
	if q.Static != nil && q.Static.Instances < 0 {
		fault("static.instances %d: use a positive number, or 0 for one", q.Static.Instances)
	}
	if !numeric && q.Numeric != nil {
		fault("numeric: not for aggregation %v: leave it out", a)
	}
	if q.SpaceBytes != 0 && !dynamic {
		fault("space_bytes: only for quantiles and frequent: leave it out")
	}
	if q.SpaceBytes < 0 || q.SpaceBytes > maxSpaceBytes {
		fault("space_bytes %d: use at most %d, or 0 for no bound", q.SpaceBytes, maxSpaceBytes)
	}
	if a == Loop && q.Threshold < 1 {
		fault("threshold %d: a loop query needs at least 1", q.Threshold)
	}
	if a != Loop && q.Threshold != 0 {
		fault("threshold: only for aggregation loop: leave it out")
	}
	if (a == Path || a == Loop) && (q.Value == HopLatency || q.Value == IngressTime || q.Value == EgressUtilisation || q.Value == QueueOccupancy || q.Value == QueueCongestion) {
		fault("value %v differs between the packets of a flow: use switch_id, ingress_port or egress_port, or aggregation quantiles", q.Value)
	}
	if a == Loop && q.Value != SwitchID {
		fault("value %v: a loop query compares switch_id", q.Value)
	}
	if n := q.Numeric; n != nil && a != SlowHops && n.Slow != 0 {
		fault("numeric.slow: only for slow_hops: leave it out")
	}
	if n := q.Numeric; n != nil && a == SlowHops && n.Slow == 0 {
		fault("numeric.slow: slow_hops needs the value from which a hop is slow")
	}
	if n := q.Numeric; n != nil && (a == Sum || a == SlowHops) && (n.Multiplicative || n.Epsilon != 0 || n.Delta != 0) {
		fault("numeric: %v counts at random up to max; leave multiplicative, epsilon and delta out", a)
	}
}

// build makes everything once, to see whether it can be made.
func (q *Query) build() error {
	_, err := q.compile(hash.XX, 0, SharedSeeds{})
	return err
}
