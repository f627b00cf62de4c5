package oblivious

import "math"

// heap keeps the chi smallest of the ranks put into it, as the first version of
// the paper's system did: the largest on top, replaced by what is smaller, in
// log chi steps. It is here to be compared with q-max, and as its twin in tests:
// what both keep is the same. Memory: 92 chi bytes, and 16 to 32 chi for the index.
type heap struct {
	store
	limit uint64
	heap  []heapItem
}

// heapItem has the rank beside its slot, so that sifting looks nowhere else.
type heapItem struct {
	Rank
	slot uint32
}

func newHeap(size int) *heap {
	return &heap{store: newStore(size), limit: math.MaxUint64, heap: make([]heapItem, 0, size)}
}

// put takes an entry of a rank value up to the limit, and reports whether it was
// new and entered.
func (h *heap) put(r Rank, bytes uint32, key *Key) bool {
	full := h.full()
	var offered uint32
	if !full {
		offered = h.next()
	} else if offered = h.heap[0].slot; r.Compare(h.heap[0].Rank) > 0 {
		return false
	}
	slot, found := h.index.claim(r, offered, h.values, h.ids)
	if found {
		h.settle(slot, bytes, key)
		return false
	}
	h.fill(slot, r, bytes, key)
	if full {
		h.heap[0] = heapItem{r, slot}
		h.down()
	} else {
		h.take()
		h.heap = append(h.heap, heapItem{r, slot})
		h.up(len(h.heap) - 1)
	}
	if h.full() {
		h.limit = h.heap[0].Value
		if h.index.crowded() {
			h.index.reset()
			for slot, v := range h.values {
				h.index.add(Rank{v, h.ids[slot]}, uint32(slot))
			}
		}
	}
	return true
}

func (h *heap) reset() {
	h.store.reset()
	h.heap, h.limit = h.heap[:0], math.MaxUint64
}

func (h *heap) up(i int) {
	item := h.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if h.heap[parent].Compare(item.Rank) >= 0 {
			break
		}
		h.heap[i], i = h.heap[parent], parent
	}
	h.heap[i] = item
}

func (h *heap) down() {
	item, i := h.heap[0], 0
	for {
		child := 2*i + 1
		if child >= len(h.heap) {
			break
		}
		if child+1 < len(h.heap) && h.heap[child+1].above(&h.heap[child]) {
			child++
		}
		if !h.heap[child].above(&item) {
			break
		}
		h.heap[i], i = h.heap[child], child
	}
	h.heap[i] = item
}

// above is Compare > 0, with one comparison for all but ties.
func (a *heapItem) above(b *heapItem) bool {
	return a.Value > b.Value || a.Value == b.Value && a.ID > b.ID
}
