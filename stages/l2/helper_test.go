package l2

import (
	"encoding/binary"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

func newModule(t testing.TB, c Config, ports ...string) *Module {
	t.Helper()
	env := pipeline.Env{Name: "s1", Workers: 1}
	for _, p := range ports {
		env.Ports = append(env.Ports, pipeline.Port{Name: p, MaxFrame: 1514})
	}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const testFrames = 2048

func newBatch(t testing.TB, capacity int) *packet.Batch {
	t.Helper()
	return newBatchOf(t, capacity, testFrames)
}

func newBatchOf(t testing.TB, capacity, frames int) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return packet.NewBatch(pool.NewCache(), capacity)
}

const testHeadroom, tagLen = 64, 4

// addPacket appends a packet with the metadata that the parser would find.
func addPacket(t testing.TB, b *packet.Batch, port uint16, data []byte) *packet.Packet {
	t.Helper()
	addr, ok := b.Frames.AllocOne()
	p := b.Append()
	if !ok || p == nil {
		t.Fatal("no room for a packet")
	}
	p.Addr = addr + testHeadroom
	copy(b.Mem[p.Addr:], data)
	p.Len, p.WireLen = uint32(len(data)), uint32(len(data))
	p.InPort = port
	setTags(b, p)
	return p
}

// setTags fills what the parser tells of the link header, in plain words.
func setTags(b *packet.Batch, p *packet.Packet) {
	d := b.Data(p)
	p.Flags, p.VLAN, p.L3 = 0, 0, 14
	if d[0]&1 != 0 {
		p.Flags |= packet.FlagMulticast
	}
	tags := 0
	for int(p.L3)+4 <= len(d) {
		if tpid := binary.BigEndian.Uint16(d[p.L3-2:]); tpid != 0x8100 && tpid != 0x88a8 && tpid != 0x9100 {
			break
		}
		if tags == 0 {
			p.VLAN = binary.BigEndian.Uint16(d[p.L3:])
			p.Flags |= packet.FlagVLAN
		} else {
			p.Flags |= packet.FlagQinQ
		}
		tags++
		p.L3 += 4
	}
	p.EtherType = binary.BigEndian.Uint16(d[p.L3-2:])
}

// release gives all frames back and empties the batch.
func release(b *packet.Batch) {
	for i := range b.Pkts {
		b.Frames.FreePacket(&b.Pkts[i])
	}
	b.Reset()
}

// ether returns a frame of n bytes with the given tags (TCI, all 802.1Q).
func ether(dst, src MAC, etherType uint16, n int, tcis ...uint16) []byte {
	d := append(append([]byte{}, dst[:]...), src[:]...)
	for _, tci := range tcis {
		d = binary.BigEndian.AppendUint16(d, 0x8100)
		d = binary.BigEndian.AppendUint16(d, tci)
	}
	d = binary.BigEndian.AppendUint16(d, etherType)
	for i := len(d); i < n; i++ {
		d = append(d, byte(i))
	}
	return d
}
