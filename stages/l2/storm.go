package l2

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline/limiter"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonStorm is the drop reason of flooded packets beyond a port's limits.
var reasonStorm = packet.Register("storm", "the input port's limit of broadcasts, multicasts or unknown destinations was exceeded")

// Storm limits what a port may have flooded, [[stages.l2.storm]], in packets
// per second of each kind. 0 sets no limit. A tenth of the rate may come at once,
// and at least ten packets.
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

// The kinds of packets that are flooded.
const (
	stormBroadcast = iota
	stormMulticast
	stormUnknown
	stormKinds
)

var stormNames = [stormKinds]string{"broadcast", "multicast", "unknown"}

func (c *Storm) rates() [stormKinds]int { return [stormKinds]int{c.Broadcast, c.Multicast, c.Unknown} }

// planStorms turns the storm entries into limits by port number, nil for ports
// without. The limits are full.
func (c *Config) planStorms(ports []string, f *faults) []*storm {
	storms := make([]*storm, len(ports))
	first := map[string]int{}
	for i := range c.Storms {
		e, key := &c.Storms[i], fmt.Sprintf("storm[%d]", i)
		number := slices.Index(ports, e.Port)
		if number < 0 {
			f.add("%s.port: port %q is not defined: define [[port]] name = %q or correct the name", key, e.Port, e.Port)
		}
		if before, ok := first[e.Port]; ok {
			f.add("%s.port: port %q is already limited by storm[%d]: join the two", key, e.Port, before)
		}
		first[e.Port] = i
		limited := false
		s := &storm{}
		for kind, rate := range e.rates() {
			limited = limited || rate != 0
			if rate < 0 || rate > maxStorm {
				f.add("%s.%s: %d: choose 1 to %d packets per second, or 0 for no limit", key, stormNames[kind], rate, maxStorm)
				continue
			}
			if rate != 0 {
				s[kind].Set(uint64(rate), uint64(max(rate/10, stormBurst)))
			}
		}
		if !limited {
			f.add("%s: port %q has no limit: set broadcast, multicast or unknown, or remove the entry", key, e.Port)
		}
		if number >= 0 {
			storms[number] = s
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
	limits := s.storms[b.Pkts[0].InPort]
	if limits == nil {
		return n
	}
	var want, left [stormKinds]uint64
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && p.OutPort == flooded {
			want[stormKind(p)]++
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
			left[kind]--
			continue
		}
		b.Drop(p, reasonStorm)
		s.stormed[kind].Add(1)
		n--
	}
	return n
}
