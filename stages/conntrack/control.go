package conntrack

import "github.com/weirswitch/weir/pipeline"

// PortCounters are what a port has in the table, and counts since the start.
type PortCounters struct {
	Port, Group                     string // Group is empty for a port of none
	Connections, Unconfirmed, Share uint64 // that the port began
	Begun, Evicted, Expired         uint64 // connections
	Denied, Full                    uint64 // packets
}

// Counters returns the counts of the ports, as of the workers' last report: they make one 60 times in a second, when idle 15 times.
func (m *Module) Counters() []PortCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []PortCounters
	for _, s := range m.stages {
		all := s.counters.Load()
		if all == nil {
			continue
		}
		for _, c := range *all {
			if c.Port != "" {
				out = append(out, c)
			}
		}
	}
	return out
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	for _, c := range m.Counters() {
		labels := [][2]string{{"port", c.Port}}
		gauge := func(name, help string, v uint64) {
			emit(pipeline.Metric{Name: name, Help: help, Labels: labels, Value: float64(v), Gauge: true})
		}
		count := func(name, help string, v uint64) {
			emit(pipeline.Metric{Name: name, Help: help, Labels: labels, Value: float64(v)})
		}
		gauge("connections", "connections that the port began, expired ones for up to 8 s", c.Connections)
		gauge("unconfirmed_connections", "of these, those that a new one may displace", c.Unconfirmed)
		gauge("connections_share", "most connections that the port may have begun", c.Share)
		count("begun_connections_total", "connections begun from the port", c.Begun)
		count("evicted_connections_total", "unconfirmed connections displaced by new ones of the port", c.Evicted)
		count("expired_connections_total", "connections of the port whose time was over", c.Expired)
		count("denied_packets_total", "packets that the port's security group denied", c.Denied)
		count("full_packets_total", "first packets for which the port's share had no room", c.Full)
	}
}

func (s *stage) portName(n uint16) string {
	if int(n) >= len(s.names) {
		return ""
	}
	return s.names[n]
}

func (e *entry) stateName() string {
	switch {
	case e.key.proto() == 6:
		return stateNames[e.state]
	case e.flags&flagReplied != 0:
		return "answered"
	}
	return "unanswered"
}
