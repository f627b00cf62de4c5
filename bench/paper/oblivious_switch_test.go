package paper

import (
	"encoding/binary"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/stages/parse"
	samples "github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// samplingSwitch is the front of a switch: the real parse and oblivious stages.
type samplingSwitch struct {
	batch     *packet.Batch
	parse     pipeline.Stage
	oblivious pipeline.Stage
	module    *oblivious.Module
}

func newSamplingSwitch(t *testing.T) *samplingSwitch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	c := oblivious.DefaultConfig()
	c.Size, c.EpochBits, c.Flows = 1000, 34, true
	module, err := oblivious.New(c, pipeline.Env{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	parser, err := parse.New(parse.DefaultConfig(), pipeline.Env{Workers: 1, Needs: module.Needs()})
	if err != nil {
		t.Fatal(err)
	}
	s := &samplingSwitch{packet.NewBatch(pool.NewCache(), packet.BatchSize), parser.Stage(0), module.Stage(0), module}
	s.oblivious.(pipeline.Ticker).Tick(0)
	return s
}

// pass takes a packet through the switch.
func (s *samplingSwitch) pass(frame []byte) {
	b := s.batch
	b.Reset()
	addr, _ := b.Frames.AllocOne()
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr, uint32(len(frame)), uint32(len(frame))
	copy(b.Mem[addr:], frame)
	s.parse.Process(b)
	s.oblivious.Process(b)
	b.Frames.Free(addr)
}

// end ends the epoch and returns the samples of packets and of flows.
func (s *samplingSwitch) end(t *testing.T) (out [2]*samples.Sample) {
	t.Helper()
	s.oblivious.(pipeline.Ticker).Finish(1 << 33)
	s.module.Collect(1<<33, true, func(h *record.Header, body func([]byte) ([]byte, error)) {
		b, err := body(nil)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Instance] = new(samples.Sample)
		if err := out[h.Instance].UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
	})
	return out
}

// TestFlowsCrossOneToFiveSwitches: real frames, whose TTL and MAC addresses
// change at each hop, pass one to five of five switches by flow. The merged
// records give the volume, each large flow and the number of flows within their
// bounds, while the switches' own counts add up to three times as much. Bounds are
// those of delta = 1e-7 each and the seed is fixed, so luck has no part.
func TestFlowsCrossOneToFiveSwitches(t *testing.T) {
	const delta = 1e-7
	trace := shortTrace(t, 40_000)
	switches := make([]*samplingSwitch, 5)
	for i := range switches {
		switches[i] = newSamplingSwitch(t)
	}
	packets, bytes, crossings := 0.0, 0.0, 0.0
	sizes := make([]float64, len(trace.Flows))
	frame := make([]byte, 1514)
	for i := range trace.Len() {
		p := trace.At(i)
		f := frame[:p.Bytes]
		udpFrame(f, trace.keys[p.Flow], uint32(i))
		hops := int(p.Flow%5) + 1
		for hop := range hops {
			switches[(int(p.Flow/5)+hop)%5].pass(f)
			f[22]-- // TTL
			f[5], f[11] = byte(hop), byte(hop+1)
		}
		packets++
		bytes += float64(p.Bytes)
		sizes[p.Flow] += float64(p.Bytes)
		crossings += float64(hops)
	}
	var byInstance [2][]*samples.Sample
	for _, s := range switches {
		for instance, x := range s.end(t) {
			byInstance[instance] = append(byInstance[instance], x)
		}
	}
	within := func(what string, e samples.Estimate, err error, truth float64) {
		t.Helper()
		if err != nil || e.Low > truth || e.High < truth || e.High > 1.6*max(truth, 0.1*bytes) && truth > 0.01*bytes {
			t.Errorf("%s: %.0f, between %.0f and %.0f, truth %.0f: %v", what, e.Value, e.Low, e.High, truth, err)
		}
	}
	for name, merge := range map[string]func(...*samples.Sample) (*samples.Sample, error){"simple": samples.Simple, "improved": samples.Improved, "union": samples.Union} {
		m, err := merge(byInstance[0]...)
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Volume(samples.Packets, delta)
		within(name+" packets", e, err, packets)
		e, err = m.Volume(samples.Bytes, delta)
		within(name+" bytes", e, err, bytes)
		for f := range 5 { // the largest ones
			key := trace.keys[f]
			key.Proto = 17 // as the frames have it
			e, err = m.Frequency(samples.Bytes, delta, key)
			within(name+" flow", e, err, sizes[f])
		}
		if float64(m.Packets) != crossings || crossings < 2*packets {
			t.Errorf("%s: the switches counted %d packets, which crossed %.0f times", name, m.Packets, crossings)
		}
		flows, err := merge(byInstance[1]...)
		if err != nil {
			t.Fatal(err)
		}
		e, err = flows.DistinctFlows(delta)
		within(name+" number of flows", e, err, float64(len(trace.Flows)))
	}
}

// udpFrame fills a frame with a UDP packet of a flow, whose payload begins with
// its number.
func udpFrame(f []byte, k samples.Key, number uint32) {
	clear(f)
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45})
	ip := f[14:]
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	ip[8], ip[9] = 64, 17
	copy(ip[12:], k.Src[:4])
	copy(ip[16:], k.Dst[:4])
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp, k.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], k.DstPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	binary.BigEndian.PutUint32(udp[8:], number)
}
