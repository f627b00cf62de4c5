package relay

import "time"

// parcel is a frame in flight. Times are since 1970.
type parcel struct {
	due    time.Duration
	number uint64 // of equal ones, the first goes first
	at     time.Duration
	frame  []byte
	flow   *flowCount // nil: of no class
}

func (p *parcel) before(o *parcel) bool {
	return p.due < o.due || p.due == o.due && p.number < o.number
}

// queue is a binary heap of parcels, the first one due on top.
type queue []parcel

func (q *queue) push(p parcel) {
	*q = append(*q, p)
	h := *q
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop takes the top off. The queue is not empty.
func (q *queue) pop() parcel {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = parcel{}
	h = h[:last]
	*q = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			return top
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&h[i]) {
			return top
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
