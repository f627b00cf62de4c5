package lds

import (
	"cmp"
	"slices"
)

// BlockSize is the number of packets that a Block takes in.
const BlockSize = 64

// Block is a batch of packets to add to points, each step taken for all of them
// together: hashes cost a fraction side by side, and many cells, of a sketch that is
// larger than the cache, are in flight at once. The zero value is empty. It has
// one user, who writes the first n of what stands in columns, and calls Add.
//
//	columns ──> Add: count ──> digests ──> row by row: hashes, cells, touch ──> update
type Block struct {
	// Points are where the packets count; until Add they must stay in their interval. ID, Time and Bytes are as
	// for Point.AddWeighted, and Weight, which Add leaves as it is.
	Points        [BlockSize]*Point
	ID            [BlockSize]uint64
	Time          [BlockSize]int64 // Add makes it one from the middle of the interval
	Bytes, Weight [BlockSize]uint32
	// Flow are the hashes of the packets' flow keys.
	Flow [BlockSize]uint64
	// Name are these keys, where a point names flows that lose packets; the zero name is of none.
	Name [BlockSize]FlowName

	// What Add works with.
	group *group // of all points in the block
	// at has the packet's number in its high half, and in its low one the first
	// cell of the next row of its point in the group. An update is the same with the cell itself.
	at, columns [BlockSize]uint64
	rowsOf      [BlockSize]uint8
	most        uint8 // of rowsOf
	mixed       bool  // not all of rowsOf are equal
	add         [BlockSize]packed
	slow        uint64          // a bit per packet that does not fit into add
	slowAdd     [BlockSize]Cell // of these

	digest, flowHash, packetHash [BlockSize]uint64
	rows                         [maxRows][BlockSize]uint64 // updates
	taken                        [maxRows]int               // of a row
}

// Add counts the first n packets, at most BlockSize, and updates their cells, but for those whose timestamp is outside of their
// point's interval, a bit for each of which is returned. The columns may be others afterwards, but for Weight. It panics if
// the points were not made together (NewPoints).
func (b *Block) Add(n int) (outside uint64) {
	if n == 0 {
		return 0
	}
	if outside = b.count(n); outside != 0 {
		if n = b.compact(n, outside); n == 0 {
			return outside
		}
	}
	g := b.group
	g.family.Uint64s(b.digest[:n], g.packet, b.ID[:n])
	for i, d := range b.digest[:n] {
		b.add[i].digests |= d << digestOffset
	}
	if g.sampling {
		b.sample(n)
	}
	rows := int(b.most)
	for r := 0; r < rows; r += 2 {
		// Two rows share the halves of a word.
		word := uint64(r) >> 1
		g.family.Uint64s(b.flowHash[:n], g.flow+word, b.Flow[:n])
		if g.naming && r == 0 {
			b.names(n)
		}
		if g.scatters {
			packets := &b.digest // the first word is the digest
			if word > 0 {
				packets = &b.packetHash
				g.family.Uint64s(packets[:n], g.packet+word, b.ID[:n])
			}
			b.scatter(n, r, 32, packets)
			b.scatter(n, r+1, 0, packets)
		} else if b.mixed {
			b.placeMixed(n, r)
		} else {
			b.place(n, r)
		}
		touch(g.cells, b.rows[r][:b.taken[r]])
		touch(g.cells, b.rows[r+1][:b.taken[r+1]])
	}
	for r := range rows {
		updates := b.rows[r][:b.taken[r]]
		if merge(g.cells, b.add[:n], updates) < 0 {
			g.spill(updates)
		}
	}
	if b.slow != 0 {
		b.addSlow(rows)
	}
	return outside
}

// AddTo is Add of packets that are all of weight 1 and count at p: Points need not be filled in, and Weight has to be all 1.
func (b *Block) AddTo(p *Point, n int) (outside uint64) {
	if n == 0 {
		return 0
	}
	g := p.group
	if !wide || g.sampling || g.naming || g.scatters {
		return b.addEach(p, n)
	}
	// The cells are on their way while the rest is computed.
	first := p.first
	for r := 0; r < int(p.rows); r += 2 {
		g.family.Uint64s(b.flowHash[:n], g.flow+uint64(r)>>1, b.Flow[:n])
		placeAloneWide(&b.rows[r], &b.rows[r+1], &b.flowHash, first, p.columns, n)
		touch(g.cells, b.rows[r][:n])
		if r+1 < int(p.rows) {
			touch(g.cells, b.rows[r+1][:n])
		}
		first += 2 * p.columns
	}
	for k := n; k&3 != 0; k++ { // packWide reads these, too
		b.Time[k], b.Bytes[k] = p.middle, 0
	}
	g.family.Uint64s(b.digest[:n], g.packet, b.ID[:n])
	low, high := max(-p.slack, -mostSum), min(int64(p.span)-p.slack, mostSum)-1
	if packWide(&b.add, &b.Time, &b.Bytes, &b.digest, p.middle, low, high, n) != 0 {
		return b.addEach(p, n)
	}
	p.packets += uint64(n)
	for r := range int(p.rows) {
		updates := b.rows[r][:n]
		if merge(g.cells, b.add[:n], updates) < 0 {
			g.spill(updates)
		}
	}
	return 0
}

func (b *Block) addEach(p *Point, n int) (outside uint64) {
	for i := range b.Points[:n] {
		b.Points[i] = p
	}
	return b.Add(n)
}

// count counts the first n packets at their points, run by run of packets of the same one, and packs what they add.
func (b *Block) count(n int) (outside uint64) {
	b.group, b.most, b.mixed, b.slow = b.Points[0].group, b.Points[0].rows, false, 0
	for begin := 0; begin < n; {
		p := b.Points[begin]
		end := begin + 1
		for end < n && b.Points[end] == p {
			end++
		}
		if p.group != b.group {
			panic("lds: a block has packets of points that were not made together")
		}
		if p.rows != b.most {
			b.mixed, b.most = true, max(b.most, p.rows)
		}
		middle, slack, span := p.middle, p.slack, p.span
		first, columns, rows := uint64(begin)<<32|p.first, p.columns, p.rows
		times := b.Time[begin:end]
		size := len(times)
		bytes, weights, add := b.Bytes[begin:][:size], b.Weight[begin:][:size], b.add[begin:][:size]
		at, width, rowsOf := b.at[begin:][:size], b.columns[begin:][:size], b.rowsOf[begin:][:size]
		refused := uint64(0)
		for i := range times {
			t := times[i] - middle
			if uint64(t+slack) >= span {
				refused++
				outside |= 1 << (uint(begin+i) & 63)
			}
			sum, weight, length := t*int64(weights[i]), weights[i], bytes[i]
			times[i], at[i], width[i], rowsOf[i] = t, uint64(i)<<32+first, columns, rows
			add[i] = packed{uint64(sum)<<countBits + uint64(weight), uint64(length)}
			if uint64(sum+mostSum) >= 2*mostSum || weight > mostCount || length > mostBytes {
				add[i] = packed{}
				b.slow |= 1 << (uint(begin+i) & 63)
				b.slowAdd[begin+i] = Cell{Sum: sum, Count: uint64(weight), Bytes: uint64(length)}
			}
		}
		p.packets += uint64(size) - refused
		p.outside += refused
		begin = end
	}
	return outside
}

// compact leaves those packets out, of the first n, that have a bit in outside, and returns how many are left.
func (b *Block) compact(n int, outside uint64) (left int) {
	slow := b.slow
	b.slow = 0
	for i := range n {
		if outside>>i&1 != 0 {
			continue
		}
		b.Points[left], b.ID[left], b.Time[left], b.Flow[left], b.Name[left] = b.Points[i], b.ID[i], b.Time[i], b.Flow[i], b.Name[i]
		b.at[left] = uint64(left)<<32 | b.at[i]&(1<<32-1)
		b.columns[left], b.rowsOf[left], b.add[left], b.slowAdd[left] = b.columns[i], b.rowsOf[i], b.add[i], b.slowAdd[i]
		b.slow |= slow >> i & 1 << left
		left++
	}
	return left
}

// sample keeps the arrivals of packets that their points sample, before at is moved on.
func (b *Block) sample(n int) {
	for i, d := range b.digest[:n] {
		p := b.Points[i]
		if d>>32 < p.samples.limit {
			p.samples.add(d, b.Flow[i], b.Time[i])
		}
	}
}

// names adds the names of the packets' flows to their points.
func (b *Block) names(n int) {
	for i, h := range b.flowHash[:n] {
		if p := b.Points[i]; p.names.rows != 0 && b.Name[i] != (FlowName{}) {
			p.names.add(h, b.Name[i])
		}
	}
}

// addSlow adds what does not fit into cells, which is not in them yet but for the digests.
func (b *Block) addSlow(rows int) {
	for r := range rows {
		for _, u := range b.rows[r][:b.taken[r]] {
			if i := u >> 32; b.slow>>i&1 != 0 {
				p := b.group.of(int(uint32(u)))
				p.addCell(int(uint32(u))-int(p.first), &b.slowAdd[i])
			}
		}
	}
	b.slow = 0
}

// spill moves those cells of updates that have reached a guard to the spills of their points.
func (g *group) spill(updates []uint64) {
	for _, u := range updates {
		if i := int(uint32(u)); g.cells[i].guarded() < 0 {
			p := g.of(i)
			p.spillCell(i - int(p.first))
		}
	}
}

// of is the point that a cell belongs to.
func (g *group) of(cell int) *Point {
	n, found := slices.BinarySearchFunc(g.points, uint64(cell), func(p *Point, at uint64) int { return cmp.Compare(p.first, at) })
	if !found {
		n--
	}
	return g.points[n]
}

// place finds the cells of rows r and, if there is one, r+1 for n packets. r is even.
func (b *Block) place(n, r int) {
	b.taken[r], b.taken[r+1] = n, n
	upper, lower := &b.rows[r], &b.rows[r+1]
	if r+1 == int(b.most) {
		b.taken[r+1] = 0
	}
	if wide {
		placeWide(upper, lower, &b.at, &b.columns, &b.flowHash, n)
		return
	}
	for i, h := range b.flowHash[:n] {
		columns, at := b.columns[i], b.at[i]
		upper[i] = at + h>>32*columns>>32
		lower[i] = at + columns + h&(1<<32-1)*columns>>32
		b.at[i] = at + 2*columns
	}
}

// placeMixed is place for packets of points that have different numbers of rows.
func (b *Block) placeMixed(n, r int) {
	upper, lower := &b.rows[r], &b.rows[r+1]
	high, low := 0, 0
	for i, h := range b.flowHash[:n] {
		columns, at, rows := b.columns[i], b.at[i], int(b.rowsOf[i])
		upper[high&(BlockSize-1)] = at + h>>32*columns>>32 // BCE
		lower[low&(BlockSize-1)] = at + columns + h&(1<<32-1)*columns>>32
		b.at[i] = at + 2*columns
		if r < rows {
			high++
		}
		if r+1 < rows {
			low++
		}
	}
	b.taken[r], b.taken[r+1] = high, low
}

// scatter finds the cells of a row, if there is such a row, for those of n packets
// that it samples. Its hashes are those from bit half on.
func (b *Block) scatter(n, r int, half uint, hashes *[BlockSize]uint64) {
	g := b.group
	if r == len(g.accept) {
		b.taken[r] = 0
		return
	}
	accept, taken := g.accept[r], 0
	row, packets := &b.rows[r], hashes[:n]
	for i, h := range b.flowHash[:n] {
		columns, at := b.columns[i], b.at[i]
		in, column := g.cell(h>>(half&63)&(1<<32-1), packets[i]>>(half&63)&(1<<32-1), columns, accept)
		row[taken&(BlockSize-1)] = at + column // BCE
		b.at[i] = at + columns
		taken += in
	}
	b.taken[r] = taken
}
