package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/traffic"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline/packet"
)

// workerSteps are the measurements of a round: one worker on each of two cores alone, both at a time,
// and two workers of which each receives what the other one sends.
const workerSteps = 4

// workerPackets are the packets that each queue receives over and over: 256 KiB.
const workerPackets = 4096

// measureWorkers runs whole workers, receive to transmit, between two ports of memory, and compares two
// workers with one: two with a queue of their own at each port, pinned to two cores, over the mean of
// one alone on either core. What one copies, for want of a device that does, is each packet into its
// frame.
func measureWorkers(ctx context.Context, c *Config, steps *progress, out *bench.Result) error {
	cores, err := Cores()
	if err != nil {
		return err
	}
	if len(cores) < 2 {
		return nil // two workers on one core say nothing
	}
	cores = cores[:2]
	packets, err := workerTraffic(c.Seed)
	if err != nil {
		return err
	}
	var one, two, handoff []workerSample
	for round := range c.Rounds {
		runs := []struct {
			cores  []int
			queues int
			into   *[]workerSample
		}{
			{cores[:1], 1, &one}, {cores[1:], 1, &one}, {cores, 2, &two}, {cores, 1, &handoff},
		}
		for i := range runs {
			run := runs[(i+round)%len(runs)]
			steps.step(fmt.Sprintf("round %d: %d workers", round+1, len(run.cores)))
			s, err := runWorkers(ctx, run.cores, run.queues, packets, 4*c.Slice)
			if err != nil {
				return fmt.Errorf("run %d workers: %w", len(run.cores), err)
			}
			*run.into = append(*run.into, s)
		}
	}
	reportWorkers(out, one, two, handoff)
	return nil
}

// workerSample is what the workers of a switch forwarded, in packets per second of wall time and of the
// workers' processor time.
type workerSample struct{ wall, cpu float64 }

func workerTraffic(seed uint64) ([][]byte, error) {
	w := traffic.DefaultWorkload()
	w.Flows, w.Seed = 10_000, seed
	writer, err := traffic.NewWriter(w)
	if err != nil {
		return nil, err
	}
	memory := make([]byte, 64*workerPackets)
	packets := make([][]byte, workerPackets)
	for i := range packets {
		packets[i] = memory[64*i:][:w.MaxSize()-traffic.FCS]
		writer.Write(packets[i], uint64(i), 0)
	}
	return packets, nil
}

// runWorkers runs a switch of parse and patch with a worker on each core, and two ports of memory, and
// watches it for some time. With fewer queues than workers, the first port is the one worker's and the
// second port the other's.
func runWorkers(ctx context.Context, cores []int, queues int, packets [][]byte, slice time.Duration) (s workerSample, err error) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096 * (len(cores) + 1), FrameSize: frameSize})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	g := Graph{Stages: []string{"parse", "patch"}}
	chain, err := newChain(g.Stages, g.configs(), []string{"p0", "p1"}, len(cores))
	if err != nil {
		return s, err
	}
	config := worker.DefaultConfig()
	config.Count, config.Cores, config.Poll = len(cores), cores, worker.PollBusy
	sw, err := worker.New(config, worker.Parts{
		Name: "bench", Pool: pool, Chain: chain.modules,
		Ports: []port.Port{port.NewMemory("p0", queues, packets, 0), port.NewMemory("p1", queues, packets, 0)},
	})
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- sw.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		return s, err
	}
	for _, w := range sw.Report().Workers {
		favour(w.Thread)
	}
	time.Sleep(slice / 4)
	first := readWorkers(sw)
	time.Sleep(slice)
	last := readWorkers(sw)
	cancel()
	if err := <-ended; err != nil {
		return s, err
	}
	if r := sw.Report(); !r.Balanced || r.Frames.Lost != 0 {
		return s, fmt.Errorf("the switch's counters do not add up: %+v, %d frames lost", r.Fate, r.Frames.Lost)
	}
	n := float64(last.forwarded - first.forwarded)
	return workerSample{n / (last.at - first.at).Seconds(), n / (last.cpu - first.cpu).Seconds()}, nil
}

// reading is what the workers have done until some moment.
type reading struct {
	at, cpu   time.Duration
	forwarded uint64
}

// readWorkers reads each worker's counter and clocks between two of its batches.
func readWorkers(sw *worker.Switch) (r reading) {
	report := sw.Report()
	r.at = since()
	r.forwarded = report.Forwarded
	for _, w := range report.Workers {
		r.cpu += threadTime(w.Thread)
	}
	return r
}

func reportWorkers(out *bench.Result, one, two, handoff []workerSample) {
	wall := func(s workerSample) float64 { return s.wall }
	of := func(list []workerSample, f func(workerSample) float64) []float64 {
		values := make([]float64, len(list))
		for i, s := range list {
			values[i] = f(s)
		}
		return values
	}
	ones, twos, over := of(one, wall), of(two, wall), of(handoff, wall)
	const what = "receive, parse, patch and transmit between ports of memory"
	out.Add("worker1.mpps", "Mpps", median(ones)/1e6, "one worker: "+what, bench.Higher)
	out.Add("worker1.mpps_best", "Mpps", slices.Max(ones)/1e6, "best round", bench.Higher)
	out.Add("worker1.spread", "ratio", spread(ones), "of the rounds, on either core", bench.Lower)
	out.Add("workers2.mpps", "Mpps", median(twos)/1e6, "two workers, each with queues of its own: "+what, bench.Higher)
	out.Add("workers2.mpps_best", "Mpps", slices.Max(twos)/1e6, "best round", bench.Higher)
	out.Add("workers2.spread", "ratio", spread(twos), "of the rounds", bench.Lower)
	out.Add("handoff2.mpps", "Mpps", median(over)/1e6, "two workers, each with one port: every packet changes worker, what the other cannot take is dropped", bench.Higher)

	ratios := make([]float64, len(two))
	times := make([]float64, len(two))
	overs := make([]float64, len(two))
	for i := range two { // one holds two samples for each round, one for each core
		ratios[i] = two[i].wall / ((one[2*i].wall + one[2*i+1].wall) / 2)
		times[i] = 2 * two[i].cpu / ((one[2*i].cpu + one[2*i+1].cpu) / 2)
		overs[i] = handoff[i].wall / ((one[2*i].wall + one[2*i+1].wall) / 2)
	}
	note := fmt.Sprintf("median of %d rounds' ratios, wall time", len(ratios))
	out.Add("workers2_over_1", "ratio", median(ratios), note, bench.Higher)
	out.Add("workers2_over_1_best", "ratio", slices.Max(ratios), "best round", bench.Higher)
	out.Add("workers2_over_1_spread", "ratio", spread(ratios), "of the rounds", bench.Lower)
	out.Add("workers2_over_1_cpu", "ratio", median(times), "the same per processor time of the workers: what two cost each other through caches and rings, whatever else runs", bench.Higher)
	out.Add("handoff2_over_1", "ratio", median(overs), note, bench.Higher)
}
