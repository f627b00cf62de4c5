package acl

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var testEnv = pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}}

func newModule(t testing.TB, c Config) *Module {
	t.Helper()
	m, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newBatch(t testing.TB) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	b := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	for range packet.BatchSize {
		addr, _ := b.Frames.AllocOne()
		b.Append().Addr = addr
	}
	return b
}

// A small world, so that rules overlap and packets meet them.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomAddr4(r *rand.Rand) [4]byte {
	return [4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)), byte(r.IntN(8))}
}

func randomAddr6(r *rand.Rand) [16]byte {
	return [16]byte{0x20, 1, 0xd, 0xb8, 0, byte(r.IntN(4)), 15: byte(r.IntN(8))}
}

func randomMAC(r *rand.Rand) [6]byte { return [6]byte{2, byte(r.IntN(2)), 0, 0, 0, byte(r.IntN(6))} }

// randomPort is one of those of the rules, the one in front or the one behind: the edges of ranges, 0 and 65535 are among them.
func randomPort(r *rand.Rand) uint16 { return uint16(r.IntN(6)*1000 + pick(r, 0, 0, 0, 1, -1)) }

// randomPacket writes a packet as the parser leaves it into slot i of a batch.
func randomPacket(r *rand.Rand, b *packet.Batch, i int) {
	p := &b.Pkts[i]
	addr := p.Addr
	*p = packet.Packet{Addr: addr, Len: 100, WireLen: 100, InPort: uint16(r.IntN(3)), OutPort: packet.NoPort, L3: 14}
	data := b.Data(p)
	clear(data)
	dst, src := randomMAC(r), randomMAC(r)
	copy(data[0:], dst[:])
	copy(data[6:], src[:])
	if r.IntN(3) == 0 {
		p.Flags |= packet.FlagVLAN
		p.VLAN = uint16(r.IntN(4)) | uint16(r.IntN(8))<<13
	}
	if r.IntN(20) == 0 { // not parsed to the end
		if p.Flags.Has(packet.FlagVLAN) {
			p.Flags |= packet.FlagQinQ
			p.VLAN &= pick[uint16](r, 0xf000, 0xffff)
		}
		p.EtherType = pick[uint16](r, 0x0800, 0x86dd, 0x8100)
		if r.IntN(2) == 0 {
			p.Flags |= packet.FlagIPv6
			p.EtherType, p.Proto = 0x86dd, pick[uint8](r, 0, 44, 60, 6, 17)
			dst := randomAddr6(r)
			copy(data[14+24:], dst[:])
		}
		return
	}
	switch r.IntN(5) {
	case 0:
		p.EtherType = pick[uint16](r, 0x0806, 0x88cc)
		return
	case 1, 2:
		p.Flags |= packet.FlagIPv6
		p.EtherType, p.L4 = 0x86dd, 14+40
		src, dst := randomAddr6(r), randomAddr6(r)
		copy(data[14+8:], src[:])
		copy(data[14+24:], dst[:])
	default:
		p.Flags |= packet.FlagIPv4
		p.EtherType, p.L4 = 0x0800, 14+20
		src, dst := randomAddr4(r), randomAddr4(r)
		copy(data[14+12:], src[:])
		copy(data[14+16:], dst[:])
	}
	p.Proto = pick[uint8](r, 6, 17, 1, 58)
	if p.Proto != 6 && p.Proto != 17 || r.IntN(10) == 0 {
		return
	}
	p.Flags |= packet.FlagL4 | packet.FlagPorts
	p.SrcPort, p.DstPort = randomPort(r), randomPort(r)
	binary.BigEndian.PutUint16(data[p.L4:], p.SrcPort)
	binary.BigEndian.PutUint16(data[p.L4+2:], p.DstPort)
	data[p.L4+13] = byte(r.IntN(64))
}

// varyPacket changes one field of the packet in slot i, or none: what looks at all but one field takes it for the one before.
func varyPacket(r *rand.Rand, b *packet.Batch, i int) {
	p := &b.Pkts[i]
	p.Reason = 0
	data := b.Data(p)
	switch field := r.IntN(10); {
	case field == 0:
		p.InPort = uint16(r.IntN(3))
	case field == 1:
		data[5] = byte(r.IntN(6))
	case field == 2:
		data[11] = byte(r.IntN(6))
	case field == 3 && !p.Flags.Has(packet.FlagQinQ):
		p.Flags ^= packet.FlagVLAN
		p.VLAN = uint16(r.IntN(4))
	case field == 4 && p.Flags.Has(packet.FlagIPv4):
		data[14+15] = byte(r.IntN(8))
	case field == 5 && p.Flags.Has(packet.FlagIPv4):
		data[14+19] = byte(r.IntN(8))
	case field == 6 && p.Flags.Has(packet.FlagPorts):
		p.Proto ^= 6 ^ 17
	case field == 7 && p.Flags.Has(packet.FlagPorts):
		p.SrcPort = randomPort(r)
	case field == 8 && p.Flags.Has(packet.FlagPorts):
		p.DstPort = randomPort(r)
	case field == 9 && p.Flags.Has(packet.FlagPorts):
		data[p.L4+13] = byte(r.IntN(64))
	}
}

func randomRule(r *rand.Rand) Rule {
	rule := Rule{Action: pick(r, Permit, Permit, Deny, Deny, Count)}
	maybe := func(n int, set func()) {
		if r.IntN(n) == 0 {
			set()
		}
	}
	mac := func() string {
		a := randomMAC(r)
		if r.IntN(3) == 0 {
			return fmt.Sprintf("02:%02x:00:00:00:00/ff:ff:00:00:00:00", a[1])
		}
		return fmt.Sprintf("02:%02x:00:00:00:%02x", a[1], a[5])
	}
	four := r.IntN(2) == 0
	prefix := func() string {
		if four {
			a := randomAddr4(r)
			return pick(r, fmt.Sprintf("10.%d.0.0/16", a[1]), fmt.Sprintf("10.%d.%d.0/24", a[1], a[2]), fmt.Sprintf("10.%d.%d.%d", a[1], a[2], a[3]), "10.0.0.0/8", "0.0.0.0/0")
		}
		a := randomAddr6(r)
		return pick(r, fmt.Sprintf("2001:db8:%x::/48", a[5]), fmt.Sprintf("2001:db8:%x::%x", a[5], a[15]), "2001:db8::/32")
	}
	ports := func() string {
		low := r.IntN(6) * 1000
		return pick(r, fmt.Sprint(low), fmt.Sprintf("%d-%d", low, low+r.IntN(3000)), fmt.Sprintf("%d-%d", low, low+1000), fmt.Sprintf("%d-65535", low), "0-65535")
	}
	maybe(5, func() { rule.InPorts = []string{pick(r, "p0", "p1"), "p2"} })
	maybe(8, func() { rule.SrcMAC = mac() })
	maybe(8, func() { rule.DstMAC = mac() })
	maybe(8, func() { rule.VLAN = pick(r, "none", "0", "1", "3") })
	maybe(12, func() { rule.EtherType = pick(r, "arp", "ipv4", "ipv6", "0x88cc") })
	maybe(2, func() { rule.Src = prefix() })
	maybe(2, func() { rule.Dst = prefix() })
	maybe(4, func() { rule.Protocol = pick(r, "tcp", "udp", "58") })
	maybe(4, func() { rule.SrcPort = ports() })
	maybe(3, func() { rule.DstPort = ports() })
	if rule.Protocol == "" || rule.Protocol == "tcp" {
		maybe(6, func() { rule.TCPFlags = pick(r, "syn", "syn,!ack", "!rst", "fin") })
	}
	return rule
}
