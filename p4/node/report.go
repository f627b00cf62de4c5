package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/p4/tables"
	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint"
)

// finalReport is taken when all packets have left the switch. The last records are made behind it, so all that it counts
// is in them, or counted with why not.
func finalReport(take func() (*api.ReportResponse, error), records *recorder) (*api.ReportResponse, error) {
	r, err := settled(take)
	if err := errors.Join(err, records.stop()); err != nil {
		return nil, err
	}
	records.report(r)
	return r, nil
}

// report is what the interfaces counted, and what the program did. What became of records is not in it.
func (n *Node) report() (*api.ReportResponse, error) {
	r := &api.ReportResponse{
		Name: n.config.Switch.Name, Id: n.config.Switch.ID, Frames: &api.Frames{},
	}
	for i := range n.config.Ports {
		p := &n.config.Ports[i]
		c, err := n.here.Counters(p.Interface)
		if err != nil {
			return nil, err
		}
		before := n.begin[p.Interface]
		port := &api.Port{
			Name: p.Name, Interface: p.Interface, Driver: "bmv2", Mode: "bmv2", Queues: 1, Up: true,
			Received: c.RxPackets - before.RxPackets, Transmitted: c.TxPackets - before.TxPackets, RxDropped: c.RxDropped - before.RxDropped,
		}
		r.Ports = append(r.Ports, port)
		r.Modes = append(r.Modes, p.Name+": bmv2")
		r.Received += port.Received
		r.Forwarded += port.Transmitted
	}
	err := fates(r, func(name string, index int) (uint64, error) {
		packets, _, err := n.sw.Counter(name, index)
		return packets, err
	})
	if err != nil {
		return nil, err
	}
	add := func(stage, name string, value uint64) {
		r.Metrics = append(r.Metrics, &api.Metric{Stage: stage, Name: name, Value: float64(value)})
	}
	if _, ok := n.ports.Learning(); ok { // by the names of the stage's metrics
		c := n.plane.Stations()
		add("l2", "learned_stations_total", c.Learned)
		add("l2", "moved_stations_total", c.Moved)
		add("l2", "aged_stations_total", c.Aged)
		add("l2", "fdb_full_total", c.Full)
	}
	// What the egress points of lds counted, from which the mean latency follows.
	for register, name := range map[string]string{"measured": "measured_packets_total", "waited": "waited_ns_total"} {
		cells, err := n.sw.Registers("lds_egress.side." + register)
		if err != nil {
			return nil, err
		}
		add("lds_egress", name, cells[0])
	}
	return r, n.pint(r)
}

// fates counts what became of packets, and of the copies that flooding made of them, by the program's counters.
// Forwarded has all that was transmitted before.
func fates(r *api.ReportResponse, counter func(name string, n int) (uint64, error)) error {
	var err error
	count := func(name string, n int) uint64 {
		packets, counterErr := counter(name, n)
		err = errors.Join(err, counterErr)
		return packets
	}
	r.Copies = &api.Fate{Received: count("egress.copies", 0), Dropped: map[string]uint64{}}
	r.Dropped = map[string]uint64{}
	dropped, copiesDropped := uint64(0), uint64(0)
	for n, name := range tables.ReasonNames() {
		copies := count("egress.copies_dropped", n)
		packets := count("ingress.ingress_dropped", n) + count("egress.egress_dropped", n) - copies
		if name == "consumed" {
			r.Consumed += packets
		} else if packets != 0 {
			r.Dropped[name] = packets
		}
		if copies != 0 {
			r.Copies.Dropped[name] = copies
		}
		dropped, copiesDropped = dropped+packets, copiesDropped+copies
	}
	r.Copies.Forwarded = min(r.Copies.Received-copiesDropped, r.Forwarded)
	r.Forwarded -= r.Copies.Forwarded
	r.Balanced = r.Received == r.Forwarded+dropped && r.Copies.Received == r.Copies.Forwarded+copiesDropped
	return err
}

// pint adds the plans, so that a lab can see that all switches have the same, and, where one asks for latencies, how
// long packets were in the switch, by output port, as a Weir switch reports it.
func (n *Node) pint(r *api.ReportResponse) error {
	c, ok := n.config.Stages["pint"].(*stage.Config)
	if !ok {
		return nil
	}
	plans, err := c.LivePlans()
	if err != nil {
		return err
	}
	r.Pint = new(api.PintReport)
	latencies := false
	for _, p := range plans {
		digest, err := p.Digest()
		if err != nil {
			return err
		}
		r.Pint.Plans = append(r.Pint.Plans, &api.PintPlan{Id: uint32(p.ID), Digest: fmt.Sprintf("%016x", digest)})
		latencies = latencies || slices.ContainsFunc(p.Queries, func(q pint.Query) bool { return q.Value == pint.HopLatency })
	}
	if !latencies {
		return nil
	}
	cells, err := n.sw.Registers(tables.LatencyRegister)
	if err != nil {
		return err
	}
	for i := range n.config.Ports {
		if m := measuredLatency(n.config.Ports[i].Name, tables.LatenciesOf(cells, i)); m.Packets != 0 {
			r.Pint.Measured = append(r.Pint.Measured, m)
		}
	}
	return nil
}

// measuredLatency is what the register says of a port. Its highest latency is known to a cell's width.
func measuredLatency(name string, l tables.Latencies) *api.PintMeasured {
	return &api.PintMeasured{
		Port: name, Value: pint.HopLatency.String(), Packets: l.Packets(),
		Median: l.Quantile(0.5), P90: l.Quantile(0.9), P99: l.Quantile(0.99), Highest: float64(l.Highest()),
	}
}

// How long packets that are on their way at the end may take, and how often it is looked whether they have left.
const (
	settleWait = 2 * time.Second
	settleTick = 20 * time.Millisecond
)

// settled is the last report, by take, when all packets that were in the switch have left: the interfaces
// count a packet before the program does, and queues keep it for a while. A report that does not add up
// for settleWait is given as it is.
func settled(take func() (*api.ReportResponse, error)) (*api.ReportResponse, error) {
	for deadline := time.Now().Add(settleWait); ; time.Sleep(settleTick) {
		r, err := take()
		if err != nil || r.Balanced || time.Now().After(deadline) {
			return r, err
		}
	}
}
