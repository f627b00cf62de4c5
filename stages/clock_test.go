package stages

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/policer"
)

// graphsOfAll returns, for each forwarding stage, a graph of it and all stages
// that are none, in the order of their roles.
func graphsOfAll(t *testing.T, configs map[string]any) map[string][]string {
	t.Helper()
	role := func(name string) pipeline.Role {
		config := configs[name]
		if config == nil {
			config = Kinds[name].Default()
		}
		m, err := Kinds[name].New(config, testEnv())
		if err != nil {
			t.Fatal(err)
		}
		return m.Role()
	}
	names := Names()
	slices.SortStableFunc(names, func(a, b string) int { return int(role(a)) - int(role(b)) })
	last := slices.Index(names, "distribute") // behind all that send by bonds
	names = append(slices.Delete(names, last, last+1), "distribute")
	graphs := map[string][]string{}
	for _, forward := range names {
		if role(forward) != pipeline.RoleForward {
			continue
		}
		graphs[forward] = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return role(name) == pipeline.RoleForward && name != forward
		})
		if forward == "irb" { // never alone
			at := slices.Index(graphs[forward], forward)
			graphs[forward] = slices.Insert(graphs[forward], at, "l2", "l3")
		}
	}
	return graphs
}

// TestClockJumps sets the clock ahead and back, by seconds to centuries, under
// every stage: none panics or loses a packet's fate, and some seconds later each
// does with packets what it did at first.
func TestClockJumps(t *testing.T) {
	configs := map[string]any{
		"patch":   &patch.Config{Pairs: [][2]string{{"p0", "p1"}}},
		"policer": &policer.Config{Ports: []policer.Port{{Port: "p0", RateBits: 1_000_000}}},
	}
	bridge := l2.DefaultConfig()
	bridge.Storms = []l2.Storm{{Port: "p0", Broadcast: 100, Unknown: 1000}}
	configs["l2"] = &bridge
	for forward, names := range graphsOfAll(t, configs) {
		t.Run(forward, func(t *testing.T) {
			t.Log(names)
			chain, err := Build(names, configs, testEnv())
			if err != nil {
				t.Fatal(err)
			}
			Inline(chain)
			g := pipeline.NewGraph(chain, 0)
			// fates sends packets for five seconds and returns those of the last batch.
			fates := func(from int64) (last []packet.Reason) {
				for now := from; now-from < int64(5*time.Second); now += int64(100 * time.Millisecond) {
					b := testBatch(t, 0)
					addPacket(t, b, 0, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x02")
					for i := range b.Pkts {
						b.Pkts[i].InPort = 0
					}
					b.Now = now
					g.Run(b)
					last = last[:0]
					for i := range b.Pkts {
						p := &b.Pkts[i]
						if p.Reason == 0 && int(p.OutPort) >= 3 {
							t.Fatalf("at %d packet %d has neither port nor reason: %+v", now, i, p)
						}
						last = append(last, p.Reason)
					}
					if g.NextTick() <= now && g.NextTick() != math.MaxInt64 {
						t.Fatalf("at %d the next tick is due at %d already", now, g.NextTick())
					}
				}
				return last
			}
			const year = int64(365 * 24 * time.Hour)
			start := 56 * year // since 1970
			want := fates(start)
			for _, at := range []int64{
				start + int64(10*time.Second), start + int64(time.Hour), start - int64(time.Hour), start + 100*year,
				1, start, math.MaxInt64 - year, start + 1,
			} {
				if got := fates(at); !slices.Equal(got, want) {
					t.Errorf("with the clock at %d packets end with %v, at first with %v", at, got, want)
				}
			}
			g.Finish(start)
		})
	}
}
