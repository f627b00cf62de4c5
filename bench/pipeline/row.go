package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/weirswitch/weir/bench/traffic"
	"github.com/weirswitch/weir/pipeline"
)

// row is a graph that is being measured.
type row struct {
	name   string
	chain  *chain
	graph  *pipeline.Graph
	stream *stream
	cold   *evictor // nil: hot
	rounds []sample
	// learned are the copies that were flooded before the measurement.
	learned uint64
}

// sample is what a row did in one round.
type sample struct {
	packets   uint64
	wall, cpu time.Duration
}

// ns is wall time per packet, in nanoseconds.
func (s sample) ns() float64 { return float64(s.wall) / float64(s.packets) }

// cpuNs is processor time per packet, in nanoseconds.
func (s sample) cpuNs() float64 { return float64(s.cpu) / float64(s.packets) }

// newRow builds a graph for the workload and teaches it the addresses.
func newRow(ctx context.Context, r *ring, name string, c *chain, w traffic.Workload) (*row, error) {
	u := &row{name: name, chain: c, graph: pipeline.NewGraph(c.modules, 0)}
	c.start()
	var err error
	if u.stream, err = newStream(w); err == nil {
		err = u.learn(ctx, r, w)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return u, nil
}

func (u *row) close() { u.chain.close() }

// learn sends packets of all flows that differ in their addresses, both ways, until nothing is
// flooded any more.
func (u *row) learn(ctx context.Context, r *ring, w traffic.Workload) error {
	w.Flows, w.Order = max(w.Source.MACs, w.Destination.MACs), traffic.RoundRobin
	s, err := newStream(w)
	if err != nil {
		return err
	}
	s.answers = true
	turns := w.Flows/(len(r.frames)/ports) + 1
	limit := time.Now().Add(learnLimit)
	for {
		before := u.copies()
		for range turns {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.write(r)
			flooded := u.copies()
			r.pass(u.graph, s.size, nowTAI())
			if u.copies() != flooded {
				time.Sleep(time.Millisecond) // the table's writer comes that often
			}
		}
		if u.copies() == before {
			u.learned = before
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d addresses are not learned within %v", w.Source.MACs+w.Destination.MACs, learnLimit)
		}
	}
}

// counters sums over the stages what must not happen.
func (u *row) counters() (packets, dropped, copied uint64) {
	for _, c := range u.graph.AppendCounters(nil) {
		packets = max(packets, c.Packets)
		dropped += c.Dropped
		copied += c.Copied
	}
	return packets, dropped, copied
}

func (u *row) copies() uint64 {
	_, _, copied := u.counters()
	return copied
}

// measure times passes until they have taken long enough.
func (u *row) measure(r *ring, slice time.Duration) sample {
	var s sample
	for s.wall < slice {
		u.stream.write(r)
		if u.cold != nil {
			u.cold.evict()
		}
		now := nowTAI()
		cpu := threadTime(0)
		start := since()
		r.pass(u.graph, u.stream.size, now)
		s.wall += since() - start
		s.cpu += threadTime(0) - cpu
		s.packets += uint64(len(r.frames))
	}
	return s
}

// rounds has the rows take turns, each round beginning with another one.
func rounds(ctx context.Context, c *Config, r *ring, rows []*row, step func(round int, what string)) error {
	for round := range c.Rounds {
		for i := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			u := rows[(i+round)%len(rows)]
			step(round, u.name)
			u.measure(r, c.Slice/10) // the caches forget the row before
			u.rounds = append(u.rounds, u.measure(r, c.Slice))
		}
	}
	return nil
}
