package collect

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/record"
)

// The least, and the most, that a collector on two cores is to reach.
const (
	leastDigests  = 200_000
	leastSketches = 2_000
	leastShared   = 1.8
)

// ingested are the rounds of one kind of records.
type ingested struct{ endToEnd, alone []took }

// Run measures all rows.
func Run(ctx context.Context, c Config) (*bench.Result, error) {
	steps, done := 2+4*c.Rounds, 0
	step := func(what string) { c.Progress.Report(done, steps, what); done++ }
	step("make the records of the network")
	n, err := newNetwork(ctx, c)
	if err != nil {
		return nil, err
	}
	var digests, sketches ingested
	asked := map[string]*answered{}
	var parts []shared
	for round := range c.Rounds {
		for _, i := range []struct {
			kind record.Kind
			into *ingested
		}{{record.PINT, &digests}, {record.DiSketch, &sketches}} {
			step(fmt.Sprintf("round %d: %s records", round+1, i.kind))
			if err := i.into.round(ctx, c.Folder, n.messages[i.kind]); err != nil {
				return nil, err
			}
		}
		step(fmt.Sprintf("round %d: two collectors", round+1))
		s, err := share(ctx, c.Folder, n.messages[record.PINT])
		if err != nil {
			return nil, err
		}
		parts = append(parts, s)
		step(fmt.Sprintf("round %d: questions", round+1))
		if err := ask(ctx, n, asked); err != nil {
			return nil, err
		}
	}
	r := &bench.Result{Name: Name, Seed: c.Seed, Machine: bench.ThisMachine()}
	digests.rows(r, "digests", "digests/s", n.digests, leastDigests, fmt.Sprintf("%d digests in %d records", n.digests, len(n.messages[record.PINT])))
	m := n.messages[record.DiSketch]
	sketches.rows(r, "disketch_records", "records/s", len(m), leastSketches, fmt.Sprintf("%d records of fragments of 128 KB, of %d bytes as they travel", len(m), len(m[0].encoded)))
	for _, q := range questions {
		q.rows(r, asked[q.metric], n)
	}
	shareRows(r, parts, n)
	n.sizeRows(r)
	step("done")
	return r, nil
}

func (i *ingested) round(ctx context.Context, folder string, messages []message) error {
	runtime.GC()
	t, err := endToEnd(ctx, folder, messages)
	if err != nil {
		return err
	}
	i.endToEnd = append(i.endToEnd, t)
	runtime.GC()
	if t, err = storeAlone(messages); err != nil {
		return err
	}
	i.alone = append(i.alone, t)
	return nil
}

// rates are things per second of all rounds, by wall time and by processor time.
func rates(rounds []took, things int) (wall, cpu []float64) {
	for _, t := range rounds {
		wall = append(wall, float64(things)/t.wall.Seconds())
		cpu = append(cpu, float64(things)/max(t.cpu.Seconds(), 1e-9))
	}
	return wall, cpu
}

func (i *ingested) rows(r *bench.Result, name, unit string, things int, least float64, what string) {
	wall, cpu := rates(i.endToEnd, things)
	r.AddAgainst(name+"_per_second", unit, most(wall), least, "best round, from the first publication to the last record in the store; reference: the goal; "+what, bench.Higher)
	r.Add(name+"_per_second.median", unit, median(wall), "median of the rounds", bench.Neither)
	r.Add(name+"_per_cpu_second", unit, most(cpu), "publishers, server, files and store together, of processor time", bench.Higher)
	wall, _ = rates(i.alone, things)
	r.Add(name+"_per_second.store_alone", unit, most(wall), "the same records into the store by one goroutine, without JetStream", bench.Neither)
}

func (q *question) rows(r *bench.Result, a *answered, n *network) {
	what := fmt.Sprintf("median of %d, over %d epochs of %d switches", len(a.warm), n.config.Epochs, n.config.Switches)
	if q.most != 0 {
		r.AddAgainst(q.metric+"_ms", "ms", median(a.warm), q.most, what+"; reference: the goal", bench.Lower)
	} else {
		r.Add(q.metric+"_ms", "ms", median(a.warm), what, bench.Lower)
	}
	r.Add(q.metric+"_ms.best", "ms", slices.Min(a.warm), "the fastest of these, which others on the machine disturbed least", bench.Neither)
	r.Add(q.metric+"_ms_cold", "ms", median(a.cold), fmt.Sprintf("median of %d, each the first question to a store, view included", len(a.cold)), bench.Lower)
}

func shareRows(r *bench.Result, parts []shared, n *network) {
	var both, apart []float64
	for _, s := range parts {
		both = append(both, s.one.wall.Seconds()/s.both.wall.Seconds())
		apart = append(apart, s.one.wall.Seconds()/s.last().Seconds())
	}
	s := parts[0]
	r.AddAgainst("two_collectors_over_one", "ratio", median(both), leastShared,
		fmt.Sprintf("digests per second that two collectors read from a full stream at the same time, beside one; %d cores for both and the server", runtime.GOMAXPROCS(0)), bench.Higher)
	r.AddAgainst("two_collectors_over_one.apart", "ratio", median(apart), leastShared,
		"each of two collectors alone on the machine, the slower one beside one collector of all: what two machines would reach", bench.Higher)
	for i, d := range s.digests {
		r.Add(fmt.Sprintf("partition_share.collector%d", i), "share", float64(d)/float64(n.digests), "of all digests", bench.Neither)
	}
	exclusive := 0.
	if s.exclusive {
		exclusive = 1
	}
	r.Add("partition_exclusive", "1: yes", exclusive, "each digest is read by one of the two collectors", bench.Neither)
}

// sizeRows say how large records are, which docs/scale.md counts by.
func (n *network) sizeRows(r *bench.Result) {
	bytes := func(k record.Kind) (total int) {
		for _, m := range n.messages[k] {
			total += len(m.encoded)
		}
		return total
	}
	r.Add("bytes_per_digest", "bytes", float64(bytes(record.PINT))/float64(n.digests), "as they travel, with the share of their records' headers", bench.Neither)
	for _, k := range []record.Kind{record.DiSketch, record.Oblivious} {
		r.Add("bytes_per_record."+k.String(), "bytes", float64(bytes(k))/float64(len(n.messages[k])), "as they travel", bench.Neither)
	}
}

func most(all []float64) (m float64) {
	for _, x := range all {
		m = max(m, x)
	}
	return m
}
