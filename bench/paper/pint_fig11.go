package paper

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// fig11Packets is the flow's length for latency, as in figure 9's second row.
const fig11Packets = 500

// pintFig11 measures what path and latency lose when they share 16 bits with
// congestion control, each query with 8 bits (section 6.4): the path runs on
// all packets, beside it the latency on 15/16 and congestion on 1/16. Alone means the
// same query, with its 8 bits, on all packets. path.packets_increase is the ratio
// of mean packets, less 1; latency.error_increase the difference of the mean
// relative errors of the median over 500 packets. The rows "over_16bits" take
// 16 bits for the query that is alone.
//
// hpcc.slowdown95_increase.short and .long are the increase of the 95th percentile of the
// slowdown of flows up to 10 kB, and from 1 MB, in the packet simulator (Hadoop, 50 % of load), when HPCC
// shares its 16 bits with the two others; network.* is what the sinks of that run and of one at 30 % decode,
// beside the latency alone on the same packets; latencies are what weir query latency answers from their records.
func pintFig11(ctx context.Context, o Options) ([]Row, error) {
	tree, err := netsim.FatTree(8)
	if err != nil {
		return nil, err
	}
	plans, err := fig11Plans(o)
	if err != nil {
		return nil, err
	}
	c := pintsink.RecorderConfig{MaxFlows: 64, ByOrder: true, Decoders: map[string]pintsink.DecoderConfig{"path": {Values: tree.IDs()}}}
	packets, errs := map[string]float64{}, map[string]float64{}
	for i, p := range plans {
		o.progress(i, len(plans), p.name)
		if _, has := p.plan.Query("path"); has {
			if packets[p.name], err = planPathPackets(ctx, o, p.plan, c, tree, o.runs(100_000)); err != nil {
				return nil, err
			}
		}
		if _, has := p.plan.Query("latency"); has {
			e, err := planLatencyErrors(ctx, o, p.plan, c, []int{fig11Packets}, o.runs(4000))
			if err != nil {
				return nil, err
			}
			errs[p.name] = e.at[0][0]
		}
	}
	const source = "PINT section 6.4, Fig. 11"
	var t table
	t.against("path.packets_increase", "ratio", packets["combined"]/packets["path"]-1, 0.005, source, "lower")
	t.against("latency.error_increase", "ratio", errs["combined"]-errs["latency"], 0.007, source, "lower")
	t.add("path.packets_combined", "packets", packets["combined"], "fat tree, 5 hops, 8 bits, value hashes", "lower")
	t.add("path.packets_alone", "packets", packets["path"], "the same, alone", "lower")
	t.add("path.packets_increase_over_16bits", "ratio", packets["combined"]/packets["path16"]-1, "alone with two hashes of 8 bits", "lower")
	t.add("path.packets_2x4_over_8bits", "ratio", packets["path2x4"]/packets["path"], "two hashes of 4 bits over one of 8; PINT section 4.2 has them for better", "lower")
	t.add("latency.error_combined", "ratio", errs["combined"], "median, 500 packets, 5 hops, 8 bits", "lower")
	t.add("latency.error_alone", "ratio", errs["latency"], "the same, alone", "lower")
	t.add("latency.error_increase_over_16bits", "ratio", errs["combined"]-errs["latency16"], "alone with 16 bits", "lower")
	err = fig11Network(ctx, o, &t)
	return t, err
}

type fig11Plan struct {
	name string
	plan *pintplan.Plan
}

func fig11Plans(o Options) ([]fig11Plan, error) {
	path := func(instances, bits int) pint.Query {
		return pint.Query{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: bits * instances, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Hashed, Instances: instances, Layers: encode.Hybrid(fig9Hops)}}
	}
	latency := func(bits int, frequency float64) pint.Query { return latencyQuery(bits, frequency, 0) }
	latency16 := latency(16, 1)
	latency16.Numeric.Max = 1 << 26 // 16 bits have room for more
	congestion := pint.Query{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: 1. / 16,
		Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}}
	var plans []fig11Plan
	for i, c := range []struct {
		name    string
		queries []pint.Query
	}{
		{"combined", []pint.Query{path(1, 8), latency(8, 15./16), congestion}},
		{"path", []pint.Query{path(1, 8)}},
		{"path16", []pint.Query{path(2, 8)}},
		{"latency", []pint.Query{latency(8, 1)}},
		{"latency16", []pint.Query{latency16}},
		{"path2x4", []pint.Query{path(2, 4)}},
	} {
		p, err := pintplan.New(pintplan.Config{ID: uint16(i), Seed: o.Seed + uint64(i), Bits: 16, Queries: c.queries})
		if err != nil {
			return nil, fmt.Errorf("plan of %s: %w", c.name, err)
		}
		plans = append(plans, fig11Plan{c.name, p})
	}
	return plans, nil
}

// planPathPackets is the mean number of packets of a flow until the recorder
// has its path, which must be the right one.
func planPathPackets(ctx context.Context, o Options, p *pintplan.Plan, c pintsink.RecorderConfig, g *netsim.Graph, flows int) (float64, error) {
	encoder, err := p.Compile()
	if err != nil {
		return 0, err
	}
	recorder, err := pintsink.NewRecorder(p, c)
	if err != nil {
		return 0, err
	}
	routes := netsim.NewRoutes(g)
	pairs := routes.Pairs(fig9Hops)
	r := rand.New(rand.NewPCG(hash.Bytes(o.Seed, []byte("paths")), uint64(p.ID)))
	total := 0
	for flow := range flows {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		pair := pairs[r.IntN(len(pairs))]
		nodes, err := routes.Path(pair.From, pair.To, r.Uint64())
		if err != nil {
			return 0, err
		}
		n, err := pathFlow(r, encoder, recorder, g.PathIDs(nodes), uint32(flow))
		if err != nil {
			return 0, err
		}
		total += n
	}
	return float64(total) / float64(flows), nil
}

// pathFlow counts one flow's packets.
func pathFlow(r *rand.Rand, encoder *encode.Encoder, recorder *pintsink.Recorder, path []uint64, flow uint32) (int, error) {
	key := pint.FlowKey{Src: [16]byte{byte(flow >> 24), byte(flow >> 16), byte(flow >> 8), byte(flow)}, Version: 4}
	for n := 1; n <= 1000; n++ {
		id := r.Uint64()
		var digest uint64
		for i, sw := range path {
			digest = encoder.Encode(id, i+1, digest, &pint.Observed{pint.SwitchID: sw, pint.HopLatency: 2000})
		}
		recorder.Record(&pint.Record{Flow: key, ID: id, Digest: digest, Plan: encoder.Plan(), Hops: uint8(len(path))})
		a, _ := recorder.Path("path", key)
		if a.Path == nil {
			continue
		}
		for i := range path {
			if a.Path[i] != path[i] {
				return 0, fmt.Errorf("flow %d: decoded %v, the path is %v", flow, a.Path, path)
			}
		}
		return n, nil
	}
	return 0, fmt.Errorf("flow %d: no path after 1000 packets", flow)
}
