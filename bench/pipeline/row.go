package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/telemetry/export"
)

// row is a graph that is being measured.
type row struct {
	name   string
	chain  *chain
	graph  *pipeline.Graph
	stream *stream
	cold   *evictor // nil: hot
	rounds []sample
	// now is the clock of the row's batches. It runs while the row is timed, so that stages see time pass as
	// under steady load: l2 marks each entry once in a second, and would mark all of them in each short turn.
	now int64
	// before is what was counted before the measurement, while addresses were learned.
	before       counts
	beforeStages []pipeline.StageCounters
	beforeMissed float64
	// beforeFlooded is the same of packets to addresses that l2 did not know.
	beforeFlooded uint64

	sources []export.Source // what makes records
	body    []byte          // of a record

	collecting  time.Duration // time that collecting took while the row was measured
	recordBytes uint64
	failed      error // a record could not be encoded

	introduction func([]byte) int // writes a packet from a neighbour to the second port, and returns its length; nil: none is needed
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

// newRow makes the graph of modules, and teaches it the addresses of the workload.
func (g Graph) newRow(ctx context.Context, r *ring, c *chain, seed uint64) (*row, error) {
	u := &row{name: g.Name, chain: c, graph: pipeline.NewGraph(c.modules, 0), sources: c.sources()}
	c.start()
	w := g.workload(seed)
	var err error
	if u.stream, err = newStream(w); err == nil {
		switch {
		case g.Tunnel == decapsulate:
			u.stream.arrive = [ports]uint16{1, 1}
		case g.OneWay, g.Role == source, g.Role == sink, g.Tunnel == encapsulate:
			u.stream.arrive = [ports]uint16{0, 0}
		}
		if g.Tunnel != noTunnel {
			u.introduction = introduceEnd
		}
		if g.Role == transit || g.Role == sink {
			u.stream.shims = newShims()
		}
		err = u.learn(ctx, r, w)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	return u, nil
}

func (u *row) close() { u.chain.close() }

// steadySweeps over all addresses with as many copies each, of more than a millisecond each, mean that the
// copies are the stage's purpose: the table's writer comes within 16 ms.
const steadySweeps = 64

// learn sends packets of all flows that differ in their addresses, in both directions, until no more
// than always is flooded. Between two ports a flooded packet has no copy, so copies alone do not tell.
func (u *row) learn(ctx context.Context, r *ring, w traffic.Workload) error {
	w.Flows, w.Order = max(w.Source.MACs, w.Destination.MACs), traffic.RoundRobin
	s, err := newStream(w)
	if err != nil {
		return err
	}
	s.answers = true
	turns := w.Flows/(len(r.frames)/ports) + 1
	limit := time.Now().Add(learnLimit)
	for last, steady := uint64(0), 0; ; {
		before := u.total().copied + u.flooded()
		for range turns {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.write(r)
			flooded := u.flooded()
			u.now = nowTAI()
			u.introduce(r)
			r.pass(u.graph, s, u.now)
			u.collect()
			if u.flooded() != flooded {
				time.Sleep(time.Millisecond) // the table's writer comes that often
			}
		}
		unknown := u.total().copied + u.flooded() - before
		if steady++; unknown != last {
			last, steady = unknown, 0
		}
		if unknown == 0 || steady == steadySweeps {
			u.now = nowTAI() / 1e9 * 1e9
			for range turns { // all entries are of the present second
				s.write(r)
				r.pass(u.graph, s, u.now)
				u.collect()
			}
			u.begin()
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d addresses are not learned within %v", w.Source.MACs+w.Destination.MACs, learnLimit)
		}
	}
}

// introduce lets the graph's stages see a packet of the neighbour that they send to, as from time to time on a network. What it did to the
// counters does not count.
func (u *row) introduce(r *ring) {
	if u.introduction == nil {
		return
	}
	was := u.total()
	r.one(u.graph, 1, u.now, u.introduction)
	is := u.total()
	u.before.packets += is.packets - was.packets
	u.before.dropped += is.dropped - was.dropped
	u.before.copied += is.copied - was.copied
}

// settle is after how many epochs what stages choose by the traffic, as LDS its rows, is chosen, and each has a quarter of the packets
// that warm a row: most of its flows.
const settle = 33

// warm takes packets through the graph until its tables, its samples and the caches are in the state of steady traffic.
func (u *row) warm(r *ring, packets int) {
	pass := func(packets int) {
		for done := 0; done < packets; {
			done += int(u.measure(r, 1).packets)
		}
	}
	for range settle {
		pass(packets / 4)
		u.now += 1 << 30
	}
	pass(packets)
	u.begin()
}

// begin notes what was counted before what is measured.
func (u *row) begin() {
	u.collecting, u.recordBytes = 0, 0
	u.before, u.beforeStages, u.beforeMissed, u.beforeFlooded = u.total(), u.graph.AppendCounters(nil), u.missed(), u.flooded()
}

// flooded are the packets to addresses that l2 did not know.
func (u *row) flooded() (n uint64) {
	for _, m := range u.chain.modules {
		if m, ok := m.Module.(*l2.Module); ok {
			n += m.Counters().Flooded
		}
	}
	return n
}

// counts are packets, and what became of some.
type counts struct{ packets, dropped, copied uint64 }

// total is what all stages counted so far.
func (u *row) total() (c counts) {
	for _, s := range u.graph.AppendCounters(nil) {
		c.packets = max(c.packets, s.Packets)
		c.dropped += s.Dropped
		c.copied += s.Copied
	}
	return c
}

// measured is what they counted since addresses were learned.
func (u *row) measured() counts {
	c := u.total()
	return counts{c.packets - u.before.packets, c.dropped - u.before.dropped, c.copied - u.before.copied}
}

// maxLag bounds how far a row's clock is behind the true one, by which tables age: a third of l2's default.
const maxLag = 100 * time.Second

// measure times passes until they have taken long enough. The caller is bound to its thread,
// whose processor time counts.
func (u *row) measure(r *ring, slice time.Duration) sample {
	var s sample
	if now := nowTAI(); now-u.now > int64(maxLag) {
		u.now = now
	}
	for s.wall < slice {
		u.introduce(r)
		u.stream.write(r)
		if u.cold != nil {
			u.cold.evict()
		}
		cpu := clock.Thread(0)
		start := since()
		r.pass(u.graph, u.stream, u.now)
		wall := since() - start
		s.wall += wall
		u.now += int64(wall)
		s.cpu += clock.Thread(0) - cpu
		s.packets += uint64(len(r.frames))
		u.collect()
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
