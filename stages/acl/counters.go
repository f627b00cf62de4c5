package acl

import (
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

// DefaultName is the name under which the default's counts stand, behind those of
// the rules.
const DefaultName = "default"

// Counters returns the counts of the present rules and the default, in order.
// It asks the workers, and waits a tenth of a second for them while packets flow.
// Rules that kept their names since they were set before keep their counts.
func (m *Module) Counters() []RuleCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	m.cleared = map[string]hit{}
	for _, r := range m.total() {
		m.cleared[r.Name] = hit{r.Packets, r.Bytes}
	}
}

// total sums the counts of the present rules since the switch began.
func (m *Module) total() []RuleCounters {
	all := m.ask()
	present := m.rules.Load()
	if all {
		for _, c := range m.retired {
			for w := range c.hits {
				m.fold(c, c.hits[w])
			}
		}
		m.retired = nil
	}
	sums := make([]hit, len(present.rules)+1)
	for _, s := range m.stages {
		if s.of != present || s.answered.Load() == 0 {
			continue
		}
		for i, h := range s.snapshot {
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

// ask gets a snapshot from every worker that runs. It reports whether all have
// left the rules before.
func (m *Module) ask() bool {
	asked := m.asked.Add(1)
	deadline := time.Now().Add(patience)
	for _, s := range m.stages {
		for s.began.Load() && !s.ended.Load() && s.answered.Load() != asked {
			if time.Now().After(deadline) {
				return false
			}
			time.Sleep(time.Millisecond)
		}
	}
	return true
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
			return DefaultName, Permit
		}
		return DefaultName, Deny
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
