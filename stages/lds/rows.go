package lds

import (
	"sync/atomic"

	"github.com/weirswitch/weir/telemetry/lds"
)

// Both ends of a measurement must choose the same rows for an interval, and each knows nothing but the traffic. So
// they choose for a term of intervals, which begins at a multiple of its length, by the flows of one interval before it: what passes both ends whole
// has both choose the same. Where they do not, or one begins within a term, the cells of both do not compare until the next one.
const (
	term = 16
	lead = 5 // intervals from the one that decides to the term: its late packets, the exporter and the workers take some of them
)

// rows is the number of rows of a measurement point: another one from the beginning of a term on. The zero value is what the point was made with.
type rows struct {
	bytes int // that a record may take, if the point were the only one; 0: no bound
	// first interval 48 | rows before 8 | rows from there on 8
	packed atomic.Uint64
}

// at is the number of rows in an interval; 0: what the point was made with.
func (r *rows) at(interval int64) int {
	if r == nil {
		return 0
	}
	p := r.packed.Load()
	if interval < int64(p>>16) {
		return int(p >> 8 & 0xff)
	}
	return int(p & 0xff)
}

// decides reports whether the flows of an interval decide for a term, and which interval that begins with.
func decides(interval int64) (first int64, yes bool) {
	first = interval + lead
	return first, first%term == 0
}

// choose sets the rows of the term that an interval decides about, while no worker can have come to it.
func (t *trio) choose(p *lds.Point, now int64) {
	r := t.rows
	first, yes := decides(p.Interval())
	if r == nil || !yes || now >= first-1 || p.Flags()&lds.Partial != 0 {
		return
	}
	made := p.Made()
	r.packed.Store(uint64(first)<<16 | uint64(r.at(p.Interval()))<<8 | uint64(made.BestRows(p.Flows(), r.bytes)))
}
