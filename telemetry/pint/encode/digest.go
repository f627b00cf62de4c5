package encode

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// laneCount is how many hashes are computed side by side: those of a word of a
// HopSet.
const laneCount = 64

// fewHops is up to how many hops single hashes and products are as fast as many at
// once; fewKeys up to how many keys are added up by four bits of their values, not five.
const (
	fewHops = 8
	fewKeys = 32
)

// hopNumbers are 1..MaxHops: what is hashed with a packet's id.
var hopNumbers = func() (all [pint.MaxHops]uint64) {
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}()

// Scratch is scratch memory to read digests with, for the hashes of one
// packet at many hops. The zero value is ready; it is for one goroutine at a time.
type Scratch struct {
	id     uint64
	same   int // ids[:same] are all id
	ids    [laneCount]uint64
	values [laneCount]uint64
	hops   [laneCount]uint64
	hashes [laneCount]uint64
}

// repeat returns n times the id.
func (w *Scratch) repeat(id uint64, n int) []uint64 {
	if w.id != id {
		w.id, w.same = id, 0
	}
	for i := w.same; i < n; i++ {
		w.ids[i] = id
	}
	w.same = max(w.same, n)
	return w.ids[:n]
}

// ofHops hashes the packet's id with each of at most laneCount hop numbers.
func (w *Scratch) ofHops(f hash.Family, seed, id uint64, hops []uint64) []uint64 {
	hashes := w.hashes[:len(hops)]
	f.Uint64sBehind(hashes, seed, id, hops)
	return hashes
}

// ofValues hashes each of at most laneCount values with the packet's id.
func (w *Scratch) ofValues(f hash.Family, seed, id uint64, values []uint64) []uint64 {
	hashes := w.hashes[:len(values)]
	f.Uint64x2s(hashes, seed, values, w.repeat(id, len(values)))
	return hashes
}

// Digest is what the sink sees of a packet over a path of values. Hops beyond
// MaxHops do not write.
func (s *Static) Digest(w *Scratch, id uint64, path []uint64) uint64 {
	path = path[:min(len(path), pint.MaxHops)]
	if s.Dense() {
		return s.denseDigest(w, id, path)
	}
	var d uint64
	for j := range s.Instances {
		set, last := s.Writers(w, id, j, len(path))
		if last {
			hop := set.Last()
			d |= s.contribution(id, j, hop, path[hop-1]&s.valueMask) << uint(j*s.Bits)
		} else {
			d |= s.Combine(w, id, j, &set, path) << uint(j*s.Bits)
		}
	}
	return d
}

// Dense reports whether every hop acts on every packet, with linear values.
func (s *Static) Dense() bool {
	return s.Values == pint.Linear && len(s.layers) == 1 && s.layers[0].always
}

// denseDigest takes the keys of the instances that lie in one hash at once, as
// linearAll does for one hop: shifting moves bits of a neighbour only into rows
// that are masked off.
func (s *Static) denseDigest(w *Scratch, id uint64, path []uint64) uint64 {
	var d uint64
	if len(path) <= fewHops {
		for i, v := range path {
			d ^= s.linearAll(id, i+1, v&s.valueMask)
		}
		return d
	}
	for j := 0; j < s.Instances; j += s.perWord {
		sum := s.products(w, s.seeds[j].value, id, path)
		for i := j; i < min(j+s.perWord, s.Instances); i++ {
			d |= sum & s.mask << uint(i*s.Bits)
			sum >>= uint(s.stride)
		}
	}
	return d
}

// products xors the Toeplitz products of the keys of hops 1, 2, ... with the
// path's values.
func (s *Static) products(w *Scratch, seed, id uint64, path []uint64) (sum uint64) {
	for first := 0; first < len(path); first += laneCount {
		n := min(laneCount, len(path)-first)
		keys := w.ofHops(s.Hash, seed, id, hopNumbers[first:first+n])
		sum ^= toeplitzSum(keys, path[first:first+n], s.valueMask)
	}
	return sum
}

// toeplitzSum xors the products of keys and values by the method of the four
// Russians: keys are first added up by four or five bits of their values, so that only
// 16 or 32 sums are shifted instead of every key.
func toeplitzSum(keys, values []uint64, mask uint64) (sum uint64) {
	width := 5
	if len(keys) <= fewKeys {
		width = 4
	}
	values = values[:len(keys)] // BCE
	for shift := 0; mask>>shift != 0; shift += width {
		var by [32]uint64
		digit := mask >> shift & lowBits(width) & 31 // BCE
		for i, k := range keys {
			by[values[i]>>(shift&63)&digit] ^= k
		}
		sum ^= toeplitzOfAll(&by, width) >> shift
	}
	return sum
}

// toeplitzOfAll xors the products of by[v] with v, of so many bits: it takes the half
// with the highest bit in v, adds it to the other half, and goes on with the next. It
// overwrites by.
func toeplitzOfAll(by *[32]uint64, width int) (sum uint64) {
	for bit := width - 1; bit >= 0; bit-- {
		n := 1 << (bit & 7) & 31
		var half uint64
		for i, k := range by[n : 2*n] {
			half ^= k
			by[i] ^= k
		}
		sum ^= half >> bit
	}
	return sum
}

// Combine xors the contributions of the writers.
func (s *Static) Combine(w *Scratch, id uint64, instance int, writers *HopSet, path []uint64) (d uint64) {
	if s.Values != pint.Hashed && s.Values != pint.Linear || writers.Len() <= fewHops {
		for hop := range writers.All {
			d ^= s.contribution(id, instance, hop, path[hop-1]&s.valueMask)
		}
		return d
	}
	for word := range writers {
		if writers[word] != 0 {
			hops, values := w.gather(word, writers[word], path)
			d ^= s.combineLanes(w, id, instance, hops, values)
		}
	}
	return d & s.mask
}

// combineLanes xors the contributions of at most laneCount hops. Bits beyond the
// digest's are garbage.
func (s *Static) combineLanes(w *Scratch, id uint64, instance int, hops, values []uint64) (d uint64) {
	if s.Values == pint.Hashed {
		for _, h := range w.ofValues(s.Hash, s.seeds[instance].value, id, values) {
			d ^= h
		}
		return d
	}
	first := instance - instance%s.perWord
	keys := w.ofHops(s.Hash, s.seeds[first].value, id, hops)
	return toeplitzSum(keys, values, s.valueMask) >> (instance % s.perWord * s.stride)
}

// Contributions returns what each of at most 64 values contributes to the instance's digest at a hop. The
// result is valid until the scratch memory is used again; bits of values beyond their width are ignored.
func (s *Static) Contributions(w *Scratch, id uint64, instance, hop int, values []uint64) []uint64 {
	if s.Values == pint.Hashed {
		hashes := w.ofValues(s.Hash, s.seeds[instance].value, id, values)
		for i := range hashes {
			hashes[i] &= s.mask
		}
		return hashes
	}
	out := w.hashes[:len(values)]
	for i, v := range values {
		out[i] = s.contribution(id, instance, hop, v&s.valueMask)
	}
	return out
}

// Keys returns the keys of linear values at n hops from the given one on, at most 64: bit r+t is what bit t of a value
// adds to bit r of the instance's digest. Bits of a key beyond Bits+ValueBits-1 are garbage. The result is valid
// until the scratch memory is used again.
func (s *Static) Keys(w *Scratch, id uint64, instance, hop, n int) []uint64 {
	keys := w.ofHops(s.Hash, s.seeds[instance-instance%s.perWord].value, id, hopNumbers[hop-1:hop-1+n])
	for i := range keys {
		keys[i] >>= instance % s.perWord * s.stride
	}
	return keys
}

// gather lists the hops of a word of a HopSet and their values.
func (w *Scratch) gather(word int, set uint64, path []uint64) (hops, values []uint64) {
	first := word * laneCount
	if set&(set+1) == 0 { // all hops up to one
		n := bits.Len64(set)
		return hopNumbers[first : first+n], path[first : first+n]
	}
	n := 0
	for ; set != 0; set &= set - 1 {
		i := first + bits.TrailingZeros64(set)
		w.hops[n&(laneCount-1)], w.values[n&(laneCount-1)] = uint64(i+1), path[i]
		n++
	}
	return w.hops[:n], w.values[:n]
}

// Writers returns the hops whose values are in the instance's digest of a
// packet that passed the given number of hops: the last writer of a Baseline
// packet, all xoring hops of another. It reports whether the packet is a
// Baseline packet.
func (s *Static) Writers(w *Scratch, id uint64, instance, hops int) (HopSet, bool) {
	hops = min(hops, pint.MaxHops)
	l := s.layer(id, instance)
	switch {
	case l.always:
		return FirstHops(hops), false
	case l.baseline:
		return single(s.lastWriter(w, l, id, instance, hops)), true
	}
	set := FirstHops(hops)
	seed := s.seeds[instance].writer
	for block := 0; block <= (hops-1)/laneCount; block++ {
		if s.Vector {
			set[block] = l.planes.writers(s.Hash, seed, id, block, set[block])
		} else {
			set[block] = s.decide(w, l, seed, id, block, hops)
		}
	}
	return set, false
}

// lastWriter is the hop that overwrote the digest of a Baseline packet last. Hop 1
// always writes.
func (s *Static) lastWriter(w *Scratch, l *staticLayer, id uint64, instance, hops int) int {
	seed := s.seeds[instance].writer
	if !s.Vector && hops <= fewHops {
		for hop := hops; hop > 1; hop-- {
			if s.writes(l, id, instance, hop) {
				return hop
			}
		}
		return 1
	}
	for block := (hops - 1) / laneCount; block > 0; block-- {
		if last := s.lastOf(w, l, seed, id, block, hops); last != 0 {
			return block*laneCount + last
		}
	}
	return s.lastOf(w, l, seed, id, 0, hops)
}

// lastOf is the last writer of a block of hops, counted from 1 in the block; 0 if
// none of them writes.
func (s *Static) lastOf(w *Scratch, l *staticLayer, seed, id uint64, block, hops int) int {
	if s.Vector {
		return l.planes.last(s.Hash, seed, id, block, lowBits(min(hops-block*laneCount, laneCount)))
	}
	return bits.Len64(s.decide(w, l, seed, id, block, hops))
}

// decide compares g with the thresholds of a block of hops, side by side.
func (s *Static) decide(w *Scratch, l *staticLayer, seed, id uint64, block, hops int) (set uint64) {
	first := block * laneCount
	n := min(hops-first, laneCount)
	limits := l.accept[first+1:][:n]
	for i, g := range w.ofHops(s.Hash, seed, id, hopNumbers[first:first+n]) {
		_, above := bits.Sub64(limits[i], g, 0)
		set |= (above ^ 1) << i
	}
	return set
}
