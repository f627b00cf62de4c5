package pipeline

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Stage is one worker's instance of a module. Process is called for one batch
// at a time, always on the same worker, with at least one packet in the batch.
//
// Process must skip packets that have a Reason, must not allocate, lock, log
// or block, and may append or reorder packets only through the batch's
// methods.
type Stage interface {
	Process(b *packet.Batch)
}

// Module is a configured stage of one switch. Its tables are written by
// control alone and read by all workers' stages without a lock.
type Module interface {
	// Role says where in a graph the module may be.
	Role() Role
	// Needs says what the parser must compute for it.
	Needs() packet.Needs
	// Stage makes worker w's instance, 0 <= w < Env.Workers. It is called once
	// per worker, before any packet of the module.
	Stage(w int) Stage
}

// Steerer is a Module that gives packets a home: the one worker that has the state of their connection. Where a switch has several workers, the
// stages in front of it run on the worker that received a packet; there the packet is handed over, and the module's stage and those
// after it run on its home worker. A graph has one such module at most.
type Steerer interface {
	// Steer writes the home of each packet of a batch, by index, into homes, which is as long as the batch: w for those that stay, as dropped ones do. It is called on
	// worker w, in front of its stage, and must not change packets. from is the worker that handed the batch over, or w for what w received: a packet is handed
	// over twice at most.
	Steer(w int, b *packet.Batch, from int, homes []uint8)
}

// Explainer is a Stage that can say in words what it did to a packet. It is
// asked only for traced packets, after Process, on the worker.
type Explainer interface {
	Explain(b *packet.Batch, p *packet.Packet) string
}

// Ticker is a Stage with work by the clock: the edge of an epoch, a bucket to
// refill. Both methods are called on the worker, between batches; times are
// nanoseconds of CLOCK_TAI.
type Ticker interface {
	// Tick is called before the first batch, before every batch whose clock is
	// at or past what the call before returned, and soon after that time while
	// the worker idles. If the clock was set back behind the last call, the call
	// comes at once, with a now that is smaller than the one before.
	Tick(now int64) (next int64)
	// Finish is called once, behind the last batch, or behind that after which the
	// stage has left the graph: the stage hands over what it has measured.
	Finish(now int64)
}

// Emitter is a Ticker with packets that no other packet brings about, as announcements at intervals are.
type Emitter interface {
	Ticker
	// Emit appends the packets that are due, by Batch.Originate. It is called on the worker soon after each round of Tick, with
	// an empty batch whose clock is set. What it appends leaves by its output port as it is: no stage sees it.
	Emit(b *packet.Batch)
}

// Metered is a Module with counters or gauges in addition to those that the
// graph keeps of every stage. Metrics may be called from anywhere, while
// packets flow.
type Metered interface {
	Metrics(emit func(Metric))
}

// Metric is one value that a module shows. Name and Labels together are unique
// in the module.
type Metric struct {
	// Name in the form of Prometheus, with its unit, without the stage's name in
	// front: "sunk_packets_total" of stage pint becomes
	// weir_pint_sunk_packets_total.
	Name string
	// Help says in one clause what it is.
	Help string
	// Labels are pairs of name and value: {"port", "p0"}. May be nil.
	Labels [][2]string
	Value  float64
	// Gauge: the value can fall. Counters, which cannot, end in "_total".
	Gauge bool
}

// Background is a Module with work beside the packet path (learning, ageing).
// Run works until stop is closed.
type Background interface {
	Run(stop <-chan struct{})
}

// PortFollower is a Module that follows what ports become by themselves, beside
// changes of the configuration. FollowPorts may be called from anywhere, while packets
// flow, but not while the module's configuration changes: the numbers and names are those that
// the module knows, and MaxFrame, BitsPerSecond and Down those of now.
type PortFollower interface {
	FollowPorts(ports []Port)
}

// Blocker is a Module that blocks ports for some time, as guards against loops do.
type Blocker interface {
	// Blocks returns the ports that are blocked now. It may be called from anywhere, while packets flow.
	Blocks() []Block
	// OnBlock sets what is called once for each block that begins, by the module's Run. It is called before Run.
	OnBlock(func(Block))
}

// Block is a port that a module blocks.
type Block struct {
	Port   string
	Reason packet.Reason // of the packets that are dropped there
	Left   time.Duration // until the port is open again
}

// LargeTaker is a Module whose stages do with a large packet (packet.Large) what they would do with each of its segments, and
// count it as one packet of its whole length. Where a module of a graph is not, ports cut large packets as they arrive.
type LargeTaker interface {
	TakesLarge() bool
}

// TakesLarge reports whether all modules of a graph take large packets.
func TakesLarge(chain []Named) bool {
	for _, n := range chain {
		if m, ok := n.Module.(LargeTaker); !ok || !m.TakesLarge() {
			return false
		}
	}
	return true
}

// Route is a prefix of a router's table, and the ports by which packets to it leave, each once.
type Route struct {
	Prefix netip.Prefix
	Ports  []uint16
	// Gateway: the prefix is behind other routers, or hosts, and not on the port itself.
	Gateway bool
}

// Router is a Module with a table of routes. Both methods may be called from anywhere.
type Router interface {
	// RouteVersion is another one after each change of the routes.
	RouteVersion() uint64
	RouteList() []Route
}

// RouteFollower is a Module that follows the routes of the graph's Router. FollowRoutes is called before Stage if there is one, and again, while packets
// flow, when the graph has another Router, or none any more (nil).
type RouteFollower interface {
	FollowRoutes(r Router)
}

// Copier is a Module whose stage makes more copies of a packet than there are ports.
type Copier interface {
	// Copies is how many it makes at most.
	Copies() int
}

// Joined is a Module that works with others of its graph. Join is called with the checked graph before Stage, and again when the graph becomes
// another one; no worker is in a batch then, so it must be quick. It looks at the others, and changes nothing of those that can be in another
// graph already; what it found in a graph before is forgotten.
type Joined interface {
	Join(chain []Named) error
}

// Join has the modules of a graph that work with others join them, and reports all faults.
func Join(chain []Named) error {
	var errs []error
	for _, n := range chain {
		if j, ok := n.Module.(Joined); ok {
			if err := j.Join(chain); err != nil {
				errs = append(errs, fmt.Errorf("stage %q: %w", n.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Translator is a Module whose stages give packets other addresses, in front of a router.
type Translator interface {
	// Restore gives an IPv4 packet, from its header on, the addresses and ports that it arrived with, if worker w's stage has changed them. It
	// may be cut behind the first eight bytes of the transport header. inPort is the port of arrival. It is called on the worker, for ICMP errors that quote
	// the packet.
	Restore(w int, inPort uint16, ip []byte) bool
}

// Bridge is a forwarding Module in front of a router of the same graph. As it joins the graph it asks the router for its ports.
type Bridge interface {
	// Route says which ports the router has, after each change of these. It may be called from anywhere, while packets flow; from a router that the
	// bridge's graph does not have it has no effect.
	Route(ports []RoutedPort)
}

// PortRouter is a Router behind a Bridge.
type PortRouter interface {
	// RoutedPorts are the ports that the router has now. It may be called from anywhere.
	RoutedPorts() []RoutedPort
}

// RoutedPort is a port of a router: of the bridge too if it is a routed interface (Port.Routed), else of the router alone.
type RoutedPort struct {
	Port uint16
	MAC  [6]byte
}

// Follower is a forwarding Module that may be directly behind another one, which the graph calls name. If always, it must be.
type Follower interface {
	Follows() (name string, always bool)
}

// PortOwner is a Module with ports that a bridge of its graph has no part in. The bridge asks for them, by name, as it joins the graph.
type PortOwner interface {
	OwnPorts() []string
}

// Env is what a module gets when its switch is built.
type Env struct {
	Name    string // the switch's name
	ID      uint32 // the switch's number in the network
	Ports   []Port // by port number
	Workers int    // number of workers
	Needs   packet.Needs
	Hash    hash.Family // of packet ids, flows and all that is drawn from them
	// Shared: another process may take the switch over, so what a Handed module has is in memory that can be shared, where HugePages says so in
	// huge pages. Audit checks all of it before it is taken over.
	Shared, HugePages, Audit bool
}

// Port is a port as stages see it. Its number is its index in Env.Ports, for as long
// as the switch runs.
type Port struct {
	Name string // empty: there is no port of this number any more, or not yet
	// MaxFrame is the longest packet that the port sends, in bytes without FCS. It has
	// room for a VLAN tag beyond the MTU.
	MaxFrame int
	// MTU is the interface's, in bytes behind the Ethernet header; 0 if that is not known.
	MTU int
	// BitsPerSecond is the speed of the link, 0 if that is not known.
	BitsPerSecond uint64
	// TxRing is how many packets can wait in a worker's transmit queue of the
	// port, 0 if that is not known.
	TxRing int
	// Down: the port cannot carry packets now, as its link is down or its interface is gone.
	Down bool
	// VLAN is set of a VLAN subinterface: its packets are those of the port Parent with a tag of this VLAN. With Inner they have
	// a second tag behind it, of that VLAN. TPID is the type of the outer tag when they leave.
	Parent, VLAN, Inner, TPID uint16
	// Routed: the port is a routed interface of a bridge domain, by which the bridge and the router of the switch speak to each other.
	Routed bool
	// MAC is the device's address, zero where it has none.
	MAC [6]byte
	// Bond is set of a bond.
	Bond Bond
	// Member is the name of a member of a bond, and Of that bond's number. Its Name is empty: for all stages but those of bonds there is
	// the bond alone.
	Member string
	Of     uint16
}

// Device is the name by which the configuration knows the port, also of a bond's member.
func (p *Port) Device() string {
	if p.Name == "" {
		return p.Member
	}
	return p.Name
}

// Devices returns the names of ports by number, those of bonds' members among them.
func Devices(ports []Port) []string {
	names := make([]string, len(ports))
	for i := range ports {
		names[i] = ports[i].Device()
	}
	return names
}

// PortNames returns the names of ports by number. A port that the switch has no more
// has the number still, and no name.
func PortNames(ports []Port) []string {
	names := make([]string, len(ports))
	for i := range ports {
		names[i] = ports[i].Name
	}
	return names
}

// Announcer is a Module that knows stations. Announce calls send with frames, as they would arrive at the port, that are
// to leave by the port so that switches there learn anew where the stations are that speak by it. It may be called from anywhere.
type Announcer interface {
	Announce(port uint16, send func(frame []byte))
}

// Originator is a Module that sends frames of its own, beside the packets that Process has. SetSend is called once, before Run. send has frames leave by
// a port, past all stages, and returns how many left; it may be called by any goroutine but a worker's, and blocks
// until a worker has them.
type Originator interface {
	SetSend(send func(port uint16, frames ...[]byte) int)
}

// Role is a module's position in the graph. Stages are in the order of their
// roles.
type Role int

// The roles, in graph order.
const (
	RoleParse   Role = iota // fills the packets' metadata; exactly one, first
	RoleIngress             // measures what arrived
	RolePolicy              // permits or drops
	RoleForward             // chooses the output port; exactly one, or a bridge with a router
	RoleEgress              // measures or changes what leaves
)

func (r Role) String() string {
	return [...]string{"parse", "ingress", "policy", "forward", "egress"}[r]
}
