package port

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// segment is a packet of a transport protocol, and where its checksum is.
type segment struct {
	name     string
	data     []byte
	l4, end  int // what the checksum covers
	field    int
	protocol uint8
}

// segments makes packets of each kind, with random addresses and payloads of some lengths, and
// padding behind the shortest.
func segments(random *rand.Rand) (all []segment) {
	transports := []struct {
		name          string
		protocol      uint8
		header, field int
	}{{"tcp", header.ProtoTCP, 20, 16}, {"udp", header.ProtoUDP, 8, 6}, {"sctp", header.ProtoSCTP, 12, 8}}
	for _, tags := range []int{0, 1, 2} {
		for _, version := range []int{4, 6} {
			for _, options := range []int{0, 8} {
				for _, tr := range transports {
					for _, payload := range []int{0, 1, 2, 33, 1200, 1401} {
						s := segment{name: tr.name, protocol: tr.protocol}
						eth := make([]byte, 12)
						for i := range tags {
							eth = binary.BigEndian.AppendUint16(eth, []uint16{header.TypeVLAN, header.TypeServiceVLAN}[(i+tags)%2])
							eth = append(eth, 0, 7)
						}
						ip := make([]byte, 40)
						for i := range ip {
							ip[i] = byte(random.Uint32())
						}
						size := tr.header + payload
						if version == 4 {
							eth = binary.BigEndian.AppendUint16(eth, header.TypeIPv4)
							ip = append(ip[:20], make([]byte, options)...)
							ip[0] = 0x45 + byte(options/4)
							binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+size))
							binary.BigEndian.PutUint16(ip[6:], 0x4000)
							ip[9] = tr.protocol
						} else {
							eth = binary.BigEndian.AppendUint16(eth, header.TypeIPv6)
							ip[0] = 0x60
							binary.BigEndian.PutUint16(ip[4:], uint16(size+options))
							if ip[6] = tr.protocol; options != 0 {
								ip[6] = header.ProtoDestination
								ip = append(ip, tr.protocol, 0, 1, 4, 0, 0, 0, 0)
							}
						}
						s.l4 = len(eth) + len(ip)
						s.end = s.l4 + size
						s.field = s.l4 + tr.field
						s.data = append(eth, ip...)
						for range size {
							s.data = append(s.data, byte(random.Uint32()))
						}
						for len(s.data) < 60 {
							s.data = append(s.data, 0xee) // padding is in no sum
						}
						all = append(all, s)
					}
				}
			}
		}
	}
	return all
}

// pseudo is the sum of the pseudo-header, by another way than the code's: it is laid out and summed.
func (s *segment) pseudo() uint16 {
	l3 := 14
	for l3 < s.l4 && binary.BigEndian.Uint16(s.data[l3-2:]) != header.TypeIPv4 && binary.BigEndian.Uint16(s.data[l3-2:]) != header.TypeIPv6 {
		l3 += 4
	}
	addresses := s.data[l3+12 : l3+20]
	if s.data[l3]>>4 == 6 {
		addresses = s.data[l3+8 : l3+40]
	}
	p := append(bytes.Clone(addresses), 0, s.protocol)
	return header.Sum(binary.BigEndian.AppendUint16(p, uint16(s.end-s.l4)), 0)
}

// complete returns the packet with a right checksum, and with the one that a host with offload leaves.
func (s *segment) complete() (right, partial []byte) {
	right, partial = bytes.Clone(s.data), bytes.Clone(s.data)
	if s.protocol == header.ProtoSCTP {
		binary.LittleEndian.PutUint32(partial[s.field:], 0)
		binary.LittleEndian.PutUint32(right[s.field:], 0)
		crc := crc32.Checksum(right[s.l4:s.end], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(right[s.field:], crc)
		return right, partial
	}
	binary.BigEndian.PutUint16(right[s.field:], 0)
	sum := ^header.Sum(right[s.l4:s.end], s.pseudo())
	if sum == 0 && s.protocol == header.ProtoUDP {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(right[s.field:], sum)
	binary.BigEndian.PutUint16(partial[s.field:], s.pseudo())
	return right, partial
}

// lay puts a packet into frames of the pool, in pieces of the given lengths (the last takes the rest).
func lay(t *testing.T, cache *packet.Cache, data []byte, pieces ...int) packet.Packet {
	t.Helper()
	pool := cache.Pool()
	p := packet.Packet{WireLen: uint32(len(data))}
	var addrs []uint64
	var lengths []int
	for rest := data; len(rest) > 0; {
		n := len(rest)
		if len(pieces) > 0 {
			n, pieces = min(n, pieces[0]), pieces[1:]
		}
		addr, ok := cache.AllocOne()
		if !ok {
			t.Fatal("no frame")
		}
		copy(pool.Memory()[addr+Headroom:], rest[:n])
		addrs, lengths, rest = append(addrs, addr+Headroom), append(lengths, n), rest[n:]
	}
	for i := len(addrs) - 1; i > 0; i-- {
		p.Next = pool.Link(addrs[i], uint32(lengths[i]), p.Next)
	}
	p.Addr, p.Len = addrs[0], uint32(lengths[0])
	return p
}

func gather(pool *packet.Pool, p *packet.Packet) []byte {
	data := bytes.Clone(pool.Memory()[p.Addr : p.Addr+uint64(p.Len)])
	for link := p.Next; link != 0; {
		addr, length, next := pool.Next(link)
		data, link = append(data, pool.Memory()[addr:addr+uint64(length)]...), next
	}
	return data
}

// newCompletion returns a function that has a packet, laid out in pieces, completed, and compares it with the bytes that are wanted.
func newCompletion(t *testing.T) func(name string, data, want []byte, completed bool, pieces ...int) {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048})
	check(t, err)
	cache := pool.NewCache()
	t.Cleanup(func() {
		cache.Close()
		check(t, pool.Close())
	})
	c := &completer{pool: pool}
	return func(name string, data, want []byte, completed bool, pieces ...int) {
		t.Helper()
		p := lay(t, cache, data, pieces...)
		before := c.completed.Load()
		c.complete(pool.Memory(), []packet.Packet{p})
		if got := gather(pool, &p); !bytes.Equal(got, want) {
			t.Errorf("%s, pieces %v: other bytes than expected", name, pieces)
		}
		if got := c.completed.Load() - before; (got == 1) != completed {
			t.Errorf("%s, pieces %v: completed %d", name, pieces, got)
		}
		cache.FreePacket(&p)
	}
}

// TestCompleteChecksums: partial checksums become right ones, in one frame or several, and nothing
// else is touched.
func TestCompleteChecksums(t *testing.T) {
	run := newCompletion(t)
	random := rand.New(rand.NewPCG(17, 2))
	for _, s := range segments(random) {
		right, partial := s.complete()
		run(s.name+" right", right, right, false)
		run(s.name+" partial", partial, right, !bytes.Equal(right, partial))
		run(s.name+" partial", partial, right, !bytes.Equal(right, partial), s.field+5, 7, 1, 100)
		if s.protocol != header.ProtoSCTP {
			wrong := bytes.Clone(right)
			wrong[s.field] ^= 0x5a
			if binary.BigEndian.Uint16(wrong[s.field:]) != s.pseudo() {
				run(s.name+" wrong", wrong, wrong, false)
			}
		}
		for cut := range min(s.end-1, 80) {
			run(s.name+" cut", partial[:cut+1], partial[:cut+1], false)
		}
	}
}

// outer are the headers of tunnels, as hosts write them, in front of a frame or of its IP packet of a version.
func outer(random *rand.Rand, kind string, version byte, inner int) []byte {
	be := binary.BigEndian
	etherType := map[byte]uint16{4: header.TypeIPv4, 6: header.TypeIPv6}[version]
	udp := func(port uint16, size int) []byte {
		b := be.AppendUint16([]byte{0xc0, byte(random.Uint32())}, port)
		return append(be.AppendUint16(b, uint16(8+size+inner)), 0, 0)
	}
	protocol, b := byte(header.ProtoUDP), []byte(nil)
	switch kind {
	case "vxlan":
		b = append(udp(4789, 8), 8, 0, 0, 0, 0, 0, 7, 0)
	case "linux vxlan":
		b = append(udp(8472, 8), 8, 0, 0, 0, 0, 0, 7, 0)
	case "geneve":
		b = append(udp(6081, 8), 0, 0, 0x65, 0x58, 0, 0, 7, 0)
	case "geneve, options":
		b = append(udp(6081, 20), 3, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	case "geneve, ip":
		b = be.AppendUint16(append(udp(6081, 8), 0, 0), etherType)
		b = append(b, 0, 0, 7, 0)
	case "gre":
		protocol, b = header.ProtoGRE, be.AppendUint16([]byte{0, 0}, etherType)
	case "gre, key":
		protocol, b = header.ProtoGRE, append(be.AppendUint16([]byte{0x20, 0}, etherType), 0, 0, 0, 7)
	case "gre, all":
		protocol, b = header.ProtoGRE, append(be.AppendUint16([]byte{0xb0, 0}, etherType), 1, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9)
	case "gretap":
		protocol, b = header.ProtoGRE, []byte{0, 0, 0x65, 0x58}
	case "ipip":
		protocol = map[byte]byte{4: header.ProtoIPv4, 6: header.ProtoIPv6}[version]
	}
	ip := make([]byte, 20)
	for i := range ip {
		ip[i] = byte(random.Uint32())
	}
	ip[0], ip[9] = 0x45, protocol
	be.PutUint16(ip[2:], uint16(len(ip)+len(b)+inner))
	be.PutUint16(ip[6:], 0x4000)
	frame := append(make([]byte, 12), 0x08, 0x00)
	return append(append(frame, ip...), b...)
}

// TestCompleteInTunnels: the checksum of a packet within a tunnel is completed, and the tunnel's headers stay.
func TestCompleteInTunnels(t *testing.T) {
	run := newCompletion(t)
	random := rand.New(rand.NewPCG(17, 4))
	for _, kind := range []string{"vxlan", "linux vxlan", "geneve", "geneve, options", "geneve, ip", "gre", "gre, key", "gre, all", "gretap", "ipip"} {
		for _, s := range segments(random) {
			right, partial := s.complete()
			if bytes.Equal(right, partial) {
				continue
			}
			l3 := 14
			for l3 < s.l4 && binary.BigEndian.Uint16(s.data[l3-2:]) != header.TypeIPv4 && binary.BigEndian.Uint16(s.data[l3-2:]) != header.TypeIPv6 {
				l3 += 4
			}
			if kind == "geneve, ip" || kind == "gre" || kind == "gre, key" || kind == "gre, all" || kind == "ipip" { // without an Ethernet header
				right, partial = right[l3:], partial[l3:]
			}
			front := outer(random, kind, s.data[l3]>>4, len(right))
			right, partial = append(bytes.Clone(front), right...), append(bytes.Clone(front), partial...)
			if len(partial) > 1500 {
				continue
			}
			name := fmt.Sprintf("%s in %s, IPv%d", s.name, kind, s.data[l3]>>4)
			run(name, partial, right, true)
			run(name+", right", right, right, false)
			run(name+", cut", partial[:len(front)+20], partial[:len(front)+20], false)
			twice := outer(random, "vxlan", 4, len(partial))
			if len(twice)+len(partial) <= 1500 {
				run(name+" in vxlan", append(bytes.Clone(twice), partial...), append(bytes.Clone(twice), right...), true)
			}
		}
	}
	// A tunnel's own checksum: partial too, as of a packet that is to be cut into segments, or right and equal to the pseudo-header's by chance.
	for _, s := range segments(random) {
		right, partial := s.complete()
		if bytes.Equal(right, partial) || len(right) > 1450 {
			continue
		}
		front := outer(random, "vxlan", 4, len(right))
		const l4, field, vni = 14 + 20, 14 + 20 + 6, 14 + 20 + 8 + 4
		pseudo := header.Sum(append([]byte{0, header.ProtoUDP}, front[l4+4:l4+6]...), header.Sum(front[l4-8:l4], 0))
		binary.BigEndian.PutUint16(front[field:], pseudo)
		whole := append(bytes.Clone(front), right...)
		check := ^header.Sum(whole[l4:], 0)
		if check == 0 {
			check = 0xffff
		}
		if check == pseudo {
			continue
		}
		binary.BigEndian.PutUint16(whole[field:], check)
		run(s.name+", both", append(bytes.Clone(front), partial...), whole, true)
		binary.BigEndian.PutUint16(front[vni:], 0)
		whole = append(bytes.Clone(front), right...)
		binary.BigEndian.PutUint16(front[vni:], ^header.Sum(whole[l4:], pseudo))
		run(s.name+", the outer one by chance", append(bytes.Clone(front), partial...), append(bytes.Clone(front), right...), true)
	}
	// A route: the pseudo-header has its last address.
	for _, kind := range []byte{2, 4} {
		for _, s := range segments(random) {
			_, partial := s.complete()
			if s.protocol != header.ProtoTCP || s.l4 != 14+40 {
				continue
			}
			last := bytes.Clone(s.data[14+24 : 14+40])
			routed := bytes.Clone(partial[:14+40])
			for i := range 16 {
				routed[14+24+i] = byte(random.Uint32()) // the next one
			}
			binary.BigEndian.PutUint16(routed[14+4:], uint16(s.end-s.l4+24))
			routed[14+6] = header.ProtoRouting
			routed = append(append(routed, s.protocol, 2, kind, 1, 0, 0, 0, 0), last...)
			front := bytes.Clone(routed)
			right, partial := s.complete()
			run("routed", append(routed, partial[s.l4:]...), append(front, right[s.l4:]...), true)
		}
	}
}

// TestCompleteIgnores: random bytes, and checksums that equal the pseudo-header's by chance but are right.
func TestCompleteIgnores(t *testing.T) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048})
	check(t, err)
	defer func() { check(t, pool.Close()) }()
	cache := pool.NewCache()
	defer cache.Close()
	c := &completer{pool: pool}
	random := rand.New(rand.NewPCG(17, 3))
	for range 20_000 {
		data := make([]byte, 1+random.IntN(120))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if len(data) > 14 {
			binary.BigEndian.PutUint16(data[12:], []uint16{header.TypeVLAN, header.TypeServiceVLAN, header.TypeIPv4, header.TypeIPv6}[random.IntN(4)])
		}
		if len(data) > 38 && random.IntN(2) == 0 { // a tunnel
			data[14], data[20], data[21], data[23] = 0x45, 0, 0, []byte{header.ProtoGRE, header.ProtoIPv4, header.ProtoIPv6, header.ProtoUDP}[random.IntN(4)]
			binary.BigEndian.PutUint16(data[36:], []uint16{4789, 6081, header.TypeBridging, header.TypeIPv6}[random.IntN(4)])
		}
		p := lay(t, cache, data)
		c.complete(pool.Memory(), []packet.Packet{p}) // must not fail
		cache.FreePacket(&p)
	}
	// A datagram of two zero words sums to its pseudo-header if its length and ports make up for it.
	for _, s := range segments(random) {
		if s.protocol != header.ProtoUDP || s.end-s.l4 < 10 {
			continue
		}
		binary.BigEndian.PutUint16(s.data[s.field:], s.pseudo())
		// Choose the last whole word of the datagram so that the field is right as it is.
		at := s.l4 + (s.end-s.l4)/2*2 - 2
		binary.BigEndian.PutUint16(s.data[at:], 0)
		binary.BigEndian.PutUint16(s.data[at:], ^header.Sum(s.data[s.l4:s.end], s.pseudo()))
		p := lay(t, cache, s.data)
		before := c.completed.Load()
		c.complete(pool.Memory(), []packet.Packet{p})
		if c.completed.Load() != before || !bytes.Equal(gather(pool, &p), s.data) {
			t.Errorf("changed a right checksum: %x", s.data)
		}
		cache.FreePacket(&p)
	}
}

func BenchmarkCompleteChecksums(b *testing.B) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048})
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	cache := pool.NewCache()
	defer cache.Close()
	all := segments(rand.New(rand.NewPCG(17, 2)))
	for _, kind := range []string{"right", "partial"} {
		b.Run(kind, func(b *testing.B) {
			c := &completer{pool: pool}
			packets := make([]packet.Packet, 32)
			right, partial := all[4].complete() // TCP, 1,200 bytes
			for i := range packets {
				addr, _ := cache.AllocOne()
				copy(pool.Memory()[addr+Headroom:], right)
				packets[i] = packet.Packet{Addr: addr + Headroom, Len: uint32(len(right)), WireLen: uint32(len(right))}
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(packets) {
				if kind == "partial" {
					for k := range packets {
						copy(pool.Memory()[packets[k].Addr+50:], partial[50:52])
					}
				}
				c.complete(pool.Memory(), packets)
			}
			for k := range packets {
				cache.FreePacket(&packets[k])
			}
		})
	}
}
