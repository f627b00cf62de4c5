package transport

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// congestionPlan is the plan of section 6.1: 8 bits for the fullest link, on a share of the packets.
func congestionPlan(t testing.TB, frequency float64) *plan.Plan {
	t.Helper()
	p, err := plan.New(plan.Config{ID: 1, Seed: 7, Bits: 8, Queries: []pint.Query{
		{Name: "congestion", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: frequency,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hpccConfig is a network of the paper's links with HPCC on INT, on INT-MD, or on PINT.
func hpccConfig(t testing.TB, tree fabric.Tree, feedback string) Config {
	t.Helper()
	g, err := tree.Graph()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Fabric: fabric.Config{
			Graph: g, Hosts: tree.Hosts, HostRate: 100e9, TrunkRate: 400e9, Delay: event.Microsecond, Buffer: 32 << 20, PFC: true, Seed: 1,
		},
		HPCC: &PaperHPCC, RoundTrip: 13 * event.Microsecond,
		Payload: 1000, HeaderBytes: 48, TelemetryBytes: 42, AckBytes: 60, Seed: 1, Deadline: 10 * event.Millisecond,
	}
	switch feedback {
	case "int":
		c.Fabric.Telemetry.INT = true
		return c
	case "int-md":
		c.Fabric.Telemetry.INTMD = &intmd.Config{Instructions: intmd.NodeID | intmd.Utilisation, MaxHops: fabric.MaxRoute}
		c.TelemetryBytes = 0
		return c
	}
	if c.Feedback, err = fabric.NewReader(congestionPlan(t, 1), "congestion"); err != nil {
		t.Fatal(err)
	}
	c.Fabric.Telemetry.PINT = c.Feedback.Encoder()
	c.TelemetryBytes = c.Feedback.Bytes()
	return c
}

// newDistribution makes a distribution of points: sizes in bytes, and the share of flows, from 0 to 1, that are
// at most as large.
func newDistribution(bytes, share []float64) (*Distribution, error) {
	d := &Distribution{slices.Clone(bytes), slices.Clone(share)}
	if err := d.validate(); err != nil {
		return nil, fmt.Errorf("flow sizes: %w", err)
	}
	return d, nil
}
