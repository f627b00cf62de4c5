package vectors

import (
	"fmt"
	"testing"

	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/telemetry/hash"
)

// TestTofinoWeir: all four systems in one program.
func TestTofinoWeir(t *testing.T) {
	for _, byShim := range []bool{false, true} {
		t.Run(fmt.Sprintf("intervals by the shim: %v", byShim), func(t *testing.T) { testTofinoWeir(t, byShim) })
	}
}

func testTofinoWeir(t *testing.T, byShim bool) {
	// The longer time is spent in the same packets, so each run has a fragment of its own: bytes, and subepochs.
	fragment := disketch.Fragment{Kind: "countmin", Unit: "bytes", Memory: 128 << 10, Target: 20, Candidates: -1}
	if byShim {
		fragment = disketch.Fragment{Kind: "countsketch", Memory: 128 << 10, Target: 0.004, Candidates: -1}
	}
	r := newTofinoRun(t, "weir", []string{"parse", "oblivious", "lds_ingress", "patch", "pint", "disketch", "lds_egress"}, func(s *Setup) {
		s.port("c0").MaxFrame, s.port("c2").MaxFrame = 1300, 600
		o := *s.Switch.Stages["oblivious"].(*oblivious.Config)
		o.Size, o.EpochBits = 8, 27
		d := *s.Switch.Stages["disketch"].(*disketch.Config)
		d.EpochBits, d.Fragments, d.HostPorts = epochBits, []disketch.Fragment{fragment}, []string{"h0", "h1", "h2"}
		s.Switch.Stages["oblivious"], s.Switch.Stages["disketch"] = &o, &d
		for _, side := range sides {
			twoRows(s, side, byShim)
		}
	}, fmt.Sprintf("DISKETCH_EPOCH_BITS=%d", epochBits), fmt.Sprintf("LDS_INTERVAL_BITS=%d", intervalBits), fmt.Sprintf("TNA_LDS_COLUMN_BITS=%d", ldsColumnBits))
	r.stay(t)
	sketch := r.setup.Switch.Stages["lds_ingress"].(*lds.Config).Sketch(hash.CRC)
	sums := hash.Key(sketch.PacketSeed(0))
	r.key("ingress.id.id_key", "ingress.id.set_key", r.parseKey())
	r.key("ingress.flow.keys", "ingress.flow.add_keys", r.parseKey(), hash.Key(0))
	r.key("ingress.flow.columns.columns_key", "ingress.flow.columns.set_key", hash.Key(sketch.FlowSeed(0)))
	r.key("ingress.sample.keys", "ingress.sample.add_keys", r.rankKey(t), sums)
	r.key("egress.sums.digest_key", "egress.sums.set_key", sums)
	r.limit = "ingress.sample.limit"
	r.fragmentTables("hosts", fragment)
	r.pointTables(byShim)
	if byShim {
		const mark = "egress.mark"
		for twoShims := range uint64(2) {
			r.entry(mark, exactly(1, 0, twoShims), "egress.by_added")
		}
		r.entry(mark, exactly(0, 1, 1), "egress.by_host")
		r.entry(mark, exactly(0, 1, 0), "egress.by_clock")
	}
	r.pintTables(t, "pint_bridge_t", "disketch_bridge_t", "lds_t")
	r.through(t)
	r.compareFates(t)
	r.compareTotals(t, "ingress.sample.totals")
	r.compareFragment(t, fragment)
	for side, gress := range []string{"ingress", "egress"} {
		r.compareSide(t, sides[side]+".side.", gress, 1<<intervalBits)
	}
}
