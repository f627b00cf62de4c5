package oblivious

import "math/bits"

// index finds the slot of a rank, so that a packet seen twice enters once: a
// hash table with linear probing. A cell is
//
//	| bits of the hash | slot+1 |     0: empty; 32 bits, of which the slot takes what it needs
//
// The bits of the hash distinguish nearly all other ranks without a look at the
// slot. Small cells matter, as each look is for another line of the cache.
//
// Nothing is removed. The cell of an entry that left stays, and does no harm, as
// its slot holds another rank by then; when half of the cells are in use, the
// owner clears them and puts what is left. That is cheaper than removing: with
// cellsPerSlot cells for each slot, entries come and go that often in between.
type index struct {
	cells    []uint32
	shift    uint8 // home = hash >> shift
	slotBits uint8
	filled   int
}

// cellsPerSlot makes the table 4 to 8 times as large as there are slots.
const cellsPerSlot = 4

// indexCells is a power of two.
func indexCells(capacity int) int { return 1 << bits.Len(uint(cellsPerSlot*capacity-1)) }

func newIndex(capacity int) index {
	cells := indexCells(capacity)
	return index{cells: make([]uint32, cells), shift: uint8(64 - bits.TrailingZeros(uint(cells))), slotBits: uint8(bits.Len(uint(capacity)))}
}

// cellHash mixes both words; values and ids are hashes already.
func cellHash(r Rank) uint64 {
	return (r.Value ^ bits.RotateLeft64(r.ID, 32)) * 0x9e3779b97f4a7c15
}

// mark is a hash's bits in a cell, above the slot.
func (x *index) mark(h uint64) uint32 { return uint32(h>>8) << (x.slotBits & 31) }

// claim returns the slot that has a rank. If none has it, the rank is given the
// slot offered.
func (x *index) claim(r Rank, offered uint32, values, ids []uint64) (slot uint32, found bool) {
	h := cellHash(r)
	mark, slots := x.mark(h), uint32(1)<<(x.slotBits&31)-1
	cells := x.cells
	mask := len(cells) - 1
	for cell := int(h >> (x.shift & 63)); ; cell++ {
		c := &cells[cell&mask]
		if *c == 0 {
			*c = mark | (offered + 1)
			x.filled++
			return offered, false
		}
		if *c&^slots == mark {
			slot = *c&slots - 1
			if values[slot] == r.Value && ids[slot] == r.ID {
				return slot, true
			}
		}
	}
}

// add gives a slot to a rank that has none.
func (x *index) add(r Rank, slot uint32) {
	h := cellHash(r)
	cells := x.cells
	mask := len(cells) - 1
	cell := int(h >> (x.shift & 63))
	for cells[cell&mask] != 0 {
		cell++
	}
	cells[cell&mask] = x.mark(h) | (slot + 1)
	x.filled++
}

// crowded reports that it is time to clear.
func (x *index) crowded() bool { return x.filled > len(x.cells)/2 }

func (x *index) reset() {
	clear(x.cells)
	x.filled = 0
}
