package lds

import "github.com/weirswitch/weir/telemetry/hash"

// Pending is an addition whose cells are chosen and not yet updated. A sketch
// is larger than the cache, so that each packet waits for its cells. A batch
// that prepares all packets, touches all their cells and then applies has many
// cells on their way at once: a third less time in a switch.
//
//	Prepare x 64 ──> Touch ──> Apply
type Pending struct {
	point *Point
	add   Cell
	n     int             // of cells
	cells [MaxRows]uint32 // by number in the point
}

// Prepare chooses the cells of a packet, as AddWeighted does, and counts it.
// Apply updates the cells; the point stays in its interval until then.
func (p *Point) Prepare(q *Pending, flow, id uint64, timeNs int64, bytes, weight uint32) {
	q.point, q.n = p, 0
	t := timeNs - p.start
	if uint64(t+p.slack) >= p.span {
		p.outside++
		return
	}
	p.packets++
	digest := hash.Uint64(p.packet, id)
	q.add = Cell{Sum: t * int64(weight), Count: uint64(weight), Digest: digest, Bytes: uint64(bytes)}
	base, fh, ph, n := uint64(0), uint64(0), digest, 0
	for r, accept := range p.accept {
		if r&1 == 0 {
			fh = hash.Uint64(p.flow+uint64(r)>>1, flow)
			if p.scatters && r > 0 {
				ph = hash.Uint64(p.packet+uint64(r)>>1, id)
			}
		} else {
			fh, ph = fh<<32, ph<<32
		}
		column, taken := fh>>32*p.columns>>32, 1
		if p.scatters {
			// One product of the row's 32 bits: whole cells in its high half, and a
			// uniform fraction for the sampling in its low half.
			x := ph >> 32 * p.virtual
			if x&(1<<32-1) >= accept {
				taken = 0
			}
			if column += x >> 32; column >= p.columns {
				column -= p.columns
			}
		}
		q.cells[n&(MaxRows-1)] = uint32(base + column) // BCE
		n += taken
		base += p.columns
	}
	q.n = n
}

// Touch brings the cells of a batch into the cache. It returns a sum without
// meaning, for the caller to keep, so that the loads are not left out.
func Touch(batch []Pending) (sum uint64) {
	for i := range batch {
		q := &batch[i]
		cells := q.point.cells
		for _, c := range q.cells[:q.n] {
			sum += cells[c].Count
		}
	}
	return sum
}

// Apply updates the cells of a batch.
func Apply(batch []Pending) {
	for i := range batch {
		batch[i].apply()
	}
}

func (q *Pending) apply() {
	cells := q.point.cells
	for _, c := range q.cells[:q.n] {
		cells[c].merge(&q.add)
	}
}
