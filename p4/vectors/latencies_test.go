package vectors

import (
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/pint"
)

// latencyRegister is the name of P4's histograms of latencies in a State.
const latencyRegister = "pint_egress.latencies"

// latencies adds the histograms that the Go stage keeps of its ports, whose buckets are parts of P4's cells. A
// stage without plans that ask for latencies keeps none, and P4's are not compared then.
func (g *goSwitch) latencies(s State) {
	if g.pint == nil || !g.pint.Asks(pint.HopLatency) {
		return
	}
	s.add(latencyRegister, tables.LatencyCells, 0, 0)
	for port := range g.ports {
		for ns, packets := range g.pint.LatencyBuckets(port) {
			s.add(latencyRegister, tables.LatencyCells, tables.LatencyCell(port, ns), packets)
		}
	}
}
