package scale

import (
	"fmt"
	"math/rand/v2"

	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/stages/disketch"
	ldsstage "github.com/weirswitch/weir/stages/lds"
	obliviousstage "github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"

	sketch "github.com/weirswitch/weir/telemetry/disketch"
)

// second is what one switch makes in a slice of the clock of 2^30 ns at its full rate.
type second struct {
	Flows, Packets  int
	PacketBytes     float64        // mean, on the wire without what is between frames
	Bytes           map[string]int // of one record, by kind
	DigestBytes     float64        // of a digest in records that are full
	PartitionExcess float64        // digests of the busiest partition over the mean of all
}

// What a frame takes on the wire beside itself, and what packets of flows have.
const (
	wireOverhead = 24 // preamble, FCS, gap
	headers      = 54 // Ethernet, IPv4, TCP
	payload      = 1460
	ackBytes     = 60
	epochBits    = 30
	batchDigests = 4096 // in a record, as sinks make them
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
	m, err := newMeasuring(ports, seed)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	budget := rate / 8 * (1 << epochBits) / 1e9 // bytes on the wire
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
			m.packet(r, length)
			bytes += float64(length)
			budget -= float64(length) + wireOverhead
			if i%2 == 1 { // an acknowledgement of each second one comes back
				m.packet(r, ackBytes)
				bytes += ackBytes
				budget -= ackBytes + wireOverhead
			}
			if budget <= 0 {
				break
			}
		}
	}
	m.second.PacketBytes = bytes / float64(m.second.Packets)
	return m.finish()
}

// measuring is a switch's stages in work.
type measuring struct {
	second  second
	counter *sketch.Counter
	sampler *oblivious.Sampler
	point   *lds.Point // of one port: its share of the packets
	ports   int
	start   int64
	key     oblivious.Key
	number  uint64
	batch   pint.DigestBatch
	parts   [record.Partitions]int
	encoder *encode.Encoder
}

func newMeasuring(ports int, seed uint64) (*measuring, error) {
	m := &measuring{ports: ports, start: int64(1<<29) << epochBits}
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
	d.Rows, d.Columns, d.IntervalNs = l.Rows, l.Columns, 1<<epochBits
	if m.point, err = lds.NewPoint(d); err != nil {
		return nil, err
	}
	m.point.Begin(1 << 29)
	m.encoder, err = plan.Default().Compile()
	m.batch.Plan = m.encoder.Plan()
	return m, err
}

// flow begins the next one.
func (m *measuring) flow(r *rand.Rand) {
	m.second.Flows++
	a, b := r.Uint32(), r.Uint32()
	m.key = oblivious.Key{Version: 4, Proto: 6, SrcPort: uint16(r.Uint32()), DstPort: 443}
	m.key.Src, m.key.Dst = [16]byte{10, byte(a), byte(a >> 8), byte(a >> 16)}, [16]byte{10, byte(b), byte(b >> 8), byte(b >> 16)}
	m.number = uint64(uint32(hash.Uint64x2(0, uint64(a), uint64(b))))
}

func (m *measuring) packet(r *rand.Rand, length uint32) {
	at := m.start + int64(m.second.Packets)*90 // packets come 90 ns apart, or so
	id := r.Uint64()
	m.second.Packets++
	m.counter.AddBatch([]uint64{m.number}, []int64{1}, false)
	for _, a := range m.counter.Admitted() {
		*a.Key = sketch.Key(m.key)
	}
	m.sampler.Add(id, length, &m.key)
	if m.number%uint64(m.ports) == 0 {
		m.point.Add(m.number, id, min(at, m.start+1<<epochBits-1), length)
	}
	k := pint.FlowKey(m.key)
	m.parts[k.Partition(record.Partitions)]++
	if len(m.batch.Records) < batchDigests && id%64 == 0 {
		digest := uint64(0)
		for hop := 1; hop <= hops; hop++ {
			v := pint.Observed{pint.SwitchID: uint64(hop), pint.HopLatency: 1000, pint.EgressUtilisation: pint.UtilisationOne / 2}
			digest = m.encoder.Encode(id, hop, digest, &v)
		}
		m.batch.Records = append(m.batch.Records, pint.Record{Flow: k, ID: id, Digest: digest, TimeNs: uint64(at), Plan: m.batch.Plan, Hops: hops})
	}
}

// finish encodes the records.
func (m *measuring) finish() (*second, error) {
	m.second.Bytes = map[string]int{}
	s := &status.Status{Program: "v1.0.0", Ports: make([]status.Port, m.ports), Workers: make([]status.Worker, m.ports), Measurements: make([]status.Measurement, 3), Exports: make([]status.Export, 5)}
	for i := range s.Ports {
		s.Ports[i] = status.Port{Name: fmt.Sprint("p", i), Interface: fmt.Sprint("eth", i), Mode: "native, zero-copy", Received: 1 << 40, ReceivedBytes: 1 << 50, Transmitted: 1 << 40, TransmittedBytes: 1 << 50}
	}
	for _, k := range []struct {
		kind record.Kind
		body func([]byte) ([]byte, error)
	}{
		{record.DiSketch, m.counter.Record().AppendBinary}, {record.Oblivious, m.sampler.Sample().AppendBinary},
		{record.LDS, m.point.AppendBinary}, {record.Status, s.AppendBinary},
		{record.PINT, func(b []byte) ([]byte, error) { return pint.AppendDigests(b, &m.batch), nil }},
	} {
		h := record.Header{Kind: k.kind, Switch: 1, Name: "switch-0001", Start: m.start, Span: 1 << epochBits}
		b, err := record.Append(nil, &h, k.body)
		if err != nil {
			return nil, err
		}
		m.second.Bytes[k.kind.String()] = len(b)
	}
	m.second.DigestBytes = float64(m.second.Bytes[record.PINT.String()]) / float64(len(m.batch.Records))
	most := 0
	for _, n := range m.parts {
		most = max(most, n)
	}
	m.second.PartitionExcess = float64(most) * record.Partitions / float64(m.second.Packets)
	return &m.second, nil
}
