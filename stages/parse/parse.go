package parse

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// The drop reasons of the parser.
var (
	reasonRunt      = packet.Register("runt", "the packet is shorter than an Ethernet header")
	reasonMalformed = packet.Register("malformed", "a header contradicts itself or the packet's length")
)

// Module is the parse stage of one switch. Counters may be called from
// anywhere.
type Module struct {
	config Config
	stages []*stage
}

// New makes the module of a configuration, which it validates. What it
// computes beyond offsets and flags is env.Needs.
func New(c Config, env pipeline.Env) (*Module, error) {
	if err := c.Validate(nil); err != nil {
		return nil, err
	}
	m := &Module{config: c}
	for range max(env.Workers, 1) {
		m.stages = append(m.stages, &stage{
			family:  env.Hash,
			seed:    c.Seed,
			member:  env.Hash.Member(c.Seed),
			carries: c.IPIDCarrier,
			drop:    c.Malformed == Drop,
		})
		m.stages[len(m.stages)-1].FollowNeeds(env.Needs)
	}
	return m, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleParse }

// TakesLarge implements pipeline.LargeTaker: the headers are those of each segment, but for lengths and checksums.
func (m *Module) TakesLarge() bool { return true }

// Needs implements pipeline.Module: the parser gives and needs nothing.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage { return m.stages[w] }

// Counters are the parser's counters beside the drop reasons.
type Counters struct {
	// Malformed counts the malformed packets by the name of their Fault.
	Malformed map[string]uint64 `json:"malformed"`
}

// Counters returns the present counts, summed over the workers.
func (m *Module) Counters() Counters {
	c := Counters{Malformed: make(map[string]uint64, numFaults-1)}
	for f := NoFault + 1; f < numFaults; f++ {
		for _, s := range m.stages {
			c.Malformed[f.String()] += s.faults[f].Load()
		}
	}
	return c
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	for fault, n := range m.Counters().Malformed {
		if n != 0 {
			emit(pipeline.Metric{Name: "malformed_packets_total", Help: "packets whose headers contradict themselves",
				Labels: [][2]string{{"fault", fault}}, Value: float64(n)})
		}
	}
}

// stage is one worker's parser.
type stage struct {
	family      hash.Family // of flow hashes and packet ids
	seed        uint64
	member      hash.Member // of both
	carries     bool        // Config.IPIDCarrier
	ipidCarrier bool
	drop        bool
	needs       packet.Needs
	touched     byte // see touch
	blocks      plainBlocks

	// faults counts malformed packets. They are rare, so an atomic addition
	// does not burden the packet path.
	faults [numFaults]atomic.Uint64
	_      [64]byte // keeps the next worker's configuration off these lines
}

// FollowNeeds implements pipeline.NeedsFollower.
func (s *stage) FollowNeeds(n packet.Needs) {
	s.needs, s.ipidCarrier = n, s.carries || n&packet.NeedIPIDCarrier != 0
}

// The first 54 bytes of an untagged IPv4 packet without IP options and with a
// TCP or UDP header.
const (
	plainL4  = header.EthernetLen + header.IPv4Len
	plainLen = plainL4 + header.TCPLen

	plainFlags = packet.FlagIPv4 | packet.FlagL4 | packet.FlagPorts
)

// Process implements pipeline.Stage. Unfragmented TCP and UDP over IPv4
// without tags or options, which is most of what most switches see, is parsed
// in the loop, behind a single bounds check; headers does all the rest. A test
// compares the two.
func (s *stage) Process(b *packet.Batch) {
	s.touched = touch(b)
	mem, pkts := b.Mem, b.Pkts
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		data := mem[p.Addr:][:p.Len]
		// A shim moves what is behind the addresses: shift is how far.
		shift, flags := 0, packet.Flags(plainFlags)
		if len(data) >= plainLen && data[12] == header.TypeShim>>8 && data[13] == header.TypeShim&0xff && data[14]>>4 == header.ShimVersion {
			shift, flags = header.ShimLen(int(data[14]&7)+1), plainFlags|packet.FlagShim
		}
		if len(data) >= plainLen+shift {
			h := (*[plainLen]byte)(data[shift:]) // BCE: all indexes are constants
			if n := plainHeader(h, plainPayload(h, int(p.WireLen)-shift)); n != 0 && shift+plainL4+n <= len(data) {
				if data[0]&1 != 0 {
					flags |= groupFlags(data)
				}
				p.Flags = flags
				p.L3, p.L4, p.Payload = uint16(shift+header.EthernetLen), uint16(shift+plainL4), uint16(shift+plainL4+n)
				p.EtherType, p.VLAN = header.TypeIPv4, 0
				p.SrcPort = binary.BigEndian.Uint16(h[plainL4 : plainL4+2])
				p.DstPort = binary.BigEndian.Uint16(h[plainL4+2 : plainL4+4])
				p.Proto, p.TTL = h[23], h[22]
				continue
			}
		}
		s.parse(b, p, data)
	}
	if s.needs != 0 {
		s.derive(b)
	}
}

// touch loads the first byte of every packet. So short a loop has the loads of
// the whole batch in flight at once, where the long one waits for the few
// packets that the processor looks ahead. It costs next to nothing when the
// frames are in the caches and pays when they are not (BenchmarkParse/spread
// with and without). The bytes are returned, mixed, for the loads to be of use.
func touch(b *packet.Batch) byte {
	mem, pkts := b.Mem, b.Pkts
	var mix byte
	for i := range pkts {
		mix ^= mem[pkts[i].Addr]
	}
	return mix
}

// plainPayload returns the length of the IP payload, in bytes, if the packet
// is an unfragmented IPv4 packet without tags and options, of a right length.
// Else it returns 0.
func plainPayload(h *[plainLen]byte, wireLen int) int {
	// EtherType, version and header length in one; neither MF nor an offset.
	if binary.BigEndian.Uint32(h[12:16])>>8 != header.TypeIPv4<<8|0x45 ||
		binary.BigEndian.Uint16(h[20:22])&0x3fff != 0 {
		return 0
	}
	total := int(binary.BigEndian.Uint16(h[16:18]))
	if header.EthernetLen+total > wireLen {
		return 0
	}
	return total - header.IPv4Len
}

// plainHeader returns the length of the TCP or UDP header, in bytes, if it is
// right for a payload of the given length. Else it returns 0.
func plainHeader(h *[plainLen]byte, payload int) int {
	least, n, l4 := 0, 0, h[plainL4:]
	switch h[23] {
	case header.ProtoTCP:
		least = int(l4[12]>>4) * 4
		n = least
		if n < header.TCPLen {
			return 0
		}
	case header.ProtoUDP:
		least = header.UDPLen
		n = int(binary.BigEndian.Uint16(l4[4:6]))
	}
	if n < least || n > payload {
		return 0
	}
	return least
}

// parse handles whatever the loop of Process does not, and the faults.
func (s *stage) parse(b *packet.Batch, p *packet.Packet, data []byte) {
	if len(data) < header.EthernetLen {
		b.Drop(p, reasonRunt)
		return
	}
	if fault := headers(p, data); fault != NoFault {
		s.faults[fault].Add(1)
		if s.drop {
			b.Drop(p, reasonMalformed)
		}
	}
}
