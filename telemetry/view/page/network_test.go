package page

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// The network of the tests: four leaves with a host each, two spines, and every leaf
// joined to both.
//
//	 s5     s6
//	 │╲ ... ╱│
//	s1 s2 s3 s4
//	h1 h2 h3 h4
const (
	leaves, spines = 4, 2
	epochBits      = 32
	firstEpoch     = 442_000_000 // some day of the year 2030
	flowSeed       = 5
	linkSpeed      = 10_000_000
)

// graph is a network: switches from number 1 on, of which edges have a host each.
type graph struct {
	switches uint32
	edges    []uint32    // by which flows enter and leave, in their order
	links    [][2]uint32 // pairs of switches; 0 stands for the host of the other end
	near     [][]uint32  // neighbours of a switch by number, sorted; those of edges begin with 0
	measured bool        // each end of each link has measurement points of LDS
}

// newGraph joins switches by lines; hosts: those of edges are drawn.
func newGraph(switches uint32, lines [][2]uint32, edges []uint32, hosts bool) *graph {
	g := &graph{switches: switches, edges: edges, near: make([][]uint32, switches+1), measured: switches <= 50}
	for _, sw := range edges {
		g.near[sw] = []uint32{0}
		if hosts {
			g.links = append(g.links, [2]uint32{0, sw})
		}
	}
	for _, l := range lines {
		g.links = append(g.links, l)
		g.near[l[0]], g.near[l[1]] = append(g.near[l[0]], l[1]), append(g.near[l[1]], l[0])
	}
	for _, near := range g.near {
		slices.Sort(near)
	}
	return g
}

// leafSpine is the network of the tests.
var leafSpine = func() *graph {
	var lines [][2]uint32
	var edges []uint32
	for leaf := uint32(1); leaf <= leaves; leaf++ {
		edges = append(edges, leaf)
		for spine := uint32(leaves + 1); spine <= leaves+spines; spine++ {
			lines = append(lines, [2]uint32{leaf, spine})
		}
	}
	return newGraph(leaves+spines, lines, edges, true)
}()

// ends are the indices of a flow's edges.
func (g *graph) ends(flow int) (from, to int) {
	n := len(g.edges)
	return flow % n, (flow + 1 + flow/n%(n-1)) % n
}

// distances are the hops from each switch to one of them.
func (g *graph) distances(to uint32) []int {
	d := make([]int, g.switches+1)
	for queue := []uint32{to}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g.near[queue[0]] {
			if next != 0 && next != to && d[next] == 0 {
				d[next] = d[queue[0]] + 1
				queue = append(queue, next)
			}
		}
	}
	return d
}

// way is which switches a flow passes: a shortest path, of which there may be several.
func (g *graph) way(flow int) []uint32 {
	from, to := g.ends(flow)
	d := g.distances(g.edges[to])
	path := []uint32{g.edges[from]}
	for sw := path[0]; sw != g.edges[to]; {
		nearer := slices.DeleteFunc(slices.Clone(g.near[sw]), func(n uint32) bool { return n == 0 || d[n] != d[sw]-1 })
		sw = nearer[flow/len(g.edges)%len(nearer)]
		path = append(path, sw)
	}
	return path
}

// key is the key of a flow: from one edge's host to another's.
func (g *graph) key(flow int) query.Key {
	from, to := g.ends(flow)
	k := query.Key{Version: 4, Proto: 17, SrcPort: uint16(1024 + flow%60_000), DstPort: uint16(7000 + flow/60_000)}
	if flow%3 == 0 {
		k.Proto = 6
	}
	k.Src, k.Dst = [16]byte{10, byte((from + 1) >> 8), byte(from + 1), 2}, [16]byte{10, byte((to + 1) >> 8), byte(to + 1), 2}
	return k
}

// portOf is the number of the port towards a neighbour, 0: the host.
func (g *graph) portOf(sw, far uint32) uint32 { return uint32(slices.Index(g.near[sw], far)) }

// scene is what the network carries.
type scene struct {
	*graph
	names           []string // by number
	epochs          uint64
	flows           int
	packetsPerEpoch int
	sampleSize      int
	silent          uint32        // of whom nothing comes after half of the time
	unlinked        bool          // the collector was told of no links
	idle            time.Duration // for which there was no traffic, by the collector's clock
}

func defaultScene() scene {
	return scene{graph: leafSpine, epochs: 20, flows: 200, packetsPerEpoch: 1200, sampleSize: 400, names: numbered(leafSpine)}
}

// numbered names switches by their numbers.
func numbered(g *graph) (names []string) {
	for i := range g.switches + 1 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	return names
}

// world holds what the switches of a scene measure, by the code that switches run.
type world struct {
	scene
	t     testing.TB
	rand  *rand.Rand
	store *store.Store
	plan  *encode.Encoder

	ports    map[[2]uint32]*status.Port   // by switch and neighbour; 0 is the host
	digests  map[uint32]*pint.DigestBatch // by edge
	ways     [][]uint32                   // of the flows
	overruns uint64
}

// counters are what one epoch of a switch is counted in.
type counters struct {
	sample, flows *oblivious.Sampler
	fragment      *disketch.Counter
	in, out       map[uint32]*lds.Point // by neighbour
}

// newWorld runs the scene's packets through samplers, fragments, measurement points and the encoder of
// digests, and puts the records into a store.
func newWorld(t testing.TB, c scene) *world {
	t.Helper()
	w := &world{scene: c, t: t, rand: rand.New(rand.NewPCG(7, 8)), store: &store.Store{}, ports: map[[2]uint32]*status.Port{}, digests: map[uint32]*pint.DigestBatch{}}
	for i := range c.flows {
		w.ways = append(w.ways, c.way(i))
	}
	var err error
	if w.plan, err = plan.Default().Compile(); err != nil {
		t.Fatal(err)
	}
	for sw := uint32(1); sw <= c.switches; sw++ {
		for _, far := range c.near[sw] {
			w.ports[[2]uint32{sw, far}] = &status.Port{Number: c.portOf(sw, far), Name: fmt.Sprintf("p%d", c.portOf(sw, far)), Mode: "xsk, copy", Up: true, Speed: linkSpeed}
		}
	}
	for _, sw := range c.edges {
		w.digests[sw] = &pint.DigestBatch{}
	}
	w.writeStatuses(0)
	for epoch := range c.epochs {
		w.runEpoch(epoch)
	}
	w.store.Sort()
	w.store.Freeze() // as views are
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newCounters(sw uint32, epoch uint64) *counters {
	c := &counters{in: map[uint32]*lds.Point{}, out: map[uint32]*lds.Point{}}
	var err error
	c.sample, err = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: w.sampleSize})
	w.check(err)
	c.flows, err = oblivious.NewSampler(oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Flows, Size: w.sampleSize})
	w.check(err)
	f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.UnivMon, Memory: 1 << 14, Epochs: epochBits, Target: 1})
	w.check(err)
	c.fragment, err = f.NewCounter()
	w.check(err)
	c.fragment.Begin(f.Begin(epoch), 0)
	if !w.measured {
		return c
	}
	for _, far := range w.near[sw] {
		if far == 0 {
			continue
		}
		for _, points := range []map[uint32]*lds.Point{c.in, c.out} {
			p, err := lds.NewPoint(lds.Config{Rows: 4, Columns: 300, Virtual: 3, IntervalNs: 1 << epochBits, Samples: 200, LostFlows: 100, Seed: 1})
			w.check(err)
			p.Begin(int64(epoch))
			points[far] = p
		}
	}
	return c
}

func (w *world) runEpoch(number uint64) {
	epoch := firstEpoch + number
	all := map[uint32]*counters{}
	for sw := uint32(1); sw <= w.switches; sw++ {
		all[sw] = w.newCounters(sw, epoch)
	}
	// The load swings, so that there is something to see.
	packets := int(float64(w.packetsPerEpoch) * (1 + 0.45*math.Sin(float64(number)/6)))
	for i := range packets {
		at := int64(epoch)<<epochBits + int64(i)*(1<<epochBits)/int64(packets)
		flow := int(math.Pow(float64(w.flows), w.rand.Float64())) - 1
		if i < w.flows && number == 0 {
			flow = i // each flow occurs
		}
		w.pass(all, flow, at)
	}
	start := int64(epoch) << epochBits
	for sw := uint32(1); sw <= w.switches; sw++ {
		if sw == w.silent && number > w.epochs/2 {
			continue
		}
		w.writeCounters(sw, start, all[sw])
	}
	for _, edge := range w.edges {
		w.writeDigests(edge, start)
	}
	w.writeStatuses(number + 1)
}

// pass sends one packet along its way.
func (w *world) pass(all map[uint32]*counters, flow int, at int64) {
	k, id, length := w.key(flow), w.rand.Uint64(), uint32(64+w.rand.IntN(1400))
	path, digest := w.ways[flow], uint64(0)
	for hop, sw := range path {
		before, behind := uint32(0), uint32(0)
		if hop > 0 {
			before = path[hop-1]
		}
		if hop+1 < len(path) {
			behind = path[hop+1]
		}
		c := all[sw]
		if p := c.in[before]; p != nil {
			p.Add(query.Hash(hash.XX, k, 0), id, at, length)
			p.Name(query.Hash(hash.XX, k, 0), nameOf(&k))
		}
		c.sample.Add(id, length, &k)
		c.flows.Add(query.Hash(hash.XX, k, 77), 1, &k)
		c.fragment.Add((&query.Engine{FlowSeed: flowSeed}).FlowID(hash.XX, k), 1, false)
		latency := int64(20_000 * float64(1+(sw-1)%6) * math.Exp(w.rand.NormFloat64()*0.6))
		at += latency
		var v pint.Observed
		v[pint.SwitchID], v[pint.HopLatency], v[pint.EgressUtilisation] = uint64(sw), uint64(latency), pint.UtilisationOne/4
		digest = w.plan.Encode(id, hop+1, digest, &v)
		if hop == 0 && behind != 0 && w.rand.IntN(1000) == 0 {
			if p := c.out[behind]; p != nil {
				p.Add(query.Hash(hash.XX, k, 0), id, at, length)
				p.Name(query.Hash(hash.XX, k, 0), nameOf(&k))
			}
			return // lost on the cable
		}
		if p := c.out[behind]; p != nil {
			p.Add(query.Hash(hash.XX, k, 0), id, at, length)
			p.Name(query.Hash(hash.XX, k, 0), nameOf(&k))
		}
		at += 3000 + 1000*int64((sw+behind)%5) // of the cable, the same both ways
		w.count(sw, before, behind, length)
	}
	b := w.digests[path[len(path)-1]]
	b.Records = append(b.Records, pint.Record{Flow: pint.FlowKey(k), ID: id, Digest: digest, Plan: w.plan.Plan(), Hops: uint8(len(path)), TimeNs: uint64(at)})
}

// nameOf is the name of a flow of IPv4, by which losses name it.
func nameOf(k *query.Key) lds.FlowName {
	return lds.FlowName{
		Addresses: uint64(binary.LittleEndian.Uint32(k.Src[:])) | uint64(binary.LittleEndian.Uint32(k.Dst[:]))<<32,
		Ports:     uint64(bits.ReverseBytes16(k.SrcPort)) | uint64(bits.ReverseBytes16(k.DstPort))<<16 | uint64(k.Proto)<<32,
	}
}

func (w *world) count(sw, before, behind uint32, length uint32) {
	in, out := w.ports[[2]uint32{sw, before}], w.ports[[2]uint32{sw, behind}]
	in.Received++
	in.ReceivedBytes += uint64(length)
	out.Transmitted++
	out.TransmittedBytes += uint64(length)
}

func (w *world) write(h record.Header, body func([]byte) ([]byte, error)) {
	w.t.Helper()
	h.Name = w.names[h.Switch]
	b, err := record.Append(nil, &h, body)
	w.check(err)
	w.store.AddBytes(b)
}

func (w *world) writeCounters(sw uint32, start int64, c *counters) {
	h := record.Header{Switch: sw, Start: start, Span: 1 << epochBits, Kind: record.Oblivious}
	if sw == 2 && start == (firstEpoch+5)<<epochBits {
		h.Partial, h.Missed = true, 12
	}
	w.write(h, c.sample.Sample().AppendBinary)
	h.Instance = 1
	w.write(h, c.flows.Sample().AppendBinary)
	h.Kind, h.Instance = record.DiSketch, 0
	w.write(h, c.fragment.Record().AppendBinary)
	h.Kind = record.LDS
	for far, p := range c.in {
		h.Instance = uint16(2 * w.portOf(sw, far))
		w.write(h, p.AppendBinary)
	}
	for far, p := range c.out {
		h.Instance = uint16(2*w.portOf(sw, far) + 1)
		w.write(h, p.AppendBinary)
	}
}

// writeDigests sends what a sink took off packets, each partition by itself.
func (w *world) writeDigests(leaf uint32, start int64) {
	var parts [record.Partitions][]pint.Record
	for _, r := range w.digests[leaf].Records {
		n := r.Flow.Partition(record.Partitions)
		parts[n] = append(parts[n], r)
	}
	w.digests[leaf].Records = nil
	for n, records := range parts {
		if len(records) == 0 {
			continue
		}
		b := pint.DigestBatch{Boot: uint64(leaf), Sequence: uint64(start) >> epochBits, Plan: w.plan.Plan(), Records: records}
		h := record.Header{Kind: record.PINT, Switch: leaf, Instance: uint16(n), Plan: b.Plan, Start: start, Span: 1 << epochBits}
		w.write(h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, &b), nil })
	}
}

func (w *world) writeStatuses(number uint64) {
	at := int64(firstEpoch+number) << epochBits
	w.overruns += number % 2
	for sw := uint32(1); sw <= w.switches; sw++ {
		if sw == w.silent && number > w.epochs/2 {
			continue
		}
		s := status.Status{
			Time: at, Boot: firstEpoch<<epochBits - 3600e9, Program: "v1.0.0",
			Clock: status.Clock{Source: "CLOCK_TAI", Synchronised: true, OffsetNs: int64(sw) * 130, MaxErrorNs: 9_000, ErrorNs: 400, TAIOffset: 37},
			Spool: status.Spool{Bytes: uint64(sw) * 3000, Bound: 1 << 30, Connected: true},
			Measurements: []status.Measurement{
				{Stage: "oblivious", Epochs: number}, {Stage: "disketch", Part: "0", Epochs: number}, {Stage: "lds_ingress", Epochs: number},
			},
			Exports: []status.Export{{Kind: "oblivious", Made: 2 * number, Sent: 2 * number}, {Kind: "status", Made: number, Sent: number}},
			Workers: []status.Worker{{CPUNs: number * 1e9, Batches: number * 300, Packets: number * 3000, Rounds: number * 900, Sleeps: number}},
		}
		if sw == 3 {
			s.Measurements[1].Overruns, s.Measurements[1].Missed = w.overruns, 40*w.overruns
		}
		for _, far := range w.near[sw] {
			p := *w.ports[[2]uint32{sw, far}]
			if sw == 6 && far == 1 {
				p.Backlog = 37
			}
			s.Ports = append(s.Ports, p)
		}
		w.write(record.Header{Kind: record.Status, Switch: sw, Start: at, Span: 1 << epochBits}, s.AppendBinary)
	}
}

func (w *world) engine() *query.Engine {
	e := &query.Engine{Store: w.store, FlowSeed: flowSeed, Paths: query.PathFunc(func(k query.Key) []uint32 {
		for i := range w.flows {
			if w.key(i) == k {
				return w.ways[i]
			}
		}
		return nil
	})}
	if w.unlinked {
		return e
	}
	for _, l := range w.links {
		end := func(i int) string {
			if l[i] == 0 {
				return fmt.Sprintf("h%d", l[1-i])
			}
			return fmt.Sprintf("%s:p%d", w.names[l[i]], w.portOf(l[i], l[1-i]))
		}
		link := query.Link{Ends: [2]string{end(0), end(1)}, Speed: linkSpeed}
		if l == [2]uint32{1, 5} {
			link.Speed = linkSpeed / 10
		}
		e.Links = append(e.Links, link)
	}
	return e
}

// usual is the world of the default scene, for all tests that change nothing of it.
func usual(t testing.TB) *world {
	t.Helper()
	once.Do(func() { theUsual = newWorld(t, defaultScene()) })
	if theUsual == nil {
		t.Fatal("the network of the tests could not be made")
	}
	return theUsual
}

var (
	once     sync.Once
	theUsual *world
)

// traffic is when the newest record ended that counted a packet.
func (w *world) traffic() int64 {
	if len(w.store.Points) == 0 {
		return 0
	}
	return int64(firstEpoch+w.epochs) << epochBits
}

// serve serves the page beside the API, as the collector does.
func (w *world) serve(t testing.TB) *httptest.Server {
	e := w.engine()
	if w.idle != 0 {
		e.Now = int64(firstEpoch+w.epochs)<<epochBits + 800e6 + int64(w.idle)
	}
	end := int64(firstEpoch+w.epochs) << epochBits
	path, calls := api.NewHandler(api.Config{
		Ask: e.Ask,
		Collector: func(context.Context) (*api.CollectorStatus, error) {
			return &api.CollectorStatus{
				Name: "test", Version: "v1.0.0", StartedNs: end - 3600e9, TimeNs: end + 800e6 + int64(w.idle),
				Stream: &api.StreamStatus{Name: "WEIR", Embedded: true, Connected: true, CaughtUp: true, Messages: w.store.Counts().Records, Bytes: 9 << 20},
				Store:  &api.StoreStatus{Bytes: 40 << 20, MaxBytes: 1 << 30, FromNs: firstEpoch << epochBits, ToNs: end, TrafficNs: w.traffic()},
			}, nil
		},
	})
	mux := http.NewServeMux()
	mux.Handle(path, calls)
	mux.Handle("/", Handler(Config{}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}
