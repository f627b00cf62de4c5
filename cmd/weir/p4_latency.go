package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/tables"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/pint"
)

// queueRates are what --queue-rate gives, in packets per second by port.
type queueRates map[string]int64

// check finds ports that are not there, and rates that BMv2 has not.
func (q queueRates) check(c *config.Config) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if portNumber(c, name) < 0 {
			faults = append(faults, fmt.Errorf("--queue-rate: port %q is not defined: define [[port]] name = %q or correct the name", name, name))
		}
		if r := q[name]; r < 1 || r > bmv2.MaxQueueRate {
			faults = append(faults, fmt.Errorf("--queue-rate: port %q: %d packets per second: choose 1 to %d", name, r, bmv2.MaxQueueRate))
		}
	}
	return errors.Join(faults...)
}

// apply limits the queues of a running switch.
func (q queueRates) apply(sw *bmv2.Switch, c *config.Config) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if err := sw.SetQueueRate(portNumber(c, name), q[name]); err != nil {
			return err
		}
	}
	return nil
}

// portNumber is a port's place in the configuration, -1 if it has none of the name.
func portNumber(c *config.Config, name string) int {
	return slices.IndexFunc(c.Ports, func(p port.Config) bool { return p.Name == name })
}

// latencies adds to the report how long packets were in the switch, by output port, as a Weir switch
// tells it: where the plan asks for latencies.
func (s *p4LiveSwitch) latencies(r *api.PintResponse) error {
	if !asksLatency(s.config) || r == nil {
		return nil
	}
	cells, err := s.sw.Registers(tables.LatencyRegister)
	if err != nil {
		return err
	}
	for i := range s.config.Ports {
		if m := measuredLatency(s.config.Ports[i].Name, tables.LatenciesOf(cells, i)); m.Packets != 0 {
			r.Measured = append(r.Measured, m)
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

// asksLatency says whether the switch's plan has a query for latencies.
func asksLatency(c *config.Config) bool {
	stage, ok := c.Stages["pint"].(*stagepint.Config)
	if !ok {
		return false
	}
	plan, err := stage.SourcePlan()
	return err == nil && slices.ContainsFunc(plan.Queries, func(q pint.Query) bool { return q.Value == pint.HopLatency })
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
