package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// steeringSteps are the measurements of a round: one worker on either core, and two workers of which each receives what it has the
// connections of, what the other one has, and half and half.
const steeringSteps = 5

// measureSteering compares two workers with one where a stage has connections, by how many packets arrive at the worker that has theirs.
func measureSteering(ctx context.Context, c *Config, steps *progress, out *bench.Result) error {
	cores, err := cores()
	if err != nil {
		return err
	}
	if len(cores) < 2 {
		return nil
	}
	cores = cores[:2]
	g := Graph{Stages: trackedStages, Flows: 10_000, Stations: 2, Connections: 1 << 16}
	all, err := newWorkerLoad(g, c.Seed, workerPackets)
	if err != nil {
		return err
	}
	home, away := *all, *all
	for side := range all.packets {
		split, err := byHome(g, uint16(side), all.packets[side])
		if err != nil {
			return err
		}
		home.byQueue[side] = [][][]byte{split[0], split[1]}
		away.byQueue[side] = [][][]byte{split[1], split[0]}
	}
	var one, atHome, allAway, half []workerSample
	for round := range c.Rounds {
		runs := []struct {
			what  string
			cores []int
			load  *workerLoad
			into  *[]workerSample
		}{
			{"one worker", cores[:1], all, &one}, {"one worker", cores[1:], all, &one},
			{"none handed over", cores, &home, &atHome}, {"all handed over", cores, &away, &allAway}, {"half handed over", cores, all, &half},
		}
		for i := range runs {
			run := runs[(i+round)%len(runs)]
			steps.step(fmt.Sprintf("round %d: connections, %s", round+1, run.what))
			s, err := runSwitches(ctx, [][]int{run.cores}, len(run.cores), run.load, 4*c.Slice)
			if err != nil {
				return fmt.Errorf("run connections, %s: %w", run.what, err)
			}
			*run.into = append(*run.into, s)
		}
	}
	reportSteering(out, one, atHome, allAway, half)
	return nil
}

// byHome divides packets of a port among two workers, which have their connections.
func byHome(g Graph, port uint16, packets [][]byte) (of [2][][]byte, err error) {
	chain, err := newChain(g.Stages, g.configs(), g.env(2))
	if err != nil {
		return of, err
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: frameSize})
	if err != nil {
		return of, err
	}
	graph := pipeline.NewGraph(chain.modules, 0)
	cache := pool.NewCache()
	b := packet.NewBatch(cache, packet.BatchSize)
	addr, _ := cache.AllocOne()
	for _, data := range packets {
		p := b.Append()
		p.Addr, p.Len, p.WireLen, p.InPort = addr, uint32(len(data)), uint32(len(data)), port
		copy(b.Data(p), data)
		graph.Front(b)
		var home [1]uint8
		graph.Steer(b, 0, home[:])
		of[home[0]] = append(of[home[0]], data)
		b.Reset()
	}
	cache.Free(addr)
	cache.Close()
	err = pool.Close()
	for _, part := range of {
		if len(part) == 0 {
			err = errors.Join(err, errors.New("one of two workers has all connections"))
		}
	}
	return of, err
}

func reportSteering(out *bench.Result, one, home, away, half []workerSample) {
	for _, row := range []struct {
		name, about string
		samples     []workerSample
	}{
		{"conntrack1", "one worker that follows 10,000 connections, between ports of memory", one},
		{"conntrack2", "two workers, at which the packets of their own connections arrive", home},
		{"conntrack2_half", "two workers, of which each hands half of its packets over", half},
		{"conntrack2_handoff", "two workers that hand all packets over; what the other cannot take is dropped", away},
	} {
		rates := make([]float64, len(row.samples))
		for i, s := range row.samples {
			rates[i] = s.wall / 1e6
		}
		out.Add(row.name+".mpps", "Mpps", median(rates), row.about, bench.Higher)
		out.Add(row.name+".spread", "ratio", spread(rates), "(largest - smallest) / median of the rounds", bench.Lower)
	}
	note := fmt.Sprintf("wall time, median of %d rounds' ratios", len(home))
	for _, row := range []struct {
		name    string
		samples []workerSample
	}{{"conntrack2_over_1", home}, {"conntrack2_half_over_1", half}, {"conntrack2_handoff_over_1", away}} {
		wall, cpu, _ := overOne(row.samples, one)
		out.Add(row.name, "ratio", wall, note, bench.Higher)
		out.Add(row.name+"_cpu", "ratio", cpu, "per processor time of the workers", bench.Higher)
	}
	for _, row := range []struct {
		name    string
		samples []workerSample
		part    float64 // of the packets is handed over
	}{{"conntrack2_half", half, 0.5}, {"conntrack2_handoff", away, 1}} {
		dropped, cost := make([]float64, len(home)), make([]float64, len(home))
		for i, s := range row.samples {
			dropped[i], cost[i] = s.dropped, (1e9/s.cpu-1e9/home[i].cpu)/row.part
		}
		out.Add(row.name+".dropped", "ratio", median(dropped), "part of the packets that found a full ring: memory has more packets whenever a worker asks", bench.Lower)
		out.Add(row.name+".ns", "ns", median(cost), "processor time that a packet handed over takes more than one that is not, work on dropped ones included", bench.Lower)
	}
}
