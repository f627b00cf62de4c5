package pipeline

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
)

func init() { bench.Favoured = 0 }

// short measures next to nothing, but all of it.
func short(t testing.TB) Config {
	t.Helper()
	c := DefaultConfig()
	c.Rounds, c.Slice, c.Frames, c.Quick, c.Warm = 2, 200*time.Microsecond, 512, true, 4096
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A short run gives each row, and the figures of a row fit each other. How large they are depends on the
// machine.
func TestRun(t *testing.T) {
	c := short(t)
	last, total := 0, 0
	c.Progress = func(done, of int, _ string) { last, total = done, of }
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if r.Name != "pipeline" || r.Seed != 1 {
		t.Errorf("%s, seed %d", r.Name, r.Seed)
	}
	cores, err := cores()
	if err != nil {
		t.Fatal(err)
	}
	metrics := []string{"drop.ns", "touch.ns", "parse_patch.mpps", "parse_l2_10k.mpps", "parse_patch_10M.mpps", "parse_patch_cold.mpps", "stage.patch.ns"}
	if len(cores) > 1 {
		metrics = append(metrics, "worker1.mpps", "workers2_over_1", "handoff2.mpps", "conntrack2.mpps", "conntrack2_handoff.ns")
		if last != total-1 {
			t.Errorf("progress ended at %d of %d", last, total)
		}
	}
	for _, m := range metrics {
		if _, ok := r.Row(m); !ok {
			t.Errorf("there is no row %s", m)
		}
	}
	for _, g := range chosen(&c) {
		mpps, _ := r.Row(g.Name + ".mpps")
		best, _ := r.Row(g.Name + ".mpps_best")
		ns, _ := r.Row(g.Name + ".ns")
		if mpps.Value <= 0 || best.Value < mpps.Value || mpps.Value*ns.Value < 999 || mpps.Value*ns.Value > 1001 {
			t.Errorf("%s: %v Mpps, best %v, %v ns", g.Name, mpps.Value, best.Value, ns.Value)
		}
	}
}

func TestRows(t *testing.T) {
	c := short(t)
	c.Rows = []string{"parse", "parse_patch"}
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if name, _, _ := strings.Cut(row.Metric, "."); name != "parse" && name != "parse_patch" && row.Metric != "stage.patch.ns" && !strings.HasSuffix(row.Metric, "_over_parse_patch") {
			t.Errorf("there is a row %s", row.Metric)
		}
	}
	if _, ok := r.Row("parse_patch.ns"); !ok {
		t.Error("there is no row parse_patch.ns")
	}
	c.Rows = []string{"parse", "pares"}
	if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), `rows: there is no "pares": choose among drop, touch, parse,`) {
		t.Errorf("an unknown row: %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, short(t)); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("%v", err)
	}
}

// open makes a row of a graph in a ring of its own.
func open(t testing.TB, g Graph, frames int) (*ring, *row) {
	t.Helper()
	r, err := newRing(frames, 1)
	if err != nil {
		t.Fatal(err)
	}
	u, err := g.open(context.Background(), r, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.close()
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r, u
}

// Whatever is timed leaves by the other port, each packet of a pass once, and every frame stays the
// ring's: what the graphs are measured with is forwarding.
func TestPassForwards(t *testing.T) {
	for _, g := range Graphs {
		if g.Slow || !slices.Contains(g.Stages, "patch") && !slices.Contains(g.Stages, "l2") {
			continue
		}
		t.Run(g.Name, func(t *testing.T) {
			r, u := open(t, g, 256)
			free := r.batch.Frames.Len()
			forwarded, lastPort := 0, uint16(0)
			length := uint32(60) // as it leaves
			if g.Role == transit || g.Role == source {
				length += uint32(newShims().room())
			}
			if g.Tunnel == encapsulate {
				length += vxlanExtra
			}
			spy := baseline{pipeline.RoleEgress, 0, func(b *packet.Batch) {
				for i := range b.Pkts {
					p := &b.Pkts[i]
					other := p.InPort&1 ^ 1
					if g.Tunnel == decapsulate {
						other = 0 // the packet is the tunnel's port's
					}
					if p.Reason == 0 && p.OutPort&1 == other && p.Len == length {
						forwarded++
					}
					lastPort = p.InPort
				}
			}}
			chain := append(slices.Clone(u.chain.modules), pipeline.Named{Name: "spy", Module: spy})
			u.graph = pipeline.NewGraph(chain, 0)
			u.before = counts{}
			runtime.LockOSThread() // processor time is the thread's
			defer runtime.UnlockOSThread()
			s := u.measure(r, time.Microsecond)
			if uint64(forwarded) != s.packets || s.packets == 0 || lastPort&1 != 1 && !u.stream.oneWay() {
				t.Errorf("%d of %d packets forwarded", forwarded, s.packets)
			}
			if err := u.check(); err != nil {
				t.Error(err)
			}
			if got := r.batch.Frames.Len(); got != free {
				t.Errorf("%d frames are free, before it were %d", got, free)
			}
			if s.wall <= 0 || s.cpu <= 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Packets differ: as many flows and addresses come as the graph says.
func TestStreamVaries(t *testing.T) {
	g := Graph{Flows: 1000, Stations: 100}
	r, err := newRing(1<<14, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	s, err := newStream(g.workload(1))
	if err != nil {
		t.Fatal(err)
	}
	s.write(r)
	macs, flows, packets := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, addr := range r.frames {
		data := string(r.batch.Mem[addr : addr+60])
		macs[data[6:12]]++
		flows[data[26:38]] = true
		packets[data] = true
	}
	// 16384 draws miss one of 2 x 1000 flows with a chance of 2000 x exp(-8.2): some are missed.
	if len(macs) != 100 || len(flows) < 1900 || len(flows) > 2000 || len(packets) != len(r.frames) {
		t.Errorf("%d addresses, %d flows, %d packets of %d differ", len(macs), len(flows), len(packets), len(r.frames))
	}
}

// A graph that loses packets is found out.
func TestCheckFindsDrops(t *testing.T) {
	r, u := open(t, Graph{Name: "lossy", Stages: []string{"parse", "patch"}, Flows: 10, Stations: 2}, 128)
	drop := baseline{pipeline.RoleEgress, 0, func(b *packet.Batch) { b.Drop(&b.Pkts[3], packet.ReasonNoPort) }}
	u.graph = pipeline.NewGraph(append(slices.Clone(u.chain.modules), pipeline.Named{Name: "drop", Module: drop}), 0)
	u.before = counts{}
	u.measure(r, 1)
	if err := u.check(); err == nil || !strings.Contains(err.Error(), "2 were dropped") {
		t.Errorf("%v", err)
	}
}

// A graph whose bridge floods is found out, also between two ports, where nothing is copied.
func TestCheckFindsFloods(t *testing.T) {
	r, u := open(t, Graph{Name: "forgetful", Stages: []string{"parse", "l2"}, Flows: 100, Stations: 100}, 128)
	u.measure(r, 1)
	if err := u.check(); err != nil {
		t.Fatal(err)
	}
	for _, m := range u.chain.modules {
		if m, ok := m.Module.(*l2.Module); ok {
			if n := m.Flush(); n != 100 {
				t.Errorf("%d addresses were known, want 100", n)
			}
		}
	}
	u.measure(r, 1)
	if err := u.check(); err == nil || !strings.Contains(err.Error(), "did not know") {
		t.Errorf("%v", err)
	}
}

func TestMeasureDoesNotAllocate(t *testing.T) {
	for _, g := range []Graph{
		{Name: "l2", Stages: []string{"parse", "l2"}, Flows: 100, Stations: 100},
		{Name: "all", Stages: allStages, Flows: 100, Stations: 100, Role: transit},
		{Name: "all_aes", Stages: allStages, Flows: 100, Stations: 100, Role: transit, Hash: hash.AES},
	} {
		r, u := open(t, g, 512)
		u.stream.write(r)
		u.now++ // no edge of an epoch
		if n := testing.AllocsPerRun(100, func() { r.pass(u.graph, u.stream, u.now) }); n != 0 {
			t.Errorf("%s: %v allocations per pass", g.Name, n)
		}
	}
}

// The rows of the whole measure what they say: each packet of transit has its digest written, a source puts one in and
// a sink takes it out, and all samplers and sketches count.
func TestAllMeasures(t *testing.T) {
	for _, g := range allGraphs() {
		if g.Cold || g.Flows > 100_000 || g.Name == "all_floor" {
			continue
		}
		r, u := open(t, g, 512)
		u.stream.write(r)
		r.pass(u.graph, u.stream, u.now)
		if err := u.check(); err != nil {
			t.Error(err)
		}
		var digests *pint.Module
		for _, m := range u.chain.modules {
			if x, ok := m.Module.(*pint.Module); ok {
				digests = x
			}
		}
		u.graph.Tick(u.now + 1e9) // counters are shown ten times in a second
		got := map[string]float64{}
		digests.Metrics(func(m pipeline.Metric) { got[m.Name] += m.Value })
		want := map[role]string{transit: "transited_packets_total", source: "sourced_packets_total", sink: "sunk_packets_total"}[g.Role]
		if got[want] < 512 {
			t.Errorf("%s: %s is %v, less than the packets of a pass", g.Name, want, got[want])
		}
	}
}

func TestValidateReportsAll(t *testing.T) {
	c := Config{Core: -1, Frames: 100}
	err := c.Validate()
	for _, part := range []string{"rounds: 0", "slice: 0s", "frames: 100", "core -1"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestMedianAndSpread(t *testing.T) {
	if m := median([]float64{5, 1, 3}); m != 3 {
		t.Errorf("median %v", m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if s := spread([]float64{4, 1, 2}); s != 1.5 {
		t.Errorf("spread %v", s)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{2: "2", 1500: "1500", 10_000: "10k", 10_000_000: "10M"} {
		if got := flowsLabel(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// Each stage there is can be measured by its default configuration, whatever its role.
func TestRunStage(t *testing.T) {
	for _, name := range stages.Names() {
		t.Run(name, func(t *testing.T) {
			r, err := RunStage(context.Background(), short(t), Stage{Name: name, Flows: 1000, Stations: 100})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Validate(); err != nil || r.Name != "stage/"+name {
				t.Errorf("%s: %v", r.Name, err)
			}
			for _, m := range []string{name + ".ns", name + ".dropped", "with.ns", "without.mpps"} {
				if _, ok := r.Row(m); !ok {
					t.Errorf("there is no row %s", m)
				}
			}
		})
	}
	_, err := RunStage(context.Background(), short(t), Stage{Name: "nat", Flows: 10, Stations: 2})
	if err == nil || !strings.Contains(err.Error(), `no stage "nat": choose among`) {
		t.Errorf("%v", err)
	}
}

// The graphs around a stage depend on its role, and what it asks of the parser is a row of its own.
func TestStageGraphs(t *testing.T) {
	graphs := func(s Stage) string {
		list, err := s.graphs()
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, g := range list {
			text = append(text, g.name+":"+strings.Join(g.stages, ","))
		}
		return strings.Join(text, " ")
	}
	two := []string{"p0", "p1"}
	kind := func(role pipeline.Role, needs packet.Needs) {
		stages.Kinds["probe"] = stages.Kind{
			Default: func() any { return nil },
			New: func(any, pipeline.Env) (pipeline.Module, error) {
				return baseline{role, needs, func(*packet.Batch) {}}, nil
			},
		}
	}
	defer delete(stages.Kinds, "probe")
	for _, tt := range []struct {
		role  pipeline.Role
		needs packet.Needs
		want  string
	}{
		{pipeline.RoleForward, 0, "without:parse with:parse,probe"},
		{pipeline.RolePolicy, 0, "without:parse,patch with:parse,probe,patch"},
		{pipeline.RoleIngress, packet.NeedID, "without:parse,patch parser:parse,patch with:parse,probe,patch"},
		{pipeline.RoleEgress, 0, "without:parse,patch with:parse,patch,probe"},
		{pipeline.RoleParse, 0, "without: with:probe"},
	} {
		kind(tt.role, tt.needs)
		if got := graphs(Stage{Name: "probe", Ports: two}); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.role, got, tt.want)
		}
	}
	kind(pipeline.RoleIngress, packet.NeedID)
	r, err := RunStage(context.Background(), short(t), Stage{Name: "probe", Flows: 10, Stations: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Row("probe.parser_ns"); !ok {
		t.Errorf("%+v", r.Rows)
	}
}
