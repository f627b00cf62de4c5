package pint

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
)

// count is one of the stage's counters.
type count uint8

// What becomes of a packet: exactly one of these, so they add up to packets.
const (
	sourced     count = iota
	transited         // the next hop was written
	sunk              // the digest was taken out
	local             // from edge to edge: source and sink at once
	leftBare          // transit or sink, and no digest
	leftMTU           // source, transit: with a shim it would exceed what the port sends
	leftRoom          // source: no room in the frame, in front of the packet
	leftOther         // ipid: not IPv4, no DF, or a fragment
	leftNonzero       // ipid: a host numbers its datagrams, and they are to stay
	leftOwn           // made by the switch itself: it has no packet id
	leftLooping       // dropped by drop_loops
	leftForged        // dropped: a host's frame that the network would take for its own

	numFates
)

// What is counted beside.
const (
	unknownPlan  = numFates + iota // of transited and sunk: no such plan, the digest stays
	hopSaturated                   // of transited and sunk: hop 255 stays
	hopUnknown                     // ipid: the TTL is no hop number
	loopsFound
	recorded // pushed to the ring
	ringFull // records lost

	numProgramCounts // those before are a P4 program's, too
)

// Of messages to sources.
const (
	feedbacks     = numProgramCounts + iota // sent
	feedbacksLost                           // no frame was free, or no room in the batch
	// leftSpared is what became of a packet, too: its source was not to give it a digest.
	leftSpared
	unread // of local: not recorded, as the sink reads a share
	missed // packets for which lost records were
	numCounts
)

var countTexts = [numCounts]struct{ name, reason, help string }{
	sourced:       {"sourced_packets_total", "", "packets that begin here and leave with a digest"},
	transited:     {"transited_packets_total", "", "packets to whose digest the switch wrote in passing"},
	sunk:          {"sunk_packets_total", "", "packets that end here and left without their digest"},
	local:         {"local_packets_total", "", "packets from edge to edge, recorded without a digest on a wire"},
	leftBare:      {"left_packets_total", "bare", "packets left alone, by reason: bare has no digest, mtu and headroom no room, other is no atomic IPv4 datagram, nonzero has an identification that must stay, spared is behind the first of its flow, own was made by the switch itself; looping and host_shim were dropped"},
	leftMTU:       {"left_packets_total", "mtu", ""},
	leftRoom:      {"left_packets_total", "headroom", ""},
	leftOther:     {"left_packets_total", "other", ""},
	leftNonzero:   {"left_packets_total", "nonzero", ""},
	leftOwn:       {"left_packets_total", "own", ""},
	leftLooping:   {"left_packets_total", "looping", ""},
	leftForged:    {"left_packets_total", "host_shim", ""},
	unknownPlan:   {"unknown_plan_packets_total", "", "packets with a digest of a plan that the switch does not know"},
	hopSaturated:  {"saturated_packets_total", "", "packets that passed more than 255 hops"},
	hopUnknown:    {"unknown_hop_packets_total", "", "packets whose TTL is no hop number"},
	loopsFound:    {"loop_packets_total", "", "packets that were found to loop"},
	recorded:      {"records_total", "", "digests taken off packets, or of packets found to loop"},
	feedbacks:     {"feedback_packets_total", "", "packets sent to sources about the use of their paths"},
	feedbacksLost: {"lost_feedback_packets_total", "", "such packets for which no frame was free, or no room in the batch"},
	leftSpared:    {"left_packets_total", "spared", ""},
	unread:        {"unread_packets_total", "", "of the local packets, those that were not recorded, as a sink that condenses reads a share of them"},
	ringFull:      {"lost_records_total", "", "digests that found the ring to the exporter full"},
	missed:        {"missed_packets_total", "", "packets whose digests found the ring to the exporter full: a digest of a share is for as many as the share says"},
}

// counters are one worker's. The worker counts in plain memory and publishes
// behind each batch, so the packet path pays for what moved, once per batch.
type counters struct {
	now       [numCounts]uint64
	published [numCounts]atomic.Uint64
}

func (c *counters) publish() {
	for i := range c.now {
		if n := c.now[i]; n != c.published[i].Load() {
			c.published[i].Store(n)
		}
	}
}

// publishOne is publish where no other counter moved.
func (c *counters) publishOne(i count) { c.published[i].Store(c.now[i]) }

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	packets := uint64(0)
	var sum [numCounts]uint64
	for _, s := range m.stages {
		for i := range sum {
			sum[i] += s.counters.published[i].Load()
		}
	}
	for _, n := range sum[:numFates] {
		packets += n
	}
	packets += sum[leftSpared]
	emit(pipeline.Metric{Name: "packets_total", Help: "packets that reached the stage alive", Value: float64(packets)})
	help := ""
	for i, t := range countTexts {
		if t.name == "" {
			continue
		}
		metric := pipeline.Metric{Name: t.name, Help: t.help, Value: float64(sum[i])}
		if t.reason != "" {
			if t.help != "" {
				help = t.help
			}
			metric.Help, metric.Labels = help, [][2]string{{"reason", t.reason}}
		}
		emit(metric)
	}
	for _, p := range m.Plans() {
		emit(pipeline.Metric{
			Name: "plan", Help: "1 for each live plan, with a digest of its file: switches of a network must have the same digests", Value: 1, Gauge: true,
			Labels: [][2]string{{"id", strconv.Itoa(int(p.ID))}, {"digest", fmt.Sprintf("%016x", p.Digest)}},
		})
	}
	m.outboxMetrics(emit)
}
