package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// fig9Hops is the longest path of the paper's fat tree.
const fig9Hops = 5

var (
	fig9Packets = []int{100, 200, 500, 1000, 2000, 5000, 10000}
	fig9Long    = []int{100_000}                // where 8 bits without a sketch come near their floor
	fig9Sketch  = []int{50, 100, 150, 200, 300} // bytes per hop
	fig9Ranks   = [...]struct {
		name string
		rank float64
	}{{"median", 0.5}, {"p99", 0.99}}
)

// pintFig9 measures the relative error of the median and the 99th percentile
// of hop latencies, over 5 hops, against the flow's packets and against the size of the
// sketch (for 500 packets), for codes of 4 and 8 bits. Latencies are
// hopQueue's. Rows ".sketch" keep 100 bytes for each hop: keys of a byte, which have a code and, in the bits that it
// leaves, by what it was rounded. The rows ".compression" are the floor: the error
// when every hop's code of every packet is known, so that codes are all that is wrong. Without a sketch each
// sample stands for the packets that are nearest to it, and queues change slowly; so it does in sketches. The reference of the rows
// with 10,000 packets is that floor. Fewer flows are as long as 100,000 packets: their
// rows ".long" have their own floor. Rows "network." are of the simulated network, and those
// of them without a sketch what weir query latency answers from the sink's records. All rows repeat exactly.
func pintFig9(ctx context.Context, o Options) ([]Row, error) {
	var t table
	step, steps := 0, 8+len(fig9Sketch)
	floors := map[string]float64{}
	longFlows := 40
	if o.Quick {
		longFlows = 2
	}
	for _, bits := range []int{4, 8} {
		for _, space := range []int{0, 100} {
			o.progress(step, steps, fmt.Sprintf("%d bits, %d bytes", bits, space))
			step++
			e, err := latencyErrors(ctx, o, latencyQuery(bits, 1, space*fig9Hops), fig9Packets, o.runs(200))
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("b%d", bits)
			if space > 0 {
				name += ".sketch"
			}
			for i, rank := range fig9Ranks {
				floor := fmt.Sprintf("b%d.%s.compression", bits, rank.name)
				if space == 0 {
					floors[floor] = e.compression[i]
					t.add(floor, "ratio", e.compression[i], "relative error if every code were known", "lower")
				}
				for j, n := range fig9Packets {
					metric := fmt.Sprintf("%s.%s.error.packets%d", name, rank.name, n)
					if j == len(fig9Packets)-1 {
						t.against(metric, "ratio", e.at[j][i], floors[floor], "error of compression, which Fig. 9 converges to", "lower")
						continue
					}
					t.add(metric, "ratio", e.at[j][i], "relative error, mean over hops and flows", "lower")
				}
			}
		}
	}
	for _, bits := range []int{4, 8} {
		for _, space := range []int{0, 100} {
			o.progress(step, steps, fmt.Sprintf("%d bits, %d bytes, long flows", bits, space))
			step++
			e, err := latencyErrors(ctx, o, latencyQuery(bits, 1, space*fig9Hops), fig9Long, longFlows)
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("b%d", bits)
			if space > 0 {
				name += ".sketch"
			}
			for i, rank := range fig9Ranks {
				t.against(fmt.Sprintf("%s.%s.error.long", name, rank.name), "ratio", e.at[0][i], e.compression[i], "100,000 packets; error of compression of the same flows", "lower")
			}
		}
	}
	for _, space := range fig9Sketch {
		o.progress(step, steps, fmt.Sprintf("500 packets, %d bytes", space))
		step++
		e, err := latencyErrors(ctx, o, latencyQuery(8, 1, space*fig9Hops), []int{500}, o.runs(200))
		if err != nil {
			return nil, err
		}
		for i, rank := range fig9Ranks {
			t.add(fmt.Sprintf("b8.%s.error.sketch%d", rank.name, space), "ratio", e.at[0][i], "500 packets, that many bytes per hop", "lower")
		}
	}
	err := fig9Network(ctx, o, &t)
	return t, err
}

// Latencies of the simulated network, in ns: the least that a packet takes, and nearly the most that one waits.
const fig9NetworkLeast, fig9NetworkMost = 41, 1 << 14

// fig9Alike are the errors of 500 packets in M/G/1 queues where all samples of a hop count alike, by bits and rank.
var fig9Alike = map[int][len(fig9Ranks)]float64{4: {0.101, 0.117}, 8: {0.0461, 0.0731}}

// fig9Sketched are the errors of 500 packets in M/G/1 queues with a sketch, when 4-bit codes were counted in it without their rounding but by their order, and 8-bit
// codes were in the library's KLL sketch.
var fig9Sketched = map[int][len(fig9Ranks)]float64{4: {0.064, 0.085}, 8: {0.051, 0.0731}}

// fig9Network adds the rows of the simulated network, Hadoop at 50 % of load.
func fig9Network(ctx context.Context, o Options, t *table) error {
	n, err := newHPCCNetwork(o)
	if err != nil {
		return err
	}
	feedback, err := congestionFeedback(o, 8, 1)
	if err != nil {
		return err
	}
	s, err := n.scenario(o, "hadoop", transport.Hadoop, 0.5, feedback)
	if err != nil {
		return err
	}
	trace := newNetworkTrace(n, &s)
	if len(trace.order) == 0 {
		return nil
	}
	if _, err := simulate(ctx, o, []scenario{s}); err != nil {
		return err
	}
	return fig9Decode(ctx, o, trace, t)
}

// fig9Decode adds what a sink makes of the first packets of a trace's flows.
func fig9Decode(ctx context.Context, o Options, trace *networkTrace, t *table) error {
	for _, bits := range []int{4, 8} {
		for _, space := range []int{0, 100} {
			q := latencyQuery(bits, 1, space*fig9Hops)
			q.Numeric.Min, q.Numeric.Max = fig9NetworkLeast, fig9NetworkMost
			p, err := pintplan.New(pintplan.Config{Seed: o.Seed, Bits: bits, Queries: []pint.Query{q}})
			if err != nil {
				return err
			}
			d, err := trace.decode(ctx, p, false, fig11Packets)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("network.b%d", bits)
			if space > 0 {
				name += ".sketch"
			}
			for i, rank := range fig9Ranks {
				metric, source := fmt.Sprintf("%s.%s.error.packets%d", name, rank.name, fig11Packets), fmt.Sprintf("Hadoop, 50 %% load, HPCC; %d hops", d.hops)
				if space > 0 {
					t.against(metric, "ratio", d.errors[i], fig9Sketched[bits][i], source+"; M/G/1 queues, sketches without order or without rounding", "lower")
				} else {
					t.against(metric, "ratio", d.errors[i], fig9Alike[bits][i], source+"; M/G/1 queues, samples that count alike", "lower")
					t.add(fmt.Sprintf("%s.%s.compression", name, rank.name), "ratio", d.compression[i], "relative error if every code were known", "lower")
				}
			}
		}
	}
	return nil
}

// latencyQuery asks for latency quantiles between 1 us and 65 us.
func latencyQuery(bits int, frequency float64, space int) pint.Query {
	return pint.Query{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: bits, Frequency: frequency, SpaceBytes: space,
		Numeric: &pint.NumericQuery{Multiplicative: true, Min: 1000, Max: 1 << 16}}
}

// latencyErrs are mean relative errors, by rank of fig9Ranks.
type latencyErrs struct {
	at          [][2]float64 // by number of packets
	compression [2]float64
}

// latencyErrors runs flows through a plan of the one query.
func latencyErrors(ctx context.Context, o Options, q pint.Query, packets []int, flows int) (latencyErrs, error) {
	p, err := pintplan.New(pintplan.Config{Seed: o.Seed, Bits: q.Bits, Queries: []pint.Query{q}})
	if err != nil {
		return latencyErrs{}, err
	}
	return planLatencyErrors(ctx, o, p, pintsink.RecorderConfig{ByOrder: true}, packets, flows)
}

// planLatencyErrors runs flows of fig9Hops hops through a plan with a query
// "latency": encoders at each hop, recorder at the sink, compared with the
// values of all packets. The same seed draws the same latencies whatever the
// plan.
func planLatencyErrors(ctx context.Context, o Options, p *pintplan.Plan, c pintsink.RecorderConfig, packets []int, flows int) (latencyErrs, error) {
	errs := latencyErrs{at: make([][2]float64, len(packets))}
	encoder, err := p.Compile()
	if err != nil {
		return errs, err
	}
	q, _ := p.Query("latency")
	codec, err := encode.NewCodec(encode.CodecConfig{Bits: q.Bits, Multiplicative: true, Min: q.Numeric.Min, Max: q.Numeric.Max})
	if err != nil {
		return errs, err
	}
	base := hash.Bytes(o.Seed, []byte("latencies"))
	for flow := range flows {
		if err := ctx.Err(); err != nil {
			return errs, err
		}
		recorder, err := pintsink.NewRecorder(p, c)
		if err != nil {
			return errs, err
		}
		if err := latencyFlow(rand.New(rand.NewPCG(base, uint64(flow))), encoder, recorder, codec, packets, &errs); err != nil {
			return errs, err
		}
	}
	for i := range fig9Ranks {
		for j := range errs.at {
			errs.at[j][i] /= float64(flows * fig9Hops)
		}
		errs.compression[i] /= float64(flows * fig9Hops)
	}
	return errs, nil
}

// latencyFlow adds the errors of one flow.
func latencyFlow(r *rand.Rand, encoder *encode.Encoder, recorder *pintsink.Recorder, codec *encode.Codec, packets []int, errs *latencyErrs) error {
	queues := hopQueues(fig9Hops)
	for i := range queues {
		queues[i].settle(r)
	}
	var exact, decoded [fig9Hops][]float64
	next := 0
	for n := 1; n <= packets[len(packets)-1]; n++ {
		id, round := r.Uint64(), r.Uint64N(encode.RoundOne)
		var digest uint64
		for i := range queues {
			latency := uint64(queues[i].next(r))
			exact[i] = append(exact[i], float64(latency))
			decoded[i] = append(decoded[i], codec.Decode(codec.Encode(latency, round)))
			digest = encoder.Encode(id, i+1, digest, &pint.Observed{pint.SwitchID: uint64(i), pint.HopLatency: latency})
		}
		recorder.Record(&pint.Record{ID: id, Digest: digest, Plan: encoder.Plan(), Hops: fig9Hops})
		if n != packets[next] {
			continue
		}
		for i := range queues {
			values := sortedCopy(exact[i])
			for k, rank := range fig9Ranks {
				want := quantileOf(values, rank.rank)
				got, known := recorder.Quantile("latency", pint.FlowKey{}, i+1, rank.rank)
				if !known {
					return fmt.Errorf("hop %d has no sample after %d packets: use more", i+1, n)
				}
				errs.at[next][k] += math.Abs(got.Value/want - 1)
				if next == len(packets)-1 {
					errs.compression[k] += math.Abs(quantileOf(sortedCopy(decoded[i]), rank.rank)/want - 1)
				}
			}
		}
		next++
	}
	return nil
}
