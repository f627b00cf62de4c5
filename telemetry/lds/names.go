package lds

import (
	"encoding/binary"
	"errors"
	"fmt"
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
type names struct {
	rows    uint64 // buckets of a row
	buckets []nameBucket
}

// nameBuckets is how many buckets a row has for so many flows that lose packets: four rows decode up to 0.77 flows per bucket
// in the limit of many; with fewer some have the same buckets by chance, for which there are more.
func nameBuckets(lostFlows int) int {
	if lostFlows == 0 {
		return 0
	}
	return lostFlows*7/20 + 6
}

func newNames(lostFlows int) names {
	n := nameBuckets(lostFlows)
	return names{uint64(n), make([]nameBucket, nameRows*n)}
}

// mixName is another hash of a flow, as the rows of cells take the halves of its first. Both its halves choose a bucket.
func mixName(flowHash uint64) uint64 {
	x := flowHash * 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// at is the flow's bucket in each row.
func (s *names) at(flowHash uint64) [nameRows]uint64 {
	x := mixName(flowHash)
	y := mixName(x)
	return [nameRows]uint64{
		uint64(uint32(x)) * s.rows >> 32,
		s.rows + x>>32*s.rows>>32,
		2*s.rows + uint64(uint32(y))*s.rows>>32,
		3*s.rows + y>>32*s.rows>>32,
	}
}

func (s *names) add(flowHash uint64, n FlowName) {
	low, high := n.limbs()
	for _, at := range s.at(flowHash) {
		b := &s.buckets[at]
		b.count += counted(flowHash)
		b.low += low
		b.high += high
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
}

// decode peels the difference of two sketches. hash is that of a name under which packets were added.
func decode(from, to *names, hash func(FlowName) uint64) (flows []LostFlow, complete bool) {
	left := names{from.rows, make([]nameBucket, len(from.buckets))}
	var queue []int
	for i := range left.buckets {
		a, b := &from.buckets[i], &to.buckets[i]
		left.buckets[i] = nameBucket{a.count - b.count, a.low - b.low, a.high - b.high}
		queue = append(queue, i)
	}
	found := map[FlowName]int64{}
	for steps := 0; len(queue) > 0 && steps < 8*len(left.buckets)+1024; steps++ {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		name, lost, ok := left.buckets[i].single()
		if !ok {
			continue
		}
		h := hash(name)
		row := left.at(h)
		if row[i/int(left.rows)] != uint64(i) || left.buckets[i].count != uint64(lost)*counted(h) {
			continue // several flows, whose sums happen to divide
		}
		low, high := name.limbs()
		for _, at := range row {
			b := &left.buckets[at]
			b.count, b.low, b.high = b.count-uint64(lost)*counted(h), b.low-uint64(lost)*low, b.high-uint64(lost)*high
			queue = append(queue, int(at))
		}
		found[name] += lost
	}
	complete = true
	for i := range left.buckets {
		complete = complete && left.buckets[i] == nameBucket{}
	}
	for name, lost := range found {
		if lost != 0 {
			flows = append(flows, LostFlow{name, lost})
		}
	}
	return flows, complete
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

// LostFlows names the flows of IPv4 of which packets were lost, in no order, with the exact number; below 0: they came twice. complete is false if some could not be decoded:
// more flows lost packets than the points have room for, or one more than 4,096, or an interval was not counted whole by both. hash is that
// of a name as packets were added by. known is false if the points do not name flows, or not in the same room.
func (d *Difference) LostFlows(hash func(FlowName) uint64) (flows []LostFlow, complete, known bool) {
	a, b := &d.sender.names, &d.receiver.names
	if a.rows == 0 || a.rows != b.rows {
		return nil, false, false
	}
	word := func(n FlowName) uint64 { return d.sender.group.family.Uint64(d.sender.group.flow, hash(n)) }
	flows, complete = decode(a, b, word)
	return flows, complete && d.wholeInterval(), true
}

// append appends the buckets: 0 for one that nothing was added to, else the lower half of its count plus 1 as a uvarint, the upper half, and both limbs.
func (s *names) append(b []byte) []byte {
	b = binary.AppendUvarint(b, s.rows)
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

// parseNames reads names, and returns what is behind them.
func parseNames(b []byte, keep bool) (s names, rest []byte, err error) {
	rows, n := binary.Uvarint(b)
	if n <= 0 {
		return s, nil, errNames
	}
	s.rows, b = rows, b[n:]
	if rows > uint64(nameBuckets(MaxLostFlows)) || rows*nameRows > uint64(len(b)) {
		return s, nil, errNames
	}
	if keep {
		s.buckets = make([]nameBucket, rows*nameRows)
	}
	for i := range int(rows * nameRows) {
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

func (s *names) clear() { clear(s.buckets) }

func checkLostFlows(n int) error {
	if n < 0 || n > MaxLostFlows {
		return fmt.Errorf("%d lost flows: choose 0 to %d", n, MaxLostFlows)
	}
	return nil
}
