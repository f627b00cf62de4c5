package paper

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// scenario is one simulation of a study.
type scenario struct {
	name   string
	config transport.Config
	flows  []transport.Flow
}

// simulated is what became of the flows, by size.
type simulated struct {
	flows []flowTime
	speed speed
}

type flowTime struct {
	bytes    int64
	seconds  float64 // to complete
	slowdown float64 // over the ideal
}

// speed is what a simulation took.
type speed struct {
	events uint64
	cpu    time.Duration // of its thread
	span   float64       // seconds
}

// simulate runs scenarios on all cores. Each is a separate simulation, so that the outcomes do not
// depend on how many cores there are. Progress reports flows, and of events per second.
func simulate(ctx context.Context, o Options, all []scenario) ([]simulated, error) {
	out, errs := make([]simulated, len(all)), make([]error, len(all))
	var next, behind atomic.Int64 // scenarios begun; flows ended
	var events atomic.Uint64
	total := 0
	for i := range all {
		// Fewer have no deciles, and their means say nothing.
		if n := len(all[i].flows); n < 10 {
			return nil, fmt.Errorf("%s: only %d flows arrive: the workload's flows are too large", all[i].name, n)
		}
		total += len(all[i].flows)
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				out[i], errs[i] = all[i].run(ctx, &behind, &events)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	begin, tick := time.Now(), time.NewTicker(time.Second/4)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-tick.C:
		}
		rate := float64(events.Load()) / time.Since(begin).Seconds()
		o.progress(int(behind.Load()), total, fmt.Sprintf("flows, %.2f M events/s", rate/1e6))
	}
	return out, errors.Join(append(errs, ctx.Err())...)
}

func (s *scenario) run(ctx context.Context, behind *atomic.Int64, events *atomic.Uint64) (simulated, error) {
	runtime.LockOSThread() // for its processor time
	defer runtime.UnlockOSThread()
	begin := clock.Thread(0)
	lastEnded, lastEvents := 0, uint64(0)
	note := func(sim *transport.Simulation) {
		ended, now := sim.Ended(), sim.Network().Counts().Events
		behind.Add(int64(ended - lastEnded))
		events.Add(now - lastEvents)
		lastEnded, lastEvents = ended, now
	}
	s.config.Watch = note
	sim, err := transport.New(s.config, s.flows)
	if err == nil {
		err = sim.Run(ctx)
	}
	if err != nil {
		return simulated{}, fmt.Errorf("%s: %w", s.name, err)
	}
	note(sim)
	if sim.Ended() < len(s.flows) {
		return simulated{}, fmt.Errorf("%s: %d of %d flows have not ended after %.3g s of simulated time: the load is too high", s.name, len(s.flows)-sim.Ended(), len(s.flows), sim.Network().Now().Seconds())
	}
	var result simulated
	for i, f := range s.flows {
		d, _ := sim.Completion(i)
		slow, _ := sim.Slowdown(i)
		result.flows = append(result.flows, flowTime{f.Bytes, d.Seconds(), slow})
	}
	result.speed = speed{sim.Network().Counts().Events, clock.Thread(0) - begin, sim.Network().Now().Seconds()}
	return result, nil
}

// deciles is the 95th percentile of the slowdown by size: each decile has a tenth of the flows.
func (r *simulated) deciles() (p95 [10]float64) {
	flows := slices.Clone(r.flows)
	slices.SortStableFunc(flows, func(a, b flowTime) int { return int(a.bytes - b.bytes) })
	for d := range p95 {
		p95[d] = slowdownQuantile(flows[d*len(flows)/10:(d+1)*len(flows)/10], 0.95)
	}
	return p95
}

func slowdownQuantile(flows []flowTime, q float64) float64 {
	var s sample
	for _, f := range flows {
		s = append(s, f.slowdown)
	}
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s.quantile(q)
}

// longBytes is from where a flow is long: 10 MB.
const longBytes = 10_000_000

// longGoodputs are the goodputs of long flows, in bits per second.
func (r *simulated) longGoodputs() (all []float64) {
	for _, f := range r.flows {
		if f.bytes > longBytes {
			all = append(all, float64(f.bytes)*8/f.seconds)
		}
	}
	return all
}

// longGoodput is their mean, and how many there are.
func (r *simulated) longGoodput() (mean float64, n int) {
	all := r.longGoodputs()
	if len(all) == 0 {
		return 0, 0
	}
	return sample(all).mean(), len(all)
}

// meanFCT is the mean time that flows take, in seconds.
func (r *simulated) meanFCT() float64 {
	sum := 0.0
	for _, f := range r.flows {
		sum += f.seconds
	}
	return sum / float64(len(r.flows))
}

// hpccNetwork are the settings of section 6.1: the paper's tree, or one of 64 hosts in quick runs.
type hpccNetwork struct {
	graph    *netsim.Graph
	tree     fabric.Tree
	arrivals event.Time // how long flows arrive
}

func newHPCCNetwork(o Options) (*hpccNetwork, error) {
	n := &hpccNetwork{tree: fabric.PaperTree, arrivals: hpccArrivals}
	if o.Quick { // a twentieth of the packets
		n.tree = fabric.Tree{Pods: 4, Racks: 2, Aggregations: 2, Core: 4, Hosts: 8}
		n.arrivals = hpccArrivals / 4
	}
	var err error
	n.graph, err = n.tree.Graph()
	return n, err
}

// hpccArrivals is how long flows arrive in a full run.
const hpccArrivals = 10 * event.Millisecond

// Bytes of HPCC's packets: a payload of 1000 behind Ethernet, IPv4, UDP and the transport's own header, INT's
// 42 with the feedback's header, and an acknowledgement.
const (
	hpccPayload, hpccHeaders, hpccAck = 1000, 48, 60
	hpccINT                           = 42
)

// scenario is HPCC at a load of payload on each host's link; feedback is nil for INT.
func (n *hpccNetwork) scenario(o Options, name, workload string, load float64, feedback *fabric.Reader) (scenario, error) {
	sizes, err := flowSizes(o, workload)
	if err != nil {
		return scenario{}, err
	}
	const rate = 100_000_000_000
	c := transport.Config{
		Fabric: fabric.Config{
			Graph: n.graph, Hosts: n.tree.Hosts, HostRate: rate, TrunkRate: 4 * rate, Delay: event.Microsecond,
			Buffer: 32 << 20, PFC: true, Seed: o.Seed,
		},
		HPCC: &transport.PaperHPCC, RoundTrip: 13 * event.Microsecond, Feedback: feedback,
		Payload: hpccPayload, HeaderBytes: hpccHeaders, TelemetryBytes: hpccINT, AckBytes: hpccAck,
		Deadline: 20 * n.arrivals, Seed: o.Seed,
	}
	if feedback == nil {
		c.Fabric.Telemetry.INT = true
	} else {
		c.Fabric.Telemetry.PINT = feedback.Encoder()
		c.TelemetryBytes = feedback.Bytes()
	}
	flows, err := transport.Arrivals{
		Hosts: n.tree.Pods * n.tree.Racks * n.tree.Hosts, Sizes: sizes, Load: load, Rate: rate, Until: n.arrivals, Seed: o.Seed,
	}.Flows()
	return scenario{name, c, flows}, err
}

// flowSizes reads a workload from the folder of shared data.
func flowSizes(o Options, workload string) (*transport.Distribution, error) {
	data := o.Data
	if data == "" {
		data = netsim.DataDir()
	}
	return transport.LoadDistribution(data, workload)
}

// congestionQuery is the fullest link on a share of the packets, in 8 bits of base 1.05 with random rounding.
func congestionQuery(frequency float64) pint.Query {
	return pint.Query{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: frequency,
		Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}}
}

// congestionFeedback is the plan of that query alone.
func congestionFeedback(o Options, bits int, frequency float64) (*fabric.Reader, error) {
	p, err := pintplan.New(pintplan.Config{ID: 1, Seed: o.Seed, Bits: bits, Queries: []pint.Query{congestionQuery(frequency)}})
	if err != nil {
		return nil, err
	}
	return fabric.NewReader(p, "congestion")
}

// addSpeed adds the rows of how fast the simulations were.
func addSpeed(t *table, all []simulated) {
	var sum speed
	slowest := 0.0
	for _, r := range all {
		sum.events += r.speed.events
		sum.cpu += r.speed.cpu
		slowest = max(slowest, r.speed.cpu.Seconds()/r.speed.span*0.010)
	}
	t.add("speed.events", "events/s", float64(sum.events)/sum.cpu.Seconds(), "per core and second of its processor time", "higher")
	t.add("speed.seconds_for_10ms", "s", slowest, "processor time of one core for 10 ms of the slowest of these networks", "lower")
}
