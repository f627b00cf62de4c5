package lds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"gonum.org/v1/gonum/mathext"
)

// MaxLostFlows is the most lost flows that a point can be made to name.
const MaxLostFlows = 1 << 16

// FlowName is the key of a flow of IPv4 in the two words that are hashed: addresses in the first, ports and protocol in the lower
// 40 bits of the second.
type FlowName struct{ Addresses, Ports uint64 }

const (
	nameRows  = 4
	nameBytes = 24
	limbBits  = 52
	limbMask  = 1<<limbBits - 1
	// mostOfFlow is the most packets of a flow whose loss in an interval can be read: sums of limbs are not to wrap.
	mostOfFlow = 1 << (64 - limbBits)
)

// nameBucket sums up packets: how many in the lower half of count and checks of their flows in the upper one, and their flows' names in two limbs of
// 52 bits, all modulo 2^64.
type nameBucket struct{ count, low, high uint64 }

// names is an invertible sketch of flows: four rows of buckets, to one of each of which each packet adds its flow's name. In the difference of the sender's and the
// receiver's only lost packets are left. A bucket in which those of one flow are left says its name, the sum over the count;
// with it the flow is taken out of its other buckets, which leaves others with one (peeling). That is the difference of FermatSketch (ChameleMon,
// SIGCOMM 2023) without its prime: sums modulo 2^64 divide exactly for up to 4,096 packets of a flow, which costs no
// division of packets. A sum of several flows passes for one with probability 2^-32 or less, by the check, a hash of the name. It takes 24 bytes a bucket, and 1.4
// buckets for each flow that loses packets, 34 bytes, and 24 buckets more.
//
// Where more flows lose packets than the rows can decode, nearly none is. ChameleMon's controller then has the switches count fewer flows
// in the next epoch. Two points without a controller count samples at all times: behind the rows of all flows are three smaller ones, of one flow of 16,
// of 64 and of 256 by the flow's hash, each inside the one before, and each with room for an eighth as many flows. The largest sample that can be decoded says
// all lost flows in it, and so about how many there are, up to some 20 times as many as there is room for:
//
//	rows of all flows | of 1 of 16 | of 1 of 64 | of 1 of 256
type names struct {
	rows    uint64 // buckets of a row of all flows
	part    uint64 // buckets of a row of each sample; 0: there are no samples
	buckets []nameBucket
}

// The samples: of one flow of 2^firstShare, and of each 2^shareStep times fewer.
const (
	samplesOfNames = 3
	firstShare     = 4
	shareStep      = 2
	lastShare      = firstShare + (samplesOfNames-1)*shareStep
)

// nameBuckets is how many buckets a row has for so many flows that lose packets: four rows decode up to 0.77 flows per bucket
// in the limit of many; with fewer some have the same buckets by chance, for which there are more.
func nameBuckets(lostFlows int) int {
	if lostFlows == 0 {
		return 0
	}
	return lostFlows*7/20 + 6
}

// partBuckets is how many buckets a row of a sample has. It has fewer to spare: where one sample cannot be decoded, a smaller one is.
func partBuckets(lostFlows int) int {
	if lostFlows == 0 {
		return 0
	}
	return lostFlows*7/160 + 2
}

// namesBytes is what the names of a point take.
func namesBytes(lostFlows int, whole bool) int {
	n := nameBuckets(lostFlows)
	if !whole {
		n += samplesOfNames * partBuckets(lostFlows)
	}
	return nameRows * n * nameBytes
}

func newNames(lostFlows int, whole bool) names {
	n, part := nameBuckets(lostFlows), partBuckets(lostFlows)
	if whole {
		part = 0
	}
	return names{uint64(n), uint64(part), make([]nameBucket, nameRows*(n+samplesOfNames*part))}
}

// mixName is another hash of a flow, as the rows of cells take the halves of its first. Both its halves choose a bucket.
func mixName(flowHash uint64) uint64 {
	x := flowHash * 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// at is the flow's bucket in each of four rows of n buckets.
func at(flowHash, n uint64) [nameRows]uint64 {
	x := mixName(flowHash)
	y := mixName(x)
	return [nameRows]uint64{
		uint64(uint32(x)) * n >> 32,
		n + x>>32*n>>32,
		2*n + uint64(uint32(y))*n>>32,
		3*n + y>>32*n>>32,
	}
}

// samplesOf is how many samples a flow is in, by the lowest bits of a word of which the highest bits choose a bucket.
func samplesOf(flowHash uint64) int {
	share := bits.TrailingZeros64(mixName(mixName(flowHash)) | 1<<lastShare)
	return max(share-firstShare+shareStep, 0) / shareStep
}

// sample is the sample's buckets, from 0 on.
func (s *names) sample(i int) []nameBucket {
	first, n := nameRows*(s.rows+uint64(i)*s.part), nameRows*s.part
	return s.buckets[first : first+n]
}

func (s *names) add(flowHash uint64, n FlowName) {
	low, high := n.limbs()
	one := nameBucket{counted(flowHash), low, high}
	addName(s.buckets, at(flowHash, s.rows), &one)
	if s.part != 0 {
		for i := range samplesOf(flowHash) {
			addName(s.sample(i), at(flowHash, s.part), &one)
		}
	}
}

func addName(buckets []nameBucket, to [nameRows]uint64, one *nameBucket) {
	for _, at := range to {
		b := &buckets[at]
		b.count += one.count
		b.low += one.low
		b.high += one.high
	}
}

// counted is what one packet of a flow adds to a bucket's count.
func counted(flowHash uint64) uint64 { return flowHash<<32 | 1 }

func (n FlowName) limbs() (low, high uint64) {
	return n.Addresses & limbMask, n.Addresses>>limbBits | n.Ports&(1<<40-1)<<(64-limbBits)
}

func nameOf(low, high uint64) FlowName {
	return FlowName{low | high<<limbBits, high >> (64 - limbBits)}
}

func (s *names) merge(o *names) {
	for i := range o.buckets {
		a, b := &s.buckets[i], &o.buckets[i]
		a.count, a.low, a.high = a.count+b.count, a.low+b.low, a.high+b.high
	}
}

// LostFlow is a flow of which packets were lost, or, below 0, came twice.
type LostFlow struct {
	Name FlowName
	Lost int64
	// Share is the smallest sample that the flow is in, of one flow of so many: 1, 16, 64 or 256.
	Share int
}

// LostFlows are the flows that a difference names, in no order.
type LostFlows struct {
	Flows []LostFlow
	// Of says which flows that lost packets are all among them: 1, all; 16, 64, 256, those of a Share of at least that; 0, of none is it known.
	Of int
}

// Losing is about how many flows lost packets, where so many did of a sample of one flow of so many, with the bounds of Clopper and Pearson: these hold except with
// probability delta.
func Losing(sampled, of int, delta float64) (value, low, high float64) {
	n, rest := float64(sampled), 1-1/float64(of)
	if of <= 1 {
		return n, n, n
	}
	// solve finds the number at which a falling probability is delta/2.
	solve := func(p func(all float64) float64) float64 {
		low, high := n, n+1
		for p(high) > delta/2 {
			high = 2 * high
		}
		for high-low > 1e-6*high {
			if middle := (low + high) / 2; p(middle) > delta/2 {
				low = middle
			} else {
				high = middle
			}
		}
		return high
	}
	if low = n; sampled > 0 {
		// As many or more of all flows are in the sample: it grows with all, so its complement falls.
		low = solve(func(all float64) float64 { return mathext.RegIncBeta(all-n+1, n, rest) - 1 + delta })
	}
	return n * float64(of), low, solve(func(all float64) float64 {
		if all == n {
			return 1
		}
		return mathext.RegIncBeta(all-n, n+1, rest)
	})
}

// shareOf is what one flow in sample i is of.
func shareOf(i int) int { return 1 << (firstShare + i*shareStep) }

// decode peels the difference of two sketches. hash is that of a name under which packets were added.
func decode(from, to *names, hash func(FlowName) uint64) LostFlows {
	all := newPeeler(from.buckets[:nameRows*from.rows], to.buckets[:nameRows*to.rows], 0, hash)
	all.peel()
	l := LostFlows{Of: 1}
	if !all.complete() {
		l.Of = 0
		for i := 0; i < samplesOfNames && from.part != 0 && from.part == to.part && l.Of == 0; i++ {
			sample := newPeeler(from.sample(i), to.sample(i), i+1, hash)
			if sample.peel(); !sample.complete() {
				continue
			}
			l.Of = shareOf(i)
			// What is left in the rows of all is less by these.
			for name, lost := range sample.found {
				if more := lost - all.found[name]; more != 0 {
					all.take(name, hash(name), more)
				}
			}
			if all.peel(); all.complete() {
				l.Of = 1
			}
		}
	}
	for name, lost := range all.found {
		if lost != 0 {
			share := 1
			if n := samplesOf(hash(name)); n > 0 {
				share = shareOf(n - 1)
			}
			l.Flows = append(l.Flows, LostFlow{name, lost, share})
		}
	}
	return l
}

// peeler takes flows out of the difference of two sketches.
type peeler struct {
	buckets []nameBucket
	n       uint64 // of a row
	samples int    // that its flows are in, at least
	hash    func(FlowName) uint64
	queue   []int
	steps   int
	found   map[FlowName]int64
}

func newPeeler(from, to []nameBucket, samples int, hash func(FlowName) uint64) *peeler {
	p := &peeler{buckets: make([]nameBucket, len(from)), n: uint64(len(from) / nameRows), samples: samples, hash: hash, found: map[FlowName]int64{}}
	for i := range p.buckets {
		a, b := &from[i], &to[i]
		p.buckets[i] = nameBucket{a.count - b.count, a.low - b.low, a.high - b.high}
		p.queue = append(p.queue, i)
	}
	return p
}

func (p *peeler) peel() {
	for ; len(p.queue) > 0 && p.steps < 8*len(p.buckets)+1024; p.steps++ {
		i := p.queue[len(p.queue)-1]
		p.queue = p.queue[:len(p.queue)-1]
		name, lost, ok := p.buckets[i].single()
		if !ok {
			continue
		}
		h := p.hash(name)
		if at(h, p.n)[i/int(p.n)] != uint64(i) || p.buckets[i].count != uint64(lost)*counted(h) || samplesOf(h) < p.samples {
			continue // several flows, whose sums happen to divide
		}
		p.take(name, h, lost)
	}
}

// take takes packets of a flow out of its buckets.
func (p *peeler) take(name FlowName, h uint64, lost int64) {
	low, high := name.limbs()
	n := uint64(lost)
	to := at(h, p.n)
	addName(p.buckets, to, &nameBucket{-n * counted(h), -n * low, -n * high})
	for _, at := range to {
		p.queue = append(p.queue, int(at))
	}
	p.found[name] += lost
}

func (p *peeler) complete() bool {
	for i := range p.buckets {
		if p.buckets[i] != (nameBucket{}) {
			return false
		}
	}
	return true
}

// single reads the name in a bucket as if its packets were of one flow, whose check is to be compared.
func (b nameBucket) single() (name FlowName, lost int64, ok bool) {
	lost = int64(int32(b.count))
	n, low, high := uint64(lost), b.low, b.high
	if lost < 0 {
		n, low, high = -n, -low, -high
	}
	if n == 0 || n > mostOfFlow || low%n != 0 || high%n != 0 || low/n > limbMask || high/n > limbMask {
		return name, 0, false
	}
	return nameOf(low/n, high/n), lost, true
}

// LostFlows names the flows of IPv4 of which packets were lost, with the exact number; below 0: they came twice. Of is not 1 if some could not be decoded:
// more flows lost packets than the points have room for, or one more than 4,096; then the flows of a sample are all named, if it can be, and others in part.
// It is 0 too if an interval was not counted whole by both. hash is that
// of a name as packets were added by. known is false if the points do not name flows, or not in the same room.
func (d *Difference) LostFlows(hash func(FlowName) uint64) (l LostFlows, known bool) {
	a, b := &d.sender.names, &d.receiver.names
	if a.rows == 0 || a.rows != b.rows {
		return l, false
	}
	word := func(n FlowName) uint64 { return d.sender.group.family.Uint64(d.sender.group.flow, hash(n)) }
	l = decode(a, b, word)
	if !d.wholeInterval() {
		l.Of = 0
	}
	return l, true
}

// append appends how many buckets a row of all flows has, and one of a sample, as uvarints, and the buckets: 0 for one that nothing was added to, else the lower half of its count plus 1 as a uvarint, the upper half, and both limbs.
func (s *names) append(b []byte) []byte {
	b = binary.AppendUvarint(b, s.rows)
	if s.rows != 0 {
		b = binary.AppendUvarint(b, s.part)
	}
	for _, x := range s.buckets {
		if x == (nameBucket{}) {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(uint32(x.count))+1)
		b = order.AppendUint32(b, uint32(x.count>>32))
		b = order.AppendUint64(b, x.low)
		b = order.AppendUint64(b, x.high)
	}
	return b
}

var errNames = errors.New("the names are cut")

// parseNames reads names, and returns what is behind them. Those of earlier releases had no samples.
func parseNames(b []byte, sampled, keep bool) (s names, rest []byte, err error) {
	if s.rows, b, err = parseRow(b, nameBuckets(MaxLostFlows)); err != nil {
		return s, nil, err
	}
	if sampled && s.rows != 0 {
		if s.part, b, err = parseRow(b, partBuckets(MaxLostFlows)); err != nil {
			return s, nil, err
		}
	}
	buckets := nameRows * (s.rows + samplesOfNames*s.part)
	if buckets > uint64(len(b)) {
		return s, nil, errNames
	}
	if keep {
		s.buckets = make([]nameBucket, buckets)
	}
	for i := range int(buckets) {
		count, n := binary.Uvarint(b)
		if n <= 0 || count > 1<<32 || count != 0 && len(b) < n+20 {
			return s, nil, errNames
		}
		if b = b[n:]; count == 0 {
			continue
		}
		if keep {
			s.buckets[i] = nameBucket{uint64(order.Uint32(b))<<32 | (count - 1), order.Uint64(b[4:]), order.Uint64(b[12:])}
		}
		b = b[20:]
	}
	return s, b, nil
}

// parseRow reads how many buckets a row has.
func parseRow(b []byte, most int) (n uint64, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(most) {
		return 0, nil, errNames
	}
	return n, b[size:], nil
}

func (s *names) clear() { clear(s.buckets) }

func checkLostFlows(n int) error {
	if n < 0 || n > MaxLostFlows {
		return fmt.Errorf("%d lost flows: choose 0 to %d", n, MaxLostFlows)
	}
	return nil
}
