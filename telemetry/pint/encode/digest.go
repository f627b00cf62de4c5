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
		set, _ := s.Writers(w, id, j, len(path))
		d |= s.Combine(w, id, j, &set, path) << uint(j*s.Bits)
	}
	return d
}

// Dense reports whether every hop acts on every packet, with linear values.
func (s *Static) Dense() bool {
	return s.Values == pint.Linear && len(s.layers) == 1 && s.layers[0].always
}

// denseDigest takes the keys of the instances that lie in one hash at once: shifting moves bits of a neighbour only into
// rows that are masked off.
func (s *Static) denseDigest(w *Scratch, id uint64, path []uint64) (d uint64) {
	for j := 0; j < s.Instances; j += s.perWord {
		var sum uint64
		for first := 0; first < len(path); first += laneCount {
			n := min(laneCount, len(path)-first)
			sum ^= toeplitzSum(s.Keys(w, id, j, first+1, n), path[first:first+n], s.valueMask)
		}
		for i := j; i < min(j+s.perWord, s.Instances); i++ {
			d |= sum & s.mask << uint(i*s.Bits)
			sum >>= uint(s.stride)
		}
	}
	return d
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
	return toeplitzSum(w.ofHops(s.Hash, s.seeds[instance].value, id, hops), values, s.valueMask) >> s.seeds[instance].shift
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
	keys := w.ofHops(s.Hash, s.seeds[instance].value, id, hopNumbers[hop-1:hop-1+n])
	if shift := s.seeds[instance].shift; shift != 0 {
		for i := range keys {
			keys[i] >>= shift & 63
		}
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
	set := FirstHops(hops)
	if l.always {
		return set, false
	}
	for block := (hops - 1) / laneCount; block >= 0; block-- {
		set[block] = s.decide(w, l, id, instance, block, set[block])
		if l.baseline && set[block] != 0 {
			return single(block*laneCount + bits.Len64(set[block])), true
		}
	}
	return set, false
}

// layer is H of the paper: the layer of the packet in the instance.
func (s *Static) layer(id uint64, instance int) *staticLayer {
	if len(s.layers) == 1 {
		return &s.layers[0]
	}
	return s.layerOf(s.Hash.Uint64(s.seeds[instance].layer, id), instance)
}

// decide is g of the paper for a block of hops, of which want marks those that matter.
func (s *Static) decide(w *Scratch, l *staticLayer, id uint64, instance, block int, want uint64) (set uint64) {
	seed := s.seeds[instance].writer
	if s.Vector {
		return l.planes.writers(s.Hash, seed, id, block, want)
	}
	first := block * laneCount
	n := bits.Len64(want)
	limits := l.accept[first+1:][:n]
	for i, g := range w.ofHops(s.Hash, seed, id, hopNumbers[first:first+n]) {
		_, above := bits.Sub64(limits[i], g, 0)
		set |= (above ^ 1) << i
	}
	return set
}
