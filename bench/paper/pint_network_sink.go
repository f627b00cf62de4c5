package paper

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// networkSink is where the digests of a networkTrace end: in a recorder, which reads them on the fly, and in records, which are asked
// as weir query asks those of switches.
type networkSink struct {
	plan     *pintplan.Plan
	encoder  *encode.Encoder
	recorder *pintsink.Recorder
	store    *store.Store
	engine   *query.Engine
	parts    [record.Partitions]pint.DigestBatch // the last one of each partition; its records are those of one flow
}

// Records are of one interval that is longer than a network runs.
const networkStart, networkSpan = 1 << 40, 1 << 40

func newNetworkSink(plan *pintplan.Plan, switches []uint64) (s *networkSink, err error) {
	s = &networkSink{plan: plan, store: &store.Store{}}
	s.engine = &query.Engine{Store: s.store, Plans: []*pintplan.Plan{plan}, Switches: switches}
	if s.encoder, err = plan.Compile(); err != nil {
		return nil, err
	}
	config := pintsink.RecorderConfig{ByOrder: true}
	if _, has := plan.Query("path"); has {
		config.Decoders = map[string]pintsink.DecoderConfig{"path": {Values: switches}}
	}
	s.recorder, err = pintsink.NewRecorder(plan, config)
	return s, err
}

func networkKey(flow uint32) pint.FlowKey {
	key := pint.FlowKey{Proto: 17, Version: 4}
	binary.BigEndian.PutUint32(key.Src[:], flow)
	return key
}

// take gives the sink the packets of a flow.
func (s *networkSink) take(flow uint32, f *networkFlow, written bool) error {
	key := networkKey(flow)
	partition := key.Partition(record.Partitions)
	b := &s.parts[partition]
	b.Sequence, b.Sent, b.Plan, b.Records = b.Sequence+uint64(min(len(b.Records), 1)), b.Sent+uint64(len(b.Records)), s.plan.ID, b.Records[:0]
	for _, p := range f.packets {
		digest := uint64(0)
		for i, sw := range f.path {
			digest = s.encoder.Encode(p.id, i+1, digest, &pint.Observed{pint.SwitchID: sw, pint.HopLatency: uint64(p.latency[i]), pint.EgressUtilisation: p.use[i]})
		}
		if written && digest != p.digest {
			return fmt.Errorf("flow %d, packet %x: the network wrote %x, the plan gives %x", flow, p.id, p.digest, digest)
		}
		b.Records = append(b.Records, pint.Record{Flow: key, ID: p.id, Digest: digest, TimeNs: networkStart + p.arrived, Plan: s.plan.ID, Hops: uint8(len(f.path))})
		s.recorder.Record(&b.Records[len(b.Records)-1])
	}
	h := record.Header{Kind: record.PINT, Switch: 1, Name: "s1", Instance: uint16(partition), Plan: s.plan.ID, Start: networkStart, Span: networkSpan, Hash: s.plan.Hash}
	body, err := record.Append(nil, &h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
	if err != nil {
		return err
	}
	s.store.AddBytes(body)
	if c := s.store.Counts(); c.Unreadable+c.Conflicts+c.Duplicates != 0 {
		return fmt.Errorf("flow %d: its record was refused: %+v", flow, c)
	}
	return nil
}

// hopQuantiles are those of fig9Ranks.
type hopQuantiles [len(fig9Ranks)]float64

// quantiles are what is known of the latencies of a flow's hops: sketched, what the recorder knows, else what weir query latency answers.
func (s *networkSink) quantiles(ctx context.Context, key pint.FlowKey, hops int, sketched bool) ([]hopQuantiles, error) {
	out := make([]hopQuantiles, hops)
	if sketched {
		for hop := range out {
			for i, rank := range fig9Ranks {
				q, known := s.recorder.Quantile("latency", key, hop+1, rank.rank)
				if !known {
					return nil, fmt.Errorf("hop %d has no sample", hop+1)
				}
				out[hop][i] = q.Value
			}
		}
		return out, nil
	}
	question := &query.Question{Kind: query.KindLatency, Flow: query.FormatKey(query.Key(key))}
	for _, rank := range fig9Ranks {
		question.Quantiles = append(question.Quantiles, rank.rank)
	}
	answer, err := s.engine.Ask(ctx, question)
	if err != nil {
		return nil, err
	}
	list := answer.(*query.LatencyAnswer).Hops
	if len(list) != hops {
		return nil, fmt.Errorf("the answer has %d hops of %d: %+v", len(list), hops, list)
	}
	for i, h := range list {
		if h.Hop != i+1 {
			return nil, fmt.Errorf("hop %d stands at %d", h.Hop, i+1)
		}
		for j := range fig9Ranks {
			out[i][j] = h.Quantiles[j].Value
		}
	}
	return out, nil
}
