package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Parallel sends one workload from several sources at a time, each on its core and queue. Source i of n must be of a [Workload] with Part i
// and Parts n. Its packet k then has the sequence number k*n + i.
type Parallel struct{ sources []Source }

// NewParallel joins sources, which it closes at its end.
func NewParallel(sources []Source) *Parallel { return &Parallel{sources} }

// Name is that of the sources, with their number; of several kinds, each with its number.
func (p *Parallel) Name() string {
	var kinds []string
	count := map[string]int{}
	for _, s := range p.sources {
		if count[s.Name()]++; count[s.Name()] == 1 {
			kinds = append(kinds, s.Name())
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d times %s", count[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// Close closes all sources.
func (p *Parallel) Close() error {
	var errs []error
	for _, s := range p.sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// part is the k of the first packet of source i whose sequence number is seq or more.
func (p *Parallel) part(seq uint64, i int) uint64 {
	n := uint64(len(p.sources))
	return (seq + n - 1 - min(uint64(i), seq+n-1)) / n
}

// Run implements [Source]. Each source has its share of the rate. A source that got less far than the others sends what it lacks, so that no
// sequence number is left out.
func (p *Parallel) Run(ctx context.Context, load Load) (Sent, error) {
	if err := load.Validate(); err != nil {
		return Sent{}, err
	}
	n := len(p.sources)
	loads := make([]Load, n)
	for i := range loads {
		loads[i] = load
		loads[i].Rate = load.Rate / float64(n)
		loads[i].FirstSeq = p.part(load.FirstSeq, i)
		if load.Count > 0 {
			loads[i].Count = p.part(load.FirstSeq+load.Count, i) - loads[i].FirstSeq
		}
	}
	began := time.Now()
	sent, err := p.runAll(ctx, loads, func(i int) bool { return load.Count == 0 || loads[i].Count > 0 })
	if err != nil {
		return Sent{}, err
	}
	end := load.FirstSeq
	for i := range sent {
		if next := loads[i].FirstSeq + sent[i].Packets; next > loads[i].FirstSeq {
			end = max(end, (next-1)*uint64(n)+uint64(i)+1)
		}
	}
	rest := make([]Load, n)
	for i := range rest {
		rest[i] = Load{Rate: loads[i].Rate, CatchUp: load.CatchUp, FirstSeq: loads[i].FirstSeq + sent[i].Packets}
		rest[i].Count = p.part(end, i) - rest[i].FirstSeq
	}
	more, err := p.runAll(context.WithoutCancel(ctx), rest, func(i int) bool { return rest[i].Count > 0 })
	if err != nil {
		return Sent{}, err
	}
	var all Sent
	for i := range sent {
		all.Elapsed = max(all.Elapsed, sent[i].Elapsed)
		for _, s := range []Sent{sent[i], more[i]} {
			all.Packets, all.Bytes = all.Packets+s.Packets, all.Bytes+s.Bytes
			all.Refused, all.Restarts = all.Refused+s.Refused, all.Restarts+s.Restarts
		}
	}
	if load.Rate == 0 { // what the slower ones sent afterwards took its time
		all.Elapsed = max(all.Elapsed, time.Since(began))
	}
	all.finish(load)
	return all, nil
}

// runAll runs sources at a time, those of which runs is true.
func (p *Parallel) runAll(ctx context.Context, loads []Load, runs func(i int) bool) ([]Sent, error) {
	sent, errs := make([]Sent, len(loads)), make([]error, len(loads))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for i := range loads {
		if !runs(i) {
			continue
		}
		all.Go(func() {
			if sent[i], errs[i] = p.sources[i].Run(ctx, loads[i]); errs[i] != nil {
				cancel() // the others end, too
			}
		})
	}
	all.Wait()
	return sent, errors.Join(errs...)
}
