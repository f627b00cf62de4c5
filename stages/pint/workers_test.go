package pint

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline"
)

// twoWorkers replaces a chain's sink by one of two workers. The test's chain uses
// the first one's stage; use changes that.
func twoWorkers(t *testing.T, n *testNetwork) (use func(w int)) {
	t.Helper()
	c := DefaultConfig()
	c.Edge = []string{"p1"}
	last := n.nodes[len(n.nodes)-1]
	m, err := New(c, pipeline.Env{ID: uint32(len(n.nodes)), Workers: 2, Ports: []pipeline.Port{{Name: "p0", MaxFrame: largeFrame}, {Name: "p1", MaxFrame: largeFrame}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Listen()
	last.module = m
	return func(w int) { last.stage = m.Stage(w).(*stage) }
}

// TestTwoWorkers: a flow whose packets two workers of the sink receive is one
// flow, though the digests of the one worker are read behind those of the other. Where the
// path changes in between, old and new may come in turns, but no path is reported that
// never was.
func TestTwoWorkers(t *testing.T) {
	n := newChain(t, 5, DefaultConfig(), largeFrame)
	use := twoWorkers(t, n)
	r := rand.New(rand.NewPCG(11, 11))
	send := func(packets int) {
		for range packets {
			use(r.IntN(2))
			n.through([][]byte{ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(1, 2, r.Uint32(), random(r, 30))))}, func(int) int64 { return 1000 })
		}
	}
	right := [][]uint64{{1, 2, 3, 4, 5}, {1, 2, 33, 4, 5}}
	check := func(packets, changes uint64, path []uint64) {
		t.Helper()
		p := n.paths()
		if len(p) != 1 || !p[0].Certain || p[0].Packets > packets || p[0].Changes > changes || !slices.Equal(p[0].numbers, path) {
			t.Fatalf("%+v", p)
		}
	}
	send(200)
	check(200, 0, right[0])
	send(60)
	n.nodes[2] = newNode(t, 33, DefaultConfig(), largeFrame)
	send(200) // both paths wait in both rings
	check(460, 3, right[1])
	checkSum(t, n.sink(), 460)
	if c := counts(n.sink()); c["exported_digests_total"] != 460 || c["lost_records_total"] != 0 {
		t.Errorf("%v", c)
	}
}
