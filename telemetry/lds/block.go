package lds

import "github.com/weirswitch/weir/telemetry/hash"

// BlockSize is the number of packets that a Block takes in.
const BlockSize = 64

// Block is a batch of packets to add to points, each step taken for all of them
// together: hashes cost a fraction side by side, and many cells, of a sketch that is
// larger than the cache, are on their way at once. The zero value is empty. It has
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
	updates                      [BlockSize * MaxRows]uint64
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
	hash.Uint64s(b.digest[:n], g.packet, b.id[:n])
	for i, d := range b.digest[:n] {
		b.add[i].Digest = d
	}
	updates := 0
	for r := range g.accept {
		// Two rows share the halves of a word.
		half, word := 32*uint(^r&1), uint64(r)>>1
		if half != 0 {
			hash.Uint64s(b.flowHash[:n], g.flow+word, b.Flow[:n])
			if g.scatters {
				hash.Uint64s(b.packetHash[:n], g.packet+word, b.id[:n])
			}
		}
		row := b.updates[updates:]
		if g.scatters {
			row = row[:b.scatter(row[:n], r, half)]
		} else {
			row = row[:n]
			b.place(row, r, half)
		}
		touch(g.cells, row)
		updates += len(row)
	}
	merge(g.cells, b.add[:n], b.updates[:updates])
}

// place finds the cells of a row for all packets.
func (b *Block) place(row []uint64, r int, half uint) {
	columns, first := b.group.columns, uint64(r)*b.group.columns
	at, hashes := b.at[:len(row)], b.flowHash[:len(row)]
	for i := range row {
		row[i] = at[i] + first + hashes[i]>>(half&63)&(1<<32-1)*columns>>32
	}
}

// scatter finds the cells of a row for the packets that the row samples, and
// returns how many do.
func (b *Block) scatter(row []uint64, r int, half uint) (taken int) {
	g := b.group
	columns, first, accept := g.columns, uint64(r)*g.columns, g.accept[r]
	at, hashes, packets := b.at[:len(row)], b.flowHash[:len(row)], b.packetHash[:len(row)]
	for i := range row {
		in, column := g.cell(hashes[i]>>(half&63)&(1<<32-1), packets[i]>>(half&63)&(1<<32-1), columns, accept)
		row[taken] = at[i] + first + column
		taken += in
	}
	return taken
}
