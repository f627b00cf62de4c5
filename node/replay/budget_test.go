package replay_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestBudget: switches of a chain keep within a budget, stages leave out what does not fit, and answers from what is left are right, with bounds, and say
// what was left out.
func TestBudget(t *testing.T) {
	const packets, seconds, budget = 20_000, 8, 6000
	capture := pcaptest.Flows(t, packets)
	sw := strings.NewReplacer(`"patch"]`, `"patch", "pint"]`, "size = 50", "size = 10_000", "epoch_bits = 26", "epoch_bits = 30", "flows = true", "").Replace(samplingSwitch)
	stores := map[bool]*store.Store{}
	for _, bounded := range []bool{false, true} {
		c := captures(capture, "")
		c.Switch, c.Chain, c.Records = parsed(t, sw), 3, t.TempDir()
		if bounded {
			c.Budget = budget
		}
		if _, err := run(t, c); err != nil {
			t.Fatal(err)
		}
		stores[bounded] = readStore(t, c.Records)
		bytes := int64(0)
		files, err := filepath.Glob(filepath.Join(c.Records, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			bytes += info.Size()
		}
		// Samples of the first seconds are whole: nothing was measured by which to divide.
		if most := int64(3 * (budget*(seconds+2) + 60_000)); (bytes > most) == bounded {
			t.Errorf("a budget: %t: %d bytes, where %d are the bound", bounded, bytes, most)
		}
	}
	all, few := &query.Engine{Store: stores[false]}, &query.Engine{Store: stores[true]}
	ask := func(e *query.Engine, q query.Question) any {
		t.Helper()
		a, err := e.Ask(context.Background(), &q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	p := ask(few, query.Question{Kind: query.KindPath}).(*query.PathAnswer)
	if len(p.Flows) != 60 || p.Share >= 1 || p.Digests >= packets/2 {
		t.Errorf("%d flows, %d digests, a share of %v", len(p.Flows), p.Digests, p.Share)
	}
	sum := p.LeftOut
	for i := range p.Flows {
		f := &p.Flows[i]
		if sum += f.Packets; !f.Certain || len(f.Hops) != 3 || f.Hops[0].Number != 1 || f.Hops[2].Number != 3 {
			t.Errorf("%+v", f)
		}
	}
	if sum != packets {
		t.Errorf("flows have %d of %d packets", sum, packets)
	}
	v, w := ask(all, query.Question{Kind: query.KindVolume}).(*query.Volume), ask(few, query.Question{Kind: query.KindVolume}).(*query.Volume)
	if !holds(v.Packets, packets) || !holds(w.Packets, packets) || w.Packets.High-w.Packets.Low <= v.Packets.High-v.Packets.Low {
		t.Errorf("volumes of %+v by all, of %+v within the budget", v.Packets, w.Packets)
	}
	l, m := ask(all, query.Question{Kind: query.KindLatency}).(*query.LatencyAnswer), ask(few, query.Question{Kind: query.KindLatency}).(*query.LatencyAnswer)
	if len(l.Hops) != 3 || len(m.Hops) != 3 || m.Used < l.Used*9/10 {
		t.Errorf("latencies of %d switches by %d readings, of %d by %d within the budget", len(l.Hops), l.Used, len(m.Hops), m.Used)
	}
}
