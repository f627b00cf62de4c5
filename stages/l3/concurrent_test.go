package l3

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// TestWorkersAndControl: four workers route, look for neighbours and hear them,
// while control changes routes and reads everything. Each worker's books add up,
// no frame is lost, and what a worker holds another one may send.
func TestWorkersAndControl(t *testing.T) {
	const workers, rounds = 4, 1500
	m, err := New(dynamicConfig(), testEnv(workers))
	if err != nil {
		t.Fatal(err)
	}
	first, err := parse.New(parse.DefaultConfig(), testEnv(workers))
	if err != nil {
		t.Fatal(err)
	}
	chain := []pipeline.Named{{Name: "parse", Module: first}, {Name: "l3", Module: m}}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	all := seeds(t)
	answers := [][]byte{
		arpFrame(t, ownMAC(1), hostMAC, 2, "10.0.2.2", ownMAC(1), "10.0.2.1"),
		arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.2.2", make([]byte, 6), "10.0.2.1"),
	}
	var running sync.WaitGroup
	benches := make([]*bench, workers)
	for w := range workers {
		cache := pool.NewCache()
		cache.Bound(512)
		b := &bench{TB: t, module: m, graph: pipeline.NewGraph(chain, w), cache: cache,
			batch: packet.NewBatch(cache, 4*packet.BatchSize), now: 1e18, got: tally{reasons: map[string]int{}}, shared: true}
		benches[w] = b
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 5))
			for range rounds {
				var batch []in
				for range 1 + r.IntN(8) {
					batch = append(batch, in{0, all[r.IntN(len(all))]})
				}
				if r.IntN(4) == 0 {
					batch = append(batch, in{1, answers[r.IntN(2)]})
				}
				b.run(batch...)
				b.now += int64(r.IntN(int(40 * time.Millisecond)))
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	routes := dynamicConfig().Routes
	for k := 0; ; k++ {
		select {
		case <-done:
		default:
			set := routes
			if k%2 == 1 {
				set = append(routes[:len(routes):len(routes)], Route{Prefix: "10.0.3.9/32", Via: []string{"10.0.2.2"}})
			}
			if err := m.setRoutes(set); err != nil {
				t.Fatal(err)
			}
			m.Neighbours()
			m.Routes()
			m.Counters()
			time.Sleep(time.Millisecond)
			continue
		}
		break
	}
	var sum tally
	for _, b := range benches {
		sum.forwarded += b.got.forwarded
		sum.copiesOut += b.got.copiesOut
	}
	if c := pool.Census(); c.Faults != 0 || c.Free != c.Frames {
		t.Errorf("frames: %+v", c)
	}
	waiting := 0
	for _, n := range m.Neighbours() {
		waiting += n.Waiting
	}
	if len(m.arena.free)+waiting != arenaSlots {
		t.Errorf("%d slots are free and %d in use, of %d", len(m.arena.free), waiting, arenaSlots)
	}
	if sum.forwarded == 0 || sum.copiesOut == 0 {
		t.Errorf("%+v", sum)
	}
}

// TestAnswerAtAnotherWorker: what one worker holds, the one that hears the answer
// sends, and the books of both add up.
func TestAnswerAtAnotherWorker(t *testing.T) {
	m, err := New(dynamicConfig(), testEnv(2))
	if err != nil {
		t.Fatal(err)
	}
	first, err := parse.New(parse.DefaultConfig(), testEnv(2))
	if err != nil {
		t.Fatal(err)
	}
	chain := []pipeline.Named{{Name: "parse", Module: first}, {Name: "l3", Module: m}}
	a, b := newBench(t, dynamicConfig()), newBench(t, dynamicConfig())
	a.graph, b.graph = pipeline.NewGraph(chain, 0), pipeline.NewGraph(chain, 1)
	packets := [][]byte{udp(t, "10.0.1.2", "10.9.8.7", 9, 1), udp(t, "10.0.1.2", "10.9.8.7", 9, 2)}
	if left := a.run(in{0, packets[0]}, in{0, packets[1]}); len(left) != 1 {
		t.Fatalf("%d packets left, want the request", len(left))
	}
	left := b.run(in{1, arpFrame(t, ownMAC(1), hostMAC, 2, "10.0.2.2", ownMAC(1), "10.0.2.1")})
	if len(left) != 2 || !left[0].copy || left[0].port != 1 || len(left[0].data) != len(packets[0]) || len(left[1].data) != len(packets[1]) {
		t.Fatalf("%+v left", left)
	}
	if got := a.one(0, packets[0]); got.port != 1 || got.copy {
		t.Errorf("%+v", got)
	}
	if a.got.consumed != 2 || b.got.copied != 2 {
		t.Errorf("%+v, %+v", a.got, b.got)
	}
}
