package sink

import (
	"iter"

	"github.com/weirswitch/weir/telemetry/pint"
)

// flowTable keeps the state of at most a fixed number of flows. A full table
// evicts by the clock method: a hand goes around and takes the first flow that
// was not heard of since the hand last passed. Recent flows stay, without a
// list to keep in order; a flow of one packet goes before one of several.
//
// The index is an open-addressing table: a lookup reads one cache line of it, and then
// the flow's entry.
//
//	slot:   tag(32) | number(32)    tag: upper half of the key's hash, which gives the
//	        first slot to look at; number of the entry, from 1; a free slot is 0
//
// It is at most half full, so a flow takes 16 to 32 bytes of it beside its entry.
type flowTable[S any] struct {
	seed  uint64
	slots []uint64 // a power of two
	flows []flowEntry[S]
	limit int
	hand  int
	evict func(*S) // called for the state of a flow before it is forgotten, unless nil
}

type flowEntry[S any] struct {
	key   pint.FlowKey
	heard bool
	tag   uint32
	state S
}

// newFlowTable makes an empty table for at most limit flows, fewer than 2^31.
func newFlowTable[S any](limit int, seed uint64) *flowTable[S] {
	return &flowTable[S]{seed: seed, slots: make([]uint64, 16), limit: limit}
}

// home is the first slot for a tag.
func (t *flowTable[S]) home(tag uint32) int { return int(tag) & (len(t.slots) - 1) }

// next is the slot behind.
func (t *flowTable[S]) next(slot int) int { return (slot + 1) & (len(t.slots) - 1) }

// at returns the state of a flow, whose hash is h, a zero one if the flow is new. It is
// valid until the next call.
func (t *flowTable[S]) at(k *pint.FlowKey, h uint64, evicted *uint64) *S {
	tag := uint32(h >> 32)
	if f := t.lookup(k, tag); f != nil {
		f.heard = true
		return &f.state
	}
	if len(t.flows) < t.limit {
		t.flows = append(t.flows, flowEntry[S]{key: *k, tag: tag})
		if 2*len(t.flows) > len(t.slots) {
			t.grow()
		} else {
			t.insert(tag, len(t.flows))
		}
		return &t.flows[len(t.flows)-1].state
	}
	for t.flows[t.hand].heard {
		t.flows[t.hand].heard = false
		t.hand = (t.hand + 1) % len(t.flows)
	}
	f := &t.flows[t.hand]
	t.remove(f.tag, t.hand+1)
	if t.evict != nil {
		t.evict(&f.state)
	}
	*evicted++
	t.insert(tag, t.hand+1)
	*f = flowEntry[S]{key: *k, tag: tag}
	t.hand = (t.hand + 1) % len(t.flows)
	return &f.state
}

// lookup returns a flow's entry, nil if it has none.
func (t *flowTable[S]) lookup(k *pint.FlowKey, tag uint32) *flowEntry[S] {
	for at := t.home(tag); t.slots[at] != 0; at = t.next(at) {
		if s := t.slots[at]; uint32(s>>32) == tag {
			if f := &t.flows[uint32(s)-1]; f.key == *k {
				return f
			}
		}
	}
	return nil
}

// insert names an entry in the index.
func (t *flowTable[S]) insert(tag uint32, number int) {
	at := t.home(tag)
	for t.slots[at] != 0 {
		at = t.next(at)
	}
	t.slots[at] = uint64(tag)<<32 | uint64(number)
}

// remove takes an entry out of the index, and closes the gap: slots behind move
// forward as far as their first slot allows.
func (t *flowTable[S]) remove(tag uint32, number int) {
	gap := t.home(tag)
	for t.slots[gap] != uint64(tag)<<32|uint64(number) {
		gap = t.next(gap)
	}
	mask := len(t.slots) - 1
	for at := t.next(gap); t.slots[at] != 0; at = t.next(at) {
		home := t.home(uint32(t.slots[at] >> 32))
		if (at-home)&mask >= (at-gap)&mask {
			t.slots[gap], gap = t.slots[at], at
		}
	}
	t.slots[gap] = 0
}

// grow doubles the index.
func (t *flowTable[S]) grow() {
	t.slots = make([]uint64, 2*len(t.slots))
	for i := range t.flows {
		t.insert(t.flows[i].tag, i+1)
	}
}

// find returns the state of a flow that is known, or nil.
func (t *flowTable[S]) find(k pint.FlowKey) *S {
	if f := t.lookup(&k, uint32(k.Hash(t.seed)>>32)); f != nil {
		return &f.state
	}
	return nil
}

// slot reads the first slot for a hash, to have it in the cache.
func (t *flowTable[S]) slot(h uint64) uint64 { return t.slots[t.home(uint32(h>>32))] }

// guess returns the entry that the first slot for a hash names: mostly that of the
// flow; nil if there is none.
func (t *flowTable[S]) guess(h uint64) *flowEntry[S] {
	if s := t.slot(h); s != 0 {
		return &t.flows[uint32(s)-1]
	}
	return nil
}

func (t *flowTable[S]) keys() iter.Seq[pint.FlowKey] {
	return func(yield func(pint.FlowKey) bool) {
		for i := range t.flows {
			if !yield(t.flows[i].key) {
				return
			}
		}
	}
}
