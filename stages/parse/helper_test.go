package parse

import (
	"encoding/binary"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

const allNeeds = packet.NeedFlowHash | packet.NeedID | packet.NeedArrival

func newStage(t testing.TB, c Config, needs packet.Needs) (*Module, *stage) {
	t.Helper()
	return newStageOf(t, c, pipeline.Env{Workers: 1, Needs: needs})
}

func newStageOf(t testing.TB, c Config, env pipeline.Env) (*Module, *stage) {
	t.Helper()
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return m, m.Stage(0).(*stage)
}

func newBatch(t testing.TB, frames int) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return packet.NewBatch(pool.NewCache(), packet.BatchSize)
}

// parseOne takes one packet, of wire bytes on the wire, through the stage and
// returns its metadata; Addr is zeroed, so that packets can be compared.
func parseOne(s *stage, b *packet.Batch, data []byte, wire int) packet.Packet {
	b.Reset()
	addr, ok := b.Frames.AllocOne()
	if !ok {
		panic("no frame")
	}
	p := b.Append()
	p.Addr = addr + 64
	p.Len, p.WireLen = uint32(copy(b.Mem[p.Addr:addr+2048], data)), uint32(wire)
	s.Process(b)
	b.Frames.Free(addr)
	got := *p
	got.Addr = 0
	return got
}

// The pieces of crafted packets. Lengths are right unless a test says not.

func cat(pieces ...[]byte) []byte {
	var out []byte
	for _, p := range pieces {
		out = append(out, p...)
	}
	return out
}

func be16(v int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }

func zeros(n int) []byte { return make([]byte, n) }

func ramp(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

func eth(etherType int, rest ...[]byte) []byte {
	return cat([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, be16(etherType), cat(rest...))
}

func tag(tci, etherType int, rest ...[]byte) []byte {
	return cat(be16(tci), be16(etherType), cat(rest...))
}

// v4 is an IPv4 packet; frag are flags and offset as they stand.
func v4(proto, frag int, options []byte, rest ...[]byte) []byte {
	payload := cat(rest...)
	h := []byte{byte(0x45 + len(options)/4), 0}
	return cat(h, be16(20+len(options)+len(payload)), []byte{0x12, 0x34}, be16(frag), []byte{64, byte(proto), 0, 0},
		[]byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}, options, payload)
}

func v6(next int, rest ...[]byte) []byte {
	payload := cat(rest...)
	return cat([]byte{0x60, 0, 0, 0}, be16(len(payload)), []byte{byte(next), 61},
		[]byte{0x20, 1, 0x0d, 0xb8}, zeros(11), []byte{1}, []byte{0x20, 1, 0x0d, 0xb8}, zeros(11), []byte{2}, payload)
}

// ext is an IPv6 extension header of 8+8*more bytes.
func ext(next, more int, rest ...[]byte) []byte {
	return cat([]byte{byte(next), byte(more)}, zeros(6+8*more), cat(rest...))
}

// frag6 is an IPv6 fragment header; offset and flag as they stand.
func frag6(next, offset int, rest ...[]byte) []byte {
	return cat([]byte{byte(next), 0}, be16(offset), []byte{0xde, 0xad, 0xbe, 0xef}, cat(rest...))
}

func udpOf(rest ...[]byte) []byte {
	payload := cat(rest...)
	return cat(be16(1000), be16(2000), be16(8+len(payload)), []byte{0xab, 0xcd}, payload)
}

func tcpOf(options []byte, rest ...[]byte) []byte {
	return cat(be16(1000), be16(2000), []byte{1, 2, 3, 4, 5, 6, 7, 8}, []byte{byte(5+len(options)/4) << 4, 0x10, 0xfa, 0xf0, 0xab, 0xcd, 0, 0},
		options, cat(rest...))
}

// set returns a copy of b with bytes from off replaced.
func set(b []byte, off int, v ...byte) []byte {
	c := append([]byte(nil), b...)
	copy(c[off:], v)
	return c
}
