package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/export"
)

// workerSteps are the measurements of a round: one worker on each of two cores alone, two switches of one
// worker each at a time, one switch of two workers, two workers of which each receives what the other
// one sends, and one worker, once as a patch and once as a bridge with all four systems, of more packets.
const workerSteps = 7

// workerPackets are the packets that each queue receives over and over: 256 KiB. allPackets are those of the last two
// rows, 9 MiB of 100,000 flows, in which each also gets its own number, so that no packet comes twice.
const (
	workerPackets = 4096
	allPackets    = 1 << 17
)

// workerLoad is what whole workers are measured with.
type workerLoad struct {
	graph   Graph
	packets [ports][][]byte
	byQueue [ports][][][]byte // packets of each queue, in place of these; empty: all queues have the same
	stamp   int               // where packets get their numbers; 0: nowhere
	// warm is for how long the switch runs before it is watched, beside a quarter of the slice.
	warm time.Duration
}

// warmWhole brings samples and tables into the state of steady traffic: see Config.Warm.
const warmWhole = 500 * time.Millisecond

// measureWorkers runs whole workers, receive to transmit, between two ports of memory, and compares two
// workers with one: two with their own queue at each port, pinned to two cores, over the mean of
// one alone on either core. For want of a device, the worker copies each packet into its frame.
func measureWorkers(ctx context.Context, c *Config, steps *progress, out *bench.Result) error {
	cores, err := cores()
	if err != nil {
		return err
	}
	if len(cores) < 2 {
		return nil // two workers on one core say nothing
	}
	cores = cores[:2]
	patch, err := newWorkerLoad(Graph{Stages: []string{"parse", "patch"}, Flows: 10_000, Stations: 2}, c.Seed, workerPackets)
	if err != nil {
		return err
	}
	whole, err := newWorkerLoad(Graph{Stages: allStages, Flows: 100_000, Stations: 10_000, Role: transit}, c.Seed, allPackets)
	if err != nil {
		return err
	}
	if !c.Quick {
		whole.warm = warmWhole
	}
	plain := *whole
	plain.graph.Stages = patch.graph.Stages
	var one, both, two, handoff, onPlain, onWhole []workerSample
	for round := range c.Rounds {
		runs := []struct {
			what     string
			switches [][]int // cores of each
			queues   int
			load     *workerLoad
			into     *[]workerSample
		}{
			{"one worker", [][]int{cores[:1]}, 1, patch, &one}, {"one worker", [][]int{cores[1:]}, 1, patch, &one},
			{"two switches", [][]int{cores[:1], cores[1:]}, 1, patch, &both},
			{"two workers", [][]int{cores}, 2, patch, &two}, {"handoff", [][]int{cores}, 1, patch, &handoff},
			{"patch", [][]int{cores[1:]}, 1, &plain, &onPlain}, {"all", [][]int{cores[1:]}, 1, whole, &onWhole},
		}
		for i := range runs {
			run := runs[(i+round)%len(runs)]
			steps.step(fmt.Sprintf("round %d: %s", round+1, run.what))
			s, err := runSwitches(ctx, run.switches, run.queues, run.load, 4*c.Slice)
			if err != nil {
				return fmt.Errorf("run %s: %w", run.what, err)
			}
			*run.into = append(*run.into, s)
		}
	}
	reportWorkers(out, one, both, two, handoff)
	reportWhole(out, onPlain, onWhole)
	return nil
}

// reportWhole adds what a worker forwards with all four systems over what it does with none, receiving and sending included.
func reportWhole(out *bench.Result, plain, whole []workerSample) {
	over := make([]float64, len(whole))
	rates := [2][]float64{}
	for i := range whole {
		over[i] = whole[i].cpu / plain[i].cpu
		rates[0], rates[1] = append(rates[0], plain[i].cpu/1e6), append(rates[1], whole[i].cpu/1e6)
	}
	const what = "one worker between ports of memory, 100,000 flows, packets with shims: per second of processor time"
	out.Add("patch.mrr", "Mpps", median(rates[0]), what, bench.Higher)
	out.Add("all.mrr", "Mpps", median(rates[1]), what, bench.Higher)
	out.Add("all.mrr_over_patch", "ratio", median(over), fmt.Sprintf("median of %d rounds' ratios", len(over)), bench.Higher)
}

// workerSample is what the workers of a switch forwarded, in packets per second of wall time and of the
// workers' processor time, and which part of what they received they dropped.
type workerSample struct{ wall, cpu, dropped float64 }

// newWorkerLoad makes the packets that arrive at both ports, those of the second in answer to those of the first.
func newWorkerLoad(g Graph, seed uint64, n int) (*workerLoad, error) {
	l := &workerLoad{graph: g}
	room := 0
	var shim *shims
	if g.Role == transit {
		shim = newShims()
		room = shim.room()
		l.stamp = room + header.EthernetLen + header.IPv4Len + header.UDPLen
	}
	for side := range l.packets {
		w := g.workload(seed)
		w.Reversed = side == 1
		writer, err := traffic.NewWriter(w)
		if err != nil {
			return nil, err
		}
		size := room + w.MaxSize() - traffic.FCS
		memory := make([]byte, size*n)
		for i := range n {
			data := memory[size*i:][:size:size]
			writer.Write(data[room:], uint64(i), 0)
			if shim != nil {
				shim.wrap(data)
			}
			l.packets[side] = append(l.packets[side], data)
		}
	}
	return l, nil
}

// runSwitches runs switches side by side, each with a worker on each of its cores and
// two ports of memory, and watches them for some time. With fewer queues than workers, the first port is the
// one worker's and the second port the other's.
func runSwitches(ctx context.Context, cores [][]int, queues int, load *workerLoad, slice time.Duration) (s workerSample, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running []*memorySwitch
	defer func() {
		cancel()
		for _, m := range running {
			err = errors.Join(err, m.finish())
		}
	}()
	for _, c := range cores {
		m, err := startSwitch(ctx, c, queues, load)
		if err != nil {
			return s, err
		}
		running = append(running, m)
	}
	time.Sleep(load.warm + slice/4)
	first := readWorkers(running)
	time.Sleep(slice)
	last := readWorkers(running)
	n := float64(last.forwarded - first.forwarded)
	dropped := float64(last.dropped - first.dropped)
	return workerSample{n / (last.at - first.at).Seconds(), n / (last.cpu - first.cpu).Seconds(), dropped / (n + dropped)}, nil
}

// memorySwitch is a switch that runs between ports of memory.
type memorySwitch struct {
	*worker.Switch
	pool  *packet.Pool
	chain *chain
	ended chan error
	// collected is closed when the records' goroutine has ended.
	collected chan struct{}
}

// collectEvery is how often records are collected, as an exporter does.
const collectEvery = 10 * time.Millisecond

// collect takes the records of a switch, and drops them, until its context ends.
func (m *memorySwitch) collect(ctx context.Context, sources []export.Source) {
	defer close(m.collected)
	u := row{chain: m.chain, sources: sources}
	ticker := time.NewTicker(collectEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			u.now = nowTAI()
			u.collect()
		}
	}
}

func startSwitch(ctx context.Context, cores []int, queues int, load *workerLoad) (_ *memorySwitch, err error) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096 * (len(cores) + 1), FrameSize: frameSize})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pool.Close())
		}
	}()
	g := load.graph
	chain, err := newChain(g.Stages, g.configs(), g.env(len(cores)))
	if err != nil {
		return nil, err
	}
	config := worker.DefaultConfig()
	config.Count, config.Cores, config.Poll = len(cores), cores, worker.PollBusy
	p0, p1 := port.NewMemory("p0", queues, load.packets[0], 0), port.NewMemory("p1", queues, load.packets[1], 0)
	for q, packets := range load.byQueue[0] {
		p0.Give(q, packets)
		p1.Give(q, load.byQueue[1][q])
	}
	p0.Stamp(load.stamp)
	p1.Stamp(load.stamp)
	sw, err := worker.New(config, worker.Parts{Name: "bench", Pool: pool, Chain: chain.modules, Ports: []port.Port{p0, p1}})
	if err != nil {
		return nil, err
	}
	m := &memorySwitch{Switch: sw, pool: pool, chain: chain, ended: make(chan error, 1), collected: make(chan struct{})}
	go m.collect(ctx, chain.sources())
	ready := make(chan struct{})
	go func() { m.ended <- sw.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-m.ended:
		return nil, err
	}
	for _, w := range sw.Report().Workers {
		favour(w.Thread)
	}
	return m, nil
}

// finish waits for the end of a switch whose context has ended. One whose counters do not add up is not to
// be believed.
func (m *memorySwitch) finish() error {
	err := <-m.ended
	<-m.collected
	if r := m.Report(); err == nil && (!r.Balanced || r.Frames.Lost != 0) {
		err = fmt.Errorf("the switch's counters do not add up: %+v, %d frames lost", r.Fate, r.Frames.Lost)
	}
	return errors.Join(err, m.pool.Close())
}

// reading is what the workers have done until some moment.
type reading struct {
	at, cpu            time.Duration
	forwarded, dropped uint64
}

// readWorkers reads each worker's counter and clocks between two of its batches.
func readWorkers(running []*memorySwitch) (r reading) {
	for _, m := range running {
		report := m.Report()
		r.forwarded += report.Forwarded
		r.dropped += report.DroppedTotal()
		for _, w := range report.Workers {
			r.cpu += clock.Thread(w.Thread)
		}
	}
	r.at = since()
	return r
}

func reportWorkers(out *bench.Result, one, both, two, handoff []workerSample) {
	const what = "receive, parse, patch and transmit between ports of memory"
	for _, row := range []struct {
		name, about string
		samples     []workerSample
	}{
		{"worker1", "one worker: " + what, one},
		{"switches2", "two switches of one worker at a time: what the machine allows", both},
		{"workers2", "two workers, each with queues of its own", two},
		{"handoff2", "two workers, each with one port: every packet changes worker, what the other cannot take is dropped", handoff},
	} {
		rates := make([]float64, len(row.samples))
		for i, s := range row.samples {
			rates[i] = s.wall / 1e6
		}
		out.Add(row.name+".mpps", "Mpps", median(rates), row.about, bench.Higher)
		out.Add(row.name+".mpps_best", "Mpps", slices.Max(rates), "best round", bench.Higher)
		out.Add(row.name+".spread", "ratio", spread(rates), "(largest - smallest) / median of the rounds", bench.Lower)
	}
	allowed, _, _ := overOne(both, one)
	wall, cpu, all := overOne(two, one)
	note := fmt.Sprintf("wall time, median of %d rounds' ratios", len(two))
	out.AddAgainst("workers2_over_1", "ratio", wall, allowed, note+"; reference: two switches at a time", bench.Higher)
	out.Add("workers2_over_1_best", "ratio", slices.Max(all), "best round", bench.Higher)
	out.Add("workers2_over_1_spread", "ratio", spread(all), "(largest - smallest) / median of the rounds", bench.Lower)
	out.Add("workers2_over_1_cpu", "ratio", cpu, "per processor time of the workers: what two cost each other, whatever else runs", bench.Higher)
	_, allowedCPU, _ := overOne(both, one)
	out.Add("switches2_over_1_cpu", "ratio", allowedCPU, "the same of two switches at a time", bench.Higher)
	wall, _, _ = overOne(handoff, one)
	out.Add("handoff2_over_1", "ratio", wall, note, bench.Higher)
}

// overOne compares samples of two cores with those of one, of which there are two in each round. Per
// processor time, two cores have twice one's.
func overOne(two, one []workerSample) (wall, cpu float64, all []float64) {
	all = make([]float64, len(two))
	times := make([]float64, len(two))
	for i := range two {
		a, b := one[2*i], one[2*i+1]
		all[i] = two[i].wall / ((a.wall + b.wall) / 2)
		times[i] = 2 * two[i].cpu / ((a.cpu + b.cpu) / 2)
	}
	return median(all), median(times), all
}
