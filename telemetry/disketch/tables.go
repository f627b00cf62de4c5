package disketch

import "github.com/weirswitch/weir/telemetry/sketch"

// CellSeed is the seed that the cells of an epoch are chosen by, for the tables
// of a P4 target.
func (s Schedule) CellSeed() uint64 { return s.cellSeed() }

// NumLevels is how many levels a fragment has: 1 but for UnivMon.
func (c *Config) NumLevels() int { return c.levels() }

// Width is how many cells a level of the fragment has.
func (c *Config) Width() int { return c.Memory / sketch.CellBytes / c.levels() }
