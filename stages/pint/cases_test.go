package pint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
)

func still() int64 { return 1000 }

func aFrame(n int) []byte {
	return ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1, 2, bytes.Repeat([]byte{7}, n))))
}

// A packet that has no room for a shim goes without, and is not taken for one
// with a digest.
func TestNoRoom(t *testing.T) {
	for name, prepare := range map[string]func(n *testNetwork) []byte{
		"mtu":      func(n *testNetwork) []byte { return aFrame(958) }, // exactly 1000 bytes: at least 8 must be free
		"headroom": func(n *testNetwork) []byte { n.headroom = 7; return aFrame(100) },
	} {
		n := newChain(t, 3, DefaultConfig(), 1000)
		f := prepare(n)
		out := n.through([][]byte{f}, func(int) int64 { return 1000 })
		if !bytes.Equal(out[0], f) {
			t.Errorf("%s: % x", name, out[0])
		}
		if c := counts(n.nodes[0].module); c["left_packets_total "+name] != 1 {
			t.Errorf("%s: source %v", name, c)
		}
		for _, node := range n.nodes[1:] {
			if c := counts(node.module); c["left_packets_total bare"] != 1 || c["records_total"] != 0 {
				t.Errorf("%s: %v", name, c)
			}
		}
	}
	// The longest that fits, and the least headroom.
	n := newChain(t, 2, DefaultConfig(), 1000)
	n.headroom = 8
	if out := n.at(0, [][]byte{aFrame(950)}, still); len(out[0]) != 1000 {
		t.Errorf("%d bytes", len(out[0]))
	}
}

// Hosts may send shims of their own: they arrive, wrapped on the way, or are
// dropped where the network would take them for its own.
func TestHostShims(t *testing.T) {
	wrap := func(f []byte) []byte {
		n := newChain(t, 2, DefaultConfig(), largeFrame)
		return n.at(0, [][]byte{f}, still)[0]
	}
	once := wrap(aFrame(100))
	n := newChain(t, 3, DefaultConfig(), largeFrame)
	for _, f := range [][]byte{
		once,
		ethernet(0x8100, tagged(5, header.TypeShim, once[14:])),
		ethernet(header.TypeShim, []byte("version 6 is none of ours, so this is just data")),
	} {
		if out := n.through([][]byte{f}, func(int) int64 { return 1 }); !bytes.Equal(out[0], f) {
			t.Errorf("% x arrives as % x", f, out[0])
		}
	}
	twice := wrap(once)
	if len(twice) != len(aFrame(100))+16 {
		t.Fatalf("% x", twice)
	}
	long := wrap(aFrame(largeFrame - 8 - 42))
	for _, f := range [][]byte{twice, long} {
		if out := n.at(0, [][]byte{f}, still); out[0] != nil {
			t.Errorf("it passes: % x", out[0][:60])
		}
	}
	if c := counts(n.nodes[0].module); c["left_packets_total host_shim"] != 2 || c["sourced_packets_total"] != 3 {
		t.Errorf("%v", c)
	}
	checkSum(t, n.nodes[0].module, 5)
}

// On a switch between hosts alone, nothing is on the wire, and the path is the
// switch itself.
func TestLocal(t *testing.T) {
	n := newChain(t, 1, DefaultConfig(), 1000)
	r := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		f := ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1, 2, random(r, 100))))
		if out := n.at(0, [][]byte{f}, still); !bytes.Equal(out[0], f) {
			t.Fatalf("% x", out[0])
		}
	}
	if p := n.paths(); len(p) != 1 || !p[0].Certain || !slices.Equal(p[0].numbers, []uint64{1}) {
		t.Errorf("%+v", p)
	}
	if c := counts(n.sink()); c["local_packets_total"] != 60 {
		t.Errorf("%v", c)
	}
}

// Plans that a switch does not know, and more hops than there are numbers.
func TestUnknownAndSaturated(t *testing.T) {
	n := newChain(t, 3, DefaultConfig(), largeFrame)
	f := aFrame(100)
	at := n.at(0, [][]byte{f}, still)[0]
	// The plan's id with a digest of another length.
	long := slices.Concat(f[:12], []byte{header.TypeShim >> 8, header.TypeShim & 0xff}, make([]byte, header.ShimLen(3)), f[14:])
	shim := header.NewShim(long[14:], 3, 1)
	shim.SetDigest(0xabcdef)
	binary.BigEndian.PutUint16(long[14+header.ShimLen(3)-2:], header.TypeIPv4)
	if out := n.at(2, [][]byte{long}, still); !bytes.Equal(out[0], f) {
		t.Errorf("% x", out[0])
	}
	other := bytes.Clone(at)
	header.ShimAt(other, 14)[2] ^= 0x55 // another plan
	got := n.at(1, [][]byte{other}, still)[0]
	if a, b := header.ShimAt(other, 14), header.ShimAt(got, 14); b.Hop() != a.Hop()+1 || b.Digest() != a.Digest() || b.Plan() != a.Plan() {
		t.Errorf("% x became % x", other, got)
	}
	if out := n.at(2, [][]byte{got}, still); !bytes.Equal(out[0], f) {
		t.Errorf("% x", out[0])
	}
	last := bytes.Clone(at)
	header.ShimAt(last, 14).SetHop(255)
	got = n.at(1, [][]byte{last}, still)[0]
	if !bytes.Equal(got, last) {
		t.Errorf("% x became % x", last, got)
	}
	if out := n.at(2, [][]byte{got}, still); !bytes.Equal(out[0], f) {
		t.Errorf("% x", out[0])
	}
	if c := counts(n.nodes[1].module); c["unknown_plan_packets_total"] != 1 || c["saturated_packets_total"] != 1 || c["transited_packets_total"] != 2 {
		t.Errorf("%v", c)
	}
	if c := counts(n.sink()); c["unknown_plan_packets_total"] != 2 || c["records_total"] != 1 || c["sunk_packets_total"] != 3 {
		t.Errorf("%v", c)
	}
}

// loopPlan has a loop query on all packets.
func loopPlan(t testing.TB) string {
	return savePlan(t, pintplan.Config{ID: 9, Seed: 3, Bits: 16, Queries: []pint.Query{
		{Name: "loops", Value: pint.SwitchID, Aggregation: pint.Loop, Bits: 16, Frequency: 1, Threshold: 1},
	}})
}

// A packet that goes in circles between two switches is reported, and dropped
// if so configured; packets that do not are not.
func TestLoop(t *testing.T) {
	for _, drop := range []bool{false, true} {
		c := DefaultConfig()
		c.Plan, c.DropLoops = loopPlan(t), drop
		n := newChain(t, 4, c, largeFrame)
		f := aFrame(100)
		frames := n.at(0, [][]byte{f}, still)
		rounds := 0
		for ; rounds < 50 && frames[0] != nil; rounds++ {
			frames = n.at(1+rounds%2, frames, still)
		}
		var found uint64
		for _, node := range n.nodes[1:3] {
			answer, err := n.ask(node.module, query.Question{Kind: query.KindLoops})
			if err == nil {
				loops := answer.(*query.LoopsAnswer)
				found += loops.Reported
				if len(loops.Flows) != 1 || !strings.Contains(loops.Flows[0].Flow, ":1 > ") {
					t.Errorf("%+v", loops)
				}
			} else if !errors.Is(err, query.ErrNoRecords) {
				t.Error(err)
			}
			checkSum(t, node.module, counts(node.module)["packets_total"])
		}
		if found == 0 || drop != (frames[0] == nil) || drop && found != 1 {
			t.Errorf("drop %v: %d reports, after %d rounds the packet is % x", drop, found, rounds, frames[0])
		}
		good := n.through([][]byte{aFrame(200)}, func(int) int64 { return 1 })
		answer, err := n.ask(n.sink(), query.Question{Kind: query.KindLoops})
		if loops, ok := answer.(*query.LoopsAnswer); good[0] == nil || !ok || len(loops.Flows) != 0 || loops.Reported != 0 {
			t.Errorf("a packet that does not loop was reported: %+v, %v", answer, err)
		}
	}
}

// While one plan replaces the other, sources use one and all understand both.
func TestTwoPlans(t *testing.T) {
	old, next := DefaultConfig(), DefaultConfig()
	d := pintplan.Default()
	file := savePlan(t, pintplan.Config{ID: 2, Seed: 9, Bits: 8, Queries: d.Queries[:1]})
	old.NextPlan = file // plan 1, and 2 is known
	next.Plan = file    // plan 2 alone, at the source of the roll-out's second step
	n := newChain(t, 3, old, largeFrame)
	r := rand.New(rand.NewPCG(6, 6))
	send := func() {
		var frames [][]byte
		for range 80 {
			frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1, 2, random(r, 60)))))
		}
		for k, f := range n.through(frames, func(int) int64 { return 1000 }) {
			if !bytes.Equal(f, frames[k]) {
				t.Fatalf("% x", f)
			}
		}
	}
	send()
	next.Edge = []string{"p0"}
	n.nodes[0] = newNode(t, 1, next, largeFrame)
	send()
	if c := counts(n.sink()); c["unknown_plan_packets_total"] != 0 || c["records_total"] != 160 {
		t.Errorf("%v", c)
	}
	p := n.paths()
	if len(p) != 1 || !p[0].Certain || !slices.Equal(p[0].numbers, []uint64{1, 2, 3}) || p[0].Packets != 80 {
		t.Errorf("%+v", p)
	}
}

// TestRollOut replaces a plan on a chain, one switch after the other and with packets under
// way, in the three steps of docs/pint.md: no digest is lost, and no packet changes.
func TestRollOut(t *testing.T) {
	d := pintplan.Default()
	file := savePlan(t, pintplan.Config{ID: 2, Seed: 9, Bits: 24, Queries: d.Queries})
	edges := [][]string{{"p0"}, nil, {"p1"}}
	config := func(i int, plan, next string) Config {
		c := DefaultConfig()
		c.Plan, c.NextPlan, c.Edge = plan, next, edges[i]
		return c
	}
	old := savePlan(t, pintplan.Config{ID: 1, Seed: 1, Bits: 16, Queries: d.Queries})
	n := newChain(t, 3, config(1, old, ""), largeFrame)
	r := rand.New(rand.NewPCG(6, 7))
	for _, step := range [][2]string{{old, file}, {file, old}, {file, ""}} {
		for changed := range n.nodes {
			var sent [][]byte
			for range 60 {
				sent = append(sent, ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1, 2, random(r, 60)))))
			}
			frames := slices.Clone(sent)
			before := uint64(0)
			for i := range n.nodes {
				if i == changed {
					n.nodes[i] = newNode(t, uint32(i+1), config(i, step[0], step[1]), largeFrame)
				}
				if i == len(n.nodes)-1 {
					before = counts(n.sink())["records_total"]
				}
				frames = n.at(i, frames, still)
				if got := counts(n.nodes[i].module)["unknown_plan_packets_total"]; got != 0 {
					t.Errorf("step %v, switch %d changes: switch %d does not know the plan of %d packets", step, changed+1, i+1, got)
				}
			}
			for k := range sent {
				if !bytes.Equal(frames[k], sent[k]) {
					t.Fatalf("step %v, switch %d changes: % x", step, changed+1, frames[k])
				}
			}
			if got := counts(n.sink())["records_total"] - before; got != 60 {
				t.Errorf("step %v, switch %d changes: %d digests of 60 are recorded", step, changed+1, got)
			}
			for _, p := range n.paths() {
				if !p.Certain || !slices.Equal(p.numbers, []uint64{1, 2, 3}) {
					t.Errorf("step %v, switch %d changes: %+v", step, changed+1, p)
				}
			}
		}
	}
}

// Carrier ipid over routers, which lower the TTL: the digest is in the
// identification of atomic datagrams, and the sink restores zero.
func TestIPID(t *testing.T) {
	plan := savePlan(t, pintplan.Config{ID: 3, Seed: 4, Bits: 16, Carrier: pintplan.CarrierIPID, Queries: pintplan.Default().Queries})
	for _, identification := range []string{IdentificationAny, IdentificationZero} {
		c := DefaultConfig()
		c.Plan, c.Identification = plan, identification
		n := newChain(t, 5, c, largeFrame)
		n.ttl = true
		r := rand.New(rand.NewPCG(7, 7))
		var frames [][]byte
		for range 2000 {
			frames = append(frames, anyFrame(r))
		}
		for k, f := range n.through(frames, func(int) int64 { return 1000 }) {
			want := bytes.Clone(frames[k])
			atomic := false
			if ip := ipOf(want); ip != nil {
				ip.SetTTL(ip.TTL() - 5)
				atomic = ip.DontFragment() && !ip.Fragment()
				if atomic && identification == IdentificationAny {
					ip.SetID(0)
				}
			}
			if !bytes.Equal(f, want) {
				t.Fatalf("% x\narrives as\n% x\nnot\n% x", frames[k][:50], f[:50], want[:50])
			}
		}
		counted := counts(n.nodes[0].module)
		if counted["sourced_packets_total"] == 0 || counted["left_packets_total other"] == 0 ||
			(identification == IdentificationZero) != (counted["left_packets_total nonzero"] != 0) {
			t.Errorf("%s: %v", identification, counted)
		}
		for i, node := range n.nodes {
			checkSum(t, node.module, 2000)
			if c := counts(node.module); i > 0 && c["transited_packets_total"]+c["sunk_packets_total"] != counted["sourced_packets_total"] {
				t.Errorf("hop %d: %v, source %v", i+1, c, counted)
			}
		}
		certain := 0
		for _, p := range n.paths() {
			if p.Packets < 60 {
				continue
			}
			if certain++; !p.Certain || !slices.Equal(p.numbers, []uint64{1, 2, 3, 4, 5}) {
				t.Errorf("%s: %+v", identification, p)
			}
		}
		if certain == 0 {
			t.Errorf("%s: no flow was long enough", identification)
		}
	}
}

// A host that sets the mark itself is not let in.
func TestIPIDForged(t *testing.T) {
	c := DefaultConfig()
	c.Plan = savePlan(t, pintplan.Config{ID: 3, Seed: 4, Bits: 16, Carrier: pintplan.CarrierIPID, Queries: pintplan.Default().Queries})
	n := newChain(t, 2, c, largeFrame)
	n.ttl = true
	if out := n.at(0, [][]byte{ethernet(0x0800, ipv4(64, 0xc000, 17, udp(1, 2, make([]byte, 30))))}, still); out[0] != nil {
		t.Errorf("% x", out[0])
	}
	if c := counts(n.nodes[0].module); c["left_packets_total host_shim"] != 1 {
		t.Errorf("%v", c)
	}
}

// Without routers the TTL is no hop number: packets pass, and nothing is said.
func TestIPIDWithoutRouters(t *testing.T) {
	c := DefaultConfig()
	c.Plan = savePlan(t, pintplan.Config{ID: 3, Seed: 4, Bits: 16, Carrier: pintplan.CarrierIPID, Queries: pintplan.Default().Queries})
	n := newChain(t, 3, c, largeFrame)
	f := aFrame(50)
	if out := n.through([][]byte{f}, func(int) int64 { return 1 }); !bytes.Equal(out[0], f) {
		t.Errorf("% x", out[0])
	}
	if c := counts(n.sink()); c["unknown_hop_packets_total"] != 1 || c["records_total"] != 1 || len(n.paths()) != 0 {
		t.Errorf("%v", c)
	}
}

func ipOf(f []byte) *header.IPv4 {
	off := 12
	for header.IsVLAN(binary.BigEndian.Uint16(f[off:])) {
		off += 4
	}
	if binary.BigEndian.Uint16(f[off:]) != header.TypeIPv4 {
		return nil
	}
	return header.IPv4At(f, off+2)
}

// What finds the ring full is lost and counted, and nothing waits.
func TestRingFull(t *testing.T) {
	c := DefaultConfig()
	c.Records = 64
	n := newChain(t, 1, c, largeFrame)
	n.nodes[0].module.inline = false
	for range 100 {
		n.at(0, [][]byte{aFrame(100)}, still)
	}
	if got := counts(n.sink()); got["records_total"] != 64 || got["lost_records_total"] != 36 {
		t.Errorf("%v", got)
	}
	stop := make(chan struct{})
	close(stop)
	n.sink().Run(stop)
	n.paths() // which collects
	if got := counts(n.sink()); got["exported_digests_total"] != 64 {
		t.Errorf("%v", got)
	}
}

// Every role works without allocation.
func TestProcessDoesNotAllocate(t *testing.T) {
	for _, c := range []struct {
		role string
		edge []string
	}{{"source", []string{"p0"}}, {"transit", nil}, {"sink", []string{"p1"}}, {"sink with feedback", []string{"p1"}}, {"local", []string{"p0", "p1"}}} {
		config := DefaultConfig()
		feedback := c.role == "sink with feedback"
		if feedback {
			config = feedbackConfig(t)
		}
		n := newChain(t, 2, config, largeFrame)
		f := aFrame(100)
		if c.role == "transit" || c.role == "sink" || feedback {
			f = n.at(0, [][]byte{f}, still)[0]
		}
		config.Edge = c.edge
		node := newNode(t, 5, config, largeFrame)
		node.module.inline = false
		if feedback {
			node.stage.feedback.every = 0 // a message about each packet
		}
		b := n.batch
		b.Reset()
		addr, _ := b.Frames.AllocOne()
		b.Depth = []uint32{3, 3}
		if got := testing.AllocsPerRun(200, func() {
			b.Reset()
			p := b.Append()
			p.Addr = addr + 256
			p.Len = uint32(copy(b.Mem[p.Addr:], f))
			p.WireLen, p.Arrival = p.Len, 1
			node.parse.Process(b)
			p.OutPort = 1
			node.stage.Process(b)
			node.stage.Tick(1)
			node.stage.records.Drain(func(*record) {})
			for i := range b.Pkts[1:] {
				b.Frames.FreePacket(&b.Pkts[1+i])
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", c.role, got)
		}
		if sent := node.stage.counters.now[feedbacks]; feedback && sent < 200 {
			t.Errorf("%d messages about 200 packets", sent)
		}
	}
}

func TestConfig(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.toml")
	if err := os.WriteFile(bad, []byte("id = 1\nunknown = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ipid := savePlan(t, pintplan.Config{ID: 3, Seed: 4, Bits: 16, Carrier: pintplan.CarrierIPID, Queries: pintplan.Default().Queries})
	hashed := savePlan(t, pintplan.Config{ID: 4, Seed: 4, Bits: 8, Queries: []pint.Query{
		{Name: "path", Aggregation: pint.Path, Bits: 8, Frequency: 1, Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Baseline()}}}})
	for _, c := range []struct {
		edit func(*Config)
		want []string
	}{
		{func(c *Config) {}, nil},
		{func(c *Config) { c.Plan = hashed }, nil}, // nothing ends here
		{func(c *Config) { c.Plan, c.Edge = hashed, []string{"p0"} }, []string{"plan 4:", "switches"}},
		{func(c *Config) { c.Plan, c.Edge, c.Switches = hashed, []string{"p0"}, []uint64{1, 2} }, nil},
		{func(c *Config) { c.Plan, c.Edge, c.Links = hashed, []string{"p0"}, [][]uint64{{1, 2}} }, nil},
		{func(c *Config) { c.Plan = "/nowhere/plan.toml" }, []string{"plan: load plan: open /nowhere/plan.toml"}},
		{func(c *Config) { c.Plan = bad }, []string{"plan: ", "unknown: there is no such key"}},
		{func(c *Config) { c.NextPlan = ipid }, []string{"next_plan: the plans have carriers"}},
		{func(c *Config) { c.Plan, c.NextPlan = ipid, ipid }, []string{"both plans have the id 3", "does not say which plan"}},
		{func(c *Config) { c.Edge = []string{"p0", "p9", "p0"} }, []string{`edge[1]: port "p9" is not defined`, `edge[2]: port "p0" appears twice`}},
		{func(c *Config) { c.Identification, c.Records, c.RoundTrip = "some", -1, 0 },
			[]string{"identification:", "records: -1", "round_trip: 0s"}},
		{func(c *Config) { c.IntervalBits = 30 }, nil},
		{func(c *Config) { c.IntervalBits = 19 }, []string{"interval_bits: 19"}},
		{func(c *Config) { c.IntervalBits = -1 }, []string{"interval_bits: -1"}},
		{func(c *Config) { c.Plan, c.IntervalBits = ipid, 30 }, []string{`interval_bits: carrier "ipid" has no interval bit`}},
		{func(c *Config) { c.Links = [][]uint64{{1}, {1, 2, 3}} }, []string{"links[0]: it has 1 ends", "links[1]: it has 3"}},
	} {
		config := DefaultConfig()
		c.edit(&config)
		err := config.Validate([]string{"p0", "p1"})
		if (err != nil) != (c.want != nil) {
			t.Errorf("%+v: %v", config, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v\ndoes not say %q", err, w)
			}
		}
	}
}

// No switch takes part whose id the plan's paths would take for another one's.
func TestSwitchIDs(t *testing.T) {
	hashed := savePlan(t, pintplan.Config{ID: 4, Seed: 4, Bits: 8, Queries: []pint.Query{
		{Name: "path", Aggregation: pint.Path, Bits: 8, Frequency: 1, Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Baseline()}}}})
	for _, c := range []struct {
		id   uint32
		edit func(*Config)
		want string
	}{
		{1, func(*Config) {}, ""},
		{1023, func(*Config) {}, ""},
		{1024, func(*Config) {}, `plan 1, query "path": switch id 1024 needs more than the plan's 10 bits: choose ids below 1024`},
		{0, func(*Config) {}, "switch.id is missing"},
		{1 << 31, func(c *Config) { c.Plan = hashed }, ""},
		{1, func(c *Config) { c.Switches = []uint64{1, 5000} }, "switch id 5000 needs"},
		{1, func(c *Config) { c.Links = [][]uint64{{1, 2}, {2, 5000}} }, "switch id 5000 needs"},
	} {
		config := DefaultConfig()
		c.edit(&config)
		_, err := New(config, pipeline.Env{ID: c.id, Workers: 1})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("id %d: %v, want %q", c.id, err, c.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	var h, other histogram
	var all []uint64
	for i := range 20000 {
		v := r.Uint64() >> (24 + r.IntN(40))
		all = append(all, v)
		if i%2 == 0 {
			h.add(v)
		} else {
			other.add(v)
		}
		if low, width := boundsOf(bucketOf(v)); v < low || v-low >= width || width > 1 && low/width < 1<<histogramBits {
			t.Fatalf("%d stands in the bucket from %d, %d wide", v, low, width)
		}
	}
	h.merge(&other)
	slices.Sort(all)
	for _, rank := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.9999} {
		exact := float64(all[int(rank*float64(len(all)))])
		if got := h.quantile(rank); got < exact*0.98-1 || got > exact*1.02+1 {
			t.Errorf("quantile %v is %v, exactly %v", rank, got, exact)
		}
	}
	if h.total != 20000 || h.highest != all[len(all)-1] || new(histogram).quantile(0.5) != 0 {
		t.Errorf("%d values, highest %d", h.total, h.highest)
	}
	before := h.counts[histogramBuckets-1]
	h.add(1 << 63)
	if h.counts[histogramBuckets-1] != before+1 {
		t.Error("the largest values have no bucket")
	}
}
