package scale

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/stages/disketch"
	ldsstage "github.com/weirswitch/weir/stages/lds"
	obliviousstage "github.com/weirswitch/weir/stages/oblivious"
	pintstage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"

	sketch "github.com/weirswitch/weir/telemetry/disketch"
)

// second is what one switch makes in a slice of the clock of 2^30 ns at its full rate.
type second struct {
	Flows, Packets  int
	PacketBytes     float64        // mean, on the wire without what is between frames
	Bytes           map[string]int // of one record, by kind
	PointBytes      float64        // of the records of all points of LDS, whole
	DigestBytes     float64        // of a digest in records that are full
	PartitionExcess float64        // digests of the busiest partition over the mean of all
	Whole           quality
	Cuts            map[float64]*cut // by budget, bytes per second
}

// What a frame takes on the wire beside itself, and what packets of flows have.
const (
	wireOverhead = 24 // preamble, FCS, gap
	headers      = 54 // Ethernet, IPv4, TCP
	payload      = 1460
	ackBytes     = 60
	epochBits    = 30
	batchDigests = 4096 // in a record, as sinks make them

	pathSwitches  = 20   // that paths pass
	lossEach      = 1000 // packets of a link, of which one is lost
	flowDelay     = 5000 // ns: the least delay of a link, and the mean of what a flow's packets have more
	packetDelay   = 1000 // ns: the mean of what a packet has more
	keptShare     = 3    // of the digests that are kept, 1 of 2^keptShare
	latencySpread = 0.4  // of a switch: of the logarithm
)

// simulate runs a second of traffic at a share of the rate, bits per second, of flows of which half of the bytes are of a
// web search and half of a Hadoop cluster, through the data structures of a switch's stages.
func simulate(data string, rate float64, ports int, seed uint64) (*second, error) {
	var sizes [2]*transport.Distribution
	for i, name := range []string{transport.WebSearch, transport.Hadoop} {
		d, err := transport.LoadDistribution(data, name)
		if err != nil {
			return nil, err
		}
		sizes[i] = d
	}
	budget := rate / 8 * (1 << epochBits) / 1e9 // bytes on the wire
	m, err := newMeasuring(ports, seed, flowsIn(budget, sizes, seed)/float64(ports))
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	bytes, sent := 0., [2]float64{}
	for budget > 0 {
		which := 0
		if sent[1] < sent[0] {
			which = 1
		}
		size := sizes[which].Quantile(r.Float64())
		sent[which] += size
		packets := int(size/payload) + 1
		m.flow(r)
		for i := range packets {
			length := uint32(headers + payload)
			if i == packets-1 {
				length = uint32(headers + int(size)%payload)
			}
			if err := m.packet(r, length); err != nil {
				return nil, err
			}
			bytes += float64(length)
			budget -= float64(length) + wireOverhead
			if i%2 == 1 { // an acknowledgement of each second one comes back
				if err := m.packet(r, ackBytes); err != nil {
					return nil, err
				}
				bytes += ackBytes
				budget -= ackBytes + wireOverhead
			}
			if budget <= 0 {
				break
			}
		}
	}
	m.second.PacketBytes = bytes / float64(m.second.Packets)
	if m.crowds, err = newCrowds(disketch.DefaultConfig().Fragments[0].Memory, m.second.Flows, sizes, seed); err != nil {
		return nil, err
	}
	return m.finish()
}

// measuring is a switch's stages in work.
type measuring struct {
	second  second
	counter *sketch.Counter
	sampler *oblivious.Sampler
	links   []link
	start   int64
	key     oblivious.Key
	number  uint64
	batch   pint.DigestBatch
	parts   [record.Partitions]int
	encoder *encode.Encoder
	flows   map[oblivious.Key]*flow
	present *flow
	crowds  crowds

	// Of the flows that end at the switch, of as many as a packet passes switches one.
	sunk      uint64 // packets
	condenser *sink.Condenser
	reader    *sink.Reader
	decoder   *sink.Decoder
	kept      []pint.Record
	readings  [pathSwitches]tally // of all digests
	byHop     [hops]tally         // of all of the present flow
	needs     sink.Needs
}

// link is one between a port and its neighbour, with a measurement point at each end.
type link struct {
	from, to *lds.Point
	// again are such points with other seeds, whose records are not sent: by which flows share a cell with one that lost a packet, the
	// links' mean delays differ, and that of four of them is chance.
	again   [linkSeeds - 1]struct{ from, to *lds.Point }
	lost, n uint64
	delay   float64 // sum of those that arrived
}

// linkSeeds is by how many seeds the delay of a link is measured.
const linkSeeds = 8

// ends are the link's points.
func (x *link) ends() (all ends) {
	all[0] = [2]*lds.Point{x.from, x.to}
	for i, a := range x.again {
		all[i+1] = [2]*lds.Point{a.from, a.to}
	}
	return all
}

// flow is what a flow sends.
type flow struct {
	packets, bytes uint64
	delay          float64
	path           []uint64      // nil: it ends elsewhere
	medians        [hops]float64 // of latencies by all digests, 0 where there is none; of a flow of pathPackets packets or more
	decoded        sink.Flow
	number         uint64
	link           int
}

// tally counts codes.
type tally [256]uint64

// flowsIn is about how many flows there are in so many bytes.
func flowsIn(budget float64, sizes [2]*transport.Distribution, seed uint64) (flows float64) {
	r := rand.New(rand.NewPCG(seed, 'f'))
	for _, d := range sizes {
		for sent := 0.0; sent < budget/2; flows++ {
			sent += d.Quantile(r.Float64())
		}
	}
	return flows
}

// newMeasuring makes the structures for so many flows on each link.
func newMeasuring(ports int, seed uint64, flows float64) (*measuring, error) {
	m := &measuring{start: int64(1<<29) << epochBits, flows: map[oblivious.Key]*flow{}}
	of := disketch.DefaultConfig().Fragments[0]
	f, err := sketch.NewFragment(sketch.Config{ID: sketch.ID{Switch: 1}, Kind: sketch.CountSketch, Memory: of.Memory, Epochs: epochBits, Seed: seed, Candidates: of.Candidates, SingleHop: true})
	if err != nil {
		return nil, err
	}
	if m.counter, err = f.NewCounter(); err != nil {
		return nil, err
	}
	m.counter.Begin(f.Begin(1<<29), 0)
	o := obliviousstage.DefaultConfig()
	if m.sampler, err = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: o.Size, Gamma: o.Gamma, Seed: seed}); err != nil {
		return nil, err
	}
	l, d := ldsstage.DefaultConfig(), lds.DefaultConfig()
	d.Columns, d.IntervalNs = l.Columns, 1<<epochBits
	for range ports {
		x := link{}
		all := []**lds.Point{&x.from, &x.to}
		for i := range x.again {
			all = append(all, &x.again[i].from, &x.again[i].to)
		}
		for i, p := range all {
			d.Seed = seed + uint64(i/2)
			if *p, err = lds.NewPoint(d); err != nil {
				return nil, err
			}
			(*p).Begin(1 << 29)
			(*p).SetRows(d.BestRows(flows, l.RecordBytes))
		}
		m.links = append(m.links, x)
	}
	p := plan.Default()
	if m.encoder, err = p.Compile(); err != nil {
		return nil, err
	}
	m.batch.Plan = m.encoder.Plan()
	if m.condenser, err = sink.NewCondenser(p, sink.CondenserConfig{MaxFlows: pintstage.DefaultConfig().MaxFlows, Partitions: record.Partitions}); err != nil {
		return nil, err
	}
	if m.reader, err = sink.NewReader(p); err != nil {
		return nil, err
	}
	m.decoder, err = m.reader.Decoder(pathQuery, sink.DecoderConfig{MaxDigests: 1024})
	return m, err
}

// The queries of the default plan.
const (
	pathQuery    = 0
	latencyQuery = 1
)

// flow begins the next one.
func (m *measuring) flow(r *rand.Rand) {
	m.endFlow()
	m.second.Flows++
	a, b := r.Uint32(), r.Uint32()
	m.key = oblivious.Key{Version: 4, Proto: 6, SrcPort: uint16(r.Uint32()), DstPort: 443}
	m.key.Src, m.key.Dst = [16]byte{10, byte(a), byte(a >> 8), byte(a >> 16)}, [16]byte{10, byte(b), byte(b >> 8), byte(b >> 16)}
	m.number = uint64(uint32(hash.Uint64x2(0, uint64(a), uint64(b))))
	m.present = &flow{delay: flowDelay * (1 + r.ExpFloat64()), number: m.number, link: int(m.number / hops % uint64(len(m.links)))}
	m.flows[m.key] = m.present
	if m.number%hops == 0 {
		for hop := range uint64(hops) {
			m.present.path = append(m.present.path, 1+(m.number/hops+hop*hop*7)%pathSwitches)
		}
	}
}

// endFlow keeps what all digests of the present flow say of its latencies.
func (m *measuring) endFlow() {
	if f := m.present; f != nil && f.path != nil && f.packets >= pathPackets {
		for hop := range m.byHop {
			f.medians[hop] = m.medianOr0(&m.byHop[hop])
		}
	}
	m.byHop = [hops]tally{}
}

// latency draws one of a switch, whose median is medianOf.
func latency(r *rand.Rand, sw uint64) uint64 {
	return uint64(medianOf(sw) * math.Exp(latencySpread*r.NormFloat64()))
}

func medianOf(sw uint64) float64 { return 1000 * float64(1+sw%7) }

// packet sends a packet over the link.
func (x *link) packet(r *rand.Rand, f *flow, number, id uint64, at, end int64, length uint32) {
	ends := x.ends()
	for i := range ends {
		ends[i][0].Add(number, id, min(at, end), length)
	}
	if r.IntN(lossEach) == 0 {
		x.lost++
		return
	}
	delay := int64(f.delay + packetDelay*r.ExpFloat64())
	x.n++
	x.delay += float64(delay)
	for i := range ends {
		ends[i][1].Add(number, id, min(at, end)+delay, length)
	}
}

// sink takes the packet's digest off, where its flow ends.
func (m *measuring) sink(r *rand.Rand, id uint64, at int64) error {
	f, digest := m.present, uint64(0)
	for i, sw := range f.path {
		v := pint.Observed{pint.SwitchID: sw, pint.HopLatency: latency(r, sw), pint.EgressUtilisation: pint.UtilisationOne / 2}
		digest = m.encoder.Encode(id, i+1, digest, &v)
	}
	o := pint.Record{Flow: pint.FlowKey(m.key), ID: id, Digest: digest, TimeNs: uint64(at), Plan: m.batch.Plan, Hops: hops}
	m.sunk++
	m.condenser.Add(&o, 0)
	if pint.Sampled(id, keptShare) {
		m.kept = append(m.kept, o)
	}
	if len(m.batch.Records) < batchDigests && id%16 == 0 {
		m.batch.Records = append(m.batch.Records, o)
	}
	x, ok := m.reader.Read(pathQuery, &o)
	if !ok {
		return errors.New("a digest of the default plan says nothing of the path")
	}
	m.decoder.Add(&f.decoded, id, x.Digest, hops)
	if x, ok := m.reader.Read(latencyQuery, &o); ok {
		m.readings[f.path[x.Hop-1]-1][x.Digest]++
		m.byHop[x.Hop-1][x.Digest]++
	}
	return nil
}

func (m *measuring) packet(r *rand.Rand, length uint32) error {
	at := m.start + int64(m.second.Packets)*90 // packets come 90 ns apart, or so
	id := r.Uint64()
	m.second.Packets++
	m.counter.AddBatch([]uint64{m.number}, []int64{1}, false)
	for _, a := range m.counter.Admitted() {
		*a.Key = sketch.Key(m.key)
	}
	m.sampler.Add(id, length, &m.key)
	m.present.packets++
	m.present.bytes += uint64(length)
	m.links[m.present.link].packet(r, m.present, m.number, id, at, m.start+1<<epochBits-1, length)
	k := pint.FlowKey(m.key)
	m.parts[k.Partition(record.Partitions)]++
	if m.present.path == nil {
		return nil
	}
	return m.sink(r, id, at)
}

// finish encodes the records.
func (m *measuring) finish() (*second, error) {
	m.endFlow()
	m.second.Bytes = map[string]int{}
	s := &status.Status{Program: "v1.0.0", Ports: make([]status.Port, len(m.links)), Workers: make([]status.Worker, len(m.links)), Measurements: make([]status.Measurement, 3), Exports: make([]status.Export, 5)}
	for i := range s.Ports {
		s.Ports[i] = status.Port{Name: fmt.Sprint("p", i), Interface: fmt.Sprint("eth", i), Mode: "native, zero-copy", Received: 1 << 40, ReceivedBytes: 1 << 50, Transmitted: 1 << 40, TransmittedBytes: 1 << 50}
	}
	for _, k := range []struct {
		kind record.Kind
		body func([]byte) ([]byte, error)
	}{
		{record.DiSketch, m.counter.Record().AppendBinary}, {record.Oblivious, m.sampler.Sample().AppendBinary},
		{record.LDS, m.links[0].from.AppendBinary}, {record.Status, s.AppendBinary},
		{record.PINT, func(b []byte) ([]byte, error) { return pint.AppendDigests(b, &m.batch), nil }},
	} {
		n, err := m.weigh(k.kind, k.body)
		if err != nil {
			return nil, err
		}
		m.second.Bytes[k.kind.String()] = n
	}
	m.second.DigestBytes = float64(m.second.Bytes[record.PINT.String()]) / float64(len(m.batch.Records))
	most := 0
	for _, n := range m.parts {
		most = max(most, n)
	}
	m.second.PartitionExcess = float64(most) * record.Partitions / float64(m.second.Packets)
	return &m.second, m.cutAll()
}

// weigh is the length of a record.
func (m *measuring) weigh(kind record.Kind, body func([]byte) ([]byte, error)) (int, error) {
	h := record.Header{Kind: kind, Switch: 1, Name: "switch-0001", Start: m.start, Span: 1 << epochBits}
	b, err := record.Append(nil, &h, body)
	return len(b), err
}
