package sink

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// CondenserConfig bounds a condenser's memory.
type CondenserConfig struct {
	// MaxFlows is how many flows it knows, each in about 250 bytes, 4 more for each reading, up to 1 KB, and up to 2 KB more while its path is
	// not certain; beyond, those that were not heard of for a while are evicted. The counts of single flows take up to 16 MB beside.
	MaxFlows int
	// Partitions is into how many parts its flows are divided (pint.FlowKey.Partition).
	Partitions int
	// Decoder completes the path query of switches.
	Decoder DecoderConfig
	// Switch is the id of the sink's own switch.
	Switch uint64
}

// Condenser reads the digests of a plan at the sink, all or a share of those from edge to edge, and says in one pint.Condensed for each partition and slice what the digests do: the paths that
// are certain, how many packets flows had, and what queries with a value at each hop read, by switch. A digest's code is of 8 bits at
// most, so the counts of codes are all that quantiles over flows can be had from, and those of several sinks add up. It belongs to one
// goroutine.
type Condenser struct {
	config  CondenserConfig
	reader  *Reader
	path    int       // number of the query; -1: none is of switches
	exact   [256]bool // by query: values are counted one by one, and codes are not joined
	check   int       // number of the query that tells a flow's paths apart; -1: none does
	hops    []int
	decoder *Decoder
	seed    uint64
	flows   *flowTable[condensed]
	parts   []condensedPart
	evicted uint64
	blocks  int            // counts of single flows that are in use
	free    []*[256]uint32 // those that are not
}

// condensed is what is known of a flow.
type condensed struct {
	Flow
	packets   uint64 // in the slice
	before    uint64 // Changes up to the slice
	mark      uint64 // checksum and hops of the packets that its path is decoded from
	mixed     bool   // packets with another mark came in the slice: there is no one path
	partition uint16
	pending   []reading // of the slice, while its path is not certain
	// few are the slice's last readings, and places counts those before; neither if the path was not one in all of the slice, or some were not kept, which left
	// says.
	few    []reading
	places []flowPlace
	left   bool
}

// flowPlace counts a query's readings at a hop of a flow's path.
type flowPlace struct {
	query, hop uint8
	counts     *[256]uint32
}

// reading waits for the path.
type reading struct{ query, hop, code, weight uint8 }

// condensedPart is a partition in a slice.
type condensedPart struct {
	packets, unlocated uint64
	evicted            uint64 // packets of flows that were evicted in the slice
	values             map[valuePlace]*[256]uint64
}

type valuePlace struct {
	query uint8
	sw    uint64
}

const (
	// condenserDigests bounds the digests of a flow whose path is not certain.
	condenserDigests = 128
	// maxPending bounds the readings that wait for the path; more are counted as unlocated.
	maxPending = 128
	// maxPlaces bounds the queries and switches of a partition, 2 KB each.
	maxPlaces = 2048
	// fewReadings is how many readings of a flow are counted together.
	fewReadings = 256
	// leastReadings is how many of them are the least to be sent: of fewer, quantiles say little more than those of the switches.
	leastReadings = 16
	// mostStep is how many codes of single flows are joined at most, as a power of two: quantiles of some dozens or hundreds of readings err more than these are wide.
	mostStep = 2
	// maxBlocks bounds the counts of single flows, 1 KB each.
	maxBlocks = 16384
	// verifyEach is how many packets of a flow whose path is certain one is compared with it: a change is noticed some packets later.
	verifyEach = 8
)

// NewCondenser makes the condenser of a plan.
func NewCondenser(p *plan.Plan, c CondenserConfig) (*Condenser, error) {
	r, err := NewReader(p)
	if err != nil {
		return nil, err
	}
	d := &Condenser{config: c, reader: r, path: -1, check: -1, seed: hash.Uint64(p.Seed, 'c'), parts: make([]condensedPart, c.Partitions)}
	d.flows = newFlowTable[condensed](c.MaxFlows, d.seed)
	d.flows.evict = d.evict
	for i := range p.Queries {
		switch q := &p.Queries[i]; {
		case q.Aggregation == pint.Path && q.Value == pint.SwitchID && d.path < 0:
			c.Decoder.MaxDigests = condenserDigests
			if d.decoder, err = r.Decoder(i, c.Decoder); err != nil {
				return nil, err
			}
			d.path, d.check = i, p.Checksum(i)
		case (q.Aggregation == pint.Quantiles || q.Aggregation == pint.Frequent) && q.Bits <= 8:
			d.hops = append(d.hops, i)
			d.exact[i] = q.Aggregation == pint.Frequent
		}
	}
	for i := range d.parts {
		d.parts[i].values = map[valuePlace]*[256]uint64{}
	}
	return d, nil
}

// Add takes in a packet's digest, which is of the plan and counts for 2^weight packets, of which it alone was read: from edge to edge of
// the sink's own switch, which is the path then.
func (c *Condenser) Add(o *pint.Record, weight uint8) {
	n := uint64(1) << (weight & 63)
	f := c.flows.at(&o.Flow, o.Flow.Hash(c.seed), &c.evicted)
	if f.packets == 0 {
		f.partition = uint16(o.Flow.Partition(c.config.Partitions))
	}
	f.packets += n
	part := &c.parts[f.partition]
	part.packets += n
	own := c.check < 0 || c.ofPath(f, o)
	if own && weight > 0 && c.path >= 0 && !f.Certain() {
		changes, strays := f.Changes, f.Strays
		f.Flow = Known([]uint64{c.config.Switch}, c.decoder.doubt)
		f.Flow.Packets, f.Changes, f.Strays = 1, changes, strays
		c.flush(part, f)
	}
	if own && c.path >= 0 && (!f.Certain() || f.Hops() != int(o.Hops) || o.ID%verifyEach == 0) {
		if r, ok := c.reader.Read(c.path, o); ok && c.decoder.Add(&f.Flow, o.ID, r.Digest, int(o.Hops)) == Restarted {
			c.restart(part, f)
		}
		c.flush(part, f)
	}
	for _, q := range c.hops {
		r, ok := c.reader.Read(q, o)
		switch p := (reading{uint8(q), uint8(min(r.Hop, pint.MaxHops)), uint8(r.Digest), weight}); {
		case !ok:
		case !own:
			part.unlocated += n
		case f.Certain():
			c.count(part, f, p)
		case len(f.pending) < maxPending:
			f.pending = append(f.pending, p)
		default:
			part.unlocated += n
			c.leave(f)
		}
	}
}

// restart gives up what was read of a flow whose packets took no one path so far.
func (c *Condenser) restart(part *condensedPart, f *condensed) {
	for _, p := range f.pending {
		part.unlocated += uint64(1) << (p.weight & 63)
	}
	f.pending = f.pending[:0]
	c.leave(f)
}

// flush counts the readings that waited for the path, if it is certain.
func (c *Condenser) flush(part *condensedPart, f *condensed) {
	if !f.Certain() {
		return
	}
	for _, p := range f.pending {
		c.count(part, f, p)
	}
	f.pending = nil
}

// ofPath reports whether a packet took the path that the flow's other packets took.
func (c *Condenser) ofPath(f *condensed, o *pint.Record) bool {
	r, ok := c.reader.Read(c.check, o)
	if !ok {
		return false
	}
	mark := r.Digest<<8 | uint64(o.Hops)
	if f.Flow.Packets == 0 {
		f.mark = mark
	}
	f.mixed = f.mixed || f.mark != mark
	return f.mark == mark
}

// count counts a reading of a flow whose path is certain.
func (c *Condenser) count(part *condensedPart, f *condensed, r reading) {
	path, n := f.Path(), uint64(1)<<(r.weight&63)
	if r.hop < 1 || int(r.hop) > len(path) {
		part.unlocated += n
		return
	}
	at := valuePlace{r.query, path[r.hop-1]}
	counts := part.values[at]
	if counts == nil {
		if len(part.values) == maxPlaces {
			part.unlocated += n
			c.leave(f)
			return
		}
		counts = new([256]uint64)
		part.values[at] = counts
	}
	counts[r.code] += n
	c.countFlow(f, r)
}

// countFlow counts a reading for its flow.
func (c *Condenser) countFlow(f *condensed, r reading) {
	switch {
	case f.left:
	case f.Changes != f.before: // readings were of another path before
		c.leave(f)
	default:
		if f.few = append(f.few, r); len(f.few) == fewReadings {
			c.countFew(f)
		}
	}
}

// countFew counts the readings that a flow has one by one: together, as what they are counted in is in no cache.
func (c *Condenser) countFew(f *condensed) {
	for _, r := range f.few {
		c.countAt(f, r)
	}
	f.few = f.few[:0]
}

func (c *Condenser) countAt(f *condensed, r reading) {
	for i := range f.places {
		if p := &f.places[i]; p.query == r.query && p.hop == r.hop {
			p.counts[r.code] += uint32(1) << (r.weight & 31)
			return
		}
	}
	if f.left {
		return
	}
	block := (*[256]uint32)(nil)
	switch last := len(c.free) - 1; {
	case last >= 0:
		block, c.free = c.free[last], c.free[:last]
	case c.blocks < maxBlocks:
		block = new([256]uint32)
		c.blocks++
	default:
		c.leave(f)
		return
	}
	block[r.code] = uint32(1) << (r.weight & 31)
	f.places = append(f.places, flowPlace{r.query, r.hop, block})
}

// leave gives up a flow's counts of the slice.
func (c *Condenser) leave(f *condensed) {
	c.forget(f)
	f.left = true
}

// evict is called for a flow that is about to be forgotten.
func (c *Condenser) evict(f *condensed) {
	c.forget(f)
	c.parts[f.partition].evicted += f.packets
}

// forget begins a flow's counts anew.
func (c *Condenser) forget(f *condensed) {
	for _, p := range f.places {
		clear(p.counts[:])
		c.free = append(c.free, p.counts)
	}
	f.few, f.places, f.left = f.few[:0], f.places[:0], false
}

// What records take, about, in bytes: a digest in full ones, a flow, one of few digests, how often a code came at a switch, and a header.
const (
	digestBytes     = 16.2
	flowBytes       = 13
	fewDigestsBytes = 22
	codeBytes       = 2.4
	placeBytes      = 2   // of a query and hop of a flow
	flowCodeBytes   = 0.9 // of a code there
	headerBytes     = 100
)

// The parts of the room for flows, for digests and for values of single flows, of what values of switches leave; and what these leave at least, of all. What flows
// need less than their part is for their values.
const (
	flowPart   = 0.7
	digestPart = 0.1
	valuePart  = 1 - flowPart - digestPart
	leastPart  = 0.2
)

// DigestBytes is about what so many digests take in records.
func DigestBytes(digests uint64) float64 { return float64(digests) * digestBytes }

// Needs are what a slice takes in records, in bytes.
type Needs struct {
	Flows  int     // of which packets came
	Values float64 // of switches, and the records themselves
	// FlowValues are values of single flows, of as many codes together as there ever are.
	FlowValues float64
}

// Useful is the room in which there is no need to leave out flows or values.
func (n Needs) Useful() float64 {
	flows := float64(n.Flows) * flowBytes
	return n.Values + max(flows/flowPart, (flows+n.FlowValues)/(1-digestPart))
}

// Room is what a sink sends of a slice at most.
type Room struct {
	Flows      int
	FlowValues float64 // bytes
	Digests    float64 // as they are
}

// Divide says for what so many bytes are enough.
func (n Needs) Divide(bytes float64) Room {
	bytes = max(bytes-n.Values, leastPart*bytes)
	spare := max(0, bytes*flowPart-float64(n.Flows)*flowBytes)
	return Room{
		Flows: int(min(bytes*flowPart/flowBytes, math.MaxInt32)), FlowValues: bytes*valuePart + spare, Digests: bytes * digestPart / fewDigestsBytes,
	}
}

// FlowValuesBytes is about what the values of a flow take in records.
func FlowValuesBytes(values []pint.HopValues) float64 {
	sum := 0
	for _, v := range values {
		sum += len(v.Counts)
	}
	return placeBytes*float64(len(values)) + flowCodeBytes*float64(sum)
}

// Share is the smallest of which so many digests leave at most so many.
func Share(digests uint64, most float64) (share uint8) {
	for share < pint.MaxShare && math.Ldexp(float64(digests), -int(share)) > most {
		share++
	}
	return share
}

// Take ends a slice: it returns what was condensed of each partition, with what there is room for of flows and of their values, those of most packets first.
func (c *Condenser) Take(room Room) []pint.Condensed {
	all := make([]pint.Condensed, len(c.parts))
	paths := make([]map[string]uint32, len(c.parts))
	for i := range c.parts {
		p := &c.parts[i]
		all[i] = pint.Condensed{Packets: p.packets, Unlocated: p.unlocated, Query: uint8(max(c.path, 0)), Bounded: true}
		all[i].Values, all[i].Evicted = p.take(), p.evicted
		p.packets, p.unlocated, p.evicted, paths[i] = 0, 0, 0, map[string]uint32{}
	}
	list := make([]*flowEntry[condensed], 0, len(c.flows.flows))
	for i := range c.flows.flows {
		if e := &c.flows.flows[i]; e.state.packets > 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *flowEntry[condensed]) int {
		return cmp.Or(cmp.Compare(b.state.packets, a.state.packets), a.key.Compare(&b.key))
	})
	if len(list) > room.Flows {
		for i := range all {
			all[i].Least = list[room.Flows].state.packets
		}
	}
	values := make([][]pint.HopValues, min(len(list), room.Flows))
	for i := range values {
		values[i] = c.values(&list[i].state)
	}
	step := FitValues(values, &c.exact, room.FlowValues)
	for n, e := range list {
		f := &e.state
		to := &all[f.partition]
		for _, p := range f.pending {
			to.Unlocated += uint64(1) << (p.weight & 63)
		}
		if n < room.Flows {
			x := pint.CondensedFlow{Flow: e.key, Packets: f.packets, Changes: uint32(min(f.Changes-f.before, 1<<32-1)), Values: values[n]}
			if f.Certain() && !f.mixed {
				x.Path = pathNumber(to, paths[f.partition], f.Path())
			}
			to.Flows = append(to.Flows, x)
		}
		if f.mixed {
			f.Flow, f.mixed = Flow{}, false // in the next slice it may have one
		}
		f.packets, f.before, f.pending = 0, f.Changes, f.pending[:0]
		c.forget(f)
	}
	for i := range all {
		all[i].Step = step
		all[i].Sort()
	}
	return all
}

// FitValues makes values of flows fit into so many bytes, about. 2^step codes are counted together, as few as that takes, but of queries that exact says.
// If it is not enough, the last flows have no values any more.
func FitValues(values [][]pint.HopValues, exact *[256]bool, bytes float64) (step uint8) {
	for ; ; step++ {
		sum := 0.0
		for _, v := range values {
			join(v, exact, step)
			sum += FlowValuesBytes(v)
		}
		if sum <= bytes || step == mostStep {
			break
		}
	}
	for i, v := range values {
		if bytes -= FlowValuesBytes(v); bytes < -0.5 { // sums in another order differ in the last digit
			clear(values[i:])
			break
		}
	}
	return step
}

// join counts 2^step codes as the first of them.
func join(values []pint.HopValues, exact *[256]bool, step uint8) {
	for i := range values {
		v := &values[i]
		if exact[v.Query] {
			continue
		}
		joined := v.Counts[:0]
		for _, n := range v.Counts {
			n.Code &^= 1<<step - 1
			if last := len(joined) - 1; last >= 0 && joined[last].Code == n.Code {
				joined[last].Count += n.Count
			} else {
				joined = append(joined, n)
			}
		}
		v.Counts = joined
	}
}

// values are the flow's readings, in the order of query and hop; nil of fewer than leastReadings, and where they are not of one path.
func (c *Condenser) values(f *condensed) (list []pint.HopValues) {
	if !f.Certain() || f.mixed || f.Changes != f.before {
		return nil
	}
	if len(f.places) == 0 {
		if len(f.few) >= leastReadings {
			list = valuesOf(f.few)
		}
		return list
	}
	c.countFew(f)
	slices.SortFunc(f.places, func(a, b flowPlace) int {
		return cmp.Or(cmp.Compare(a.query, b.query), cmp.Compare(a.hop, b.hop))
	})
	for _, p := range f.places {
		v := pint.HopValues{Query: p.query, Hop: p.hop}
		for code, n := range p.counts {
			if n != 0 {
				v.Counts = append(v.Counts, pint.CodeCount{Code: uint8(code), Count: uint64(n)})
			}
		}
		list = append(list, v)
	}
	return list
}

// valuesOf counts readings, and sorts them.
func valuesOf(readings []reading) (list []pint.HopValues) {
	slices.SortFunc(readings, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.query, b.query), cmp.Compare(a.hop, b.hop), cmp.Compare(a.code, b.code))
	})
	for i, r := range readings {
		n := uint64(1) << (r.weight & 31)
		if i == 0 || r.query != readings[i-1].query || r.hop != readings[i-1].hop {
			list = append(list, pint.HopValues{Query: r.query, Hop: r.hop})
		}
		v := &list[len(list)-1]
		if last := len(v.Counts) - 1; last >= 0 && v.Counts[last].Code == r.code {
			v.Counts[last].Count += n
		} else {
			v.Counts = append(v.Counts, pint.CodeCount{Code: r.code, Count: n})
		}
	}
	return list
}

// pathNumber is that of a path among those of a partition, from 1.
func pathNumber(c *pint.Condensed, numbers map[string]uint32, path []uint64) uint32 {
	key := make([]byte, 0, 8*pint.MaxHops)
	for _, v := range path {
		key = append(key, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	n, known := numbers[string(key)]
	if !known {
		c.Paths = append(c.Paths, slices.Clone(path))
		n = uint32(len(c.Paths))
		numbers[string(key)] = n
	}
	return n
}

// take returns the values of the slice, in order, and forgets those of switches that had none.
func (p *condensedPart) take() (all []pint.CondensedValues) {
	for at, counts := range p.values {
		v := pint.CondensedValues{Query: at.query, Switch: at.sw}
		for code, n := range counts {
			if n != 0 {
				v.Counts = append(v.Counts, pint.CodeCount{Code: uint8(code), Count: n})
			}
		}
		if len(v.Counts) == 0 {
			delete(p.values, at)
			continue
		}
		clear(counts[:])
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b pint.CondensedValues) int {
		return cmp.Or(cmp.Compare(a.Query, b.Query), cmp.Compare(a.Switch, b.Switch))
	})
	return all
}

// Needs are those of the slice until now.
func (c *Condenser) Needs() (n Needs) {
	for i := range c.flows.flows {
		f := &c.flows.flows[i].state
		if f.packets == 0 {
			continue
		}
		n.Flows++
		if values := c.values(f); values != nil {
			join(values, &c.exact, mostStep)
			n.FlowValues += FlowValuesBytes(values)
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.packets == 0 {
			continue
		}
		n.Values += headerBytes
		for _, counts := range p.values {
			for _, x := range counts {
				if x != 0 {
					n.Values += codeBytes
				}
			}
		}
	}
	return n
}

// Evicted is how many flows were evicted so far.
func (c *Condenser) Evicted() uint64 { return c.evicted }
