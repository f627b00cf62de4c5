package pint

import (
	"encoding/binary"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// FeedbackLen is the length of a feedback message, the payload of a UDP packet from the flow's destination to its
// source, integers big-endian:
//
//	| version 8, 1 | protocol 8 | source port 16 | destination port 16 | hops 16 | use 32 | digests 32 |
//
// Protocol and ports are the flow's. The use is the largest of the fullest links that the digests report, of which there were so
// many since the message before; 65536 is all of a link.
const FeedbackLen = 16

const feedbackVersion = 1

// feedback is what a worker knows of the flows that end at its sinks.
type feedback struct {
	port    uint16
	every   int64 // ns between two messages to a flow
	plans   []feedbackPlan
	ipID    uint16
	buckets [feedbackBuckets]feedbackBucket
}

// feedbackPlan reads the codes of a live plan.
type feedbackPlan struct {
	reader *sink.Reader
	query  int
	uses   []uint32 // by code, 65536 is all of a link
}

// feedbackBucket is the flow that was last seen of those whose hashes share it.
type feedbackBucket struct {
	flow    uint64
	sent    int64
	use     uint32
	digests uint32
}

const feedbackBuckets = 1 << 12

// feedbackQuery is the number of a plan's query of the fullest link, -1 if it has none.
func feedbackQuery(p *pintplan.Plan) int {
	return slices.IndexFunc(p.Queries, func(q pint.Query) bool {
		return q.Aggregation == pint.Maximum && q.Value == pint.EgressUtilisation && q.Bits <= 16
	})
}

// newFeedback makes it for plans that have such a query, as Validate has checked.
func newFeedback(c *Config, plans []*pintplan.Plan) (*feedback, error) {
	f := &feedback{port: uint16(c.FeedbackPort), every: int64(c.RoundTrip)}
	for _, p := range plans {
		reader, err := sink.NewReader(p)
		if err != nil {
			return nil, err
		}
		fp := feedbackPlan{reader: reader, query: feedbackQuery(p)}
		fp.uses = make([]uint32, 1<<p.Queries[fp.query].Bits)
		for code := range fp.uses {
			fp.uses[code] = uint32(min(reader.Value(fp.query, uint64(code)), 1<<32-1))
		}
		f.plans = append(f.plans, fp)
	}
	return f, nil
}

// feedBack reads a digest that ends here, and reports to the flow's source what it and those before it said,
// about once in a round trip. A flow begins with a message, so that its source knows within its first round trip.
func (s *stage) feedBack(b *packet.Batch, p *packet.Packet, plan int, r *pint.Record) {
	f := s.feedback
	fp := &f.plans[plan]
	reading, ok := fp.reader.Read(fp.query, r)
	if !ok || r.Flow.Version == 0 || p.Flags.Has(packet.FlagVLAN|packet.FlagCopy|packet.FlagMulticast|packet.FlagBroadcast) {
		return
	}
	if r.Flow.Proto == header.ProtoUDP && r.Flow.DstPort == f.port {
		return // a message itself: never feedback about feedback
	}
	le := binary.LittleEndian
	flow := hash.Uint64x5(uint64(r.Flow.Proto)<<32|uint64(r.Flow.SrcPort)<<16|uint64(r.Flow.DstPort), le.Uint64(r.Flow.Src[:]), le.Uint64(r.Flow.Src[8:]),
		le.Uint64(r.Flow.Dst[:]), le.Uint64(r.Flow.Dst[8:]), 0)
	bucket := &f.buckets[flow&(feedbackBuckets-1)]
	if bucket.flow != flow {
		*bucket = feedbackBucket{flow: flow, sent: s.now - f.every}
	}
	bucket.use = max(bucket.use, fp.uses[reading.Digest&uint64(len(fp.uses)-1)])
	bucket.digests++
	if s.now-bucket.sent < f.every {
		return
	}
	if s.sendFeedback(b, p, r, bucket) {
		s.counters.now[feedbacks]++
		bucket.sent, bucket.use, bucket.digests = s.now, 0, 0
	} else {
		s.counters.now[feedbacksLost]++
	}
}

// sendFeedback appends a message to the batch, which leaves by the port that the packet came by.
func (s *stage) sendFeedback(b *packet.Batch, about *packet.Packet, r *pint.Record, bucket *feedbackBucket) bool {
	ip := header.IPv4Len
	if r.Flow.Version == 6 {
		ip = header.IPv6Len
	}
	const message = header.UDPLen + FeedbackLen
	if len(b.Pkts) == cap(b.Pkts) {
		b.NoRoom++
		return false
	}
	addr, ok := b.Frames.AllocOne()
	if !ok {
		b.NoFrame++
		return false
	}
	p := b.Append()
	p.Addr = addr + feedbackHeadroom
	p.Len = uint32(header.EthernetLen + ip + message)
	p.WireLen = p.Len
	p.InPort, p.InQueue, p.OutPort = about.InPort, about.InQueue, b.ArrivalPort(about)
	p.Arrival = b.Now
	p.Flags = packet.FlagCopy | packet.FlagL4
	p.Proto, p.TTL = header.ProtoUDP, feedbackTTL
	p.L3, p.L4 = header.EthernetLen, uint16(header.EthernetLen+ip)
	p.Payload = p.L4 + header.UDPLen
	b.Copied++
	f, data, from := s.feedback, b.Data(p), b.Data(about)
	copy(data[0:6], from[6:12])
	copy(data[6:12], from[0:6])
	udp := data[p.L4:]
	clear(udp[:header.UDPLen])
	binary.BigEndian.PutUint16(udp[0:], f.port)
	binary.BigEndian.PutUint16(udp[2:], f.port)
	binary.BigEndian.PutUint16(udp[4:], message)
	m := udp[header.UDPLen:]
	m[0], m[1] = feedbackVersion, r.Flow.Proto
	binary.BigEndian.PutUint16(m[2:], r.Flow.SrcPort)
	binary.BigEndian.PutUint16(m[4:], r.Flow.DstPort)
	binary.BigEndian.PutUint16(m[6:], uint16(r.Hops))
	binary.BigEndian.PutUint32(m[8:], bucket.use)
	binary.BigEndian.PutUint32(m[12:], bucket.digests)
	if r.Flow.Version == 4 {
		p.Flags |= packet.FlagIPv4
		p.EtherType = header.TypeIPv4
		f.ipID++
		// UDP over IPv4 needs no checksum.
		header.IPv4At(data, header.EthernetLen).Init([4]byte(r.Flow.Dst[:4]), [4]byte(r.Flow.Src[:4]), header.ProtoUDP, feedbackTTL, 0, f.ipID, ip+message)
	} else {
		p.Flags |= packet.FlagIPv6
		p.EtherType = header.TypeIPv6
		h := header.IPv6At(data, header.EthernetLen)
		h.Init(r.Flow.Dst, r.Flow.Src, header.ProtoUDP, feedbackTTL, message)
		sum := ^header.Sum(udp, header.PseudoSum6(h, header.ProtoUDP, message))
		if sum == 0 {
			sum = 0xffff // 0 means none
		}
		binary.BigEndian.PutUint16(udp[6:], sum)
	}
	header.EthernetAt(data, 0).SetType(p.EtherType)
	return true
}

// feedbackTTL is that of messages, and feedbackHeadroom what other stages find in front of one, as in front of a packet that a
// driver received.
const feedbackTTL, feedbackHeadroom = 64, 256
