package records

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Why a packet is at the CPU port (p4/include/types.p4); it may be of several kinds.
const (
	copySample = 1 << iota
	copyRecord
	copyPunt
)

// Copy is a packet at the CPU port: what the program's header cpu_t says of it, and the packet.
type Copy struct {
	Kind, Hop       uint8
	Plan            uint16
	InPort, OutPort uint16
	Digest, ID      uint64
	Arrival         int64 // ns of CLOCK_TAI
	Data            []byte
}

// copyLen is the length of a cpu_t.
const copyLen = 32

// parseCopy reads what came from the CPU port. It aliases b.
func parseCopy(b []byte) (Copy, error) {
	if len(b) < copyLen || b[0] == 0 || b[0] > copyPunt|copyRecord|copySample {
		return Copy{}, fmt.Errorf("%d bytes at the CPU port do not begin with a header cpu_t", len(b))
	}
	return Copy{
		Kind: b[0], Hop: b[1], Plan: binary.BigEndian.Uint16(b[2:]), InPort: binary.BigEndian.Uint16(b[4:]),
		OutPort: binary.BigEndian.Uint16(b[6:]), Digest: binary.BigEndian.Uint64(b[8:]), ID: binary.BigEndian.Uint64(b[16:]),
		Arrival: int64(binary.BigEndian.Uint64(b[24:])), Data: b[copyLen:],
	}, nil
}

// asArrived puts a shim in front of those that a digest's copy has left, for the one that the sink took out: the
// switch looked behind [parse.MaxShims] of them.
func asArrived(data []byte) []byte {
	at := header.EthernetLen - 2
	for at+2 <= len(data) && header.IsVLAN(binary.BigEndian.Uint16(data[at:])) {
		at += header.VLANLen
	}
	if at+2 > len(data) || binary.BigEndian.Uint16(data[at:]) != header.TypeShim {
		return data
	}
	shim := header.ShimAt(data, at+2)
	if shim == nil {
		return data
	}
	return slices.Concat(data[:at+len(shim)], data[at:])
}

// parser parses copies as the switch's own parser does. It has one user.
type parser struct {
	stage  pipeline.Stage
	pool   *packet.Pool
	frames *packet.Cache
	batch  *packet.Batch
}

const (
	frameSize = 1 << 17 // of a packet of 64 KiB
	headroom  = 256
)

func newParser(m pipeline.Module) (*parser, error) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: frameSize})
	if err != nil {
		return nil, err
	}
	p := &parser{stage: m.Stage(0), pool: pool, frames: pool.NewCache()}
	p.batch = packet.NewBatch(p.frames, packet.BatchSize)
	return p, nil
}

func (p *parser) close() error {
	p.frames.Close()
	return p.pool.Close()
}

// parse parses a copy and hands it to f, which must not keep it.
func (p *parser) parse(c *Copy, f func(*packet.Batch, *packet.Packet)) error {
	addr, ok := p.frames.AllocOne()
	if !ok || len(c.Data) > frameSize-headroom {
		return fmt.Errorf("no frame for a copy of %d bytes", len(c.Data))
	}
	b := p.batch
	b.Reset()
	b.Now = c.Arrival
	copy(b.Mem[addr+headroom:], c.Data)
	k := b.Append()
	k.Addr, k.Arrival, k.InPort = addr+headroom, c.Arrival, c.InPort
	k.Len, k.WireLen = uint32(len(c.Data)), uint32(len(c.Data))
	p.stage.Process(b)
	f(b, k)
	p.frames.FreePacket(k)
	return nil
}
