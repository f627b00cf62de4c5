package parse

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The drop reasons of the parser.
var (
	ReasonRunt      = packet.Register("runt", "the packet is shorter than an Ethernet header")
	ReasonMalformed = packet.Register("malformed", "a header contradicts itself or the packet's length")
)

// Module is the parse stage of one switch. Counters may be called from
// anywhere.
type Module struct {
	config Config
	needs  packet.Needs
	stages []*stage
}

// New makes the module of a configuration, which it validates. What it
// computes beyond offsets and flags is env.Needs.
func New(c Config, env pipeline.Env) (*Module, error) {
	if err := c.Validate(nil); err != nil {
		return nil, err
	}
	m := &Module{config: c, needs: env.Needs}
	for range max(env.Workers, 1) {
		m.stages = append(m.stages, &stage{
			seed:        c.Seed,
			ipidCarrier: c.IPIDCarrier,
			drop:        c.Malformed == Drop,
			needs:       env.Needs,
		})
	}
	return m, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleParse }

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

// stage is one worker's parser.
type stage struct {
	seed        uint64
	ipidCarrier bool
	drop        bool
	needs       packet.Needs

	// faults counts malformed packets. They are rare, so an atomic addition
	// does not burden the packet path.
	faults [numFaults]atomic.Uint64
	_      [64]byte // keeps the next worker's configuration off these lines
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
	mem := b.Mem
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		data := mem[p.Addr:][:p.Len]
		if len(data) < plainLen {
			s.parse(b, p, data)
			continue
		}
		h := (*[plainLen]byte)(data) // BCE: all indexes below are constants
		// EtherType, version, header length; and neither MF nor an offset.
		if binary.BigEndian.Uint32(h[12:16])>>8 != header.TypeIPv4<<8|0x45 ||
			binary.BigEndian.Uint16(h[20:22])&0x3fff != 0 {
			s.parse(b, p, data)
			continue
		}
		total := int(binary.BigEndian.Uint16(h[16:18]))
		if header.EthernetLen+total > int(p.WireLen) {
			s.parse(b, p, data)
			continue
		}
		var l4Len int
		switch h[23] {
		case header.ProtoTCP:
			l4Len = int(h[plainL4+12]>>4) * 4
			if l4Len < header.TCPLen || header.IPv4Len+l4Len > total || plainL4+l4Len > len(data) {
				s.parse(b, p, data)
				continue
			}
		case header.ProtoUDP:
			l4Len = header.UDPLen
			n := int(binary.BigEndian.Uint16(h[plainL4+4 : plainL4+6]))
			if n < header.UDPLen || header.IPv4Len+n > total {
				s.parse(b, p, data)
				continue
			}
		default:
			s.parse(b, p, data)
			continue
		}
		flags := plainFlags
		if h[0]&1 != 0 {
			flags |= groupFlags(data)
		}
		p.Flags = flags
		p.L3 = header.EthernetLen
		p.L4 = plainL4
		p.Payload = uint16(plainL4 + l4Len)
		p.EtherType = header.TypeIPv4
		p.VLAN = 0
		p.SrcPort = binary.BigEndian.Uint16(h[plainL4 : plainL4+2])
		p.DstPort = binary.BigEndian.Uint16(h[plainL4+2 : plainL4+4])
		p.Proto = h[23]
		p.TTL = h[22]
	}
	if s.needs != 0 {
		s.derive(b)
	}
}

// parse handles whatever the loop of Process does not, and the faults.
func (s *stage) parse(b *packet.Batch, p *packet.Packet, data []byte) {
	if len(data) < header.EthernetLen {
		b.Drop(p, ReasonRunt)
		return
	}
	if fault := headers(p, data); fault != NoFault {
		s.faults[fault].Add(1)
		if s.drop {
			b.Drop(p, ReasonMalformed)
		}
	}
}
