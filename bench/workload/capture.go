package workload

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/telemetry/hash"
)

// captureFrame holds the longest record that captures have.
const captureFrame = 512 << 10

// Capture reads a trace from a capture file, through the parser of the switch,
// whose packet ids it has under the given seed. Packets that are no IP have no
// flow key and are left out; times that run backwards are raised to the ones
// before them.
func Capture(file string, seed uint64) (*Trace, error) {
	in, err := pcapfile.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := in.CheckEthernet(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: captureFrame})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	config := parse.DefaultConfig()
	config.Seed = seed
	module, err := parse.New(config, pipeline.Env{Workers: 1, Needs: packet.NeedID})
	if err != nil {
		return nil, err
	}
	r := captureReader{
		in: in, batch: packet.NewBatch(pool.NewCache(), packet.BatchSize), stage: module.Stage(0),
		trace: &Trace{}, flows: map[packet.FlowKey]uint32{},
	}
	if err := r.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t := r.trace
	if len(t.packets) == 0 {
		return nil, fmt.Errorf("%s: no IP packet in it", file)
	}
	t.Name = fmt.Sprintf("%s: %d packets of %d flows in %.1f s", filepath.Base(file), t.Len(), len(t.Flows), float64(t.DurationNs)/1e9)
	return t, nil
}

type captureReader struct {
	in    *pcapfile.In
	batch *packet.Batch
	stage pipeline.Stage
	trace *Trace
	flows map[packet.FlowKey]uint32
	first int64
}

func (r *captureReader) run() error {
	for {
		h, err := r.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.one(h); err != nil {
			return err
		}
	}
}

// one takes one packet through the parser and appends it to the trace.
func (r *captureReader) one(h pcapfile.Header) error {
	b := r.batch
	b.Reset()
	addr, ok := b.Frames.AllocOne()
	if !ok {
		panic("workload: a frame leaked")
	}
	defer b.Frames.Free(addr)
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr, h.CapLen, h.WireLen
	if err := r.in.Read(b.Mem[addr : addr+uint64(h.CapLen)]); err != nil {
		return err
	}
	if h.LinkType != pcapfile.Ethernet {
		return nil
	}
	r.stage.Process(b)
	key, ok := p.Key(b.Data(p))
	if p.Reason != 0 || !ok {
		return nil
	}
	t := r.trace
	if len(t.packets) == 0 {
		r.first = h.Time
	}
	t.DurationNs = max(t.DurationNs, h.Time-r.first)
	flow := r.flow(key)
	t.Flows[flow].Packets++
	t.Flows[flow].Bytes += uint64(p.WireLen)
	t.packets = append(t.packets, Packet{ID: p.ID, TimeNs: t.DurationNs, Flow: flow, Bytes: p.WireLen})
	return nil
}

func (r *captureReader) flow(key packet.FlowKey) uint32 {
	f, ok := r.flows[key]
	if !ok {
		f = uint32(len(r.trace.Flows))
		r.flows[key] = f
		r.trace.Flows = append(r.trace.Flows, Flow{Key: key, Hash: hashKey(key)})
	}
	return f
}

// hashKey is the hash of a flow key under which telemetry updates its cells in
// these measurements.
func hashKey(k packet.FlowKey) uint64 {
	w, _ := k.Words()
	if k.Version == 4 {
		return hash.Uint64x2(0, w[0], w[1])
	}
	return hash.Uint64x5(0, w[0], w[1], w[2], w[3], w[4])
}
