package parse

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// TestIDAlongThePath changes, in each packet, what a path may change, and
// wants the same id; then what tells packets apart, and wants another.
func TestIDAlongThePath(t *testing.T) {
	b := newBatch(t, 64)
	_, s := newStage(t, DefaultConfig(), packet.NeedID|packet.NeedFlowHash)
	parse := func(data []byte) packet.Packet { return parseOne(s, b, data, len(data)) }

	ip4 := v4(6, 0x4000, nil, tcpOf(ramp(12), ramp(30)))
	ip6 := v6(44, frag6(17, 1, udpOf(ramp(30))))
	plain6 := v6(17, udpOf(ramp(30)))
	arp := cat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, ramp(38))
	for _, c := range []struct {
		name      string
		typ       int
		ip        []byte
		same      map[string]int // offset of a byte that may change
		different map[string]int // offset of a byte that tells packets apart
	}{
		{"TCP", 0x0800, ip4,
			map[string]int{"TOS": 1, "TTL": 8, "checksum": 10, "window": 34, "urgent": 38, "options": 40, "late payload": 60},
			map[string]int{"source": 12, "destination": 19, "id": 5, "source port": 20, "sequence": 27,
				"acknowledgement": 28, "flags": 33, "TCP checksum": 36, "payload": 52, "payload end": 59}},
		{"IPv6 fragment", 0x86dd, ip6,
			map[string]int{"flow label": 3, "hop limit": 7, "late payload": 66},
			map[string]int{"source": 9, "destination": 39, "identification": 45, "source port": 48, "checksum": 55}},
		{"IPv6", 0x86dd, plain6,
			map[string]int{"traffic class": 1, "flow label": 3, "hop limit": 7, "late payload": 60},
			map[string]int{"source": 9, "destination": 39, "source port": 40, "checksum": 47, "payload": 48, "payload end": 55}},
		{"ARP", 0x0806, arp,
			map[string]int{"late": 32},
			map[string]int{"first": 0, "op": 7, "last": 31}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := parse(eth(c.typ, c.ip))
			wires := map[string][]byte{
				"other MAC addresses": set(eth(c.typ, c.ip), 0, 2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8),
				"VLAN":                eth(0x8100, tag(10, c.typ, c.ip)),
				"QinQ":                eth(0x88a8, tag(10, 0x8100, tag(20, c.typ, c.ip))),
				"padding":             eth(c.typ, c.ip, ramp(9)),
			}
			for name, off := range c.same {
				wires[name] = eth(c.typ, set(c.ip, off, c.ip[off]^0x04))
			}
			for name, data := range wires {
				got := parse(data)
				if got.ID != want.ID {
					t.Errorf("the id depends on: %s", name)
				}
				if got.FlowHash != want.FlowHash && got.Flags.Has(packet.FlagIP) {
					t.Errorf("the flow hash depends on: %s", name)
				}
			}
			for name, off := range c.different {
				if got := parse(eth(c.typ, set(c.ip, off, c.ip[off]^0x01))); got.ID == want.ID {
					t.Errorf("the id does not depend on: %s", name)
				}
			}
		})
	}
}

// TestFlowNames: what the parser leaves as a name for a packet is the hash of its flow key under seed 0, by each family, with and without flow hashes.
func TestFlowNames(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		for _, needs := range []packet.Needs{packet.NeedID | packet.NeedFlowName, packet.NeedID | packet.NeedFlowName | packet.NeedFlowHash} {
			m, err := New(DefaultConfig(), pipeline.Env{Hash: family, Needs: needs})
			if err != nil {
				t.Fatal(err)
			}
			b := newBatch(t, 64)
			for i := range packet.BatchSize {
				data := eth(0x0800, v4(17, 0x4000, nil, udpOf(ramp(10+i))))
				switch i % 5 {
				case 1:
					data = eth(0x8100, tag(10, 0x0800, v4(6, 0x4000, nil, tcpOf(nil, ramp(10+i)))))
				case 2:
					data = eth(0x86dd, v6(17, udpOf(ramp(i+10))))
				}
				addr, ok := b.Frames.AllocOne()
				if !ok {
					t.Fatal("no frame")
				}
				p := b.Append()
				p.Addr, p.Len, p.WireLen = addr, uint32(copy(b.Mem[addr:], data)), uint32(len(data))
			}
			m.Stage(0).Process(b)
			named := 0
			for i := range b.Pkts {
				p, name := &b.Pkts[i], &b.Flows[i]
				if name.ID != p.ID {
					continue
				}
				named++
				w0, w1 := p.KeyWords4(b.Data(p))
				if want := family.Uint64x2(0, w0, w1); !p.Flags.Has(packet.FlagIPv4) || name.Name != want {
					t.Errorf("%v: packet %d has the name %x, want %x", family, i, name.Name, want)
				}
				if (p.FlowHash != 0) != (needs&packet.NeedFlowHash != 0) {
					t.Errorf("flow hash %x, needs %b", p.FlowHash, needs)
				}
			}
			if named < packet.BatchSize*3/4 {
				t.Errorf("%v: %d of %d packets have names", family, named, packet.BatchSize)
			}
		}
	}
}

// TestFragmentsStayTogether wants one flow hash for all fragments of a
// datagram, whatever their fragment headers name.
func TestFragmentsStayTogether(t *testing.T) {
	b := newBatch(t, 64)
	_, s := newStage(t, DefaultConfig(), packet.NeedFlowHash)
	for name, fragments := range map[string][][]byte{
		"IPv4": {
			eth(0x0800, v4(17, 0x2000, nil, set(udpOf(ramp(16)), 4, 0x05, 0xdc))),
			eth(0x0800, v4(17, 0x2003, nil, ramp(24))),
			eth(0x0800, v4(17, 0x0006, nil, ramp(24))),
			eth(0x8100, tag(5, 0x0800, v4(17, 0x0009, ramp(4), ramp(24)))),
		},
		"IPv6": {
			eth(0x86dd, v6(44, frag6(60, 1, ext(17, 0, set(udpOf(ramp(8)), 4, 0x05, 0xdc))))),
			eth(0x86dd, v6(44, frag6(60, 24+1, ramp(24)))),
			eth(0x86dd, v6(0, ext(44, 0, frag6(17, 48, ramp(24))))),
		},
	} {
		want := parseOne(s, b, fragments[0], len(fragments[0]))
		if !want.Flags.Has(packet.FlagPorts) {
			t.Errorf("%s: the first fragment has no ports", name)
		}
		for i, f := range fragments[1:] {
			got := parseOne(s, b, f, len(f))
			if got.FlowHash != want.FlowHash || !got.Flags.Has(packet.FlagLaterFragment) {
				t.Errorf("%s: fragment %d: flow hash %08x, the first has %08x", name, i+1, got.FlowHash, want.FlowHash)
			}
		}
	}
}

// TestSeed gives other hashes under another seed, and the carrier key hides
// the identification.
func TestSeedAndCarrier(t *testing.T) {
	b := newBatch(t, 64)
	data := eth(0x0800, v4(17, 0x4000, nil, udpOf(ramp(18))))
	other := set(data, 14+4, 9, 9)
	id := func(c Config, data []byte) (uint64, uint32) {
		_, s := newStage(t, c, allNeeds)
		p := parseOne(s, b, data, len(data))
		return p.ID, p.FlowHash
	}
	id1, hash1 := id(Config{Malformed: Forward, Seed: 1}, data)
	id2, hash2 := id(Config{Malformed: Forward, Seed: 2}, data)
	if id1 == id2 || hash1 == hash2 {
		t.Error("seeds 1 and 2 give the same hashes")
	}
	if again, _ := id(Config{Malformed: Forward, Seed: 1}, other); again == id1 {
		t.Error("the identification does not count without the carrier")
	}
	with1, _ := id(Config{Malformed: Forward, Seed: 1, IPIDCarrier: true}, data)
	with2, _ := id(Config{Malformed: Forward, Seed: 1, IPIDCarrier: true}, other)
	if with1 != with2 {
		t.Error("the identification counts although digests travel in it")
	}
}

// TestIDsOfABatch compares the ids of batches, longer ones than a block too,
// whose packets are plain, of other kinds and dropped, with hashes of IDBlock.
func TestIDsOfABatch(t *testing.T) {
	has := gathers
	defer func() { gathers = has }()
	for _, gathers = range []bool{false, true} {
		if gathers && !has {
			t.Log("there is no assembly for this processor: not all ways are tested")
			continue
		}
		t.Run(fmt.Sprintf("gather=%v", gathers), testIDs)
	}
}

// TestGather: the assembly reads a packet's fields where they are.
func TestGather(t *testing.T) {
	var p packet.Packet
	got := []uintptr{unsafe.Offsetof(p.Addr), unsafe.Offsetof(p.Arrival), unsafe.Offsetof(p.Len), unsafe.Offsetof(p.Reason), unsafe.Offsetof(p.Proto),
		unsafe.Offsetof(p.Flags), unsafe.Offsetof(p.L3), unsafe.Offsetof(p.Payload), unsafe.Sizeof(p), packet.BatchSize}
	if want := []uintptr{0, 16, 24, 45, 46, 48, 50, 54, 64, 64}; !slices.Equal(got, want) {
		t.Errorf("fields at %v, in gather_amd64.s at %v", got, want)
	}
}

func testIDs(t *testing.T) {
	t.Run("xxhash", func(t *testing.T) {
		testIDsOfABatch(t, hash.XX, func(words []uint64) uint64 { return hash.Bytes(9, bytesOf(words)) })
	})
	t.Run("crc", func(t *testing.T) {
		testIDsOfABatch(t, hash.CRC, func(words []uint64) uint64 { return crcOf(9, words) })
	})
	t.Run("aes", func(t *testing.T) {
		testIDsOfABatch(t, hash.AES, func(w []uint64) uint64 {
			switch len(w) {
			case 2:
				return hash.AES.Uint64x2(9, w[0], w[1])
			case 4:
				return hash.AES.Uint64x4(9, w[0], w[1], w[2], w[3])
			case 5:
				return hash.AES.Uint64x5(9, w[0], w[1], w[2], w[3], w[4])
			}
			return hash.AES.Uint64x8(9, (*[8]uint64)(w))
		})
	})
}

// crcOf is the crc family, by the library's CRCs.
func crcOf(seed uint64, words []uint64) uint64 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	m, key := bytesOf(words), hash.Key(seed)
	v := crc32.Checksum(m, castagnoli) + uint32(key)
	u := crc32.ChecksumIEEE(m) + uint32(key>>32) + v
	joined := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, u), v)
	return uint64(crc32.ChecksumIEEE(joined))<<32 | uint64(crc32.Checksum(joined, castagnoli))
}

func testIDsOfABatch(t *testing.T, f hash.Family, of func(words []uint64) uint64) {
	const most = 3*packet.BatchSize + 5
	b := newBatch(t, most)
	var addrs [most]uint64
	b.Frames.Alloc(addrs[:])
	r := rand.New(rand.NewPCG(5, 5))
	for _, carrier := range []bool{false, true} {
		needs := packet.NeedID | packet.NeedFlowHash
		_, s := newStageOf(t, Config{Malformed: Forward, Seed: 9, IPIDCarrier: carrier}, pipeline.Env{Workers: 1, Needs: needs, Hash: f})
		_, flows := newStageOf(t, Config{Malformed: Forward, Seed: 9, IPIDCarrier: carrier}, pipeline.Env{Workers: 1, Needs: packet.NeedFlowHash, Hash: f})
		for _, n := range []int{0, 1, 7, packet.BatchSize - 1, packet.BatchSize, packet.BatchSize + 1, most} {
			long := packet.NewBatch(b.Frames, most)
			for i := range n {
				data := packets[r.IntN(len(packets))].data
				if r.IntN(2) == 0 {
					frag := r.IntN(4) << 14 // DF and the reserved bit
					data = eth(0x0800, set(v4(6, 0, nil, tcpOf(ramp(4*r.IntN(3)), ramp(r.IntN(20)), zeros(8))), 6, byte(frag>>8&0xc0)))
				}
				p := long.Append()
				p.Addr, p.Len = addrs[i], uint32(copy(b.Mem[addrs[i]:], data))
				p.WireLen = p.Len
				if r.IntN(10) == 0 {
					p.Reason = reasonRunt
				}
			}
			s.Process(long)
			both := make([]uint32, n)
			for i := range long.Pkts {
				p := &long.Pkts[i]
				want := uint64(0)
				if p.Reason == 0 {
					var w packet.IDBlock
					words := w.Fill(long.Data(p), p, carrier)
					want = of(w[:words])
				}
				if p.ID != want {
					t.Fatalf("carrier %v, packet %d of %d: id %016x, want %016x: %x", carrier, i, n, p.ID, want, long.Data(p))
				}
				wantFlow := uint32(0)
				if p.Reason == 0 {
					wantFlow = uint32(of(flowWords(p, long.Data(p))))
				}
				if p.FlowHash != wantFlow {
					t.Fatalf("packet %d of %d: flow hash %08x, want %08x: %x", i, n, p.FlowHash, wantFlow, long.Data(p))
				}
				p.ID, p.FlowHash = 0, 0
				if p.Reason == reasonRunt {
					continue
				}
				both[i] = wantFlow
			}
			flows.Process(long)
			for i := range long.Pkts {
				if p := &long.Pkts[i]; p.FlowHash != both[i] || p.ID != 0 {
					t.Fatalf("packet %d of %d: without ids the flow hash is %08x, not %08x", i, n, p.FlowHash, both[i])
				}
			}
		}
	}
}

// TestFlowHashesOfCRC compares flow hashes with those of the library's CRCs: of IPv4 and IPv6,
// of fragments, and of what is neither.
func TestFlowHashesOfCRC(t *testing.T) {
	b := newBatch(t, 64)
	_, s := newStageOf(t, Config{Malformed: Forward, Seed: 7}, pipeline.Env{Workers: 1, Needs: packet.NeedFlowHash, Hash: hash.CRC})
	seen := map[packet.Flags]bool{}
	for _, c := range packets {
		p := parseOne(s, b, c.data, len(c.data))
		if p.Reason != 0 {
			continue
		}
		if want := uint32(crcOf(7, flowWords(&p, c.data))); p.FlowHash != want {
			t.Errorf("%s: flow hash %08x, want %08x", c.name, p.FlowHash, want)
		}
		seen[p.Flags&packet.FlagIP] = true
	}
	if len(seen) != 3 {
		t.Errorf("packets of %d kinds only", len(seen))
	}
}

// flowWords are what the flow hash is the hash of.
func flowWords(p *packet.Packet, data []byte) []uint64 {
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		w0, w1 := p.KeyWords4(data)
		return []uint64{w0, w1}
	case p.Flags.Has(packet.FlagIPv6):
		w0, w1, w2, w3, w4 := p.KeyWords6(data)
		return []uint64{w0, w1, w2, w3, w4}
	}
	return []uint64{binary.LittleEndian.Uint64(data), uint64(binary.LittleEndian.Uint32(data[8:])) | uint64(p.EtherType)<<32}
}
