package lds

// BlockSize is the number of packets that a Block takes in.
const BlockSize = 64

// Block is a batch of packets to add to points, each step taken for all of them
// together: hashes cost a fraction side by side, and many cells, of a sketch that is
// larger than the cache, are in flight at once. The zero value is empty. It has
// one user.
//
//	Put x 64 ──> Flow ──> Add: digests ──> row by row: hashes, cells, touch ──> update
type Block struct {
	// Flow are the hashes of the packets' flow keys, by the number that Put gave, to
	// be set before Add.
	Flow [BlockSize]uint64

	n     int
	group *group // of all points in the block

	id [BlockSize]uint64
	// at has the packet's number in its high half, and in its low one the first
	// cell of its point in the group. An update is the same with the cell itself.
	at  [BlockSize]uint64
	add [BlockSize]Cell

	// What Add works with.
	digest, flowHash, packetHash [BlockSize]uint64
	rows                         [maxRows][BlockSize]uint64 // updates
	taken                        [maxRows]int               // of a row
}

// Len is the number of packets that were put in since the last Add.
func (b *Block) Len() int { return b.n }

// Put takes in what AddWeighted would add to the point but for the flow, counts
// the packet and returns its number in the block; -1 if its timestamp is outside.
// Cells are updated by Add; until then the point must stay in its interval. It
// panics if the block is full, or has packets of a point that was not made together
// with this one (NewPoints).
func (b *Block) Put(p *Point, id uint64, timeNs int64, bytes, weight uint32) int {
	t := timeNs - p.start
	if uint64(t+p.slack) >= p.span {
		p.outside++
		return -1
	}
	if b.group != p.group || b.n == BlockSize {
		if b.n != 0 {
			panic("lds: a block is full, or has packets of other points")
		}
		b.group = p.group
	}
	p.packets++
	i := b.n & (BlockSize - 1) // BCE
	b.n++
	b.id[i], b.at[i] = id, uint64(i)<<32|p.first
	c := &b.add[i]
	c.Sum, c.Count, c.Bytes = t*int64(weight), uint64(weight), uint64(bytes)
	return i
}

// Add updates the cells of all packets that were put in, and empties the block.
func (b *Block) Add() {
	n, g := b.n, b.group
	if n == 0 {
		return
	}
	b.n = 0
	g.family.Uint64s(b.digest[:n], g.packet, b.id[:n])
	for i, d := range b.digest[:n] {
		b.add[i].Digest = d
	}
	for r := 0; r < len(g.accept); r += 2 {
		// Two rows share the halves of a word.
		word := uint64(r) >> 1
		g.family.Uint64s(b.flowHash[:n], g.flow+word, b.Flow[:n])
		if g.scatters {
			g.family.Uint64s(b.packetHash[:n], g.packet+word, b.id[:n])
			b.scatter(n, r, 32)
			b.scatter(n, r+1, 0)
		} else {
			b.place(n, r)
		}
		touch(g.cells, b.rows[r][:b.taken[r]])
		touch(g.cells, b.rows[r+1][:b.taken[r+1]])
	}
	for r := range g.accept {
		merge(g.cells, b.add[:n], b.rows[r][:b.taken[r]])
	}
}

// place finds the cells of rows r and, if there is one, r+1 for n packets. r is even.
func (b *Block) place(n, r int) {
	b.taken[r], b.taken[r+1] = n, n
	columns, first := b.group.columns, uint64(r)*b.group.columns
	upper, lower := &b.rows[r], &b.rows[r+1]
	if r+1 == len(b.group.accept) {
		b.taken[r+1] = 0
	}
	if wide {
		placeWide(upper, lower, &b.at, &b.flowHash, columns, first, n)
		return
	}
	for i, h := range b.flowHash[:n] {
		upper[i] = b.at[i] + first + h>>32*columns>>32
		lower[i] = b.at[i] + first + columns + h&(1<<32-1)*columns>>32
	}
}

// scatter finds the cells of a row, if there is such a row, for those of n packets
// that it samples. Its hashes are those from bit half on.
func (b *Block) scatter(n, r int, half uint) {
	g := b.group
	if r == len(g.accept) {
		b.taken[r] = 0
		return
	}
	columns, first, accept, taken := g.columns, uint64(r)*g.columns, g.accept[r], 0
	row, packets := &b.rows[r], b.packetHash[:n]
	for i, h := range b.flowHash[:n] {
		in, column := g.cell(h>>(half&63)&(1<<32-1), packets[i]>>(half&63)&(1<<32-1), columns, accept)
		row[taken&(BlockSize-1)] = b.at[i] + first + column // BCE
		taken += in
	}
	b.taken[r] = taken
}
