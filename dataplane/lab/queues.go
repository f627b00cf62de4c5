package lab

import (
	"fmt"
	"maps"
	"slices"
)

// maxQueueRate is the highest of [Switch.QueueRates]: what BMv2 distinguishes from no limit.
const maxQueueRate = 1_000_000_000

// validateQueueRates checks that the ports are there, and that the switch has such queues.
func (c *Config) validateQueueRates(f *faults, key string, s *Switch) {
	if len(s.QueueRates) == 0 {
		return
	}
	if s.Kind != KindBMv2 {
		f.add("%s.queue_rates: only a switch of kind %q has queues with rates: leave it out", key, KindBMv2)
		return
	}
	ends := c.portEnds(s.Name)
	own, _ := configPorts(s.Config) // validateSwitches says what is wrong with these
	for _, name := range slices.Sorted(maps.Keys(s.QueueRates)) {
		linked := slices.ContainsFunc(ends, func(e portEnd) bool { return e.name == name })
		if !linked && !slices.ContainsFunc(own, func(p map[string]any) bool { return p["name"] == name }) {
			f.add("%s.queue_rates.%s: the switch has no such port: add a [[link]] with %q, or correct the name", key, name, s.Name+":"+name)
		}
		if r := s.QueueRates[name]; r < 1 || r > maxQueueRate {
			f.add("%s.queue_rates.%s: %d packets per second: choose 1 to %d, or leave it out for no limit", key, name, r, maxQueueRate)
		}
	}
}

// queueArguments are the queues' rates as "weir p4 switch" takes them.
func (s *Switch) queueArguments() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(s.QueueRates)) {
		list = append(list, "--queue-rate", fmt.Sprintf("%s=%d", name, s.QueueRates[name]))
	}
	return list
}
