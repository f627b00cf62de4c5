package conntrack

import (
	"testing"
	"time"
)

// BenchmarkHandOver measures what of a takeover with a million connections is at rest (AppendRest, Enter, Begin), and what before (Take).
func BenchmarkHandOver(b *testing.B) {
	handOvers = 1 << 30
	defer func() { handOvers = 0 }()
	c := DefaultConfig()
	c.Connections = 3 << 20
	r := newRig(b, c)
	for i := range 1_000_000 {
		k := key{uint64(i)<<16 | 1, 1<<47 | 53, 0, 0, 17 | 4<<8}
		n := r.stage.table.add(&k, uint32(k.hash(&r.stage.table.seed)), 0)
		if n == none {
			b.Fatal(i)
		}
	}
	env := rigEnv()
	env.Audit = false
	var before, rest time.Duration
	for b.Loop() {
		state, files, err := r.Share()
		if err != nil {
			b.Fatal(err)
		}
		m, err := New(c, env)
		if err != nil {
			b.Fatal(err)
		}
		m.parser = r.parser
		start := time.Now()
		if err := m.Take(state, duplicates(b, files)); err != nil {
			b.Fatal(err)
		}
		m.Stage(0)
		before += time.Since(start)
		start = time.Now()
		text, err := r.AppendRest(nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Enter(text); err != nil {
			b.Fatal(err)
		}
		m.Begin()
		rest += time.Since(start)
		r.Left()
		r.Module, r.stage = m, m.stages[0]
	}
	b.ReportMetric(float64(rest.Microseconds())/float64(b.N), "µs-at-rest/op")
	b.ReportMetric(float64(before.Microseconds())/float64(b.N), "µs-before/op")
}
