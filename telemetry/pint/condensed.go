package pint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// Condensed is what a sink read from the digests of a slice and partition, where it does not send them all: the batch then has
// those of 1 of 2^Share packets.
type Condensed struct {
	Share uint8 // at most MaxShare
	// Read: of the packets from edge to edge of the switch, whose path is that switch alone, the sink read those of 1 of 2^Read, each
	// for so many, if there were more than it had time for. It is at most MaxRead, and the others were read, all of them.
	Read uint8
	// Packets had digests of the plan in the slice and partition. What Flows do not have of them are of flows that the sink had no
	// room for, in its memory or in its budget.
	Packets uint64
	// Query is the number in the plan of the query whose Paths these are, each with one or more hops.
	Query uint8
	Paths [][]uint64
	// Flows are in the order of FlowKey.Compare, each once.
	Flows []CondensedFlow
	// Bounded: it is known what Flows lack of a flow at most, and Flows may have Values; false in records of earlier releases. Evicted packets are of flows that were
	// evicted in the slice, which may have come back since, and Least is how many a flow had at most that was left out for want of room.
	Bounded        bool
	Evicted, Least uint64
	// Step: in Values of Flows, by queries of Quantiles, 2^Step codes are counted together, as the first of them. It is at most MaxStep, and 0 without such Values.
	Step uint8
	// Values are what queries with a value at each hop read, by switch, of all flows whose path was certain by the end of the slice; Unlocated
	// readings are of others.
	Values    []CondensedValues
	Unlocated uint64
}

// CondensedFlow is a flow in a slice.
type CondensedFlow struct {
	Flow    FlowKey
	Packets uint64
	// Path is the number in Paths of the flow's path at the end of the slice, from 1; 0: none is certain. Changes of it were noticed in
	// the slice.
	Path    uint32
	Changes uint32
	// Values are what queries with a value at each hop read of this flow alone, in the order of query and hop; nil: they are not sent. A flow that has them
	// took Path in all of the slice, as far as was noticed by its end: a change is some dozens of packets later.
	Values []HopValues
}

// HopValues are the readings of a query at a hop of a flow's path: as codes have 8 bits at most, a quantile sketch whose only error
// is that of Condensed.Step, and those of several slices add up.
type HopValues struct {
	Query uint8 // its number in the plan
	Hop   uint8 // from 1
	// Counts are as those of CondensedValues.
	Counts []CodeCount
}

// ValuesOf are the flow's readings of a query, by hop; nil: there are none here.
func (f *CondensedFlow) ValuesOf(query int) []HopValues {
	from := 0
	for from < len(f.Values) && int(f.Values[from].Query) < query {
		from++
	}
	to := from
	for to < len(f.Values) && int(f.Values[to].Query) == query {
		to++
	}
	return f.Values[from:to]
}

// CondensedValues are the readings of a query at a switch.
type CondensedValues struct {
	Query  uint8 // its number in the plan
	Switch uint64
	// Counts are by the query's own digest, a code: in increasing order, none of them 0.
	Counts []CodeCount
}

// CodeCount is how many readings had a code.
type CodeCount struct {
	Code  uint8
	Count uint64
}

// MaxShare bounds Condensed.Share, MaxRead Condensed.Read, MaxStep Condensed.Step.
const (
	MaxStep  = 4
	MaxShare = 20
	MaxRead  = 7
)

// Sampled reports whether the digest of a packet is among those of 1 of 2^share: those of a larger share are among those
// of a smaller.
func Sampled(id uint64, share uint8) bool { return InShare(hash.Uint64(shareSeed, id), share) }

// ShareHashes writes a hash for each of a block of ids, of which InShare tells what Sampled does.
func ShareHashes(dst, ids []uint64) { hash.Uint64s(dst, shareSeed, ids) }

// InShare is Sampled for a hash of [ShareHashes].
func InShare(h uint64, share uint8) bool { return h>>(64-share) == 0 }

// shareSeed is a part of the records' format.
const shareSeed = 's'

// Sums of packets stay in 64 bits.
const maxCondensed = 1 << 48

// Beyond is how many packets a flow may have had in the slice that its entry, or none, does not say.
func (c *Condensed) Beyond(listed bool) uint64 {
	switch {
	case !c.Bounded:
		return c.Packets - c.Listed()
	case listed:
		return c.Evicted
	}
	return c.Evicted + c.Least
}

// Find returns a flow's entry, nil if there is none.
func (c *Condensed) Find(k *FlowKey) *CondensedFlow {
	i := sort.Search(len(c.Flows), func(i int) bool { return c.Flows[i].Flow.Compare(k) >= 0 })
	if i < len(c.Flows) && c.Flows[i].Flow == *k {
		return &c.Flows[i]
	}
	return nil
}

// PathOf is the path of one of the flows, nil if none is certain.
func (c *Condensed) PathOf(f *CondensedFlow) []uint64 {
	if f.Path == 0 {
		return nil
	}
	return c.Paths[f.Path-1]
}

// Listed is how many packets Flows have.
func (c *Condensed) Listed() (n uint64) {
	for i := range c.Flows {
		n += c.Flows[i].Packets
	}
	return n
}

// Bytes is about the memory that it takes.
func (c *Condensed) Bytes() int {
	n := 128 + len(c.Flows)*condensedFlowBytes
	for i := range c.Flows {
		for _, v := range c.Flows[i].Values {
			n += 32 + 16*len(v.Counts)
		}
	}
	for _, p := range c.Paths {
		n += 24 + 8*len(p)
	}
	for i := range c.Values {
		n += 48 + 16*len(c.Values[i].Counts)
	}
	return n
}

const condensedFlowBytes = 80

// The binary form, numbers uvarints but for bytes, is packed as a whole:
//
//	share, and read in the upper three bits(1) query(1) packets unlocated
//	paths, and for each: hops(1) values
//	short flows, long flows, in their forms one after the other; packets of each; path of each; changes of each
//	values, and for each: query(1) switch codes, and for each: code(1) count
//
// and in version 3 alone behind it, packed on their own, as these are other numbers,
//
//	step(1) evicted least flows with values, and for each: number behind that of the one before; values, and for each: query(1) hop(1) codes
//	of each of all codes, packed as cells: how far it is behind the one before(1), of the first of a hop from 0
//	of each of all codes, packed as cells: count
func (c *Condensed) append(dst []byte) []byte {
	b := []byte{c.Share | c.Read<<5, c.Query}
	b = binary.AppendUvarint(b, c.Packets)
	b = binary.AppendUvarint(b, c.Unlocated)
	b = binary.AppendUvarint(b, uint64(len(c.Paths)))
	for _, p := range c.Paths {
		b = append(b, byte(len(p)))
		for _, v := range p {
			b = binary.AppendUvarint(b, v)
		}
	}
	short := sort.Search(len(c.Flows), func(i int) bool { return !c.Flows[i].Flow.short() })
	b = binary.AppendUvarint(b, uint64(short))
	b = binary.AppendUvarint(b, uint64(len(c.Flows)-short))
	for i := range c.Flows {
		b = c.Flows[i].Flow.appendBytes(b)
	}
	for i := range c.Flows {
		b = binary.AppendUvarint(b, c.Flows[i].Packets)
	}
	for i := range c.Flows {
		b = binary.AppendUvarint(b, uint64(c.Flows[i].Path))
	}
	for i := range c.Flows {
		b = binary.AppendUvarint(b, uint64(c.Flows[i].Changes))
	}
	b = binary.AppendUvarint(b, uint64(len(c.Values)))
	for i := range c.Values {
		v := &c.Values[i]
		b = append(b, v.Query)
		b = binary.AppendUvarint(b, v.Switch)
		b = binary.AppendUvarint(b, uint64(len(v.Counts)))
		for _, n := range v.Counts {
			b = append(b, n.Code)
			b = binary.AppendUvarint(b, n.Count)
		}
	}
	dst = packing.Append(dst, b)
	if c.version() == flowValuesVersion {
		dst = c.appendFlowValues(dst)
	}
	return dst
}

// version is that of a batch with it.
func (c *Condensed) version() byte {
	if c.Bounded {
		return flowValuesVersion
	}
	return condensedVersion
}

func (c *Condensed) appendFlowValues(dst []byte) []byte {
	var places, codes, counts []byte
	n, next := uint64(0), 0
	for i := range c.Flows {
		f := &c.Flows[i]
		if f.Values == nil {
			continue
		}
		n++
		places = binary.AppendUvarint(places, uint64(i-next))
		places = binary.AppendUvarint(places, uint64(len(f.Values)))
		for _, v := range f.Values {
			places = binary.AppendUvarint(append(places, v.Query, v.Hop), uint64(len(v.Counts)))
			behind := 0
			for _, x := range v.Counts {
				codes = append(codes, x.Code-uint8(behind))
				counts = binary.AppendUvarint(counts, x.Count)
				behind = int(x.Code) + 1
			}
		}
		next = i + 1
	}
	head := binary.AppendUvarint(binary.AppendUvarint([]byte{c.Step}, c.Evicted), c.Least)
	dst = packing.Append(dst, append(binary.AppendUvarint(head, n), places...))
	return packing.AppendCells(packing.AppendCells(dst, codes), counts)
}

// condensedReader reads the binary form. Its first fault is in err, and all that is read behind it is zero.
type condensedReader struct {
	b   []byte
	err error
}

func (r *condensedReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *condensedReader) byte() byte {
	if len(r.b) == 0 {
		r.fail("what was condensed ends early")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// number reads one of at most most.
func (r *condensedReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.fail("a number ends early, or is too large")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads how many things of so many bytes at least follow.
func (r *condensedReader) count(bytes int) int { return int(r.number(uint64(len(r.b) / bytes))) }

// parseCondensed reads what append wrote in a batch of a version, all of b.
func parseCondensed(b []byte, version byte) (*Condensed, error) {
	text, rest, err := packing.Cut(b)
	if err != nil {
		return nil, err
	}
	var values [3][]byte
	if version == flowValuesVersion {
		for i := range values {
			if values[i], rest, err = packing.Cut(rest); err != nil {
				return nil, err
			}
		}
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d bytes are behind what was condensed", len(rest))
	}
	r := &condensedReader{b: text}
	share := r.byte()
	c := &Condensed{Share: share & 31, Read: share >> 5, Query: r.byte(), Packets: r.number(maxCondensed), Unlocated: r.number(maxCondensed)}
	if c.Share > MaxShare {
		r.fail("1 of 2^%d packets", c.Share)
	}
	c.Paths = make([][]uint64, r.count(2))
	for i := range c.Paths {
		hops := int(r.byte())
		if hops == 0 || hops > len(r.b) {
			r.fail("a path of %d hops", hops)
			break
		}
		for range hops {
			c.Paths[i] = append(c.Paths[i], r.number(^uint64(0)))
		}
	}
	r.flows(c)
	r.values(c)
	if r.err == nil && len(r.b) != 0 {
		r.err = errors.New("there is more than was condensed")
	}
	if version == flowValuesVersion && r.err == nil {
		r.err = c.readFlowValues(values[0], values[1], values[2])
	}
	if r.err == nil && c.Listed() > c.Packets {
		r.err = fmt.Errorf("flows have %d of %d packets", c.Listed(), c.Packets)
	}
	return c, r.err
}

func (r *condensedReader) flows(c *Condensed) {
	short, long := r.count(shortFlow), r.count(longFlow)
	if short*shortFlow+long*longFlow > len(r.b) {
		r.fail("%d flows end early", short+long)
		return
	}
	c.Flows = make([]CondensedFlow, short+long)
	var before []byte
	for i := range c.Flows {
		n := shortFlow
		if i >= short {
			n = longFlow
		}
		f := &c.Flows[i].Flow
		f.setBytes(r.b[:n])
		if i != 0 && i != short && bytes.Compare(before, r.b[:n]) >= 0 || i >= short && f.short() {
			r.fail("flow %d of %d is not in order, or could be short", i, len(c.Flows))
			return
		}
		before, r.b = r.b[:n], r.b[n:]
	}
	for i := range c.Flows {
		if c.Flows[i].Packets = r.number(maxCondensed); c.Flows[i].Packets == 0 {
			r.fail("a flow without packets")
		}
	}
	for i := range c.Flows {
		c.Flows[i].Path = uint32(r.number(uint64(len(c.Paths))))
	}
	for i := range c.Flows {
		c.Flows[i].Changes = uint32(r.number(1<<32 - 1))
	}
}

func (r *condensedReader) values(c *Condensed) {
	c.Values = make([]CondensedValues, r.count(3))
	for i := range c.Values {
		v := &c.Values[i]
		v.Query, v.Switch = r.byte(), r.number(^uint64(0))
		v.Counts = make([]CodeCount, r.count(2))
		for j := range v.Counts {
			n := CodeCount{Code: r.byte(), Count: r.number(maxCondensed)}
			if n.Count == 0 || j > 0 && n.Code <= v.Counts[j-1].Code {
				r.fail("codes are not in order, or have no reading")
			}
			v.Counts[j] = n
		}
	}
}

// readFlowValues reads the values of single flows: at the hops of the flow's path, and of no more packets than it has.
func (c *Condensed) readFlowValues(places, codes, counts []byte) error {
	r, numbers := &condensedReader{b: places}, &condensedReader{b: counts}
	next, all := 0, 0
	c.Bounded = true
	if c.Step = r.byte(); c.Step > MaxStep {
		r.fail("values of 2^%d codes together", c.Step)
	}
	c.Evicted, c.Least = r.number(maxCondensed), r.number(maxCondensed)
	if len(counts) < len(codes) {
		r.fail("%d codes and %d bytes of counts", len(codes), len(counts))
	}
	flows := r.count(2)
	for range flows {
		skip := r.number(uint64(len(c.Flows)))
		if r.err != nil || int(skip) >= len(c.Flows)-next {
			r.fail("values of a flow that is not listed")
			return r.err
		}
		f := &c.Flows[next+int(skip)]
		next += int(skip) + 1
		hops := len(c.PathOf(f))
		if f.Values = make([]HopValues, r.count(3)); len(f.Values) == 0 {
			r.fail("a flow has no values where there should be some")
		}
		for i := range f.Values {
			v := &f.Values[i]
			v.Query, v.Hop = r.byte(), r.byte()
			n := int(r.number(1 << 8))
			switch before := f.Values[max(i-1, 0)]; {
			case v.Hop == 0 || int(v.Hop) > hops:
				r.fail("values at hop %d of %d", v.Hop, hops)
			case i > 0 && (v.Query < before.Query || v.Query == before.Query && v.Hop <= before.Hop):
				r.fail("values of a flow are not in order")
			case n == 0:
				r.fail("a hop without values")
			case n > len(codes)-all:
				r.fail("%d codes are more than there are", n)
			}
			if r.err != nil {
				return r.err
			}
			v.Counts = make([]CodeCount, n)
			all += n
		}
	}
	if r.err == nil && (len(r.b) != 0 || all != len(codes)) {
		r.fail("%d codes of %d, or more flows than have any", len(codes), all)
	}
	if r.err != nil {
		return r.err
	}
	for i := range c.Flows {
		readings, query := uint64(0), -1
		for _, v := range c.Flows[i].Values {
			if int(v.Query) != query {
				readings, query = 0, int(v.Query)
			}
			behind := 0
			for j := range v.Counts {
				code, count := behind+int(codes[0]), numbers.number(maxCondensed)
				if readings += count; code > 255 || count == 0 || readings > c.Flows[i].Packets {
					return fmt.Errorf("code %d of a flow with %d readings and %d packets", code, readings, c.Flows[i].Packets)
				}
				v.Counts[j] = CodeCount{uint8(code), count}
				codes, behind = codes[1:], code+1
			}
		}
	}
	if numbers.err == nil && len(numbers.b) != 0 {
		return errors.New("there are more counts than codes")
	}
	return numbers.err
}

// Sort puts Flows into their order.
func (c *Condensed) Sort() {
	slices.SortFunc(c.Flows, func(a, b CondensedFlow) int { return a.Flow.Compare(&b.Flow) })
}
