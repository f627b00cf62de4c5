package plan

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

var queryName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// validateQuery reports all faults of a query at once, each with its key and remedy.
func validateQuery(q *pint.Query) error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if !queryName.MatchString(q.Name) {
		fault("name %q: use 1 to 32 of a-z, 0-9, _ and -, first a letter", q.Name)
	}
	if _, err := q.Value.MarshalText(); err != nil {
		faults = append(faults, err)
	}
	if _, err := q.Aggregation.MarshalText(); err != nil {
		faults = append(faults, err)
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
	validateParts(q, fault)
	if len(faults) == 0 {
		// Everything is made once, to see whether it can be made.
		if _, err := encode.NewStep(q, hash.XX, 0, encode.SharedSeeds{}); err != nil {
			faults = append(faults, err)
		}
	}
	for i, err := range faults {
		faults[i] = fmt.Errorf("query %q: %w", q.Name, err)
	}
	return errors.Join(faults...)
}

// Bits of a checksum: with fewer, most flows of several paths would have two with one checksum.
const minChecksum, maxChecksum = 4, 32

// maxSpaceBytes bounds what a plan may grant to a flow: 16 MiB.
const maxSpaceBytes = 1 << 24

// validateParts reports parts that are missing, or that the aggregation does
// not use.
func validateParts(q *pint.Query, fault func(string, ...any)) {
	a := q.Aggregation
	dynamic, numeric := a == pint.Quantiles || a == pint.Frequent, a != pint.Path && a != pint.Loop && a != pint.Checksum
	if a == pint.Path && q.Static == nil {
		fault("static: a path needs the table [query.static], with code and layers")
	}
	if a != pint.Path && q.Static != nil {
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
	if a == pint.Loop && q.Threshold < 1 {
		fault("threshold %d: a loop query needs at least 1", q.Threshold)
	}
	if a != pint.Loop && q.Threshold != 0 {
		fault("threshold: only for aggregation loop: leave it out")
	}
	if (a == pint.Path || a == pint.Loop || a == pint.Checksum) && (q.Value == pint.HopLatency || q.Value == pint.IngressTime || q.Value == pint.EgressUtilisation || q.Value == pint.QueueOccupancy || q.Value == pint.QueueCongestion) {
		fault("value %v differs between the packets of a flow: use switch_id, ingress_port or egress_port, or aggregation quantiles", q.Value)
	}
	if a == pint.Loop && q.Value != pint.SwitchID {
		fault("value %v: a loop query compares switch_id", q.Value)
	}
	if a == pint.Checksum && (q.Bits < minChecksum || q.Bits > maxChecksum) {
		fault("bits %d: a checksum of %d to %d bits tells paths apart", q.Bits, minChecksum, maxChecksum)
	}
	if n := q.Numeric; n != nil && a != pint.SlowHops && n.Slow != 0 {
		fault("numeric.slow: only for slow_hops: leave it out")
	}
	if n := q.Numeric; n != nil && a == pint.SlowHops && n.Slow == 0 {
		fault("numeric.slow: slow_hops needs the value from which a hop is slow")
	}
	if n := q.Numeric; n != nil && (a == pint.Sum || a == pint.SlowHops || a == pint.Product) && (n.Multiplicative || n.Epsilon != 0 || n.Delta != 0) {
		fault("numeric: %v counts at random up to max; leave multiplicative, epsilon and delta out", a)
	}
	if n := q.Numeric; n != nil && a == pint.Product && n.Max < 2 {
		fault("numeric.max %d: a product needs the largest one, in units of min, of at least 2", n.Max)
	}
}
