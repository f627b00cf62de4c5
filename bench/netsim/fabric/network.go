package fabric

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Network is a network in motion.
type Network struct {
	config Config
	pool
	queue event.Queue
	now   event.Time

	links    []link
	switches []switchState
	meters   []meter // by link, if PINT or INT-MD runs
	routes   []route

	paths  *netsim.Routes
	edge   []int             // nodes with hosts
	trunks map[[2]int]uint32 // links between switches, by nodes
	counts Counts
}

// Counts are what became of packets. Injected is the sum of Delivered, Dropped and those
// in the network, in packets and in bytes; control frames of PFC are separate.
type Counts struct {
	Injected, Delivered, Dropped                uint64
	InjectedBytes, DeliveredBytes, DroppedBytes uint64
	Pauses                                      uint64 // frames that pause
	Events                                      uint64
	LargestQueue, LargestBuffer                 int64
}

// link is one direction of a cable, with the queue in front of it.
type link struct {
	perByte, delay event.Time
	freeAt         event.Time // when what is being sent is sent
	queue, flying  fifo
	queued         int64 // bytes in the queue
	sent           uint64
	held           int64 // bytes in the buffer behind the link that came by it
	from, to       int32 // nodes; hosts count behind the switches
	reverse        uint32
	waiting        bool // an event will come when the link is free
	paused         bool // by the node behind it
	pausing        bool // the node behind it has asked so
}

type switchState struct {
	used     int64 // bytes in the buffer
	headroom int64 // kept for what arrives while pauses are in flight
}

// route is a flow's path: links, the host's first.
type route struct {
	links [MaxRoute]uint32
	n     uint8
}

// New builds a network at rest.
func New(c Config) (*Network, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	n := &Network{config: c, pool: newPool(&c.Telemetry), paths: netsim.NewRoutes(c.Graph), edge: c.Graph.EdgeNodes(), trunks: map[[2]int]uint32{}}
	n.switches = make([]switchState, len(c.Graph.Nodes))
	// The hosts' links first: link 2h is from host h, 2h+1 to it.
	for h := range n.Hosts() {
		n.cable(len(n.switches)+h, n.edgeOf(h), c.HostRate)
	}
	for _, l := range c.Graph.Links {
		n.trunks[[2]int{l.A, l.B}], n.trunks[[2]int{l.B, l.A}] = n.cable(l.A, l.B, c.TrunkRate)
	}
	if 2*len(n.links) > event.MaxID/2 {
		return nil, fmt.Errorf("fabric: %d links are more than events can name", len(n.links))
	}
	for i := range n.links {
		l := &n.links[i]
		if n.isHost(l.to) {
			continue
		}
		// Until a pause takes effect: a packet in front of it, the way there, a packet that is being
		// sent, and the way back.
		n.switches[l.to].headroom += int64(2*(l.delay+maxPacket*l.perByte)/l.perByte) + maxPacket
	}
	var faults []error
	for i := range n.switches {
		if s := &n.switches[i]; c.PFC && s.headroom > c.Buffer/2 {
			faults = append(faults, fmt.Errorf("fabric: switch %d needs headroom of %d bytes, more than half of its buffer: use a larger buffer, or no PFC", i, s.headroom))
		}
	}
	faults = append(faults, n.addMeters())
	return n, errors.Join(faults...)
}

func (n *Network) addMeters() error {
	t := &n.config.Telemetry
	if t.INTMD != nil {
		if err := t.INTMD.Validate(); err != nil {
			return fmt.Errorf("fabric: %w", err)
		}
	}
	if t.PINT == nil && t.INTMD == nil {
		return nil
	}
	n.meters = make([]meter, len(n.links))
	fresh := map[event.Time]meter{} // copies share their tables, which so stay in the cache
	for i := range n.links {
		l := &n.links[i]
		if n.isHost(l.from) {
			continue
		}
		m, ok := fresh[l.perByte]
		if !ok {
			var err error
			if m, err = t.newMeter(uint64(8 * event.Second / l.perByte)); err != nil {
				return err
			}
			fresh[l.perByte] = m
		}
		m.seen[pint.SwitchID] = uint64(n.config.Graph.Nodes[l.from].ID)
		n.meters[i] = m
	}
	return nil
}

// cable adds the links between two nodes.
func (n *Network) cable(a, b int, rate uint64) (there, back uint32) {
	there, back = uint32(len(n.links)), uint32(len(n.links)+1)
	nothing := fifo{none, none}
	l := link{perByte: 8 * event.Second / event.Time(rate), delay: n.config.Delay, queue: nothing, flying: nothing}
	l.from, l.to, l.reverse = int32(a), int32(b), back
	n.links = append(n.links, l)
	l.from, l.to, l.reverse = int32(b), int32(a), there
	n.links = append(n.links, l)
	return there, back
}

func (n *Network) isHost(node int32) bool { return int(node) >= len(n.switches) }

// Hosts is the number of hosts; those of a rack have numbers in a row.
func (n *Network) Hosts() int { return len(n.edge) * n.config.Hosts }

func (n *Network) edgeOf(host int) int { return n.edge[host/n.config.Hosts] }

// Now is the time of the last event.
func (n *Network) Now() event.Time { return n.now }

// Counts returns what became of packets so far.
func (n *Network) Counts() Counts { return n.counts }

// Route lays out the path of a flow between two hosts: at each switch, its hash picks one of
// the next hops of equal cost (netsim.Routes.Path).
func (n *Network) Route(from, to int, flow uint64) (uint32, error) {
	if from == to || min(from, to) < 0 || max(from, to) >= n.Hosts() {
		return 0, fmt.Errorf("fabric: no route from host %d to %d: there are %d", from, to, n.Hosts())
	}
	path, err := n.paths.Path(n.edgeOf(from), n.edgeOf(to), hash.Uint64x2(n.config.Seed, flow, 'R'))
	if err != nil {
		return 0, err
	}
	if len(path)+1 > MaxRoute {
		return 0, fmt.Errorf("fabric: a route of %d links from host %d to %d: at most %d", len(path)+1, from, to, MaxRoute)
	}
	r := route{n: uint8(len(path) + 1)}
	r.links[0] = uint32(2 * from)
	for i := 1; i < len(path); i++ {
		r.links[i] = n.trunks[[2]int{path[i-1], path[i]}]
	}
	r.links[len(path)] = uint32(2*to + 1)
	n.routes = append(n.routes, r)
	return uint32(len(n.routes) - 1), nil
}

// PerByte is the time that a byte takes on the slowest link of a route.
func (n *Network) PerByte(id uint32) event.Time {
	r, most := &n.routes[id], event.Time(0)
	for _, l := range r.links[:r.n] {
		most = max(most, n.links[l].perByte)
	}
	return most
}

// Unloaded is how long n packets of the given bytes, the last of which has lastBytes, take
// along a route on which nothing else is, sent without a gap.
func (n *Network) Unloaded(id uint32, packets int64, bytes, lastBytes uint32) event.Time {
	// Departures from each link: a packet begins when it is there and the link is free. Between
	// packets of one size the spacing is that of the slowest link so far.
	r := &n.routes[id]
	var first, last event.Time // when the first packet and the last but one are behind a link
	var end event.Time         // and the last one
	for _, at := range r.links[:r.n] {
		l := &n.links[at]
		whole := l.perByte * event.Time(bytes)
		if packets > 1 {
			first += whole
			last = max(first+event.Time(packets-2)*whole, last+whole)
		}
		end = max(end, last) + l.perByte*event.Time(lastBytes)
		first, last, end = first+l.delay, last+l.delay, end+l.delay
	}
	return end
}

// LinkRate is a link's rate in bytes per second, and LinkSent what it sent.
func (n *Network) LinkRate(l uint32) float64 {
	return float64(event.Second) / float64(n.links[l].perByte)
}

// LinkSent is the bytes that a link has sent.
func (n *Network) LinkSent(l uint32) uint64 { return n.links[l].sent }
