package acl

import (
	"maps"
	"time"

	"github.com/weirswitch/weir/pipeline"
)

// RuleCounters are what one rule matched.
type RuleCounters struct {
	Name    string
	Action  string
	Packets uint64
	Bytes   uint64
}

// defaultName is the name of the default's counts, behind those of
// the rules.
const defaultName = "default"

// Counters returns the counts of the present rules and the default, in order.
// It asks the workers, and waits a tenth of a second for them while packets flow.
// Rules that kept their names since they were set before keep their counts.
func (m *Module) Counters() []RuleCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collect()
	out := m.total()
	for i := range out {
		zero := m.cleared[out[i].Name]
		out[i].Packets -= zero.packets
		out[i].Bytes -= zero.bytes
	}
	return out
}

// Clear makes the counts of all rules begin at zero, as readers see them: what
// was counted so far is taken off from then on, so no worker has to stop.
func (m *Module) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collect()
	m.cleared = map[string]hit{}
	for _, r := range m.total() {
		m.cleared[r.Name] = hit{r.Packets, r.Bytes}
	}
}

// total sums the counts of the present rules since the switch began, as of the
// workers' last answers.
func (m *Module) total() []RuleCounters {
	present := m.rules.Load()
	sums := make([]hit, len(present.rules)+1)
	for _, s := range m.stages {
		a := s.answer.Load()
		if a == nil || a.of != present {
			continue
		}
		for i, h := range a.hits {
			sums[i].packets += h.packets
			sums[i].bytes += h.bytes
		}
	}
	out := make([]RuleCounters, len(sums))
	for i := range sums {
		name, action := present.ruleName(i)
		before := m.folded[name]
		out[i] = RuleCounters{name, action, sums[i].packets + before.packets, sums[i].bytes + before.bytes}
	}
	return out
}

// collect asks the workers, and folds the counts of the rules that all have left.
func (m *Module) collect() {
	if !m.ask() || len(m.retired) == 0 {
		return
	}
	for _, c := range m.retired {
		for w := range c.hits {
			m.fold(c, c.hits[w])
		}
	}
	m.retired = nil
	m.forget()
}

// forget drops the counts of names that no rule has any more.
func (m *Module) forget() {
	present := m.rules.Load()
	names := make(map[string]bool, len(present.rules)+1)
	for i := range len(present.rules) + 1 {
		name, _ := present.ruleName(i)
		names[name] = true
	}
	gone := func(name string, _ hit) bool { return !names[name] }
	maps.DeleteFunc(m.folded, gone)
	maps.DeleteFunc(m.cleared, gone)
}

// ask gets an answer from every worker that runs. It reports whether all have
// left the rules before.
func (m *Module) ask() bool {
	asked := m.asked.Add(1)
	deadline := time.Now().Add(patience)
	for _, s := range m.stages {
		for s.began.Load() && !s.ended.Load() && !s.answers(asked) {
			if time.Now().After(deadline) {
				return false
			}
			time.Sleep(time.Millisecond)
		}
	}
	return true
}

func (s *stage) answers(asked uint64) bool {
	a := s.answer.Load()
	return a != nil && a.asked == asked
}

// fold adds the counts of retired rules to those of their names.
func (m *Module) fold(c *classifier, hits []hit) {
	for i, h := range hits {
		name, _ := c.ruleName(i)
		sum := m.folded[name]
		m.folded[name] = hit{sum.packets + h.packets, sum.bytes + h.bytes}
	}
}

func (c *classifier) ruleName(i int) (name, action string) {
	if i == len(c.rules) {
		if c.permit {
			return defaultName, Permit
		}
		return defaultName, Deny
	}
	return c.rules[i].name, [...]string{actionPermit: Permit, actionDeny: Deny, actionCount: Count}[c.rules[i].action]
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	for _, r := range m.Counters() {
		labels := [][2]string{{"rule", r.Name}, {"action", r.Action}}
		emit(pipeline.Metric{Name: "matched_packets_total", Help: "packets that the rule matched", Labels: labels, Value: float64(r.Packets)})
		emit(pipeline.Metric{Name: "matched_bytes_total", Help: "bytes of the packets that the rule matched", Labels: labels, Value: float64(r.Bytes)})
	}
}
