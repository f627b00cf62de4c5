package collect

import (
	"fmt"
	"net/netip"
	"time"
)

// Rollups are answers about intervals of time, which are kept in the archive beside the records, and for longer, [archive.rollups]. The collector that
// archives partition 0 makes them for all.
type Rollups struct {
	// Fine and Coarse are the lengths of intervals, in UTC; Coarse, which is also what a file has, is a multiple of Fine. 0 and 0: there are none.
	Fine   time.Duration `toml:"fine"`
	Coarse time.Duration `toml:"coarse"`
	// After is how long after the end of a coarse interval its roll-ups are made, and how long records that came late have rested when they are made again.
	After time.Duration `toml:"after"`
	// Age is how long roll-ups are kept, by the interval's end; Bytes are those of all their files, beyond which the oldest are deleted.
	Age   time.Duration `toml:"age"`
	Bytes int64         `toml:"bytes"`
	// Flows is how many of the largest flows an interval has.
	Flows int `toml:"flows"`
	// Prefixes are classes of traffic whose volume is known apart: what has an address of the prefix.
	Prefixes []string `toml:"prefixes"`
}

// On reports whether there are to be any.
func (r *Rollups) On() bool { return r.Coarse > 0 }

// What roll-ups can be: each interval has a row in a table, and each class is a question of its own.
const (
	maxSteps    = 3600
	maxPrefixes = 256
	maxFlows    = 100_000
)

func (r *Rollups) validate() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("rollups."+format, args...)) }
	switch {
	case r.Fine == 0 && r.Coarse == 0:
	case r.Coarse < time.Second || r.Coarse > 24*time.Hour || 24*time.Hour%r.Coarse != 0:
		fault("coarse: %v: choose 1s to 24h, of which a day has a whole number, or with fine 0s for no roll-ups", r.Coarse)
	case r.Fine < time.Second || r.Coarse%r.Fine != 0 || r.Coarse/r.Fine > maxSteps:
		fault("fine: %v: choose 1s or more, of which coarse, %v, is a multiple, of up to %d", r.Fine, r.Coarse, maxSteps)
	}
	if r.After < time.Second || r.After > 30*24*time.Hour {
		fault("after: %v: choose 1s to 720h", r.After)
	}
	if r.Age < minAge {
		fault("age: %v: choose %v or more", r.Age, minAge)
	}
	if r.Bytes < minBytes || r.Bytes > maxBytes {
		fault("bytes: %d: choose %d to %d", r.Bytes, minBytes, maxBytes)
	}
	if r.Flows < 1 || r.Flows > maxFlows {
		fault("flows: %d: choose 1 to %d", r.Flows, maxFlows)
	}
	if len(r.Prefixes) > maxPrefixes {
		fault("prefixes: %d of them: at most %d", len(r.Prefixes), maxPrefixes)
	}
	for i, text := range r.Prefixes {
		if p, err := netip.ParsePrefix(text); err != nil || p != p.Masked() {
			fault("prefixes[%d]: %q is not a prefix: write it as \"10.0.0.0/8\", without bits behind its length", i, text)
		}
	}
	return errs
}
