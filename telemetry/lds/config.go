package lds

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Limits of a Config. They bound what a decoder may be made to allocate, and
// keep the products of the hot path in 64 bits.
const (
	maxRows    = 16
	MaxVirtual = 256
	MaxCells   = 1 << 22 // of all rows: 64 MB
	// maxIntervalNs is about 18 minutes.
	maxIntervalNs = 1 << 40
	// MinRate is the lowest sampling rate: decisions have 32 bits, of which k cost
	// up to 8.
	MinRate = 1e-6
)

// Config is the shape of a point. Two points can be subtracted only if their
// configs are equal.
type Config struct {
	// Rows is R, 1 to maxRows.
	Rows int
	// Columns is C, the cells of a row; no power of two is needed.
	Columns int
	// Virtual is k, the cells of a flow in each row, 1 to MaxVirtual and at most
	// Columns. More of them survive more loss and collide more.
	Virtual int
	// Rates are the rows' sampling rates, MinRate to 1; empty: all 1.
	Rates []float64
	// IntervalNs is the length of a measurement interval. Interval i begins at
	// i * IntervalNs on the clock of the timestamps.
	IntervalNs int64
	// Samples is the most single packets whose arrival a point keeps, for quantiles of delay; 0 to MaxSamples. Points with different
	// numbers compare.
	Samples int
	// LostFlows is how many flows that lose packets in an interval a point has room to name; 0 to MaxLostFlows.
	LostFlows int
	// WholeNames leaves out the samples of flows beside the names of all, for comparison.
	WholeNames bool
	// Seed and Hash, the family, choose the hashes.
	Seed uint64
	Hash hash.Family
}

// DefaultConfig is the paper's reference configuration (Section 5.1), with
// intervals of one second.
func DefaultConfig() Config {
	return Config{Rows: 4, Columns: 17500, Virtual: 1, IntervalNs: 1e9}
}

// Validate reports all that is wrong with the config.
func (c Config) Validate() error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Rows < 1 || c.Rows > maxRows, "%d rows: choose 1 to %d", c.Rows, maxRows)
	fault(c.Columns < 1 || c.Columns > MaxCells/max(c.Rows, 1), "%d columns: choose 1 or more, and at most %d cells in all", c.Columns, MaxCells)
	fault(c.Virtual < 1 || c.Virtual > min(c.Columns, MaxVirtual), "%d virtual cells: choose 1 to %d, and no more than columns", c.Virtual, MaxVirtual)
	fault(len(c.Rates) != 0 && len(c.Rates) != c.Rows, "%d rates for %d rows: give one per row, or none", len(c.Rates), c.Rows)
	for row, r := range c.Rates {
		fault(!(r >= MinRate && r <= 1), "rate %g of row %d: choose %g to 1", r, row, MinRate)
	}
	fault(c.Samples < 0 || c.Samples > MaxSamples, "%d samples: choose 0 to %d", c.Samples, MaxSamples)
	if err := checkLostFlows(c.LostFlows); err != nil {
		errs = append(errs, err)
	}
	if err := c.Hash.Check(); err != nil {
		fault(true, "%w", err)
	}
	fault(c.IntervalNs < 2 || c.IntervalNs > maxIntervalNs, "an interval of %d ns: choose 2 ns to %d s", c.IntervalNs, int64(maxIntervalNs)/1e9)
	return errors.Join(errs...)
}

// Equal reports whether points of both configs may be compared.
func (c Config) Equal(d Config) bool {
	if c.Rows != d.Rows || c.Columns != d.Columns || c.Virtual != d.Virtual || c.IntervalNs != d.IntervalNs || c.Seed != d.Seed || c.Hash != d.Hash {
		return false
	}
	return slices.Equal(c.rates(), d.rates())
}

// Bytes is the memory of a point's cells, those that outgrew the packed form included, of its samples and of its names.
func (c Config) Bytes() int {
	return c.Rows*c.Columns*cellBytes + spillBytes(c.Rows*c.Columns, c.IntervalNs) + c.Samples*(sampleBytes+4) + namesBytes(c.LostFlows, c.WholeNames)
}

// half is from the beginning of an interval to its middle.
func (c *Config) half() int64 { return c.IntervalNs / 2 }

// capacity is the largest weighted packet count up to which a cell is exact;
// fuller ones are refused.
//
// Proof that nothing overflows: Add takes only timestamps t, relative to the
// interval's beginning, of -I/2 <= t < I + I/2 for an interval of I. So |t| and
// the difference of any two of them are at most 2I. A cell with a weighted
// count of n has |sum| <= n * 2I, in every order of adding and merging, and the
// difference of two sums over the same packets is at most n * 2I as well. Both
// fit an int64 as long as n <= (2^63 - 1) / 2I, which is the capacity: 4.6e9
// for intervals of a second. Sums wrap modulo 2^64 beyond, which harms nothing,
// as the count, which cannot wrap in any interval (2^64 / 2^32 packets), has
// the cell refused.
func (c Config) capacity() uint64 { return math.MaxInt64 / (2 * uint64(c.IntervalNs)) }

// rates is Rates with the default put in.
func (c Config) rates() []float64 {
	if len(c.Rates) != 0 {
		return c.Rates
	}
	return slices.Repeat([]float64{1}, c.Rows)
}
