package stages

import (
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/pint"
)

// TestKinds checks what holds for every stage.
func TestKinds(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			k := Kinds[name]
			if k.Help == "" || strings.HasSuffix(k.Help, ".") {
				t.Errorf("help %q is not one clause", k.Help)
			}
			config := k.Default()
			if err := k.Validate(config, []string{"p0", "p1"}); err != nil {
				t.Errorf("the default configuration has faults: %v", err)
			}
			if config == k.Default() {
				t.Error("two callers share one configuration")
			}
			m, err := k.New(config, testEnv())
			if err != nil || m.Stage(0) == nil {
				t.Errorf("module %v, %v", m, err)
			}
			// A default that can be dumped can be read back, without unknown keys.
			text, err := toml.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			meta, err := toml.Decode(string(text), k.Default())
			if err != nil || len(meta.Undecoded()) != 0 {
				t.Errorf("%v, unknown %v in\n%s", err, meta.Undecoded(), text)
			}
		})
	}
}

func TestBuild(t *testing.T) {
	chain, err := Build([]string{"parse", "patch"}, map[string]any{
		"patch": &patch.Config{Pairs: [][2]string{{"p0", "p1"}}},
	}, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	if len(chain) != 2 || chain[0].Name != "parse" || chain[1].Name != "patch" {
		t.Fatalf("chain %+v", chain)
	}
	b := testBatch(t, 1)
	pipeline.NewGraph(chain, 0).Run(b)
	if p := b.Pkts[0]; p.Reason != 0 || p.OutPort != 0 || p.L3 != 14 {
		t.Fatalf("packet %+v", p)
	}
}

func TestBuildRefuses(t *testing.T) {
	bad := &patch.Config{Pairs: [][2]string{{"p0", "x"}, {"p1", "p1"}}}
	for _, tt := range []struct {
		names []string
		want  []string
	}{
		{[]string{"parse", "l2", "l4", "nat"}, []string{
			`stage "l4" does not exist: choose among ` + strings.Join(Names(), ", "),
			`stage "nat" does not exist: choose among ` + strings.Join(Names(), ", ")}},
		{[]string{"parse", "patch"}, []string{
			`stage "patch": pairs[0]: port "x" is not defined`, `pairs[1]: port "p1" is paired with itself`}},
		{[]string{"parse"}, []string{"the graph has 0 forwarding stages"}},
		{[]string{"l2", "parse"}, []string{"begins with"}},
	} {
		chain, err := Build(tt.names, map[string]any{"patch": bad}, testEnv())
		if err == nil || chain != nil {
			t.Errorf("%v: chain %v, error %v", tt.names, chain, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v does not say %q", tt.names, err, want)
			}
		}
	}
}

// TestInline learns within a batch: the answer to the first packet is not
// flooded.
func TestInline(t *testing.T) {
	chain, err := Build([]string{"parse", "l2"}, nil, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	Inline(chain)
	b := testBatch(t, 0)
	addPacket(t, b, 1, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02")
	pipeline.NewGraph(chain, 0).Run(b)
	outs := []uint16{}
	for i := range b.Pkts {
		outs = append(outs, b.Pkts[i].OutPort)
	}
	if want := []uint16{1, 2, 0}; !slices.Equal(outs, want) {
		t.Fatalf("packets leave by ports %v, want %v", outs, want)
	}
}

// FuzzGraph sends any bytes as a packet through parse and a bridge with every
// kind of port. Nothing may panic, every packet has a port or a reason, none
// goes back, and frames are not lost.
func FuzzGraph(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x08\x00E"), uint8(0))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x81\x00\x00\x0a\x81\x00\x00\x0b\x08\x06"), uint8(1))
	f.Add([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xa8\xe0\x00"), uint8(2))
	f.Add([]byte{}, uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, in uint8) {
		if len(data) > 1500 {
			return
		}
		env := testEnv()
		env.Ports = append(env.Ports, pipeline.Port{Name: "p3"})
		bridge := l2.DefaultConfig()
		bridge.Ports = []l2.Port{{Port: "p1", Access: 10}, {Port: "p2", Trunk: []int{10, 11}}, {Port: "p3", Trunk: []int{11}, Native: 10}}
		chain, err := Build([]string{"parse", "l2"}, map[string]any{"l2": &bridge}, env)
		if err != nil {
			t.Fatal(err)
		}
		Inline(chain)
		g := pipeline.NewGraph(chain, 0)
		b := testBatch(t, 0)
		addr, _ := b.Frames.AllocOne()
		p := b.Append()
		p.Addr, p.InPort = addr+256, uint16(in%4)
		p.Len = uint32(copy(b.Mem[p.Addr:], data))
		p.WireLen = p.Len
		g.Run(b)
		dropped := 0
		for i := range b.Pkts {
			p := &b.Pkts[i]
			if p.Reason != 0 {
				dropped++
			} else if int(p.OutPort) >= len(env.Ports) || p.OutPort == p.InPort {
				t.Errorf("from port %d to %d", p.InPort, p.OutPort)
			}
		}
		if dropped != b.Dropped || len(b.Pkts) != 2+b.Copied {
			t.Errorf("%d packets, %d dropped, counted %d, %d copies", len(b.Pkts), dropped, b.Dropped, b.Copied)
		}
	})
}

// BenchmarkGraph is the packet path's cost per packet with no port around it.
func BenchmarkGraph(b *testing.B) {
	for _, names := range [][]string{{"parse", "patch"}, {"parse", "l2"}} {
		b.Run(strings.Join(names, ","), func(b *testing.B) {
			chain, err := Build(names, map[string]any{
				"patch": &patch.Config{Pairs: [][2]string{{"p0", "p1"}}},
			}, testEnv())
			if err != nil {
				b.Fatal(err)
			}
			Inline(chain)
			g := pipeline.NewGraph(chain, 0)
			batch := testBatch(b, 0)
			batch.Now = 1e9
			addresses := []string{
				"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01",
				"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02",
			}
			g.Run(batch) // learns the one
			release(batch)
			addPacket(b, batch, 1, addresses[1])
			g.Run(batch) // and the other
			release(batch)
			for i := range packet.BatchSize {
				addPacket(b, batch, uint16(i%2), addresses[i%2])
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Run(batch)
			}
			if batch.Dropped != 0 || len(batch.Pkts) != packet.BatchSize {
				b.Fatalf("%d packets, %d dropped", len(batch.Pkts), batch.Dropped)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/packet.BatchSize, "ns/packet")
		})
	}
}

func testEnv() pipeline.Env {
	return pipeline.Env{Name: "s1", ID: 1, Workers: 1, Ports: []pipeline.Port{
		{Name: "p0", MaxFrame: 1514}, {Name: "p1", MaxFrame: 1514}, {Name: "p2", MaxFrame: 1514},
	}}
}

// testBatch returns a batch with one UDP packet from port in.
func testBatch(t testing.TB, in uint16) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 256, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	b := packet.NewBatch(pool.NewCache(), 4*packet.BatchSize)
	addPacket(t, b, in, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01")
	return b
}

func addPacket(t testing.TB, b *packet.Batch, in uint16, addresses string) {
	t.Helper()
	const rest = "\x08\x00" +
		"\x45\x00\x00\x2e\x00\x01\x40\x00\x40\x11\x26\xbc\x0a\x00\x00\x01\x0a\x00\x00\x02" +
		"\x04\xd2\x16\x2e\x00\x1a\x00\x00" + "eighteen bytes data"
	addr, ok := b.Frames.AllocOne()
	if !ok {
		t.Fatal("no frame")
	}
	p := b.Append()
	p.Addr, p.InPort = addr+256, in
	p.Len = uint32(copy(b.Mem[p.Addr:], addresses+rest[:48]))
	p.WireLen = p.Len
}

func release(b *packet.Batch) {
	for i := range b.Pkts {
		b.Frames.FreePacket(&b.Pkts[i])
	}
	b.Reset()
}

// TestEdgePortsAreHostPorts: where PINT begins and ends, DiSketch knows hosts, unless it
// names them itself or PINT is not in the graph.
func TestEdgePortsAreHostPorts(t *testing.T) {
	env := pipeline.Env{Name: "s1", ID: 1, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}}
	edge := pint.DefaultConfig()
	edge.Edge = []string{"p0", "p2"}
	for _, c := range []struct {
		graph []string
		own   []string
		want  []string
	}{
		{[]string{"parse", "l2", "disketch", "pint"}, nil, []string{"p0", "p2"}},
		{[]string{"parse", "l2", "disketch", "pint"}, []string{"p1"}, []string{"p1"}},
		{[]string{"parse", "l2", "disketch"}, nil, nil},
	} {
		d := disketch.DefaultConfig()
		d.HostPorts = c.own
		chain, err := Build(c.graph, map[string]any{"pint": &edge, "disketch": &d}, env)
		if err != nil {
			t.Fatal(err)
		}
		if got := chain[2].Module.(*disketch.Module).HostPorts(); !slices.Equal(got, c.want) {
			t.Errorf("graph %v, own %v: hosts are behind %v, want %v", c.graph, c.own, got, c.want)
		}
	}
}
