package fabric

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/event"
)

// Tree is the shape of a network of three layers: pods of top-of-rack and aggregation
// switches, all joined with each other, and a core, of which each switch has a link to
// each pod.
type Tree struct {
	Pods         int
	Racks        int // top-of-rack switches of a pod
	Aggregations int // aggregation switches of a pod
	Core         int // core switches, a multiple of Aggregations
	Hosts        int // of a rack
}

// PaperTree is the fat tree of HPCC's and PINT's evaluation: 16 core, 20 aggregation and 20
// top-of-rack switches, and 320 hosts.
var PaperTree = Tree{Pods: 5, Racks: 4, Aggregations: 4, Core: 16, Hosts: 16}

// Graph builds the switches; those of racks are its edge.
func (t Tree) Graph() (*netsim.Graph, error) {
	if min(t.Pods, t.Racks, t.Aggregations, t.Core, t.Hosts) < 1 || t.Core%max(t.Aggregations, 1) != 0 {
		return nil, fmt.Errorf("tree %+v: all sizes must be at least 1, and the core a multiple of a pod's aggregation switches", t)
	}
	var nodes []netsim.Node
	var links []netsim.Link
	add := func(edge bool, format string, a ...any) int {
		nodes = append(nodes, netsim.Node{ID: len(nodes) + 1, Label: fmt.Sprintf(format, a...), Edge: edge})
		return len(nodes) - 1
	}
	for c := range t.Core {
		add(false, "core%d", c)
	}
	each := t.Core / t.Aggregations
	for pod := range t.Pods {
		first := len(nodes)
		for j := range t.Aggregations {
			a := add(false, "agg%d.%d", pod, j)
			for c := range each {
				links = append(links, netsim.Link{A: j*each + c, B: a})
			}
		}
		for r := range t.Racks {
			tor := add(true, "tor%d.%d", pod, r)
			for j := range t.Aggregations {
				links = append(links, netsim.Link{A: first + j, B: tor})
			}
		}
	}
	return netsim.NewGraph(fmt.Sprintf("tree %dx%d", t.Pods, t.Racks), nodes, links)
}

// Config describes a network.
type Config struct {
	Graph     *netsim.Graph
	Hosts     int        // of each edge switch
	HostRate  uint64     // bits per second of the hosts' links
	TrunkRate uint64     // of the links between switches
	Delay     event.Time // of each link
	// Buffer is the memory of a switch in bytes, which all its queues share.
	Buffer int64
	// QueueLimit drops what finds more than that many bytes in its queue; 0: the buffer is
	// the only limit.
	QueueLimit int64
	// PFC pauses a link whose packets hold more than PFCShare of what the switch's buffer has
	// left, so that nothing is dropped. Each ingress has headroom for what is in flight meanwhile.
	PFC       bool
	Telemetry Telemetry
	// Seed chooses routes among equals, with the flow's hash.
	Seed uint64
}

// pfcShare is the share of the free buffer that one ingress may hold: HPCC's setting.
const pfcShare = 0.11

// resumeBelow is how far an ingress has to fall below its threshold until the link goes
// on, in bytes: two packets or so.
const resumeBelow = 3 * 1024

// maxPacket bounds a packet's bytes, for the headroom of PFC.
const maxPacket = 2048

func (c *Config) validate() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf("fabric: "+format, a...)) }
	if c.Graph == nil || len(c.Graph.EdgeNodes()) == 0 {
		fault("a graph with edge switches is missing")
	}
	if c.Hosts < 1 {
		fault("%d hosts at an edge switch: use at least 1", c.Hosts)
	}
	for _, rate := range []uint64{c.HostRate, c.TrunkRate} {
		if rate == 0 || uint64(8*event.Second)%rate != 0 {
			fault("rate %d bit/s: a byte must take a whole number of picoseconds", rate)
		}
	}
	if c.Delay < event.Nanosecond {
		fault("delay %d ps: use at least a nanosecond", c.Delay)
	}
	if c.Buffer < maxPacket || c.QueueLimit < 0 {
		fault("a buffer of %d bytes with queues of %d holds no packet", c.Buffer, c.QueueLimit)
	}
	return errors.Join(faults...)
}
