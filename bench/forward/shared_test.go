package forward

import (
	"strings"
	"testing"
)

// told is a device with counts.
type told struct {
	sharedRunning
	in, out uint64
}

func (d told) counted() (received, sent uint64) { return d.in, d.out }

// TestAddUp: a run of which a packet is missing at one end is not valid.
func TestAddUp(t *testing.T) {
	if err := addUp(told{in: 10, out: 8}, 10, 8); err != nil {
		t.Error(err)
	}
	for _, d := range []told{{in: 9, out: 8}, {in: 10, out: 9}, {}} {
		if err := addUp(d, 10, 8); err == nil || !strings.Contains(err.Error(), "the counts do not add up") {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// TestSharedReport: rows are named by the kind of ports, and ratios of 64 B without the size.
func TestSharedReport(t *testing.T) {
	c := DefaultConfig()
	c.Ports, c.Sizes = PortsVhost, []string{"64"}
	var samples []Sample
	for i, d := range sharedDevices {
		samples = append(samples, Sample{Round: 1, Device: d.name, Size: "64B", MRR: float64(100 * (i + 1))})
	}
	r := reportShared(&c, samples)
	for metric, want := range map[string]float64{
		"vhost.patch.64B.mrr": 600, "vhost.patch.mrr_over_ovs": 3, "vhost.l2.mrr_over_ovs_normal": 3, "vhost.conntrack.mrr_over_ovs": 1.75,
		"vhost.vxlan.mrr_over_ovs": 1.6, "vhost.patch.mrr_over_testpmd": 6, "vhost.all.mrr_over_patch": 10. / 6,
	} {
		if row, ok := r.Row(metric); !ok || row.Value != want {
			t.Errorf("%s is %v (%t), want %v", metric, row.Value, ok, want)
		}
	}
}
