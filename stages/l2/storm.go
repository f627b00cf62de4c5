package l2

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline/limiter"
	"github.com/weirswitch/weir/pipeline/packet"

	"github.com/weirswitch/weir/pipeline"
)

// reasonStorm is the drop reason of flooded packets beyond a port's limits.
var reasonStorm = packet.Register("storm", "the input port's limit of broadcasts, multicasts or unknown destinations was exceeded")

// Storm limits what a port may have flooded, [[stages.l2.storm]], in packets
// per second of each kind. 0 sets no limit. A tenth of the rate may come at once,
// and at least ten packets. A large packet is as many packets as it has segments, but the
// last one that a limit lets pass is whole.
type Storm struct {
	Port      string `toml:"port"`                // where the packets arrive
	Broadcast int    `toml:"broadcast,omitempty"` // to all stations
	Multicast int    `toml:"multicast,omitempty"` // all other groups
	Unknown   int    `toml:"unknown,omitempty"`   // stations that were never seen, or long ago
}

// Bounds of storm control, in packets and packets per second.
const (
	maxStorm   = 100_000_000
	stormBurst = 10
)

// The limits of ports without an entry, in packets per second: far more than a network's ARP and discovery take, a gigabit per second of
// multicast video (1,316-byte datagrams), and a station that is heard too seldom; far less than what keeps a worker busy with copies.
const (
	defaultBroadcast = 10_000
	defaultMulticast = 100_000
	defaultUnknown   = 50_000
)

// The kinds of packets that are flooded.
const (
	stormBroadcast = iota
	stormMulticast
	stormUnknown
	stormKinds
)

var stormNames = [stormKinds]string{"broadcast", "multicast", "unknown"}

// stormRates are packets per second by kind, 0 for no limit.
type stormRates [stormKinds]int

func (c *Storm) rates() stormRates { return stormRates{c.Broadcast, c.Multicast, c.Unknown} }

func (r stormRates) check(prefix string, f *faults) {
	for kind, rate := range r {
		if rate < 0 || rate > maxStorm {
			f.add("%s%s: %d: choose 1 to %d packets per second, or 0 for no limit", prefix, stormNames[kind], rate, maxStorm)
		}
	}
}

// limits returns full limits of one port; rates out of range set none.
func (r stormRates) limits() *storm {
	s := &storm{}
	for kind, rate := range r {
		if rate > 0 {
			s[kind].Set(uint64(rate), uint64(max(rate/10, stormBurst)))
		}
	}
	return s
}

// planStorms returns the limits by port number, those of all ports where there is no entry.
func (c *Config) planStorms(ports []string, f *faults) []*storm {
	all := stormRates{c.StormBroadcast, c.StormMulticast, c.StormUnknown}
	all.check("storm_", f)
	present := 0
	for _, name := range ports {
		if name != "" { // a port that is gone keeps its number
			present++
		}
	}
	if present <= 2 {
		all[stormUnknown] = 0
	}
	storms := make([]*storm, len(ports))
	for i := range storms {
		storms[i] = all.limits()
	}
	first := map[string]int{}
	for i := range c.Storms {
		e, key := &c.Storms[i], fmt.Sprintf("storm[%d]", i)
		number := slices.Index(ports, e.Port)
		if number < 0 {
			f.add("%s.port: %w", key, pipeline.UndefinedPort(e.Port))
		}
		if before, ok := first[e.Port]; ok {
			f.add("%s.port: port %q is already limited by storm[%d]: join the two", key, e.Port, before)
		}
		first[e.Port] = i
		e.rates().check(key+".", f)
		if number >= 0 {
			storms[number] = e.rates().limits()
		}
	}
	return storms
}

// storm is the limits of a port, which its workers share.
type storm [stormKinds]limiter.Bucket

func stormKind(p *packet.Packet) int {
	switch {
	case p.Flags.Has(packet.FlagBroadcast):
		return stormBroadcast
	case p.Flags.Has(packet.FlagMulticast):
		return stormMulticast
	}
	return stormUnknown
}

// limitStorm drops of the batch's n marked packets those beyond the limits of
// the port on which they all arrived, the last ones of each kind, and returns how
// many are left.
func (s *stage) limitStorm(b *packet.Batch, n int) int {
	if b.Entered != 0 {
		return s.limitEach(b, n)
	}
	limits := s.storms[b.Pkts[0].InPort]
	var want, left [stormKinds]uint64
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && p.OutPort == flooded {
			want[stormKind(p)] += b.Segments(p)
		}
	}
	for kind := range left {
		if want[kind] != 0 {
			left[kind] = limits[kind].Take(b.Now, want[kind])
		}
	}
	if left == want {
		return n
	}
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 || p.OutPort != flooded {
			continue
		}
		kind := stormKind(p)
		if left[kind] != 0 {
			left[kind] -= min(left[kind], b.Segments(p))
			continue
		}
		b.Drop(p, reasonStorm)
		s.stormed[kind].Add(1)
		n--
	}
	return n
}

// limitEach is limitStorm of a batch whose packets arrived on several ports.
func (s *stage) limitEach(b *packet.Batch, n int) int {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && p.OutPort == flooded && !s.mayFlood(b, p, p.InPort) {
			n--
		}
	}
	return n
}

// mayFlood drops a packet that is to be flooded from a port, unless the port's limit admits it.
func (s *stage) mayFlood(b *packet.Batch, p *packet.Packet, from uint16) bool {
	kind := stormKind(p)
	if s.storms[from][kind].Take(b.Now, b.Segments(p)) != 0 {
		return true
	}
	b.Drop(p, reasonStorm)
	s.stormed[kind].Add(1)
	return false
}
