package node

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline"
	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/local"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/query"
	queries "github.com/weirswitch/weir/telemetry/view/api"
)

// finalFlows bounds the flows of each answer in a node's last report.
const finalFlows = 1000

// NewDigests makes the store of the digests that end at a switch; nil without the stage pint, or memory for them.
func NewDigests(c export.Config, chain []pipeline.Named) (*local.Digests, error) {
	m, ok := moduleOf[*stage.Module](chain)
	if !ok || c.LocalBytes == 0 {
		return nil, nil
	}
	plans, switches, links := m.Decoding()
	return local.New(local.Config{Bytes: c.LocalBytes, Plans: plans, Switches: switches, Topology: links})
}

// Ask answers a question from PINT's digests that ended at the node last, as query.Engine.Ask does. They are there
// about a second after their packets.
func (n *Node) Ask(ctx context.Context, q *query.Question) (any, error) {
	return n.digests.Load().Ask(ctx, q)
}

// Pint returns what the stage pint reports beside its digests; false without that stage.
func (n *Node) Pint() (*api.PintReport, bool) {
	r, _ := PintReport(n.chain(), nil) // which only answers can fail
	return r, r != nil
}

// PintReport is what the stage pint of a graph reports, with answers of query.Engine; nil without that stage.
func PintReport(chain []pipeline.Named, answers []any) (*api.PintReport, error) {
	m, ok := moduleOf[*stage.Module](chain)
	if !ok {
		return nil, nil
	}
	r := &api.PintReport{Sink: m.Sink()}
	for _, p := range m.Plans() {
		r.Plans = append(r.Plans, &api.PintPlan{Id: uint32(p.ID), Digest: fmt.Sprintf("%016x", p.Digest)})
	}
	for _, value := range []pint.Value{pint.HopLatency, pint.QueueOccupancy} {
		for _, a := range m.Measured(value) {
			r.Measured = append(r.Measured, &api.PintMeasured{
				Port: a.Port, Value: a.Value.String(), Packets: a.Packets, Median: a.Median, P90: a.P90, P99: a.P99, Highest: a.Highest,
			})
		}
	}
	for _, answer := range answers {
		a, err := queries.NewAnswer(answer)
		if err != nil {
			return nil, err
		}
		r.AddAnswer(a)
	}
	return r, nil
}
