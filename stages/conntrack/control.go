package conntrack

import (
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline"
)

// PortCounters are what a port has in the table, and counts since the start.
type PortCounters struct {
	Port, Group                     string // Group is empty for a port of none
	Connections, Unconfirmed, Share uint64 // that the port began
	Begun, Evicted, Expired         uint64 // connections
	Denied, Full                    uint64 // packets
	Blocks                          uint64 // of outside ports, which the inside addresses of the port have
	Exhausted                       uint64 // first packets for which there was no outside port
}

// OutsideCounters are what is given out of an outside address.
type OutsideCounters struct {
	Address            netip.Addr
	Blocks, UsedBlocks uint64 // of ports
	Mappings           uint64 // outside ports in use, of each kind
}

// Outside returns the counts of the outside addresses, as of the workers' last report.
func (m *Module) Outside() []OutsideCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []OutsideCounters
	for _, s := range m.stages {
		all := s.outside.Load()
		if all == nil {
			continue
		}
		for _, c := range *all {
			if i := slices.IndexFunc(out, func(o OutsideCounters) bool { return o.Address == c.Address }); i >= 0 {
				out[i].add(&c)
			} else {
				out = append(out, c)
			}
		}
	}
	return out
}

// add sums the counts of another worker into those of one.
func (c *OutsideCounters) add(o *OutsideCounters) {
	c.Blocks += o.Blocks
	c.UsedBlocks += o.UsedBlocks
	c.Mappings += o.Mappings
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
			if i := slices.IndexFunc(out, func(o PortCounters) bool { return o.Port == c.Port }); i >= 0 {
				out[i].add(&c)
			} else if c.Port != "" {
				out = append(out, c)
			}
		}
	}
	return out
}

// add sums the counts of another worker into those of one.
func (c *PortCounters) add(o *PortCounters) {
	c.Connections += o.Connections
	c.Unconfirmed += o.Unconfirmed
	c.Share += o.Share
	c.Begun += o.Begun
	c.Evicted += o.Evicted
	c.Expired += o.Expired
	c.Denied += o.Denied
	c.Full += o.Full
	c.Blocks += o.Blocks
	c.Exhausted += o.Exhausted
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
		if m.natted {
			gauge("nat_blocks", "blocks of outside ports that inside addresses of the port have", c.Blocks)
			count("nat_exhausted_packets_total", "first packets for which no outside port was free", c.Exhausted)
		}
	}
	for _, o := range m.Outside() {
		gauge := func(name, help string, v uint64) {
			emit(pipeline.Metric{Name: name, Help: help, Labels: [][2]string{{"address", o.Address.String()}}, Value: float64(v), Gauge: true})
		}
		gauge("nat_outside_blocks", "blocks of ports that the outside address has", o.Blocks)
		gauge("nat_outside_used_blocks", "of these, those that inside addresses have", o.UsedBlocks)
		gauge("nat_outside_mappings", "mappings of the outside address, of TCP, UDP and ICMP queries", o.Mappings)
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
