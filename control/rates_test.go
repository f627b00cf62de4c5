package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/control/api"
)

// TestRatesOf: differences per second; what began anew counts from zero.
func TestRatesOf(t *testing.T) {
	before := &api.ReportResponse{
		Ports: []*api.Port{
			{Name: "p0", Received: 100, ReceivedBytes: 6400, Dropped: map[string]uint64{"acl_deny": 10, "no_port": 3}},
			{Name: "p1", Transmitted: 5000}, // comes back anew
		},
		Stages:  []*api.Stage{{Name: "acl", Packets: 100, SampledPackets: 10, SampledNs: 1000}, {Name: "idle"}},
		Workers: []*api.Worker{{Id: 0, Core: 1, Packets: 100, Batches: 10, CpuNs: 1e9}},
	}
	after := &api.ReportResponse{
		Ports: []*api.Port{
			{Name: "p0", State: "up", Received: 300, ReceivedBytes: 19200, RxRingFull: 8, Dropped: map[string]uint64{"acl_deny": 50, "no_port": 3}},
			{Name: "p1", State: "down", Transmitted: 40, TransmittedBytes: 4000},
			{Name: "p2", State: "up"},
		},
		Stages:  []*api.Stage{{Name: "acl", Packets: 300, Dropped: 40, SampledPackets: 30, SampledNs: 2000}, {Name: "idle"}},
		Workers: []*api.Worker{{Id: 0, Core: 1, Packets: 300, Batches: 20, CpuNs: 2e9, Sleeps: 4}},
	}
	want := Rates{
		Ports: []PortRate{
			{Port: "p0", State: "up", Received: 100, ReceivedBits: 51200, Dropped: 20, Lost: 4},
			{Port: "p1", State: "down", Transmitted: 20, TransmittedBits: 16000},
			{Port: "p2", State: "up"},
		},
		Drops: []DropRate{
			{"p0", "acl_deny", false, 20, 50},
			{"p0", "rx_ring_full", true, 4, 8},
			{"p0", "no_port", false, 0, 3},
		},
		Stages:  []StageRate{{"acl", 100, 20, 50}, {"idle", 0, 0, 0}},
		Workers: []WorkerRate{{Worker: 0, Core: 1, CPU: 0.5, Packets: 100, PacketsPerBatch: 20, Sleeps: 2}},
	}
	if diff := cmp.Diff(want, RatesOf(before, after, 2*time.Second)); diff != "" {
		t.Error(diff)
	}
}
