package oblivious

import "math/bits"

// index finds the slot of a rank, so that a packet seen twice enters once: a
// hash table with linear probing. A cell is
//
//	| hash 32 bits | slot+1 32 bits |     0: empty
//
// The hash tells nearly all other ranks apart without a look at the slot.
//
// Nothing is removed. The cell of an entry that left stays, and does no harm, as
// its slot holds another rank by then; when half of the cells are in use, the
// owner clears them and puts what is left. That is cheaper than removing: with
// cellsPerSlot cells for each slot, entries come and go that often in between.
type index struct {
	cells  []uint64
	shift  uint8 // home = hash >> shift
	filled int
}

// cellsPerSlot makes the table 4 to 8 times as large as there are slots.
const cellsPerSlot = 4

func newIndex(capacity int) index {
	n := bits.Len(uint(cellsPerSlot*capacity - 1))
	return index{cells: make([]uint64, 1<<n), shift: uint8(32 - n)}
}

// cellHash mixes both words; values and ids are hashes already.
func cellHash(r Rank) uint32 {
	return uint32((r.Value ^ bits.RotateLeft64(r.ID, 32)) * 0x9e3779b97f4a7c15 >> 32)
}

// find returns the slot of a rank, or the empty cell where it belongs.
func (x *index) find(r Rank, values, ids []uint64) (slot uint32, cell int, found bool) {
	h := cellHash(r)
	mask := len(x.cells) - 1
	for cell = int(h >> x.shift); ; cell++ {
		c := x.cells[cell&mask] // BCE
		if c == 0 {
			return 0, cell & mask, false
		}
		if uint32(c>>32) == h {
			slot = uint32(c) - 1
			if values[slot] == r.Value && ids[slot] == r.ID {
				return slot, cell & mask, true
			}
		}
	}
}

// put fills the empty cell that find returned.
func (x *index) put(cell int, r Rank, slot uint32) {
	x.cells[cell] = uint64(cellHash(r))<<32 | uint64(slot+1)
	x.filled++
}

// add puts a rank that is not there.
func (x *index) add(r Rank, slot uint32) {
	mask := len(x.cells) - 1
	cell := int(cellHash(r) >> x.shift)
	for x.cells[cell&mask] != 0 {
		cell++
	}
	x.put(cell&mask, r, slot)
}

// crowded reports that it is time to clear.
func (x *index) crowded() bool { return x.filled > len(x.cells)/2 }

func (x *index) reset() {
	clear(x.cells)
	x.filled = 0
}
