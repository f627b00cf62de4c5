package policer

import (
	"testing"

	"github.com/weirswitch/weir/pipeline"
)

// TestPrepareKeepsTokens: a change elsewhere leaves a port's bucket as it is, so
// that reloads do not give a burst each.
func TestPrepareKeepsTokens(t *testing.T) {
	const now = int64(1e18)
	env := pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}}}
	c := Config{Ports: []Port{{Port: "p0", RateBits: 1e6}}}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	before := m.table.Load().buckets[0]
	if got := before.Take(now, 1<<40); int64(got) != 8*c.Ports[0].burst() {
		t.Fatalf("a full bucket gives %d", got)
	}
	c.Ports = append([]Port{{Port: "p1", RateBits: 2e6}}, c.Ports...)
	if err := m.setConfig(c); err != nil {
		t.Fatal(err)
	}
	if b := m.table.Load().buckets[0]; b != before || b.Take(now, 1000) != 0 {
		t.Error("the bucket of a port that did not change is full again")
	}
	c.Ports[1].RateBits = 3e6
	if err := m.setConfig(c); err != nil {
		t.Fatal(err)
	}
	if b := m.table.Load().buckets[0]; b == before || b.Take(now, 1000) != 1000 {
		t.Error("a new rate has an old bucket")
	}
}
