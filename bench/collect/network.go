package collect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weirswitch/weir/stages/disketch"
	obliviousstage "github.com/weirswitch/weir/stages/oblivious"
	sketch "github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

const (
	hops      = 5 // of a flow
	epochBits = 30
	// firstEpoch is when the network begins: some time that is past.
	firstEpoch = 1 << 29
	// batchDigests are in a record at most, as switches make them.
	batchDigests = 4096
	zipfSkew     = 1.1
)

// message is a record as it travels.
type message struct {
	header  record.Header
	encoded []byte
	digests int // in it
}

// network is what a network's switches recorded.
type network struct {
	config   Config
	messages map[record.Kind][]message // in the order of time
	digests  int
	flows    []query.Key // those of most packets first
}

// key is a flow's, by its number.
func key(i int) query.Key {
	k := query.Key{Version: 4, Proto: 6, SrcPort: uint16(1024 + i%60000), DstPort: 443}
	k.Src, k.Dst = [16]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}, [16]byte{10, 255, byte(i >> 4), 1}
	return k
}

// way is the path of a flow, by switches.
func (c *Config) way(flow int) (way [hops]uint32) {
	for i := range way {
		way[i] = 1 + uint32(flow*7+i*3)%uint32(c.Switches)
		for slices.Contains(way[:i], way[i]) { // no loops
			way[i] = 1 + way[i]%uint32(c.Switches)
		}
	}
	return way
}

// newNetwork makes the records of all epochs, by what the switches' stages are made of.
func newNetwork(ctx context.Context, c Config) (*network, error) {
	n := &network{config: c, messages: map[record.Kind][]message{}}
	for i := range min(c.Flows, 1000) {
		n.flows = append(n.flows, key(i))
	}
	epochs := make([][]message, c.Epochs)
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(runtime.GOMAXPROCS(0))
	for i := range c.Epochs {
		running.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				epochs[i], err = c.epoch(i)
			}
			return err
		})
	}
	if err := running.Wait(); err != nil {
		return nil, err
	}
	for _, list := range epochs {
		for _, m := range list {
			n.messages[m.header.Kind] = append(n.messages[m.header.Kind], m)
			n.digests += m.digests
		}
	}
	return n, nil
}

// recorder is what one switch measures in an epoch.
type recorder struct {
	number  uint32
	sampler *oblivious.Sampler
	counter *sketch.Counter
	keys    map[uint64]query.Key // of the flows, by the sketch's number
	flows   []uint64             // of the batch to be counted
	ones    []int64
	batches [record.Partitions]pint.DigestBatch
	out     []message
}

// newRecorder is of a switch with the default configuration of its stages.
func newRecorder(sw uint32, epoch int, seed uint64) (*recorder, error) {
	r := &recorder{number: sw, keys: map[uint64]query.Key{}}
	d := obliviousstage.DefaultConfig()
	var err error
	r.sampler, err = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: d.Size, Gamma: d.Gamma, Seed: seed})
	if err != nil {
		return nil, err
	}
	of := disketch.DefaultConfig().Fragments[0]
	f, err := sketch.NewFragment(sketch.Config{
		ID: sketch.ID{Switch: uint64(sw)}, Kind: sketch.CountSketch, Memory: of.Memory, Epochs: epochBits, Seed: seed, Candidates: of.Candidates, SingleHop: true,
	})
	if err != nil {
		return nil, err
	}
	if r.counter, err = f.NewCounter(); err != nil {
		return nil, err
	}
	r.counter.Begin(f.Begin(uint64(firstEpoch+epoch)), 0)
	for i := range r.batches {
		r.batches[i].Boot = firstEpoch
	}
	return r, nil
}

// epoch makes the records of all switches of an epoch.
func (c *Config) epoch(epoch int) ([]message, error) {
	encoder, err := plan.Default().Compile()
	if err != nil {
		return nil, err
	}
	switches := make([]*recorder, c.Switches)
	for i := range switches {
		if switches[i], err = newRecorder(uint32(i+1), epoch, c.Seed); err != nil {
			return nil, err
		}
	}
	r := rand.New(rand.NewPCG(c.Seed, uint64(epoch)))
	zipf := rand.NewZipf(r, zipfSkew, 10, uint64(c.Flows-1))
	engine := query.Engine{}
	start := int64(firstEpoch+epoch) << epochBits
	for i := range c.Packets {
		flow := int(zipf.Uint64())
		k, way := key(flow), c.way(flow)
		id, digest := r.Uint64(), uint64(0)
		number := engine.FlowID(hash.XX, k)
		at := start + int64(i)<<epochBits/int64(c.Packets)
		for hop, sw := range way {
			s := switches[sw-1]
			o := oblivious.Key(k)
			s.sampler.Add(id, 64+uint32(id>>53)&1023, &o)
			s.count(number, k)
			var v pint.Observed
			v[pint.SwitchID], v[pint.HopLatency], v[pint.EgressUtilisation] = uint64(sw), 1000*(1+r.Uint64N(50)), pint.UtilisationOne/2
			digest = encoder.Encode(id, hop+1, digest, &v)
		}
		sink := switches[way[hops-1]-1]
		if err := sink.sink(&pint.Record{Flow: pint.FlowKey(k), ID: id, Digest: digest, Plan: encoder.Plan(), Hops: hops, TimeNs: uint64(at)}, epoch); err != nil {
			return nil, err
		}
	}
	var all []message
	for _, s := range switches {
		if err := s.finish(epoch); err != nil {
			return nil, err
		}
		all = append(all, s.out...)
	}
	return all, nil
}

// count adds a packet to the sketch, as the stage does: some at a time.
func (s *recorder) count(flow uint64, k query.Key) {
	s.keys[flow] = k
	s.flows, s.ones = append(s.flows, flow), append(s.ones, 1)
	if len(s.flows) == 64 {
		s.addBatch()
	}
}

func (s *recorder) addBatch() {
	s.counter.AddBatch(s.flows, s.ones, false)
	for _, a := range s.counter.Admitted() {
		*a.Key = sketch.Key(s.keys[s.flows[a.Index]])
	}
	s.flows, s.ones = s.flows[:0], s.ones[:0]
}

// sink takes a digest into the record of its flow's partition.
func (s *recorder) sink(r *pint.Record, epoch int) error {
	partition := r.Flow.Partition(record.Partitions)
	b := &s.batches[partition]
	b.Plan = r.Plan
	b.Records = append(b.Records, *r)
	if len(b.Records) == batchDigests {
		return s.emitDigests(partition, epoch)
	}
	return nil
}

func (s *recorder) emitDigests(partition, epoch int) error {
	b := &s.batches[partition]
	h := record.Header{Kind: record.PINT, Instance: uint16(partition), Plan: b.Plan}
	// Batches are numbered over all epochs; an epoch here does not know how many were before.
	numbered := *b
	numbered.Sequence += uint64(epoch) << 20
	numbered.Sent += uint64(epoch) << 40
	if err := s.emit(h, epoch, len(b.Records), func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, &numbered), nil }); err != nil {
		return err
	}
	b.Sequence, b.Sent, b.Records = b.Sequence+1, b.Sent+uint64(len(b.Records)), b.Records[:0]
	return nil
}

// finish emits what is left at the epoch's end.
func (s *recorder) finish(epoch int) error {
	s.addBatch()
	for i := range s.batches {
		if len(s.batches[i].Records) > 0 {
			if err := s.emitDigests(i, epoch); err != nil {
				return err
			}
		}
	}
	if err := s.emit(record.Header{Kind: record.DiSketch}, epoch, 0, s.counter.Record().AppendBinary); err != nil {
		return err
	}
	return s.emit(record.Header{Kind: record.Oblivious}, epoch, 0, s.sampler.Sample().AppendBinary)
}

func (s *recorder) emit(h record.Header, epoch, digests int, body func([]byte) ([]byte, error)) error {
	h.Switch, h.Name = s.number, fmt.Sprint("s", s.number)
	h.Start, h.Span = int64(firstEpoch+epoch)<<epochBits, 1<<epochBits
	encoded, err := record.Append(nil, &h, body)
	if err != nil {
		return err
	}
	s.out = append(s.out, message{h, slices.Clip(encoded), digests})
	return nil
}
